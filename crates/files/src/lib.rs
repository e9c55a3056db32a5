#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod acl;
pub mod beneath;
mod entry;
pub mod flags;
pub mod read;
pub mod write;

pub use entry::{Entry, HardLink, Kind, Time, Xattr};
pub use flags::Flags;
