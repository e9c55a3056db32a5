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
