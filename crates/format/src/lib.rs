#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod chunker;
pub mod compress;
pub mod config;
pub mod copies;
pub mod crypto;
pub mod entry;
mod error;
pub mod forgotten;
pub mod host;
pub mod key;
pub mod key_text;
pub mod keyring;
pub mod owners;
pub mod pack;
pub mod recipient;
pub mod removal;
pub mod snapshot;
pub mod tally;
pub mod tree;
pub mod writer_key;

pub use error::{Error, Result};
