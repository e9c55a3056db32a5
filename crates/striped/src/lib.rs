//! One repository over several targets, any two of which may be lost.
//!
//! Every object is in *containers* of the same name, one a target: large ones as a stripe of the
//! code of [`tabane_parity`], of which each target holds the cells of one role, small ones as whole
//! copies on three targets. `docs/reference/striped.md` is for users, `docs/reference/format.md`
//! has every byte.
//!
//! A target that does not answer is left alone, with one notice, and everything goes on without it
//! as long as no more than two are missing: for the rest of the process, or until it answers again
//! if it is a node of a cluster. [`StripedStorage::heal`] brings it up to date when it is back.

#![forbid(unsafe_code)]

mod change;
pub mod cluster;
pub mod container;
mod decoded;
mod delete;
mod doubt;
mod get;
mod heal;
mod list;
mod open;
mod pace;
mod place;
mod put;
mod read;
mod rebuild;
mod sender;
mod set;
pub mod set_file;
mod storage;
mod striped;
mod survey;
mod targets;
mod unusable;

pub use container::is_container;
pub use heal::{HealOptions, HealReport};
pub use place::Place;
pub use striped::StripedStorage;
pub use survey::{Survey, TargetState};
