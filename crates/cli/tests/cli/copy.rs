//! Copies between repositories.

use std::fs;

use serde_json::Value;

use crate::bed::{Bed, PASSWORD, Ran, bare_command, restored, run};

/// A bed with two repositories, of which the second has another password.
struct Pair(Bed);

impl Pair {
    /// With `arguments` for the second.
    fn new(arguments: &[&str]) -> Self {
        let pair = Self(Bed::with_repository());
        pair.second(&[&["init"], arguments].concat()).succeeds();
        pair
    }

    fn second(&self, arguments: &[&str]) -> Ran {
        let mut command = bare_command(arguments);
        command
            .env("TABANE_REPOSITORY", self.0.path("second"))
            .env("TABANE_PASSWORD", "another")
            .env("TABANE_FROM_REPOSITORY", self.0.repository())
            .env("TABANE_FROM_PASSWORD", PASSWORD);
        run(&mut command)
    }

    fn copy(&self, arguments: &[&str]) -> Value {
        let arguments = [&["copy", "-q", "--json"], arguments].concat();
        self.second(&arguments).succeeds().last_json()
    }
}

#[test]
fn snapshots_are_copied_once_and_can_be_restored() {
    let pair = Pair::new(&[]);
    let bed = &pair.0;
    let old = bed.backup(&["--json", "--tag", "a"]).succeeds().last_json();
    fs::write(bed.source().join("docs/notes.txt"), "second version").expect("written");
    bed.backup(&[]).succeeds();

    let dry = pair.copy(&["--dry-run"]);
    assert_eq!(dry["snapshots_copied"], 2);
    assert_eq!(
        pair.second(&["snapshots", "--json"]).succeeds().last_json(),
        serde_json::json!([])
    );
    let id = old["snapshot_id"].as_str().expect("text");
    let first = pair.copy(&[id]);
    assert_eq!(
        (&first["snapshots_copied"], &first["blocks_present"]),
        (&1.into(), &0.into())
    );
    // Of the second snapshot, one file and the directories above it are new.
    let both = pair.copy(&[]);
    assert_eq!(
        (&both["snapshots_copied"], &both["snapshots_present"]),
        (&1.into(), &1.into())
    );
    assert!(both["copied_bytes"].as_u64() < Some(20_000), "{both}");
    let again = pair.copy(&[]);
    assert_eq!(
        (&again["snapshots_copied"], &again["blocks_copied"]),
        (&0.into(), &0.into())
    );
    // Back again nothing is new either.
    let mut back = bed.command(["copy", "--json", "-q"]);
    back.env("TABANE_FROM_REPOSITORY", bed.path("second"));
    back.env("TABANE_FROM_PASSWORD", "another");
    assert_eq!(
        run(&mut back).succeeds().last_json()["snapshots_present"],
        2
    );

    pair.second(&["check", "--read-data"]).succeeds();
    let copies = pair.second(&["snapshots", "--json"]).succeeds().last_json();
    assert_eq!(copies[0]["original"], old["snapshot_id"]);
    assert_eq!(copies[0]["tags"][0], "a");
    assert_eq!(copies[1]["parent"], Value::Null);
    let target = bed.path("target");
    pair.second(&[
        "restore",
        "latest",
        "--target",
        &target.display().to_string(),
    ])
    .succeeds();
    for name in [
        "docs/notes.txt",
        "docs/deep/data.bin",
        "docs/deep/copy.bin",
        "empty",
    ] {
        let name = bed.source().join(name);
        let bytes = fs::read(restored(&target, &name)).expect("restored");
        assert!(
            bytes == fs::read(&name).expect("there"),
            "{}",
            name.display()
        );
    }
}

#[test]
fn repositories_that_cut_alike_share_blocks() {
    let bed = Bed::new();
    bed.run(["init", "--chunk-size", "32KiB"]).succeeds();
    let pair = Pair(bed);
    pair.second(&["init", "--copy-chunker-params"]).succeeds();
    pair.0.backup(&[]).succeeds();
    let copied = pair.second(&["copy"]).succeeds();
    assert!(
        copied
            .stdout
            .contains("1 snapshot: 1 copied, 0 there already"),
        "{}",
        copied.stdout
    );
    let source = pair.0.source().display().to_string();
    let made = pair
        .second(&["backup", "--json", "--force", &source])
        .succeeds()
        .last_json();
    // But for directories above the source, which tests beside this one change.
    assert_eq!(made["duplicate_bytes"], 600_028);

    let other = Pair::new(&[]);
    other.0.backup(&[]).succeeds();
    let noted = other.second(&["copy"]);
    assert!(
        noted.stderr.contains("cut files at different places"),
        "{}",
        noted.stderr
    );
    assert_eq!(noted.code, Some(0));
}

#[test]
fn what_cannot_be_copied_is_refused_with_the_reason() {
    let pair = Pair::new(&["--hash", "blake3"]);
    pair.0.backup(&[]).succeeds();
    let refused = pair.second(&["copy"]);
    refused.fails(
        1,
        "the source names blocks by their sha256, the target by their blake3",
    );
    pair.0.run(["copy"]).fails(2, "no source given");
    let itself = pair.0.repository().display().to_string();
    let mut command = pair.0.command(["copy", "--from-repo", &itself]);
    run(command.env("TABANE_FROM_PASSWORD", PASSWORD)).fails(1, "the same repository");
    let mut command = pair.0.command([
        "copy",
        "--from-repo",
        &itself,
        "--from-password-command",
        "echo no",
    ]);
    run(&mut command).fails(12, "wrong password");
}

/// A damaged block is not copied, and no snapshot is said to be there.
#[test]
fn damage_in_the_source_does_not_spread() {
    let pair = Pair::new(&[]);
    pair.0.backup(&[]).succeeds();
    let packs = fs::read_dir(pair.0.repository().join("packs")).expect("a folder");
    let packs =
        packs.flat_map(|folder| fs::read_dir(folder.expect("one").path()).expect("a folder"));
    let packs = packs.map(|pack| pack.expect("one").path());
    let largest = packs.max_by_key(|pack| fs::metadata(pack).expect("there").len());
    let largest = largest.expect("a pack");
    let mut bytes = fs::read(&largest).expect("there");
    bytes[1000] ^= 1;
    fs::write(&largest, bytes).expect("written");
    pair.second(&["copy", "-q"]).fails(1, "is damaged");
    assert_eq!(
        pair.second(&["snapshots", "--json"]).succeeds().last_json(),
        serde_json::json!([])
    );
    pair.second(&["check", "--read-data"]).succeeds();
}
