//! Makes files to back up.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::random::Random;

/// Bytes that look random and are the same each time.
pub fn random_bytes(seed: u64, len: usize) -> Vec<u8> {
    Random::new(seed).noise(len)
}

/// Text that compresses well.
pub fn text(len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 64);
    let mut line = 0;
    while bytes.len() < len {
        bytes.extend_from_slice(format!("line {line}: all work and no play\n").as_bytes());
        line += 1;
    }
    bytes.truncate(len);
    bytes
}

/// Writes a file, and makes the directories above it.
pub fn write(path: impl AsRef<Path>, bytes: &[u8]) {
    let path = path.as_ref();
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).unwrap();
    }
    File::create(path).unwrap().write_all(bytes).unwrap();
}

/// Waits until what was written can be taken for unchanged: what changed within a tick of the clock
/// before a backup is read again by the next one.
pub fn settle() {
    std::thread::sleep(Duration::from_millis(60));
}

/// Writes a program.
pub fn script(path: &Path, text: &str) {
    write(path, text.as_bytes());
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

/// A small tree of some of everything that needs no rights.
pub fn small_tree(root: &Path, seed: u64) {
    write(root.join("empty"), b"");
    write(root.join("one byte"), b"x");
    write(root.join("text"), &text(30_000));
    write(root.join("random"), &random_bytes(seed, 70_000));
    fs::create_dir(root.join("empty directory")).unwrap();
    for number in 0..40_u64 {
        let bytes = random_bytes(seed + number, 100 * number as usize);
        write(root.join(format!("many/{}/{number}", number % 3)), &bytes);
    }
    fs::hard_link(root.join("text"), root.join("many/text again")).unwrap();
    std::os::unix::fs::symlink("../text", root.join("many/link")).unwrap();
}

/// A directory whose files are links to those of another: good for objects, which are never
/// changed.
pub fn link_tree(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            link_tree(&entry.path(), &to);
        } else {
            fs::hard_link(entry.path(), to).unwrap();
        }
    }
}

/// A file with these runs of bytes, and holes between them.
pub fn sparse(path: &Path, len: u64, runs: &[(u64, &[u8])]) {
    let file = File::create(path).unwrap();
    file.set_len(len).unwrap();
    for (at, bytes) in runs {
        file.write_all_at(bytes, *at).unwrap();
    }
}

/// Sets the time of last change, in seconds from 1970 and nanoseconds.
pub fn set_mtime(path: &Path, s: i64, ns: u32) {
    let whole = Duration::from_secs(s.unsigned_abs());
    let whole: SystemTime = if s < 0 {
        UNIX_EPOCH - whole
    } else {
        UNIX_EPOCH + whole
    };
    let time = whole + Duration::from_nanos(ns.into());
    File::open(path).unwrap().set_modified(time).unwrap();
}
