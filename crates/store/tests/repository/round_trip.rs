//! What is restored equals what was backed up, byte for byte and attribute for attribute.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::tree::{random_bytes, set_mtime, small_tree, sparse, text, write};
use crate::common::{
    Place, assert_clean, back_up, back_up_with, backup_options, compare, id, is_root, not_checked,
    process, restore_options, restore_with,
};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT};
use tabane_store::Algorithm;
use tabane_store::backup::Source;
use tabane_store::chunker::Chunking;
use tabane_store::compress::Compression;

#[test]
fn an_ordinary_tree() {
    let place = Place::new();
    small_tree(&place.source, 1);
    let made = place.round_trip();
    let summary = &made.snapshot.summary;
    assert_eq!(summary.files_new, 45);
    assert_eq!(summary.others, 1);
    assert_clean(&place.repository);
}

#[test]
fn an_empty_tree() {
    let place = Place::new();
    let made = place.round_trip();
    assert_eq!(made.snapshot.summary.total_bytes, 0);
    assert_clean(&place.repository);
}

#[test]
fn the_whole_path_is_restored_with_the_attributes_of_the_source() {
    let place = Place::new();
    small_tree(&place.source, 2);
    fs::set_permissions(&place.source, Permissions::from_mode(0o751)).unwrap();
    set_mtime(&place.source, 1_000_000_000, 7);
    let made = back_up(&place.repository, &[&place.source]);
    let target = place.path("target");
    restore_with(&place.repository, id(&made), restore_options(&target));
    let below = place.source.strip_prefix("/").unwrap();
    compare::assert_same(&place.source, &target.join(below));
}

#[test]
fn odd_names() {
    let place = Place::new();
    let longest = "n".repeat(255);
    let names: [&[u8]; 12] = [
        b"\xff\xfe not UTF-8",
        b"new\nline",
        b"-rf",
        b" ",
        b"...",
        b"\x01\x7f\x1b[31m",
        b"back\\slash",
        b"*",
        b"quote'\"",
        "日本語".as_bytes(),
        "e\u{301}".as_bytes(),
        longest.as_bytes(),
    ];
    for name in names {
        let name = OsStr::from_bytes(name);
        write(place.source.join(name), name.as_bytes());
        let directory = place.source.join("in").join(name);
        fs::create_dir_all(&directory).unwrap();
        symlink(name, directory.join(name)).unwrap();
    }
    place.round_trip();
}

#[test]
fn paths_longer_than_the_system_takes_at_once() {
    let place = Place::new();
    let part = OsStr::new("a-part-of-a-path-that-is-rather-long-so-that-not-too-many-are-needed");
    let mut directory: OwnedFd = File::open(&place.source).unwrap().into();
    for level in 0..80 {
        let name = format!("file {level}");
        let file = rustix::fs::openat(
            &directory,
            name.as_str(),
            OFlags::CREATE | OFlags::WRONLY,
            Mode::from_raw_mode(0o640),
        );
        let mut file = File::from(file.unwrap());
        file.write_all(&random_bytes(level, 1000)).unwrap();
        rustix::fs::linkat(
            &directory,
            name.as_str(),
            &directory,
            "link",
            AtFlags::empty(),
        )
        .unwrap();
        rustix::fs::symlinkat("nowhere", &directory, "symlink").unwrap();
        rustix::fs::mkdirat(&directory, part, Mode::RWXU).unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        directory = rustix::fs::openat(&directory, part, flags, Mode::empty()).unwrap();
    }
    let made = place.round_trip();
    assert!(80 * part.len() > 4096);
    // Once more over what is there.
    let again = place.restore_source(&made, &place.path("target"));
    assert_eq!(again.restored_bytes, 0);
    remove_deep(&place.path("target"));
    remove_deep(&place.source);
}

/// Removes a deep tree and reports a failure, which `TempDir` would ignore.
fn remove_deep(path: &Path) {
    fs::remove_dir_all(path).expect("a deep tree can be removed");
}

#[test]
fn deep_directories() {
    let place = Place::new();
    const DEPTH: usize = 1000;
    let mut path = place.source.clone();
    for _ in 0..DEPTH {
        path.push("d");
    }
    if let Err(error) = fs::create_dir_all(&path) {
        return not_checked("a thousand directories in one another", error);
    }
    write(path.join("file"), b"at the bottom");
    place.round_trip();
}

#[test]
fn hard_links() {
    let place = Place::new();
    let at = |name: &str| place.source.join(name);
    write(at("a/file"), &random_bytes(3, 5000));
    write(at("b/other"), &random_bytes(4, 3_000_000));
    write(at("empty"), b"");
    symlink("target", at("symlink")).unwrap();
    make_special(&at("fifo"), FileType::Fifo, 0);
    for name in ["a/file", "b/other", "empty", "symlink", "fifo"] {
        for copy in 0..3 {
            let link = at(&format!("links/{copy}/{}", name.replace('/', "-")));
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            fs::hard_link(at(name), link).unwrap();
        }
    }
    // A name outside of what is backed up is no concern.
    write(place.path("outside"), b"has a name outside");
    fs::hard_link(place.path("outside"), at("inside")).unwrap();
    place.round_trip();
}

#[test]
fn links_pipes_and_sockets() {
    let place = Place::new();
    let at = |name: &str| place.source.join(name);
    symlink("nowhere at all", at("dangling")).unwrap();
    symlink("/", at("to the root")).unwrap();
    symlink(".", at("to itself")).unwrap();
    symlink(OsStr::from_bytes(b"\xff\n"), at("to odd bytes")).unwrap();
    symlink("t".repeat(4000), at("to far away")).unwrap();
    make_special(&at("fifo"), FileType::Fifo, 0);
    fs::set_permissions(at("fifo"), Permissions::from_mode(0o620)).unwrap();
    // Bound from within its directory: the path of a socket must be short.
    let directory = File::open(&place.source).unwrap();
    let socket = format!("/proc/self/fd/{}/socket", directory.as_raw_fd());
    let _socket = std::os::unix::net::UnixListener::bind(socket).unwrap();
    for name in ["dangling", "fifo", "socket"] {
        set_times_of_link(&at(name), -3, 999_999_999);
    }
    let made = place.round_trip();
    assert_eq!(made.snapshot.summary.others, 7);
    // What is there already stays.
    let fifo = place.path("target").join("fifo");
    let before = fs::symlink_metadata(&fifo).unwrap().ino();
    place.restore_source(&made, &place.path("target"));
    assert_eq!(fs::symlink_metadata(&fifo).unwrap().ino(), before);
    compare::assert_same_contents(&place.source, &place.path("target"));
}

#[test]
fn devices() {
    let place = Place::new();
    let device = rustix::fs::makedev(1, 3);
    let made = rustix::fs::mknodat(
        CWD,
        place.source.join("null"),
        FileType::CharacterDevice,
        Mode::from_raw_mode(0o666),
        device,
    );
    if let Err(error) = made {
        return not_checked("devices", error);
    }
    make_special(
        &place.source.join("block"),
        FileType::BlockDevice,
        rustix::fs::makedev(259, 70_000),
    );
    make_special(
        &place.source.join("char"),
        FileType::CharacterDevice,
        rustix::fs::makedev(4000, 1_000_000),
    );
    place.round_trip();
}

#[test]
fn extended_attributes() {
    let place = Place::new();
    let file = place.source.join("file");
    write(&file, b"x");
    if let Err(error) = xattr::set(&file, "user.test", b"value") {
        return not_checked("extended attributes", error);
    }
    xattr::set(&file, "user.empty", b"").unwrap();
    xattr::set(&file, OsStr::from_bytes(b"user.\xff\xfe"), &[0, 255, 10]).unwrap();
    let big = place.source.join("big");
    write(&big, &random_bytes(5, 3_000_000));
    xattr::set(&big, "user.big", &random_bytes(6, 2500)).unwrap();
    let directory = place.source.join("directory");
    fs::create_dir(&directory).unwrap();
    xattr::set(&directory, "user.of a directory", b"v").unwrap();
    if is_root() {
        make_special(&place.source.join("fifo"), FileType::Fifo, 0);
        symlink("x", place.source.join("link")).unwrap();
        for name in ["fifo", "link", "file"] {
            xattr::set(place.source.join(name), "trusted.t", b"v").unwrap();
        }
        // cap_net_raw, permitted and effective (VFS_CAP_REVISION_2).
        let capability = [1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        xattr::set(&file, "security.capability", &capability).unwrap();
    } else {
        not_checked("trusted attributes and capabilities", "this needs root");
    }
    place.round_trip();
}

#[test]
fn access_control_lists() {
    let place = Place::new();
    let file = place.source.join("file");
    write(&file, b"x");
    let access = acl(&[
        (0x01, 7, u32::MAX),
        (0x02, 5, 12_345),
        (0x04, 4, u32::MAX),
        (0x08, 7, 54_321),
        (0x10, 5, u32::MAX),
        (0x20, 0, u32::MAX),
    ]);
    if let Err(error) = xattr::set(&file, "system.posix_acl_access", &access) {
        return not_checked("ACLs", error);
    }
    let directory = place.source.join("directory");
    fs::create_dir(&directory).unwrap();
    xattr::set(&directory, "system.posix_acl_default", &access).unwrap();
    // The first inherits the ACL, the second has had it taken away: both stay so.
    write(directory.join("inherits"), b"x");
    write(directory.join("plain"), b"x");
    xattr::remove(directory.join("plain"), "system.posix_acl_access").unwrap();
    fs::create_dir(directory.join("below")).unwrap();
    place.round_trip();
}

/// An ACL as the kernel takes it: entries of tag, rights, and user or group.
fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, who) in entries {
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&rights.to_le_bytes());
        bytes.extend_from_slice(&who.to_le_bytes());
    }
    bytes
}

#[test]
fn modes_and_owners() {
    let place = Place::new();
    for mode in [0o4755, 0o2711, 0o6777, 0o1644, 0o777, 0o600, 0o444, 0o400] {
        let file = place.source.join(format!("file {mode:o}"));
        write(&file, &random_bytes(mode.into(), 100));
        let directory = place.source.join(format!("directory {mode:o}"));
        fs::create_dir(&directory).unwrap();
        write(directory.join("in it"), b"x");
        if is_root() {
            let link = place.source.join(format!("link {mode:o}"));
            symlink("x", &link).unwrap();
            for path in [&file, &directory, &link] {
                std::os::unix::fs::lchown(path, Some(mode), Some(mode + 1)).unwrap();
            }
        }
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        // A user other than root must be able to list the directory, and the test to remove it.
        let usable = mode | if is_root() { 0 } else { 0o700 };
        fs::set_permissions(&directory, Permissions::from_mode(usable)).unwrap();
    }
    if is_root() {
        write(place.source.join("closed"), b"x");
        fs::create_dir(place.source.join("closed directory")).unwrap();
        for name in ["closed", "closed directory"] {
            let closed = Permissions::from_mode(0o0);
            fs::set_permissions(place.source.join(name), closed).unwrap();
        }
    } else {
        not_checked("other owners and mode 0", "this needs root");
    }
    place.round_trip();
    // Over read-only files, too.
    let made = place.round_trip();
    place.restore_source(&made, &place.path("target"));
    compare::assert_same_contents(&place.source, &place.path("target"));
}

#[test]
fn times() {
    let place = Place::new();
    let times = [
        ("before 1970", -86_400 * 365, 123_456_789),
        ("just before 1970", -1, 999_999_999),
        ("epoch", 0, 0),
        ("2038", 1 << 31, 1),
        ("far future", 1 << 33, 999_999_999),
        ("too far future", 1 << 37, 5),
    ];
    for (name, s, ns) in times {
        let file = place.source.join(name);
        write(&file, name.as_bytes());
        set_mtime(&file, s, ns);
        let directory = place.source.join(format!("directory {name}"));
        fs::create_dir(&directory).unwrap();
        write(directory.join("in it"), b"x");
        set_mtime(&directory, s, ns);
        let link = place.source.join(format!("link {name}"));
        symlink("x", &link).unwrap();
        set_times_of_link(&link, s, ns.into());
    }
    place.round_trip();
}

#[test]
fn times_of_last_access() {
    let place = Place::new();
    let file = place.source.join("file");
    write(&file, b"x");
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 1_234_567_890,
            tv_nsec: 42,
        },
        last_modification: Timespec {
            tv_sec: 1_111_111_111,
            tv_nsec: 1,
        },
    };
    rustix::fs::utimensat(CWD, &file, &times, AtFlags::empty()).unwrap();
    let options = backup_options().with_atime(true);
    let made = back_up_with(&place.repository, &[&place.source], options);
    place.restore_source(&made, &place.path("target"));
    let stat = fs::metadata(place.path("target").join("file")).unwrap();
    assert_eq!((stat.atime(), stat.atime_nsec()), (1_234_567_890, 42));
}

#[test]
fn sparse_files() {
    const MIB: u64 = 1 << 20;
    let place = Place::new();
    let at = |name: &str| place.source.join(name);
    let data = random_bytes(7, 3 << 20);
    sparse(&at("hole in front"), 11 * MIB, &[(8 * MIB, &data)]);
    sparse(&at("hole at the end"), 11 * MIB, &[(0, &data)]);
    sparse(
        &at("hole in the middle"),
        20 * MIB,
        &[(0, &data), (17 * MIB, &data)],
    );
    sparse(&at("all hole"), 5 * MIB, &[]);
    sparse(&at("odd length"), 5 * MIB + 1, &[(MIB + 1, b"x")]);
    sparse(&at("small"), 8193, &[(8192, b"x")]);
    sparse(&at("tiny"), 1, &[]);
    let runs: Vec<(u64, &[u8])> = (0..200).map(|i| (i * 100_000, &data[..4096])).collect();
    sparse(&at("many holes"), 200 * 100_000, &runs);
    write(at("stored zeros"), &vec![0; 5 << 20]);
    let made = place.round_trip();
    // What is right is left alone, and a hole that was filled is a hole again.
    let target = place.path("target");
    let again = place.restore_source(&made, &target);
    assert_eq!(again.restored_bytes, 0);
    write(target.join("all hole"), &vec![0; 5 << 20]);
    place.restore_source(&made, &target);
    compare::assert_same_contents(&place.source, &target);
}

#[test]
fn a_sparse_file_of_10_gb_is_quick() {
    let place = Place::new();
    const LEN: u64 = 10_000_000_000;
    sparse(
        &place.source.join("sparse"),
        LEN,
        &[(5_000_000_123, b"in the middle"), (LEN - 3, b"end")],
    );
    let began = Instant::now();
    let made = place.round_trip();
    let took = began.elapsed();
    eprintln!("10 GB of holes: backup, restore and comparison took {took:.2?}");
    assert_eq!(made.snapshot.summary.total_bytes, LEN);
    assert!(made.snapshot.summary.read_bytes < 1 << 20);
    assert!(took < Duration::from_secs(10));
    assert_clean(&place.repository);
}

#[test]
fn big_files() {
    let place = Place::new();
    write(place.source.join("random"), &random_bytes(8, 40 << 20));
    write(place.source.join("text"), &text(20 << 20));
    write(place.source.join("zeros"), &vec![0; 20 << 20]);
    write(place.source.join("just small"), &random_bytes(9, 2 << 20));
    write(
        place.source.join("just big"),
        &random_bytes(10, (2 << 20) + 1),
    );
    let made = place.round_trip();
    let summary = &made.snapshot.summary;
    assert_eq!(summary.total_bytes, (84 << 20) + 1);
    assert_eq!(summary.read_bytes, summary.total_bytes);
    // 44 MiB of random bytes, and next to nothing for the rest.
    assert!(summary.stored_bytes < 47 << 20, "{}", summary.stored_bytes);
    let report = assert_clean(&place.repository);
    assert!(report.packs > 3);
}

#[test]
fn every_hash() {
    for hash in [Algorithm::Sha256, Algorithm::Blake3, Algorithm::Sha1] {
        let place = Place::hashing(hash);
        small_tree(&place.source, 11);
        write(place.source.join("big"), &random_bytes(12, 5 << 20));
        write(place.source.join("twin"), &random_bytes(12, 5 << 20));
        let made = place.round_trip();
        assert!(made.snapshot.summary.added_bytes < 6 << 20, "{hash}");
        assert_clean(&place.repository);
    }
}

#[test]
fn every_way_to_cut() {
    for chunking in [
        Chunking::Fixed { len: 4 << 10 },
        Chunking::Fixed { len: 512 << 10 },
        Chunking::Fixed { len: 5000 },
        Chunking::content(8 << 10),
        Chunking::content(2 << 20),
    ] {
        let place = Place::chunking(chunking);
        small_tree(&place.source, 13);
        write(place.source.join("big"), &random_bytes(14, 5 << 20));
        write(place.source.join("text"), &text(5 << 20));
        place.round_trip();
        assert_clean(&place.repository);
    }
}

#[test]
fn every_compression() {
    for compression in [
        Compression::Off,
        Compression::Level(1),
        Compression::MAX,
        Compression::Level(22),
    ] {
        let place = Place::new();
        small_tree(&place.source, 15);
        let options = backup_options().compression(compression);
        let made = back_up_with(&place.repository, &[&place.source], options);
        place.restore_source(&made, &place.path("target"));
        compare::assert_same_contents(&place.source, &place.path("target"));
        assert_clean(&place.repository);
    }
}

#[test]
fn many_tiny_files_in_one_directory() {
    let place = Place::new();
    for number in 0..5000 {
        let bytes = format!("file {number}");
        write(place.source.join(&bytes), bytes.as_bytes());
    }
    let made = place.round_trip();
    assert_eq!(made.snapshot.summary.files_new, 5000);
}

/// A worker takes whole packs when there are enough for all.
#[test]
fn more_packs_than_eight_a_worker() {
    let place = Place::new();
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get());
    // Each backup makes one pack of data.
    for number in 0..8 * workers {
        write(
            place.source.join(number.to_string()),
            &random_bytes(number as u64, 1000),
        );
        back_up(&place.repository, &[&place.source]);
    }
    place.round_trip();
}

#[test]
fn standard_input() {
    let place = Place::new();
    let bytes = random_bytes(16, 10 << 20);
    let task = [place.path("repository")];
    let mut child = process::child(child_that_backs_up_its_standard_input, &task)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    assert!(child.wait().unwrap().success());
    let target = place.path("target");
    let (found, snapshot) = place
        .repository
        .find_snapshot("latest", &Default::default())
        .unwrap();
    assert_eq!(snapshot.paths, ["/dump.sql"]);
    restore_with(&place.repository, found, restore_options(&target));
    assert_eq!(compare::contents(&target), {
        [(PathBuf::from("dump.sql"), bytes)].into()
    });
    assert_clean(&place.repository);
}

#[test]
fn child_that_backs_up_its_standard_input() {
    let Some(task) = process::task() else { return };
    let repository = crate::common::open(tabane_storage::LocalStorage::new(&task[0]));
    let source = Source::Stdin(PathBuf::from("dump.sql"));
    repository.backup(backup_options(), source).unwrap();
}

fn make_special(path: &Path, kind: FileType, device: u64) {
    rustix::fs::mknodat(CWD, path, kind, Mode::from_raw_mode(0o640), device).unwrap();
}

fn set_times_of_link(path: &Path, s: i64, ns: i64) {
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: s,
            tv_nsec: ns,
        },
    };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}
