//! The snapshots of a repository as a file system (FUSE), for reading.
//!
//! ```text
//! ids/<short ID>   snapshots/<time>   hosts/<host>/<time>   tags/<tag>/<time>
//! and a link `latest` beside times
//! ```
//! Everything in a snapshot has the attributes that it had when it was backed up. New snapshots
//! appear and forgotten ones vanish. All processors read ahead into a cache of bounded size.
//!
//! Directories have one link, as on Btrfs, since counting those in them means to read them all. A
//! file with several names has as many links as were seen of it so far, and at least two.

#![forbid(unsafe_code)]

mod attributes;
mod files;
mod filesystem;
mod mountpoint;
mod pages;
mod snapshots;
mod trees;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fuser::{Config, MountOption, Session, SessionACL, SessionUnmounter};
use rustix::mount::UnmountFlags;
use tabane_store::segment_cache::SegmentCache;
use tabane_store::snapshot::Filter;
use tabane_store::{Error, Repository};

use filesystem::Snapshots;
pub use mountpoint::check;
pub use tabane_store::layout::Templates;

/// Decoded bytes that are kept for all files together.
const CACHE_LEN: usize = 64 << 20;

/// Options of a mount.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Which snapshots.
    pub filter: Filter,
    /// Let all users in, not only the mounting one.
    pub allow_other: bool,
    /// With [`Options::allow_other`]: don't look at the permissions of files.
    pub ignore_permissions: bool,
    /// Everything belongs to root.
    pub owner_root: bool,
    /// Under which paths snapshots are.
    pub templates: Templates,
}

/// Why nothing could be mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The repository cannot be read.
    #[error(transparent)]
    Repository(#[from] Error),
    /// The system has no FUSE.
    #[error("there is no {0}")]
    NoDevice(&'static str),
    /// The system lets only root mount for other users.
    #[error(
        "cannot mount on {0} for other users: the system lets only root do so; put the line \
         `user_allow_other` into /etc/fuse.conf"
    )]
    NotForOthers(String),
    /// The directory or the system cannot be used for mounting.
    #[error("{0}")]
    Unusable(String),
}

/// A mounted repository, which does nothing before [`Mounted::serve`].
pub struct Mounted {
    session: Session<Snapshots>,
    path: PathBuf,
}

/// Mounts the snapshots of `repository` on the directory `path`. `report` is told of what cannot be
/// read, each once.
///
/// # Errors
/// When the repository cannot be read, the directory cannot be used, or the system has no FUSE.
pub fn mount(
    repository: &Repository,
    path: &Path,
    options: Options,
    report: impl Fn(&str) + Send + Sync + 'static,
) -> Result<Mounted, MountError> {
    check(path)?;
    let path = path
        .canonicalize()
        .map_err(|error| mountpoint::unusable(path, &error))?;
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::RO,
        MountOption::NoAtime,
        MountOption::FSName("tabane".to_owned()),
    ];
    if options.allow_other {
        config.acl = SessionACL::All;
        if !options.ignore_permissions {
            config.mount_options.push(MountOption::DefaultPermissions);
        }
    }
    // More than processors: some wait for the storage.
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
    config.n_threads = Some((2 * processors).clamp(4, 16));
    let cache = Arc::new(SegmentCache::new(repository, CACHE_LEN)?);
    let snapshots = Snapshots::new(repository, cache, options, Box::new(report))?;
    let notifier = snapshots.notifier();
    let session = Session::new(snapshots, &path, &config)
        .map_err(|error| mountpoint::not_mounted(&path, &error))?;
    // The only place that sets the notifier.
    let _ = notifier.set(session.notifier());
    Ok(Mounted { session, path })
}

impl Mounted {
    /// A handle to unmount from any thread.
    pub fn unmounter(&mut self) -> Unmounter {
        Unmounter {
            session: self.session.unmount_callable(),
            path: self.path.clone(),
        }
    }

    /// Answers the system until the file system is unmounted.
    ///
    /// # Errors
    /// When the system breaks off the connection.
    pub fn serve(self) -> io::Result<()> {
        self.session.run()
    }
}

/// Unmounts.
pub struct Unmounter {
    session: SessionUnmounter,
    path: PathBuf,
}

/// Results of unmounting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmounted {
    /// Wholly: [`Mounted::serve`] returns.
    Now,
    /// The mount is detached; [`Mounted::serve`] returns when programs have closed their files.
    WhenUnused,
}

impl Unmounter {
    /// Unmounts, even while programs use the mount.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn unmount(&mut self) -> io::Result<Unmounted> {
        match self.session.unmount() {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                rustix::mount::unmount(&self.path, UnmountFlags::DETACH)?;
                Ok(Unmounted::WhenUnused)
            }
            result => result.map(|()| Unmounted::Now),
        }
    }
}
