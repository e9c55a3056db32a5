//! Sources that change, and disks that are full.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::bed::{Bed, Recorder, assert_tidy, run};
use tabane_testing::compare::assert_same;
use tabane_testing::files;
use tabane_testing::mount::Mount;

fn append_while_copied(bed: &Bed, times: u32) -> Recorder {
    let path = bed.path("source/large");
    files::write(&path, &files::random_bytes(1, 6 << 20));
    let left = AtomicU32::new(times);
    Recorder::on_bytes(move || {
        let one_less = |left: u32| left.checked_sub(1);
        if left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
            .is_ok()
        {
            let mut file = OpenOptions::new().append(true).open(&path).unwrap();
            file.write_all(b"more").unwrap();
        }
    })
}

#[test]
fn a_source_that_changes_once_is_read_again() {
    let bed = Bed::new();
    let recorder = append_while_copied(&bed, 1);
    let mut options = bed.options();
    options.sources = vec![bed.path("source/large")];
    let (summary, problems) = run(options, recorder);
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(summary.errors, 0);
    let found = fs::read(bed.path("to/large")).unwrap();
    assert!(found == fs::read(bed.path("source/large")).unwrap());
}

#[test]
fn a_source_that_changes_always_is_reported() {
    let bed = Bed::new();
    let recorder = append_while_copied(&bed, u32::MAX);
    let (summary, problems) = run(bed.options(), recorder);
    assert!(summary.errors >= 1);
    assert!(
        problems
            .iter()
            .any(|text| text.starts_with("Changed") && text.contains("large")),
        "{problems:?}"
    );
    assert!(!bed.copy().join("large").exists());
    assert!(bed.copy().join("random").exists());
    assert_tidy(&bed.path("to"));
}

#[test]
fn a_full_disk_is_reported_once_and_left_tidy() {
    let bed = Bed::new();
    for number in 0..5 {
        let path = bed.path(&format!("source/large {number}"));
        files::write(path, &files::random_bytes(number, 5 << 20));
    }
    let Some(_mount) = Mount::tmpfs(&bed.path("to"), "8m") else {
        return;
    };
    let (summary, problems) = run(bed.options(), Recorder::default());
    assert_eq!(summary.errors, 1, "{problems:?}");
    assert!(
        problems[0].contains("Write") && problems[0].contains("StorageFull"),
        "{problems:?}"
    );
    assert_tidy(&bed.path("to"));
    for entry in fs::read_dir(bed.copy()).unwrap() {
        let path = entry.unwrap().path();
        let source = bed.source().join(path.file_name().unwrap());
        if path.is_file() {
            assert!(
                fs::read(&path).unwrap() == fs::read(source).unwrap(),
                "{}",
                path.display()
            );
        }
    }
}

#[test]
fn mounts_in_the_target_are_copied_into() {
    let bed = Bed::new();
    fs::create_dir_all(bed.copy().join("many")).unwrap();
    let Some(_mount) = Mount::tmpfs(&bed.copy().join("many"), "8m") else {
        return;
    };
    let mut options = bed.options();
    options.sync = true;
    // A name cannot be on two file systems: of one file there, the other name becomes an error.
    fs::remove_file(bed.path("source/many/text again")).unwrap();
    let (_, problems) = run(options, Recorder::default());
    assert!(problems.is_empty(), "{problems:?}");
    assert_same(&bed.source(), &bed.copy());
}
