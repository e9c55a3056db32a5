//! The command from outside: one backup with each instruction set into one repository, and what
//! `make install` copies.

#![forbid(unsafe_code)]

#[path = "../cli/bed.rs"]
#[allow(dead_code)]
mod bed;
mod install;
mod sets;
mod source;
