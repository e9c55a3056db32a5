//! Runs the real `tabane cp`, beside GNU cp, and kills it.

#![forbid(unsafe_code)]

mod beside;
#[path = "../../../store/tests/common/compare.rs"]
#[allow(dead_code)]
mod compare;
mod killed;
#[path = "../../../store/tests/common/tree.rs"]
#[allow(dead_code)]
mod tree;
