//! What README and the documentation say that the command does, and what it does.
//!
//! `UPDATE_DOCUMENTS=1 cargo test --test documents` (`make documents`) writes what the command
//! prints now into the pages.

#![forbid(unsafe_code)]

mod commands;
mod pages;
mod reference;
mod restic;

/// Whether the pages are to be written anew.
fn updates() -> bool {
    std::env::var_os("UPDATE_DOCUMENTS").is_some()
}
