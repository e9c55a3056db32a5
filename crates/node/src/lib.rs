//! A node of a cluster: it stores shards, and makes parities with the other nodes while data pass
//! through.
//!
//! [`authority`] makes the certificates by which clients and nodes know each other, [`Server`] is
//! the daemon. Their messages are in [`tabane_striped::cluster::wire`] and described in
//! `docs/reference/wire.md`.

#![forbid(unsafe_code)]

mod arrivals;
pub mod authority;
mod commit;
mod control;
mod counters;
mod door;
mod fabric;
mod hasty;
mod home;
mod metrics;
mod part;
mod scrub;
mod server;
mod session;
mod shared;
pub mod withdrawn;

pub use home::Home;
pub use scrub::ScrubOptions;
pub use server::{Server, ServerOptions};

use std::sync::{Mutex, MutexGuard};

/// Locks a mutex under which nothing panics.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic under this lock")
}
