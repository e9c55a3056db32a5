//! A repository over several directories, and one real S3 server.

use std::ffi::OsStr;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::bed::{Bed, Ran, restored, run, varied};
use tabane_testing::disk;
use tabane_testing::gateway::{BUCKET, Gateway};

pub fn command<A: AsRef<OsStr>>(bed: &Bed, args: impl IntoIterator<Item = A>) -> Command {
    let mut command = bed.command(args);
    let mut set = std::ffi::OsString::from("striped:");
    set.push(bed.path("set.toml"));
    Gateway::credentials(&mut command).env("TABANE_REPOSITORY", set);
    command
}

pub fn tabane<A: AsRef<OsStr>>(bed: &Bed, args: impl IntoIterator<Item = A>) -> Ran {
    run(&mut command(bed, args))
}

/// As [`Ran::succeeds`], but with one warning that says this.
#[track_caller]
fn warns(ran: Ran, what: &str) -> Ran {
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    assert!(ran.stderr.contains(what), "{}", ran.stderr);
    ran
}

pub fn init(bed: &Bed, urls: &[String]) -> Ran {
    let targets = urls.iter().flat_map(|url| ["--target", url]);
    tabane(bed, ["init"].into_iter().chain(targets))
}

/// Restores the latest snapshot, and compares a file with what it was.
#[track_caller]
pub fn comes_back(bed: &Bed, ran: impl Fn(Ran) -> Ran) {
    let target = bed.path("target");
    let _ = fs::remove_dir_all(&target);
    let text = target.display().to_string();
    ran(tabane(
        bed,
        ["restore", "latest", "--target", &text, "--no-cache"],
    ));
    let file = bed.source().join("docs/deep/data.bin");
    let back = fs::read(restored(&target, &file)).expect("it was restored");
    assert!(back == fs::read(file).expect("it is there"));
}

pub fn lose(path: &Path) {
    fs::remove_dir_all(path).expect("the target is there");
}

/// As on one disk whose sectors turn bad here and there: in every folder, in each file of it.
#[test]
fn bad_sectors_in_all_targets_are_mended() {
    let bed = Bed::new();
    fs::write(bed.source().join("large"), varied(8_000_000)).expect("written");
    let folders: Vec<_> = (0..5)
        .map(|number| bed.path(&format!("{number}")))
        .collect();
    let urls: Vec<_> = folders
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    init(&bed, &urls).succeeds();
    let source = bed.source().display().to_string();
    tabane(&bed, ["backup", &source]).succeeds();
    let mut damaged = 0;
    for (number, folder) in folders.iter().enumerate() {
        disk::walk(folder, &mut |path, metadata| {
            // Of each of the folders another sector of the same pack.
            let at = (number * 3) << 16;
            if metadata.is_file() && metadata.len() > at as u64 + 8192 {
                let mut bytes = fs::read(path)?;
                bytes[at + 4096..at + 8192].fill(number as u8);
                fs::remove_file(path)?;
                fs::write(path, bytes)?;
                damaged += 1;
            }
            Ok(())
        })
        .expect("damaged");
    }
    assert!(damaged >= 5, "{damaged}");
    comes_back(&bed, |ran| {
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran
    });
    tabane(&bed, ["scrub"]);
    tabane(&bed, ["scrub"]).succeeds();
    tabane(&bed, ["check", "--read-data"]).succeeds();
}

#[test]
fn everyday_work_without_two_of_five_targets_one_of_them_a_server() {
    let gateway = Gateway::start("a striped repository with one target on a real S3 server");
    let bed = Bed::new();
    let directory = |name: &str| bed.path(name).display().to_string();
    let mut urls: Vec<String> = ["a", "b", "c", "d"].map(directory).into();
    urls.push(match &gateway {
        Some(gateway) => gateway.url(BUCKET, "some/prefix"),
        None => directory("e"),
    });
    tabane(&bed, ["snapshots"]).fails(10, "there is no repository at striped:");
    init(&bed, &urls[..2]).fails(1, "2 targets are too few");
    init(&bed, &urls).succeeds().says("created repository");
    init(&bed, &urls).fails(1, "there is already a repository at striped:");
    init(&bed, &urls[1..]).fails(1, "lists other targets");
    let source = bed.source().display().to_string();
    tabane(&bed, ["backup", &source]).succeeds();
    tabane(&bed, ["check", "--read-data"])
        .succeeds()
        .says("any two targets can be lost now");
    comes_back(&bed, Ran::succeeds);

    // Two directories are lost.
    for name in ["a", "c"] {
        lose(&bed.path(name));
    }
    let two = "2 of 5 targets missing";
    comes_back(&bed, |ran| warns(ran, two));
    fs::write(bed.source().join("new"), crate::bed::varied(200_000)).expect("a file");
    warns(tabane(&bed, ["backup", &source]), two);
    warns(tabane(&bed, ["check"]), two).says("no target can be lost now");
    warns(tabane(&bed, ["targets"]), two).says("missing");
    // They are replaced, one of them by another directory.
    let (a, new) = (directory("a"), directory("new"));
    warns(tabane(&bed, ["targets", "replace", &a, &a]), two);
    warns(
        tabane(&bed, ["targets", "replace", &directory("c"), &new]),
        "1 of 5 targets",
    );
    let healed = tabane(&bed, ["heal", "--json"]).succeeds().last_json();
    assert!(healed["healed_objects"].as_u64() > Some(0), "{healed}");
    assert_eq!(healed["unhealed_objects"], 0);
    tabane(&bed, ["heal"])
        .succeeds()
        .says("nothing had to be healed");
    tabane(&bed, ["scrub", "--limit", "1000000"])
        .succeeds()
        .says("nothing had to be healed");
    tabane(&bed, ["targets"])
        .succeeds()
        .says("any two targets can be lost now");
    comes_back(&bed, Ran::succeeds);

    // Then the server, or the directory in its place, and another directory.
    if gateway.is_none() {
        lose(&bed.path("e"));
    }
    drop(gateway);
    lose(&bed.path("b"));
    let mut restore = command(&bed, ["check", "--read-data", "--retry-for", "1s"]);
    let ran = run(&mut restore);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    lose(&bed.path("d"));
    let ran = run(&mut command(&bed, ["snapshots", "--retry-for", "1s"]));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
}

#[test]
fn a_target_that_never_answers_or_has_no_credentials_is_missing() {
    let bed = Bed::new();
    let directory = |name: &str| bed.path(name).display().to_string();
    let urls: Vec<String> = ["a", "b", "c", "d"].map(directory).into();
    init(&bed, &urls).succeeds();
    let source = bed.source().display().to_string();
    tabane(&bed, ["backup", &source]).succeeds();
    // The system takes connections for it, and nobody answers them.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let silent = format!("s3+http://127.0.0.1:{port}/bucket/d");
    let set = fs::read_to_string(bed.path("set.toml")).expect("the file is there");
    fs::write(bed.path("set.toml"), set.replace(&urls[3], &silent)).expect("a file");
    let start = Instant::now();
    let ran = run(&mut command(&bed, ["check", "--retry-for", "1s"]));
    warns(ran, "the server does not answer").says("any one target can be lost now");
    assert!(start.elapsed() < Duration::from_secs(30), "{start:?}");

    let mut check = command(&bed, ["check"]);
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
        check.env_remove(name);
    }
    check
        .env("AWS_PROFILE", "nobody")
        .env("AWS_SHARED_CREDENTIALS_FILE", bed.path("nothing"));
    warns(run(&mut check), "has no keys").says("any one target can be lost now");
}

#[test]
fn another_target_and_bad_input() {
    let bed = Bed::new();
    let directory = |name: &str| bed.path(name).display().to_string();
    let urls: Vec<String> = ["a", "b", "c"].map(directory).into();
    init(&bed, &urls).succeeds();
    let source = bed.source().display().to_string();
    tabane(&bed, ["backup", &source]).succeeds();
    let before = fs::read_to_string(bed.path("set.toml")).expect("the file is there");
    tabane(&bed, ["targets", "add", &directory("source")]).fails(1, "is not empty");
    tabane(&bed, ["targets", "add", &directory("d")])
        .succeeds()
        .says("tabane heal");
    tabane(&bed, ["targets", "add", &directory("d")]).fails(1, "already");
    let after = fs::read_to_string(bed.path("set.toml")).expect("the file is there");
    assert!(
        after.starts_with(before.trim_end()) && after.contains(&directory("d")),
        "{after}"
    );
    tabane(&bed, ["heal"]).succeeds().says("healed");
    tabane(&bed, ["targets", "--json"]).succeeds();
    lose(&bed.path("a"));
    lose(&bed.path("b"));
    comes_back(&bed, |ran| warns(ran, "2 of 4 targets missing"));

    let c = directory("c");
    bed.run(["snapshots", "--repo", &c])
        .fails(1, "one of its targets");
    bed.run(["heal", "--repo", &c]).fails(2, "striped:FILE");
    bed.run(["init", "--target", "x", "--repo", &c])
        .fails(2, "striped:FILE");
    let set = bed.path("bad.toml");
    let repo = format!("striped:{}", set.display());
    for (text, says) in [
        ("", "lists no targets"),
        ("x = 1", "nothing but [[target]]"),
        ("[[target]]\nurl = 5", "is a string"),
        ("[[target]]\nurl = \"striped:x\"", "itself a set"),
        ("[[target]]\nuri = \"x\"", "has a url"),
        ("[[target", "cannot be used"),
    ] {
        fs::write(&set, text).expect("a file");
        bed.run(["snapshots", "--repo", &repo]).fails(1, says);
    }
}
