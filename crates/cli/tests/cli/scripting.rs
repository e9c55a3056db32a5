//! Output for programs.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use crate::bed::{Bed, bare_command, run};

#[test]
fn every_command_prints_json() {
    let bed = Bed::new();
    let source = bed.source();
    fs::write(source.join(OsStr::from_bytes(b"b\xff\x1b[31m")), "bytes").expect("written");
    let text = source.display().to_string();
    let init = bed.run(["init", "--json"]).succeeds().last_json();
    assert_eq!(init["message_type"], "initialized");
    assert_eq!(init["hash"], "sha256");

    let backup = bed.backup(&["--json"]).succeeds().last_json();
    assert_eq!(backup["message_type"], "summary");
    assert_eq!(backup["files_new"], 6);
    assert_eq!(backup["dry_run"], false);
    assert_eq!(backup["errors"], 0);
    assert!(backup["stored_bytes"].as_u64() > Some(0));
    for (key, value) in backup.as_object().expect("an object") {
        assert!(!value.is_object() && !value.is_array(), "{key} is not flat");
    }
    let id = backup["snapshot_id"].as_str().expect("text");

    let snapshots = bed.run(["snapshots", "--json"]).succeeds().last_json();
    assert_eq!(snapshots[0]["id"], id);
    assert_eq!(snapshots[0]["short_id"], id[..8]);
    assert_eq!(snapshots[0]["paths"][0], text.as_str());

    let listed = bed.run(["ls", "--json", id, &text]).succeeds().json();
    assert_eq!(listed[0]["message_type"], "snapshot");
    let strange = listed
        .iter()
        .find(|node| node["path_bytes_hex"].is_string())
        .expect("one");
    assert_eq!(strange["path"], format!("{text}/b\u{fffd}\u{1b}[31m"));
    assert_eq!(strange["name_bytes_hex"], "62ff1b5b33316d");
    assert_eq!(strange["type"], "file");
    assert_eq!(strange["size_bytes"], 5);
    let pointer = listed
        .iter()
        .find(|node| node["type"] == "symlink")
        .expect("one");
    assert_eq!(pointer["link_target"], "docs/notes.txt");

    fs::write(source.join("docs/notes.txt"), "changed").expect("written");
    bed.backup(&["--json"]).succeeds();
    let diff = bed.run(["diff", "--json", id, "latest"]).succeeds().json();
    assert_eq!(diff[0]["modifier"], "M");
    assert_eq!(diff.last().expect("statistics")["files_changed"], 2);

    let stats = bed.run(["stats", "--json"]).succeeds().last_json();
    assert_eq!(stats["snapshots"], 2);
    // Two large files, a short one before and after its change, one of five bytes; further names
    // don't count.
    assert_eq!(stats["restore_bytes"], 2 * (600_000 + 5) + 14 + 7);
    assert_eq!(stats["unique_files"], 5);
    assert_eq!(stats["unique_file_bytes"], 300_000 + 5 + 14 + 7);
    let target = bed.path("target").display().to_string();
    let restore = bed
        .run(["restore", "--json", id, "--target", &target])
        .succeeds()
        .last_json();
    // One of the six is a further name of another.
    assert_eq!(restore["files"], 5);
    let check = bed
        .run(["check", "--json", "--read-data"])
        .succeeds()
        .last_json();
    assert_eq!(check["problems"], 0);
    assert!(bed.run(["version", "--json"]).succeeds().last_json()["version"].is_string());
}

#[test]
fn wrong_usage_is_reported_in_json_too() {
    let wrong = run(&mut bare_command([
        "snapshots",
        "--json",
        "--no-such-option",
    ]));
    assert_eq!(wrong.code, Some(2));
    let error: serde_json::Value = serde_json::from_str(&wrong.stderr).expect("JSON");
    assert_eq!(error["message_type"], "exit_error");
    assert_eq!(error["code"], 2);
}

#[test]
fn quiet_is_quiet_and_nothing_is_coloured() {
    let bed = Bed::new();
    let quiet = bed.backup(&["--init", "--quiet"]).succeeds();
    assert_eq!(quiet.stdout, "");
    let target = bed.path("target").display().to_string();
    for arguments in [
        &["check", "-q", "--read-data"][..],
        &["restore", "-q", "latest", "-t", &target],
        &["diff", "-q", "latest", "latest"],
    ] {
        assert_eq!(bed.run(arguments).succeeds().stdout, "", "{arguments:?}");
    }
    for arguments in [
        &["--help"][..],
        &["snapshots"],
        &["key", "list"],
        &["backup", "--help"],
    ] {
        let mut command = bed.command(arguments);
        let ran = run(command.env("NO_COLOR", "1")).succeeds();
        assert!(!ran.stdout.contains('\x1b'), "{arguments:?}");
    }
    let verbose = bed.backup(&["-vv"]).succeeds();
    verbose.says("unmodified ").says("stored ");
}

#[test]
fn names_are_written_as_they_are_where_no_terminal_is() {
    let bed = Bed::with_repository();
    let name = b"b\xff\n\x1b[31m";
    fs::write(bed.source().join(OsStr::from_bytes(name)), "bytes").expect("written");
    bed.backup(&[]).succeeds();
    let listed = bed.run(["ls", "latest"]).succeeds();
    assert!(
        listed
            .bytes
            .windows(name.len())
            .any(|window| window == name)
    );
}
