//! Compares two trees by what the system says of them, with none of the store's code.
//!
//! Files are reached through the descriptor of their directory, so that no path is too long.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::SeekFrom;
use sha2::Digest;

use crate::disk;

/// How many blocks of 512 bytes two files of the same content may differ by: file systems round,
/// and keep their own records among them.
const BLOCKS_SLACK: u64 = 64;

/// All properties of an entry that are compared; its content is compared by digest.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    mode: u32,
    owner: (u32, u32),
    mtime: (i64, i64),
    /// Of files and links.
    size: Option<u64>,
    device: Option<u64>,
    link: Option<Vec<u8>>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    content: Option<Vec<u8>>,
}

struct Tree {
    entries: BTreeMap<Vec<u8>, Entry>,
    /// Blocks of regular files.
    blocks: BTreeMap<Vec<u8>, u64>,
    inodes: BTreeMap<(u64, u64), BTreeSet<Vec<u8>>>,
}

/// Wants the same in both, attributes of the two directories themselves included.
pub fn assert_same(expected: &Path, found: &Path) {
    assert_equal(&read(expected), &read(found));
}

/// Wants the same below both.
pub fn assert_same_contents(expected: &Path, found: &Path) {
    let (mut expected, mut found) = (read(expected), read(found));
    expected.entries.remove(&Vec::new());
    found.entries.remove(&Vec::new());
    assert_equal(&expected, &found);
}

fn assert_equal(expected: &Tree, found: &Tree) {
    let mut differences = Vec::new();
    for (path, entry) in &expected.entries {
        let name = path.escape_ascii();
        match found.entries.get(path) {
            None => differences.push(format!("{name}: missing")),
            Some(other) if other != entry => {
                differences.push(format!("{name}: {entry:?}\n    became {other:?}"));
            }
            Some(_) => {}
        }
    }
    for path in found.entries.keys() {
        if !expected.entries.contains_key(path) {
            differences.push(format!("{}: should not be there", path.escape_ascii()));
        }
    }
    for (path, blocks) in &expected.blocks {
        let other = found.blocks.get(path).copied().unwrap_or(*blocks);
        if blocks.abs_diff(other) > BLOCKS_SLACK {
            let name = path.escape_ascii();
            differences.push(format!("{name}: {blocks} blocks became {other}"));
        }
    }
    let groups = |tree: &Tree| -> BTreeSet<Vec<String>> {
        let shared = tree.inodes.values().filter(|names| names.len() > 1);
        let printed = |path: &Vec<u8>| path.escape_ascii().to_string();
        shared
            .map(|names| names.iter().map(printed).collect())
            .collect()
    };
    let (wanted, there) = (groups(expected), groups(found));
    if wanted != there {
        differences.push(format!("hard links {wanted:?}\n    became {there:?}"));
    }
    assert!(
        differences.is_empty(),
        "{} differences:\n{}",
        differences.len(),
        differences[..differences.len().min(20)].join("\n")
    );
}

fn read(root: &Path) -> Tree {
    let mut tree = Tree {
        entries: BTreeMap::new(),
        blocks: BTreeMap::new(),
        inodes: BTreeMap::new(),
    };
    add(&mut tree, Vec::new(), root);
    tree
}

/// Adds what `reach` leads to, and all below; its name in the tree is `path`.
fn add(tree: &mut Tree, path: Vec<u8>, reach: &Path) {
    let stat = fs::symlink_metadata(reach).expect("lstat");
    let kind = stat.file_type();
    let content = kind.is_file().then(|| digest(reach, stat.size()));
    let has_size = kind.is_file() || kind.is_symlink();
    let xattrs = xattr::list(reach).expect("llistxattr").map(|name| {
        let value = xattr::get(reach, &name).expect("lgetxattr");
        (name.as_bytes().to_vec(), value.unwrap_or_default())
    });
    let entry = Entry {
        mode: stat.mode(),
        owner: (stat.uid(), stat.gid()),
        mtime: (stat.mtime(), stat.mtime_nsec()),
        size: has_size.then(|| stat.size()),
        device: is_device(stat.mode()).then(|| stat.rdev()),
        link: kind.is_symlink().then(|| {
            let target = fs::read_link(reach).expect("readlink");
            target.as_os_str().as_bytes().to_vec()
        }),
        xattrs: xattrs.collect(),
        content,
    };
    if kind.is_file() {
        tree.blocks.insert(path.clone(), stat.blocks());
    }
    if !kind.is_dir() {
        let names = tree.inodes.entry((stat.dev(), stat.ino())).or_default();
        names.insert(path.clone());
    }
    tree.entries.insert(path.clone(), entry);
    if !kind.is_dir() {
        return;
    }
    let directory = File::open(reach).expect("open a directory");
    let handle = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    for entry in fs::read_dir(&handle).expect("list a directory") {
        let name = entry.expect("list a directory").file_name();
        let mut below = path.clone();
        if !below.is_empty() {
            below.push(b'/');
        }
        below.extend_from_slice(name.as_bytes());
        add(tree, below, &handle.join(OsStr::new(&name)));
    }
}

fn is_device(mode: u32) -> bool {
    matches!(mode & 0o170_000, 0o020_000 | 0o060_000)
}

/// A digest of a file's bytes, which is the same wherever zeros are holes.
fn digest(path: &Path, size: u64) -> Vec<u8> {
    const PART_LEN: u64 = 64 << 10;
    let file = File::open(path).expect("open a file");
    let mut context = sha2::Sha256::new();
    let mut part = vec![0; PART_LEN as usize];
    let mut at = 0;
    while at < size {
        // From the next data on, in whole parts.
        match rustix::fs::seek(&file, SeekFrom::Data(at)) {
            Ok(data) => at = data / PART_LEN * PART_LEN,
            Err(rustix::io::Errno::NXIO) => break,
            Err(_) => {}
        }
        let len = PART_LEN.min(size - at) as usize;
        file.read_exact_at(&mut part[..len], at)
            .expect("read a file");
        if part[..len].iter().any(|&byte| byte != 0) {
            context.update(at.to_le_bytes());
            context.update(&part[..len]);
        }
        at += len as u64;
    }
    context.finalize().to_vec()
}

/// The names and bytes of all regular files below a directory.
pub fn contents(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = entries(root);
    found.retain(|(_, stat)| stat.is_file());
    let read = |(name, _): (PathBuf, Metadata)| {
        let bytes = fs::read(root.join(&name)).expect("read a file");
        (name, bytes)
    };
    found.into_iter().map(read).collect()
}

/// Entries of a directory with lengths and times, which stay equal as long as nothing is written.
pub fn listing(root: &Path) -> BTreeMap<PathBuf, (u64, i64, i64)> {
    let found = entries(root).into_iter();
    found
        .map(|(name, stat)| (name, (stat.size(), stat.mtime(), stat.mtime_nsec())))
        .collect()
}

/// Everything below a directory.
fn entries(root: &Path) -> Vec<(PathBuf, Metadata)> {
    let mut found = Vec::new();
    disk::walk(root, &mut |path, stat| {
        let name = path.strip_prefix(root).expect("it is below").to_owned();
        found.push((name, stat.clone()));
        Ok(())
    })
    .expect("list a directory");
    found.split_off(1)
}
