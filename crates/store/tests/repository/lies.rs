//! A place that lies in its listings: objects are left out, made up or listed twice, and have other
//! lengths and times.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use tabane_storage::{Id, Listed, Name, ObjectKind, Storage};
use tabane_store::check::{CheckOptions, ReadData};
use tabane_store::{Memory, PruneOptions, Repository};

use super::write_only::Bed;
use crate::common::memory::MemoryStorage;
use crate::common::tree::{random_bytes, write};
use crate::common::{Recorder, back_up, back_up_observed, backup_options, forward, id, password};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    LeaveOutAll,
    /// Another one each time.
    LeaveOutInTurn {
        is_far: bool,
    },
    MakeUp,
    Repeat,
    /// Bytes of each object.
    Lengths(u64),
    Longer,
    Shorter,
    /// Seconds since 1970 of each put.
    Times(u64),
}

const LIES: [Lie; 11] = [
    Lie::LeaveOutAll,
    Lie::LeaveOutInTurn { is_far: false },
    Lie::LeaveOutInTurn { is_far: true },
    Lie::MakeUp,
    Lie::Repeat,
    Lie::Lengths(u64::MAX),
    Lie::Longer,
    Lie::Shorter,
    Lie::Times(0),
    Lie::Times(u32::MAX as u64),
    Lie::Times(u64::MAX / 1_000_000_000),
];

/// A place that lies about objects of one kind.
struct Liar {
    inner: MemoryStorage,
    kind: ObjectKind,
    lie: Lie,
    lists: AtomicUsize,
}

impl Storage for Liar {
    forward!(location, create, put, get, stat, delete);

    fn list(&self, kind: ObjectKind) -> tabane_storage::Result<Vec<Listed>> {
        let mut listed = self.inner.list(kind)?;
        if kind != self.kind {
            return Ok(listed);
        }
        let turn = self.lists.fetch_add(1, Ordering::Relaxed);
        match self.lie {
            Lie::LeaveOutAll => listed.clear(),
            Lie::LeaveOutInTurn { .. } => {
                let left_out = turn % listed.len().max(1);
                listed = [
                    &listed[..left_out],
                    listed.get(left_out + 1..).unwrap_or(&[]),
                ]
                .concat();
            }
            Lie::MakeUp => listed.extend((1..=3).map(|number| Listed {
                id: Id([number; 32]),
                len: 1000,
                modified: SystemTime::UNIX_EPOCH,
            })),
            Lie::Repeat => listed.extend(listed.clone()),
            Lie::Lengths(len) => listed.iter_mut().for_each(|one| one.len = len),
            Lie::Longer => listed.iter_mut().for_each(|one| one.len += 1),
            Lie::Shorter => listed.iter_mut().for_each(|one| one.len -= 1),
            Lie::Times(secs) => {
                let time = SystemTime::UNIX_EPOCH + Duration::from_secs(secs);
                listed.iter_mut().for_each(|one| one.modified = time);
            }
        }
        Ok(listed)
    }

    fn is_far(&self) -> bool {
        self.lie == Lie::LeaveOutInTurn { is_far: true }
    }
}

/// A machine that has seen the repository.
fn machine(storage: impl Storage + 'static, state: &Path) -> tabane_store::Result<Arc<Repository>> {
    let repository = Repository::open(Arc::new(storage), &password())?;
    Ok(Arc::new(repository.with_memory(Memory::new(state))))
}

fn prune(repository: &Repository) -> tabane_store::Result<()> {
    let plan = repository.plan_prune(PruneOptions::default())?;
    plan.execute().map(drop)
}

/// Whatever a place says for a while, nothing is lost by what its clients do about it.
#[test]
fn a_place_that_lies_in_listings_costs_no_snapshot() {
    let bed = Bed::new();
    let state = bed.dir.path().join("state");
    let seen = |storage: &MemoryStorage| machine(storage.clone(), &state).unwrap();
    // Snapshots of both kinds of keys, blocks that nobody needs, condemned packs.
    let mut kept = BTreeSet::from([id(&back_up(&bed.writer(), &[&bed.source()]))]);
    write(bed.source().join("random"), &random_bytes(5, 200_000));
    let gone = back_up(&seen(&bed.storage), &[&bed.source()]);
    write(bed.source().join("random"), &random_bytes(6, 200_000));
    kept.insert(id(&back_up(&seen(&bed.storage), &[&bed.source()])));
    bed.master.remove_snapshot(id(&gone)).unwrap();
    bed.prune();
    kept.insert(id(&back_up(&bed.writer(), &[&bed.source()])));
    seen(&bed.storage).check(CheckOptions::default()).unwrap();
    let remembered = std::fs::read_dir(&state).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        (path.clone(), std::fs::read(path).unwrap())
    });
    let remembered: Vec<_> = remembered.collect();
    let base = bed.storage.objects();
    write(bed.source().join("new"), &random_bytes(7, 50_000));

    for kind in ObjectKind::ALL {
        for lie in LIES {
            if bed.count(kind) == 0 && lie != Lie::MakeUp {
                continue;
            }
            for act in ["backup", "check", "prune"] {
                println!("{act}, {kind:?}: {lie:?}");
                let storage = MemoryStorage::new(base.clone());
                storage.wait(Duration::from_secs(3600));
                for (path, bytes) in &remembered {
                    std::fs::write(path, bytes).unwrap();
                }
                let liar = Liar {
                    inner: storage.clone(),
                    kind,
                    lie,
                    lists: AtomicUsize::new(0),
                };
                let mut kept = kept.clone();
                let recorder = Arc::new(Recorder::default());
                let done = machine(liar, &state).and_then(|machine| match act {
                    "backup" => {
                        let sources: &[&Path] = &[&bed.source()];
                        let made =
                            back_up_observed(&machine, sources, backup_options(), &recorder)?;
                        kept.insert(id(&made));
                        Ok(())
                    }
                    "check" => machine.check(CheckOptions::default()).map(drop),
                    _ => prune(&machine),
                });
                let what = format!("{act}, {kind:?}: {lie:?}: {done:?}");
                // The place has come to its senses.
                let machine = seen(&storage);
                prune(&machine).unwrap_or_else(|error| panic!("{what}: then {error}"));
                let there = machine.list(ObjectKind::Snapshot).unwrap();
                let there: BTreeSet<Id> = there.into_iter().map(|(id, _)| id).collect();
                assert!(there.is_superset(&kept), "{what}");
                let options = CheckOptions::default().read_data(ReadData::All);
                assert_eq!(machine.check(options).unwrap().problems, 0, "{what}");
            }
        }
    }
}
