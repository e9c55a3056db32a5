//! Reads all objects now and then, and compares them with their names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tabane_storage::{Name, ObjectKind, Result, Storage, StorageErrorKind, object_id, write_whole};

use crate::repository::Repository;
use crate::service::Service;
use crate::watched::now_s;

/// File in the directory of repositories that says when each was scrubbed. No repository has such a
/// name.
const STATE: &str = ".scrubbed.json";

/// Bytes that are read in a second, so that clients are not held up.
const BYTES_PER_S: f64 = (100 << 20) as f64;

/// Time after which it is looked again whether a repository is due.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);

/// When each repository was scrubbed, and what was wrong.
#[derive(Default, Serialize, Deserialize)]
struct State(BTreeMap<String, Last>);

#[derive(Default, Serialize, Deserialize)]
struct Last {
    /// Seconds since 1970.
    ended: u64,
    /// Paths of damaged objects.
    damaged: BTreeSet<String>,
}

/// Scrubs the repositories of a realm.
pub struct Scrubber {
    /// The directory of the repositories.
    pub directory: PathBuf,
    /// Its repositories, and the counters.
    pub service: Service,
    /// Time from one scrub of a repository to the next.
    pub interval: Duration,
    /// Receives lines for the log.
    pub log: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Scrubber {
    /// Works until the sender of `stop` is dropped.
    pub fn run(self, stop: &Receiver<()>) {
        let mut state = self.load();
        loop {
            let repositories = self.service.realm.all();
            state
                .0
                .retain(|known, _| repositories.iter().any(|(name, _)| name == known));
            self.tell(&state);
            for (name, repository) in repositories {
                let last = state.0.get(&name).map_or(0, |last| last.ended);
                if now_s().saturating_sub(last) < self.interval.as_secs() {
                    continue;
                }
                match self.scrub(&name, &repository, stop) {
                    // It is not a repository, or the server stops.
                    Ok(None) => continue,
                    Ok(Some(damaged)) => {
                        let (ended, count) = (now_s(), damaged.len());
                        state.0.insert(name.clone(), Last { ended, damaged });
                        self.save(&state);
                        self.tell(&state);
                        (self.log)(&format!("{name}: scrubbed, damaged objects: {count}"));
                    }
                    Err(error) => (self.log)(&format!("cannot scrub {name}: {error}")),
                }
            }
            if stop.recv_timeout(LOOK_INTERVAL) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    }

    /// Reads a repository; returns the paths of damaged objects.
    fn scrub(
        &self,
        name: &str,
        repository: &Repository,
        stop: &Receiver<()>,
    ) -> Result<Option<BTreeSet<String>>> {
        if repository.storage().stat(Name::CONFIG).is_err() {
            return Ok(None);
        }
        let mut damaged = BTreeSet::new();
        for kind in ObjectKind::ALL {
            if kind == ObjectKind::Config {
                continue;
            }
            for object in repository.list(kind)? {
                let start = Instant::now();
                let object = Name::new(kind, object.id);
                let bytes = match repository.storage().get(object, None) {
                    Ok(bytes) => bytes,
                    // It was deleted meanwhile.
                    Err(error) if error.kind() == StorageErrorKind::NotFound => continue,
                    Err(error) => {
                        (self.log)(&format!("{name}: {object} cannot be read: {error}"));
                        damaged.insert(object.path());
                        continue;
                    }
                };
                if repository.check_name(object, object_id(&[&bytes])).is_err() {
                    (self.log)(&format!(
                        "{name}: {object} is damaged: repair the repository"
                    ));
                    damaged.insert(object.path());
                }
                self.service.counters.scrubbed_objects.add(1);
                let pause = Duration::from_secs_f64(bytes.len() as f64 / BYTES_PER_S);
                let pause = pause.saturating_sub(start.elapsed());
                if stop.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                    return Ok(None);
                }
            }
        }
        Ok(Some(damaged))
    }

    /// Counts what is known.
    fn tell(&self, state: &State) {
        let of_all = state.0.values();
        let damaged: usize = of_all.clone().map(|last| last.damaged.len()).sum();
        self.service.counters.damaged_objects.set(damaged as u64);
        let oldest = of_all.map(|last| last.ended).min();
        self.service
            .counters
            .scrubbed_at
            .set(oldest.unwrap_or_default());
    }

    fn path(&self) -> PathBuf {
        self.directory.join(STATE)
    }

    fn load(&self) -> State {
        let read = |path: &Path| serde_json::from_slice(&std::fs::read(path).ok()?).ok();
        read(&self.path()).unwrap_or_default()
    }

    fn save(&self, state: &State) {
        let json = serde_json::to_vec(state).expect("it is plain data");
        if let Err(error) = write_whole(&self.path(), &json, 0o600, true) {
            let path = self.path();
            (self.log)(&format!("cannot write {}: {error}", path.display()));
        }
    }
}
