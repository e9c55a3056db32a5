//! Reads all that a node keeps, now and then, and compares it with its checksums.
//!
//! A node repairs nothing by itself: the others have what that takes, and a client tells them. So
//! it notes which shards are damaged, and a heal asks for them.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use tabane_storage::{
    Limiter, LocalStorage, Name, ObjectKind, Result, Storage, StorageErrorKind, write_whole,
};
use tabane_striped::cluster::wire;
use tabane_striped::shard::is_sound_in;

use crate::lock;

/// When, and how fast, a node scrubs.
#[derive(Clone, Copy, Debug)]
pub struct ScrubOptions {
    /// From the end of one scrub to the beginning of the next; none at all if this is `None`.
    pub pause: Option<Duration>,
    /// Bytes in KiB that are read in a second at most.
    pub limit_kib_per_s: u64,
}

impl Default for ScrubOptions {
    fn default() -> Self {
        Self {
            pause: Some(Duration::from_secs(30 * 86_400)),
            limit_kib_per_s: 50_000,
        }
    }
}

/// While clients write, a scrub reads so many times slower.
const BUSY_SHARE: usize = 8;

/// How often progress is kept.
const KEEP_PAUSE: Duration = Duration::from_secs(60);

/// How often a scrub looks whether it is time.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// Damaged shards whose names are kept.
const DAMAGED_MAX: usize = 10_000;

/// What is kept of scrubs in the node's directory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Kept {
    /// The last scrub that came to its end.
    last: Option<Outcome>,
    /// The one that was begun, and the last shard that it has read.
    current: Option<(Outcome, Name)>,
    damaged: BTreeSet<Name>,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Outcome {
    begun_s: u64,
    ended_s: u64,
    shards: u64,
    bytes: u64,
}

/// The scrubs of a node.
pub struct Scrubs {
    path: PathBuf,
    options: ScrubOptions,
    state: Mutex<Kept>,
    is_stopping: Mutex<bool>,
    stopping: Condvar,
}

impl Scrubs {
    /// What was kept at `path`, if anything: what cannot be read is begun anew.
    pub fn open(path: PathBuf, options: ScrubOptions) -> Self {
        let kept = fs::read(&path).ok();
        let kept = kept.and_then(|kept| serde_json::from_slice(&kept).ok());
        Self {
            path,
            options,
            state: Mutex::new(kept.unwrap_or_default()),
            is_stopping: Mutex::default(),
            stopping: Condvar::new(),
        }
    }

    /// What came of the last one.
    pub fn last(&self) -> Option<wire::Scrub> {
        let state = lock(&self.state);
        let damaged = state.damaged.len() as u64;
        let last = state
            .last
            .or_else(|| (damaged > 0).then(Outcome::default))?;
        Some(wire::Scrub {
            begun_s: last.begun_s,
            ended_s: last.ended_s,
            shards: last.shards,
            bytes: last.bytes,
            damaged,
        })
    }

    /// Shards that are damaged, as far as is known.
    pub fn damaged(&self) -> Vec<Name> {
        lock(&self.state).damaged.iter().copied().collect()
    }

    /// A shard was deleted or put anew.
    pub fn forget(&self, name: Name) {
        lock(&self.state).damaged.remove(&name);
    }

    /// Ends [`Scrubs::run`].
    pub fn close(&self) {
        *lock(&self.is_stopping) = true;
        self.stopping.notify_all();
    }

    /// Scrubs when it is time, until it is closed; for a thread of its own. `is_busy` says whether
    /// clients write.
    pub fn run(&self, storage: &LocalStorage, is_busy: impl Fn() -> bool, log: impl Fn(&str)) {
        let Some(pause) = self.options.pause else {
            return;
        };
        while !self.stops_within(LOOK_PAUSE) {
            if self.is_due(pause)
                && let Err(error) = self.scrub(storage, &is_busy, &log)
            {
                log(&format!("the scrub cannot go on: {error}"));
                if self.stops_within(KEEP_PAUSE) {
                    return;
                }
            }
        }
    }

    fn is_due(&self, pause: Duration) -> bool {
        let state = lock(&self.state);
        let last = state.last.map_or(0, |last| last.ended_s);
        state.current.is_some() || seconds_now() >= last.saturating_add(pause.as_secs())
    }

    /// Waits for so long, and returns whether it is to stop.
    fn stops_within(&self, time: Duration) -> bool {
        let is_stopping = lock(&self.is_stopping);
        let waited = self
            .stopping
            .wait_timeout_while(is_stopping, time, |stops| !*stops);
        *waited.expect("no panic under this lock").0
    }

    /// Reads everything, or goes on with what was begun.
    fn scrub(
        &self,
        storage: &LocalStorage,
        is_busy: &dyn Fn() -> bool,
        log: &dyn Fn(&str),
    ) -> Result<()> {
        let limiter = Limiter::new(self.options.limit_kib_per_s);
        let begun = lock(&self.state).current;
        let after = begun.map(|(_, name)| name);
        let mut outcome = begun.map_or_else(
            || Outcome {
                begun_s: seconds_now(),
                ..Outcome::default()
            },
            |(outcome, _)| outcome,
        );
        let mut kept = Instant::now();
        let names = names(storage)?.into_iter();
        for name in names.filter(|name| after.is_none_or(|after| *name > after)) {
            match is_sound_in(storage, name) {
                Ok((is_sound, bytes)) => {
                    outcome.shards += 1;
                    outcome.bytes += bytes;
                    self.judge(name, is_sound, log);
                    let times = if is_busy() { BUSY_SHARE } else { 1 };
                    limiter.pause(bytes as usize * times);
                }
                // Deleted meanwhile.
                Err(error) if error.kind() == StorageErrorKind::NotFound => {}
                // A disk that cannot read a sector.
                Err(_) => self.judge(name, false, log),
            }
            lock(&self.state).current = Some((outcome, name));
            if kept.elapsed() > KEEP_PAUSE {
                self.keep()?;
                kept = Instant::now();
            }
            if self.stops_within(Duration::ZERO) {
                return self.keep();
            }
        }
        outcome.ended_s = seconds_now();
        let mut state = lock(&self.state);
        (state.last, state.current) = (Some(outcome), None);
        let damaged = state.damaged.len();
        drop(state);
        if damaged > 0 {
            log(&format!(
                "the scrub has ended; damaged shards, which a heal replaces: {damaged}"
            ));
        }
        self.keep()
    }

    fn judge(&self, name: Name, is_sound: bool, log: &dyn Fn(&str)) {
        let mut state = lock(&self.state);
        if is_sound {
            state.damaged.remove(&name);
        } else if state.damaged.len() < DAMAGED_MAX && state.damaged.insert(name) {
            drop(state);
            log(&format!("the scrub finds {name} damaged"));
        }
    }

    fn keep(&self) -> Result<()> {
        let kept = serde_json::to_vec(&*lock(&self.state)).expect("it is plain data");
        write_whole(&self.path, &kept, 0o600, true)
    }
}

/// All shards, in the order in which they are read.
fn names(storage: &LocalStorage) -> Result<BTreeSet<Name>> {
    let mut names = BTreeSet::new();
    for kind in ObjectKind::ALL {
        match storage.list(kind) {
            Err(error) if error.kind() == StorageErrorKind::NotFound => {}
            listed => names.extend(listed?.into_iter().map(|listed| Name::new(kind, listed.id))),
        }
    }
    Ok(names)
}

fn seconds_now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use tabane_storage::object_id;
    use tabane_striped::{Place, StripedStorage};

    #[test]
    fn a_scrub_finds_what_has_changed_and_goes_on_where_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let places: Vec<Place> = (0..4)
            .map(|number| Place {
                url: format!("target-{number}"),
                storage: Arc::new(LocalStorage::new(dir.path().join(number.to_string()))),
            })
            .collect();
        StripedStorage::form(places.clone(), false).unwrap();
        let set = StripedStorage::open("set".to_owned(), places, Arc::new(|_| {})).unwrap();
        let put = |kind, byte: u8, len: usize| {
            let bytes = vec![byte; len];
            let name = Name::new(kind, object_id(&[&bytes]));
            set.put(name, &[&bytes]).unwrap();
            name
        };
        let names: Vec<Name> = (0..6)
            .map(|byte| put(ObjectKind::Pack, byte, 300_000))
            .collect();
        put(ObjectKind::Snapshot, 7, 500);
        set.learn_secret(&[1; 32]);
        put(ObjectKind::Pack, 9, 3_000_000);
        let root = dir.path().join("0");
        let storage = LocalStorage::new(&root);
        let scrubs = || Scrubs::open(dir.path().join("scrub"), ScrubOptions::default());
        let logged = Mutex::new(Vec::new());
        let log = |line: &str| lock(&logged).push(line.to_owned());
        let first = scrubs();
        first.scrub(&storage, &|| false, &log).unwrap();
        let shards = first.last().unwrap().shards;
        assert!(
            shards >= 7 && first.last().unwrap().damaged == 0,
            "{shards}"
        );
        assert!(!first.is_due(Duration::from_secs(100)) && first.is_due(Duration::ZERO));

        for name in &names[..2] {
            let mut bytes = storage.get(*name, None).unwrap();
            bytes[70_000 % name.id.0[0] as usize + 200] ^= 4;
            storage.replace(*name, &[&bytes]).unwrap();
        }
        // It is stopped after each shard.
        for _ in 0..shards {
            let stopped = scrubs();
            stopped.close();
            stopped.scrub(&storage, &|| true, &log).unwrap();
        }
        let last = scrubs();
        last.scrub(&storage, &|| false, &log).unwrap();
        let outcome = last.last().unwrap();
        assert_eq!((outcome.shards, outcome.damaged), (shards, 2));
        let mut damaged = last.damaged();
        damaged.sort_by_key(|name| names.iter().position(|other| other == name));
        assert_eq!(damaged, names[..2]);
        assert_eq!(
            lock(&logged)
                .iter()
                .filter(|line| line.contains("damaged"))
                .count(),
            3
        );
        last.forget(names[0]);
        assert_eq!(last.damaged(), names[1..2]);
        // What was mended is noticed.
        last.scrub(&storage, &|| false, &log).unwrap();
        assert_eq!(last.last().unwrap().damaged, 2);
    }
}
