//! Lists snapshots again and again, and reads each once.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tabane_storage::sync::lock;
use tabane_storage::{Id, ObjectKind};

use crate::access::repository::Repository;
use tabane_format::Result;
use tabane_format::snapshot::{Filter, Snapshot};

/// The snapshots of a repository at one moment.
#[derive(Debug, Default)]
pub struct Listed {
    /// Those that the filter allows, oldest first.
    snapshots: Vec<(Id, Arc<Snapshot>)>,
    /// Their places in `snapshots`.
    places: HashMap<Id, usize>,
    /// Unreadable snapshots, each with the error of reading it.
    damaged: Vec<(Id, String)>,
}

impl Listed {
    /// The readable snapshots, oldest first.
    pub fn snapshots(&self) -> &[(Id, Arc<Snapshot>)] {
        &self.snapshots
    }

    /// Unreadable snapshots, each with the error of reading it.
    pub fn damaged(&self) -> &[(Id, String)] {
        &self.damaged
    }

    /// A snapshot, and its place among those of [`Listed::snapshots`].
    pub fn get(&self, id: &Id) -> Option<(usize, &Arc<Snapshot>)> {
        let place = *self.places.get(id)?;
        Some((place, &self.snapshots[place].1))
    }
}

/// Lists the snapshots that a filter allows, for any number of threads. A snapshot is read when it
/// is first listed, and never again.
pub struct Lister {
    repository: Repository,
    filter: Filter,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Each snapshot, or the error of reading it.
    read: BTreeMap<Id, std::result::Result<Arc<Snapshot>, String>>,
    listed: Arc<Listed>,
    /// Time of the last listing, if any.
    at: Option<Instant>,
}

impl Lister {
    /// A lister that has listed nothing yet.
    pub fn new(repository: &Repository, filter: Filter) -> Self {
        Self {
            repository: repository.clone(),
            filter,
            state: Mutex::default(),
        }
    }

    /// The snapshots, from a listing that is at most `age_max` old. As long as nothing has changed,
    /// the result is the same [`Arc`].
    ///
    /// # Errors
    /// When the storage fails.
    pub fn list(&self, age_max: Duration) -> Result<Arc<Listed>> {
        let mut state = lock(&self.state);
        if state.at.is_some_and(|at| at.elapsed() < age_max) {
            return Ok(Arc::clone(&state.listed));
        }
        let names = |read: &BTreeMap<Id, _>| read.keys().copied().collect::<Vec<Id>>();
        let before = names(&state.read);
        // What was read stays known if the storage fails.
        let read = self
            .repository
            .read_rest(ObjectKind::Snapshot, state.read.clone(), |id| {
                match self.repository.load_snapshot(id) {
                    Err(error) if error.is_not_found() => Err(error),
                    Err(error) => Ok(Err(error.to_string())),
                    Ok(snapshot) => Ok(Ok(Arc::new(snapshot))),
                }
            })?;
        if state.at.is_none() || names(&read) != before {
            state.listed = Arc::new(self.sort(&read));
            state.read = read;
        }
        state.at = Some(Instant::now());
        Ok(Arc::clone(&state.listed))
    }

    fn sort(&self, read: &BTreeMap<Id, std::result::Result<Arc<Snapshot>, String>>) -> Listed {
        let mut listed = Listed::default();
        for (&id, snapshot) in read {
            match snapshot {
                Ok(snapshot) if self.filter.allows(snapshot) => {
                    listed.snapshots.push((id, Arc::clone(snapshot)));
                }
                Ok(_) => {}
                Err(error) => listed.damaged.push((id, error.clone())),
            }
        }
        let order = |(id, snapshot): &(Id, Arc<Snapshot>)| snapshot.order(*id);
        listed.snapshots.sort_by_key(order);
        let ids = listed.snapshots.iter().map(|(id, _)| *id);
        listed.places = ids.enumerate().map(|(place, id)| (id, place)).collect();
        listed
    }
}
