//! The figures of a prune: of repositories so small that the contents of each pack are known.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::num::NonZero;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tabane_storage::{Listed, Lock, LockMode, Name, ObjectKind, Storage, StorageErrorKind};
use tabane_store::backup::{Backup, BackupOptions};
use tabane_store::client::{Presence, Purpose};
use tabane_store::key::{KdfCost, Password};
use tabane_store::parts::{self, pack};
use tabane_store::prune::{MaxUnused, PlanStats};
use tabane_store::repair::RepairOptions;
use tabane_store::{Error, Id, Progress, Repository};
use tempfile::TempDir;

use super::basics::{prune_with, tight};
use crate::common::heard::{Heard, ended};
use crate::common::memory::MemoryStorage;
use crate::common::tree::{random_bytes, write};
use crate::common::{
    Recorder, assert_clean, back_up_with, backup_options, forward, id, init, open, scratch,
};

/// The bytes of packs by their IDs.
type Packs = BTreeMap<Id, u64>;

fn len(packs: &Packs) -> u64 {
    packs.values().sum()
}

fn count(packs: &Packs) -> u64 {
    packs.len() as u64
}

/// The packs that are not among `others`.
fn without(packs: &Packs, others: &Packs) -> Packs {
    let mut rest = packs.clone();
    rest.retain(|id, _| !others.contains_key(id));
    rest
}

/// Options of a backup that makes one pack of data at most, with the same path each time.
fn options() -> BackupOptions {
    backup_options()
        .readers(NonZero::new(1))
        .as_path(Path::new("/source").to_owned())
}

struct Bed {
    dir: TempDir,
    storage: MemoryStorage,
    repository: Arc<Repository>,
}

impl Bed {
    fn new() -> Self {
        let storage = MemoryStorage::default();
        Self {
            dir: scratch(),
            repository: init(storage.clone()),
            storage,
        }
    }

    fn packs(&self) -> Packs {
        let listed = self.storage.list(ObjectKind::Pack).unwrap();
        listed.iter().map(|pack| (pack.id, pack.len)).collect()
    }

    /// Writes a file so short that it becomes one block.
    fn write(&self, name: &str, len: usize) {
        write(self.dir.path().join(name), &random_bytes(len as u64, len));
    }

    fn back_up_with(&self, repository: &Arc<Repository>) -> (Backup, Packs) {
        let before = self.packs();
        let made = back_up_with(repository, &[self.dir.path()], options());
        (made, without(&self.packs(), &before))
    }

    /// Backs up; returns the new packs, too.
    fn back_up(&self) -> (Backup, Packs) {
        self.back_up_with(&self.repository)
    }

    fn forget(&self, made: &Backup) {
        let name = Name::new(ObjectKind::Snapshot, id(made));
        self.storage.remove(name);
    }

    fn plan(&self, max_unused: MaxUnused) -> PlanStats {
        let options = tight().max_unused(max_unused);
        let planned = self.repository.preview_prune(options, &Default::default());
        *planned.unwrap().stats()
    }

    /// Number of blocks in these packs.
    fn blocks(&self, packs: &Packs) -> u64 {
        let keys = parts::keys(&self.repository);
        let of_pack = |pack: &Id| {
            let contents = pack::fetch_contents(&self.storage, keys, *pack).unwrap();
            let segments = contents.segments.iter();
            segments
                .map(|segment| segment.blocks.len() as u64)
                .sum::<u64>()
        };
        packs.keys().map(of_pack).sum()
    }
}

/// A snapshot that needs two thirds of a pack of data, and a forgotten one that needed all of the
/// pack. Returns the pack of data, and those of the directories of the forgotten snapshot and of
/// the other one.
fn with_a_third_unused() -> (Bed, Packs, Packs, Packs) {
    let bed = Bed::new();
    bed.write("a", 10_000);
    bed.write("b", 5_000);
    let (first, mut data) = bed.back_up();
    fs::remove_file(bed.dir.path().join("b")).unwrap();
    let (_, kept) = bed.back_up();
    bed.forget(&first);
    let mut trees = data.clone();
    data.retain(|_, len| *len > 15_000);
    trees.retain(|_, len| *len <= 15_000);
    assert_eq!((data.len(), trees.len(), kept.len()), (1, 1, 1));
    (bed, data, trees, kept)
}

#[test]
fn a_plan_says_exactly_what_is_used_and_what_is_not() {
    let (bed, data, trees, kept) = with_a_third_unused();
    let unused = (len(&data) as f64 * (1.0 - 10_000.0 / 15_000.0)) as u64;
    let common = PlanStats {
        snapshots: 1,
        used_blocks: 1 + bed.blocks(&kept),
        packs: 3,
        pack_bytes: len(&bed.packs()),
        used_bytes: len(&data) - unused + len(&kept),
        unused_packs: 1,
        unused_bytes: len(&trees),
        ..PlanStats::default()
    };
    let expected = PlanStats {
        kept_packs: 1,
        repacked_packs: 1,
        repacked_bytes: len(&data),
        repacked_unused_bytes: unused,
        ..common
    };
    assert_eq!(bed.plan(MaxUnused::Bytes(0)), expected);
    let expected = PlanStats {
        kept_packs: 2,
        left_unused_bytes: unused,
        ..common
    };
    assert_eq!(bed.plan(MaxUnused::Unlimited), expected);
}

/// Writes down how many packs and bytes of how many are said to be done.
#[derive(Default)]
struct Told {
    packs: Mutex<BTreeSet<(u64, u64)>>,
    bytes: Mutex<BTreeSet<(u64, u64)>>,
}

impl Progress for Told {
    fn packs(&self, done: u64, total: u64) {
        self.packs.lock().unwrap().insert((done, total));
    }

    fn bytes(&self, done: u64, total: u64) {
        self.bytes.lock().unwrap().insert((done, total));
    }
}

#[test]
fn a_prune_says_exactly_what_it_has_done() {
    let (bed, data, trees, kept) = with_a_third_unused();
    let told = Arc::new(Told::default());
    let repository = Arc::new(bed.repository.with_progress(Arc::clone(&told)));
    let report = prune_with(&repository, tight()).unwrap();
    assert_eq!(*told.packs.lock().unwrap(), [(1, 2), (2, 2)].into());
    assert_eq!(report.copied_bytes, 10_000);
    let written = without(&bed.packs(), &kept);
    assert_eq!((written.len(), report.written_bytes), (1, len(&written)));
    assert_eq!(report.deleted_packs, 2);
    assert_eq!(report.deleted_bytes, len(&data) + len(&trees));
    assert_eq!((report.waiting_packs, report.waiting_bytes), (0, 0));
    assert_clean(&bed.repository);
}

#[test]
fn packs_that_wait_for_clients_are_counted() {
    let (bed, data, trees, kept) = with_a_third_unused();
    let presence = Presence::announce(&bed.repository, Purpose::Backup).unwrap();
    bed.write("c", 3_000);
    let (made, young) = bed.back_up_with(&open(bed.storage.clone()));
    bed.forget(&made);
    let report = prune_with(&bed.repository, tight()).unwrap();
    let condemned = [data, trees].into_iter().flatten().collect::<Packs>();
    assert_eq!(report.waiting_packs, 2);
    assert_eq!(report.waiting_bytes, len(&condemned));
    assert_eq!((report.deleted_packs, report.deleted_bytes), (0, 0));
    let copied = without(&without(&bed.packs(), &condemned), &kept);
    let copied = without(&copied, &young);
    assert_eq!((copied.len(), report.written_bytes), (1, len(&copied)));
    let expected = PlanStats {
        snapshots: 1,
        used_blocks: 1 + bed.blocks(&kept),
        packs: 6,
        pack_bytes: len(&bed.packs()),
        used_bytes: len(&copied) + len(&kept),
        kept_packs: 2,
        condemned_packs: 2,
        condemned_bytes: len(&condemned),
        young_packs: 2,
        young_bytes: len(&young),
        clients: 1,
        ..PlanStats::default()
    };
    assert_eq!(count(&young), 2);
    assert_eq!(bed.plan(MaxUnused::Bytes(0)), expected);
    drop(presence);
}

fn writer_password() -> Password {
    b"write only".to_vec().into()
}

/// A repository with one backup, by a write-only key; returns the key's repository, the backup and
/// its packs, too.
fn with_a_writer() -> (Bed, Arc<Repository>, Backup, Packs) {
    let bed = Bed::new();
    let added = bed
        .repository
        .add_write_only_key(&writer_password(), KdfCost::WEAKEST);
    added.unwrap();
    let bed = Bed {
        repository: open(bed.storage.clone()),
        ..bed
    };
    let storage = Arc::new(bed.storage.clone());
    let writer = Arc::new(Repository::open(storage, &writer_password()).unwrap());
    bed.write("a", 10_000);
    let (made, packs) = bed.back_up_with(&writer);
    assert_eq!(packs.len(), 2);
    (bed, writer, made, packs)
}

#[test]
fn packs_of_write_only_keys_are_counted_until_they_are_verified() {
    let (bed, _, made, packs) = with_a_writer();
    let common = PlanStats {
        snapshots: 1,
        used_blocks: bed.blocks(&packs),
        packs: 2,
        pack_bytes: len(&packs),
        used_bytes: len(&packs),
        kept_packs: 2,
        ..PlanStats::default()
    };
    let unverified = PlanStats {
        unverified_packs: 2,
        unverified_bytes: len(&packs),
        ..common
    };
    assert_eq!(bed.plan(MaxUnused::Bytes(0)), unverified);
    let told = Arc::new(Told::default());
    let repository = Arc::new(bed.repository.with_progress(Arc::clone(&told)));
    let report = prune_with(&repository, tight()).unwrap();
    assert_eq!((report.verified_packs, report.refuted_packs), (2, 0));
    let last = told.bytes.lock().unwrap().last().copied();
    assert_eq!(last, Some((len(&packs), len(&packs))));
    assert_eq!(bed.plan(MaxUnused::Bytes(0)), common);
    // Write-only keys can read the index, so it is not written anew.
    let before = bed.storage.objects();
    let report = prune_with(&bed.repository, tight()).unwrap();
    assert_eq!((report.index_objects_before, report.index_objects), (1, 1));
    assert!(bed.storage.objects() == before, "there was nothing to do");
    // Condemned packs are not kept.
    bed.forget(&made);
    let presence = Presence::announce(&bed.repository, Purpose::Backup).unwrap();
    prune_with(&bed.repository, tight()).unwrap();
    drop(presence);
    let stats = bed.plan(MaxUnused::Bytes(0));
    assert_eq!((stats.condemned_packs, stats.kept_packs), (2, 0));
}

/// Packs that are about to be deleted need not be read.
#[test]
fn packs_of_write_only_keys_that_go_are_not_verified() {
    // Unneeded, or condemned already.
    for is_condemned in [false, true] {
        let (bed, _, made, _) = with_a_writer();
        bed.forget(&made);
        if is_condemned {
            let presence = Presence::announce(&bed.repository, Purpose::Backup).unwrap();
            let report = prune_with(&bed.repository, tight()).unwrap();
            assert_eq!((report.verified_packs, report.waiting_packs), (0, 2));
            drop(presence);
        }
        let report = prune_with(&bed.repository, tight()).unwrap();
        assert_eq!((report.verified_packs, report.deleted_packs), (0, 2));
    }
}

/// A client may crash before it copies blocks out of condemned packs. The next prune copies them,
/// even if nobody has verified the packs.
#[test]
fn needed_blocks_are_copied_out_of_condemned_packs_that_nobody_has_verified() {
    let (bed, _, made, packs) = with_a_writer();
    let name = Name::new(ObjectKind::Snapshot, id(&made));
    let snapshot = bed.storage.get(name, None).unwrap();
    bed.forget(&made);
    let presence = Presence::announce(&bed.repository, Purpose::Backup).unwrap();
    prune_with(&bed.repository, tight()).unwrap();
    drop(presence);
    bed.storage.set(name, snapshot);
    let report = prune_with(&bed.repository, tight()).unwrap();
    assert_eq!((report.verified_packs, report.deleted_packs), (0, 2));
    assert_eq!(without(&bed.packs(), &packs), bed.packs());
    assert_clean(&bed.repository);
}

/// Every block of a pack may be sound, and the key may still say that the pack holds others.
#[test]
fn a_pack_that_is_sound_and_not_what_its_key_says_is_refuted() {
    let (bed, writer, made, packs) = with_a_writer();
    bed.forget(&made);
    // Packs that are younger than a client at work stay, and are verified.
    let presence = Presence::announce(&bed.repository, Purpose::Backup).unwrap();
    bed.write("a", 11_000);
    let (made, young) = bed.back_up_with(&writer);
    bed.forget(&made);
    for listed in bed.storage.list(ObjectKind::Unverified).unwrap() {
        bed.storage
            .remove(Name::new(ObjectKind::Unverified, listed.id));
    }
    let keys = parts::keys(&bed.repository);
    let said: Vec<_> = young
        .keys()
        .map(|pack| {
            let mut said = pack::fetch_contents(&bed.storage, keys, *pack).unwrap();
            said.segments[0].blocks[0].0.0[0] ^= 1;
            (*pack, said)
        })
        .collect();
    let payload = postcard::to_stdvec(&said).unwrap();
    writer.put_sealed(ObjectKind::Unverified, &payload).unwrap();
    let recorder = Arc::new(Recorder::default());
    let told = Arc::new(bed.repository.with_progress(Arc::clone(&recorder)));
    let report = prune_with(&told, tight()).unwrap();
    assert_eq!((report.verified_packs, report.refuted_packs), (0, 2));
    let warnings = recorder.warnings();
    assert_eq!(warnings.len(), 2);
    for (_, warning) in warnings {
        assert!(warning.contains("is not what the key says"), "{warning}");
    }
    assert_eq!(report.waiting_packs, count(&packs));
    drop(presence);
}

/// Whoever has such a key can put anything into a pack. So a repair compares every block with its
/// name before the index, which all trust, names the pack.
#[test]
fn a_repair_of_the_index_takes_from_packs_of_write_only_keys_only_what_is_true() {
    for is_true in [true, false] {
        let (bed, _, _, packs) = with_a_writer();
        for listed in bed.storage.list(ObjectKind::Unverified).unwrap() {
            let name = Name::new(ObjectKind::Unverified, listed.id);
            bed.storage.remove(name);
        }
        for pack in packs.keys().filter(|_| !is_true) {
            let name = Name::new(ObjectKind::Pack, *pack);
            let mut bytes = bed.storage.get(name, None).unwrap();
            let keys = parts::keys(&bed.repository);
            let contents = pack::fetch_contents(&bed.storage, keys, *pack).unwrap();
            // In the first segment, so that the footer is sound.
            bytes[contents.kind.head_len()] ^= 1;
            bed.storage.set(name, bytes);
        }
        let options = RepairOptions::default();
        let report = bed.repository.repair_index(options).unwrap();
        let expected = if is_true { (2, 0) } else { (0, 2) };
        assert_eq!((report.added_packs, report.unreadable_packs), expected);
        let index = bed.repository.read_index().unwrap();
        assert_eq!(index.values().flatten().count(), expected.0 as usize);
        if is_true {
            assert_clean(&bed.repository);
        }
    }
}

/// A pack of such a key has a key of its own at its beginning: without that nothing is saved.
#[test]
fn of_damaged_packs_of_write_only_keys_the_sound_blocks_are_saved() {
    let (bed, _, _, packs) = with_a_writer();
    let all = bed.storage.objects();
    let (mut saved, mut lost) = (0, 0);
    for pack in packs.keys() {
        let name = Name::new(ObjectKind::Pack, *pack);
        let keys = parts::keys(&bed.repository);
        let contents = pack::fetch_contents(&bed.storage, keys, *pack).unwrap();
        let segments = contents.segments.iter();
        let blocks: usize = segments.map(|segment| segment.blocks.len()).sum();
        for at in [10, all[&name].len() - 1] {
            let storage = MemoryStorage::new(all.clone());
            let mut bytes = all[&name].clone();
            bytes[at] ^= 1;
            storage.set(name, bytes);
            let keep = |_, _: &[u8]| Ok(());
            let report = open(storage.clone())
                .repair_packs(RepairOptions::default(), &[*pack], keep)
                .unwrap();
            assert_eq!(report.damaged_packs, [*pack]);
            assert_eq!(report.saved_blocks + report.lost_blocks, blocks as u64);
            saved += report.saved_blocks;
            lost += report.lost_blocks;
            if report.lost_blocks == 0 {
                assert_clean(&open(storage));
            }
        }
    }
    assert!(saved > 0 && lost > 0, "{saved} saved, {lost} lost");
}

/// A pack that is gone since the prune was planned is passed over. An error of the storage ends the
/// prune.
#[test]
fn packs_to_verify_may_be_gone_but_must_not_be_unreadable() {
    let (bed, _, _, packs) = with_a_writer();
    let recorder = Arc::new(Recorder::default());
    let told = bed.repository.with_progress(Arc::clone(&recorder));
    let plan = told.plan_prune(tight()).unwrap();
    let gone = packs.keys().next().unwrap();
    bed.storage.remove(Name::new(ObjectKind::Pack, *gone));
    let report = plan.execute().unwrap();
    assert_eq!((report.verified_packs, report.refuted_packs), (1, 0));
    assert_eq!(recorder.warnings(), []);

    let (bed, _, _, _) = with_a_writer();
    assert_stops_when_packs_cannot_be_read(&bed);
}

/// Prunes over a storage that cannot read packs any more when the plan is made.
fn assert_stops_when_packs_cannot_be_read(bed: &Bed) {
    let is_planned = Arc::new(Mutex::new(false));
    let fails = Arc::clone(&is_planned);
    let repository = Heard::open(&bed.storage, move |what, kind| {
        match (what, kind, *fails.lock().unwrap()) {
            ("get", ObjectKind::Pack, true) => ended(),
            _ => Ok(()),
        }
    });
    let plan = repository.plan_prune(tight()).unwrap();
    *is_planned.lock().unwrap() = true;
    let result = plan.execute();
    assert!(matches!(result, Err(Error::Storage { .. })), "{result:?}");
}

/// If a pack that is to be copied is gone, another prune has copied its blocks and deleted it. An
/// error of the storage says nothing of the kind.
#[test]
fn a_prune_whose_packs_go_before_it_copies_was_overtaken() {
    let (bed, data, _, _) = with_a_third_unused();
    let plan = bed.repository.plan_prune(tight()).unwrap();
    for pack in data.keys() {
        bed.storage.remove(Name::new(ObjectKind::Pack, *pack));
    }
    let result = plan.execute();
    assert!(matches!(result, Err(Error::PruneOvertaken)), "{result:?}");
    let (bed, _, _, _) = with_a_third_unused();
    assert_stops_when_packs_cannot_be_read(&bed);
}

/// Locks objects when their locks are extended, and not when they are put.
#[derive(Clone)]
struct Locking {
    inner: MemoryStorage,
    locks: Arc<Mutex<BTreeMap<Name, SystemTime>>>,
}

impl Storage for Locking {
    forward!(location, create, put, get, list, stat, delete);

    fn lock(&self) -> Option<Lock> {
        Some(Lock {
            period: Duration::from_secs(30 * 24 * 3600),
            mode: LockMode::Governance,
        })
    }

    fn locked_until(&self, name: Name) -> tabane_storage::Result<Option<SystemTime>> {
        self.inner.stat(name)?;
        Ok(self.locks.lock().unwrap().get(&name).copied())
    }

    fn extend_lock(&self, name: Name, until: SystemTime) -> tabane_storage::Result<()> {
        match self.locks.lock().unwrap().insert(name, until) {
            Some(before) if before >= until => Err(StorageErrorKind::Denied.into()),
            _ => Ok(()),
        }
    }
}

#[test]
fn a_prune_extends_the_locks_of_what_snapshots_need() {
    let bed = Bed::new();
    bed.write("a", 10_000);
    let (first, unneeded) = bed.back_up();
    bed.write("a", 11_000);
    let (second, needed) = bed.back_up();
    bed.forget(&first);
    let names = |kind: ObjectKind| -> BTreeSet<Name> {
        let listed = bed.storage.list(kind).unwrap();
        listed.iter().map(|one| Name::new(kind, one.id)).collect()
    };
    let mut expected: BTreeSet<Name> = [ObjectKind::Key, ObjectKind::Copy, ObjectKind::Index]
        .into_iter()
        .flat_map(names)
        .collect();
    expected.insert(Name::CONFIG);
    expected.insert(Name::new(ObjectKind::Snapshot, id(&second)));
    expected.extend(needed.keys().map(|id| Name::new(ObjectKind::Pack, *id)));
    let locking = Locking {
        inner: bed.storage.clone(),
        locks: Arc::default(),
    };
    let report = prune_with(&open(locking.clone()), tight()).unwrap();
    let locked: BTreeSet<Name> = locking.locks.lock().unwrap().keys().copied().collect();
    assert_eq!(locked, expected);
    assert_eq!(report.extended_locks, expected.len() as u64);
    assert_eq!(report.deleted_packs, count(&unneeded));
}
