#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod clients;
mod counters;
mod daemon;
mod metrics;
mod realm;
mod repository;
mod role;
mod scrub;
mod service;
pub mod settings;
mod stdio;
mod throttle;
mod watched;

pub use daemon::{Server, ServerOptions};
pub use realm::Realm;
pub use repository::Who;
pub use service::Service;
pub use stdio::{StdioOptions, serve_stdio};
pub use tabane_storage::Role;
