//! Bytes out of snapshots.

pub mod download;
pub mod preview;
pub mod stream;
