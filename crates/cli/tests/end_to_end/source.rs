//! The tree that is backed up: names, links and data that are hard to bring back.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use tabane_testing::files::{random_bytes, set_mtime, small_tree, sparse, text, write};

/// Regular files of many lengths.
const DATA_FILES: u64 = 300;
/// Directories one in another.
const DEPTH: usize = 60;

/// Makes the tree.
pub fn build(root: &Path) {
    names(&root.join("names"));
    links(&root.join("links"));
    data(&root.join("data"));
    small_tree(&root.join("small"), 1);
}

fn names(root: &Path) {
    let long = "n".repeat(255);
    let names: [&[u8]; 10] = [
        b"-rf",
        b" ",
        b"*",
        b"a\nb",
        b"tab\there",
        b"\xff\xfe not UTF-8",
        b"\x1b[31mred",
        b"back\\slash",
        "\u{65e5}\u{672c} \u{202e}txt".as_bytes(),
        long.as_bytes(),
    ];
    for (number, name) in (2..).zip(names) {
        write(
            root.join(OsStr::from_bytes(name)),
            &random_bytes(number, 100),
        );
    }
    let deep = (0..DEPTH).fold(root.to_owned(), |path, _| path.join("deeper"));
    write(deep.join("bottom"), b"here");
    fs::create_dir(root.join("empty directory")).expect("a directory");
    write(root.join("empty"), b"");
}

fn links(root: &Path) {
    write(root.join("one"), &text(5_000));
    fs::create_dir(root.join("below")).expect("a directory");
    fs::hard_link(root.join("one"), root.join("two")).expect("a hard link");
    fs::hard_link(root.join("one"), root.join("below/three")).expect("a hard link");
    symlink("one", root.join("link")).expect("a link");
    symlink("nowhere", root.join("dangling")).expect("a link");
    symlink(".", root.join("round")).expect("a link");
    let fifo = mknodat(
        CWD,
        root.join("pipe"),
        FileType::Fifo,
        Mode::from_raw_mode(0o640),
        0,
    );
    fifo.expect("a pipe");
    for mode in [0o400, 0o755, 0o2755, 0o4711] {
        let path = root.join(format!("mode {mode:o}"));
        write(&path, b"rights");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("rights");
    }
    for (seconds, nanoseconds) in [(-1_000_000_000, 1), (1, 999_999_999), (8_000_000_000, 5)] {
        let path = root.join(format!("time {seconds}"));
        write(&path, b"when");
        set_mtime(&path, seconds, nanoseconds);
    }
    write(root.join("attributes"), b"x");
    if let Err(error) = xattr::set(root.join("attributes"), "user.tabane", b"\0 any \xff") {
        println!("NOT CHECKED: extended attributes of the backup end to end: {error}");
    }
}

fn data(root: &Path) {
    for number in 0..DATA_FILES {
        let len = (number * number * 7) as usize;
        let bytes = match number % 3 {
            0 => text(len),
            // Some of them twice.
            1 => random_bytes(number / 6 * 6, len),
            _ => random_bytes(1_000 + number, len),
        };
        write(root.join(format!("{}/{number}", number % 7)), &bytes);
    }
    write(root.join("large"), &random_bytes(7, 20_000_000));
    let runs: [(u64, &[u8]); 2] = [(1 << 20, b"data"), (60 << 20, b"end")];
    sparse(&root.join("sparse"), 64 << 20, &runs);
}
