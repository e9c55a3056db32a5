//! The command from outside: one backup with each instruction set into one repository, and what
//! `make install` copies.

#![forbid(unsafe_code)]

#[path = "../cli/bed.rs"]
#[allow(dead_code)]
mod bed;
#[path = "../../../store/tests/common/compare.rs"]
#[allow(dead_code)]
mod compare;
mod install;
mod sets;
mod source;
#[path = "../../../store/tests/common/tree.rs"]
#[allow(dead_code)]
mod tree;
