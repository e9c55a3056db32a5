//! A target of a striped repository is lost or damaged, or more than can be: what commands say, how
//! they end, and the ways out that docs/reference/striped.md names.

use std::fs;
use std::path::{Path, PathBuf};

use crate::bed::{Bed, Ran, varied};
use crate::striped::{comes_back, init, lose, tabane};

/// A repository over five directories, with a backup.
fn filled(bed: &Bed) -> Vec<String> {
    let directory = |name: &str| bed.path(name).display().to_string();
    let urls: Vec<String> = ["a", "b", "c", "d", "e"].map(directory).into();
    init(bed, &urls).succeeds();
    let source = bed.source().display().to_string();
    tabane(bed, ["backup", &source]).succeeds();
    urls
}

/// Ended with this code, whatever it said.
#[track_caller]
fn ended(ran: Ran, code: i32, says: &str) -> Ran {
    let all = format!("{}{}", ran.stdout, ran.stderr);
    assert_eq!(ran.code, Some(code), "{all}");
    assert!(all.contains(says), "{says:?} is not in: {all}");
    ran
}

/// The files with parts of packs that are striped.
fn stripes(target: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(target.join("packs")).expect("a folder");
    let files = folders
        .flat_map(|folder| fs::read_dir(folder.expect("a folder").path()).expect("a folder"));
    let files = files.map(|file| file.expect("a file").path());
    let is_stripe = |path: &PathBuf| fs::read(path).expect("a file")[16] > 0;
    files.filter(is_stripe).collect()
}

/// The steps of docs/reference/striped.md, "When too much is lost".
#[test]
fn an_object_that_is_lost_can_be_got_past() {
    let bed = Bed::new();
    filled(&bed);
    let source = bed.source().display().to_string();
    for target in ["a", "b", "c"] {
        for path in stripes(&bed.path(target)) {
            let len = fs::metadata(&path).expect("a file").len();
            fs::write(path, vec![0; len as usize]).expect("a file");
        }
    }
    // One of the files that this affects is no longer at its source.
    fs::write(bed.source().join("docs/deep/copy.bin"), varied(200_000)).expect("a file");
    fs::remove_file(bed.source().join("docs/deep/data.bin")).expect("a file");

    let scrubbed = ended(tabane(&bed, ["scrub"]), 1, "could not be healed");
    assert!(
        !scrubbed.stdout.contains("nothing had to be healed"),
        "{}",
        scrubbed.stdout
    );
    let checked = ended(
        tabane(&bed, ["check", "--read-data"]),
        1,
        "/docs/deep/data.bin: block",
    );
    checked.says("apart from the problems above");

    let copies = bed.path("copies").display().to_string();
    fs::create_dir(bed.path("copies")).expect("a directory");
    ended(
        tabane(&bed, ["repair", "packs", "--copies", &copies]),
        0,
        "saved, 0 stored elsewhere too",
    );
    assert!(
        fs::read_dir(bed.path("copies"))
            .expect("a directory")
            .count()
            > 0
    );
    tabane(&bed, ["backup", "--force", &source]).succeeds();
    let mended = ended(
        tabane(&bed, ["repair", "snapshots", "--forget"]),
        0,
        "1 of 2 snapshots repaired",
    );
    assert!(mended.stdout.contains("lost of"), "{}", mended.stdout);
    tabane(&bed, ["check", "--read-data"])
        .succeeds()
        .says("any two targets can be lost now");
    tabane(&bed, ["scrub"])
        .succeeds()
        .says("nothing had to be healed");
    fs::write(bed.source().join("docs/deep/data.bin"), varied(300_000)).expect("a file");
    tabane(&bed, ["backup", &source]).succeeds();
    comes_back(&bed, Ran::succeeds);
}

#[test]
fn exit_codes_and_last_lines_say_how_protected_things_are() {
    let bed = Bed::new();
    let urls = filled(&bed);
    // A folder of a target.
    lose(&bed.path("b").join("packs"));
    ended(tabane(&bed, ["targets"]), 0, "behind").says("two only if one of them is ");
    ended(
        tabane(&bed, ["check"]),
        0,
        "so less is protected than should be: run `tabane heal`",
    )
    .says(&urls[1]);
    tabane(&bed, ["heal"]).succeeds().says("healed: read");
    tabane(&bed, ["check"]).succeeds().says("any two targets");
    // A whole target.
    lose(&bed.path("b"));
    for command in ["heal", "scrub"] {
        ended(
            tabane(&bed, [command]),
            1,
            "1 target missing, so some objects lack parts",
        );
    }
    ended(tabane(&bed, ["targets"]), 0, "missing").says("any one target can be lost now");
    ended(
        tabane(&bed, ["check", "--read-data"]),
        0,
        "1 of 5 targets missing",
    );
    ended(
        tabane(&bed, ["targets", "replace", &urls[1], &urls[1]]),
        0,
        "run `tabane heal`",
    );
    tabane(&bed, ["heal"]).succeeds();
    // Leftovers are no reason to worry.
    let left = stripes(&bed.path("a")).remove(0);
    fs::copy(&left, left.with_file_name("0".repeat(64))).expect("a file");
    tabane(&bed, ["targets"])
        .succeeds()
        .says("when they are a day old");
    tabane(&bed, ["heal"])
        .succeeds()
        .says("when they are a day old");
}

#[test]
fn a_set_without_targets_says_how_to_name_them() {
    let bed = Bed::new();
    tabane(&bed, ["snapshots"]).fails(10, "create one with `tabane init");
    for command in ["init", "backup"] {
        let args = match command {
            "backup" => vec!["backup", "--init", "."],
            _ => vec!["init"],
        };
        tabane(&bed, args).fails(2, "--target URL --target URL --target URL`");
    }
}
