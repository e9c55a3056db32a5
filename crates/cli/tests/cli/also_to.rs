//! `tabane backup --also-to`: one backup into several repositories.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tabane_testing::mount::Mount;

use crate::bed::{Bed, PASSWORD, Ran, restored, run, varied};

/// A repository at `path` that cuts files as the bed's does, with a password.
fn init_alike(bed: &Bed, path: &Path, password: &str) {
    let mut init = bed.command(["init", "--copy-chunker-params"]);
    init.env("TABANE_REPOSITORY", path)
        .env("TABANE_PASSWORD", password)
        .env("TABANE_FROM_REPOSITORY", bed.repository())
        .env("TABANE_FROM_PASSWORD", PASSWORD);
    run(&mut init).succeeds();
}

/// A bed with its repository and others that cut alike and have the same password.
fn bed_with(others: &[&str]) -> Bed {
    let bed = Bed::with_repository();
    for other in others {
        init_alike(&bed, &bed.path(other), PASSWORD);
    }
    bed
}

fn text(path: PathBuf) -> String {
    path.display().to_string()
}

fn back_up_to(bed: &Bed, others: &[&str], arguments: &[&str]) -> Ran {
    let mut all = arguments.to_vec();
    for other in others {
        all.extend(["--also-to", other]);
    }
    bed.backup(&all)
}

fn in_repository(bed: &Bed, path: &Path, password: &str, arguments: &[&str]) -> Ran {
    let mut command = bed.command(arguments);
    command.env("TABANE_REPOSITORY", path);
    command.env("TABANE_PASSWORD", password);
    run(&mut command)
}

/// The latest snapshot of a repository has what the source has now, and all of it can be read.
#[track_caller]
fn has_the_source(bed: &Bed, path: &Path, password: &str) {
    let check = in_repository(bed, path, password, &["check", "--read-data"]);
    assert_eq!(check.code, Some(0), "{}{}", check.stdout, check.stderr);
    let target = tempfile::tempdir().expect("a directory");
    let to = text(target.path().to_owned());
    in_repository(bed, path, password, &["restore", "latest", "--target", &to]).succeeds();
    let same = std::process::Command::new("diff")
        .args(["-r", "--no-dereference"])
        .arg(bed.source())
        .arg(restored(target.path(), &bed.source()))
        .status();
    assert!(same.expect("diff is there").success());
}

#[test]
fn each_gets_the_snapshot_with_the_password_that_it_has() {
    let bed = bed_with(&["second"]);
    init_alike(&bed, &bed.path("named"), "another");
    fs::write(bed.path("password"), "another").expect("written");
    let config = format!(
        "[repositories.named]\nurl = {:?}\npassword-file = {:?}\n",
        bed.path("named"),
        bed.path("password")
    );
    fs::write(bed.path("config.toml"), config).expect("written");
    let (second, config) = (text(bed.path("second")), text(bed.path("config.toml")));
    let others = [second.as_str(), "@named"];

    let own = text(bed.path("own password"));
    fs::write(&own, PASSWORD).expect("written");

    let arguments = [
        "--json",
        "--quiet",
        "--config",
        &config,
        "--password-file",
        &own,
    ];
    let dry = [arguments.as_slice(), &["--dry-run"]].concat();
    let dry = back_up_to(&bed, &others, &dry).succeeds().last_json();
    let nothing = |place: &str| json!({"repository": place, "snapshot_id": null, "error": null});
    let named = text(bed.path("named"));
    assert_eq!(dry["also"], json!([nothing(&second), nothing(&named)]));

    let made = back_up_to(&bed, &others, &arguments).succeeds().last_json();
    let listed = |path: &str, password| {
        let listed = in_repository(&bed, path.as_ref(), password, &["snapshots", "--json"]);
        listed.succeeds().last_json()
    };
    for (number, (path, password)) in [(&second, PASSWORD), (&named, "another")]
        .iter()
        .enumerate()
    {
        let there = listed(path, password);
        assert_eq!(there.as_array().map(Vec::len), Some(1));
        assert_eq!(there[0]["id"], made["also"][number]["snapshot_id"]);
        assert_eq!(there[0]["original"], made["snapshot_id"]);
        has_the_source(&bed, path.as_ref(), password);
    }
    has_the_source(&bed, &bed.repository(), PASSWORD);

    let said = back_up_to(&bed, &others, &["--config", &config]).succeeds();
    assert_eq!(
        said.stdout.matches(" saved at ").count(),
        2,
        "{}",
        said.stdout
    );
}

#[test]
fn one_that_is_away_is_told_of_and_catches_up() {
    let bed = bed_with(&["second", "third"]);
    let (second, third) = (text(bed.path("second")), text(bed.path("third")));
    fs::rename(&second, bed.path("away")).expect("moved");
    let ran = back_up_to(&bed, &[&second, &third], &["--json", "--quiet"]);
    assert_eq!(ran.code, Some(1), "{}{}", ran.stdout, ran.stderr);
    let sentence = format!("tabane: {second} did not get the snapshot: there is no repository");
    assert!(ran.stderr.starts_with(&sentence), "{}", ran.stderr);
    let also = &ran.last_json()["also"];
    let of = |place: &str| {
        let mut all = also.as_array().expect("a list").iter();
        all.find(|also| also["repository"] == place).expect(place)
    };
    assert_eq!(of(&second)["snapshot_id"], Value::Null);
    assert!(
        of(&second)["error"]
            .as_str()
            .expect("text")
            .contains("there is no repository")
    );
    assert_eq!(of(&third)["error"], Value::Null);
    has_the_source(&bed, &bed.repository(), PASSWORD);
    has_the_source(&bed, &bed.path("third"), PASSWORD);

    fs::rename(bed.path("away"), &second).expect("moved");
    let again = back_up_to(&bed, &[&second, &third], &["--json", "--quiet"]);
    let again = again.succeeds().last_json();
    assert_eq!(again["files_new"], 0);
    has_the_source(&bed, second.as_ref(), PASSWORD);

    // Nobody knows this place: that is a mistake, and no repository is written.
    let config = text(bed.path("config.toml"));
    fs::write(&config, "").expect("written");
    let ran = back_up_to(&bed, &["@nowhere"], &["--config", &config]);
    ran.fails(2, "nowhere");
}

#[test]
fn one_whose_disk_is_full_leaves_the_others_whole() {
    let bed = bed_with(&["third"]);
    let small = bed.path("small");
    fs::create_dir(&small).expect("made");
    let Some(_mount) = Mount::tmpfs(&small, "3m") else {
        return;
    };
    let second = small.join("second");
    init_alike(&bed, &second, PASSWORD);
    fs::write(bed.source().join("large"), varied(20_000_000)).expect("written");
    let (second, third) = (text(second), text(bed.path("third")));
    let ran = back_up_to(&bed, &[&second, &third], &[]);
    assert_eq!(ran.code, Some(1), "{}{}", ran.stdout, ran.stderr);
    let (said, why) = (format!("{second} did not get the snapshot"), "o space left");
    assert!(
        ran.stderr.contains(&said) && ran.stderr.contains(why),
        "{}",
        ran.stderr
    );
    has_the_source(&bed, &bed.repository(), PASSWORD);
    has_the_source(&bed, third.as_ref(), PASSWORD);
    // Of what is in it a pack may be in no index, and is told of.
    let ran = in_repository(&bed, second.as_ref(), PASSWORD, &["check", "--read-data"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    let mut told = ran.stderr.lines();
    assert!(told.all(|line| line.contains("are in no index") && line.contains("no snapshot")));
}

#[test]
fn one_that_cuts_otherwise_or_has_another_password_is_refused() {
    let bed = bed_with(&["second"]);
    let cuts = bed.path("cuts");
    in_repository(&bed, &cuts, PASSWORD, &["init"]).succeeds();
    let (cuts, second) = (text(cuts), text(bed.path("second")));
    let ran = back_up_to(&bed, &[&second, &cuts], &[]).fails(1, "cuts files at other places");
    assert!(
        ran.stderr.contains("--copy-chunker-params"),
        "{}",
        ran.stderr
    );
    for path in [bed.repository(), bed.path("second")] {
        let listed = in_repository(&bed, &path, PASSWORD, &["snapshots", "--json"]);
        assert_eq!(listed.succeeds().last_json(), json!([]));
    }
    init_alike(&bed, &bed.path("other"), "another");
    let other = text(bed.path("other"));
    let ran = back_up_to(&bed, &[&other], &[]);
    assert_eq!(ran.code, Some(1), "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("wrong password"), "{}", ran.stderr);
    for option in ["--skip-if-unchanged", "--changed-from=list"] {
        back_up_to(&bed, &[&second], &[option]).fails(2, "cannot be used with");
    }
}

/// So many files are below a directory.
fn count(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let of = |entry: fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => count(&entry.path()),
        _ => 1,
    };
    entries.map(of).sum()
}

/// Killed when one repository has something that others lack, a backup leaves every one sound, and
/// the next backup completes all.
#[test]
fn one_that_is_killed_leaves_all_sound() {
    let bed = bed_with(&["second", "third"]);
    let places = ["repository", "second", "third"].map(|name| bed.path(name));
    let mut killed = 0;
    let moments = [
        (0, "packs"),
        (2, "packs"),
        (0, "index"),
        (1, "index"),
        (0, "snapshots"),
    ];
    for (round, (first, kind)) in moments.into_iter().enumerate() {
        let bytes = varied(20_000_000);
        let bytes: Vec<u8> = bytes.into_iter().map(|byte| byte ^ round as u8).collect();
        fs::write(bed.source().join(round.to_string()), bytes).expect("written");
        let mut command = bed.command(["backup", &text(bed.source())]);
        for other in &places[1..] {
            command.arg("--also-to").arg(other);
        }
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        let watched = places[first].join(kind);
        let before = count(&watched);
        let mut child = command.spawn().expect("started");
        while count(&watched) == before && child.try_wait().expect("it runs").is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        child.kill().expect("killed");
        killed += usize::from(!child.wait().expect("ended").success());
        for place in &places {
            // It tells of what is left over.
            let check = in_repository(&bed, place, PASSWORD, &["check", "--read-data"]);
            assert_eq!(check.code, Some(0), "{}{}", check.stdout, check.stderr);
        }
    }
    assert!(killed > 0, "all were too quick");
    let others = [text(places[1].clone()), text(places[2].clone())];
    back_up_to(&bed, &others.each_ref().map(String::as_str), &[]).succeeds();
    for place in &places {
        has_the_source(&bed, place, PASSWORD);
    }
}
