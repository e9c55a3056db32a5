//! Names of objects: a kind and an ID, and the path that they make.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::Id;

/// The kinds of objects in a repository.
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
    /// A pending snapshot: one that is being committed.
    Pending,
    /// A removal, which names packs about to be deleted.
    Removal,
    /// The record of a client at work.
    Client,
    /// On a target of a set: the object `target`, its identity.
    Target,
    /// On a target of a set: a description of the set.
    Set,
    /// On a target of a set: a deletion mark, so that a target that was away does not revive the
    /// object.
    Deleted,
    /// A copy of the config or of a key.
    Copy,
    /// A segment of the index that a client with a write-only key wrote, and nobody verified yet.
    Unverified,
    /// A record of snapshots that were removed.
    Forgotten,
}

impl ObjectKind {
    /// All kinds in every repository, in the order of dependence.
    pub const ALL: [Self; 11] = [
        Self::Config,
        Self::Key,
        Self::Copy,
        Self::Pack,
        Self::Unverified,
        Self::Index,
        Self::Forgotten,
        Self::Snapshot,
        Self::Pending,
        Self::Removal,
        Self::Client,
    ];

    /// The kind with this name, those of targets included.
    pub fn from_name(name: &str) -> Option<Self> {
        let of_targets = [Self::Target, Self::Set, Self::Deleted];
        let mut kinds = Self::ALL.into_iter().chain(of_targets);
        kinds.find(|kind| kind.name() == name)
    }

    /// Name of the kind's folder, or for `config` of the object.
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
            Self::Copy => "copies",
            Self::Unverified => "unverified",
            Self::Forgotten => "forgotten",
        }
    }
}

impl ObjectKind {
    /// Whether a repository may have no object of this kind for years.
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Self::Pending
                | Self::Removal
                | Self::Client
                | Self::Set
                | Self::Deleted
                | Self::Copy
                | Self::Unverified
                | Self::Forgotten
        )
    }
}

/// Names one object. Every ID is the BLAKE3 of the object's bytes, or of another object's to which
/// it refers; `config` and `target` have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Name {
    /// The object's kind.
    pub kind: ObjectKind,
    /// The object's ID; zeros for `config` and `target`.
    pub id: Id,
}

impl Name {
    /// The name of the config.
    pub const CONFIG: Self = Self {
        kind: ObjectKind::Config,
        id: Id([0; 32]),
    };

    /// The name of a target's identity.
    pub const TARGET: Self = Self {
        kind: ObjectKind::Target,
        id: Id([0; 32]),
    };

    /// The name of the object of this kind and ID.
    pub fn new(kind: ObjectKind, id: Id) -> Self {
        Self { kind, id }
    }

    /// The name with this path, which must be just as [`Name::path`] writes it.
    pub fn from_path(path: &str) -> Option<Self> {
        let kind = ObjectKind::from_name(path.split('/').next()?)?;
        let id = match kind {
            ObjectKind::Config => Self::CONFIG.id,
            ObjectKind::Target => Self::TARGET.id,
            _ => path.rsplit('/').next()?.parse().ok()?,
        };
        let name = Self { kind, id };
        (name.path() == path).then_some(name)
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
