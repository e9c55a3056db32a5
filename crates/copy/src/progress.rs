//! Reports of a running copy.

use std::path::Path;

use crate::problem::Problem;

/// Is told what happens. Every method has a body that does nothing, and is called from many
/// threads.
pub trait Progress: Send + Sync {
    /// Something went wrong; the copy goes on with the rest.
    fn problem(&self, _problem: &Problem) {}

    /// An entry of the copy is complete.
    fn entry(&self, _target: &Path) {}

    /// `done` of `total` bytes are done; `total` is 0 until all sources are listed.
    ///
    /// Bytes that were there already count as done. With [`Verify::Reread`](crate::Verify::Reread)
    /// each byte counts twice: when written and when read again. Calls of several threads may
    /// overtake one another: the largest `done` is the newest.
    fn bytes(&self, _done: u64, _total: u64) {}

    /// Of the bytes done so far, `bytes` existed already.
    fn skipped(&self, _bytes: u64) {}

    /// Called when all copies are written and synced, before they are read again.
    fn rereading(&self) {}

    /// After a cancellation: this temporary file stays, so that the same copy can resume.
    fn kept(&self, _path: &Path) {}

    /// Whether to end before everything is copied; asked before each piece of a file. The copy then
    /// removes the files it has not finished, and keeps those it has.
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// Hears nothing: for callers that only want the [`Summary`](crate::Summary).
impl Progress for () {}
