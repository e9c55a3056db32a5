//! Commands over a far storage: what they ask for at once, and how many round trips they make one
//! behind the other.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tabane_index::Cache;
use tabane_storage::LocalStorage;
use tabane_store::backup::Backup;
use tabane_store::prune::{MaxUnused, PruneOptions, PrunePlan};
use tabane_store::snapshot::Filter;
use tabane_store::{Id, Memory, Repository};

use crate::common::far::{FarStorage, Operation, in_sequence};
use crate::common::{backup_options, init, open, password, restore_options, scratch, tree};

/// Long enough for operations that can run side by side to overlap on a busy machine.
const LATENCY: Duration = Duration::from_millis(60);

/// Tries of which the best one counts: on a busy machine, operations that are asked for at once may
/// run one behind the other.
const TRIES: usize = 3;

struct Bed {
    dir: tempfile::TempDir,
    storage: FarStorage,
}

impl Bed {
    /// A repository with a snapshot of the directory [`Bed::source`].
    fn new() -> Self {
        let dir = scratch();
        let near = LocalStorage::new(dir.path().join("repository"));
        init(LocalStorage::new(dir.path().join("repository")));
        let storage = FarStorage::new(Arc::new(near), LATENCY);
        let bed = Self { dir, storage };
        for number in 0..40 {
            let below = format!("source/{}/{}/file-{number}", number % 3, number % 7);
            tree::write(bed.path(&below), &[number as u8; 5000]);
        }
        bed.back_up();
        bed
    }

    fn path(&self, below: &str) -> std::path::PathBuf {
        self.dir.path().join(below)
    }

    fn open(&self) -> Repository {
        let memory = Memory::new(self.path("memory"));
        let storage = Arc::new(self.storage.clone());
        let repository = Repository::open_with_memory(storage, &password(), Some(memory)).unwrap();
        repository.with_cache(Cache::new(self.path("cache"), |text| panic!("{text}")))
    }

    /// Backs up the source, as a directory whose name and parents never change.
    fn back_up(&self) -> Backup {
        let options = backup_options().as_path(Path::new("/source").to_owned());
        self.open().backup(options, &[self.path("source")]).unwrap()
    }

    /// The round trips in sequence of `command`, the least of several tries.
    #[track_caller]
    fn expect_at_most(&self, round_trips: usize, command: impl Fn()) {
        let mut least: Option<Vec<Operation>> = None;
        for _ in 0..TRIES {
            self.storage.take_operations();
            command();
            let operations = self.storage.take_operations();
            let chain: Vec<Operation> = in_sequence(&operations).into_iter().cloned().collect();
            if least.as_ref().is_none_or(|least| chain.len() < least.len()) {
                least = Some(chain);
            }
            let least = least.as_ref().expect("there was a try");
            if least.len() <= round_trips {
                return;
            }
        }
        let chain = least.expect("there was a try");
        let names: Vec<&str> = chain.iter().map(|operation| &*operation.what).collect();
        panic!("{} round trips:\n{}", names.len(), names.join("\n"));
    }
}

#[test]
fn an_unchanged_backup_makes_few_round_trips_in_sequence_and_reads_no_directories() {
    let bed = Bed::new();
    bed.expect_at_most(8, || {
        let made = bed.back_up();
        assert!(made.unchanged, "{:?}", made.snapshot.summary);
    });
    bed.storage.take_operations();
    bed.back_up();
    let operations = bed.storage.take_operations();
    let is_of_packs = |operation: &&Operation| operation.what.contains("packs/");
    assert_eq!(operations.iter().filter(is_of_packs).count(), 0);
}

#[test]
fn a_backup_with_changes_makes_few_round_trips_in_sequence() {
    let bed = Bed::new();
    let count = std::cell::Cell::new(0);
    bed.expect_at_most(11, || {
        count.set(count.get() + 1);
        tree::write(
            bed.path("source/new"),
            format!("{}", count.get()).as_bytes(),
        );
        bed.back_up();
    });
}

#[test]
fn snapshots_are_listed_in_few_round_trips() {
    let bed = Bed::new();
    bed.expect_at_most(3, || {
        assert_eq!(
            bed.open()
                .snapshots(&Filter::default())
                .unwrap()
                .snapshots
                .len(),
            1
        );
    });
}

#[test]
fn a_restore_and_a_check_make_few_round_trips_in_sequence() {
    let bed = Bed::new();
    let count = std::cell::Cell::new(0);
    bed.expect_at_most(7, || {
        count.set(count.get() + 1);
        let repository = bed.open();
        let (id, snapshot) = repository
            .find_snapshot("latest", &Filter::default())
            .unwrap();
        let target = bed.path(&format!("restored-{}", count.get()));
        let restored = repository
            .restore(restore_options(&target), id, &snapshot)
            .unwrap();
        assert_eq!(restored.files, 40);
    });
    bed.expect_at_most(8, || {
        let report = bed.open().check(Default::default()).unwrap();
        assert_eq!(report.problems, 0);
    });
}

#[test]
fn a_forget_with_a_prune_makes_few_round_trips_in_sequence() {
    let bed = Bed::new();
    let count = std::cell::Cell::new(0);
    // Four of them are for the record of what is removed, and for who makes a write-only key.
    bed.expect_at_most(13, || {
        count.set(count.get() + 1);
        tree::write(bed.path("source/0/new"), &vec![count.get(); 300_000]);
        let made = bed.back_up();
        bed.storage.take_operations();
        let repository = bed.open();
        repository.expect_to_remove_snapshots();
        let snapshots = repository.snapshots(&Filter::default()).unwrap().snapshots;
        let old: Vec<Id> = snapshots.iter().map(|(id, _)| *id).collect();
        for id in old.into_iter().filter(|id| Some(*id) != made.id) {
            repository.remove_snapshot(id).unwrap();
        }
        let plan = repository.plan_prune(Default::default()).unwrap();
        plan.execute().unwrap();
    });
}

/// Lists that were asked for while a repository was opened are of that time.
#[test]
fn a_removal_that_is_newer_than_the_opened_repository_is_read() {
    let bed = Bed::new();
    let repository = bed.open();
    // Until the lists have arrived that are asked for early.
    std::thread::sleep(3 * LATENCY);
    let near = open(LocalStorage::new(bed.path("repository")));
    let made = near.snapshots(&Filter::default()).unwrap().snapshots;
    made.iter()
        .for_each(|(id, _)| near.remove_snapshot(*id).unwrap());
    near.plan_prune(PruneOptions::default())
        .and_then(PrunePlan::execute)
        .unwrap();
    assert_eq!(repository.read_removals().unwrap().names().len(), 1);
}

/// What is left of a pack is read by one request, though it is in several segments.
#[test]
fn a_prune_reads_what_is_near_in_a_pack_at_once() {
    let bed = Bed::new();
    let kept = tree::random_bytes(1, 6_000_000);
    // One file: each of two might be packed by a thread of its own.
    let all = [&kept[..], &tree::random_bytes(2, 6_000_000)].concat();
    tree::write(bed.path("source/a"), &all);
    let old = bed.back_up().id.unwrap();
    tree::write(bed.path("source/a"), &kept);
    bed.back_up();
    bed.open().remove_snapshot(old).unwrap();
    let options = PruneOptions::default().max_unused(MaxUnused::Bytes(0));
    let repository = bed.open();
    let plan = repository.plan_prune(options).unwrap();
    bed.storage.take_operations();
    plan.execute().unwrap();
    let operations = bed.storage.take_operations();
    let is_read = |operation: &&Operation| operation.what.starts_with("get packs/");
    let reads = operations.iter().filter(is_read).count();
    assert!((1..=3).contains(&reads), "{reads}");
    let repository = bed.open();
    let latest = repository.find_snapshot("latest", &Filter::default());
    let (id, snapshot) = latest.unwrap();
    let target = bed.path("restored");
    let restored = repository.restore(restore_options(&target), id, &snapshot);
    restored.unwrap();
    assert!(std::fs::read(target.join("source/a")).unwrap() == kept);
}

/// A part of a pack that is kept here and damaged is read again.
#[test]
fn damaged_parts_of_packs_in_the_cache_are_read_again() {
    let bed = Bed::new();
    fn kept(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => kept(&path, found),
                false if path.parent().unwrap().ends_with("packs") => found.push(path),
                false => {}
            }
        }
    }
    let mut windows = Vec::new();
    kept(&bed.path("cache"), &mut windows);
    assert!(!windows.is_empty());
    for damaged in [&[0; 10_000][..], &[]] {
        windows
            .iter()
            .for_each(|path| std::fs::write(path, damaged).unwrap());
        let report = bed.open().check(Default::default()).unwrap();
        assert_eq!(report.problems, 0);
    }
}
