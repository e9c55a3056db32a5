//! The offload service: hashes and CBC encryption of many processes, done side by side in SIMD
//! lanes.
//!
//! A process that hashes one message at a time leaves most of a core idle, and so do its
//! neighbours. Where more processes want a core than there are cores, each puts its message into
//! memory that it shares with the service, and sleeps; the service does what has gathered in one
//! bundle. Through the socket go the memory itself, once, and short notes: that a client is at work
//! again, and that it has a message for a thread of the service that sleeps.
//!
//! Clients are not trusted. Each has memory of its own; what all share they can only read; and no
//! thread of the service sleeps on memory that clients have mapped, since they could move it where
//! nobody wakes it.
//!
//! * `layout`: what lies where in that memory, and the first messages. `memory`: the memory, sealed
//!   and mapped.
//! * `client`: the side of a process that asks ([`Client`]). It goes on by itself whenever the
//!   service is not there.
//! * `server`: connections ([`Server`]). `hang_up`: how they are closed. `unit`: a thread a core
//!   that does bundles.
//! * `model`: when asking should be worth it. `trial`: when it is.
//! * `status`: what a server tells of itself.

#![deny(unsafe_code)]

mod client;
mod hang_up;
mod layout;
mod memory;
mod model;
mod server;
mod status;
/// What `tests/orders` of the models puts others in the place of, to choose the order of accesses.
mod sync {
    pub use std::sync::atomic;
    pub use std::thread;
    pub use std::time::Instant;

    pub use rustix::net::send;
    pub use rustix::thread::{futex, sched_getcpu};
    pub use rustix::time::clock_gettime;
}
#[cfg(test)]
mod tests;
mod trial;
mod unit;

pub use client::Client;
pub use layout::{MESSAGE_MAX, Task, VERSION};
pub use model::{Budget, Model};
pub use server::{Ask, Server, ServerOptions};
pub use status::{CardStatus, ClientStatus, Status, UnitStatus, status};
pub use trial::{Situation, Trials};
