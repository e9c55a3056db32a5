#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod access;
mod answer;
mod app;
mod asked;
mod assets;
mod command;
mod content;
mod dav;
mod encoding;
mod events;
mod form;
mod jobs;
mod look;
mod pages;
mod places;
mod rhythm;
mod routes;
mod server;

pub use access::Secret;
pub use places::{Backup, OpenNodes, Place, Set};
pub use server::{Options, Server};
pub use tabane_http::tls::Tls;

/// Readers of what browsers and programs send, for the fuzzer. They may change at any time.
#[doc(hidden)]
pub mod parts {
    pub use crate::dav::PropertiesWanted;
    pub use crate::encoding::{Fields, parse_path, path as path_text};
}
