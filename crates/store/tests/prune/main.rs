//! Removing what nobody needs, and keeping all the rest, whatever else happens meanwhile.

#[path = "../common/mod.rs"]
mod common;

mod basics;
mod commit;
mod faults;
mod figures;
mod late;
mod presence;
mod repair;
mod repair_snapshots;
mod view;
