//! What all repairs share: who is told, and that a prune and a repair exclude each other.

use std::sync::Arc;

use crate::access::client::Presence;
use crate::access::repository::Repository;
use crate::error::Result;
use crate::operations::prune;

/// Is told what happens.
pub trait Observer: Send + Sync {
    /// Something is worth knowing.
    fn note(&self, what: &str);

    /// So many packs were looked at, of so many.
    fn progress(&self, done: u64, total: u64);
}

/// Announces a repair; a prune and a repair exclude each other.
pub fn exclusive(repository: &Arc<Repository>, dry_run: bool) -> Result<Option<Presence>> {
    if dry_run {
        return Ok(None);
    }
    prune::announce(repository).map(Some)
}
