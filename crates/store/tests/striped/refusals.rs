//! What cannot be right is refused in one sentence.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use tabane_storage::{Listed, LocalStorage, Name, ObjectKind, Storage};
use tabane_store::{Error, Repository};
use tabane_striped::{Place, StripedStorage};

use crate::bed::{Bed, heal};
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
    assert_says(
        &text,
        &["none of the places", "target-4: the place is empty"],
    );
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
    let mut inside = bed.places();
    inside[3] = place_at(&bed.target(1).join("sub"));
    assert_says(&form(inside), &["target-1/sub", "inside", "apart"]);
    let fresh = Bed::new(5);
    let mut in_other_words = fresh.places();
    in_other_words[4] = in_other_words_of(&fresh, 1);
    assert_says(
        &form(in_other_words),
        &["listed twice under different URLs"],
    );
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
    // The one that does not belong to the others is named, though it knows more changes.
    other.lose(0);
    other.renew(0);
    for number in [0, 2] {
        let mut mixed = bed.places();
        mixed[number] = other.place(number);
        let url = &mixed[number].url;
        let says = format!("{url} is a target of another striped repository");
        assert_says(&refused(mixed.clone()), &[&says]);
    }
    let mut twice = bed.places();
    twice[3] = in_other_words_of(&bed, 1);
    assert_says(&refused(twice), &["same target", "once"]);
}

/// The place of a target, by another path.
fn in_other_words_of(bed: &Bed, number: usize) -> Place {
    let name = format!("target-{number}");
    // The path goes through target 0, so this must exist even if target `number` does not.
    fs::create_dir_all(bed.target(0)).unwrap();
    place_at(&bed.target(0).join("..").join(name))
}

fn place_at(path: &Path) -> Place {
    Place {
        url: path.display().to_string(),
        storage: Arc::new(LocalStorage::new(path)),
    }
}

#[test]
fn a_target_is_not_inside_of_another() {
    let bed = Bed::new(4);
    bed.fill();
    let inside = place_at(&bed.target(1).join("sub"));
    let old = bed.target(2).display().to_string();
    for refused in [
        bed.open().add(&inside),
        bed.open().replace(&old, &inside).map(drop),
    ] {
        assert_says(&refused.unwrap_err().to_string(), &["inside"]);
    }
    assert!(!bed.target(1).join("sub").exists());
}

/// Of two who change the set at once, the second is told, and what the first did counts, in
/// whatever order places are listed.
#[test]
fn of_two_changes_at_once_one_is_made() {
    for second_adds in [false, true] {
        let bed = Bed::new(4);
        bed.fill();
        let new = |name: &str| place_at(&bed.dir.path().join(name));
        let (one, other) = (bed.open(), bed.open());
        let old = bed.target(1).display().to_string();
        one.replace(&old, &new("one")).unwrap();
        let refused = if second_adds {
            other.add(&new("other"))
        } else {
            other.replace(&old, &new("other")).map(drop)
        };
        assert_says(
            &refused.unwrap_err().to_string(),
            &["another client", "this change was not made"],
        );
        let mut places = bed.places();
        places.extend([new("other"), new("one")]);
        for _ in 0..2 {
            places.reverse();
            let storage = open(places.clone()).unwrap();
            let survey = storage.survey().unwrap();
            let mut urls: Vec<_> = survey.targets.iter().map(|target| &target.url).collect();
            urls.sort();
            let mut expected: Vec<_> = [0, 2, 3].map(|number| bed.place(number).url).into();
            expected.push(new("one").url);
            expected.sort();
            assert!(urls.into_iter().eq(&expected), "{survey:?}");
        }
        // Who is refused has only to say it again, if it still means anything.
        places.retain(|place| place.url != old);
        let storage = open(places).unwrap();
        heal(&storage);
        if second_adds {
            storage.add(&new("other")).unwrap()
        } else {
            drop(storage.replace(&new("one").url, &new("other")).unwrap())
        }
    }
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
    // A replaced target cannot be added again.
    let again = storage.replace(&bed.target(2).display().to_string(), &bed.place(1));
    assert_says(&again.unwrap_err().to_string(), &["target-1", "before"]);
    places.remove(1);
    let storage: Arc<dyn Storage> = Arc::new(open(places).unwrap());
    let repository = Arc::new(Repository::open(storage, &password()).unwrap());
    crate::common::assert_restores(&repository, made, &bed.source(), &bed.source());
}

/// A disk that the system has made read-only because it fails.
struct ReadOnly(Arc<dyn Storage>);

impl Storage for ReadOnly {
    fn location(&self) -> String {
        self.0.location()
    }

    fn create(&self) -> tabane_storage::Result<()> {
        Err(tabane_storage::StorageErrorKind::ReadOnly.into())
    }

    fn put(&self, _name: Name, _parts: &[&[u8]]) -> tabane_storage::Result<()> {
        Err(tabane_storage::StorageErrorKind::ReadOnly.into())
    }

    fn get(&self, name: Name, range: Option<Range<u64>>) -> tabane_storage::Result<Vec<u8>> {
        self.0.get(name, range)
    }

    fn list(&self, kind: ObjectKind) -> tabane_storage::Result<Vec<Listed>> {
        self.0.list(kind)
    }

    fn stat(&self, name: Name) -> tabane_storage::Result<u64> {
        self.0.stat(name)
    }

    fn delete(&self, _name: Name) -> tabane_storage::Result<()> {
        Err(tabane_storage::StorageErrorKind::ReadOnly.into())
    }
}

fn with_read_only(bed: &Bed, number: usize) -> StripedStorage {
    let mut places = bed.places();
    places[number].storage = Arc::new(ReadOnly(Arc::clone(&places[number].storage)));
    open(places).unwrap()
}

#[test]
fn a_target_that_cannot_be_written_to_is_replaced() {
    let bed = Bed::new(5);
    bed.fill();
    let new = bed.dir.path().join("new");
    let new = Place {
        url: new.display().to_string(),
        storage: Arc::new(LocalStorage::new(new)),
    };
    let old = bed.place(1).url;
    assert_eq!(with_read_only(&bed, 1).replace(&old, &new).unwrap(), old);
    let mut places = bed.places();
    places[1] = new;
    let storage = open(places).unwrap();
    assert!(heal(&storage).healed_objects > 0);
    let survey = storage.survey().unwrap();
    assert_eq!(survey.incomplete_objects, 0, "{survey:?}");

    // Any other is to be mended first; then the change is made, or can be begun again.
    let bed = Bed::new(5);
    bed.fill();
    let old = bed.place(1).url;
    bed.lose(1);
    let renewed = bed.place(1);
    let error = with_read_only(&bed, 3).replace(&old, &renewed).unwrap_err();
    assert_says(
        &error.to_string(),
        &[&bed.place(3).url, "run the same command again"],
    );
    assert_eq!(bed.open().replace(&old, &renewed).unwrap(), old);
    let sets = |number| {
        fs::read_dir(bed.target(number).join("sets"))
            .unwrap()
            .count()
    };
    assert!((0..bed.count).all(|number| sets(number) == 2 - usize::from(number == 1)));
    heal(&bed.open());
    bed.assert_whole();
    let error = bed.open().replace(&old, &renewed).unwrap_err();
    assert_says(&error.to_string(), &["is a target of this set already"]);
}

#[test]
fn a_target_that_cannot_be_written_to_does_not_keep_others_from_being_healed() {
    let bed = Bed::new(5);
    bed.fill();
    for number in [0, 4] {
        fs::remove_dir_all(bed.target(number).join("packs")).unwrap();
        fs::create_dir(bed.target(number).join("packs")).unwrap();
    }
    let report = heal(&with_read_only(&bed, 4));
    let apart = (report.missing_targets, report.refusing_targets);
    assert_eq!(apart, (0, 1), "{report:?}");
    let survey = bed.open().survey().unwrap();
    assert_eq!(survey.spare.len(), 5, "{survey:?}");
    assert!(heal(&bed.open()).healed_objects > 0);
    bed.assert_whole();
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
    assert_says(
        &error.to_string(),
        &["part of a striped repository", "one of its targets"],
    );
    let error = Repository::init(alone(), &password(), init_options())
        .err()
        .unwrap();
    assert!(matches!(error, Error::RepositoryExists(_)), "{error}");
    // A target of a set without a repository is refused, too.
    let bed = Bed::new(3);
    StripedStorage::form(bed.places(), false).unwrap();
    let alone = Arc::new(LocalStorage::new(bed.target(1)));
    let error = Repository::init(alone, &password(), init_options())
        .err()
        .unwrap();
    assert!(matches!(error, Error::NotEmpty(_)), "{error}");
}
