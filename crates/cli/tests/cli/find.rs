//! `tabane find`

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::bed::{Bed, run};

#[test]
fn entries_are_found_in_every_snapshot_that_has_them() {
    let bed = Bed::with_repository();
    let source = bed.source();
    bed.backup(&["--host", "a"]).succeeds();
    fs::write(source.join("docs/Notes.txt"), "more").expect("a file");
    bed.backup(&["--host", "b"]).succeeds();

    let lines = |arguments: &[&str]| {
        let ran = bed.run(["find", "-q"].iter().chain(arguments)).succeeds();
        let lines = ran.stdout.lines().map(str::to_owned);
        lines.collect::<Vec<_>>()
    };
    let path = |name: &str| source.join(name).display().to_string();
    assert_eq!(
        lines(&["notes.txt"]),
        [path("docs/notes.txt"), path("docs/notes.txt")]
    );
    assert_eq!(
        lines(&["-i", "notes.txt"]),
        [
            path("docs/Notes.txt"),
            path("docs/notes.txt"),
            path("docs/notes.txt")
        ]
    );
    assert_eq!(lines(&["-i", "notes.txt", "-R"])[0], path("docs/notes.txt"));
    assert_eq!(
        lines(&["-s", "latest", "docs/**/*.bin", "empty"]),
        [
            path("docs/deep/copy.bin"),
            path("docs/deep/data.bin"),
            path("empty")
        ]
    );
    assert_eq!(
        lines(&["--host", "b", "d*", "-t", "d"]),
        [path("docs"), path("docs/deep")]
    );
    assert_eq!(
        lines(&["--host", "b", "--type", "symlink", "*"]),
        [path("pointer")]
    );
    let absolute = path("linked");
    assert_eq!(lines(&["--host", "a", &absolute]), [absolute.as_str()]);
    assert_eq!(lines(&["--oldest", "2100-01-01", "*"]), [""; 0]);
    assert_eq!(lines(&["--newest", "2000-01-01", "*"]), [""; 0]);
    assert_eq!(lines(&["nothing of that name"]), [""; 0]);
    let long = lines(&["-l", "-s", "latest", "pointer"]);
    assert!(long[0].starts_with("lrwx"), "{long:?}");
    assert!(long[0].ends_with("pointer -> docs/notes.txt"), "{long:?}");
    let long = lines(&["-l", "--human-readable", "-s", "latest", "data.bin"]);
    assert!(long[0].contains(" 292.969 KiB "), "{long:?}");
    let shown = bed.run(["find", "Notes.txt"]).succeeds().stdout;
    assert!(shown.starts_with("in snapshot "), "{shown}");
    assert_eq!(shown.lines().count(), 2, "{shown}");

    let json = bed.run(["find", "--json", "empty"]).succeeds().json();
    assert_eq!(json.len(), 2);
    assert_eq!(json[0]["hits"], 1);
    assert_eq!(json[0]["hostname"], "b");
    assert_eq!(json[0]["matches"][0]["path"], path("empty"));
    assert_eq!(json[0]["matches"][0]["size_bytes"], 0);
}

#[test]
fn files_are_found_by_the_blocks_and_packs_that_hold_them() {
    let bed = Bed::with_repository();
    let source = bed.source();
    // A file of one block, in a pack with the others.
    fs::write(source.join("alone"), "alone").expect("a file");
    bed.backup(&[]).succeeds();
    let digest = run(bed
        .command(["sum", "-a", "sha256"])
        .arg(source.join("alone")))
    .succeeds();
    let block = &digest.stdout[..64];
    let alone = source.join("alone").display().to_string();
    for prefix in [block, &block[..8]] {
        let found = bed.run(["find", "-q", "--block", prefix]).succeeds();
        assert_eq!(found.stdout.trim_end(), alone);
    }
    let packs = fs::read_dir(bed.repository().join("packs")).expect("packs");
    let packs =
        packs.flat_map(|folder| fs::read_dir(folder.expect("a folder").path()).expect("a folder"));
    let largest = packs
        .map(|pack| pack.expect("a pack").path())
        .max_by_key(|pack| fs::metadata(pack).expect("a pack").size())
        .expect("there is one");
    let name = largest
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let found = bed.run(["find", "-q", "--pack", &name[..12]]).succeeds();
    for name in ["alone", "docs/deep/data.bin", "linked"] {
        let path = source.join(name).display().to_string();
        assert!(
            found.stdout.lines().any(|line| line == path),
            "{}",
            found.stdout
        );
    }
    bed.run(["find", "--pack", "not hexadecimal"])
        .fails(2, "is no ID");
    bed.run(["find", "["]).fails(2, "cannot be used");
}

#[test]
fn the_packs_of_blocks_are_named() {
    let bed = Bed::with_repository();
    bed.backup(&[]).succeeds();
    let packs = bed.run(["list", "packs"]).succeeds().stdout;
    let index = bed.run(["list", "index"]).succeeds().stdout;
    let index = bed.run(["cat", "index", index.trim()]).succeeds().stdout;
    let at = index.find("\"blocks\"").expect("it has blocks");
    let is_id = |word: &&str| word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let block = index[at..].split('"').find(is_id).expect("an ID");
    let found = bed
        .run(["find", "--block", "--show-pack-id", &block[..12]])
        .succeeds();
    let line = found.stdout.lines().last().expect("a line");
    let pack = line
        .strip_prefix(&format!("block {block} is in pack "))
        .expect(line);
    assert!(packs.lines().any(|listed| listed == pack), "{packs} {line}");
}
