//! What goes wrong is said in one clear sentence, as the right error, and leaves nothing half done.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use crate::common::memory::MemoryStorage;
use crate::common::tree::{small_tree, write};
use crate::common::{
    Place, Recorder, back_up, backup_options, compare, id, init, init_options, is_root,
    not_checked, open, password, restore_options, scratch,
};
use tabane_storage::{LocalStorage, Name, ObjectKind, Storage};
use tabane_store::chunker::Chunking;
use tabane_store::key::{self, KdfCost, Password};
use tabane_store::{Error, Id, InitOptions, Repository, parts};

fn try_init(path: &Path, options: InitOptions) -> Result<Repository, Error> {
    Repository::init(Arc::new(LocalStorage::new(path)), &password(), options)
}

fn try_open(path: &Path, password: &Password) -> Result<Repository, Error> {
    Repository::open(Arc::new(LocalStorage::new(path)), password)
}

/// One sentence without line breaks, or names of the code, that says what is wrong.
fn assert_clear(error: &Error) {
    let text = error.to_string();
    assert!(!text.contains('\n') && text.len() > 20, "{text}");
    assert!(
        !text.contains("Error") && !text.contains("::") && !text.contains("Some("),
        "{text}"
    );
}

macro_rules! assert_error {
    ($result:expr, $pattern:pat) => {{
        let error = $result.map(|_| ()).unwrap_err();
        assert!(matches!(error, $pattern), "{error:?}");
        assert_clear(&error);
        error
    }};
}

#[test]
fn wrong_password() {
    let dir = scratch();
    init(LocalStorage::new(dir.path().join("repository")));
    for wrong in ["", "wrong", "correct horse ", "Correct horse"] {
        let wrong = wrong.as_bytes().to_vec().into();
        let result = try_open(&dir.path().join("repository"), &wrong);
        assert_error!(result, Error::WrongPassword { keys: 1, .. });
    }
}

#[test]
fn no_repository() {
    let dir = scratch();
    write(dir.path().join("file"), b"x");
    for name in ["missing", "file", "file/below", ""] {
        let result = try_open(&dir.path().join(name), &password());
        let error = assert_error!(result, Error::NoRepository(_));
        assert!(error.to_string().contains("no repository at"), "{error}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn init_where_something_is() {
    let dir = scratch();
    let path = dir.path().join("repository");
    try_init(&path, init_options()).unwrap();
    let before = compare::listing(&path);
    assert_error!(try_init(&path, init_options()), Error::RepositoryExists(_));
    assert_eq!(compare::listing(&path), before);
    let full = dir.path().join("full");
    write(full.join("precious"), b"x");
    assert_error!(try_init(&full, init_options()), Error::NotEmpty(_));
    assert_eq!(fs::read_dir(&full).unwrap().count(), 1);
    let file = dir.path().join("file");
    write(&file, b"precious");
    let error = try_init(&file, init_options()).map(|_| ()).unwrap_err();
    assert_clear(&error);
    assert_eq!(fs::read(&file).unwrap(), b"precious");
}

#[test]
fn a_newer_format() {
    let storage = MemoryStorage::default();
    let repository = init(storage.clone());
    let source = scratch();
    write(source.path().join("file"), b"x");
    let made = back_up(&repository, &[source.path()]);
    // The format is the eighth byte of a header. Where there is an older copy, it would serve.
    let newer = |name: Name| {
        let mut objects = storage.objects();
        objects.retain(|name, _| name.kind != ObjectKind::Copy);
        objects.get_mut(&name).unwrap()[7] = 3;
        Arc::new(MemoryStorage::new(objects))
    };
    let result = Repository::open(newer(Name::CONFIG), &password());
    let error = assert_error!(result, Error::NewerFormat { found: 3, known: 2 });
    assert!(error.to_string().contains("install"), "{error}");
    // Not even with a wrong password.
    let wrong = b"wrong".to_vec().into();
    let result = Repository::open(newer(Name::CONFIG), &wrong);
    assert_error!(result, Error::NewerFormat { .. });
    assert!(made.id.is_some());
}

#[test]
fn options_that_cannot_be_used() {
    let dir = scratch();
    let path = dir.path().join("repository");
    let with = |change: &dyn Fn(&mut InitOptions)| {
        let mut options = init_options();
        change(&mut options);
        try_init(&path, options)
    };
    for chunking in [
        Chunking::Fixed { len: 0 },
        Chunking::Fixed { len: 1023 },
        Chunking::Fixed { len: u32::MAX },
        Chunking::Content {
            min: 4096,
            avg: 4096,
            max: 8192,
        },
        Chunking::Content {
            min: 1 << 10,
            avg: 3 << 10,
            max: 1 << 20,
        },
        Chunking::Content {
            min: 1 << 20,
            avg: 1 << 22,
            max: 1 << 25,
        },
    ] {
        let result = with(&|options| options.chunking = chunking);
        assert_error!(result, Error::Invalid(_));
    }
    let cost = |memory_kib, passes, lanes| KdfCost {
        memory_kib,
        passes,
        lanes,
    };
    for cost in [cost(0, 1, 1), cost(8, 0, 1), cost(8, 1, 0), cost(8, 1, 2)] {
        let result = with(&|options| options.kdf_cost = cost);
        assert_error!(result, Error::Invalid(_));
    }
    let empty = Vec::new().into();
    let storage = Arc::new(LocalStorage::new(&path));
    let result = Repository::init(storage, &empty, init_options());
    assert_error!(result, Error::Invalid(_));
    // Nothing of that stands in the way.
    try_init(&path, init_options()).unwrap();
}

#[test]
fn paths_that_are_not_there() {
    let place = Place::new();
    let observer = || Arc::new(Recorder::default());
    let backup = |paths: &[&Path]| {
        crate::common::back_up_observed(&place.repository, paths, backup_options(), &observer())
    };
    assert_error!(backup(&[]), Error::Invalid(_));
    assert_error!(backup(&[&place.path("missing")]), Error::Path { .. });
    write(place.path("file"), b"x");
    assert_error!(backup(&[&place.path("file/below")]), Error::Path { .. });
    let listed = place.repository.list(ObjectKind::Pack).unwrap();
    assert_eq!(listed, []);
}

#[test]
fn a_target_that_is_a_file() {
    let place = Place::new();
    small_tree(&place.source, 1);
    let made = back_up(&place.repository, &[&place.source]);
    let target = place.path("file");
    write(&target, b"precious");
    for target in [target.clone(), target.join("below")] {
        let result = place
            .repository
            .restore(restore_options(&target), id(&made), &made.snapshot);
        assert_error!(result, Error::WrongKind(_) | Error::Path { .. });
    }
    assert_eq!(fs::read(&target).unwrap(), b"precious");
}

#[test]
fn names_of_snapshots() {
    let place = Place::new();
    let find = |name: &str| place.repository.find_snapshot(name, &Default::default());
    assert_error!(find("latest"), Error::NoSnapshot(_));
    let mut ids: Vec<Id> = Vec::new();
    // Two of seventeen begin with the same digit.
    for number in 0..17 {
        write(place.source.join("file"), format!("{number}").as_bytes());
        ids.push(id(&back_up(&place.repository, &[&place.source])));
    }
    let digits = ids.iter().map(|id| id.to_string()[..1].to_owned());
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    digits.for_each(|digit| *counts.entry(digit).or_default() += 1);
    let (shared, times) = counts.iter().find(|(_, count)| **count > 1).unwrap();
    let error = assert_error!(find(shared), Error::AmbiguousSnapshot { .. });
    assert!(matches!(error, Error::AmbiguousSnapshot { count, .. } if count == *times));
    for none in ["", "x", "latest ", &"0".repeat(65)] {
        assert_error!(find(none), Error::NoSnapshot(_));
    }
    for id in &ids {
        assert_eq!(find(&id.to_string()).unwrap().0, *id);
        assert_eq!(find(&id.to_string().to_uppercase()).unwrap().0, *id);
    }
    assert_eq!(find("latest").unwrap().0, ids[16]);
}

#[test]
fn unreadable_files_are_reported_and_the_rest_is_stored() {
    if is_root() {
        return not_checked("unreadable files", "root reads everything");
    }
    let place = Place::new();
    small_tree(&place.source, 1);
    for name in ["random", "many"] {
        let closed = Permissions::from_mode(0o0);
        fs::set_permissions(place.source.join(name), closed).unwrap();
    }
    let recorder = Arc::new(Recorder::default());
    let made = crate::common::back_up_observed(
        &place.repository,
        &[&place.source],
        backup_options(),
        &recorder,
    );
    let made = made.unwrap();
    let open = Permissions::from_mode(0o700);
    fs::set_permissions(place.source.join("many"), open).unwrap();
    assert_eq!(made.snapshot.summary.errors, 2);
    assert_eq!(recorder.warnings().len(), 2);
    let options = restore_options(&place.path("target")).subpath(place.source.clone());
    crate::common::restore_with(&place.repository, id(&made), options);
    assert!(place.path("target").join("text").exists());
}

#[test]
fn several_passwords() {
    let dir = scratch();
    let path = dir.path().join("repository");
    let repository = init(LocalStorage::new(&path));
    let cost = init_options().kdf_cost;
    let second: Password = b"battery staple".to_vec().into();
    let storage = LocalStorage::new(&path);
    let added = repository.add_key(&second, cost).unwrap();
    let result = repository.add_key(&Vec::new().into(), cost);
    assert_error!(result, Error::Invalid(_));
    // What a password may do must not be left to chance.
    let result = repository.add_key(&second, cost);
    assert_error!(result, Error::PasswordInUse(_));
    let result = repository.add_write_only_key(&password(), cost);
    assert_error!(result, Error::PasswordInUse(_));
    let keys = key::list(&storage).unwrap().keys;
    assert_eq!(keys.len(), 2);
    assert_eq!(keys[0].id, repository.key());
    assert_eq!(keys[1].id, added);
    let opened = try_open(&path, &second).unwrap();
    assert_eq!(opened.key(), added);
    assert_eq!(opened.config().id, repository.config().id);
    assert_eq!(open(LocalStorage::new(&path)).key(), repository.key());
    // The key in use stays; a password whose key was removed opens nothing.
    let result = repository.remove_key(repository.key());
    assert_error!(result, Error::KeyInUse(_));
    opened.remove_key(repository.key()).unwrap();
    let result = try_open(&path, &password());
    assert_error!(result, Error::WrongPassword { keys: 1, .. });
    try_open(&path, &second).unwrap();
    let result = opened.remove_key(repository.key());
    assert_error!(result, Error::Storage { .. });
}

#[test]
fn a_new_password() {
    let dir = scratch();
    let path = dir.path().join("repository");
    let repository = init(LocalStorage::new(&path));
    let second: Password = b"battery staple".to_vec().into();
    let cost = init_options().kdf_cost;
    let new = repository.change_password(&second, cost).unwrap();
    assert_error!(
        try_open(&path, &password()),
        Error::WrongPassword { keys: 1, .. }
    );
    assert_eq!(try_open(&path, &second).unwrap().key(), new);
}

#[test]
fn a_change_of_the_password_that_was_interrupted_is_completed() {
    let storage = MemoryStorage::default();
    let repository = init(storage.clone());
    let (old, second): (_, Password) = (repository.key(), b"battery staple".to_vec().into());
    let cost = init_options().kdf_cost;
    // It ends between adding the key and its copy.
    let secret = parts::keys(&repository).secret();
    let left = key::add(&storage, &secret, &second, cost).unwrap();
    assert_eq!(repository.change_password(&second, cost).unwrap(), left);
    assert_eq!(key::ids(&storage).unwrap(), [left]);
    assert_eq!(storage.list(ObjectKind::Copy).unwrap().len(), 2);
    // A write-only key is none that a full one becomes.
    let full = Repository::open(Arc::new(storage.clone()), &second).unwrap();
    let third: Password = b"third".to_vec().into();
    full.add_write_only_key(&third, cost).unwrap();
    let result = full.change_password(&third, cost);
    assert_error!(result, Error::PasswordInUse(_));
    assert_ne!(old, left);
}

/// The last key must stay: without a key, nobody can open the repository again.
#[test]
fn a_key_is_not_replaced_by_itself() {
    let dir = scratch();
    let path = dir.path().join("repository");
    let repository = init(LocalStorage::new(&path));
    let result = repository.change_password(&password(), init_options().kdf_cost);
    assert_error!(result, Error::PasswordInUse(_));
    try_open(&path, &password()).unwrap();
}

#[test]
fn names_of_keys() {
    let storage = MemoryStorage::default();
    let repository = init(storage.clone());
    let own = repository.key();
    assert_eq!(key::find(&storage, &own.to_string()).unwrap(), own);
    assert_eq!(key::find(&storage, &own.short()).unwrap(), own);
    for none in ["", "x", &"0".repeat(65)] {
        assert_error!(key::find(&storage, none), Error::NoKey(_));
    }
    for number in 0..16 {
        let password = format!("password {number}").into_bytes().into();
        repository.add_key(&password, KdfCost::WEAKEST).unwrap();
    }
    let ambiguous = (0..16)
        .map(|digit| key::find(&storage, &format!("{digit:x}")))
        .filter(|found| matches!(found, Err(Error::AmbiguousKey(_))));
    assert!(ambiguous.count() > 0);
}

#[test]
fn a_damaged_key_does_not_lock_out_the_others() {
    let storage = MemoryStorage::default();
    // There are no copies of keys in format 1.
    let repository = crate::common::init_with(storage.clone(), init_options().format(1));
    let second: Password = b"battery staple".to_vec().into();
    repository
        .add_key(&second, init_options().kdf_cost)
        .unwrap();
    let first = Name::new(ObjectKind::Key, repository.key());
    storage.set(first, b"garbage".to_vec());
    Repository::open(Arc::new(storage.clone()), &second).unwrap();
    let result = Repository::open(Arc::new(storage), &password());
    assert_error!(
        result,
        Error::WrongPassword {
            damaged: Some(_),
            ..
        }
    );
}

#[test]
fn a_key_that_would_cost_too_much_is_refused() {
    let storage = MemoryStorage::default();
    let repository = crate::common::init_with(storage.clone(), init_options().format(1));
    let name = Name::new(ObjectKind::Key, repository.key());
    let text = String::from_utf8(storage.objects()[&name].clone()).unwrap();
    storage.remove(name);
    let hostile = text.replace("\"memory_kib\": 8", "\"memory_kib\": 4000000000");
    assert_ne!(hostile, text);
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, hostile.as_bytes());
    let hostile_id = Id(digest.as_ref().try_into().unwrap());
    storage.set(Name::new(ObjectKind::Key, hostile_id), hostile.into());
    let result = Repository::open(Arc::new(storage), &password());
    assert_error!(result, Error::Damaged { .. });
}
