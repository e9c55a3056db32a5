//! The access of an index to its repository.

use std::collections::{BTreeSet, HashSet};

use tabane_storage::Id;

use crate::contents::IndexSegment;
use crate::error::Error;
use crate::pages::PageKeys;

/// IDs of the removals, and IDs of the packs that they condemn.
pub type Removed = (BTreeSet<Id>, HashSet<Id>);

/// The objects of an index, and the packs that they name.
pub trait IndexObjects {
    /// Error of reading an object.
    type Error: From<Error>;

    /// Names the repository.
    fn repository(&self) -> Id;

    /// The part of the repository's index that these objects are, if it has several.
    fn part(&self) -> Option<String> {
        None
    }

    /// The keys of cached files, which no other repository has.
    fn keys(&self) -> &dyn PageKeys;

    /// The removals that are there now.
    ///
    /// # Errors
    /// When they cannot be read.
    fn removals(&self) -> Result<Removed, Self::Error>;

    /// The objects of the index that are there now, none of them missed because another replaced it
    /// meanwhile.
    ///
    /// # Errors
    /// When they cannot be listed.
    fn list(&self) -> Result<Vec<Id>, Self::Error>;

    /// Reads objects of the index, several at a time, and hands each, or why it cannot be read, to
    /// `take`, in any order.
    ///
    /// # Errors
    /// The first of `take`; then nothing more is read.
    fn read<E>(
        &self,
        objects: &[Id],
        take: impl FnMut(Id, Result<IndexSegment, Self::Error>) -> Result<(), E>,
    ) -> Result<(), E>;

    /// Whether each of these packs is there.
    ///
    /// # Errors
    /// When that cannot be told.
    fn have_packs(&self, packs: &[Id]) -> Result<Vec<bool>, Self::Error>;

    /// All packs that are there.
    ///
    /// # Errors
    /// When they cannot be listed.
    fn packs(&self) -> Result<HashSet<Id>, Self::Error>;

    /// If the error says that an object is no longer there: which, in words. Another list will not
    /// have it.
    fn vanished(error: &Self::Error) -> Option<String>;
}
