//! Runs the real `tabane cp`, beside GNU cp, and kills it.

#![forbid(unsafe_code)]

mod beside;
mod flags;
mod killed;
