//! Mutual exclusion of repairs and prunes.

use crate::access::client::Presence;
use crate::access::repository::Repository;
use crate::operations::prune;
use tabane_format::Result;

/// Announces a repair; a prune and a repair exclude each other.
pub fn exclusive(repository: &Repository, dry_run: bool) -> Result<Option<Presence>> {
    if dry_run {
        return Ok(None);
    }
    prune::announce(repository).map(Some)
}
