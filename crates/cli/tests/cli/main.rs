//! Runs the real binary on real directories.

#![forbid(unsafe_code)]

mod bad_input;
mod bed;
mod documents;
mod everyday;
mod forget;
mod parity;
mod process;
mod scripting;
