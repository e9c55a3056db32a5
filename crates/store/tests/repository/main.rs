//! A repository through the library: what is stored, what comes back, and what happens when
//! something fails.

#[path = "../common/mod.rs"]
mod common;

mod also_to;
mod cache;
mod cancel;
mod changing;
mod concurrent;
mod copy;
mod decode;
mod errors;
mod far;
mod faults;
mod file_reader;
mod flips;
mod format;
mod gone;
mod incremental;
mod index;
mod intruder;
mod kept;
mod kernel_files;
mod key_text;
mod lies;
mod memory;
mod packs;
mod restore_over;
mod round_trip;
mod second_reader;
mod selection;
mod sha1;
mod storage;
mod write_only;
