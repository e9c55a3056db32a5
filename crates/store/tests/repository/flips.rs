//! Any damage of any object is noticed by a check that reads all, and never restored.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::common::memory::{MemoryStorage, Objects};
use crate::common::tree::{random_bytes, text, write};
use crate::common::{
    Recorder, back_up, compare, id, init, open, password, restore_options, scratch,
};
use tabane_storage::{Name, ObjectKind};
use tabane_store::check::{CheckOptions, ReadData};
use tabane_store::key::KdfCost;
use tabane_store::{Id, Repository};
use tempfile::TempDir;

type Contents = BTreeMap<PathBuf, Vec<u8>>;

/// A small repository of two snapshots, and what each restores to.
struct Sample {
    objects: Objects,
    /// Those to be damaged.
    names: Vec<Name>,
    snapshots: Vec<(Id, Contents)>,
    source: PathBuf,
    _dir: TempDir,
}

impl Sample {
    fn new(seed: u64) -> Self {
        Self::made(seed, |_| None)
    }

    /// The second snapshot is of a write-only key, and what came with it is to be damaged.
    fn of_writer(seed: u64) -> Self {
        Self::made(seed, |storage| {
            let master = open(storage.clone());
            let key = b"write only".to_vec().into();
            master.add_write_only_key(&key, KdfCost::WEAKEST).unwrap();
            let writer = Repository::open(Arc::new(storage.clone()), &key).unwrap();
            Some(Arc::new(writer))
        })
    }

    /// Whoever `second` makes backs up the second time.
    fn made(seed: u64, second: fn(&MemoryStorage) -> Option<Arc<Repository>>) -> Self {
        let dir = scratch();
        let source = dir.path().join("source");
        write(source.join("text"), &text(900));
        write(source.join("random"), &random_bytes(seed, 300));
        write(source.join("directory/below"), &random_bytes(seed + 1, 40));
        let storage = MemoryStorage::default();
        let mut repository = init(storage.clone());
        let mut snapshots = Vec::new();
        let mut before = Objects::new();
        for round in 0..2 {
            write(source.join("changes"), &random_bytes(seed + 2 + round, 60));
            let made = back_up(&repository, &[&source]);
            snapshots.push((id(&made), compare::contents(&source)));
            if round == 0
                && let Some(writer) = second(&storage)
            {
                before = storage.objects();
                before.retain(|name, _| name.kind == ObjectKind::Pack);
                repository = writer;
            }
        }
        let objects = storage.objects();
        let names = objects.keys().filter(|name| !before.contains_key(name));
        Self {
            names: names.copied().collect(),
            objects,
            snapshots,
            source,
            _dir: dir,
        }
    }

    /// Checks and restores all; says whether the check or the opening noticed something.
    fn examine(&self, objects: Objects, what: &str) -> bool {
        catch_unwind(AssertUnwindSafe(|| {
            let storage = Arc::new(MemoryStorage::new(objects));
            let Ok(repository) = Repository::open(storage, &password()) else {
                return true;
            };
            let repository = Arc::new(repository);
            let checked = repository.check(CheckOptions::default().read_data(ReadData::All));
            for (id, contents) in &self.snapshots {
                self.restore(&repository, *id, contents, what);
            }
            checked.map_or(true, |report| report.problems > 0)
        }))
        .unwrap_or_else(|_| panic!("{what}: a panic"))
    }

    /// Restores a snapshot, and wants no wrong byte, and nothing missing that nobody spoke of.
    fn restore(&self, repository: &Arc<Repository>, id: Id, contents: &Contents, what: &str) {
        let Ok(loaded) = repository.load_snapshot(id) else {
            return;
        };
        let target = scratch();
        let options = restore_options(target.path()).subpath(self.source.clone());
        let recorder = Arc::new(Recorder::default());
        let result = repository
            .with_progress(Arc::clone(&recorder))
            .restore(options, id, &loaded);
        let found = compare::contents(target.path());
        let warnings = recorder.warnings();
        // Directories that could not be read are named by their path in the snapshot.
        let excused = |name: &Path| {
            let whole = self.source.join(name);
            result.is_err()
                || warnings
                    .iter()
                    .any(|(path, _)| name.starts_with(path) || whole.starts_with(path))
        };
        for (name, bytes) in &found {
            let right = contents.get(name) == Some(bytes);
            let begun = bytes.is_empty() && excused(name);
            assert!(right || begun, "{what}: {} is wrong", name.display());
        }
        for name in contents.keys() {
            let there = found.contains_key(name) || excused(name);
            assert!(there, "{what}: {} is missing", name.display());
        }
        if let Ok(summary) = result {
            assert_eq!(summary.errors, warnings.len() as u64);
        }
    }

    fn with(&self, name: Name, bytes: Vec<u8>) -> Objects {
        let mut objects = self.objects.clone();
        objects.insert(name, bytes);
        objects
    }
}

/// Runs `act` on all items, in as many threads as there are processors.
fn in_threads<T: Sync>(items: &[T], act: impl Fn(&T) + Sync) {
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    act(item);
                }
            });
        }
    });
}

#[test]
fn the_sample_is_good() {
    let sample = Sample::new(1);
    assert!(!sample.examine(sample.objects.clone(), "untouched"));
    let of_writer = Sample::of_writer(1);
    assert!(!of_writer.examine(of_writer.objects.clone(), "untouched"));
    for kind in ObjectKind::ALL
        .into_iter()
        .filter(|kind| !kind.is_transient())
    {
        let (some, others) = (&sample.objects, &of_writer.objects);
        let mut names = some.keys().chain(others.keys());
        assert!(names.any(|name| name.kind == kind), "{kind:?}");
    }
}

#[test]
fn every_byte() {
    flip_bytes(&Sample::new(2), 1);
}

#[test]
fn bytes_of_a_write_only_key() {
    flip_bytes(&Sample::of_writer(2), 41);
}

#[test]
#[ignore = "two minutes: cargo test -p tabane-store --test repository -- --ignored every_byte"]
fn every_byte_of_a_write_only_key() {
    flip_bytes(&Sample::of_writer(2), 1);
}

/// Flips bits in each byte, or in each of so many.
fn flip_bytes(sample: &Sample, step: usize) {
    let mut flips = Vec::new();
    for name in &sample.names {
        for at in (0..sample.objects[name].len()).step_by(step) {
            flips.push((*name, at, 0x01));
            if at % 8 == 0 {
                flips.push((*name, at, 0x80));
            }
        }
    }
    let noticed = AtomicU64::new(0);
    in_threads(&flips, |&(name, at, bit)| {
        let mut bytes = sample.objects[&name].clone();
        bytes[at] ^= bit;
        let what = format!("{name}, byte {at} ^ {bit:#x}");
        assert!(
            sample.examine(sample.with(name, bytes), &what),
            "{what} is not noticed"
        );
        noticed.fetch_add(1, Ordering::Relaxed);
    });
    let total: usize = sample
        .names
        .iter()
        .map(|name| sample.objects[name].len())
        .sum();
    let (objects, flips) = (sample.names.len(), flips.len() as u64);
    eprintln!("{flips} flips in {total} bytes of {objects} objects, each noticed");
    assert_eq!(noticed.into_inner(), flips);
}

#[test]
fn every_length() {
    cut(&Sample::new(3));
    cut(&Sample::of_writer(3));
}

fn cut(sample: &Sample) {
    let mut cuts = Vec::new();
    for name in &sample.names {
        let bytes = &sample.objects[name];
        // All near the ends, and every seventh between them.
        let near = |len: &usize| *len < 50 || *len + 50 > bytes.len() || len.is_multiple_of(7);
        cuts.extend((0..bytes.len()).filter(near).map(|len| (*name, len)));
        cuts.push((*name, bytes.len() + 1));
        cuts.push((*name, bytes.len() + 100));
    }
    in_threads(&cuts, |&(name, len)| {
        let mut bytes = sample.objects[&name].clone();
        bytes.resize(len, 0);
        let what = format!("{name} with {len} bytes");
        assert!(
            sample.examine(sample.with(name, bytes), &what),
            "{what} is not noticed"
        );
    });
    eprintln!("{} wrong lengths, each noticed", cuts.len());
}

#[test]
fn objects_in_the_place_of_others() {
    exchange(&Sample::new(4), &Sample::new(50));
    exchange(&Sample::of_writer(4), &Sample::of_writer(50));
}

fn exchange(sample: &Sample, foreign: &Sample) {
    let mut tried = 0;
    for name in &sample.names {
        let others = sample.objects.iter().chain(&foreign.objects);
        for (other, bytes) in
            others.filter(|(other, _)| *other != name || name.kind == ObjectKind::Config)
        {
            if sample.objects[name] == *bytes {
                continue;
            }
            let what = format!("{name} replaced by {other}");
            assert!(
                sample.examine(sample.with(*name, bytes.clone()), &what),
                "{what} is not noticed"
            );
            tried += 1;
        }
    }
    for (a, first) in &sample.objects {
        for (b, second) in &sample.objects {
            if a < b && a.kind == b.kind {
                let mut objects = sample.objects.clone();
                objects.insert(*a, second.clone());
                objects.insert(*b, first.clone());
                let what = format!("{a} and {b} exchanged");
                assert!(sample.examine(objects, &what), "{what} is not noticed");
                tried += 1;
            }
        }
    }
    eprintln!("{tried} objects in the place of others, each noticed");
}

#[test]
fn foreign_objects_beside_our_own() {
    let (sample, foreign) = (Sample::of_writer(5), Sample::of_writer(60));
    for (name, bytes) in &foreign.objects {
        if name.kind == ObjectKind::Config {
            continue;
        }
        let what = format!("a foreign {name}");
        let noticed = sample.examine(sample.with(*name, bytes.clone()), &what);
        match name.kind {
            // A pack that no index names harms nobody.
            ObjectKind::Pack => assert!(!noticed, "{what}"),
            // A copy of a foreign key could be that of a lost one; a foreign config does not open.
            ObjectKind::Copy => {}
            // A key that opens something else harms nobody, but has no copy here.
            _ => assert!(noticed, "{what}"),
        }
    }
}

#[test]
fn garbage_and_nothing() {
    fill_with_garbage(&Sample::new(6));
    fill_with_garbage(&Sample::of_writer(6));
}

fn fill_with_garbage(sample: &Sample) {
    for name in &sample.names {
        let bytes = &sample.objects[name];
        let header = &bytes[..40.min(bytes.len())];
        for (what, garbage) in [
            ("nothing", Vec::new()),
            ("zeros", vec![0; bytes.len()]),
            ("random bytes", random_bytes(7, bytes.len())),
            ("many random bytes", random_bytes(8, 100_000)),
            ("a header alone", header.to_vec()),
            (
                "garbage behind a good header",
                [header, &random_bytes(9, 500)].concat(),
            ),
            ("twice the same", bytes.repeat(2)),
        ] {
            let what = format!("{name}: {what}");
            assert!(
                sample.examine(sample.with(*name, garbage), &what),
                "{what} is not noticed"
            );
        }
    }
}

#[test]
fn missing_objects() {
    for sample in [Sample::new(7), Sample::of_writer(7)] {
        for name in &sample.names {
            let mut objects = sample.objects.clone();
            objects.remove(name);
            let noticed = sample.examine(objects, &format!("no {name}"));
            // Without a memory of it, nothing says how many snapshots there were.
            assert!(noticed || name.kind == ObjectKind::Snapshot, "no {name}");
        }
    }
}

/// The helper itself must see wrong bytes.
#[test]
fn wrong_bytes_would_be_seen() {
    let mut sample = Sample::new(8);
    let (_, contents) = &mut sample.snapshots[0];
    contents.insert(PathBuf::from("text"), b"other bytes".to_vec());
    let result = catch_unwind(AssertUnwindSafe(|| {
        sample.examine(sample.objects.clone(), "wrong bytes")
    }));
    assert!(result.is_err());
    assert!(fs::exists(&sample.source).unwrap());
}
