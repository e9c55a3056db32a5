//! The trait of all storages.

use std::any::Any;
use std::ops::Range;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::error::{Result, StorageErrorKind};
use crate::id::Id;
use crate::name::{Name, ObjectKind};
use crate::options::Lock;

/// Bytes of an object at most; longer ones are not read.
pub const OBJECT_LEN_MAX: u64 = 1 << 30;

/// An object in a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// The object's ID; zeros for `config`.
    pub id: Id,
    /// The object's length in bytes, exact or not: see [`Storage::is_listed_as`].
    pub len: u64,
    /// Time of the put, by the clock of the storage: only differences mean anything.
    pub modified: SystemTime,
}

/// [`Storage::replace`] by [`Storage::delete`] and [`Storage::put`].
pub(crate) fn replace_in_two_steps<S: Storage + ?Sized>(
    storage: &S,
    name: Name,
    parts: &[&[u8]],
) -> Result<()> {
    match storage.delete(name) {
        Err(error) if error.kind() != StorageErrorKind::NotFound => Err(error),
        _ => storage.put(name, parts),
    }
}

/// A place that holds immutable objects: a directory, a bucket, or several of them.
///
/// It need not be clever or trusted: everything is encrypted and authenticated above it. It must
/// keep two promises: [`Storage::put`] is atomic, and an object that was put is durable when it
/// returns.
///
/// Callers that need a particular kind of storage use its type: `(storage as &dyn
/// Any).downcast_ref()`.
pub trait Storage: Any + Send + Sync {
    /// The storage's location, for people.
    fn location(&self) -> String;

    /// Number of operations worth having in flight; a storage that measures its latency may return
    /// another number later.
    fn connections(&self) -> usize {
        2
    }

    /// Whether an operation waits for a network. Callers then ask ahead of time for what they will
    /// need, and for several objects at once.
    fn is_far(&self) -> bool {
        false
    }

    /// Prepares the place for a new repository.
    ///
    /// # Errors
    /// [`StorageErrorKind::NotEmpty`] when it holds other files.
    fn create(&self) -> Result<()>;

    /// Makes missing folders that [`Storage::create`] made. Storages without folders do nothing.
    ///
    /// # Errors
    /// When they cannot be made; when the place is several and one of them is missing.
    fn make_folders(&self) -> Result<()> {
        Ok(())
    }

    /// Writes an object, whole or not at all. Its bytes are the concatenated `parts`.
    ///
    /// # Errors
    /// [`StorageErrorKind::AlreadyExists`] when an object of this name exists, which stays
    /// unchanged.
    fn put(&self, name: Name, parts: &[&[u8]]) -> Result<()>;

    /// As [`Storage::put`], for an object that is seldom read. A storage may keep it where reading
    /// takes hours, if it was told so.
    ///
    /// # Errors
    /// As [`Storage::put`].
    fn put_cold(&self, name: Name, parts: &[&[u8]]) -> Result<()> {
        self.put(name, parts)
    }

    /// Reads an object, or `range` of it.
    ///
    /// # Errors
    /// [`StorageErrorKind::NotFound`]; [`StorageErrorKind::PastEnd`] when the object ends before
    /// the range does; [`StorageErrorKind::Damaged`] when it is damaged beyond repair by the
    /// storage; [`StorageErrorKind::Cold`] when it must be brought back from an archive first.
    fn get(&self, name: Name, range: Option<Range<u64>>) -> Result<Vec<u8>>;

    /// Tells the storage a secret of the repository, by which it can prove later that what it reads
    /// is what it stored. Storages that have no use for it do nothing.
    fn learn_secret(&self, secret: &[u8; 32]) {
        let _ = secret;
    }

    /// Reads a range again whose bytes proved wrong although the storage found no fault. A storage
    /// that can compute the range in other ways hands each result to `is_right` until one is
    /// accepted; returns whether one was.
    fn get_otherwise(
        &self,
        name: Name,
        range: Range<u64>,
        is_right: &mut dyn FnMut(&[u8]) -> bool,
    ) -> bool {
        let _ = (name, range, is_right);
        false
    }

    /// Objects that the storage itself has found damaged, since it looked at what it keeps.
    ///
    /// # Errors
    /// When it cannot be asked.
    fn doubts(&self) -> Result<Vec<Name>> {
        Ok(Vec::new())
    }

    /// Lists the objects of a kind, in no order. The list reflects all puts and deletions before
    /// the call, and perhaps later ones.
    fn list(&self, kind: ObjectKind) -> Result<Vec<Listed>>;

    /// Whether a complete object of `len` bytes is listed with the length `listed`. A storage that
    /// transforms objects may know their lengths only approximately without reading them.
    fn is_listed_as(&self, listed: u64, len: u64) -> bool {
        listed == len
    }

    /// Length of an object in bytes.
    ///
    /// # Errors
    /// [`StorageErrorKind::NotFound`].
    fn stat(&self, name: Name) -> Result<u64>;

    /// Removes an object.
    ///
    /// # Errors
    /// [`StorageErrorKind::NotFound`], from storages that notice: many servers report success when
    /// a missing object is removed.
    fn delete(&self, name: Name) -> Result<()>;

    /// Replaces a damaged object, or writes it if missing. After an interruption, neither the old
    /// nor the new object may exist. Of several
    /// places, all must be there.
    ///
    /// # Errors
    /// As [`Storage::put`] and [`Storage::delete`].
    fn replace(&self, name: Name, parts: &[&[u8]]) -> Result<()> {
        replace_in_two_steps(self, name, parts)
    }

    /// Bytes that are free at the place; `None` where that is not known, as for a bucket.
    fn free_bytes(&self) -> Option<u64> {
        None
    }

    /// How new objects are locked, if they are.
    fn lock(&self) -> Option<Lock> {
        None
    }

    /// Until when nobody can remove the object for good; nothing if it is not locked.
    ///
    /// # Errors
    /// [`StorageErrorKind::NotFound`]; when that cannot be told.
    fn locked_until(&self, name: Name) -> Result<Option<SystemTime>> {
        let _ = name;
        Ok(None)
    }

    /// Locks an object until this time, if it is not locked for longer.
    ///
    /// # Errors
    /// [`StorageErrorKind::Unsupported`], [`StorageErrorKind::NotFound`].
    fn extend_lock(&self, name: Name, until: SystemTime) -> Result<()> {
        let _ = (name, until);
        Err(StorageErrorKind::Unsupported.into())
    }

    /// Fails if what this client puts may be lost, since storage has changed after it was opened.
    /// Who has announced that it is at work asks once, before it puts anything.
    ///
    /// # Errors
    /// An error that says to open the storage again; when the storage fails.
    fn check_current(&self) -> Result<()> {
        Ok(())
    }

    /// Removes temporary files of interrupted writes that are at least this old; returns their
    /// number. Storages without temporary files return 0.
    fn remove_leftovers(&self, age: Duration) -> Result<u64> {
        let _ = age;
        Ok(0)
    }
}
