//! Which snapshots there are at the moment.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use jiff::tz::TimeZone;
use tabane_storage::ObjectKind;
use tabane_store::snapshot::{Filter, Snapshot};
use tabane_store::{Error, Id, Repository, Result};

use crate::layout::{Directory, LayoutEntry, Templates, layout};

/// Age from which a listing is renewed at the next look-up.
const RELOAD_PAUSE: Duration = Duration::from_secs(2);

/// The snapshots of a repository at the last listing.
pub struct Listing {
    /// The names that lead to snapshots.
    root: Directory,
    snapshots: HashMap<Id, Snapshot>,
}

/// Lists snapshots, and reads each once.
pub struct Lister {
    repository: Repository,
    filter: Filter,
    templates: Templates,
    state: Mutex<State>,
}

struct State {
    listing: Arc<Listing>,
    at: Instant,
    /// Snapshots that the filter excludes or that are damaged.
    ignored: Vec<Id>,
}

/// The result of [`Lister::look`].
pub struct Look {
    pub listing: Arc<Listing>,
    /// Whether new snapshots appeared since the last listing.
    pub more: bool,
    /// Errors of snapshots that could not be read.
    pub errors: Vec<Error>,
}

impl Listing {
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
        let times = self.snapshots.values().map(|snapshot| snapshot.time);
        times.max().map_or(SystemTime::UNIX_EPOCH, SystemTime::from)
    }

    /// A snapshot of the listing, by its ID.
    pub fn snapshot(&self, id: &Id) -> Option<&Snapshot> {
        self.snapshots.get(id)
    }
}

impl Lister {
    /// Lists what `filter` allows for the first time, at the paths of `templates`.
    ///
    /// # Errors
    /// When the storage fails.
    pub fn new(
        repository: &Repository,
        filter: Filter,
        templates: Templates,
    ) -> Result<(Self, Look)> {
        let lister = Self {
            repository: repository.clone(),
            filter,
            state: Mutex::new(State {
                listing: Arc::new(Listing {
                    root: layout([], &templates, &TimeZone::UTC),
                    snapshots: HashMap::new(),
                }),
                at: Instant::now(),
                ignored: Vec::new(),
            }),
            templates,
        };
        let mut errors = Vec::new();
        {
            let mut state = lister.state.lock().expect("no panic under this lock");
            lister.list(&mut state, &mut errors)?;
        }
        let mut look = lister.look();
        look.errors.append(&mut errors);
        Ok((lister, look))
    }

    /// The current listing, renewed if older than [`RELOAD_PAUSE`]. If listing fails, the old one
    /// stays.
    pub fn look(&self) -> Look {
        let mut state = self.state.lock().expect("no panic under this lock");
        let (mut more, mut errors) = (false, Vec::new());
        if state.at.elapsed() >= RELOAD_PAUSE {
            match self.list(&mut state, &mut errors) {
                Ok(found_more) => more = found_more,
                Err(error) => errors.push(error),
            }
            state.at = Instant::now();
        }
        Look {
            listing: Arc::clone(&state.listing),
            more,
            errors,
        }
    }

    /// Lists the snapshots anew; returns whether new ones appeared.
    fn list(&self, state: &mut State, errors: &mut Vec<Error>) -> Result<bool> {
        let mut snapshots = HashMap::new();
        let (mut more, mut gone) = (false, state.listing.snapshots.len());
        for (id, _) in self.repository.list(ObjectKind::Snapshot)? {
            if state.ignored.contains(&id) {
                continue;
            }
            if let Some(known) = state.listing.snapshots.get(&id) {
                snapshots.insert(id, known.clone());
                gone -= 1;
                continue;
            }
            match self.repository.load_snapshot(id) {
                Ok(snapshot) if self.filter.allows(&snapshot) => {
                    snapshots.insert(id, snapshot);
                    more = true;
                }
                Ok(_) => state.ignored.push(id),
                // Forgotten since it was listed.
                Err(error) if error.is_not_found() => {}
                Err(error) => {
                    errors.push(error);
                    state.ignored.push(id);
                }
            }
        }
        if more || gone > 0 {
            let mut sorted: Vec<(Id, &Snapshot)> = snapshots
                .iter()
                .map(|(id, snapshot)| (*id, snapshot))
                .collect();
            sorted.sort_by_key(|(id, snapshot)| (snapshot.time, *id));
            let root = layout(sorted, &self.templates, &TimeZone::system());
            state.listing = Arc::new(Listing { root, snapshots });
        }
        Ok(more)
    }
}
