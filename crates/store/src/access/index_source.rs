//! The objects of the index, as [`tabane_index`] reads them.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;

use tabane_index::{IndexObjects, IndexSegment, PageKeys, Removed};
use tabane_storage::sync::try_each;
use tabane_storage::{Id, Name, ObjectKind, StorageErrorKind};

use crate::access::repository::Repository;
use tabane_format::crypto::HEADER_LEN;
use tabane_format::removal::Removals;
use tabane_format::{Error, Result};

/// Threads that read objects of the index, each of which may take some MB of memory.
const INDEX_READERS_MAX: usize = 16;

/// Objects of the index, verified ones or others.
pub struct IndexSource<'a> {
    repository: &'a Repository,
    kind: ObjectKind,
    removals: Removed,
}

impl<'a> IndexSource<'a> {
    /// The objects of this kind; the removals were read before.
    pub fn new(repository: &'a Repository, kind: ObjectKind, removals: &Removals) -> Self {
        Self {
            repository,
            kind,
            removals: (removals.names(), removals.condemned()),
        }
    }
}

/// Reads an object of the index. One that does not count names no packs: it was not made with a
/// full key, or is of another writer.
///
/// # Errors
/// When the storage fails or the object is damaged.
pub fn packs_that_count(repository: &Repository, kind: ObjectKind, id: Id) -> Result<IndexSegment> {
    if kind != ObjectKind::Unverified {
        return repository.read_if_signed(id);
    }
    if repository.is_write_only() {
        let name = Name::new(kind, id);
        let header = Some(0..HEADER_LEN as u64);
        match repository.storage().get(name, header) {
            Ok(header) if repository.keys().is_own(&header) => {}
            Ok(_) => return Ok(IndexSegment::new()),
            Err(error) if error.kind() == StorageErrorKind::PastEnd => {
                return Ok(IndexSegment::new());
            }
            Err(error) => return Err(Error::storage("read", name)(error)),
        }
    }
    repository.read_unverified(id)
}

impl IndexObjects for IndexSource<'_> {
    type Error = Error;

    fn repository(&self) -> Id {
        self.repository.config().id
    }

    fn part(&self) -> Option<String> {
        let of_kind = match self.kind {
            ObjectKind::Unverified => "unverified",
            _ => "index",
        };
        match (self.kind, self.repository.writer()) {
            (ObjectKind::Index, None) => None,
            (_, None) => Some(of_kind.to_owned()),
            (_, Some(writer)) => Some(format!("{writer}-{of_kind}")),
        }
    }

    fn keys(&self) -> &dyn PageKeys {
        self.repository.keys()
    }

    fn removals(&self) -> Result<Removed> {
        Ok(self.removals.clone())
    }

    fn list(&self) -> Result<Vec<Id>> {
        let listed = self.repository.list_steadily(self.kind)?;
        Ok(listed.into_iter().map(|object| object.id).collect())
    }

    fn read<E>(
        &self,
        objects: &[Id],
        mut take: impl FnMut(Id, Result<IndexSegment>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let readers = self
            .repository
            .storage()
            .connections()
            .clamp(4, INDEX_READERS_MAX);
        let next = AtomicUsize::new(0);
        let (sender, receiver) = sync_channel(readers);
        std::thread::scope(|scope| {
            for _ in 0..readers.min(objects.len()) {
                let (sender, next) = (sender.clone(), &next);
                scope.spawn(move || {
                    while let Some(&id) = objects.get(next.fetch_add(1, Ordering::Relaxed)) {
                        // After an error the receiver is gone.
                        let packs = packs_that_count(self.repository, self.kind, id);
                        if sender.send((id, packs)).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            receiver
                .into_iter()
                .try_for_each(|(id, packs)| take(id, packs))
        })
    }

    fn have_packs(&self, packs: &[Id]) -> Result<Vec<bool>> {
        let connections = self.repository.storage().connections();
        try_each(packs, connections, |&pack| {
            self.repository.has(Name::new(ObjectKind::Pack, pack))
        })
    }

    fn packs(&self) -> Result<HashSet<Id>> {
        let packs = self.repository.list(ObjectKind::Pack)?;
        Ok(packs.into_iter().map(|(id, _)| id).collect())
    }

    fn vanished(error: &Error) -> Option<String> {
        error.is_not_found().then(|| error.to_string())
    }
}
