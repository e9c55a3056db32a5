//! What does not work says so in one sentence, with a code that scripts can tell.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bed::{Bed, bare_command, run};

#[test]
fn a_missing_repository_is_code_10() {
    let bed = Bed::new();
    bed.run(["snapshots"])
        .fails(10, "there is no repository at");
    bed.backup(&[]).fails(10, "or create one with `tabane init");
    bed.backup(&["--init", "--dry-run"])
        .fails(10, "there is no repository at");
    fs::write(bed.repository(), "a file").expect("written");
    bed.run(["snapshots"])
        .fails(10, "there is no repository at");
}

#[test]
fn a_repository_is_not_made_where_something_else_is() {
    let bed = Bed::with_repository();
    bed.run(["init"])
        .fails(1, "there is already a repository at");
    let other = bed.source().display().to_string();
    bed.run(["init", "--repo", &other])
        .fails(1, "is not empty and is not a repository");
    bed.run(["init", "--repo", &format!("{other}/empty")])
        .fails(1, "cannot create");
}

#[test]
fn standard_input_has_a_name() {
    let bed = Bed::with_repository();
    for (name, stored) in [
        ("..", None),
        ("/", None),
        ("a/b/..", None),
        ("dump", Some("/dump\n")),
        ("/dump", Some("/dump\n")),
        ("shop/db/dump", Some("/shop\n/shop/db\n/shop/db/dump\n")),
        ("shop/../dump", Some("/dump\n")),
    ] {
        let ran = bed.run(["backup", "--stdin", "--stdin-filename", name]);
        let code = if stored.is_some() { 0 } else { 1 };
        assert_eq!(ran.code, Some(code), "{name}: {}", ran.stderr);
        if let Some(stored) = stored {
            assert_eq!(bed.run(["ls", "latest"]).succeeds().stdout, stored);
        }
    }
}

#[test]
fn what_nothing_matches_is_said() {
    let bed = Bed::with_repository();
    bed.backup(&[]).succeeds();
    let target = bed.path("target").display().to_string();
    let restore = ["restore", "latest", "--target", &target, "--include"];
    let ran = bed.run(restore.iter().chain(&["*.nothing"]));
    // A script would believe that it has its files back.
    let ran = ran.fails(1, "nothing in the snapshot matches");
    assert_eq!(ran.stdout, "");
    assert!(!Path::new(&target).exists());
    let ran = bed.run(restore.iter().chain(&["*.nothing", "--json"]));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("\"exit_error\""), "{}", ran.stderr);
    bed.run(restore.iter().chain(&["*.txt"])).succeeds();
    fs::remove_dir_all(&target).expect("removed");
    let source = format!("latest:{}", bed.source().display());
    let deep = format!("{target}/deep");
    let part = [
        "restore",
        &source,
        "--target",
        &deep,
        "--json",
        "--include",
        "*.nothing",
    ];
    let ran = bed.run(part);
    assert_eq!(
        (ran.code, &ran.last_json()["created"]),
        (Some(1), &0.into())
    );
    assert!(!Path::new(&target).exists());
    // What is empty itself comes back.
    fs::create_dir(bed.source().join("nothing")).expect("made");
    bed.backup(&[]).succeeds();
    let empty = format!("{source}/nothing");
    bed.run(["restore", &empty, "--target", &deep])
        .succeeds()
        .says("1 created");
    assert!(Path::new(&deep).is_dir());
}

#[test]
fn a_wrong_password_is_code_12() {
    let bed = Bed::with_repository();
    let mut command = bed.command(["snapshots"]);
    run(command.env("TABANE_PASSWORD", "wrong")).fails(12, "wrong password");
    let lines = bed.path("two-lines");
    fs::write(&lines, "pass word\nand more\n").expect("written");
    let ran = run(bed.command(["snapshots", "--password-file"]).arg(&lines));
    assert_eq!(ran.code, Some(12));
    assert!(
        ran.stderr.contains("has more than one line"),
        "{}",
        ran.stderr
    );
    let file = bed.path("empty-password");
    fs::write(&file, "\n").expect("written");
    let file = file.display().to_string();
    bed.run(["snapshots", "--password-file", &file])
        .fails(1, "is empty");
    bed.run(["snapshots", "--password-file", "/nowhere/at/all"])
        .fails(1, "cannot read the password file");
    bed.run(["snapshots", "--password-command", "exit 3"])
        .fails(1, "exit status: 3");
    bed.run(["snapshots", "--password-command", "true"])
        .fails(1, "printed nothing");
}

#[test]
fn without_password_and_terminal_there_is_advice() {
    let bed = Bed::with_repository();
    let mut command = Command::new("setsid");
    command
        .args([
            "--wait",
            env!("CARGO_BIN_EXE_tabane"),
            "snapshots",
            "--repo",
        ])
        .arg(bed.repository())
        .env_remove("TABANE_PASSWORD")
        .stdin(std::process::Stdio::null());
    run(&mut command).fails(1, "set TABANE_PASSWORD");
}

#[test]
fn wrong_usage_is_code_2() {
    let bed = Bed::new();
    for (arguments, what) in [
        (&["backup"][..], "nothing to back up"),
        (&["backup", "--no-such-option"], "--no-such-option"),
        (
            &["backup", ".", "--compression", "23"],
            "unknown compression",
        ),
        (
            &["backup", ".", "--exclude-larger-than", "much"],
            "is no size",
        ),
        (
            &["backup", ".", "--time", "yesterday"],
            "2026-01-02 15:04:05",
        ),
        (
            &["backup", ".", "--force", "--parent", "1234"],
            "cannot be used with",
        ),
        (&["backup", ".", "--stdin"], "cannot be used with"),
        (&["init", "--hash", "md5"], "sha256, blake3, sha1"),
        (&["init", "--chunk-size", "100K"], "power of two"),
        (
            &["init", "--chunk-size", "fixed:1"],
            "a fixed length must be from",
        ),
        (&["restore", "latest"], "--target"),
        (&["check", "--read-data-subset", "8/7"], "N from 1 to T"),
        (&["check", "--read-data-subset", "0%"], "above 0"),
        (&["check", "--read-data-subset", "some"], "2/7, 5% or 10G"),
        (&["completions", "korn"], "korn"),
        (&["frobnicate"], "frobnicate"),
        (&["snapshots", "-q", "-v"], "cannot be used with"),
    ] {
        bed.run(arguments).fails(2, what);
    }
    run(&mut bare_command(["snapshots"])).fails(2, "no repository given");
}

#[test]
fn snapshots_that_are_none_or_several_are_told_apart() {
    let bed = Bed::with_repository();
    bed.run(["ls", "latest"])
        .fails(1, "no snapshot matches \"latest\"");
    bed.backup(&[]).succeeds();
    let listed = bed.run(["snapshots", "--json"]).succeeds().last_json();
    let id = listed[0]["id"].as_str().expect("text");
    bed.run(["ls", &id[..4]]).succeeds();
    bed.run(["ls", "latest", "--host", "elsewhere"])
        .fails(1, "no snapshot matches");
    let absent = if id.starts_with('0') { "1" } else { "0" };
    bed.run(["ls", absent]).fails(1, "no snapshot matches");
    bed.run(["dump", "", "/"]).fails(1, "no snapshot matches");
    // Another with the same beginning.
    let other = format!("{}{:0<60}", &id[..4], "");
    let snapshots = bed.repository().join("snapshots");
    fs::copy(snapshots.join(id), snapshots.join(other)).expect("copied");
    bed.run(["ls", &id[..4]])
        .fails(1, "could mean 2 snapshots: give more digits");
    bed.run(["ls", &id[..20]]).succeeds();
    bed.run(["ls", "latest"])
        .fails(1, "cannot tell which snapshot is the latest");
    let listed = bed.run(["snapshots"]);
    assert_eq!(listed.code, Some(1));
    assert!(listed.stdout.contains(&id[..8]), "{}", listed.stdout);
    assert!(listed.stderr.contains("is damaged"), "{}", listed.stderr);
}

#[test]
fn paths_that_are_not_there_are_named() {
    let bed = Bed::new();
    let missing = bed.path("missing").display().to_string();
    let mut arguments = vec!["backup", "--init", &missing];
    bed.run(&arguments).fails(1, &missing);
    assert!(
        !bed.repository().exists(),
        "no repository is made for a backup that cannot begin"
    );
    bed.backup(&["--init"]).succeeds();
    arguments.pop();
    bed.run(["ls", "latest", "/not/in/it"])
        .fails(1, "/not/in/it is not in snapshot");
    let file = bed.source().join("empty/below").display().to_string();
    bed.run(["ls", "latest", &file])
        .fails(1, "is not in snapshot");
    let pointer = bed.source().join("pointer").display().to_string();
    bed.run(["dump", "latest", &pointer])
        .fails(1, "is no regular file");
    let target = bed.source().join("empty").display().to_string();
    bed.run(["restore", "latest", "--target", &target])
        .fails(1, &target);
    bed.run(["backup", &target, "--exclude", "[z-a]"])
        .fails(2, "[z-a]");
    bed.run(["find", "[z-a]"]).fails(2, "[z-a]");
    bed.run(["backup", &target, "--exclude-file", &missing])
        .fails(2, &missing);
    bed.run(["backup", &target, "--parent", "0123456789"])
        .fails(1, "no snapshot matches");
}

#[test]
fn what_cannot_be_read_is_code_3_and_the_rest_is_stored() {
    let bed = Bed::with_repository();
    let Some(unreadable) = unreadable(&bed) else {
        eprintln!("NOT TESTED: nothing on this system is unreadable for this user");
        return;
    };
    let source = bed.source();
    let ran = bed.run([
        "backup".as_ref(),
        source.as_os_str(),
        unreadable.as_os_str(),
    ]);
    assert_eq!(ran.code, Some(3), "{}{}", ran.stdout, ran.stderr);
    let name = unreadable.display().to_string();
    assert!(
        ran.stderr.starts_with(&format!("tabane: {name}: ")),
        "{}",
        ran.stderr
    );
    ran.says("1 entry that could not be read").says(" saved");
    bed.run(["ls", "latest"])
        .succeeds()
        .says("docs/deep/data.bin");
    assert!(!bed.run(["ls", "latest"]).stdout.contains(&name));

    let json = bed.run([
        "backup".as_ref(),
        "--json".as_ref(),
        source.as_os_str(),
        unreadable.as_os_str(),
    ]);
    assert_eq!(json.code, Some(3));
    assert_eq!(json.stderr, "");
    let warning = json
        .json()
        .into_iter()
        .find(|line| line["message_type"] == "warning")
        .expect("one");
    assert_eq!(warning["path"], name);
    assert_eq!(json.last_json()["errors"], 1);
}

/// A file that this user cannot read; for root, a write-only file of the kernel.
fn unreadable(bed: &Bed) -> Option<PathBuf> {
    let locked = bed.source().join("locked");
    fs::write(&locked, "secret").expect("written");
    fs::set_permissions(&locked, PermissionsExt::from_mode(0o000)).expect("set");
    let write_only = PathBuf::from("/proc/sys/vm/compact_memory");
    [locked, write_only]
        .into_iter()
        .find(|path| path.exists() && fs::File::open(path).is_err())
}

#[test]
fn damage_is_found_and_advice_given() {
    let bed = Bed::with_repository();
    bed.backup(&[]).succeeds();
    let mut packs = Vec::new();
    for folder in fs::read_dir(bed.repository().join("packs")).expect("packs") {
        for pack in fs::read_dir(folder.expect("a folder").path()).expect("a folder") {
            packs.push(pack.expect("a pack").path());
        }
    }
    packs.sort_by_key(|pack| fs::metadata(pack).expect("there").len());
    let largest = packs.pop().expect("a pack");
    let mut bytes = fs::read(&largest).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::set_permissions(&largest, PermissionsExt::from_mode(0o600)).expect("set");
    fs::write(&largest, bytes).expect("written");

    let ran = bed.run(["check", "--read-data"]);
    assert_eq!(ran.code, Some(1), "{}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stderr.contains("found (see above): keep a copy"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.lines().all(|line| line.starts_with("tabane: ")),
        "{}",
        ran.stderr
    );
    let json = bed.run(["check", "--read-data", "--json"]);
    assert_eq!(json.code, Some(1));
    assert!(
        json.last_json()["problems"]
            .as_u64()
            .is_some_and(|problems| problems > 0)
    );
    let data = bed
        .source()
        .join("docs/deep/data.bin")
        .display()
        .to_string();
    bed.run(["dump", "latest", &data]).fails(1, "is damaged");
}
