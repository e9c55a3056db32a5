//! Runs the real binary on real directories.

#![forbid(unsafe_code)]

mod automation;
mod bad_input;
mod bed;
mod config;
mod documents;
mod everyday;
mod forget;
mod parity;
mod process;
mod prune;
mod repair;
mod scripting;
