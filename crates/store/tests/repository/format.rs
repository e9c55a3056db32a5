//! What format 2 adds: names of owners, file flags, copies of the config and of keys; and how a
//! repository of format 1 gets there.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::fault::{Fault, FaultyStorage};
use crate::common::memory::MemoryStorage;
use crate::common::{
    Place, Recorder, assert_clean, assert_restores, back_up, id, init_options, init_with, is_root,
    not_checked, password, restore_with,
};
use tabane_files::flags::{self, Flags};
use tabane_storage::{Name, ObjectKind, Storage};
use tabane_store::check::CheckOptions;
use tabane_store::key::{KdfCost, Password};
use tabane_store::owners::Owners;
use tabane_store::{CopyOptions, Error, FORMAT, Repository};

/// Takes the flags away in the end, so that the files can be removed.
struct Flagged(Vec<PathBuf>);

impl Flagged {
    fn set(&mut self, path: &Path, flags: Flags) -> bool {
        self.0.push(path.to_owned());
        flags::set(File::open(path).unwrap().as_fd(), flags).is_ok()
    }
}

impl Drop for Flagged {
    fn drop(&mut self) {
        for path in &self.0 {
            if let Ok(file) = File::open(path) {
                let _ = flags::set(file.as_fd(), Flags::default());
            }
        }
    }
}

fn flags_of(path: &Path) -> Flags {
    let above = File::open(path.parent().unwrap()).unwrap();
    let found = tabane_files::read::stat::<()>(above.as_fd(), path.file_name().unwrap(), false);
    found.unwrap().entry.flags
}

/// Files below a directory that have flags, and the flags.
fn fill(source: &Path, flagged: &mut Flagged) -> Option<Vec<(&'static str, Flags)>> {
    fs::create_dir(source.join("dir")).unwrap();
    fs::write(source.join("dir/inner"), "inner").unwrap();
    fs::write(source.join("plain"), "plain").unwrap();
    fs::write(source.join("nodump"), "nodump").unwrap();
    let mut wanted = vec![("nodump", Flags::NODUMP), ("plain", Flags::default())];
    if is_root() {
        fs::write(source.join("log"), "a line\n").unwrap();
        fs::write(source.join("immutable"), "immutable").unwrap();
        fs::hard_link(source.join("immutable"), source.join("other name")).unwrap();
        wanted.extend([
            ("log", Flags::APPEND),
            ("immutable", Flags::IMMUTABLE | Flags::NODUMP),
            ("other name", Flags::IMMUTABLE | Flags::NODUMP),
            ("dir/inner", Flags::IMMUTABLE),
            ("dir", Flags::IMMUTABLE),
        ]);
    }
    let set = |(name, flags): &(&str, Flags)| flagged.set(&source.join(name), *flags);
    if wanted.iter().all(set) {
        return Some(wanted);
    }
    not_checked("file flags", "this file system has none");
    None
}

#[test]
fn file_flags_come_back() {
    let place = Place::new();
    let mut flagged = Flagged(Vec::new());
    let Some(wanted) = fill(&place.source, &mut flagged) else {
        return;
    };
    back_up(&place.repository, &[&place.source]);
    // The second takes unchanged files from the first.
    let second = back_up(&place.repository, &[&place.source]);
    let target = place.path("target");
    flagged
        .0
        .extend(wanted.iter().map(|(name, _)| target.join(name)));
    // The second time everything is there, and immutable.
    for _ in 0..2 {
        place.restore_source(&second, &target);
        for (name, flags) in &wanted {
            assert_eq!(flags_of(&target.join(name)), *flags, "{name}");
        }
    }
    let target = place.path("target without flags");
    let options = place.source_into(&target).file_flags(false);
    restore_with(&place.repository, id(&second), options);
    for (name, _) in &wanted {
        assert_eq!(flags_of(&target.join(name)), Flags::default(), "{name}");
    }
    assert_clean(&place.repository);
}

#[test]
fn owners_are_found_by_their_names() {
    if !is_root() {
        return not_checked("owners by name", "not root");
    }
    let place = Place::new();
    let file = place.source.join("file");
    fs::write(&file, "x").unwrap();
    chown(&file, Some(12345), Some(0)).unwrap();
    let mut made = back_up(&place.repository, &[&place.source]);
    let owners = made.snapshot.owners.clone().unwrap();
    assert_eq!(owners.users.get(&0).map(String::as_str), Some("root"));
    assert_eq!(owners.groups.get(&0).map(String::as_str), Some("root"));
    assert_eq!(owners.users.get(&12345), None);
    // As it is where a user of this machine has another number.
    made.snapshot.owners = Some(Owners {
        users: [(12345, "nobody".to_owned()), (0, "nobody".to_owned())].into(),
        groups: [(0, "nogroup".to_owned())].into(),
    });
    let nobody = fs::read_to_string("/etc/passwd").unwrap();
    let nobody = nobody.lines().find(|line| line.starts_with("nobody:"));
    let Some(nobody) = nobody.and_then(|line| line.split(':').nth(2)?.parse().ok()) else {
        return not_checked("owners by name", "nobody is not in /etc/passwd");
    };
    for (numeric, uid) in [(false, nobody), (true, 12345)] {
        let target = place.path(&format!("target {numeric}"));
        let options = place.source_into(&target).numeric_ids(numeric);
        let restored = place.repository.restore(options, id(&made), &made.snapshot);
        assert_eq!(restored.unwrap().errors, 0);
        let metadata = fs::metadata(target.join("file")).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (uid, 0));
    }
}

#[test]
fn format_1_is_read_and_written_as_before() {
    let place = Place::with(init_options().format(1));
    let mut flagged = Flagged(Vec::new());
    let wanted = fill(&place.source, &mut flagged).unwrap_or_default();
    let storage = place.repository.storage();
    assert_eq!(storage.get(Name::CONFIG, None).unwrap()[7], 1);
    assert_eq!(storage.list(ObjectKind::Copy).unwrap().len(), 0);
    let old = back_up(&place.repository, &[&place.source]);
    assert_eq!(old.snapshot.owners, None);
    let target = place.path("old target");
    place.restore_source(&old, &target);
    for (name, _) in &wanted {
        assert_eq!(flags_of(&target.join(name)), Flags::default());
    }
    assert_clean(&place.repository);

    assert!(place.repository.migrate().unwrap());
    let error = place
        .repository
        .backup(crate::common::backup_options(), &[&place.source]);
    assert!(matches!(error.unwrap_err(), Error::MigratedMeanwhile));
    let storage = tabane_storage::LocalStorage::new(place.path("repository"));
    let repository = crate::common::open(storage);
    assert_eq!(repository.format(), FORMAT);
    assert!(!repository.migrate().unwrap());
    assert_eq!(repository.storage().get(Name::CONFIG, None).unwrap()[7], 2);
    // Files may be taken from the old snapshot, which lacks their flags.
    let new = back_up(&repository, &[&place.source]);
    let target = place.path("new target");
    flagged
        .0
        .extend(wanted.iter().map(|(name, _)| target.join(name)));
    restore_with(&repository, id(&new), place.source_into(&target));
    for (name, flags) in &wanted {
        assert_eq!(flags_of(&target.join(name)), *flags, "{name}");
    }
    assert_restores(&repository, id(&old), &place.source, &place.source);
    assert_clean(&repository);
}

#[test]
fn a_migration_that_is_interrupted_anywhere_goes_on() {
    let place = Place::new();
    fs::write(place.source.join("file"), "content").unwrap();
    let before = MemoryStorage::default();
    let repository = init_with(before.clone(), init_options().format(1));
    repository
        .add_key(&b"second".to_vec().into(), KdfCost::WEAKEST)
        .unwrap();
    let made = back_up(&repository, &[&place.source]);
    let mut interrupted = 0;
    for at in 1.. {
        let storage = MemoryStorage::new(before.objects());
        let faulty = FaultyStorage::over(storage.clone(), Fault::FailFrom, at, Arc::default());
        let opened = Repository::open(Arc::new(faulty), &password());
        let migrated = opened.and_then(|repository| repository.migrate());
        let opened = crate::common::open(storage.clone());
        assert_restores(&opened, id(&made), &place.source, &place.source);
        back_up(&opened, &[&place.source]);
        let recorder = Arc::new(Recorder::default());
        let told = opened.with_progress(Arc::clone(&recorder));
        told.check(CheckOptions::default()).unwrap();
        let copies = storage.list(ObjectKind::Copy).unwrap().len();
        let says = recorder.notes().concat().contains("interrupted");
        assert_eq!(says, opened.format() == 1 && copies > 0);
        if opened.migrate().unwrap() {
            // It would bring back the old config.
            let error = opened.repair_config().unwrap_err();
            assert!(matches!(error, Error::MigratedMeanwhile), "{error}");
        }
        crate::common::open(storage.clone())
            .repair_config()
            .unwrap();
        let opened = crate::common::open(storage);
        assert_eq!((opened.format(), opened.damaged()), (FORMAT, &[][..]));
        assert_clean(&opened);
        if migrated.is_ok() {
            break;
        }
        interrupted += 1;
    }
    assert!(interrupted > 5, "{interrupted}");
}

fn opened(storage: &MemoryStorage) -> Arc<Repository> {
    crate::common::open(storage.clone())
}

fn problems(repository: &Arc<Repository>) -> usize {
    let recorder = Arc::new(Recorder::default());
    let told = repository.with_progress(Arc::clone(&recorder));
    told.check(CheckOptions::default()).unwrap();
    recorder.warnings().len()
}

#[test]
fn a_damaged_or_lost_config_or_key_has_a_copy() {
    let place = Place::new();
    fs::write(place.source.join("file"), "content").unwrap();
    let sound = MemoryStorage::default();
    let repository = init_with(sound.clone(), init_options());
    repository
        .add_key(&b"second".to_vec().into(), KdfCost::WEAKEST)
        .unwrap();
    back_up(&repository, &[&place.source]);
    let objects = sound.objects();
    let small = [ObjectKind::Config, ObjectKind::Key, ObjectKind::Copy];
    let names: Vec<Name> = objects
        .keys()
        .filter(|name| small.contains(&name.kind))
        .copied()
        .collect();
    // A config, two keys, a copy of each.
    assert_eq!(names.len(), 6);
    for name in names {
        let len = objects[&name].len();
        // Each byte before the salt is read by other code.
        let places = (0..8).chain((8..len).step_by(29));
        for damage in places.map(Some).chain([None]) {
            let storage = MemoryStorage::new(objects.clone());
            match damage {
                Some(at) => {
                    let mut bytes = objects[&name].to_vec();
                    bytes[at] ^= 1;
                    storage.set(name, bytes);
                }
                None => storage.remove(name),
            }
            let what = format!("{name} {damage:?}");
            let repository = opened(&storage);
            assert!(problems(&repository) > 0, "{what}");
            back_up(&repository, &[&place.source]);
            assert!(!repository.repair_config().unwrap().is_empty(), "{what}");
            for password in [password(), b"second".to_vec().into()] {
                let repository = Repository::open(Arc::new(storage.clone()), &password).unwrap();
                assert!(repository.damaged().is_empty(), "{what}");
            }
            assert_eq!(problems(&opened(&storage)), 0, "{what}");
            assert_eq!(opened(&storage).repair_config().unwrap().len(), 0);
        }
    }
}

#[test]
fn a_lost_folder_of_keys_is_made_again() {
    let place = Place::new();
    fs::remove_dir_all(place.path("repository/keys")).unwrap();
    let open = || crate::common::open(tabane_storage::LocalStorage::new(place.path("repository")));
    let opened = open();
    let missing = format!("keys/{} is missing", opened.key());
    assert_eq!(opened.damaged(), [missing]);
    opened.repair_config().unwrap();
    assert_eq!(open().damaged(), [""; 0]);
}

/// A byte of the config may be damaged that says which format it has. A newer program leaves a copy
/// that says the same.
#[test]
fn a_newer_format_has_a_copy_that_says_so() {
    let storage = MemoryStorage::default();
    let repository = init_with(storage.clone(), init_options());
    let mut newer = storage.get(Name::CONFIG, None).unwrap();
    newer[7] = FORMAT + 1;
    storage.set(Name::CONFIG, newer.clone());
    let opened = opened(&storage);
    assert_eq!(opened.damaged(), ["config is damaged"]);
    assert_eq!(opened.config().id, repository.config().id);

    let copy = [b"TABANEY\x01C", newer.as_slice()].concat();
    let name = Name::new(ObjectKind::Copy, tabane_storage::object_id(&[&copy]));
    storage.set(name, copy);
    let error = Repository::open(Arc::new(storage), &password()).unwrap_err();
    assert!(
        matches!(error, Error::NewerFormat { found: 3, .. }),
        "{error}"
    );
}

/// Nothing is put over a repository of which only the copies of its config are left.
#[test]
fn a_lost_config_is_not_buried_under_a_new_one() {
    let storage = MemoryStorage::default();
    init_with(storage.clone(), init_options());
    storage.remove(Name::CONFIG);
    let made = Repository::init(Arc::new(storage.clone()), &password(), init_options());
    assert!(matches!(made.unwrap_err(), Error::ConfigMissing(_)));
    assert_eq!(opened(&storage).damaged(), ["config is missing"]);
}

#[test]
fn a_key_that_is_removed_leaves_no_copy() {
    let storage = MemoryStorage::default();
    let repository = init_with(storage.clone(), init_options());
    let second: Password = b"second".to_vec().into();
    let key = repository.add_key(&second, KdfCost::WEAKEST).unwrap();
    assert!(Repository::open(Arc::new(storage.clone()), &second).is_ok());
    repository.remove_key(key).unwrap();
    let error = Repository::open(Arc::new(storage.clone()), &second).unwrap_err();
    assert!(matches!(error, Error::WrongPassword { .. }), "{error}");
    assert_eq!(storage.list(ObjectKind::Copy).unwrap().len(), 2);
    assert_clean(&repository);
}

#[test]
fn a_wrong_password_is_called_so_beside_a_damaged_key() {
    let storage = MemoryStorage::default();
    let repository = init_with(storage.clone(), init_options());
    let second: Password = b"second".to_vec().into();
    let damaged = repository.add_key(&second, KdfCost::WEAKEST).unwrap();
    storage.set(Name::new(ObjectKind::Key, damaged), b"damage".to_vec());
    let open =
        |password: &[u8]| Repository::open(Arc::new(storage.clone()), &password.to_vec().into());
    let error = open(b"wrong").unwrap_err();
    assert!(
        matches!(
            &error,
            Error::WrongPassword {
                keys: 1,
                damaged: Some(_),
                ..
            }
        ),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .contains(&format!("keys/{damaged} is damaged")),
        "{error}"
    );
    // The copy of the key is sound.
    open(b"second").unwrap();
    for copy in storage.list(ObjectKind::Copy).unwrap() {
        storage.remove(Name::new(ObjectKind::Copy, copy.id));
    }
    assert!(matches!(open(b"second"), Err(Error::WrongPassword { .. })));
    // Where none can be read, damage is the reason.
    storage.remove(Name::new(ObjectKind::Key, repository.key()));
    assert!(matches!(open(b"wrong"), Err(Error::Damaged { .. })));
}

#[test]
fn a_wrong_password_is_called_so_where_only_copies_of_keys_are_sound() {
    let storage = MemoryStorage::default();
    let repository = init_with(storage.clone(), init_options());
    let open = |password: &Password| Repository::open(Arc::new(storage.clone()), password);
    let key = Name::new(ObjectKind::Key, repository.key());
    let wrong: Password = b"wrong".to_vec().into();
    storage.set(key, b"damage".to_vec());
    let error = open(&wrong).unwrap_err();
    assert!(
        matches!(error, Error::WrongPassword { keys: 1, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("is damaged"), "{error}");
    open(&password()).unwrap();
    storage.remove(key);
    let error = open(&wrong).unwrap_err();
    assert!(
        matches!(error, Error::WrongPassword { keys: 1, .. }),
        "{error}"
    );
    open(&password()).unwrap();
}

#[test]
fn the_check_tells_how_many_keys_there_are() {
    let repository = init_with(MemoryStorage::default(), init_options());
    for keys in 1..3 {
        assert_eq!(assert_clean(&repository).keys, keys);
        let another = format!("another {keys}").into_bytes().into();
        repository.add_key(&another, KdfCost::WEAKEST).unwrap();
    }
}

#[test]
fn nothing_is_copied_into_an_older_format() {
    let place = Place::new();
    let made = back_up(&place.repository, &[&place.source]);
    let old = init_with(MemoryStorage::default(), init_options().format(1));
    let snapshots = [(id(&made), made.snapshot.clone())];
    let copied = place
        .repository
        .copy_to(CopyOptions::default(), &old, &snapshots);
    assert!(matches!(copied.unwrap_err(), Error::OlderFormat { .. }));
    old.migrate().unwrap();
}
