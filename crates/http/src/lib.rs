#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod body;
mod listener;
mod stall;
pub mod tls;

pub use body::{BodyError, collect};
pub use listener::{Limits, Listener, Peer};
