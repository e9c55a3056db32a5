//! A repository that comes back older, or without a snapshot.

use std::fs;
use std::path::PathBuf;

use crate::bed::Bed;

/// Paths and contents of the repository's snapshots.
fn snapshots(bed: &Bed) -> Vec<(PathBuf, Vec<u8>)> {
    let listed = fs::read_dir(bed.repository().join("snapshots")).expect("a folder");
    let paths = listed.map(|entry| entry.expect("an entry").path());
    paths
        .map(|path| (path.clone(), fs::read(path).expect("a file")))
        .collect()
}

#[test]
fn a_snapshot_that_nobody_removed_is_missed() {
    let bed = Bed::with_repository();
    bed.backup(&[]).succeeds();
    let (path, bytes) = snapshots(&bed).pop().expect("a snapshot");
    let id = path.file_name().unwrap().to_str().unwrap().to_owned();
    fs::remove_file(&path).expect("it was there");

    let ran = bed.backup(&[]);
    assert_eq!(ran.code, Some(6), "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains(&id[..8]), "{}", ran.stderr);
    // The backup was made all the same.
    assert_eq!(snapshots(&bed).len(), 1);
    let ran = bed.run(["check"]);
    assert_eq!(ran.code, Some(6), "{}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stderr.contains("tabane forget --lost"),
        "{}",
        ran.stderr
    );
    let json = bed.backup(&["--json"]).last_json();
    let missed = json["rollback"].as_str().expect("words");
    assert!(missed.contains("is gone"), "{json}");

    // It is there again, and gone again.
    fs::write(&path, bytes).expect("a file");
    bed.run(["check"]).succeeds();
    fs::remove_file(&path).expect("it was there");
    let ran = bed.run(["forget", "--lost", "--dry-run"]).succeeds();
    ran.says(&id[..8]);
    assert_eq!(bed.run(["check"]).code, Some(6));
    bed.run(["forget", "--lost"]).succeeds();
    bed.run(["check"]).succeeds();
    bed.backup(&[]).succeeds();
    bed.run(["forget", "--lost"])
        .succeeds()
        .says("misses nothing");
}

#[test]
fn snapshots_that_are_removed_with_a_key_are_not_missed() {
    let bed = Bed::with_repository();
    bed.backup(&[]).succeeds();
    fs::write(bed.source().join("more"), "more").expect("a file");
    bed.backup(&[]).succeeds();
    // By another client.
    let state = bed.path("other");
    let mut forget = bed.command(["forget", "--keep-last", "1", "--prune"]);
    crate::bed::run(forget.env("TABANE_STATE_DIR", state)).succeeds();
    bed.backup(&[]).succeeds();
    bed.run(["check", "--read-data"]).succeeds();
}

#[test]
fn an_older_state_of_the_repository_is_noticed() {
    let bed = Bed::with_repository();
    bed.backup(&[]).succeeds();
    let older = bed.path("older");
    let copy = |from: &PathBuf, to: &PathBuf| {
        let ran = std::process::Command::new("cp")
            .arg("-a")
            .args([from, to])
            .status();
        assert!(ran.expect("cp runs").success());
    };
    copy(&bed.repository(), &older);
    fs::write(bed.source().join("more"), "more").expect("a file");
    bed.backup(&[]).succeeds();
    bed.run(["forget", "--keep-last", "1"]).succeeds();
    bed.run(["check"]).succeeds();

    fs::remove_dir_all(bed.repository()).expect("it was there");
    copy(&older, &bed.repository());
    for ran in [bed.run(["check"]), bed.backup(&[])] {
        assert_eq!(ran.code, Some(6), "{}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains("older"), "{}", ran.stderr);
    }
    bed.run(["forget", "--lost"]).succeeds();
    bed.run(["check"]).succeeds();
    bed.backup(&[]).succeeds();
    // A client that has never seen it cannot know.
    let mut check = bed.command(["check"]);
    crate::bed::run(check.env("TABANE_STATE_DIR", bed.path("new"))).succeeds();
}
