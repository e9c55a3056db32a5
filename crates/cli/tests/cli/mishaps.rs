//! Mishaps of repositories, and how commands recover from them.

use std::fs;
use std::path::{Path, PathBuf};

use tabane_testing::mount::Mount;

use crate::bed::{Bed, restored, varied};

/// The files below a folder of the repository.
fn objects(bed: &Bed, folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![bed.repository().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                path => found.push(path),
            }
        }
    }
    found
}

/// The packs, the smallest first.
pub fn packs(bed: &Bed) -> Vec<PathBuf> {
    let mut packs = objects(bed, "packs");
    packs.sort_by_key(|path| path.metadata().expect("there").len());
    packs
}

fn assert_restores(bed: &Bed) {
    let target = bed.path("target");
    let _ = fs::remove_dir_all(&target);
    bed.run([
        "restore",
        "latest",
        "--target",
        target.to_str().expect("UTF-8"),
    ])
    .succeeds();
    let data = restored(&target, &bed.source().join("docs/deep/data.bin"));
    assert_eq!(fs::read(data).expect("restored"), varied(300_000));
}

#[test]
fn a_restore_on_a_full_disk_says_what_helps_there() {
    let bed = Bed::with_repository();
    let small = bed.path("small");
    fs::create_dir(&small).expect("made");
    let Some(_mount) = Mount::tmpfs(&small, "3m") else {
        return;
    };
    fs::write(bed.source().join("large"), varied(20_000_000)).expect("written");
    bed.backup(&[]).succeeds();
    let target = small.display().to_string();
    let ran = bed
        .run(["restore", "latest", "--target", &target])
        .fails(1, "o space left");
    assert!(
        ran.stderr.contains("choose another place"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_lost_index_object_is_rebuilt_and_costs_no_snapshot() {
    let bed = Bed::with_repository();
    bed.backup(&[]).succeeds();
    for object in objects(&bed, "index") {
        fs::remove_file(object).expect("removed");
    }
    fs::remove_dir_all(bed.path("cache")).expect("removed");
    let checked = bed.run(["check"]);
    assert_eq!(checked.code, Some(1));
    let all = checked.stdout + &checked.stderr;
    assert!(all.contains("run `tabane repair index` first"), "{all}");
    let refused = bed.run(["repair", "snapshots", "--forget"]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("run `tabane repair index` first"),
        "{}",
        refused.stderr
    );
    bed.run(["repair", "index"]).succeeds();
    bed.run(["repair", "snapshots", "--forget"]).succeeds();
    bed.run(["check", "--read-data"]).succeeds();
    assert_restores(&bed);
}

#[test]
fn what_check_finds_missing_is_stored_again_by_the_next_backup() {
    let bed = Bed::with_repository();
    bed.backup(&[]).succeeds();
    bed.backup(&[]).succeeds();
    let packs = packs(&bed);
    let largest = packs.last();
    fs::remove_file(largest.expect("a pack")).expect("removed");
    assert_eq!(bed.run(["check"]).code, Some(1));
    bed.backup(&[]).succeeds();
    assert_restores(&bed);
}

#[test]
fn a_pack_that_was_cut_short_is_saved_after_the_index_was_repaired() {
    let bed = Bed::with_repository();
    bed.backup(&[]).succeeds();
    let packs = packs(&bed);
    let largest = packs.last().expect("a pack");
    let bytes = fs::read(largest).expect("read");
    fs::write(largest, &bytes[..bytes.len() - 1]).expect("written");
    assert_eq!(bed.run(["repair", "index"]).code, Some(1));
    let copies = bed.path("copies");
    fs::create_dir(&copies).expect("made");
    let repaired = bed.run([
        "repair",
        "packs",
        "--copies",
        copies.to_str().expect("UTF-8"),
    ]);
    assert_eq!(repaired.code, Some(0), "{}", repaired.stderr);
    bed.run(["check", "--read-data"]).succeeds();
    assert_restores(&bed);
}

#[test]
fn a_backup_that_misses_a_pack_of_directories_says_how_to_go_on() {
    let bed = Bed::with_repository();
    bed.backup(&[]).succeeds();
    let packs = packs(&bed);
    let smallest = packs.first();
    // With this one, the pack is known to the cache.
    bed.backup(&[]).succeeds();
    fs::remove_file(smallest.expect("a pack")).expect("removed");
    bed.backup(&[]).fails(1, "run the command again");
    let again = bed.backup(&[]);
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    assert!(again.stderr.contains("its files are read again"));
    assert_restores(&bed);
}

#[test]
fn check_says_once_what_a_file_misses_in_several_snapshots() {
    let bed = Bed::with_repository();
    // Of many blocks, wherever they are cut.
    for name in ["docs/deep/data.bin", "docs/deep/copy.bin"] {
        fs::write(bed.source().join(name), varied(12 << 20)).expect("written");
    }
    for change in ["one", "two"] {
        fs::write(bed.source().join("docs/deep/note"), change).expect("written");
        bed.backup(&[]).succeeds();
    }
    let packs = packs(&bed);
    let largest = packs.last();
    fs::remove_file(largest.expect("a pack")).expect("removed");
    let checked = bed.run(["check"]);
    assert_eq!(checked.code, Some(1));
    let lines = |what: &str| checked.stderr.matches(what).count();
    assert_eq!(lines("docs/deep/data.bin: block"), 1, "{}", checked.stderr);
    assert_eq!(lines("more of its blocks"), 2, "{}", checked.stderr);
    assert_eq!(lines("miss the same as"), 1, "{}", checked.stderr);
}

#[test]
fn a_new_target_is_like_the_directory_that_is_restored_into_it() {
    use std::os::unix::fs::PermissionsExt;
    let bed = Bed::with_repository();
    let docs = bed.source().join("docs");
    fs::set_permissions(&docs, PermissionsExt::from_mode(0o751)).expect("changed");
    bed.backup(&[]).succeeds();
    let place = format!("latest:{}", docs.display());
    let (new, old) = (bed.path("new"), bed.path("old"));
    fs::create_dir(&old).expect("made");
    fs::set_permissions(&old, PermissionsExt::from_mode(0o711)).expect("changed");
    for (target, mode) in [(&new, 0o751), (&old, 0o711)] {
        let target_text = target.to_str().expect("UTF-8");
        bed.run(["restore", &place, "--target", target_text])
            .succeeds();
        let found = target.metadata().expect("there").permissions().mode();
        assert_eq!(found & 0o7777, mode, "{target:?}");
        assert!(target.join("deep/data.bin").exists());
    }
}

#[test]
fn a_link_that_is_named_is_stored_as_a_link_with_a_warning_unless_a_slash_is_behind_it() {
    let bed = Bed::with_repository();
    let link = bed.path("link");
    std::os::unix::fs::symlink(bed.source(), &link).expect("a link");
    let link = link.to_str().expect("UTF-8");
    let warned = bed.run(["backup", link]);
    assert_eq!(warned.code, Some(0));
    assert!(warned.stderr.contains("write a slash"), "{}", warned.stderr);
    assert!(!bed.run(["ls", "latest"]).stdout.contains("data.bin"));
    let followed = format!("{link}/");
    bed.run(["backup", &followed]).succeeds();
    assert_restores(&bed);
}

#[test]
fn a_source_that_is_missing_today_does_not_hide_the_others() {
    let bed = Bed::with_repository();
    let gone = bed.path("not mounted");
    let gone = gone.to_str().expect("UTF-8");
    let ran = bed.backup(&[gone]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(ran.stderr.contains("not mounted"), "{}", ran.stderr);
    assert_restores(&bed);
    // The snapshot names both paths, and is the parent of the next backup of both.
    fs::create_dir(gone).expect("made");
    bed.backup(&[gone]).succeeds().says("0 new");
    bed.run(["backup", &format!("{gone}/a"), &format!("{gone}/b")])
        .fails(1, "not mounted");
}

#[test]
fn folders_that_were_empty_and_were_left_out_are_made_again() {
    let bed = Bed::with_repository();
    bed.backup(&[]).succeeds();
    let is_empty = |path: &Path| fs::read_dir(path).expect("a folder").next().is_none();
    for entry in fs::read_dir(bed.repository()).expect("a folder").flatten() {
        if entry.path().is_dir() && is_empty(&entry.path()) {
            fs::remove_dir(entry.path()).expect("removed");
        }
    }
    assert!(!bed.repository().join("tmp").exists());
    fs::write(bed.source().join("new"), "new").expect("written");
    bed.backup(&[]).succeeds();
    bed.run(["prune"]).succeeds();
    bed.run(["check"]).succeeds();
}

#[test]
fn a_named_file_of_settings_is_always_looked_at() {
    let bed = Bed::with_repository();
    bed.run(["snapshots", "--config", "/nowhere/at/all"])
        .fails(2, "cannot read the configuration file /nowhere/at/all");
}

#[test]
fn a_lost_or_damaged_config_or_key_is_to_be_brought_back() {
    let bed = Bed::with_repository();
    bed.backup(&[]).succeeds();
    // They would serve.
    fs::remove_dir_all(bed.repository().join("copies")).expect("removed");
    let config = bed.repository().join("config");
    let bytes = fs::read(&config).expect("a config");
    let mut damaged = bytes.clone();
    *damaged.last_mut().expect("a byte") ^= 1;
    fs::write(&config, &damaged).expect("written");
    bed.run(["snapshots"]).fails(1, "bring it back from a copy");
    fs::remove_file(&config).expect("removed");
    bed.run(["snapshots"])
        .fails(1, "has lost its file `config`");
    fs::write(&config, &bytes).expect("written");
    let keys = fs::read_dir(bed.repository().join("keys")).expect("keys");
    let key = keys.flatten().next().expect("a key").path();
    let mut damaged = fs::read(&key).expect("a key");
    damaged[20] ^= 1;
    fs::write(&key, &damaged).expect("written");
    bed.run(["snapshots"])
        .fails(1, "without a sound key nothing can be decrypted");
}

#[test]
fn holes_are_neither_deduplicated_nor_fast() {
    let bed = Bed::with_repository();
    let file = fs::File::create(bed.source().join("sparse")).expect("a file");
    file.set_len(1 << 40).expect("a hole");
    let backup = bed.backup(&[]).succeeds();
    assert!(!backup.stdout.contains("MB/s"), "{}", backup.stdout);
    bed.run(["stats"]).succeeds().says("1.000 TiB of holes");
    let json = bed.run(["stats", "--json"]).last_json();
    let ratio = json["deduplication_ratio"].as_f64().expect("a number");
    assert!(ratio < 3.0, "{json}");
}
