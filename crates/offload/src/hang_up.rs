//! Closing what clients have sent something through.
//!
//! A client can send descriptors, and whoever closes a socket closes those that nobody has taken
//! out of it. The last close of a TCP connection with something left to send waits for as long as
//! the client has said (`SO_LINGER`), in the thread that closes it. Only a thread that ends does
//! not wait.
#![allow(unsafe_code)]

use std::sync::mpsc;

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Drops something with sockets of clients, and waits for nothing that is in them.
///
/// Where the system forbids a thread a table of descriptors of its own, it may have to wait.
pub(crate) fn hang_up(sockets: impl Sized) {
    let (copied, is_copied) = mpsc::channel::<()>();
    let (dropped, is_dropped) = mpsc::channel::<()>();
    // It has copies of all descriptors until it ends, so that this thread closes none for good.
    let keeper = move || {
        // SAFETY: this thread uses no descriptor.
        let _ = unsafe { unshare_unsafe(UnshareFlags::FILES) };
        drop(copied);
        let _ = is_dropped.recv();
    };
    let keeper = std::thread::Builder::new()
        .name("hang up".to_owned())
        .spawn(keeper);
    let _ = is_copied.recv();
    drop(sockets);
    drop(dropped);
    drop(keeper);
}
