//! The directory of a node: a stamp names its cluster and node, and a lock keeps a second daemon
//! out.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FlockOperation, StatVfsMountFlags, flock};
use serde::{Deserialize, Serialize};
use tabane_storage::{
    Id, LocalStorage, Name, ObjectKind, Result, Storage, StorageError, StorageErrorKind,
    make_directory,
};
use tabane_striped::cluster::file::NodeFile;
use tabane_striped::cluster::wire::RESERVE_BYTES;

/// File that names the cluster and the node of this directory. Locked while a daemon serves it.
const STAMP: &str = "node.json";

/// The folder that holds the shards.
const SHARDS: &str = "shards";

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    format: u8,
    cluster: Id,
    node: String,
}

/// The directory of a node, locked by this daemon.
pub struct Home {
    root: PathBuf,
    storage: LocalStorage,
    quota: Option<Quota>,
    stamp: File,
}

/// What shards may take.
struct Quota {
    bytes: u64,
    used: AtomicU64,
}

impl Home {
    /// Locks the directory of a node; an empty or absent directory becomes this node's.
    ///
    /// # Errors
    /// When the directory belongs to another node or cluster, another daemon serves it, or it
    /// cannot be used.
    pub fn open(root: &Path, node: &NodeFile, quota_bytes: Option<u64>) -> Result<Self> {
        let refuse = |why: String| {
            let text = format!("cannot serve {}: {why}", root.display());
            StorageError::new(StorageErrorKind::Permanent, text)
        };
        let stamp = Stamp {
            format: 1,
            cluster: node.cluster,
            node: node.name.clone(),
        };
        make_directory(root).map_err(|error| refuse(error.to_string()))?;
        let path = root.join(STAMP);
        let mut is_empty = true;
        for entry in fs::read_dir(root)? {
            is_empty &= entry?.file_name() == STAMP;
        }
        let is_new = !path.exists();
        if is_new && !is_empty {
            return Err(refuse(
                "it is not empty, and no node's: choose an empty or a new directory".to_owned(),
            ));
        }
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(|error| refuse(error.to_string()))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(refuse("another daemon is serving it".to_owned()));
        }
        let text = fs::read(&path)?;
        if text.is_empty() {
            file.write_all(&serde_json::to_vec(&stamp).expect("it is plain data"))?;
            file.sync_all()?;
            File::open(root)?.sync_all()?;
        } else {
            let found: Stamp = serde_json::from_slice(&text)
                .map_err(|error| refuse(format!("its {STAMP} cannot be read: {error}")))?;
            if found != stamp {
                return Err(refuse(format!(
                    "it has the data of node {} of cluster {}, this is node {} of cluster {}",
                    found.node,
                    found.cluster.short(),
                    stamp.node,
                    stamp.cluster.short()
                )));
            }
        }
        let shards = root.join(SHARDS);
        make_directory(&shards)?;
        let storage = LocalStorage::new(shards);
        let quota = quota_bytes.map(|bytes| {
            let used = AtomicU64::new(used_bytes(&storage));
            Quota { bytes, used }
        });
        Ok(Self {
            storage,
            root: root.to_owned(),
            quota,
            stamp: file,
        })
    }

    /// Lets another daemon serve the directory, though threads of this one may wait for peers yet.
    pub fn unlock(&self) {
        // Closing the file unlocks it at the latest.
        let _ = flock(&self.stamp, FlockOperation::Unlock);
    }

    /// The storage of the shards.
    pub fn storage(&self) -> &LocalStorage {
        &self.storage
    }

    /// Where the list of withdrawn certificates is kept.
    pub fn withdrawn(&self) -> PathBuf {
        self.root.join("withdrawn")
    }

    /// Why the directory takes no shards at the moment, if so.
    pub fn trouble(&self) -> Option<String> {
        let shards = self.root.join(SHARDS);
        match rustix::fs::statvfs(&shards) {
            Err(error) => Some(format!("{} cannot be used: {error}", shards.display())),
            Ok(stat) if stat.f_flag.contains(StatVfsMountFlags::RDONLY) => {
                Some(format!("{} is read-only", shards.display()))
            }
            Ok(_) => None,
        }
    }

    /// Fails if there is no room for another object of this name.
    ///
    /// # Errors
    /// [`StorageErrorKind::Full`], for packs, when at most [`RESERVE_BYTES`] are free, on the file
    /// system or of the quota.
    pub fn check_room(&self, name: Name) -> Result<()> {
        if name.kind != ObjectKind::Pack || self.free_bytes() >= RESERVE_BYTES {
            return Ok(());
        }
        let of_what = match &self.quota {
            Some(quota) if self.free_on_disk() >= RESERVE_BYTES => {
                format!(" of the quota of {} MiB", quota.bytes >> 20)
            }
            _ => String::new(),
        };
        let text = format!("less than {} MiB{of_what} are free", RESERVE_BYTES >> 20);
        Err(StorageError::new(StorageErrorKind::Full, text).about(name))
    }

    /// Bytes that are free, on the file system and of the quota.
    pub fn free_bytes(&self) -> u64 {
        let of_quota = self.quota.as_ref().map_or(u64::MAX, |quota| {
            quota
                .bytes
                .saturating_sub(quota.used.load(Ordering::Relaxed))
        });
        self.free_on_disk().min(of_quota)
    }

    fn free_on_disk(&self) -> u64 {
        rustix::fs::statvfs(&self.root).map_or(0, |stat| stat.f_bavail * stat.f_frsize)
    }

    /// Bytes that shards may take, if that is limited.
    pub fn quota_bytes(&self) -> Option<u64> {
        self.quota.as_ref().map(|quota| quota.bytes)
    }

    /// Counts a shard that was stored.
    pub fn stored(&self, bytes: u64) {
        if let Some(quota) = &self.quota {
            quota.used.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// As [`Storage::delete`].
    pub fn delete(&self, name: Name) -> Result<()> {
        let Some(quota) = &self.quota else {
            return self.storage.delete(name);
        };
        let bytes = self.storage.stat(name).unwrap_or(0);
        self.storage.delete(name)?;
        let left = |used: u64| Some(used.saturating_sub(bytes));
        let _ = quota
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
        Ok(())
    }
}

/// Bytes that all shards take.
fn used_bytes(storage: &LocalStorage) -> u64 {
    let listed = ObjectKind::ALL.map(|kind| storage.list(kind).unwrap_or_default());
    listed.iter().flatten().map(|listed| listed.len).sum()
}
