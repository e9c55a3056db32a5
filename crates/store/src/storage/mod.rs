//! Where objects live: a small trait, and one file for each kind of target.

mod buffer;
pub mod cluster;
mod failure;
mod limit;
mod local;
mod location;
mod object;
mod retry;
pub mod striped;
mod unusable;

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub use local::{Draft, LocalStorage};
pub use location::{Location, RemoteLocation, Service};
pub use object::ObjectStorage;

pub(crate) use failure::Failure;

use serde::{Deserialize, Serialize};

use crate::id::Id;

/// No object is longer, in bytes: what claims to be is not read, whoever put it there.
pub const OBJECT_LEN_MAX: u64 = 1 << 30;

/// The kinds of object that a repository consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ObjectKind {
    /// The one object `config`.
    Config,
    /// A master key, wrapped by a password.
    Key,
    /// A snapshot.
    Snapshot,
    /// A segment of the index.
    Index,
    /// Blocks.
    Pack,
    /// A snapshot that is about to be.
    Pending,
    /// Packs that are about to be removed.
    Removal,
    /// Says that a client is at work.
    Client,
    /// On a target of a set: the one object `target`, which says which target it is.
    Target,
    /// On a target of a set: the targets of the set.
    Set,
    /// On a target of a set: names an object that must not come back with a target that was away.
    Deleted,
}

impl ObjectKind {
    /// All kinds that a repository consists of, wherever it is; those that others depend on first.
    pub const ALL: [Self; 8] = [
        Self::Config,
        Self::Key,
        Self::Pack,
        Self::Index,
        Self::Snapshot,
        Self::Pending,
        Self::Removal,
        Self::Client,
    ];

    /// The folder, or for `config` the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Key => "keys",
            Self::Snapshot => "snapshots",
            Self::Index => "index",
            Self::Pack => "packs",
            Self::Pending => "pending",
            Self::Removal => "removals",
            Self::Client => "clients",
            Self::Target => "target",
            Self::Set => "sets",
            Self::Deleted => "deleted",
        }
    }
}

impl ObjectKind {
    /// Whether a repository may have none of this kind for years.
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Self::Pending | Self::Removal | Self::Client | Self::Set | Self::Deleted
        )
    }
}

/// Names one object. Objects other than `config` and `target` are named by the BLAKE3 of their bytes, or of those of the object
/// that they are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Name {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its ID; zeros for `config` and `target`.
    pub id: Id,
}

impl Name {
    /// The one config.
    pub const CONFIG: Self = Self {
        kind: ObjectKind::Config,
        id: Id([0; 32]),
    };

    /// What a target of a set says of itself.
    pub const TARGET: Self = Self {
        kind: ObjectKind::Target,
        id: Id([0; 32]),
    };

    /// The object of `kind` with this ID.
    pub fn new(kind: ObjectKind, id: Id) -> Self {
        Self { kind, id }
    }

    /// Path below the repository's root, with `/` between its parts.
    ///
    /// Packs are spread over 256 folders, since there may be many.
    pub fn path(&self) -> String {
        let (folder, id) = (self.kind.name(), self.id);
        match self.kind {
            ObjectKind::Config | ObjectKind::Target => folder.to_owned(),
            ObjectKind::Pack => format!("{folder}/{}/{id}", hex::encode(&id.0[..1])),
            _ => format!("{folder}/{id}"),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path())
    }
}

/// An object that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Its ID; zeros for `config`.
    pub id: Id,
    /// Its length in bytes, or about that: see [`Storage::is_listed_as`].
    pub len: u64,
    /// When it was put, by the clock of the storage: only differences mean anything.
    pub modified: SystemTime,
}

/// [`Storage::replace`] where there is only [`Storage::delete`] and [`Storage::put`].
fn replace_in_two_steps<S: Storage + ?Sized>(
    storage: &S,
    name: Name,
    parts: &[&[u8]],
) -> io::Result<()> {
    match storage.delete(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => storage.put(name, parts),
    }
}

/// A place that holds immutable objects: a directory, a bucket, or several of them.
///
/// It need not be clever or trusted: everything is encrypted and authenticated above it. It must keep two
/// promises: [`Storage::put`] is atomic, and an object that was put is durable when it returns.
pub trait Storage: Send + Sync {
    /// Where this is, for people.
    fn location(&self) -> String;

    /// How many operations are worth having in flight.
    fn connections(&self) -> usize {
        2
    }

    /// Makes the place ready to hold a new repository.
    ///
    /// # Errors
    /// [`io::ErrorKind::DirectoryNotEmpty`] when it holds something else.
    fn create(&self) -> io::Result<()>;

    /// Makes the folders that a place has from its creation on, where somebody has removed them. There is nothing to do
    /// where there are no folders.
    ///
    /// # Errors
    /// When they cannot be made.
    fn make_folders(&self) -> io::Result<()> {
        Ok(())
    }

    /// Writes an object, whole or not at all. Its bytes are `parts`, one behind the other.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] when there is one of that name, which stays as it is.
    fn put(&self, name: Name, parts: &[&[u8]]) -> io::Result<()>;

    /// Reads an object, or `range` of it.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]; [`io::ErrorKind::UnexpectedEof`] when the object ends before the range does;
    /// [`io::ErrorKind::InvalidData`] when it was there, and is damaged beyond what the storage can mend.
    fn get(&self, name: Name, range: Option<Range<u64>>) -> io::Result<Vec<u8>>;

    /// The objects of a kind, in no order. What was put or deleted before the call is listed or not listed; what is
    /// put or deleted meanwhile may be either.
    fn list(&self, kind: ObjectKind) -> io::Result<Vec<Listed>>;

    /// Whether an object of `len` bytes that is there as a whole is listed with the length `listed`. A storage that does not
    /// keep objects as they are may know their lengths only about, without reading them.
    fn is_listed_as(&self, listed: u64, len: u64) -> bool {
        listed == len
    }

    /// Length of an object in bytes.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`].
    fn stat(&self, name: Name) -> io::Result<u64>;

    /// Removes an object.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`].
    fn delete(&self, name: Name) -> io::Result<()>;

    /// Puts an object in the place of one of that name that is damaged, if there still is one. If it stops in between, neither
    /// may be there.
    ///
    /// # Errors
    /// As [`Storage::put`] and [`Storage::delete`].
    fn replace(&self, name: Name, parts: &[&[u8]]) -> io::Result<()> {
        replace_in_two_steps(self, name, parts)
    }

    /// Removes what interrupted writes have left behind that is at least this old; returns how many pieces. There is
    /// nothing where none can be left.
    fn remove_leftovers(&self, age: Duration) -> io::Result<u64> {
        let _ = age;
        Ok(0)
    }

    /// The several targets that this is over, if it is.
    fn as_striped(&self) -> Option<&striped::StripedStorage> {
        None
    }

    /// The node of a cluster that this is, if it is one.
    fn as_node(&self) -> Option<&cluster::NodeStorage> {
        None
    }
}

/// Is told what a person should know while an operation goes on, in one sentence; called from many threads.
pub type Notice = Arc<dyn Fn(&str) + Send + Sync>;

/// How a storage behind a network is used.
#[derive(Clone)]
pub struct RemoteOptions {
    /// Requests at a time.
    pub connections: usize,
    /// Limit of what is sent, in KiB a second.
    pub upload_kib_per_s: Option<u64>,
    /// Limit of what is received, in KiB a second.
    pub download_kib_per_s: Option<u64>,
    /// For how long a request is tried again when the server cannot be reached, is overloaded, or breaks off.
    pub patience: Duration,
    /// How stripes are sent to the nodes of a cluster.
    pub plan: cluster::Plan,
    /// Is told of outages that last.
    pub notice: Notice,
}

impl Default for RemoteOptions {
    fn default() -> Self {
        Self {
            connections: 5,
            upload_kib_per_s: None,
            download_kib_per_s: None,
            patience: Duration::from_secs(300),
            plan: cluster::Plan::Auto,
            notice: Arc::new(|_| {}),
        }
    }
}

/// The storage at `location`. A server is not spoken to before the first operation; the targets of a set are.
///
/// # Errors
/// When something that the service needs is missing from the environment, or too many targets are missing.
pub fn open(location: &Location, options: &RemoteOptions) -> io::Result<Arc<dyn Storage>> {
    Ok(match location {
        Location::Directory(path) => Arc::new(LocalStorage::new(path)),
        Location::Remote(remote) => Arc::new(ObjectStorage::connect(remote, options)?),
        Location::Striped(file) => Arc::new(striped::open_file(file, options)?),
        Location::Cluster(file) => Arc::new(cluster::open_file(file, options)?),
    })
}
