//! Runs the real `tabane sum`, beside the programs that it takes the place of.

#![forbid(unsafe_code)]

mod algorithms;
mod beside;
mod check_files;
mod keys;
mod listing;
mod memory;
mod more;
mod options;
mod special;
mod streams;
