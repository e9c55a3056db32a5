//! Removing what nobody needs, and keeping all the rest, whatever else happens meanwhile.

#[path = "../common/mod.rs"]
mod common;

mod basics;
mod faults;
mod late;
mod repair;
mod repair_snapshots;
