//! Keys on paper: what is lost of a repository comes back from the text, and nothing else does.

use std::sync::Arc;

use crate::common::memory::MemoryStorage;
use crate::common::{
    Place, assert_clean, assert_restores, back_up, id, init_options, init_with, password,
};
use tabane_storage::{Name, ObjectKind, Storage};
use tabane_store::key::Password;
use tabane_store::{Error, Repository};

fn import(storage: &MemoryStorage, text: &str) -> tabane_store::Result<Vec<String>> {
    Repository::import_key(Arc::new(storage.clone()), text, &password()).map(|it| it.mended)
}

fn refusal(storage: &MemoryStorage, text: &str) -> String {
    let before = storage.objects();
    let error = import(storage, text).unwrap_err();
    assert!(matches!(error, Error::KeyText(_)), "{error}");
    assert_eq!(storage.objects(), before);
    error.to_string()
}

#[test]
fn config_and_key_come_back() {
    let place = Place::new();
    std::fs::write(place.source.join("file"), "content").unwrap();
    for format in [1, 2] {
        let sound = MemoryStorage::default();
        let repository = init_with(sound.clone(), init_options().format(format));
        let text = repository
            .export_key(repository.key())
            .unwrap()
            .join("\r\n");
        let made = back_up(&repository, &[&place.source]);
        assert_eq!(import(&sound, &text).unwrap(), [""; 0]);

        let lost = |name: &Name| matches!(name.kind, ObjectKind::Config | ObjectKind::Key);
        // Lost; damaged; and in both cases without any copy.
        for (damaged, with_copies) in [(false, false), (true, false), (false, true), (true, true)] {
            let storage = MemoryStorage::new(sound.objects());
            for name in sound.objects().into_keys() {
                if name.kind == ObjectKind::Copy && !with_copies || lost(&name) {
                    let mut bytes = storage.get(name, None).unwrap();
                    *bytes.last_mut().unwrap() ^= 1;
                    storage.remove(name);
                    if damaged && lost(&name) {
                        storage.set(name, bytes);
                    }
                }
            }
            let what = format!("{format} {damaged} {with_copies}");
            let opens = Repository::open(Arc::new(storage.clone()), &password()).is_ok();
            assert_eq!(opens, with_copies && format > 1, "{what}");
            assert!(!import(&storage, &text).unwrap().is_empty(), "{what}");
            let opened = crate::common::open(storage.clone());
            assert_eq!(
                (opened.format(), opened.damaged()),
                (format, &[][..]),
                "{what}"
            );
            assert_clean(&opened);
            assert_restores(&opened, id(&made), &place.source, &place.source);
            assert_eq!(import(&storage, &text).unwrap(), [""; 0]);
        }
    }
}

#[test]
fn a_text_of_another_repository_changes_nothing() {
    let place = Place::new();
    let text_of = |repository: &Repository| {
        let lines = repository.export_key(repository.key());
        lines.unwrap().join("\n")
    };
    let other = text_of(&init_with(MemoryStorage::default(), init_options()));
    let empty = MemoryStorage::default();
    let said = refusal(&empty, &other);
    assert!(
        said.contains("is none or another; nothing was changed"),
        "{said}"
    );

    let storage = MemoryStorage::default();
    let repository = init_with(storage.clone(), init_options());
    refusal(&storage, &other);
    let text = text_of(&repository);
    back_up(&repository, &[&place.source]);
    refusal(&storage, &other);
    // Not even where nothing but sealed objects tells whose it is.
    for kind in [ObjectKind::Config, ObjectKind::Key, ObjectKind::Copy] {
        for listed in storage.list(kind).unwrap() {
            storage.remove(Name::new(kind, listed.id));
        }
    }
    refusal(&storage, &other);
    import(&storage, &text).unwrap();
    crate::common::open(storage);
}

#[test]
fn a_text_with_a_mistake_or_another_password_changes_nothing() {
    let storage = MemoryStorage::default();
    let repository = init_with(storage.clone(), init_options());
    let lines = repository.export_key(repository.key()).unwrap();
    let text = lines.join("\n");
    storage.remove(Name::CONFIG);
    let said = refusal(&storage, &text.replacen("02: ", "02: 0", 1));
    assert!(said.contains("line 02 has a mistake"), "{said}");
    refusal(&storage, &lines[1..].join("\n"));
    let wrong: Password = b"wrong".to_vec().into();
    let error = Repository::import_key(Arc::new(storage), &text, &wrong).unwrap_err();
    assert!(
        error.to_string().contains("opens with another password"),
        "{error}"
    );
}
