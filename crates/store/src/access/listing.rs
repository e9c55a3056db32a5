//! Lists, and reads of all that is listed, while other clients add and remove.

use std::collections::{BTreeMap, BTreeSet};

use crate::access::repository::Repository;
use tabane_format::{Error, Result};
use tabane_storage::sync::{both, try_each};
use tabane_storage::{Id, Listed, ObjectKind, StorageError, StorageErrorKind};

/// Attempts to read all objects that are listed, while others are deleted.
pub(crate) const READ_ATTEMPTS_MAX: usize = 10;

/// Attempts to list what other clients change meanwhile.
pub(crate) const LIST_ATTEMPTS_MAX: usize = 100;

impl Repository {
    /// As [`Repository::list_with_times`], repeated until two listings in a row agree: a listing
    /// made while one object replaces another may lack both.
    ///
    /// # Errors
    /// When the storage fails.
    pub(crate) fn list_steadily(&self, kind: ObjectKind) -> Result<Vec<Listed>> {
        let mut listed = self.list_early(kind)?;
        for _ in 0..LIST_ATTEMPTS_MAX {
            let again = self.list_with_times(kind)?;
            if again == listed {
                return Ok(listed);
            }
            listed = again;
        }
        Err(unsteady(kind.name()))
    }

    /// What is there of several kinds at one moment, and what `read` gives for it. Two rounds of
    /// lists are made, where the storage is far all lists of a round at once, and `read` beside the
    /// second round: if both rounds name the same, that was there when the first one had ended. All
    /// is done again if they differ, or if `read` gives `None` because an object vanished; `None`
    /// if objects vanish each time.
    ///
    /// `announce` is called beside the first round, and names this client's own record, if it has
    /// one: that may be missing in the first round.
    ///
    /// Packs are only listed in the second round: `read` is given none. So the index that is read
    /// may name one that is no longer there, but a client names no pack in an index object that was
    /// listed, without the pack being in its list. Without write-only keys there is nothing that is
    /// unverified.
    ///
    /// # Errors
    /// When the storage fails; the first error of `read`.
    pub(crate) fn read_at_one_moment<const N: usize, R>(
        &self,
        kinds: [ObjectKind; N],
        announce: impl Fn() -> Result<Option<Id>> + Sync,
        mut read: impl FnMut(&[Vec<Listed>; N]) -> Result<Option<R>>,
    ) -> Result<Option<([Vec<Listed>; N], R)>> {
        let at_once = if self.is_far() { N } else { 1 };
        let has_writers = self.config().has_writers();
        let list = |&kind: &ObjectKind| match kind {
            ObjectKind::Unverified if !has_writers => Ok(Vec::new()),
            _ => self.list_with_times(kind),
        };
        let list_all_but_packs = |kind: &ObjectKind| match kind {
            ObjectKind::Pack => Ok(Vec::new()),
            _ => list(kind),
        };
        let mut reads = 0;
        for _ in 0..LIST_ATTEMPTS_MAX {
            let list_first = || try_each(&kinds, at_once, list_all_but_packs);
            let (own, first) = both(self.is_far(), &announce, list_first);
            let (own, first): (_, [_; N]) = (own?, of_each(first?));
            let list_again = || try_each(&kinds, at_once, list);
            let (again, objects) = both(self.is_far(), list_again, || read(&first));
            let again: [_; N] = of_each(again?);
            let others = |listed: &&Listed| Some(listed.id) != own;
            let mut lists = kinds.iter().zip(first.iter().zip(&again));
            let is_steady = lists.all(|(kind, (first, again))| {
                let (first, again) = (first.iter().filter(others), again.iter().filter(others));
                *kind == ObjectKind::Pack || first.eq(again)
            });
            match objects? {
                _ if !is_steady => {}
                Some(objects) => return Ok(Some((again, objects))),
                None => {
                    reads += 1;
                    if reads == READ_ATTEMPTS_MAX {
                        return Ok(None);
                    }
                }
            }
        }
        Err(unsteady("objects"))
    }

    /// Reads all objects of a kind with `read`, several at a time, even while some are being
    /// replaced.
    ///
    /// # Errors
    /// The first error of `read`, unless the object was deleted meanwhile.
    pub(crate) fn read_all<T: Send>(
        &self,
        kind: ObjectKind,
        read: impl Fn(Id) -> Result<T> + Sync,
    ) -> Result<BTreeMap<Id, T>> {
        self.read_rest(kind, BTreeMap::new(), read)
    }

    /// As [`Repository::read_all`], without reading again the objects that `found` holds and the
    /// storage still lists.
    ///
    /// # Errors
    /// As [`Repository::read_all`].
    pub(crate) fn read_rest<T: Send>(
        &self,
        kind: ObjectKind,
        mut found: BTreeMap<Id, T>,
        read: impl Fn(Id) -> Result<T> + Sync,
    ) -> Result<BTreeMap<Id, T>> {
        let mut listed = self.list_early(kind)?;
        let mut vanished = BTreeSet::new();
        for _ in 0..LIST_ATTEMPTS_MAX {
            // The list is made again while the objects are read: see `list_steadily`.
            let relist = || self.list_with_times(kind);
            let (again, objects) = both(self.is_far(), relist, || {
                self.read_listed(&listed, &mut found, &read)
            });
            let again = again?;
            match objects? {
                Some(objects) if again == listed => return Ok(objects),
                Some(objects) => found = objects,
                // The next list has the object that replaced the one which vanished.
                None => {
                    let there = |id: &Id| again.iter().any(|object| object.id == *id);
                    let names = listed.iter().map(|object| object.id);
                    for id in names.filter(|id| !found.contains_key(id) && there(id)) {
                        if !vanished.insert(id) {
                            read(id)?;
                        }
                    }
                }
            }
            listed = again;
        }
        Err(unsteady(kind.name()))
    }

    /// Reads these objects with `read`, several at a time, but for those that `known` has; `None`
    /// if one of them has been deleted, and then `known` has the others.
    ///
    /// # Errors
    /// The first error of `read` but that.
    pub(crate) fn read_listed<T: Send>(
        &self,
        listed: &[Listed],
        known: &mut BTreeMap<Id, T>,
        read: impl Fn(Id) -> Result<T> + Sync,
    ) -> Result<Option<BTreeMap<Id, T>>> {
        let names: BTreeSet<Id> = listed.iter().map(|object| object.id).collect();
        known.retain(|id, _| names.contains(id));
        let unread = names.iter().filter(|id| !known.contains_key(id));
        let unread: Vec<Id> = unread.copied().collect();
        let connections = self.storage().connections();
        let objects = try_each(&unread, connections, |&id| match read(id) {
            Err(error) if error.is_not_found() => Ok(None),
            object => object.map(Some),
        })?;
        let read = unread.into_iter().zip(objects);
        known.extend(read.filter_map(|(id, object)| Some((id, object?))));
        Ok((known.len() == names.len()).then(|| std::mem::take(known)))
    }

    /// As [`Repository::read_listed`], with a result for each object.
    ///
    /// # Errors
    /// When the storage fails.
    pub(crate) fn read_each_listed<T: Send>(
        &self,
        listed: &[Listed],
        read: impl Fn(Id) -> Result<T> + Sync,
    ) -> Result<Option<BTreeMap<Id, Result<T>>>> {
        self.read_listed(listed, &mut BTreeMap::new(), |id| one_of_each(read(id)))
    }

    /// As [`Repository::read_all`], with a result for each object.
    ///
    /// # Errors
    /// When the storage fails.
    pub(crate) fn read_each<T: Send>(
        &self,
        kind: ObjectKind,
        read: impl Fn(Id) -> Result<T> + Sync,
    ) -> Result<BTreeMap<Id, Result<T>>> {
        self.read_all(kind, |id| one_of_each(read(id)))
    }
}

/// As many lists as there are kinds.
fn of_each<const N: usize>(lists: Vec<Vec<Listed>>) -> [Vec<Listed>; N] {
    let Ok(lists) = lists.try_into() else {
        unreachable!("there is a list of each kind")
    };
    lists
}

/// The result of reading one object, of which each has a result; that it was deleted is none.
fn one_of_each<T>(read: Result<T>) -> Result<Result<T>> {
    match read {
        Err(error) if error.is_not_found() => Err(error),
        read => Ok(read),
    }
}

/// The error of a place whose lists are another each time, or name what is not there.
pub(crate) fn unsteady(what: &str) -> Error {
    Error::Storage {
        action: "list",
        what: what.to_owned(),
        source: StorageError::new(
            StorageErrorKind::Malformed,
            "what is listed and what is there never agree",
        ),
    }
}
