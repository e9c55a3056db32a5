//! Errors of a repository. They say what failed; advice comes from the program that prints them.

use std::io;

use tabane_storage::Id;
use tabane_storage::{Name, StorageError, StorageErrorKind};

/// The result of everything that touches a repository.
pub type Result<T> = std::result::Result<T, Error>;

/// An error that ends an operation. Its text is one sentence for a person.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This place holds no repository.
    #[error("there is no repository at {0}")]
    NoRepository(String),
    /// There is an index, but no `config`.
    #[error(
        "the repository at {0} has lost its file `config`, without which nothing in it can be \
         decrypted: bring `config` back from a copy"
    )]
    ConfigMissing(String),
    /// The repository is no longer the one that was opened.
    #[error(
        "the repository at {0} was deleted or replaced by another while this command ran, so what \
         it stored is lost: find out which program did that, then run the command again"
    )]
    RepositoryGone(String),
    /// `init` found a repository.
    #[error("there is already a repository at {0}: use it, or choose another place")]
    RepositoryExists(String),
    /// `init` found other files.
    #[error(
        "{0} is not empty and is not a repository: choose an empty or a new directory (if it was a \
         repository, bring back its file `config` from a copy)"
    )]
    NotEmpty(String),
    /// The repository was written by a later version.
    #[error(
        "the repository has format {found}, this program knows formats up to {known}: install a \
         newer tabane"
    )]
    NewerFormat {
        /// Format of the repository.
        found: u8,
        /// The latest format known here.
        known: u8,
    },
    /// The repository has something that this version does not know.
    #[error("the repository uses {0}, which this program does not know: install a newer tabane")]
    UnknownFeature(String),
    /// A copy into a repository that cannot hold everything of the source.
    #[error(
        "the repository at {location} has format {format}, which cannot hold what one of format \
         {needed} has"
    )]
    OlderFormat {
        /// Where the target is.
        location: String,
        /// Its format.
        format: u8,
        /// That of the source.
        needed: u8,
    },
    /// The format of the repository went up meanwhile.
    #[error(
        "the repository was migrated to a newer format while this command ran: run the command \
         again"
    )]
    MigratedMeanwhile,
    /// The repository has no key.
    #[error(
        "the repository has no keys, so nothing can open it: bring back its folder `keys` from a \
         copy"
    )]
    NoKeys,
    /// A write-only key was used for something that needs a full key.
    #[error("the key in use can only write backups: {0} needs the password of a full key")]
    WriteOnly(String),
    /// The repository cannot have write-only keys.
    #[error("this repository cannot have write-only keys: {0}")]
    NoWriteOnlyKeys(&'static str),
    /// An object is as its name says, and nobody has made it who could have.
    #[error("{0} was made without a key of this repository that may make it, so it does not count")]
    Foreign(String),
    /// No key of the repository opens with this password.
    #[error(
        "wrong password: it opens none of the {keys} key(s) of the repository at {location}{}",
        beside(.damaged)
    )]
    WrongPassword {
        /// Number of keys that can be tried.
        keys: usize,
        /// Location of the repository.
        location: String,
        /// Why another key cannot be read.
        damaged: Option<Box<Error>>,
    },
    /// A new key would have the password of another one.
    #[error("this password is that of key {} already: choose another", .0.short())]
    PasswordInUse(Id),
    /// A text that should bring back a key cannot be used.
    #[error("the key text cannot be used: {0}")]
    KeyText(String),
    /// The key that opened the repository would be removed.
    #[error("key {} is the one in use: open the repository with another password to remove \
    it", .0.short())]
    KeyInUse(Id),
    /// Several keys have this prefix.
    #[error("{0:?} could mean several keys: give more digits of the ID")]
    AmbiguousKey(String),
    /// The storage failed.
    #[error("cannot {action} {what}: {source}")]
    Storage {
        /// The failed action: "read", "write", …
        action: &'static str,
        /// The object or file concerned.
        what: String,
        /// Why not.
        source: StorageError,
    },
    /// A target of a set was taken for a repository.
    #[error("{0} is part of a striped repository, and this is one of its targets")]
    OfStripedSet(String),
    /// An object differs from the bytes written.
    #[error("{what} is damaged: {why}")]
    Damaged {
        /// Which object, or which part of it.
        what: String,
        /// The failed check.
        why: String,
    },
    /// A command whose output was to be stored failed.
    #[error("the command {command} failed, so no snapshot was saved: {why}")]
    Producer {
        /// The program.
        command: String,
        /// The program's exit status, or why it could not start.
        why: String,
    },
    /// A new pack does not decode to the bytes that were read and hashed.
    #[error(
        "a new pack does not read back as what was read ({why}), and was not stored: the memory or \
         the processor of this machine may be faulty; test them, then run the command again"
    )]
    NotReadBack {
        /// The failed check.
        why: String,
    },
    /// A block that a snapshot needs is in no index.
    #[error("block {0} is missing from the repository")]
    MissingBlock(Id),
    /// Blocks that a new snapshot needs were removed while it was made.
    #[error("a prune removed blocks that this snapshot was about to use, so it was not made")]
    RemovedMeanwhile,
    /// An object is gone that the index names.
    #[error("{0}")]
    ObjectGone(Box<Error>),
    /// Somebody else is pruning.
    #[error("{0} is pruning this repository")]
    PruneRunning(String),
    /// Somebody else has removed what this prune was about to copy.
    #[error("another prune has removed packs meanwhile; nothing is lost, run the command again")]
    PruneOvertaken,
    /// Something that may be needed cannot be told from what is not.
    #[error("nothing was removed, since needed blocks cannot all be found: {0}")]
    CannotPrune(String),
    /// A snapshot that was seen before is gone, and nobody has removed it.
    #[error("nothing was removed, since a lost snapshot may come back and need it: {0}")]
    SnapshotLost(String),
    /// A file of the local cache cannot be read.
    #[error("cannot read the cache file {path}: {source}")]
    Cache {
        /// The file.
        path: String,
        /// Why not.
        source: io::Error,
    },
    /// The cache names what there is not, though it is as it was written.
    #[error("the cache is damaged: it names a segment or a pack that does not exist")]
    CacheDamaged,
    /// No snapshot has that name.
    #[error("no snapshot matches {0:?}")]
    NoSnapshot(String),
    /// A snapshot that was to be given up as lost is there.
    #[error("snapshot {} is there, so it is not lost", .0.short())]
    SnapshotThere(Id),
    /// Blocks that a repair of snapshots would give up may be in packs without an index.
    #[error("what snapshots miss is in packs that no index object names")]
    PacksUnindexed,
    /// Some snapshot cannot be read, and it may be the latest.
    #[error("cannot tell which snapshot is the latest ({0})")]
    LatestUnclear(Box<Error>),
    /// More than one snapshot has that prefix.
    #[error("{prefix:?} could mean {count} snapshots: give more digits of the ID")]
    AmbiguousSnapshot {
        /// What was asked for.
        prefix: String,
        /// How many begin so.
        count: usize,
    },
    /// No key has that name.
    #[error("no key matches {0:?} in this repository")]
    NoKey(String),
    /// A path is not in the snapshot.
    #[error("{path} is not in snapshot {snapshot}")]
    NoSuchPath {
        /// The path that was asked for.
        path: String,
        /// The snapshot, short.
        snapshot: String,
    },
    /// A path of the snapshot is of the wrong kind.
    #[error("{0}")]
    WrongKind(String),
    /// A source or target path cannot be used.
    #[error("cannot {action} {path}: {source}")]
    Path {
        /// What was tried.
        action: &'static str,
        /// The path, as text.
        path: String,
        /// Why not.
        source: io::Error,
    },
    /// The repositories name blocks by different hashes.
    #[error(
        "the source names blocks by their {from}, the target by their {to}, so every block and \
         directory would have to be made anew"
    )]
    OtherHash {
        /// The hash of the source.
        from: String,
        /// The hash of the target.
        to: String,
    },
    /// A repository cuts files at other places than the one beside which it is to get a snapshot.
    #[error(
        "the repository at {0} cuts files at other places, so that it would have to read and \
         compress everything by itself"
    )]
    OtherCuts(String),
    /// An option has an unusable value.
    #[error("{0}")]
    Invalid(String),
    /// A pattern of names means nothing, or a file of patterns cannot be read.
    #[error("{0}")]
    Pattern(String),
    /// [`tabane_storage::Progress::is_cancelled`] said so.
    #[error("cancelled: the repository is as good as before; run the same command again to go on")]
    Cancelled,
    /// Another part of the operation has failed, and has said why.
    #[error("{0}")]
    Interrupted(&'static str),
}

impl Error {
    /// Whether an object is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Storage { source, .. } if source.kind() == StorageErrorKind::NotFound)
    }

    /// An [`Error::Storage`] for an object; [`Error::Damaged`] where the storage says that it no
    /// longer has what was written.
    pub fn storage(action: &'static str, name: Name) -> impl FnOnce(StorageError) -> Self {
        move |source| match source.kind() {
            StorageErrorKind::Damaged => Self::damaged(name, source),
            _ => Self::Storage {
                action,
                what: name.to_string(),
                source,
            },
        }
    }

    /// An [`Error::Path`].
    pub fn path(
        action: &'static str,
        path: impl AsRef<std::path::Path>,
    ) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Path {
            action,
            path: path.as_ref().display().to_string(),
            source,
        }
    }

    /// An [`Error::Pattern`].
    pub fn pattern(why: impl ToString) -> Self {
        Self::Pattern(why.to_string())
    }

    /// An [`Error::Damaged`].
    pub fn damaged(what: impl ToString, why: impl ToString) -> Self {
        Self::Damaged {
            what: what.to_string(),
            why: why.to_string(),
        }
    }
}

impl From<tabane_index::Error> for Error {
    fn from(error: tabane_index::Error) -> Self {
        match error {
            tabane_index::Error::Damaged { what, why } => Self::Damaged { what, why },
            tabane_index::Error::Cache { path, source } => Self::Cache { path, source },
            tabane_index::Error::CacheDamaged => Self::CacheDamaged,
            tabane_index::Error::Path {
                action,
                path,
                source,
            } => Self::Path {
                action,
                path,
                source,
            },
            error => Self::Invalid(error.to_string()),
        }
    }
}

/// What is said of a key that cannot be read, beside those that a password does not open.
fn beside(damaged: &Option<Box<Error>>) -> String {
    match damaged {
        Some(why) => format!("; {why}"),
        None => String::new(),
    }
}
