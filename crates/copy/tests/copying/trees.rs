//! What is copied equals its source, and is not copied twice.

use std::fs::{self, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::Command;

use rustix::fs::{FileType, Mode, OFlags};
use tabane_copy::{Algorithm, Meaning, Verify, copy};
use tabane_sum::{Accept, Parser};
use tabane_testing::compare::assert_same;
use tabane_testing::files;
use tabane_testing::mount::Mount;
use tabane_testing::{is_root, not_checked};

use crate::bed::{Bed, Recorder, assert_tidy, fine, run, run_and_keep};

/// Adds everything that a tree can have.
fn add_specials(bed: &Bed) {
    let source = bed.source();
    let at = |name: &str| source.join(name);
    files::write(at("odd \n\\ \u{fc}"), b"odd");
    let not_utf8 = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"\xff\xfe");
    files::write(source.join(not_utf8), b"bytes");
    files::sparse(
        &at("sparse"),
        5 << 20,
        &[(1 << 20, b"data"), (3 << 20, &[1; 70_000])],
    );
    files::sparse(&at("only a hole"), 1 << 20, &[]);
    files::write(at("large"), &files::random_bytes(3, (9 << 20) + 5));
    symlink("nowhere", at("dangling")).unwrap();
    fs::hard_link(at("dangling"), at("dangling too")).unwrap();
    fs::hard_link(at("large"), at("many/large too")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), Mode::RUSR).unwrap();
    fs::set_permissions(at("text"), Permissions::from_mode(0o4751)).unwrap();
    if let Err(error) = xattr::set(at("random"), "user.comment", b"\0\xff") {
        not_checked("extended attributes", error);
    }
    match Command::new("setfacl")
        .args(["-m", "u:12345:rw"])
        .arg(at("random"))
        .status()
    {
        Ok(status) if status.success() => {}
        other => not_checked("ACLs", format!("setfacl: {other:?}")),
    }
    if is_root() {
        std::os::unix::fs::chown(at("one byte"), Some(1234), Some(5678)).unwrap();
        let made = rustix::fs::mknodat(
            rustix::fs::CWD,
            at("device"),
            FileType::CharacterDevice,
            Mode::RUSR,
            rustix::fs::makedev(1, 3),
        );
        if let Err(error) = made {
            not_checked("devices", error);
        }
    } else {
        not_checked("owners and devices", "this needs root");
    }
    files::set_mtime(&at("empty directory"), -5, 999_999_999);
    files::set_mtime(&at("random"), 1_234_567_890, 123_456_789);
    fs::set_permissions(at("many/1"), Permissions::from_mode(0o555)).unwrap();
}

#[test]
fn everything_of_a_tree() {
    for verify in [Verify::None, Verify::Written, Verify::Reread] {
        let bed = Bed::new();
        add_specials(&bed);
        let mut options = bed.options();
        options.verify = verify;
        let summary = fine(options.clone());
        assert_same(&bed.source(), &bed.copy());
        assert_tidy(&bed.path("to"));
        assert_eq!((summary.copied_files, summary.skipped_files), (49, 0));
        let all_others = summary.copied_others;
        let all = fs::metadata(bed.copy().join("sparse")).unwrap();
        assert!(all.blocks() * 512 < 1 << 20, "the holes were filled");
        // A second run copies only changed files.
        let inode = |name: &str| fs::metadata(bed.copy().join(name)).unwrap().ino();
        let before = (inode("large"), inode("text"));
        files::write(bed.source().join("many/2/5"), b"other bytes");
        fs::set_permissions(bed.copy().join("random"), Permissions::from_mode(0o600)).unwrap();
        let summary = fine(options);
        assert_same(&bed.source(), &bed.copy());
        assert_eq!(summary.copied_bytes, 11);
        assert_eq!((summary.copied_files, summary.skipped_files), (1, 48));
        assert_eq!(
            (summary.copied_others, summary.skipped_others),
            (0, all_others)
        );
        assert_eq!(summary.copied_directories, 0);
        assert_eq!((inode("large"), inode("text")), before);
    }
}

#[test]
fn a_name_or_a_directory() {
    let bed = Bed::new();
    let mut options = bed.options();
    // A new name, with a slash or without.
    for name in ["new", "newer/"] {
        options.target = bed.path(name);
        fine(options.clone());
        assert_same(&bed.source(), &bed.path(name));
    }
    // An existing directory is copied into, unless the target names the copy itself.
    options.target = bed.path("new");
    options.meaning = Meaning::Name;
    fine(options.clone());
    assert!(!bed.path("new/source").exists());
    // The contents of a directory.
    options.meaning = Meaning::Either;
    options.sources = vec![bed.path("source/.")];
    options.target = bed.path("to");
    fine(options.clone());
    assert_same(&bed.source(), &bed.path("to"));
    // Several sources; one of them is missing.
    options.sources = vec![
        bed.path("source/text"),
        bed.path("missing"),
        bed.path("source/random"),
    ];
    options.target = bed.path("new");
    let (summary, problems) = run(options, Recorder::default());
    assert_eq!((summary.skipped_files, summary.errors), (2, 1));
    assert!(
        problems[0].contains("Stat") && problems[0].contains("missing"),
        "{problems:?}"
    );
}

#[test]
fn what_makes_no_sense_is_refused() {
    let bed = Bed::new();
    fs::create_dir(bed.path("source/inner")).unwrap();
    symlink(bed.path("source/inner"), bed.path("way in")).unwrap();
    let refused = |target: &str, meaning, what: &str| {
        let mut options = bed.options();
        options.target = bed.path(target);
        options.meaning = meaning;
        let (summary, problems) = run(options, Recorder::default());
        assert_eq!((summary.errors, summary.copied_files), (1, 0));
        assert!(problems[0].starts_with(what), "{problems:?}");
    };
    for target in ["source", "source/inner", "way in", "source/new"] {
        refused(target, Meaning::Either, "IntoItself");
    }
    refused("source", Meaning::Name, "SameFile");
    files::write(bed.path("file"), b"");
    refused("file", Meaning::Name, "OverOther");
    assert_eq!(fs::read_dir(bed.path("source/inner")).unwrap().count(), 0);
    assert_tidy(&bed.source());
    let mut options = bed.options();
    options.sources = vec![bed.path("source/text")];
    options.target = bed.path("source/many");
    options.meaning = Meaning::Name;
    let (_, problems) = run(options.clone(), Recorder::default());
    assert!(problems[0].starts_with("OverDirectory"), "{problems:?}");
    options.target = bed.path("missing");
    options.meaning = Meaning::Directory;
    assert!(copy(options, std::sync::Arc::new(Recorder::default())).is_err());
}

#[test]
fn no_link_at_the_target_is_followed() {
    let bed = Bed::new();
    fs::create_dir(bed.path("outside")).unwrap();
    files::write(bed.path("outside/file"), b"mine");
    fs::create_dir(bed.copy()).unwrap();
    symlink(bed.path("outside"), bed.copy().join("many")).unwrap();
    symlink(bed.path("outside/file"), bed.copy().join("text")).unwrap();
    let (summary, problems) = run(bed.options(), Recorder::default());
    assert_eq!(summary.errors, 1);
    assert!(problems[0].starts_with("OverOther"), "{problems:?}");
    assert_eq!(fs::read(bed.path("outside/file")).unwrap(), b"mine");
    assert_eq!(fs::read_dir(bed.path("outside")).unwrap().count(), 1);
    assert!(
        fs::symlink_metadata(bed.copy().join("text"))
            .unwrap()
            .is_file()
    );
}

#[test]
fn paths_of_any_length() {
    let bed = Bed::new();
    let name = "x".repeat(200);
    let mut directory: OwnedFd = fs::File::open(bed.source()).unwrap().into();
    for _ in 0..40 {
        rustix::fs::mkdirat(&directory, &name, Mode::RWXU).unwrap();
        directory = rustix::fs::openat(&directory, &name, OFlags::RDONLY, Mode::empty()).unwrap();
    }
    let flags = OFlags::CREATE | OFlags::WRONLY;
    for file in ["one", "two"] {
        drop(rustix::fs::openat(&directory, file, flags, Mode::RUSR).unwrap());
    }
    rustix::fs::linkat(
        &directory,
        "one",
        &directory,
        "three",
        rustix::fs::AtFlags::empty(),
    )
    .unwrap();
    let mut options = bed.options();
    options.verify = Verify::Reread;
    fine(options);
    assert_same(&bed.source(), &bed.copy());
}

#[test]
fn a_manifest_of_all_files() {
    for algorithm in [Algorithm::Xxh3, Algorithm::Sha256] {
        let bed = Bed::new();
        add_specials(&bed);
        let mut options = bed.options();
        options.algorithm = algorithm;
        options.manifest = Some(bed.path("manifest"));
        let summary = fine(options.clone());
        let text = fs::read(bed.path("manifest")).unwrap();
        assert!(!bed.path("manifest.partial").exists() && !bed.path("manifest.new").exists());
        let mut parser = Parser::new(Accept::Only(algorithm));
        let mut lines = 0;
        for line in text
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let line = parser.parse(line).unwrap();
            let name = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&line.name);
            let digest = algorithm.digest(&fs::read(bed.path("to").join(name)).unwrap());
            assert_eq!(line.sum.digest, digest, "{}", line.name.escape_ascii());
            lines += 1;
        }
        // Two of them have another name besides.
        assert_eq!(lines, summary.copied_files + 2);
        // What was copied by a run that wrote down its hash is believed, unless it was touched
        // since.
        let wrong = bed.copy().join("random");
        let found = fs::metadata(&wrong).unwrap();
        let mut bytes = fs::read(&wrong).unwrap();
        bytes[5] ^= 1;
        fs::write(&wrong, bytes).unwrap();
        fs::File::open(&wrong)
            .unwrap()
            .set_modified(found.modified().unwrap())
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let summary = fine(options);
        assert_eq!(summary.copied_bytes, found.len());
        assert_eq!(fs::read(bed.path("manifest")).unwrap(), text);
        assert_same(&bed.source(), &bed.copy());
    }
}

/// The names in a manifest, in its order.
fn listed(manifest: &std::path::Path) -> Vec<String> {
    let mut parser = Parser::new(Accept::Only(Algorithm::Xxh3));
    let text = fs::read_to_string(manifest).unwrap();
    let lines = text.lines().map(|line| parser.parse(line.as_bytes()));
    lines
        .map(|line| String::from_utf8(line.unwrap().name).unwrap())
        .collect()
}

#[test]
fn names_of_a_manifest_are_relative_to_the_target() {
    for (source, target, meaning, names) in [
        ("a", "to", Meaning::Either, &["a/-", "a/sub/x"][..]),
        ("a", "to/", Meaning::Directory, &["a/-", "a/sub/x"]),
        ("a", "new", Meaning::Either, &["./-", "sub/x"]),
        ("a", "new/", Meaning::Either, &["./-", "sub/x"]),
        ("a", "to", Meaning::Name, &["./-", "sub/x"]),
        ("a", "to/.", Meaning::Name, &["./-", "sub/x"]),
        ("a/.", "to", Meaning::Either, &["./-", "sub/x"]),
        ("a/sub/x", "to", Meaning::Either, &["x"]),
        ("a/sub/x", "to/y", Meaning::Either, &["y"]),
    ] {
        let bed = Bed::new();
        files::write(bed.path("a/sub/x"), b"x");
        files::write(bed.path("a/-"), b"-");
        let options = tabane_copy::Options::new([bed.path(source)], bed.path(target))
            .meaning(meaning)
            .manifest(bed.path("manifest"))
            .sync(false);
        fine(options);
        let found = listed(&bed.path("manifest"));
        assert_eq!(found, names, "{source} {target} {meaning:?}");
    }
}

/// Files that share their blocks are equal, and say so; a changed copy leaves its source as it was.
#[test]
fn blocks_are_shared_where_the_file_system_can() {
    for (kind, mib) in [("xfs", 512), ("btrfs", 128)] {
        let bed = Bed::new();
        let there = bed.path("to");
        let Some(_mount) = Mount::image(&there, &bed.path("image"), kind, mib) else {
            continue;
        };
        let source = there.join("source");
        fs::create_dir(&source).unwrap();
        files::small_tree(&source, 8);
        let bytes = files::random_bytes(11, (5 << 20) + 1);
        files::write(source.join("large"), &bytes);
        let target = there.join("copy");
        let mut options = bed.options();
        options.sources = vec![source.clone()];
        options.target = target.clone();
        options.verify = Verify::Reread;
        let manifest = bed.path("manifest");
        options.manifest = Some(manifest.clone());
        let summary = fine(options);
        assert!(
            summary.shared_bytes > bytes.len() as u64,
            "{kind}: {summary:?}"
        );
        assert_eq!(summary.reread_bytes, summary.total_bytes, "{kind}");
        assert_same(&source, &target);
        let listed = fs::read_to_string(&manifest).unwrap();
        let digest = Algorithm::Xxh3.digest(&bytes).to_string();
        assert!(listed.contains(&digest), "{kind}: {listed}");
        files::write(target.join("large"), b"other");
        assert_eq!(fs::read(source.join("large")).unwrap(), bytes, "{kind}");
    }
}

#[test]
fn specials_are_replaced_by_their_like_only() {
    let bed = Bed::new();
    let pipe = |path: &std::path::Path| {
        rustix::fs::mkfifoat(rustix::fs::CWD, path, Mode::RUSR | Mode::WUSR).unwrap();
    };
    let is_pipe = |path: &std::path::Path| {
        let kind = fs::symlink_metadata(path).unwrap().file_type();
        std::os::unix::fs::FileTypeExt::is_fifo(&kind)
    };
    let there = bed.path("there");
    pipe(&there);
    let mut options = bed.options();
    options.target = there.clone();
    symlink("text", bed.path("link")).unwrap();
    for source in ["source/text", "link"] {
        options.sources = vec![bed.path(source)];
        let (summary, problems) = run(options.clone(), Recorder::default());
        assert_eq!((summary.errors, summary.copied_files), (1, 0));
        assert!(problems[0].starts_with("NotRegular"), "{problems:?}");
        assert!(is_pipe(&there));
    }
    pipe(&bed.path("pipe"));
    options.sources = vec![bed.path("pipe")];
    fine(options.clone());
    // A manifest takes the place of a file only; else nothing is copied.
    symlink("there", bed.path("manifest link")).unwrap();
    options.sources = vec![bed.path("source/text")];
    options.target = bed.path("new");
    for name in ["there", "manifest link"] {
        options.manifest = Some(bed.path(name));
        assert!(copy(options.clone(), std::sync::Arc::new(Recorder::default())).is_err());
        assert!(is_pipe(&there) && !bed.path("new").exists());
    }
}

#[test]
fn sources_that_merge_do_not_overwrite_one_another() {
    for sources in [["p1/dd", "p2/dd"], ["p1/.", "p2/dd"], ["p1/.", "p2/."]] {
        let bed = Bed::new();
        for part in ["p1", "p2"] {
            files::write(bed.path(part).join("dd/z"), part.as_bytes());
            files::write(bed.path(part).join(format!("dd/only {part}")), b"");
        }
        let mut options = bed.options();
        options.sources = sources.iter().map(|name| bed.path(name)).collect();
        options.verify = Verify::Reread;
        options.manifest = Some(bed.path("manifest"));
        let (summary, problems) = run(options, Recorder::default());
        assert_eq!(
            (summary.copied_files, summary.errors),
            (3, 1),
            "{problems:?}"
        );
        assert!(
            problems[0].starts_with("JustCreated") && problems[0].contains("dd/z"),
            "{problems:?}"
        );
        assert_eq!(fs::read(bed.path("to/dd/z")).unwrap(), b"p1");
        assert!(bed.path("to/dd/only p2").exists());
        let lines = fs::read_to_string(bed.path("manifest")).unwrap();
        assert_eq!(lines.lines().count(), 3);
    }
}

#[test]
fn a_manifest_takes_the_place_of_nothing_else() {
    let bed = Bed::new();
    files::write(bed.path("mine.partial"), b"what I wrote\n");
    files::write(bed.path("other.new"), b"no newline");
    fs::hard_link(bed.path("source/text"), bed.path("same as text")).unwrap();
    let text = bed.path("source/text");
    for (source, manifest) in [
        (bed.source(), "source/new name"),
        (bed.source(), "source/many/new name"),
        (text.clone(), "source/text"),
        (text.clone(), "same as text"),
        (text.clone(), "to/text"),
        (bed.source(), "to/source"),
        (text.clone(), "mine"),
        (text.clone(), "other"),
    ] {
        let mut options = bed.options();
        options.sources = vec![source];
        options.manifest = Some(bed.path(manifest));
        let before = tabane_testing::compare::contents(&bed.path(""));
        let result = copy(options, std::sync::Arc::new(Recorder::default()));
        assert!(result.is_err(), "{manifest}");
        assert_eq!(
            tabane_testing::compare::contents(&bed.path("")),
            before,
            "{manifest}"
        );
    }
    // What a killed run left is none of these.
    let line = b"XXH3 (to/source/x) = 0123456789abcdef\nXXH3 (to/sou";
    files::write(bed.path("list.partial"), line);
    let mut options = bed.options();
    options.manifest = Some(bed.path("list"));
    fine(options);
}

#[test]
fn a_manifest_takes_the_place_of_no_copy_further_down() {
    for (source, target, manifest, refused) in [
        ("source", "to", "to/source/many/1/1", true),
        ("source", "to", "to/source/many/2", true),
        ("source/.", "to", "to/many/1/1", true),
        ("source", "to", "to/source/many/1/other", false),
        ("source", "to", "to/many/1/1", false),
    ] {
        let bed = Bed::new();
        for name in ["to/source/many/1", "to/many/1"] {
            fs::create_dir_all(bed.path(name)).unwrap();
        }
        files::write(bed.path("source/many/1/x.partial"), b"");
        let mut options = bed.options();
        options.sources = vec![bed.path(source)];
        options.target = bed.path(target);
        let before = tabane_testing::compare::contents(&bed.path(""));
        let mut manifests = vec![bed.path(manifest)];
        if refused && source == "source" {
            manifests.push(bed.path("to/source/many/1/x"));
        }
        for path in manifests {
            options.manifest = Some(path);
            let result = copy(options.clone(), std::sync::Arc::new(Recorder::default()));
            assert_eq!(result.is_err(), refused, "{manifest}: {result:?}");
            if refused {
                assert_eq!(tabane_testing::compare::contents(&bed.path("")), before);
            }
        }
    }
}

#[test]
fn a_directory_that_is_there_is_all_that_must_be_writable() {
    let bed = Bed::new();
    let mut options = bed.options();
    options.meaning = Meaning::Name;
    let names = |directory: std::path::PathBuf| {
        let mut names = Vec::new();
        for entry in fs::read_dir(directory).unwrap() {
            names.push(entry.unwrap().file_name());
        }
        names
    };
    let before = names(bed.path(""));
    let (above, seen) = (
        bed.path(""),
        std::sync::Arc::new(std::sync::Mutex::new(Vec::new())),
    );
    let recorder = {
        let seen = std::sync::Arc::clone(&seen);
        Recorder::on_bytes(move || *seen.lock().unwrap() = names(above.clone()))
    };
    let (_, problems) = run(options, recorder);
    assert!(problems.is_empty(), "{problems:?}");
    assert_same(&bed.source(), &bed.path("to"));
    assert_eq!(*seen.lock().unwrap(), before);
}

#[test]
fn progress_comes_to_its_end() {
    for verify in [Verify::Written, Verify::Reread] {
        let bed = Bed::new();
        add_specials(&bed);
        for _ in 0..2 {
            let mut options = bed.options();
            options.verify = verify;
            let recorder = std::sync::Arc::new(Recorder::default());
            let (summary, _) = run_and_keep(options, &recorder);
            let [total, done] = [&recorder.total, &recorder.done]
                .map(|count| count.load(std::sync::atomic::Ordering::Relaxed));
            assert_eq!(total, done, "{verify:?}");
            let times = if verify == Verify::Reread { 2 } else { 1 };
            assert_eq!(total, times * summary.total_bytes, "{verify:?}");
        }
    }
}

#[test]
fn files_that_do_not_say_their_length() {
    let bed = Bed::new();
    let mut options = bed.options();
    options.sources = vec!["/proc/version".into()];
    options.verify = Verify::Reread;
    options.manifest = Some(bed.path("manifest"));
    fine(options);
    let wanted = fs::read("/proc/version").unwrap();
    assert!(!wanted.is_empty());
    assert_eq!(fs::read(bed.path("to/version")).unwrap(), wanted);
    let digest = Algorithm::Xxh3.digest(&wanted).to_string();
    let line = fs::read_to_string(bed.path("manifest")).unwrap();
    assert!(line.trim_end().ends_with(&digest), "{line}");
    // This says 4096.
    let path = "/sys/kernel/mm/transparent_hugepage/enabled";
    let Ok(wanted) = fs::read(path) else {
        return not_checked("files shorter than they say", "there is no such file");
    };
    let mut options = bed.options();
    options.sources = vec![path.into()];
    fine(options);
    assert_eq!(fs::read(bed.path("to/enabled")).unwrap(), wanted);
}
