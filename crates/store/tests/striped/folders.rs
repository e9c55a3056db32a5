//! Folders that somebody removed from targets that otherwise are there.

use std::fs;

use tabane_storage::{Name, ObjectKind, Storage};
use tabane_store::Id;

use crate::bed::{Bed, Quiet, heal};

#[test]
fn what_was_in_a_folder_is_damage_that_heals() {
    let bed = Bed::new(5);
    let snapshot = bed.fill();
    let files = || (0..bed.count).map(|number| bed.files(number));
    let whole: Vec<_> = files().collect();
    for folder in [
        "packs",
        "index",
        "snapshots",
        "keys",
        "clients",
        "sets",
        "tmp",
    ] {
        let folders = [1, 3].map(|number| bed.target(number).join(folder));
        for folder in &folders {
            fs::remove_dir_all(folder).unwrap();
        }
        bed.assert_restores(snapshot);
        let report = heal(&bed.open());
        let left = (report.unhealed_objects, report.missing_targets);
        assert_eq!(left, (0, 0), "{folder}: {report:?}");
        assert!(folders.iter().all(|folder| folder.is_dir()), "{folder}");
        bed.assert_scrubbed();
        assert!(files().eq(whole.iter().cloned()), "{folder}");
    }
    // Nothing is left but who it is.
    for entry in fs::read_dir(bed.target(2)).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => fs::remove_dir_all(path).unwrap(),
            false if path.ends_with("target") => {}
            false => fs::remove_file(path).unwrap(),
        }
    }
    heal(&bed.open());
    assert!(files().eq(whole.iter().cloned()));
    bed.assert_whole();
}

/// In the place of a part: a heal neither waits for somebody to write into a pipe nor takes a
/// folder for the part.
#[test]
fn what_is_no_file_is_no_part() {
    let bed = Bed::new(5);
    let snapshot = bed.fill();
    let id = bed.open().list(ObjectKind::Snapshot).unwrap()[0].id;
    let name = Name::new(ObjectKind::Snapshot, id).path();
    let has = |number: &usize| bed.target(*number).join(&name).is_file();
    let path = bed.target((0..5).find(has).unwrap()).join(&name);
    let kept = fs::read(&path).unwrap();
    let make_pipe = |path: &std::path::Path| {
        let made = std::process::Command::new("mkfifo").arg(path).status();
        assert!(made.unwrap().success());
    };
    for make in [&make_pipe as &dyn Fn(&std::path::Path), &|path| {
        fs::create_dir(path).unwrap();
    }] {
        fs::remove_file(&path).unwrap();
        make(&path);
        bed.assert_restores(snapshot);
        let report = heal(&bed.open());
        let left = (report.healed_objects, report.missing_targets);
        assert_eq!(left, (0, 1), "{report:?}");
        fs::remove_dir(&path)
            .or_else(|_| fs::remove_file(&path))
            .unwrap();
        heal(&bed.open());
        assert_eq!(fs::read(&path).unwrap(), kept);
    }
    bed.assert_whole();
}

/// Snapshots that nobody removed must not seem to have been, or a prune would remove what they
/// need.
#[test]
fn what_is_lost_from_three_targets_is_not_taken_for_removed() {
    let bed = Bed::new(5);
    bed.fill();
    for number in [0, 2, 4] {
        fs::remove_dir_all(bed.target(number).join("snapshots")).unwrap();
    }
    // A heal must not hide the loss.
    bed.open().heal(Default::default(), &Quiet).unwrap_err();
    let error = bed.open().list(ObjectKind::Snapshot).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("snapshots is missing from more targets than may be lost")
            && text.contains("target-4"),
        "{text}"
    );
    assert!(!bed.open().list(ObjectKind::Pack).unwrap().is_empty());
}

/// What is put makes no folder again that targets have lost: empty ones would hide that.
#[test]
fn a_lost_folder_is_not_made_by_a_backup() {
    let bed = Bed::new(5);
    bed.fill();
    let lost = [0, 2, 4].map(|number| bed.target(number).join("packs"));
    for folder in &lost {
        fs::remove_dir_all(folder).unwrap();
    }
    let name = Name::new(ObjectKind::Pack, Id([7; 32]));
    let error = bed.open().put(name, &[&[1; 200_000]]).unwrap_err();
    assert!(error.to_string().contains("target-4"), "{error}");
    assert!(lost.iter().all(|folder| !folder.exists()));
    bed.open().heal(Default::default(), &Quiet).unwrap_err();
}
