//! What the tests and the laboratory of Tabane share: trees and files, comparisons of trees,
//! servers, faults.

#![deny(unsafe_code)]

pub mod browser;
pub mod compare;
pub mod compare_trees;
pub mod corpus;
#[cfg(feature = "store")]
pub mod crafted;
pub mod disk;
pub mod documents;
#[cfg(feature = "storage")]
pub mod far;
#[cfg(feature = "cluster")]
pub mod faults;
pub mod files;
pub mod gateway;
pub mod http;
pub mod line;
#[cfg(feature = "cluster")]
pub mod member;
#[cfg(feature = "storage")]
pub mod memory;
pub mod mount;
pub mod mutate;
#[cfg(feature = "cluster")]
pub mod network;
#[cfg(feature = "openssl")]
#[allow(unsafe_code, reason = "functions of C")]
pub mod openssl;
pub mod output;
#[cfg(feature = "store")]
pub mod parsers;
pub mod process;
pub mod progress;
pub mod random;
#[allow(unsafe_code, reason = "a call of the system without a safe wrapper")]
pub mod sandbox;
pub mod sshd;
#[cfg(feature = "storage")]
pub mod storage_suite;
pub mod tree;

use std::path::Path;

use tempfile::TempDir;

/// A directory in memory if there is room: tests that make thousands of files don't wait for a
/// disk.
pub fn scratch() -> TempDir {
    const ROOM_BYTES: u64 = 2 << 30;
    let memory = Path::new("/dev/shm");
    let room = rustix::fs::statvfs(memory).map(|stat| stat.f_bavail * stat.f_frsize);
    match room {
        Ok(room) if room >= ROOM_BYTES => {
            tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir())
        }
        _ => tempfile::tempdir(),
    }
    .expect("a directory for the test")
}

/// Whether this process is root's.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Prints loudly what a test leaves out, and why.
pub fn not_checked(what: &str, why: impl std::fmt::Display) {
    eprintln!("\n*** NOT CHECKED: {what}: {why}\n");
}
