//! The process dies at any storage operation: nothing that was acknowledged is lost.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tabane_store::storage::striped::StripedStorage;
use tabane_store::storage::{Listed, Name, ObjectKind, Storage};
use tabane_store::{Id, Repository};

use crate::bed::{Quiet, READ_ALL, Random, heal};
use crate::common::memory::MemoryStorage;
use crate::common::striped::{open, places};
use crate::common::{
    self, Recorder, assert_restores, back_up_observed, backup_options, id, init_options, password,
};

/// From its `at`-th operation on, all storages that share it do nothing any more.
struct Life {
    at: u64,
    /// Whether that one is still done.
    after: bool,
    done: AtomicU64,
}

struct Mortal {
    inner: MemoryStorage,
    life: Arc<Life>,
}

impl Mortal {
    fn act<T>(&self, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let number = self.life.done.fetch_add(1, Ordering::SeqCst) + 1;
        if number < self.life.at {
            return act();
        }
        if number == self.life.at && self.life.after {
            let _done = act();
        }
        Err(io::Error::other("the process is dead"))
    }
}

impl Storage for Mortal {
    fn location(&self) -> String {
        self.inner.location()
    }
    fn create(&self) -> io::Result<()> {
        self.act(|| self.inner.create())
    }
    fn put(&self, name: Name, parts: &[&[u8]]) -> io::Result<()> {
        self.act(|| self.inner.put(name, parts))
    }
    fn get(&self, name: Name, range: Option<Range<u64>>) -> io::Result<Vec<u8>> {
        self.act(|| self.inner.get(name, range))
    }
    fn list(&self, kind: ObjectKind) -> io::Result<Vec<Listed>> {
        self.act(|| self.inner.list(kind))
    }
    fn stat(&self, name: Name) -> io::Result<u64> {
        self.act(|| self.inner.stat(name))
    }
    fn delete(&self, name: Name) -> io::Result<()> {
        self.act(|| self.inner.delete(name))
    }
}

type Disks = Vec<MemoryStorage>;

fn shared<S: Storage + 'static>(storages: impl Iterator<Item = S>) -> Vec<Arc<dyn Storage>> {
    storages
        .map(|storage| -> Arc<dyn Storage> { Arc::new(storage) })
        .collect()
}

fn set_of(disks: &Disks) -> StripedStorage {
    open(places(shared(disks.iter().cloned()))).unwrap()
}

fn repository(disks: &Disks) -> Arc<Repository> {
    Arc::new(Repository::open(Arc::new(set_of(disks)), &password()).unwrap())
}

/// Copies of disks that no longer share anything with them.
fn copies(disks: &Disks) -> Disks {
    disks
        .iter()
        .map(|disk| MemoryStorage::new(disk.objects()))
        .collect()
}

/// A set with a repository, and the snapshot in it.
fn filled(count: usize, source: &Path) -> (Disks, Id) {
    let disks: Disks = (0..count).map(|_| MemoryStorage::default()).collect();
    StripedStorage::form(places(shared(disks.iter().cloned())), false).unwrap();
    let storage = Arc::new(set_of(&disks));
    let made = Repository::init(storage, &password(), init_options()).unwrap();
    let made = common::back_up(&Arc::new(made), &[source]);
    (disks, id(&made))
}

/// Runs `act` on copies of `disks` that die at its first operation, its second, and so on until it lives, and each time looks
/// at what is left.
fn at_every_operation<T>(
    disks: &Disks,
    act: impl Fn(Vec<Arc<dyn Storage>>) -> Result<T, String>,
    look: impl Fn(Disks, Option<T>, u64),
) {
    for after in [false, true] {
        for at in 1.. {
            let left = copies(disks);
            let done = AtomicU64::new(0);
            let life = Arc::new(Life { at, after, done });
            let mortal = left.iter().cloned().map(|inner| Mortal {
                inner,
                life: Arc::clone(&life),
            });
            let done = act(shared(mortal));
            let lived = life.done.load(Ordering::SeqCst) < at;
            assert!(
                done.is_ok() || !lived,
                "it failed without having died: {:?}",
                done.err()
            );
            look(left, done.ok(), at);
            if lived {
                assert!(at > 10, "it does next to nothing");
                break;
            }
        }
    }
}

fn source(dir: &Path, seed: u64) {
    let mut random = Random(seed);
    for (name, len) in [("large", 150_000), ("small", 10)] {
        std::fs::write(dir.join(format!("{name}-{seed}")), random.bytes(len)).unwrap();
    }
}

#[test]
fn while_a_backup_is_made() {
    let dir = common::scratch();
    source(dir.path(), 1);
    let (disks, first) = filled(5, dir.path());
    let later = common::scratch();
    source(later.path(), 2);
    let back_up = |storages| {
        let storage = open(places(storages)).map_err(|error| error.to_string())?;
        let opened = Repository::open(Arc::new(storage), &password());
        let repository = Arc::new(opened.map_err(|error| error.to_string())?);
        let recorder = Arc::new(Recorder::default());
        let made = back_up_observed(&repository, &[later.path()], backup_options(), &recorder);
        made.map(|made| id(&made))
            .map_err(|error| error.to_string())
    };
    at_every_operation(&disks, back_up, |mut left, second, at| {
        // Two targets are lost on top.
        let lost = [at as usize % 5, (at as usize / 5 + at as usize + 1) % 5];
        let whole = left.clone();
        if lost[0] != lost[1] {
            for number in lost {
                left[number] = MemoryStorage::default();
            }
        }
        let repository = self::repository(&left);
        assert_restores(&repository, first, dir.path(), dir.path());
        if let Some(second) = second {
            assert_restores(&repository, second, later.path(), later.path());
        }
        heal(&set_of(&whole));
        let survey = set_of(&whole).survey().unwrap();
        assert_eq!(survey.incomplete_objects, 0, "{survey:?}");
    });
}

/// After it died, another heal does the rest.
fn heal_dies(disks: &Disks, first: Id, dir: &Path) {
    let heal_mortal = |storages| {
        let storage = open(places(storages)).map_err(|error| error.to_string())?;
        let report = storage
            .heal(READ_ALL, &Silent)
            .map_err(|error| error.to_string())?;
        match report.unhealed_objects {
            0 => Ok(()),
            _ => Err(format!("{report:?}")),
        }
    };
    at_every_operation(disks, heal_mortal, |left, _, _| {
        assert_restores(&repository(&left), first, dir, dir);
        set_of(&left).heal(READ_ALL, &Quiet).unwrap();
        let mut left = left;
        let statement = set_of(&left).survey().unwrap().statement();
        assert!(statement.starts_with("any two targets"), "{statement}");
        left[0] = MemoryStorage::default();
        left[3] = MemoryStorage::default();
        assert_restores(&repository(&left), first, dir, dir);
    });
}

/// Dead storages make problems; those are not looked at.
struct Silent;

impl tabane_store::Observer for Silent {
    fn problem(&self, _what: &str) {}
    fn note(&self, _what: &str) {}
    fn progress(&self, _done_bytes: u64, _total_bytes: u64) {}
}

#[test]
fn while_missing_parts_are_healed() {
    let dir = common::scratch();
    source(dir.path(), 3);
    let (disks, first) = filled(5, dir.path());
    for number in [1, 2] {
        for name in disks[number].objects().into_keys() {
            if !matches!(name.kind, ObjectKind::Target | ObjectKind::Set) {
                disks[number].remove(name);
            }
        }
    }
    heal_dies(&disks, first, dir.path());
}

#[test]
fn while_damaged_parts_are_healed() {
    let dir = common::scratch();
    source(dir.path(), 4);
    let (disks, first) = filled(5, dir.path());
    let mut random = Random(4);
    for number in [0, 4] {
        for (name, mut bytes) in disks[number].objects() {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 0x40;
            disks[number].set(name, bytes);
        }
    }
    heal_dies(&disks, first, dir.path());
}

#[test]
fn while_a_target_is_replaced() {
    let dir = common::scratch();
    source(dir.path(), 5);
    let (mut disks, first) = filled(5, dir.path());
    // The new one, which is not of the set yet.
    disks.push(MemoryStorage::default());
    let replace = |storages: Vec<Arc<dyn Storage>>| {
        let places = places(storages);
        let storage = open(places[..5].to_vec()).map_err(|error| error.to_string())?;
        let replaced = storage.replace("target-2", &places[5]);
        replaced.map_err(|error| error.to_string())
    };
    at_every_operation(&disks, replace, |left, replaced, _| {
        // With the old set file, or with the new one.
        let mut new = left.clone();
        new.remove(2);
        let old: Disks = left[..5].to_vec();
        if replaced.is_none() {
            assert_restores(&repository(&old), first, dir.path(), dir.path());
        }
        assert_restores(&repository(&new), first, dir.path(), dir.path());
        let places = places(shared(left.iter().cloned()));
        if replaced.is_none() {
            let again = open(places[..5].to_vec()).unwrap();
            if again
                .survey()
                .unwrap()
                .targets
                .iter()
                .any(|target| target.url == "target-2")
            {
                again.replace("target-2", &places[5]).unwrap();
            }
        }
        heal(&set_of(&new));
        let statement = set_of(&new).survey().unwrap().statement();
        assert!(statement.starts_with("any two targets"), "{statement}");
    });
}
