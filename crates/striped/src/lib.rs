//! One repository over several targets, any two of which may be lost.
//!
//! Every object is stored in *shards* ([`container`]) of the same name, one a target: a large
//! object as a stripe of the code of [`tabane_parity`], of which each target holds the cells of one
//! role, a small one as whole copies on three targets. `docs/reference/striped.md` is for users,
//! `docs/reference/format.md` has every byte.
//!
//! A target that does not answer is put out of use, with one notice, and operations go on as long
//! as no more than two targets are missing. A node of a cluster is used again once it answers;
//! other targets stay out of use for the rest of the process. [`StripedStorage::heal`] brings a
//! target up to date when it is back.

#![forbid(unsafe_code)]

mod change;
pub mod cluster;
pub mod container;
mod decoded;
mod delete;
mod doubt;
mod drain;
mod get;
mod heal;
mod list;
mod marks;
mod numbers;
mod open;
mod pace;
mod place;
mod put;
mod read;
mod rebalance;
mod rebuild;
mod sender;
mod set;
pub mod set_file;
pub mod shard;
mod storage;
mod stripe_view;
mod striped;
mod survey;
mod tags;
mod targets;
mod unusable;

pub use container::is_container;
pub use heal::{HealOptions, HealReport};
pub use list::HAS_CHANGED;
pub use place::Place;
pub use rebalance::{RebalanceOptions, RebalanceReport};
pub use stripe_view::{PartState, StripePart, StripeView};
pub use striped::StripedStorage;
pub use survey::{Survey, TargetState};
