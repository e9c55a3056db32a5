//! Write-only keys, as a person uses them.

use std::fs;
use std::process::Command;

use crate::bed::{Bed, Ran, run};

const PASSWORD: &str = "of the laptop";

/// A repository with a write-only key.
fn with_key() -> Bed {
    let bed = Bed::with_repository();
    fs::write(bed.path("new"), PASSWORD).expect("a file");
    let new = bed.path("new").display().to_string();
    let added = bed.run(["key", "add", "--write-only", "--new-password-file", &new]);
    added.succeeds().says("added write-only key ");
    bed
}

/// A command of the client with that key, which has folders of its own.
fn command(bed: &Bed, args: &[&str]) -> Command {
    let mut command = bed.command(args);
    command
        .env("TABANE_PASSWORD", PASSWORD)
        .env("TABANE_CACHE_DIR", bed.path("laptop/cache"))
        .env("TABANE_STATE_DIR", bed.path("laptop/state"));
    command
}

fn tabane(bed: &Bed, args: &[&str]) -> Ran {
    run(&mut command(bed, args))
}

#[test]
fn a_backup_comes_back_with_the_other_key_alone() {
    let bed = with_key();
    let source = bed.source().display().to_string();
    tabane(&bed, &["backup", &source]).succeeds();
    let again = tabane(&bed, &["backup", "--json", &source]).succeeds();
    assert_eq!(again.last_json()["files_new"], 0, "{}", again.stdout);

    let target = bed.path("target").display().to_string();
    for args in [
        &["snapshots"][..],
        &["ls", "latest"],
        &["restore", "latest", "--target", &target],
        &["check", "--read-data"],
        &["forget", "--keep-last", "1"],
        &["prune"],
        &["find", "*"],
        &["key", "add", "--write-only"],
    ] {
        tabane(&bed, args).fails(1, "needs the password of a full key");
    }
    assert!(!bed.path("target").exists());
    tabane(&bed, &["check"])
        .succeeds()
        .says("only their presence was looked at");

    let listed = bed.run(["snapshots"]).succeeds();
    listed.says("Write-only key");
    let json = bed.run(["snapshots", "--json"]).succeeds().last_json();
    let writers: Vec<_> = json
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["writer"])
        .collect();
    assert!(
        writers.len() == 2 && writers.iter().all(|writer| writer.is_string()),
        "{json}"
    );
    bed.run(["restore", "latest", "--target", &target])
        .succeeds();
    bed.run(["check", "--read-data"])
        .succeeds()
        .says("are not verified: `tabane prune`");
    bed.run(["prune"])
        .succeeds()
        .says("of write-only keys: all clients rely on");
    bed.run(["check", "--read-data"]).succeeds();
}

/// The write-only key, as it is listed.
fn listed_key(bed: &Bed) -> serde_json::Value {
    let keys = bed.run(["key", "list", "--json"]).succeeds().last_json();
    let mut keys = keys.as_array().expect("a list").iter();
    let key = keys.find(|key| key["write_only"] == true);
    key.expect("the key").clone()
}

#[test]
fn all_commands_for_keys_take_such_keys() {
    let bed = with_key();
    let source = bed.source().display().to_string();
    bed.run(["backup", &source]).succeeds();
    let listed = bed.run(["key", "list"]).succeeds();
    listed.says("everything").says("nothing; it writes as ");
    let key = listed_key(&bed);
    let id = key["short_id"].as_str().unwrap().to_owned();
    bed.run(["check"])
        .succeeds()
        .says("only one password opens the repository");

    // The text of the key, made by either client, brings it back.
    for text in [
        bed.run(["key", "export", &id]),
        tabane(&bed, &["key", "export"]),
    ] {
        let text = text.succeeds().stdout;
        assert!(
            text.starts_with(&format!("Tabane: write-only key {id} ")),
            "{text}"
        );
        let path = bed.path("typed");
        fs::write(&path, text.replace('\n', "\r\n")).expect("a file");
        let path = path.display().to_string();
        tabane(&bed, &["key", "import", &path])
            .succeeds()
            .says("nothing to do");
        let file = bed
            .repository()
            .join("keys")
            .join(key["id"].as_str().unwrap());
        fs::remove_file(file).expect("it is there");
        fs::remove_dir_all(bed.repository().join("copies")).expect("they are there");
        tabane(&bed, &["snapshots"]).fails(12, "");
        tabane(&bed, &["key", "import", &path]).succeeds();
        let other = Bed::with_repository();
        tabane(&other, &["key", "import", &path]).fails(1, "none or another; nothing was changed");
        bed.run(["repair", "config"]).succeeds();
    }

    fs::write(bed.path("newer"), "newer").expect("a file");
    let newer = bed.path("newer").display().to_string();
    let changed = tabane(&bed, &["key", "passwd", "--new-password-file", &newer]).succeeds();
    changed.says("the password is changed");
    tabane(&bed, &["backup", &newer]).fails(12, "");
    let mut backup = command(&bed, &["backup", &newer]);
    run(backup.env("TABANE_PASSWORD", "newer")).succeeds();
    let key = listed_key(&bed);
    bed.run(["key", "remove", key["id"].as_str().unwrap()])
        .succeeds();
    run(&mut backup).fails(12, "");
    bed.run(["check", "--read-data"]).succeeds();
}

/// Whoever steals such a key can make snapshots of any name and time.
#[test]
fn its_snapshots_are_not_taken_for_those_of_others() {
    let bed = with_key();
    let source = bed.source().display().to_string();
    bed.run(["backup", "--host", "ada", &source]).succeeds();
    fs::write(bed.source().join("more"), "of somebody else").expect("a file");
    tabane(&bed, &["backup", "--host", "ada", &source]).succeeds();
    let target = bed.path("target").display().to_string();
    let ran = bed.run(["restore", "latest", "--target", &target]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("is of the write-only key"),
        "{}",
        ran.stderr
    );
    // Both are the latest of their key.
    let ran = bed
        .run(["forget", "--keep-last", "1", "--host", "ada"])
        .succeeds();
    ran.says("0 snapshots removed");
    let left = bed.run(["snapshots", "--json"]).succeeds().last_json();
    assert_eq!(left.as_array().unwrap().len(), 2);
}
