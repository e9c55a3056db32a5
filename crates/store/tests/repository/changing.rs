//! Files that change while they are backed up: reported, never fatal, and what is stored is
//! consistent.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::tree::{random_bytes, set_mtime, write};
use crate::common::{Place, Recorder, assert_clean, back_up_observed, backup_options, compare, id};
use tabane_store::Outcome;
use tabane_store::backup::Backup;

/// Long enough to be read in several parts.
const LEN: usize = 30 << 20;

/// Backs up with an observer, and wants the repository clean, and what is restored within `allowed`
/// bytes.
fn back_up_changing(place: &Place, recorder: Recorder) -> (Backup, Vec<(String, String)>) {
    let recorder = Arc::new(recorder);
    let made = back_up_observed(
        &place.repository,
        &[&place.source],
        backup_options(),
        &recorder,
    )
    .expect("it is not fatal");
    assert_clean(&place.repository);
    let warnings = recorder.warnings().into_iter().map(|(path, what)| {
        let name = path.strip_prefix(&place.source).unwrap();
        (name.to_str().unwrap().to_owned(), what)
    });
    (made, warnings.collect())
}

/// An observer that acts once this many bytes were read.
fn after(bytes: u64, act: impl Fn() + Send + Sync + 'static) -> Recorder {
    let read = AtomicU64::new(0);
    Recorder::on_read(move |more| {
        let before = read.fetch_add(more, Ordering::SeqCst);
        if before < bytes && before + more >= bytes {
            act();
        }
    })
}

fn restored(place: &Place, made: &Backup, name: &str) -> Option<Vec<u8>> {
    let target = place.path("target");
    place.restore_source(made, &target);
    fs::read(target.join(name)).ok()
}

/// The file is read whole by the next backup.
fn assert_noticed_next_time(place: &Place) {
    let (made, warnings) = back_up_changing(place, Recorder::default());
    assert_eq!(warnings, []);
    assert_eq!(made.snapshot.summary.files_unmodified, 0);
    let target = place.path("next target");
    place.restore_source(&made, &target);
    compare::assert_same_contents(&place.source, &target);
}

#[test]
fn a_file_that_grows() {
    let place = Place::new();
    let bytes = random_bytes(1, LEN);
    let path = place.source.join("log");
    write(&path, &bytes);
    let (made, warnings) = back_up_changing(
        &place,
        after(1, move || append(&path, &random_bytes(2, 3 << 20))),
    );
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0].0, "log");
    assert!(warnings[0].1.contains("changed"), "{warnings:?}");
    let found = restored(&place, &made, "log").unwrap();
    assert!(found.len() >= LEN && found[..LEN] == bytes);
    assert_noticed_next_time(&place);
}

#[test]
fn a_file_that_is_cut_short() {
    let place = Place::new();
    let bytes = random_bytes(3, LEN);
    let path = place.source.join("file");
    write(&path, &bytes);
    let (made, warnings) = back_up_changing(
        &place,
        after(1, move || {
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            file.set_len(LEN as u64 / 2).unwrap();
        }),
    );
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let found = restored(&place, &made, "file").unwrap();
    assert!(found.len() <= LEN && bytes.starts_with(&found));
    assert!(found.len() >= LEN / 2);
    assert_noticed_next_time(&place);
}

#[test]
fn a_file_whose_bytes_change() {
    let place = Place::new();
    let path = place.source.join("file");
    write(&path, &random_bytes(4, LEN));
    let (made, warnings) = back_up_changing(
        &place,
        after(1, move || {
            fs::write(&path, random_bytes(5, LEN)).unwrap();
            // That the times were set back does not hide it.
            set_mtime(&path, 1_000_000_000, 0);
        }),
    );
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(restored(&place, &made, "file").unwrap().len(), LEN);
    assert_noticed_next_time(&place);
}

#[test]
fn a_file_that_is_removed_while_it_is_read() {
    let place = Place::new();
    let bytes = random_bytes(6, LEN);
    let path = place.source.join("file");
    write(&path, &bytes);
    let (made, _) = back_up_changing(&place, after(1, move || fs::remove_file(&path).unwrap()));
    // It was open: its bytes are all there.
    assert!(restored(&place, &made, "file").unwrap() == bytes);
}

#[test]
fn a_file_that_is_replaced_while_it_is_read() {
    let place = Place::new();
    let bytes = random_bytes(7, LEN);
    let path = place.source.join("file");
    write(&path, &bytes);
    let (made, _) = back_up_changing(
        &place,
        after(1, move || {
            fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        }),
    );
    assert!(restored(&place, &made, "file").unwrap() == bytes);
}

/// Its directory was listed, then it is gone.
#[test]
fn entries_that_vanish_before_they_are_looked_at() {
    let place = Place::new();
    for name in ["directory/a", "directory/file", "directory/sub/b", "rest"] {
        write(place.source.join(name), name.as_bytes());
    }
    let source = place.source.clone();
    let recorder = Recorder::on_entry(move |path: &Path, outcome| {
        if outcome == Outcome::Directory && path.ends_with("directory") {
            fs::remove_file(source.join("directory/file")).unwrap();
            fs::remove_dir_all(source.join("directory/sub")).unwrap();
        }
    });
    let (made, mut warnings) = back_up_changing(&place, recorder);
    warnings.sort();
    let names: Vec<&str> = warnings.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["directory/file", "directory/sub"]);
    assert!(warnings.iter().all(|(_, what)| what.contains("vanished")));
    let target = place.path("target");
    place.restore_source(&made, &target);
    let found: Vec<_> = compare::contents(&target).into_keys().collect();
    assert_eq!(found, [Path::new("directory/a"), Path::new("rest")]);
}

/// The snapshot lacks what somebody wants in it.
#[test]
fn what_was_named_and_vanishes_is_an_error() {
    let place = Place::new();
    for name in ["a/file", "b/file", "c"] {
        write(place.source.join(name), name.as_bytes());
    }
    let source = place.source.clone();
    let recorder = Arc::new(Recorder::on_entry(move |path: &Path, outcome| {
        if outcome == Outcome::Directory && path.ends_with("a") {
            fs::remove_dir_all(source.join("b")).unwrap();
        }
    }));
    let sources = ["a", "b/file", "c"].map(|name| place.source.join(name));
    let made = back_up_observed(
        &place.repository,
        &sources.each_ref().map(|path| path.as_path()),
        backup_options(),
        &recorder,
    )
    .expect("the others are stored");
    assert_eq!(made.snapshot.summary.errors, 1);
    let [(path, what)] = &recorder.warnings()[..] else {
        panic!("one path is named");
    };
    assert!(path.ends_with("b") && what.contains("vanished"), "{what}");
}

/// Small files are read together: what happens to one while another is read.
#[test]
fn small_files_that_change_after_they_were_looked_at() {
    let place = Place::new();
    for name in [
        "0 first",
        "cut",
        "grown",
        "grown big",
        "pipe",
        "removed",
        "same",
    ] {
        write(place.source.join(name), &random_bytes(8, 10_000));
    }
    let source = place.source.clone();
    let recorder = after(1, move || {
        fs::remove_file(source.join("removed")).unwrap();
        fs::remove_file(source.join("pipe")).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, source.join("pipe"), kind, mode, 0).unwrap();
        append(&source.join("grown"), &[7; 10_000]);
        append(&source.join("grown big"), &random_bytes(9, 10 << 20));
        write(source.join("cut"), b"short");
    });
    let (made, mut warnings) = back_up_changing(&place, recorder);
    warnings.sort();
    let names: Vec<&str> = warnings.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["pipe", "removed"], "{warnings:?}");
    assert_eq!(made.snapshot.summary.errors, 1);
    // Each file has the bytes that it had when it was opened.
    let target = place.path("target");
    place.restore_source(&made, &target);
    for name in ["0 first", "cut", "grown", "grown big", "same"] {
        let expected = fs::read(place.source.join(name)).unwrap();
        let found = fs::read(target.join(name)).unwrap();
        assert!(found == expected, "{name} differs");
    }
    assert!(!target.join("removed").exists() && !target.join("pipe").exists());
}

#[test]
fn a_file_that_never_stops_growing() {
    let place = Place::new();
    let path = place.source.join("log");
    write(&path, &random_bytes(10, 5 << 20));
    let growing = path.clone();
    let recorder = Recorder::on_read(move |bytes| append(&growing, &vec![7; bytes as usize]));
    let (made, warnings) = back_up_changing(&place, recorder);
    assert_eq!(warnings.len(), 1);
    assert!(made.snapshot.summary.total_bytes <= fs::metadata(&path).unwrap().len());
    assert!(made.id.is_some() && id(&made) != tabane_store::Id::default());
}

fn append(path: &Path, bytes: &[u8]) {
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}
