//! Any damage of any object is noticed by a check that reads all, and never restored.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::common::memory::{MemoryStorage, Objects};
use crate::common::tree::{random_bytes, text, write};
use crate::common::{Recorder, back_up, compare, id, init, password, restore_options, scratch};
use tabane_storage::{Name, ObjectKind};
use tabane_store::check::{CheckOptions, ReadData};
use tabane_store::{Id, Repository};
use tempfile::TempDir;

type Contents = BTreeMap<PathBuf, Vec<u8>>;

/// A small repository of two snapshots, and what each restores to.
struct Sample {
    objects: Objects,
    snapshots: Vec<(Id, Contents)>,
    source: PathBuf,
    _dir: TempDir,
}

impl Sample {
    fn new(seed: u64) -> Self {
        let dir = scratch();
        let source = dir.path().join("source");
        write(source.join("text"), &text(900));
        write(source.join("random"), &random_bytes(seed, 300));
        write(source.join("directory/below"), &random_bytes(seed + 1, 40));
        let storage = MemoryStorage::default();
        let repository = init(storage.clone());
        let mut snapshots = Vec::new();
        for round in 0..2 {
            write(source.join("changes"), &random_bytes(seed + 2 + round, 60));
            let made = back_up(&repository, &[&source]);
            snapshots.push((id(&made), compare::contents(&source)));
        }
        Self {
            objects: storage.objects(),
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
    for kind in ObjectKind::ALL
        .into_iter()
        .filter(|kind| !kind.is_transient())
    {
        assert!(sample.objects.keys().any(|name| name.kind == kind));
    }
}

#[test]
fn every_byte() {
    let sample = Sample::new(2);
    let mut flips = Vec::new();
    for (name, bytes) in &sample.objects {
        for at in 0..bytes.len() {
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
    let total: usize = sample.objects.values().map(Vec::len).sum();
    let (objects, flips) = (sample.objects.len(), flips.len() as u64);
    eprintln!("{flips} flips in {total} bytes of {objects} objects, each noticed");
    assert_eq!(noticed.into_inner(), flips);
}

#[test]
fn every_length() {
    let sample = Sample::new(3);
    let mut cuts = Vec::new();
    for (name, bytes) in &sample.objects {
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
    let (sample, foreign) = (Sample::new(4), Sample::new(50));
    let mut tried = 0;
    for name in sample.objects.keys() {
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
    let (sample, foreign) = (Sample::new(5), Sample::new(60));
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
    let sample = Sample::new(6);
    for (name, bytes) in &sample.objects {
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
    let sample = Sample::new(7);
    for name in sample.objects.keys() {
        let mut objects = sample.objects.clone();
        objects.remove(name);
        let noticed = sample.examine(objects, &format!("no {name}"));
        // Nothing says how many snapshots there were.
        assert!(noticed || name.kind == ObjectKind::Snapshot, "no {name}");
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
