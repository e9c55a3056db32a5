//! Deletions beside heals.

use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::time::{Duration, SystemTime};

use tabane_storage::{Id, Name, ObjectKind, Storage, StorageErrorKind};
use tabane_striped::{HealOptions, HealReport, StripedStorage};

use crate::{Bed, Meanwhile, Problems, object};

fn heal(storage: &StripedStorage) -> HealReport {
    storage
        .heal(HealOptions::default(), &Problems::default())
        .unwrap()
}

/// Number of targets that hold an object of this kind.
fn holders(bed: &Bed, kind: ObjectKind) -> usize {
    let lists = bed.targets.iter().map(|target| target.inner.list(kind));
    let lists = lists.map(|list| list.unwrap_or_default());
    lists.filter(|list| !list.is_empty()).count()
}

/// A snapshot that lacks a copy, and the target that lost it.
fn lacking(bed: &Bed) -> (Name, usize) {
    let (pack, bytes) = object(1, 1000);
    let name = Name::new(ObjectKind::Snapshot, pack.id);
    bed.open().put(name, &[&bytes]).unwrap();
    let holds = |number: &usize| bed.targets[*number].inner.stat(name).is_ok();
    let number = (0..bed.targets.len()).find(holds).unwrap();
    bed.targets[number].inner.delete(name).unwrap();
    (name, number)
}

/// Heals, and lets `meanwhile` happen after an object was read and before its copy is put.
fn heal_while(bed: &Bed, number: usize, meanwhile: impl FnOnce() + Send + 'static) -> HealReport {
    let (done, was_done) = channel();
    *bed.targets[number].before_put.lock().unwrap() = Some(Box::new(move || {
        meanwhile();
        done.send(()).unwrap();
    }));
    let report = heal(&bed.open());
    was_done.try_recv().expect("the heal puts the lost copy");
    report
}

#[test]
fn what_is_deleted_while_a_heal_copies_it_stays_deleted() {
    for count in [3, 5] {
        let bed = Bed::new(count, "target-");
        let (name, number) = lacking(&bed);
        let (deleter, other) = (bed.open(), bed.open());
        heal_while(&bed, number, move || {
            deleter.delete(name).unwrap();
            // Another heal at this time leaves the mark.
            assert_eq!(heal(&other).applied_deletions, 0);
        });
        assert_eq!(holders(&bed, ObjectKind::Snapshot), 1, "the heal's copy");
        let storage = bed.open();
        assert!(storage.list(ObjectKind::Snapshot).unwrap().is_empty());
        let error = storage.get(name, None).unwrap_err();
        assert_eq!(error.kind(), StorageErrorKind::NotFound);
        assert_eq!(heal(&storage).applied_deletions, 1);
        assert_eq!(holders(&bed, ObjectKind::Snapshot), 0);
        assert_eq!(holders(&bed, ObjectKind::Deleted), 0);
        // Without a heal there is no mark.
        bed.open().put(name, &[b"anew"]).unwrap();
        bed.open().delete(name).unwrap();
        assert_eq!(holders(&bed, ObjectKind::Deleted), 0);
    }
}

/// A heal that begins and ends while the parts are deleted leaves no note to see.
#[test]
fn what_a_heal_puts_back_during_a_deletion_stays_deleted() {
    let bed = Bed::new(4, "target-");
    let (pack, bytes) = object(1, 1000);
    let name = Name::new(ObjectKind::Snapshot, pack.id);
    bed.open().put(name, &[&bytes]).unwrap();
    let holds = |number: &usize| bed.targets[*number].inner.stat(name).is_ok();
    let with_copy: Vec<usize> = (0..4).filter(holds).collect();
    // Two deletions wait until a heal has put back what the first one has deleted.
    let is_healed = Arc::new(Barrier::new(2));
    let (first, healer) = (Arc::clone(&bed.targets[with_copy[0]]), bed.open());
    let before = |number: usize, act: Meanwhile| {
        *bed.targets[with_copy[number]].before_delete.lock().unwrap() = Some(act);
    };
    let healed = Arc::clone(&is_healed);
    before(
        1,
        Box::new(move || {
            while first.inner.stat(name).is_ok() {
                std::thread::yield_now();
            }
            assert_eq!(heal(&healer).written_parts, 1);
            healed.wait();
        }),
    );
    let wait = move || {
        is_healed.wait();
    };
    before(2, Box::new(wait));
    bed.open().delete(name).unwrap();
    assert_eq!(holders(&bed, ObjectKind::Snapshot), 1);
    let storage = bed.open();
    assert!(storage.list(ObjectKind::Snapshot).unwrap().is_empty());
    assert_eq!(heal(&storage).applied_deletions, 1);
    assert_eq!(holders(&bed, ObjectKind::Snapshot), 0);
}

/// A node that has a copy of a deleted object, and is away again when a heal asks for records.
struct Late {
    bed: Bed,
    /// The set as the heal is to know it.
    storage: StripedStorage,
    /// Nodes that had a copy; the first one has it still.
    with_copy: Vec<usize>,
    /// Lets it be back, and waits until the set knows that.
    comes_back: Meanwhile,
}

fn late_copy(kind: ObjectKind) -> Late {
    let bed = Bed::new(4, "node://");
    let (pack, bytes) = object(1, 1000);
    let name = Name::new(kind, pack.id);
    bed.open().put(name, &[&bytes]).unwrap();
    let holds = |number: &usize| bed.targets[*number].inner.stat(name).is_ok();
    let with_copy: Vec<usize> = (0..4).filter(holds).collect();
    let late = with_copy[0];
    bed.fail(&[late], Some(StorageErrorKind::Unreachable));
    bed.open().delete(name).unwrap();
    bed.fail(&[late], None);
    let storage = bed.open();
    bed.told.lock().unwrap().clear();
    let node = Arc::clone(&bed.targets[late]);
    bed.targets[late].before(("list", ObjectKind::Pending), move || {
        node.fail(Some(StorageErrorKind::Unreachable));
    });
    let (node, told) = (Arc::clone(&bed.targets[late]), Arc::clone(&bed.told));
    let comes_back = Box::new(move || {
        node.fail(None);
        while !told.lock().unwrap().join("").contains("answers again") {
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    Late {
        bed,
        storage,
        with_copy,
        comes_back,
    }
}

/// A node may be away only while a heal asks for records: then it keeps what is marked, and the
/// mark stays.
#[test]
fn what_a_node_keeps_that_is_away_for_a_moment_of_a_heal_stays_deleted() {
    let Late {
        bed,
        storage,
        with_copy,
        comes_back,
    } = late_copy(ObjectKind::Snapshot);
    *bed.targets[with_copy[1]].before_delete.lock().unwrap() = Some(comes_back);
    let report = heal(&storage);
    bed.fail(&with_copy[..1], None);
    assert!(bed.open().list(ObjectKind::Snapshot).unwrap().is_empty());
    assert_eq!(report.applied_deletions, 0);
    assert_eq!(holders(&bed, ObjectKind::Snapshot), 1, "the late copy");
}

/// Marks of records do not say of which kind these are: without all lists, one may be missed.
#[test]
fn a_record_of_a_node_that_is_away_for_a_moment_of_a_heal_stays_deleted() {
    let Late {
        bed,
        storage,
        with_copy,
        comes_back,
    } = late_copy(ObjectKind::Pending);
    bed.targets[(with_copy[0] + 1) % 4].before(("list", ObjectKind::Client), comes_back);
    heal(&storage);
    bed.fail(&with_copy[..1], None);
    assert!(bed.open().list(ObjectKind::Pending).unwrap().is_empty());
    assert_eq!(holders(&bed, ObjectKind::Pending), 1, "the late copy");
}

/// A deletion beside a heal has to be marked, and counts the targets that fail meanwhile.
#[test]
fn a_deletion_counts_all_targets_that_have_no_mark() {
    let bed = Bed::new(4, "target-");
    let (name, number) = lacking(&bed);
    let (deleter, targets) = (bed.open(), bed.targets.clone());
    heal_while(&bed, number, move || {
        for target in &targets[..3] {
            let failing = Arc::clone(target);
            target.before(("put", ObjectKind::Deleted), move || {
                failing.fail(Some(StorageErrorKind::Unreachable));
            });
        }
        let error = deleter.delete(name).unwrap_err();
        assert_eq!(error.kind(), StorageErrorKind::TooFewTargets, "{error}");
        targets.iter().for_each(|target| target.fail(None));
    });
}

#[test]
fn notes_of_dead_heals_are_removed_after_a_month() {
    const DAY: Duration = Duration::from_secs(86_400);
    let bed = Bed::new(4, "target-");
    let (name, number) = lacking(&bed);
    let inner = bed.targets.iter().map(|target| target.inner.location());
    let folders: Vec<_> = inner
        .map(|dir| std::path::Path::new(&dir).join("deleted"))
        .collect();
    let of_killed = folders.clone();
    heal_while(&bed, number, move || {
        for folder in of_killed {
            let note = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap();
            let id = note
                .file_name()
                .into_string()
                .unwrap()
                .parse::<Id>()
                .unwrap();
            let mut killed = id;
            killed.0[0] ^= 1;
            std::fs::write(folder.join(killed.to_string()), "heal").unwrap();
        }
    });
    bed.open().delete(name).unwrap();
    assert_eq!(holders(&bed, ObjectKind::Snapshot), 0);
    for (age, applied) in [(29 * DAY, 0), (31 * DAY, 1)] {
        for folder in &folders {
            for file in std::fs::read_dir(folder).unwrap() {
                let file = std::fs::File::open(file.unwrap().path()).unwrap();
                file.set_modified(SystemTime::now() - age).unwrap();
            }
        }
        assert_eq!(heal(&bed.open()).applied_deletions, applied);
    }
    assert_eq!(holders(&bed, ObjectKind::Deleted), 0);
}
