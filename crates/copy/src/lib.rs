#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod claim;
mod content;
mod directory;
mod file;
mod hash;
mod item;
mod link;
mod lock;
mod manifest;
mod operand;
mod options;
mod present;
mod problem;
mod progress;
mod record;
mod reread;
mod run;
mod sequence;
mod summary;
mod walk;

pub use options::{Meaning, Options, Verify};
pub use problem::{Action, Problem};
pub use progress::Progress;
pub use sequence::copy;
pub use summary::Summary;
pub use tabane_engine::{Algorithm, KeyRule};
