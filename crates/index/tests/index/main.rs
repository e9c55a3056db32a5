//! What an index answers: from memory, from a cache on the disk, and from both.

#![forbid(unsafe_code)]

mod bed;
mod cache;
mod changes;
mod contents;
mod damage;
mod folders;
mod format;
mod many;
mod memory;
mod model;
mod order;
