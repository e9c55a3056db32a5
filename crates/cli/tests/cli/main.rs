//! Runs the real binary on real directories.

#![forbid(unsafe_code)]

mod automation;
mod bad_input;
mod bed;
mod config;
mod documents;
mod everyday;
mod forget;
#[path = "../../../store/tests/common/gateway.rs"]
mod gateway;
mod object_store;
mod parity;
mod process;
mod prune;
mod repair;
mod scripting;
