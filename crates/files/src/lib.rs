#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod beneath;
mod node;
pub mod read;
pub mod write;

pub use node::{HardLink, Kind, Node, Time, Xattr};
