//! A client with a write-only key backs up as others do, and reads nothing of what is stored.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tabane_storage::{Listed, Name, ObjectKind, Storage};
use tabane_store::backup::{Backup, Parent};
use tabane_store::check::{CheckOptions, ReadData};
use tabane_store::key::{KdfCost, KeyKind, Password};
use tabane_store::prune::PruneReport;
use tabane_store::{
    Algorithm, Cache, Error, Id, Memory, PruneOptions, Repository, Timestamp, forget, key,
};
use tempfile::TempDir;

use crate::common::memory::MemoryStorage;
use crate::common::tree::{random_bytes, settle, text, write};
use crate::common::{
    Place, Recorder, assert_clean, assert_restores, back_up, back_up_observed, back_up_with,
    backup_options, forward, id, init, init_options, init_with, password, scratch,
};

pub fn writer_password() -> Password {
    b"write only".to_vec().into()
}

/// A repository with a write-only key, and a directory to back up.
pub struct Bed {
    pub storage: MemoryStorage,
    pub master: Arc<Repository>,
    pub dir: TempDir,
}

impl Bed {
    pub fn new() -> Self {
        let storage = MemoryStorage::default();
        let master = init(storage.clone());
        master
            .add_write_only_key(&writer_password(), KdfCost::WEAKEST)
            .unwrap();
        Self::with(storage)
    }

    pub fn with(storage: MemoryStorage) -> Self {
        let dir = scratch();
        let bed = Self {
            master: crate::common::open(storage.clone()),
            storage,
            dir,
        };
        write(bed.source().join("text"), &text(200));
        write(bed.source().join("random"), &random_bytes(1, 400_000));
        write(bed.source().join("directory/below"), b"a small file");
        settle();
        bed
    }

    pub fn source(&self) -> std::path::PathBuf {
        self.dir.path().join("source")
    }

    /// Opens the repository with the write-only key, without a cache.
    pub fn writer(&self) -> Arc<Repository> {
        let storage = Arc::new(self.storage.clone());
        Arc::new(Repository::open(storage, &writer_password()).unwrap())
    }

    /// Opens the repository with the write-only key.
    pub fn cached(&self) -> Arc<Repository> {
        let cache = Cache::new(self.dir.path().join("cache"), |warning| panic!("{warning}"));
        let writer = Arc::unwrap_or_clone(self.writer());
        Arc::new(writer.with_cache(cache))
    }

    pub fn prune(&self) -> PruneReport {
        let plan = self.master.plan_prune(PruneOptions::default()).unwrap();
        plan.execute().unwrap()
    }

    pub fn count(&self, kind: ObjectKind) -> usize {
        self.storage.list(kind).unwrap().len()
    }
}

/// Whether all contents of files were there already. (Of directories above, times change.)
fn is_known(made: &Backup) -> bool {
    made.snapshot.summary.duplicate_bytes == made.snapshot.summary.total_bytes
}

#[track_caller]
pub fn assert_write_only<T>(result: tabane_store::Result<T>) {
    match result {
        Err(Error::WriteOnly(_)) => {}
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("a write-only key reads"),
    }
}

#[test]
fn what_it_stores_is_read_with_a_full_key_alone() {
    let bed = Bed::new();
    let writer = bed.writer();
    assert!(writer.is_write_only() && !bed.master.is_write_only());
    let made = back_up(&writer, &[&bed.source()]);
    assert_clean(&bed.master);
    assert_restores(&bed.master, id(&made), &bed.source(), &bed.source());
    let loaded = bed.master.load_snapshot(id(&made)).unwrap();
    assert_eq!(loaded.writer, writer.writer());
    assert_eq!(made.snapshot.root, loaded.root);

    assert_write_only(writer.load_snapshot(id(&made)));
    assert_write_only(writer.snapshots(&Default::default()));
    assert_write_only(writer.plan_prune(PruneOptions::default()));
    assert_write_only(writer.migrate());
    assert_write_only(writer.check(CheckOptions::default().read_data(ReadData::All)));
    assert_write_only(writer.add_write_only_key(&writer_password(), KdfCost::WEAKEST));
    let target = scratch();
    let options = crate::common::restore_options(target.path());
    assert!(writer.restore(options, id(&made), &loaded).is_err());
    assert_eq!(fs::read_dir(target.path()).unwrap().count(), 0);
}

#[test]
fn nothing_is_stored_twice() {
    let bed = Bed::new();
    back_up(&bed.master, &[&bed.source()]);
    let writer = bed.writer();
    let made = back_up(&writer, &[&bed.source()]);
    assert!(is_known(&made));
    write(bed.source().join("more"), &random_bytes(2, 100_000));
    let more = back_up(&writer, &[&bed.source()]);
    assert!(more.snapshot.summary.added_bytes < 120_000);
    assert!(more.snapshot.summary.blocks_new > 0);
    // It knows what it has stored itself.
    let again = back_up(&writer, &[&bed.source()]);
    assert!(is_known(&again));
    // A full key takes it for known when it has verified it.
    let unverified = back_up_with(
        &bed.master,
        &[&bed.source()],
        backup_options().parent(Parent::None),
    );
    assert!(!is_known(&unverified));
    for made in [made, more, again, unverified] {
        assert!(bed.master.load_snapshot(id(&made)).is_ok());
    }
    assert_clean(&bed.master);
}

#[test]
fn unchanged_files_are_found_without_the_repository() {
    let bed = Bed::new();
    fs::create_dir_all(bed.source().join("empty")).unwrap();
    std::os::unix::fs::symlink("nowhere", bed.source().join("link")).unwrap();
    let _ = xattr::set(bed.source().join("text"), "user.note", b"kept");
    settle();
    let first = back_up(&bed.cached(), &[&bed.source()]);
    assert_eq!(
        (first.snapshot.summary.files_new, first.unchanged),
        (3, false)
    );
    let second = back_up(&bed.cached(), &[&bed.source()]);
    assert_eq!(second.snapshot.parent, first.id);
    assert_eq!(second.snapshot.summary.files_unmodified, 3);
    assert_eq!(second.snapshot.summary.read_bytes, 0);
    assert!(second.unchanged);

    write(bed.source().join("directory/below"), b"another small file");
    settle();
    let third = back_up(&bed.cached(), &[&bed.source()]);
    let summary = &third.snapshot.summary;
    assert_eq!((summary.files_unmodified, summary.files_changed), (2, 1));
    assert!(!third.unchanged);
    let options = backup_options().skip_if_unchanged(true);
    let skipped = back_up_with(&bed.cached(), &[&bed.source()], options);
    assert_eq!((skipped.id, skipped.unchanged), (None, true));
    assert_restores(&bed.master, id(&third), &bed.source(), &bed.source());
    assert_clean(&bed.master);
}

/// Counts the bytes that are read, by kind.
#[derive(Clone)]
struct Counted {
    inner: MemoryStorage,
    read: Arc<Mutex<BTreeMap<ObjectKind, u64>>>,
}

impl Storage for Counted {
    forward!(location, create, put, list, stat, delete);

    fn get(&self, name: Name, range: Option<Range<u64>>) -> tabane_storage::Result<Vec<u8>> {
        let bytes = self.inner.get(name, range)?;
        let mut read = self.read.lock().unwrap();
        *read.entry(name.kind).or_default() += bytes.len() as u64;
        Ok(bytes)
    }

    fn is_far(&self) -> bool {
        true
    }
}

#[test]
fn an_unchanged_backup_reads_only_what_is_new() {
    let bed = Bed::new();
    let read = Arc::new(Mutex::new(BTreeMap::new()));
    let back_up_and_count = || {
        let storage = Counted {
            inner: bed.storage.clone(),
            read: Arc::clone(&read),
        };
        let writer = Repository::open(Arc::new(storage), &writer_password()).unwrap();
        let cache = Cache::new(bed.dir.path().join("cache"), |warning| panic!("{warning}"));
        let memory = Memory::new(bed.dir.path().join("state"));
        let writer = writer.with_cache(cache).with_memory(memory);
        read.lock().unwrap().clear();
        let made = back_up(&Arc::new(writer), &[&bed.source()]);
        let mut read = std::mem::take(&mut *read.lock().unwrap());
        // Whether the repository is still there is asked a few times.
        read.remove(&ObjectKind::Config);
        (made.snapshot.summary.files_unmodified, read)
    };
    back_up_and_count();
    // What it has stored itself is known to it.
    let (unmodified, read) = back_up_and_count();
    assert_eq!(unmodified, 3);
    assert!(read.is_empty(), "{read:?}");
    // A removal, what a prune has verified, and what it has removed are new, once.
    let snapshots = bed.master.list(ObjectKind::Snapshot).unwrap();
    bed.master.remove_snapshot(snapshots[0].0).unwrap();
    bed.prune();
    let first = bed.master.list(ObjectKind::Snapshot).unwrap()[0].0;
    bed.master.remove_snapshot(first).unwrap();
    bed.prune();
    let (_, read) = back_up_and_count();
    assert!(read.contains_key(&ObjectKind::Removal), "{read:?}");
    back_up_and_count();
    let (unmodified, read) = back_up_and_count();
    assert_eq!(unmodified, 3);
    assert!(read.is_empty(), "{read:?}");
}

#[test]
fn a_prune_verifies_what_it_stored_and_others_use_it() {
    let bed = Bed::new();
    let made = back_up(&bed.writer(), &[&bed.source()]);
    assert!(bed.count(ObjectKind::Unverified) > 0 && bed.count(ObjectKind::Index) == 0);
    let report = bed.prune();
    assert_eq!((report.verified_packs, report.refuted_packs), (2, 0));
    assert_eq!(bed.count(ObjectKind::Unverified), 0);
    assert_eq!(bed.count(ObjectKind::Index) as u64, report.index_objects);
    assert_restores(&bed.master, id(&made), &bed.source(), &bed.source());
    for repository in [&bed.writer(), &bed.master] {
        let again = back_up(repository, &[&bed.source()]);
        assert!(is_known(&again));
    }
    // Nothing but the directories above, whose times may have changed.
    let report = bed.prune();
    assert!(
        report.verified_packs <= 1 && report.deleted_packs <= 1,
        "{report:?}"
    );
    assert_clean(&bed.master);
}

#[test]
fn what_no_snapshot_needs_goes_and_the_rest_stays() {
    let bed = Bed::new();
    let first = back_up(&bed.cached(), &[&bed.source()]);
    write(bed.source().join("random"), &random_bytes(3, 300_000));
    settle();
    let second = back_up(&bed.cached(), &[&bed.source()]);
    bed.master.remove_snapshot(id(&first)).unwrap();
    let report = bed.prune();
    assert!(report.verified_packs > 0, "{report:?}");
    bed.prune();
    assert_restores(&bed.master, id(&second), &bed.source(), &bed.source());
    assert_clean(&bed.master);
    let third = back_up(&bed.cached(), &[&bed.source()]);
    assert_eq!(third.snapshot.summary.files_unmodified, 3);
    bed.master.remove_snapshot(id(&second)).unwrap();
    bed.master.remove_snapshot(id(&third)).unwrap();
    bed.prune();
    assert_eq!(bed.count(ObjectKind::Pack), 0);
    // What is remembered no longer exists: it is read and stored again.
    let fourth = back_up(&bed.cached(), &[&bed.source()]);
    assert_eq!(fourth.snapshot.summary.files_unmodified, 0);
    assert_restores(&bed.master, id(&fourth), &bed.source(), &bed.source());
    assert_clean(&bed.master);
}

#[test]
fn a_repository_gets_its_first_write_only_key_later() {
    let place = Place::new();
    fs::write(place.source.join("file"), random_bytes(1, 300_000)).unwrap();
    let storage = MemoryStorage::default();
    let master = init(storage.clone());
    let first = back_up(&master, &[&place.source]);
    fs::write(place.source.join("file"), random_bytes(2, 300_000)).unwrap();
    let second = back_up(&master, &[&place.source]);
    master.remove_snapshot(id(&first)).unwrap();
    let plan = master.plan_prune(PruneOptions::default()).unwrap();
    plan.execute().unwrap();
    let formats = |kind: ObjectKind| -> BTreeSet<u8> {
        let objects = storage.objects();
        let of_kind = objects.iter().filter(|(name, _)| name.kind == kind);
        of_kind.map(|(_, bytes)| bytes[7]).collect()
    };
    for kind in [ObjectKind::Index, ObjectKind::Removal] {
        assert_eq!(formats(kind), [1].into());
    }
    // A program that did not know of it ends with an error, and does no harm.
    let stale = crate::common::open(storage.clone());
    master
        .add_write_only_key(&writer_password(), KdfCost::WEAKEST)
        .unwrap();
    for kind in [ObjectKind::Index, ObjectKind::Removal] {
        assert_eq!(formats(kind), [2].into());
    }
    let recorder = Arc::new(Recorder::default());
    fs::write(place.source.join("file"), random_bytes(3, 300_000)).unwrap();
    let made = back_up_observed(&stale, &[&place.source], backup_options(), &recorder);
    assert!(matches!(made, Err(Error::MigratedMeanwhile)), "{made:?}");

    let master = crate::common::open(storage.clone());
    assert_eq!(master.config().features, ["write-only"]);
    let writer = Repository::open(Arc::new(storage.clone()), &writer_password()).unwrap();
    let third = back_up(&Arc::new(writer), &[&place.source]);
    for made in [&second, &third] {
        assert!(master.load_snapshot(id(made)).is_ok());
    }
    assert_restores(&master, id(&third), &place.source, &place.source);
    assert_clean(&master);
    // The next key changes nothing but the keys.
    let names = |storage: &MemoryStorage| -> BTreeSet<Name> {
        let names = storage.objects().into_keys();
        names
            .filter(|name| !matches!(name.kind, ObjectKind::Key | ObjectKind::Copy))
            .collect()
    };
    let before = names(&storage);
    master
        .add_write_only_key(&b"another".to_vec().into(), KdfCost::WEAKEST)
        .unwrap();
    assert_eq!(names(&storage), before);
}

#[test]
fn some_repositories_cannot_have_such_keys() {
    for options in [
        init_options().format(1),
        init_options().hash(Algorithm::Sha1),
    ] {
        let storage = MemoryStorage::default();
        let master = init_with(storage.clone(), options);
        let before = storage.objects();
        let added = master.add_write_only_key(&writer_password(), KdfCost::WEAKEST);
        assert!(matches!(added, Err(Error::NoWriteOnlyKeys(_))), "{added:?}");
        assert_eq!(storage.objects(), before);
    }
}

#[test]
fn keys_are_listed_changed_removed_and_kept_on_paper() {
    let bed = Bed::new();
    let writer = bed.writer();
    let keys = key::list(&bed.storage).unwrap().keys;
    let kinds: Vec<KeyKind> = keys.iter().map(|key| key.file.kind).collect();
    assert_eq!(kinds.len(), 2);
    assert!(kinds.contains(&KeyKind::Full) && kinds.contains(&KeyKind::WriteOnly));
    let report = bed.master.check(CheckOptions::default()).unwrap();
    assert_eq!((report.keys, report.write_only_keys), (1, 1));

    // A new password: the writer stays the same.
    let new: Password = b"new".to_vec().into();
    let id = writer.change_password(&new, KdfCost::WEAKEST).unwrap();
    let storage: Arc<dyn Storage> = Arc::new(bed.storage.clone());
    let old = Repository::open(Arc::clone(&storage), &writer_password());
    assert!(matches!(old, Err(Error::WrongPassword { .. })));
    let changed = Repository::open(Arc::clone(&storage), &new).unwrap();
    assert_eq!(changed.writer(), writer.writer());
    // It cannot take away the keys of others.
    assert_write_only(changed.remove_key(bed.master.key()));

    // On paper, without the config.
    back_up(&bed.master, &[&bed.source()]);
    for exporter in [&changed, &*bed.master] {
        let text = exporter.export_key(id).unwrap().join("\r\n");
        let import =
            |password: &Password| Repository::import_key(Arc::clone(&storage), &text, password);
        assert_eq!(import(&new).unwrap().mended, [""; 0]);
        assert!(matches!(import(&password()), Err(Error::KeyText(_))));
        for kind in [ObjectKind::Key, ObjectKind::Copy] {
            for listed in bed.storage.list(kind).unwrap() {
                let name = Name::new(kind, listed.id);
                let bytes = bed.storage.get(name, None).unwrap();
                if String::from_utf8_lossy(&bytes).contains("write-only") {
                    bed.storage.remove(name);
                }
            }
        }
        assert!(Repository::open(Arc::clone(&storage), &new).is_err());
        assert!(!import(&new).unwrap().mended.is_empty());
        Repository::open(Arc::clone(&storage), &new).unwrap();
        let other = MemoryStorage::default();
        init(other.clone());
        let before = other.objects();
        let refused = Repository::import_key(Arc::new(other.clone()), &text, &new);
        assert!(matches!(refused, Err(Error::KeyText(_))), "{refused:?}");
        assert_eq!(other.objects(), before);
    }
    bed.master.repair_config().unwrap();
    bed.master.remove_key(id).unwrap();
    assert!(Repository::open(storage, &new).is_err());
    assert_clean(&bed.master);
}

/// A check with such a key looks at what it can see.
#[test]
fn a_check_of_its_own_finds_lost_packs() {
    let bed = Bed::new();
    let writer = bed.writer();
    back_up(&writer, &[&bed.source()]);
    let report = writer.check(CheckOptions::default()).unwrap();
    assert_eq!((report.problems, report.snapshots, report.packs), (0, 1, 2));
    let packs = bed.storage.list(ObjectKind::Pack).unwrap();
    bed.storage.remove(Name::new(ObjectKind::Pack, packs[0].id));
    let report = writer.check(CheckOptions::default()).unwrap();
    assert_eq!(report.problems, 1);
    assert!(bed.master.check(CheckOptions::default()).unwrap().problems > 0);
}

/// A stolen key can date its snapshots as it likes. A full key keeps the time of a snapshot that it
/// rewrites, so a snapshot that a full key has sealed is never misdated.
#[test]
fn snapshots_of_write_only_keys_are_misdated_by_more_than_a_day() {
    let bed = Bed::new();
    let writer = bed.writer();
    let own = id(&back_up(&writer, &[&bed.source()]));
    let of_full_key = id(&back_up(&bed.master, &[&bed.source()]));
    let day = Duration::from_secs(24 * 3600);
    let nanosecond = Duration::from_nanos(1);
    let listed = bed.storage.list(ObjectKind::Snapshot).unwrap();
    for (made, is_of_writer) in [(own, true), (of_full_key, false)] {
        let listed = listed.iter().find(|listed| listed.id == made).unwrap();
        let stored = Timestamp::try_from(listed.modified).unwrap();
        let mut snapshot = bed.master.load_snapshot(made).unwrap();
        assert_eq!(snapshot.writer.is_some(), is_of_writer);
        for apart in [Duration::ZERO, day, day + nanosecond, 400 * day] {
            for time in [stored - apart, stored + apart] {
                snapshot.time = time;
                // Also as one that was rewritten.
                snapshot.writer = writer.writer();
                let found = forget::misdated(&bed.master, [(&made, &snapshot)]).unwrap();
                let is_misdated = is_of_writer && apart > day;
                assert_eq!(found.contains(&made), is_misdated, "{apart:?}");
                snapshot.writer = None;
                let found = forget::misdated(&bed.master, [(&made, &snapshot)]).unwrap();
                assert!(found.is_empty());
            }
        }
    }
}

fn ids(storage: &MemoryStorage, kind: ObjectKind) -> BTreeSet<Id> {
    let listed = storage.list(kind).unwrap();
    listed.into_iter().map(|object| object.id).collect()
}

#[test]
fn what_a_machine_remembers_tells_no_names() {
    let bed = Bed::new();
    let name = "a-name-that-nobody-should-read";
    write(bed.source().join(name), b"content");
    let _ = xattr::set(bed.source().join(name), "user.note", b"a secret of it");
    back_up(&bed.cached(), &[&bed.source()]);
    assert_eq!(ids(&bed.storage, ObjectKind::Snapshot).len(), 1);
    fn contains(folder: &Path, needle: &[u8]) -> bool {
        fs::read_dir(folder).unwrap().any(|entry| {
            let path = entry.unwrap().path();
            if path.is_dir() {
                contains(&path, needle)
            } else {
                let bytes = fs::read(&path).unwrap();
                bytes.windows(needle.len()).any(|found| found == needle)
            }
        })
    }
    let cache = bed.dir.path().join("cache");
    assert!(!contains(&cache, name.as_bytes()) && !contains(&cache, b"a secret of it"));
}
