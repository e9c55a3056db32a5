//! The process dies at any storage operation, or a write leaves a part of itself: nothing that was
//! acknowledged is lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tabane_storage::{Name, ObjectKind, Storage, StorageErrorKind};
use tabane_store::{Id, Repository};
use tabane_striped::{HealOptions, StripedStorage};
use tempfile::TempDir;

use crate::bed::{Quiet, Random, heal, read_all};
use crate::common::fault::{Fault, FaultyStorage};
use crate::common::memory::MemoryStorage;
use crate::common::striped::{open, places};
use crate::common::{
    self, Recorder, assert_restores, back_up_observed, backup_options, id, init_options, password,
};

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

/// All objects of the repository, by their names.
type Stored = BTreeMap<Name, Vec<u8>>;

fn stored(disks: &Disks) -> Stored {
    let storage = set_of(disks);
    let kinds = ObjectKind::ALL
        .into_iter()
        .filter(|kind| !kind.is_transient());
    let names = kinds.flat_map(|kind| {
        let listed = storage.list(kind).unwrap().into_iter();
        listed.map(move |one| Name::new(kind, one.id))
    });
    names
        .map(|name| (name, storage.get(name, None).unwrap()))
        .collect()
}

/// A set with a repository, its snapshot and the source.
struct Filled {
    disks: Disks,
    stored: Stored,
    snapshot: Id,
    source: TempDir,
}

impl Filled {
    fn new(count: usize, seed: u64) -> Self {
        let source = source(seed);
        let disks: Disks = (0..count).map(|_| MemoryStorage::default()).collect();
        StripedStorage::form(places(shared(disks.iter().cloned())), false).unwrap();
        let storage = Arc::new(set_of(&disks));
        let made = Repository::init(storage, &password(), init_options()).unwrap();
        let made = common::back_up(&Arc::new(made), &[source.path()]);
        Self {
            stored: stored(&disks),
            disks,
            snapshot: id(&made),
            source,
        }
    }

    /// All objects are there as they were; from time to time they are listed, too, and the snapshot
    /// is restored.
    fn assert_kept(&self, disks: &Disks, at: u64) {
        let storage = set_of(disks);
        for (name, bytes) in &self.stored {
            assert!(storage.get(*name, None).unwrap() == *bytes, "{name}");
        }
        if at % 16 == 1 {
            let source = self.source.path();
            assert_restores(&repository(disks), self.snapshot, source, source);
        }
    }
}

/// The process dies before an operation, or in a write that leaves a truncated file.
const DEATHS: [Fault; 2] = [Fault::FailFrom, Fault::Cut];

/// Runs `act` on copies of `disks` that die at its first operation, its second, and so on until it
/// lives, and each time looks at what is left.
fn at_every_operation<T>(
    disks: &Disks,
    deaths: &[Fault],
    act: impl Fn(Vec<Arc<dyn Storage>>) -> Result<T, String>,
    look: impl Fn(Disks, Option<T>, Fault, u64),
) {
    for &death in deaths {
        for at in 1.. {
            let left = copies(disks);
            let done = Arc::new(AtomicU64::new(0));
            let mortal = left
                .iter()
                .cloned()
                .map(|inner| FaultyStorage::over(inner, death, at, Arc::clone(&done)));
            let result = act(shared(mortal));
            let lived = done.load(Ordering::SeqCst) < at;
            if let Err(error) = &result {
                assert!(!lived, "it failed without having died: {error}");
            }
            look(left, result.ok(), death, at);
            if lived {
                assert!(at > 5, "it does next to nothing");
                break;
            }
        }
    }
}

fn source(seed: u64) -> TempDir {
    let dir = common::scratch();
    let mut random = Random(seed);
    for (name, len) in [("large", 150_000), ("small", 10)] {
        std::fs::write(dir.path().join(format!("{name}-{seed}")), random.bytes(len)).unwrap();
    }
    dir
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

#[test]
fn while_a_backup_is_made() {
    let first = Filled::new(5, 1);
    let later = source(2);
    let back_up = |storages| {
        let storage = Arc::new(open(places(storages)).map_err(text)?);
        let repository = Arc::new(Repository::open(storage, &password()).map_err(text)?);
        let recorder = Arc::new(Recorder::default());
        let made = back_up_observed(&repository, &[later.path()], backup_options(), &recorder);
        made.map(|made| id(&made)).map_err(text)
    };
    at_every_operation(
        &first.disks,
        &DEATHS,
        back_up,
        |whole, second, death, at| {
            // Two targets are lost on top.
            let one = at as usize % 5;
            let other = (one + 1 + at as usize / 5 % 4) % 5;
            let mut left = whole.clone();
            for number in [one, other] {
                left[number] = MemoryStorage::default();
            }
            first.assert_kept(&left, at);
            if let Some(second) = second {
                assert_restores(&repository(&left), second, later.path(), later.path());
            }
            let storage = set_of(&whole);
            storage.heal(HealOptions::default(), &Silent).unwrap();
            let survey = storage.survey().unwrap();
            // What was cut short may look like a copy that nobody else has.
            let may_be_left = u64::from(death == Fault::Cut);
            assert!(survey.incomplete_objects <= may_be_left, "{survey:?}");
        },
    );
}

/// After it died, another heal does the rest; only the note of the dead one stays.
fn heal_dies(filled: &Filled, damaged: &Disks) {
    let heal = |storages| {
        let storage = open(places(storages)).map_err(text)?;
        let report = storage.heal(read_all(), &Silent).map_err(text)?;
        match report.unhealed_objects {
            0 => Ok(()),
            _ => Err(format!("{report:?}")),
        }
    };
    at_every_operation(damaged, &DEATHS, heal, |left, _, _, at| {
        filled.assert_kept(&left, at);
        set_of(&left).heal(read_all(), &Quiet).unwrap();
        for (healed, whole) in left.iter().zip(&filled.disks) {
            let mut healed = healed.objects();
            healed.retain(|name, _| name.kind != ObjectKind::Deleted);
            assert!(healed == whole.objects(), "operation {at}");
        }
    });
}

/// Dead storages make problems; those are not looked at.
struct Silent;

impl tabane_store::Progress for Silent {}

#[test]
fn while_missing_parts_are_healed() {
    let filled = Filled::new(5, 3);
    let disks = copies(&filled.disks);
    for number in [1, 2] {
        for name in disks[number].objects().into_keys() {
            if !matches!(name.kind, ObjectKind::Target | ObjectKind::Set) {
                disks[number].remove(name);
            }
        }
    }
    heal_dies(&filled, &disks);
}

#[test]
fn while_damaged_parts_are_healed() {
    let filled = Filled::new(5, 4);
    let disks = copies(&filled.disks);
    let mut random = Random(4);
    for number in [0, 4] {
        for (name, mut bytes) in disks[number].objects() {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 0x40;
            disks[number].set(name, bytes);
        }
    }
    heal_dies(&filled, &disks);
}

#[test]
fn while_a_target_is_replaced() {
    let mut filled = Filled::new(5, 5);
    // The new target, not yet in the set.
    filled.disks.push(MemoryStorage::default());
    let replace = |storages: Vec<Arc<dyn Storage>>| {
        let places = places(storages);
        let storage = open(places[..5].to_vec()).map_err(text)?;
        storage.replace("target-2", &places[5]).map_err(text)
    };
    at_every_operation(
        &filled.disks,
        &[Fault::FailFrom],
        replace,
        |left, replaced, _, at| {
            // With the old set file, or with the new one.
            let mut new = left.clone();
            new.remove(2);
            if replaced.is_none() {
                filled.assert_kept(&left[..5].to_vec(), at);
            }
            filled.assert_kept(&new, at);
            let places = places(shared(left.iter().cloned()));
            if replaced.is_none() {
                let again = open(places[..5].to_vec()).unwrap();
                let is_done = again.urls().all(|url| url != "target-2");
                // The same again ends what was begun, also if only the old target was told.
                match again.replace("target-2", &places[5]) {
                    Err(error) if is_done => {
                        assert_eq!(error.kind(), StorageErrorKind::AlreadyReplaced);
                    }
                    replaced => drop(replaced.unwrap()),
                }
            }
            let report = heal(&set_of(&new));
            assert_eq!((report.missing_targets, report.unhealed_objects), (0, 0));
            for lost in [0, 3] {
                new[lost] = MemoryStorage::default();
            }
            filled.assert_kept(&new, at);
        },
    );
}
