//! What cannot be right is refused in one sentence.

use std::sync::Arc;

use tabane_store::storage::striped::{Place, StripedStorage};
use tabane_store::storage::{LocalStorage, Storage};
use tabane_store::{Error, Repository};

use crate::bed::Bed;
use crate::common::striped::{Told, open};
use crate::common::{init_options, password};

fn refused(places: Vec<Place>) -> String {
    match open(places) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("it was opened"),
    }
}

#[track_caller]
fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn too_few_targets_are_named() {
    let bed = Bed::new(5);
    bed.fill();
    for number in [0, 2, 4] {
        bed.lose(number);
    }
    let text = refused(bed.places());
    assert_says(
        &text,
        &[
            "3 of 5 targets are missing",
            "target-0",
            "target-2",
            "target-4",
        ],
    );
    // Those that the file does not list are missing as well.
    let text = refused(bed.places()[1..].to_vec());
    assert_says(&text, &["3 of 5", "target-0"]);
    for number in [1, 3] {
        bed.lose(number);
    }
    let text = refused(bed.places());
    assert_says(&text, &["none of the places", "mount"]);
    assert_says(&refused(Vec::new()), &["lists no targets"]);
}

#[test]
fn a_set_has_at_least_three_targets_that_are_new_and_different() {
    let bed = Bed::new(5);
    let form = |places: Vec<Place>| match StripedStorage::form(places, false) {
        Err(error) => error.to_string(),
        Ok(()) => panic!("it was made"),
    };
    assert_says(&form(bed.places()[..2].to_vec()), &["at least 3"]);
    let twice = vec![bed.place(0), bed.place(1), bed.place(0)];
    assert_says(&form(twice), &["target-0 is listed twice"]);
    std::fs::create_dir_all(bed.target(1)).unwrap();
    std::fs::write(bed.target(1).join("photo.jpg"), b"x").unwrap();
    assert_says(&form(bed.places()), &["target-1 is not empty"]);
    std::fs::remove_file(bed.target(1).join("photo.jpg")).unwrap();
    // What was begun goes on.
    bed.fill();
    assert_says(&form(bed.places()[..4].to_vec()), &["set of 5"]);
}

#[test]
fn targets_of_others_and_twice() {
    let (bed, other) = (Bed::new(4), Bed::new(4));
    bed.fill();
    other.fill();
    let mut mixed = bed.places();
    mixed[2] = other.place(2);
    assert_says(&refused(mixed), &["target of another striped repository"]);
    let mut twice = bed.places();
    let again = std::path::absolute(bed.target(1).join("../target-1")).unwrap();
    twice[3] = Place {
        url: again.display().to_string(),
        storage: Arc::new(LocalStorage::new(&again)),
    };
    assert_says(&refused(twice), &["same target", "once"]);
}

#[test]
fn a_replaced_target_that_returns_is_left_out() {
    let bed = Bed::new(5);
    let made = bed.fill();
    let old = bed.target(1).display().to_string();
    let new = bed.dir.path().join("new");
    let new = Place {
        url: new.display().to_string(),
        storage: Arc::new(LocalStorage::new(new)),
    };
    bed.open().replace(&old, &new).unwrap();
    let mut places = bed.places();
    places.push(new.clone());
    let told = Told::default();
    let storage = StripedStorage::open("set".to_owned(), places.clone(), told.notice()).unwrap();
    assert_says(&told.all().join("\n"), &["target-1", "was replaced"]);
    assert!(
        storage
            .survey()
            .unwrap()
            .targets
            .iter()
            .all(|target| target.url != old)
    );
    // Nor does it become a target again by itself.
    let again = storage.replace(&bed.target(2).display().to_string(), &bed.place(1));
    assert_says(&again.unwrap_err().to_string(), &["target-1", "before"]);
    places.remove(1);
    let storage: Arc<dyn Storage> = Arc::new(open(places).unwrap());
    let repository = Arc::new(Repository::open(storage, &password()).unwrap());
    crate::common::assert_restores(&repository, made, &bed.source(), &bed.source());
}

#[test]
fn no_target_is_replaced_that_is_needed() {
    let bed = Bed::new(5);
    bed.fill();
    bed.lose(0);
    bed.lose(1);
    let new = bed.dir.path().join("new");
    let new = Place {
        url: new.display().to_string(),
        storage: Arc::new(LocalStorage::new(new)),
    };
    let needed = bed.target(2).display().to_string();
    let error = bed.open().replace(&needed, &new).unwrap_err();
    assert_says(&error.to_string(), &["target-2", "would be lost"]);
    let error = bed.open().add(&new).unwrap_err();
    assert_says(&error.to_string(), &["target-0", "missing"]);
    let error = bed.open().replace("no such target", &new).unwrap_err();
    assert_says(&error.to_string(), &["names no target"]);
}

#[test]
fn a_target_alone_is_no_repository() {
    let bed = Bed::new(3);
    bed.fill();
    let alone = || Arc::new(LocalStorage::new(bed.target(1)));
    let error = Repository::open(alone(), &password()).err().unwrap();
    assert!(matches!(error, Error::OfStripedSet(_)), "{error}");
    assert_says(&error.to_string(), &["--repo striped:FILE"]);
    let error = Repository::init(alone(), &password(), init_options())
        .err()
        .unwrap();
    assert!(matches!(error, Error::RepositoryExists(_)), "{error}");
    // Nor is one whose set has no repository yet.
    let bed = Bed::new(3);
    StripedStorage::form(bed.places(), false).unwrap();
    let alone = Arc::new(LocalStorage::new(bed.target(1)));
    let error = Repository::init(alone, &password(), init_options())
        .err()
        .unwrap();
    assert!(matches!(error, Error::NotEmpty(_)), "{error}");
}
