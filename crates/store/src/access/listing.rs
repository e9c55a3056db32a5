//! Lists, and reads of all that is listed, while other clients add and remove.

use std::collections::{BTreeMap, BTreeSet};

use crate::access::removal;
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

    /// Lists several kinds, each after the list of the kind before it was complete, and reads with
    /// `read` what is listed. Both are done again if a list changes meanwhile, or if `read` gives
    /// `None` because an object vanished; `None` if objects vanish each time. Without write-only
    /// keys there is nothing that is unverified.
    ///
    /// # Errors
    /// When the storage fails; the first error of `read`.
    pub(crate) fn read_in_order<const N: usize, R>(
        &self,
        kinds: [ObjectKind; N],
        mut read: impl FnMut(&[Vec<Listed>; N]) -> Result<Option<R>>,
    ) -> Result<Option<([Vec<Listed>; N], R)>> {
        let is_empty = |kind| kind == ObjectKind::Unverified && !self.config().has_writers();
        let mut reads = 0;
        for _ in 0..LIST_ATTEMPTS_MAX {
            let (lists, objects, is_steady) = if self.is_far() {
                self.read_beside_lists(kinds, is_empty, &mut read)?
            } else {
                let lists = try_map(kinds, |kind| match kind {
                    _ if is_empty(kind) => Ok(Vec::new()),
                    ObjectKind::Removal => removal::list(self),
                    ObjectKind::Pack => self.list_with_times(kind),
                    _ => self.list_steadily(kind),
                })?;
                let objects = read(&lists)?;
                (lists, objects, true)
            };
            match objects {
                _ if !is_steady => {}
                Some(objects) => return Ok(Some((lists, objects))),
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

    /// One attempt at [`Repository::read_in_order`] where the storage is far, and whether the lists
    /// were steady: the second list of a kind goes beside the first ones of those behind it, and
    /// beside `read`.
    fn read_beside_lists<const N: usize, R>(
        &self,
        kinds: [ObjectKind; N],
        is_empty: impl Fn(ObjectKind) -> bool,
        read: &mut impl FnMut(&[Vec<Listed>; N]) -> Result<Option<R>>,
    ) -> Result<([Vec<Listed>; N], Option<R>, bool)> {
        std::thread::scope(|scope| {
            let mut seconds = Vec::new();
            let firsts = try_map(kinds, |kind| {
                if is_empty(kind) {
                    return Ok(Vec::new());
                }
                let first = self.list_with_times(kind)?;
                if ![ObjectKind::Removal, ObjectKind::Pack].contains(&kind) {
                    let second = scope.spawn(move || self.list_with_times(kind));
                    seconds.push((first.clone(), second));
                }
                Ok(first)
            })?;
            let objects = read(&firsts)?;
            let mut is_steady = true;
            for (first, second) in seconds {
                let second = second.join();
                let second = second.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                is_steady &= second? == first;
            }
            Ok((firsts, objects, is_steady))
        })
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

/// Applies `map` to each item, to the first error.
fn try_map<T: Copy, R, const N: usize>(
    items: [T; N],
    mut map: impl FnMut(T) -> Result<R>,
) -> Result<[R; N]> {
    let mapped: Result<Vec<R>> = items.into_iter().map(&mut map).collect();
    let Ok(mapped) = mapped?.try_into() else {
        unreachable!("there is a result for each item")
    };
    Ok(mapped)
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
