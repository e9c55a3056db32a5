//! Repositories on simulated storage: many clients at once, and faults, as a seed decides.
//!
//! Clients, repository and sets are those of the program; storage and time are simulated. A
//! [`plan::Plan`] says what happens; [`run::run`] lets it happen, and says what was wrong.

#![forbid(unsafe_code)]

pub mod plan;
pub mod run;

mod aging;
mod client;
mod nodes;
mod server;
mod shrink;
mod target;
mod turns;
mod world;

pub use shrink::shrink;
