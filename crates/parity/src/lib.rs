#![doc = include_str!("../README.md")]
//!
//! # Where to look
//!
//! - [`encode_plan`], [`repair_plan`], [`recover_plan`] and [`update_plan`] say what is computed
//!   from what, as data;
//!   [`encode`], [`repair`] and [`update`] do it.
//! - [`schedule`] says how parities arise while data are on their way: which node sends what to
//!   which.

#![forbid(unsafe_code)]

mod encode;
mod error;
mod gf2;
mod layout;
mod plan;
mod repair;
pub mod schedule;
mod stripe;

pub use encode::encode;
pub use error::Error;
pub use layout::{Content, Layout};
pub use plan::{Plan, Step, encode_plan, update_plan};
pub use repair::{fewest_reads, recover_plan, repair_plan};
pub use stripe::{Buffer, repair, update};
