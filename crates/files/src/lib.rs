//! What Linux keeps of a file besides its bytes: reading it, and giving it to another file.
//!
//! * [`Node`] says what a file, directory, link or device is; whoever keeps contents adds them as its parameter `C`.
//! * [`mod@read`] has what finds out: [`read::stat`], extended attributes, holes.
//! * [`mod@write`] has what makes files, and makes them what a [`Node`] says.
//! * [`beneath`] reaches paths of any length below a directory, and never leaves it.

#![forbid(unsafe_code)]

pub mod beneath;
mod node;
pub mod read;
pub mod write;

pub use node::{HardLink, Kind, Node, Time, Xattr};
