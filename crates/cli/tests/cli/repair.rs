//! `repair`.

use std::fs;
use std::path::PathBuf;

use crate::bed::{Bed, restored, run};

fn files(bed: &Bed, folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![bed.repository().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path)
            } else {
                found.push(path)
            }
        }
    }
    found
}

#[test]
fn a_lost_index_is_made_anew() {
    let bed = Bed::with_repository();
    bed.backup(&[]).succeeds();
    for path in files(&bed, "index") {
        fs::remove_file(path).unwrap();
    }
    assert_eq!(bed.run(["check"]).code, Some(1));
    bed.run(["repair", "index", "--dry-run"])
        .succeeds()
        .says("dry run: nothing was changed");
    assert!(files(&bed, "index").is_empty());
    bed.run(["repair", "index"])
        .succeeds()
        .says("added to the index");
    bed.run(["check", "--read-data"]).succeeds();
    bed.run(["repair", "index", "--read-all-packs", "--json"])
        .succeeds()
        .says("\"replaced_objects\":1");
}

#[test]
fn damaged_packs_are_mended_and_copies_kept() {
    let bed = Bed::with_repository();
    bed.backup(&[]).succeeds();
    // The contents of files; directories above the source change from backup to backup.
    let packs = files(&bed, "packs");
    let path = packs
        .iter()
        .max_by_key(|path| path.metadata().unwrap().len());
    let path = path.unwrap();
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, &bytes).unwrap();
    // Files that cannot be restored are not counted among those that were.
    let target = bed.path("target");
    let restore = [
        "restore",
        "latest",
        "--json",
        "--target",
        target.to_str().unwrap(),
    ];
    let ran = bed.run(restore);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let summary = ran.last_json();
    let errors = summary["errors"].as_u64().unwrap();
    assert!(errors > 0, "{summary}");
    assert_eq!(summary["files"].as_u64(), Some(4 - errors), "{summary}");
    assert!(
        summary["total_bytes"].as_u64().unwrap() < 300_014,
        "{summary}"
    );

    let copies = bed.path("copies");
    let copies_text = copies.to_str().unwrap();
    // Where copies cannot be kept nothing is removed.
    let args = ["repair", "packs", "--copies", copies_text];
    let ran = bed.run(args);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("cannot keep a copy in"),
        "{}",
        ran.stderr
    );
    assert!(path.exists());
    fs::create_dir(&copies).unwrap();
    let ran = bed.run(args);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(
        ran.stdout.contains("1 of 2 packs damaged"),
        "{}",
        ran.stdout
    );
    let name = path.file_name().unwrap().to_str().unwrap();
    let copy = fs::read(copies.join(format!("damaged-pack-{name}"))).unwrap();
    assert_eq!(copy, bytes);
    bed.backup(&["--force"]).succeeds();
    bed.run(["check", "--read-data"]).succeeds();
    bed.run(["repair", "packs", "ffffffffffff"])
        .fails(1, "no pack matches");
}

#[test]
fn copies_of_damaged_packs_go_beside_a_local_repository() {
    let bed = Bed::with_repository();
    bed.backup(&[]).succeeds();
    let path = &files(&bed, "packs")[0];
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, &bytes).unwrap();
    // Neither in the repository nor in whatever directory this happens to be started in.
    let elsewhere = bed.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let beside = bed.path("repository-damaged-packs");
    let repair = |args: &[&str]| {
        let args = ["repair", "packs"].iter().chain(args);
        run(bed.command(args).current_dir(&elsewhere))
    };
    let ran = repair(&["--dry-run"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(!beside.exists());
    let ran = repair(&[]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let first = ran.stdout.lines().next().unwrap();
    assert_eq!(
        first,
        format!("copies of damaged packs go to {}", beside.display())
    );
    let name = path.file_name().unwrap().to_str().unwrap();
    let copy = fs::read(beside.join(format!("damaged-pack-{name}"))).unwrap();
    assert_eq!(copy, bytes);
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn snapshots_that_miss_something_are_made_whole() {
    let bed = Bed::with_repository();
    bed.backup(&[]).succeeds();
    bed.run(["repair", "snapshots"])
        .succeeds()
        .says("0 of 1 snapshot repaired");
    // The contents of files.
    let packs = files(&bed, "packs");
    let largest = packs
        .iter()
        .max_by_key(|path| path.metadata().unwrap().len());
    fs::remove_file(largest.unwrap()).unwrap();
    bed.run(["repair", "index"]).succeeds();
    assert_eq!(bed.run(["check"]).code, Some(1));

    let dry = bed.run(["repair", "snapshots", "--dry-run"]);
    assert_eq!(dry.code, Some(0), "{}", dry.stderr);
    assert!(
        dry.stderr.contains("300000 of 300000 bytes are lost"),
        "{}",
        dry.stderr
    );
    dry.says("1 of 1 snapshot would be repaired");
    assert_eq!(files(&bed, "snapshots").len(), 1);

    let ran = bed.run(["repair", "snapshots", "--forget", "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let lines = ran.json();
    let repaired = &lines[lines.len() - 2];
    assert_eq!(repaired["message_type"], "repaired");
    // Two of them are one file.
    assert_eq!(repaired["damaged_files"], 4);
    assert_eq!(repaired["lost_bytes"], 600_028);
    assert_eq!(repaired["lost_directories"], 0);
    assert_eq!(ran.last_json()["repaired_snapshots"], 1);
    bed.run(["check", "--read-data"]).succeeds();
    let listed = bed.run(["snapshots", "--json"]).succeeds().last_json();
    assert_eq!(listed[0]["id"], repaired["new_snapshot_id"]);
    assert_eq!(listed[0]["original"], repaired["old_snapshot_id"]);
    assert_eq!(listed[0]["tags"][0], "repaired");

    let target = bed.path("target");
    let target_text = target.display().to_string();
    bed.run(["restore", "latest", "--target", &target_text])
        .succeeds();
    let of = |name: &str| restored(&target, &bed.source().join(name));
    assert!(!of("docs/notes.txt").exists());
    assert_eq!(fs::read(of("docs/notes.txt.repaired")).unwrap(), [0; 14]);
    assert!(of("empty").exists() && of("pointer").is_symlink());
    // The next backup reads what is missing.
    let next = bed.backup(&["--json"]).succeeds().last_json();
    assert_eq!(next["files_new"], 4);
}

#[test]
fn snapshots_that_cannot_be_read_at_all_are_told_of() {
    let bed = Bed::with_repository();
    bed.backup(&[]).succeeds();
    for pack in files(&bed, "packs") {
        fs::remove_file(pack).unwrap();
    }
    bed.run(["repair", "index"]).succeeds();
    let ran = bed.run(["repair", "snapshots"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("nothing can be made of snapshot"),
        "{}",
        ran.stderr
    );
    assert_eq!(files(&bed, "snapshots").len(), 1);
    let ran = bed.run(["repair", "snapshots", "--forget"]);
    assert_eq!(ran.code, Some(0));
    assert!(files(&bed, "snapshots").is_empty());
    bed.run(["check", "--read-data"]).succeeds();

    // One whose object is damaged is named, and the exit code tells.
    bed.backup(&["--force"]).succeeds();
    let snapshot = files(&bed, "snapshots").pop().unwrap();
    fs::write(&snapshot, "TABANES").unwrap();
    bed.backup(&["--force"]).succeeds();
    for command in [
        &["snapshots"][..],
        &["repair", "snapshots"],
        &["stats"],
        &["find", "nothing"],
    ] {
        let ran = bed.run(command);
        assert_eq!(ran.code, Some(1), "{command:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("is damaged"), "{}", ran.stderr);
    }
    let name = snapshot.file_name().unwrap().to_str().unwrap();
    bed.run(["snapshots"]).says("1 snapshot\n");
    bed.run(["forget", name]).succeeds();
    bed.run(["snapshots"]).succeeds();
}
