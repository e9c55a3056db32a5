//! Which snapshots there are at the moment.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use jiff::tz::TimeZone;
use tabane_store::layout::{Directory, LayoutEntry, Templates, layout};
use tabane_store::lister::{self, Listed};
use tabane_store::snapshot::{Filter, Snapshot};
use tabane_store::{Error, Id, Repository, Result};

/// Age from which a listing is renewed at the next look-up.
const RELOAD_PAUSE: Duration = Duration::from_secs(2);

/// The snapshots of a repository at the last listing.
pub struct Listing {
    /// The names that lead to snapshots.
    root: Directory,
    listed: Arc<Listed>,
}

/// Lists snapshots.
pub struct Lister {
    lister: lister::Lister,
    templates: Templates,
    listing: Mutex<Arc<Listing>>,
}

/// The result of [`Lister::look`].
pub struct Look {
    pub listing: Arc<Listing>,
    /// Whether the listing differs from that of the last look.
    pub is_new: bool,
    /// Why the listing is an old one.
    pub error: Option<Error>,
}

impl Listing {
    fn new(listed: Arc<Listed>, templates: &Templates) -> Self {
        let snapshots = listed.snapshots().iter();
        let snapshots = snapshots.map(|(id, snapshot)| (*id, &**snapshot));
        Self {
            root: layout(snapshots, templates, &TimeZone::system()),
            listed,
        }
    }

    /// A directory above the snapshots, by its path without a slash at the beginning.
    pub fn directory(&self, path: &str) -> Option<&Directory> {
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        parts.try_fold(&self.root, |directory, name| match directory.get(name)? {
            LayoutEntry::Directory(below) => Some(below),
            _ => None,
        })
    }

    /// The time of the last snapshot.
    pub fn latest(&self) -> SystemTime {
        let latest = self.listed.snapshots().last();
        latest.map_or(SystemTime::UNIX_EPOCH, |(_, snapshot)| snapshot.time.into())
    }

    /// A snapshot of the listing, by its ID.
    pub fn snapshot(&self, id: &Id) -> Option<&Snapshot> {
        self.listed.get(id).map(|(_, snapshot)| &**snapshot)
    }

    /// Why some snapshots are not in the listing.
    pub fn damaged(&self) -> impl Iterator<Item = &str> {
        self.listed.damaged().iter().map(|(_, error)| &error[..])
    }
}

impl Lister {
    /// Lists what `filter` allows for the first time, at the paths of `templates`.
    ///
    /// # Errors
    /// When the storage fails.
    pub fn new(repository: &Repository, filter: Filter, templates: Templates) -> Result<Self> {
        let lister = lister::Lister::new(repository, filter);
        let listing = Listing::new(lister.list(RELOAD_PAUSE)?, &templates);
        Ok(Self {
            lister,
            templates,
            listing: Mutex::new(Arc::new(listing)),
        })
    }

    /// The current listing, renewed if older than [`RELOAD_PAUSE`]. If listing fails, the old one
    /// stays.
    pub fn look(&self) -> Look {
        let mut listing = self.listing.lock().expect("no panic under this lock");
        let (mut is_new, mut error) = (false, None);
        match self.lister.list(RELOAD_PAUSE) {
            Ok(listed) if Arc::ptr_eq(&listed, &listing.listed) => {}
            Ok(listed) => {
                *listing = Arc::new(Listing::new(listed, &self.templates));
                is_new = true;
            }
            Err(failed) => error = Some(failed),
        }
        Look {
            listing: Arc::clone(&listing),
            is_new,
            error,
        }
    }
}
