//! Imports from other programs.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use tabane_testing::not_checked;

use crate::bed::{Bed, Ran, restored, run};

/// A bed with a repository of restic that has two snapshots of the source; nothing without restic.
fn with_restic() -> Option<Bed> {
    if Command::new("restic").arg("version").output().is_err() {
        not_checked("imports from restic", "restic is not installed");
        return None;
    }
    let bed = Bed::with_repository();
    fs::write(bed.path("old-password"), "old\n").expect("written");
    restic(&bed, &["init"]);
    let source = bed.source().display().to_string();
    restic(
        &bed,
        &["backup", &source, "--tag", "first", "--host", "old"],
    );
    fs::write(bed.source().join("docs/notes.txt"), "second version\n").expect("written");
    // Files that change at the time of a backup are read again by the next one.
    std::thread::sleep(std::time::Duration::from_millis(100));
    restic(&bed, &["backup", &source, "--host", "old"]);
    Some(bed)
}

fn restic(bed: &Bed, args: &[&str]) {
    let ran = Command::new("restic")
        .args(["-q", "--no-cache", "-r"])
        .arg(bed.path("restic"))
        .arg("--password-file")
        .arg(bed.path("old-password"))
        .args(args)
        .output()
        .expect("it can be started");
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
}

#[test]
fn a_repository_of_tabane_is_named_as_one() {
    let bed = Bed::with_repository();
    let place = bed.repository().display().to_string();
    for program in ["restic", "borg"] {
        let source = format!("{program}:{place}");
        let said = format!("is a repository of Tabane: `tabane copy --from-repo {place}`");
        bed.run(["import", &source]).fails(2, &said);
    }
}

fn import(bed: &Bed, args: &[&str]) -> Ran {
    let source = format!("restic:{}", bed.path("restic").display());
    let mut command = bed.command(["import", &source].iter().chain(args));
    command.env("TABANE_FROM_PASSWORD_FILE", bed.path("old-password"));
    run(&mut command)
}

#[test]
fn snapshots_of_restic_are_imported_once() {
    let Some(bed) = with_restic() else {
        return;
    };
    import(&bed, &["-n"])
        .succeeds()
        .says("2 snapshots: 2 would be imported, 0 there already");
    let first = import(&bed, &["--tag", "first", "--json"]).succeeds();
    let lines: Vec<Value> = first.json();
    assert_eq!(lines[1]["snapshots_imported"], 1);
    assert_eq!(lines[1]["errors"], 0);
    let id = lines[0]["snapshot_id"].as_str().expect("an ID").to_owned();
    let ran = import(&bed, &["-v"]).succeeds();
    assert!(
        ran.stdout
            .contains("2 snapshots: 1 imported, 1 there already"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.contains(&format!("is there as {}", &id[..8])),
        "{}",
        ran.stdout
    );
    bed.run(["check", "--read-data"]).succeeds();
    let target = bed.path("target");
    bed.run(["restore", &id, "-t", target.to_str().expect("UTF-8")])
        .succeeds();
    let notes = restored(&target, &bed.source().join("docs/notes.txt"));
    assert_eq!(
        fs::read_to_string(notes).expect("restored"),
        "first version\n"
    );
    // The next backup goes on where restic stopped.
    let made = bed
        .backup(&["--host", "old", "--json"])
        .succeeds()
        .last_json();
    assert_eq!(
        (&made["files_new"], &made["files_changed"]),
        (&0.into(), &0.into())
    );
    import(&bed, &["0000"]).fails(1, "no snapshot of the source matches");
    import(&bed, &["latest"])
        .succeeds()
        .says("0 imported, 1 there already");
}

#[test]
fn what_cannot_be_imported_says_why() {
    let Some(bed) = with_restic() else {
        return;
    };
    let wrong = bed.path("wrong");
    fs::write(&wrong, "wrong").expect("written");
    let wrong = wrong.to_str().expect("UTF-8");
    import(&bed, &["--from-password-file", wrong]).fails(12, "--from-password-file");
    bed.run(["import", "restic:/nowhere", "--from-password-file", wrong])
        .fails(10, "no repository of restic at /nowhere");
    bed.run(["import", "/nowhere"])
        .fails(2, "write restic:PLACE");
    // A pack that is lost costs what was in it, and nothing else.
    let mut packs: Vec<PathBuf> = fs::read_dir(bed.path("restic/data"))
        .expect("listed")
        .flat_map(|folder| fs::read_dir(folder.expect("listed").path()).expect("listed"))
        .map(|file| file.expect("listed").path())
        .collect();
    packs.sort_by_key(|pack| fs::metadata(pack).expect("there").len());
    fs::remove_file(packs.last().expect("a pack")).expect("removed");
    let ran = import(&bed, &[]);
    assert_eq!(ran.code, Some(3), "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("docs/deep/data.bin"), "{}", ran.stderr);
    assert!(ran.stdout.contains("2 imported"), "{}", ran.stdout);
    bed.run(["check", "--read-data"]).succeeds();
}

#[test]
fn archives_of_borg_are_imported() {
    let borg = |bed: &Bed, args: &[&str]| {
        Command::new("borg")
            .args(args)
            .current_dir(bed.path(""))
            .env("BORG_PASSPHRASE", "old")
            .env("BORG_BASE_DIR", bed.path("base"))
            .output()
    };
    let bed = Bed::with_repository();
    let Ok(made) = borg(&bed, &["init", "--encryption", "keyfile", "borg"]) else {
        not_checked("imports from borg", "borg is not installed");
        return;
    };
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let source = bed.source().display().to_string();
    let made = borg(
        &bed,
        &["create", "--comment", "of old", "borg::first", &source],
    );
    assert!(made.expect("it runs").status.success());
    let from = format!("borg:{}", bed.path("borg").display());
    let import = |key: &str, args: &[&str]| {
        let mut command = bed.command([&["import", &from], args].concat());
        command
            .env("TABANE_FROM_PASSWORD", "old")
            .env("BORG_BASE_DIR", bed.path(key));
        run(&mut command)
    };
    import("elsewhere", &[]).fails(1, "BORG_KEY_FILE");
    import("base", &[]).succeeds().says("1 imported");
    import("base", &[]).succeeds().says("1 there already");
    let listed = bed.run(["snapshots", "--json"]).succeeds().last_json();
    assert_eq!(listed[0]["tags"], serde_json::json!(["first"]));
    assert_eq!(
        (&listed[0]["description"], &listed[0]["paths"][0]),
        (&"of old".into(), &source.as_str().into())
    );
    let target = bed.path("target");
    bed.run(["restore", "latest", "-t", target.to_str().expect("UTF-8")])
        .succeeds();
    let notes = restored(&target, &bed.source().join("docs/notes.txt"));
    assert_eq!(
        fs::read_to_string(notes).expect("restored"),
        "first version\n"
    );
}
