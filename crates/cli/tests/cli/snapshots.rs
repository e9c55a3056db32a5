//! What is done with snapshots as wholes: descriptions, retention, merging, finding them again.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tabane_testing::not_checked;

use crate::bed::{Bed, restored};

fn ids(bed: &Bed) -> Vec<String> {
    let listed = bed.run(["snapshots", "--json"]).succeeds().last_json();
    let listed = listed.as_array().expect("an array").iter();
    listed
        .map(|snapshot| snapshot["id"].as_str().expect("an ID").to_owned())
        .collect()
}

#[test]
fn snapshots_say_what_they_are_for_and_how_long_they_stay() {
    let bed = Bed::with_repository();
    bed.backup(&["--description", "before the move", "--delete-never"])
        .succeeds();
    bed.backup(&["--delete-after", "1d", "--time", "2020-01-01 00:00:00"])
        .succeeds();
    bed.backup(&["--delete-after", "10y"]).succeeds();
    bed.backup(&[]).succeeds();
    bed.backup(&[]).succeeds();
    let table = bed.run(["snapshots"]).succeeds().says("before the move");
    assert!(table.stdout.contains("Description"), "{}", table.stdout);
    let forget = ["forget", "--keep-last", "1", "--group-by", ""];
    let kept = bed.run([&forget[..], &["--dry-run"]].concat()).succeeds();
    assert!(
        kept.stdout.contains("never to be removed"),
        "{}",
        kept.stdout
    );
    assert!(kept.stdout.contains("wanted until"), "{}", kept.stdout);
    bed.run(forget).succeeds();
    assert_eq!(ids(&bed).len(), 3);
    // Nor by its name.
    let listed = bed.run(["snapshots", "--json"]).succeeds().last_json();
    let mut listed = listed.as_array().expect("an array").iter();
    let never = listed
        .find(|snapshot| snapshot["delete"] == "never")
        .expect("one");
    let never = never["id"].as_str().expect("an ID");
    let ran = bed
        .run(["forget", never])
        .fails(3, "marked with --delete-never");
    assert!(ran.stdout.contains("0 snapshots removed"), "{}", ran.stdout);
    let ran = bed.run(["forget", "--json", never]);
    assert_eq!((ran.code, &ran.last_json()["ids"]), (Some(3), &json!([])));
    assert_eq!(ids(&bed).len(), 3);
    bed.run(["tag", "--delete-by-rules", "--description", ""])
        .succeeds();
    let listed = bed.run(["snapshots", "--json"]).succeeds().last_json();
    for snapshot in listed.as_array().expect("an array") {
        assert_eq!(
            (&snapshot["description"], &snapshot["delete"]),
            (&Value::Null, &Value::Null)
        );
    }
    bed.run(forget).succeeds();
    assert_eq!(ids(&bed).len(), 1);
    bed.run(["tag", "latest"]).fails(2, "--set");
    bed.run(["check"]).succeeds();
}

#[test]
fn the_latest_of_one_time_is_the_one_that_was_changed_last() {
    // Which ID is the higher one is chance.
    for tag in ["a", "b", "c", "d", "e"] {
        let bed = Bed::with_repository();
        bed.backup(&[]).succeeds();
        bed.run(["tag", "--add", tag, "latest"]).succeeds();
        bed.run(["rewrite", "--exclude", "copy.bin", "latest"])
            .succeeds();
        let listed = bed.run(["ls", "latest"]).succeeds().stdout;
        assert!(!listed.contains("copy.bin"), "{listed}");
        // Once more, there is nothing to do.
        bed.run(["rewrite", "--exclude", "copy.bin", "latest"])
            .succeeds()
            .says("0 of 1 snapshot");
    }
}

#[test]
fn a_merge_is_no_newer_than_what_it_was_made_of() {
    let bed = Bed::with_repository();
    for time in ["2020-01-01 10:00:00", "2020-01-02 10:00:00"] {
        bed.backup(&["--host", "ada", "--time", time]).succeeds();
    }
    let merged = bed.run(["merge", "--host", "ada", "--json"]).succeeds();
    bed.run(["check", "--expect-every", "1d"])
        .fails(1, "of ada is of 2020-01-02");
    // It is later than that, though of the same time.
    let latest = bed.run(["snapshots", "latest", "--json"]).succeeds();
    assert_eq!(
        latest.last_json()[0]["id"],
        merged.last_json()["snapshot_id"]
    );
}

#[test]
fn single_files_are_compared() {
    let bed = Bed::with_repository();
    bed.backup(&[]).succeeds();
    let file = bed.source().join("docs/notes.txt");
    fs::write(&file, "another").expect("written");
    bed.backup(&[]).succeeds();
    let listed = bed.run(["snapshots", "--json"]).succeeds().last_json();
    let place = |number: usize| {
        let id = listed[number]["short_id"].as_str().expect("text");
        format!("{id}:{}", file.display())
    };
    bed.run(["diff", &place(0), &place(1)])
        .succeeds()
        .says("1 changed")
        .says("notes.txt");
    bed.run(["diff", &place(1), &place(1)])
        .succeeds()
        .says("0 changed");
}

#[test]
fn what_is_never_to_be_removed_outlives_a_merge() {
    let bed = Bed::with_repository();
    bed.backup(&["--tag", "x", "--delete-never"]).succeeds();
    bed.backup(&["--tag", "x"]).succeeds();
    let ran = bed.run(["merge", "--delete", "--tag", "x"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("--delete-never"), "{}", ran.stderr);
    let listed = bed.run(["snapshots", "--json"]).succeeds().last_json();
    assert_eq!(listed.as_array().map(Vec::len), Some(2), "{listed}");
}

#[test]
fn a_merged_snapshot_has_the_newest_of_each() {
    let bed = Bed::with_repository();
    let at = |name: &str| bed.source().join(name);
    bed.backup(&["--tag", "one"]).succeeds();
    fs::remove_file(at("docs/deep/copy.bin")).expect("removed");
    fs::write(at("docs/notes.txt"), "second version\n").expect("written");
    fs::write(at("docs/new"), "new").expect("written");
    bed.backup(&["--tag", "two"]).succeeds();
    bed.run(["merge"]).fails(2, "no snapshots named");
    let both = ids(&bed);
    let args = ["merge", &both[1], &both[0], "--add-tag", "all"];
    bed.run([&args[..], &["-n"]].concat())
        .succeeds()
        .says("nothing was stored");
    assert_eq!(ids(&bed).len(), 2);
    let merged = bed
        .run([&args[..], &["--json"]].concat())
        .succeeds()
        .last_json();
    // Seven of the first one, and a new one.
    assert_eq!(merged["files"], 6);
    let id = merged["snapshot_id"].as_str().expect("an ID");
    let target = bed.path("target");
    bed.run(["restore", id, "-t", target.to_str().expect("UTF-8")])
        .succeeds();
    let read = |name: &str| fs::read(restored(&target, &at(name)));
    assert_eq!(read("docs/notes.txt").expect("there"), b"second version\n");
    assert!(read("docs/deep/copy.bin").is_ok() && read("docs/new").is_ok());
    bed.run([&args[..], &["--delete"]].concat())
        .succeeds()
        .says("the others removed");
    assert_eq!(ids(&bed).len(), 2);
    bed.run(["prune"]).succeeds();
    bed.run(["check", "--read-data"]).succeeds();
    let tags = bed.run(["snapshots", "--json"]).succeeds().last_json();
    assert_eq!(tags[1]["tags"], serde_json::json!(["one", "two", "all"]));
}

#[test]
fn what_lost_snapshots_held_is_found_until_it_is_pruned() {
    let bed = Bed::with_repository();
    // A directory of several blocks.
    let many = bed.source().join("many");
    fs::create_dir(&many).expect("made");
    for number in 0..6000 {
        fs::write(
            many.join(format!("a rather long name of a file {number}")),
            "",
        )
        .expect("written");
    }
    bed.backup(&[]).succeeds();
    bed.run(["recover"]).succeeds().says("nothing was lost");
    let expected = bed.run(["ls", "latest"]).succeeds().stdout.lines().count();
    for snapshot in fs::read_dir(bed.repository().join("snapshots")).expect("listed") {
        fs::remove_file(snapshot.expect("listed").path()).expect("removed");
    }
    bed.run(["recover", "-n"])
        .succeeds()
        .says("dry run: 1 directory would be in it");
    let found = bed.run(["recover", "--json"]).succeeds().last_json();
    let root = found["roots"][0].as_str().expect("an ID");
    let place = format!("latest:/{}", &root[..8]);
    let listed = bed.run(["ls", &place]).succeeds().stdout.lines().count();
    assert_eq!(listed, expected);
    let target = bed.path("target");
    bed.run(["restore", &place, "-t", target.to_str().expect("UTF-8")])
        .succeeds();
    let notes = restored(&target, &bed.source().join("docs/notes.txt"));
    assert_eq!(fs::read_to_string(notes).expect("there"), "first version\n");
    bed.run(["recover"]).succeeds().says("nothing was lost");
    // It holds what was lost, and the snapshot itself is missed.
    let checked = bed.run(["check", "--read-data"]);
    assert_eq!(checked.code, Some(6), "{}", checked.stderr);
    bed.run(["prune"])
        .fails(1, "`tabane forget --lost` gives up what is lost");
    bed.run(["forget", "--lost"]).succeeds();
    bed.run([
        "forget",
        "--unsafe-allow-remove-all",
        "--tag",
        "recovered",
        "--prune",
    ])
    .succeeds();
    bed.run(["recover"]).succeeds().says("nothing was lost");
}

#[test]
fn a_zip_archive_is_unpacked_by_others() {
    let bed = Bed::with_repository();
    fs::write(bed.source().join("größe"), "umlauts").expect("written");
    bed.backup(&[]).succeeds();
    let source = bed.source().display().to_string();
    let dumped = bed
        .run(["dump", "--archive", "zip", "latest", &source])
        .succeeds();
    let archive = bed.path("archive.zip");
    fs::write(&archive, &dumped.bytes).expect("written");
    let target = bed.path("unpacked");
    let script = "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); \
                  assert z.testzip() is None; z.extractall(sys.argv[2]); \
                  print(*(hex(i.external_attr >> 16) for i in z.infolist() \
                  if i.filename.endswith('pointer')))";
    let unpacked = Command::new("python3")
        .args(["-c", script])
        .arg(&archive)
        .arg(&target)
        .output();
    let Ok(unpacked) = unpacked else {
        not_checked("zip archives", "python3 is not installed");
        return;
    };
    assert!(
        unpacked.status.success(),
        "{}",
        String::from_utf8_lossy(&unpacked.stderr)
    );
    // It is marked as a symbolic link, which this program writes as a file.
    assert_eq!(String::from_utf8_lossy(&unpacked.stdout), "0xa1ff\n");
    let there = restored(&target, &bed.source());
    for name in [
        "docs/notes.txt",
        "docs/deep/data.bin",
        "linked",
        "empty",
        "größe",
    ] {
        let expected = fs::read(bed.source().join(name)).expect("read");
        assert_eq!(
            fs::read(there.join(name)).expect("unpacked"),
            expected,
            "{name}"
        );
    }
    assert_eq!(
        fs::read_to_string(there.join("pointer")).expect("there"),
        "docs/notes.txt"
    );
    // Where there is Info-ZIP, links and modes come back, too.
    let target = bed.path("by-unzip");
    let unzip = Command::new("unzip")
        .arg("-q")
        .arg(&archive)
        .arg("-d")
        .arg(&target)
        .stderr(Stdio::null())
        .status();
    if unzip.is_ok_and(|status| status.success()) {
        let link = fs::read_link(restored(&target, &bed.source().join("pointer")));
        assert_eq!(link.expect("a link").to_str(), Some("docs/notes.txt"));
    }
}

#[test]
fn parents_are_chosen_by_what_they_have_in_common() {
    let bed = Bed::with_repository();
    tabane_testing::files::settle();
    bed.backup(&["--host", "old", "--tag", "a"]).succeeds();
    let unmodified = |args: &[&str]| {
        let made = bed
            .backup(&[args, &["--json", "-n"]].concat())
            .succeeds()
            .last_json();
        made["files_unmodified"].as_u64().expect("a number")
    };
    assert_eq!(unmodified(&["--host", "new"]), 0);
    assert_eq!(unmodified(&["--host", "new", "--group-by", "paths"]), 5);
    assert_eq!(
        unmodified(&["--host", "new", "--group-by", "paths,tags"]),
        0
    );
    assert_eq!(unmodified(&["--tag", "a", "--group-by", "tags"]), 5);
    // The parent that is named counts, whatever the group.
    let named = ["--parent", "latest", "--host", "new"];
    assert_eq!(
        unmodified(&[&named[..], &["--group-by", "host"]].concat()),
        5
    );
    let docs = bed.source().join("docs").display().to_string();
    let below = bed
        .run(["backup", &docs, "-n", "--json", "--group-by", ""])
        .succeeds();
    assert_eq!(below.last_json()["files_unmodified"], 3);
}

#[test]
fn the_latest_of_each_group_are_shown() {
    let bed = Bed::with_repository();
    let docs = bed.source().join("docs").display().to_string();
    bed.backup(&["--tag", "a"]).succeeds();
    bed.backup(&[]).succeeds();
    bed.run(["backup", &docs]).succeeds();
    let all = ids(&bed);
    let latest = |group_by: &[&str]| {
        let run = bed.run([&["snapshots", "--json", "--latest", "1"], group_by].concat());
        let text = run.succeeds().stdout.clone();
        let is_shown = |id: &&String| text.contains(&format!("\"id\":\"{id}\""));
        all.iter().filter(is_shown).cloned().collect::<Vec<_>>()
    };
    assert_eq!(latest(&[]), all[1..]);
    assert_eq!(latest(&["--group-by", "host"]), all[2..]);
    let tagged_and_last = [all[0].clone(), all[2].clone()];
    assert_eq!(latest(&["--group-by", "host,tags"]), tagged_and_last);
}

#[test]
fn extended_attributes_are_restored_by_name() {
    let bed = Bed::with_repository();
    let notes = bed.source().join("docs/notes.txt");
    for (name, value) in [("user.one", b"1"), ("user.two", b"2")] {
        if let Err(error) = xattr::set(&notes, name, value) {
            not_checked("extended attributes", error);
            return;
        }
    }
    bed.backup(&[]).succeeds();
    let found = |args: &[&str]| -> Vec<String> {
        let target = bed.path("target");
        let _ = fs::remove_dir_all(&target);
        let target_text = target.to_str().expect("UTF-8");
        bed.run([&["restore", "latest", "-t", target_text], args].concat())
            .succeeds();
        let names = xattr::list(restored(&target, &notes)).expect("listed");
        names
            .map(|name| name.into_string().expect("UTF-8"))
            .collect()
    };
    assert_eq!(found(&[]).len(), 2);
    assert_eq!(found(&["--include-xattr", "*.two"]), ["user.two"]);
    assert_eq!(found(&["--exclude-xattr", "user.t*"]), ["user.one"]);
    bed.run(["restore", "latest", "-t", "/tmp", "--exclude-xattr", "["])
        .fails(1, "cannot be used");
}
