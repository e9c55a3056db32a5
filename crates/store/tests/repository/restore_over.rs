//! Restore into a tree that is there: what is right stays, what is wrong is put right, and nothing
//! else is touched.

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::common::mount::Mount;
use crate::common::tree::{random_bytes, set_mtime, small_tree, write};
use crate::common::{
    Place, back_up, compare, id, is_root, not_checked, restore_observed, restore_options,
    restore_with,
};
use tabane_store::Error;
use tabane_store::IncludeOptions;
use tabane_store::backup::Backup;
use tabane_store::restore::{Overwrite, RestoreSummary};
use tabane_store::{Outcome, Progress};

/// A source that was backed up and restored once.
struct Restored {
    place: Place,
    made: Backup,
    target: PathBuf,
}

impl Restored {
    fn new(make: impl FnOnce(&Path)) -> Self {
        let place = Place::new();
        make(&place.source);
        let made = place.round_trip();
        let target = place.path("target");
        Self {
            place,
            made,
            target,
        }
    }

    /// Restores once more over the existing files, and compares.
    fn again(&self) -> RestoreSummary {
        let summary = self.place.restore_source(&self.made, &self.target);
        compare::assert_same_contents(&self.place.source, &self.target);
        summary
    }

    fn at(&self, name: &str) -> PathBuf {
        self.target.join(name)
    }
}

#[test]
fn what_is_right_is_not_written_again() {
    let restored = Restored::new(|source| {
        small_tree(source, 1);
        write(source.join("big"), &random_bytes(2, 6 << 20));
    });
    let summary = restored.again();
    assert_eq!(summary.restored_bytes, 0);
    assert_eq!(summary.skipped_bytes, summary.total_bytes);
    assert!(summary.total_bytes > 6 << 20);
}

#[test]
fn only_the_wrong_part_of_a_file_is_written() {
    let restored = Restored::new(|source| write(source.join("big"), &random_bytes(3, 6 << 20)));
    let before = fs::metadata(restored.at("big")).unwrap().ino();
    for position in [0, 3 << 20, (6 << 20) - 1] {
        flip(&restored.at("big"), position);
        let summary = restored.again();
        assert!(summary.restored_bytes > 0);
        assert!(summary.restored_bytes < 3 << 20, "{summary:?}");
        let sum = summary.restored_bytes + summary.skipped_bytes;
        assert_eq!(sum, summary.total_bytes);
    }
    assert_eq!(fs::metadata(restored.at("big")).unwrap().ino(), before);
}

#[test]
fn a_wrong_byte_with_the_right_time_is_put_right() {
    let restored = Restored::new(|source| small_tree(source, 4));
    let time = fs::metadata(restored.at("random")).unwrap();
    flip(&restored.at("random"), 12_345);
    set_mtime(
        &restored.at("random"),
        time.mtime(),
        time.mtime_nsec() as u32,
    );
    assert!(restored.again().restored_bytes > 0);
}

#[test]
fn wrong_lengths_are_put_right() {
    let restored = Restored::new(|source| small_tree(source, 5));
    let resize = |name: &str, len: u64| {
        let file = fs::OpenOptions::new()
            .write(true)
            .open(restored.at(name))
            .unwrap();
        file.set_len(len).unwrap();
    };
    for (name, len) in [
        ("text", 100),
        ("text", 100_000),
        ("empty", 1),
        ("one byte", 0),
        ("random", 70_001),
        ("random", 0),
    ] {
        resize(name, len);
        restored.again();
    }
}

#[test]
fn wrong_types_are_put_right() {
    let restored = Restored::new(|source| small_tree(source, 6));
    let replace = |name: &str| {
        let path = restored.at(name);
        fs::remove_file(&path)
            .or_else(|_| fs::remove_dir(&path))
            .unwrap();
        path
    };
    fs::create_dir(replace("random")).unwrap();
    symlink("/etc/passwd", replace("one byte")).unwrap();
    write(replace("empty directory"), b"a file");
    write(replace("many/link"), b"a file");
    restored.again();
    symlink("elsewhere", replace("many/link")).unwrap();
    let outside = restored.place.path("outside");
    fs::create_dir(&outside).unwrap();
    symlink(&outside, replace("empty directory")).unwrap();
    restored.again();
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn a_link_to_a_directory_is_not_followed() {
    let restored = Restored::new(|source| small_tree(source, 7));
    let outside = restored.place.path("outside");
    fs::rename(restored.at("many"), &outside).unwrap();
    symlink(&outside, restored.at("many")).unwrap();
    flip(&outside.join("0/39"), 5);
    let before = compare::contents(&outside);
    restored.again();
    assert_eq!(compare::contents(&outside), before);
}

#[test]
fn a_full_directory_in_the_place_of_a_file_is_reported() {
    let restored = Restored::new(|source| small_tree(source, 8));
    fs::remove_file(restored.at("random")).unwrap();
    write(restored.at("random/precious"), b"x");
    let (summary, warnings) = restore_observed(
        &restored.place.repository,
        id(&restored.made),
        restored.place.source_into(&restored.target),
    );
    assert_eq!(summary.errors, 1);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].0.ends_with("random"));
    assert_eq!(fs::read(restored.at("random/precious")).unwrap(), b"x");
    // A dry run says the same.
    let (would, would_warn) = restore_observed(
        &restored.place.repository,
        id(&restored.made),
        restored.place.source_into(&restored.target).dry_run(true),
    );
    assert_eq!((would.errors, would_warn), (1, warnings));
}

#[test]
fn directories_that_stay_keep_their_mode() {
    let restored = Restored::new(|source| small_tree(source, 8));
    let modes = [("many", 0o2775), ("", 0o751), ("many/0", 0o2555)];
    for (name, mode) in modes {
        fs::set_permissions(restored.at(name), Permissions::from_mode(mode)).unwrap();
    }
    let lost = fs::read_dir(restored.at("many/0")).unwrap().next();
    let lost = lost.unwrap().unwrap().path();
    for overwrite in [Overwrite::Never, Overwrite::IfNewer] {
        // Whoever lacks rights to the directory cannot remove anything in it.
        let give = |mode| {
            fs::set_permissions(restored.at("many/0"), Permissions::from_mode(mode)).unwrap();
        };
        give(0o2755);
        fs::remove_file(&lost).unwrap();
        give(0o2555);
        let options = restored.place.source_into(&restored.target);
        let options = options.overwrite(overwrite);
        let summary = restore_with(&restored.place.repository, id(&restored.made), options);
        assert_eq!(summary.created, 1);
        for (name, mode) in modes {
            let there = fs::metadata(restored.at(name)).unwrap();
            assert_eq!(there.mode() & 0o7777, mode, "{name} {overwrite:?}");
        }
    }
}

#[test]
fn what_the_backup_could_not_read_is_not_deleted() {
    let restored = Restored::new(|source| small_tree(source, 8));
    write(restored.at("unreadable"), b"x");
    let repository = &restored.place.repository;
    let id = id(&restored.made);
    let mut snapshot = repository.load_snapshot(id).unwrap();
    let mut restore = |errors| {
        snapshot.summary.errors = errors;
        let options = restored.place.source_into(&restored.target).delete(true);
        repository.restore(options, id, &snapshot).unwrap().deleted
    };
    assert_eq!(restore(1), 0);
    assert!(restored.at("unreadable").exists());
    assert_eq!(restore(0), 1);
}

#[test]
fn what_is_mounted_where_the_snapshot_has_nothing_is_not_deleted() {
    let restored = Restored::new(|source| {
        small_tree(source, 8);
        fs::create_dir(source.join("mounted")).unwrap();
        write(source.join("full/file"), b"x");
    });
    let names = ["mounted", "full"];
    let mounts = names.map(|name| Mount::tmpfs(&restored.at(name), "1m"));
    if mounts.iter().any(Option::is_none) {
        return;
    }
    for name in names {
        write(restored.at(name).join("other"), b"x");
    }
    let options = restored.place.source_into(&restored.target).delete(true);
    let (summary, warnings) =
        restore_observed(&restored.place.repository, id(&restored.made), options);
    // What the snapshot has something of was not left out because it was mounted.
    assert_eq!((summary.deleted, summary.errors), (1, 0));
    assert!(restored.at("mounted/other").exists());
    assert!(!restored.at("full/other").exists());
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}

#[test]
fn a_dry_run_counts_all_that_would_be_made() {
    let place = Place::new();
    small_tree(&place.source, 8);
    let made = back_up(&place.repository, &[&place.source]);
    let target = place.path("target");
    let dry = place.source_into(&target).dry_run(true);
    let would = restore_with(&place.repository, id(&made), dry);
    assert!(!target.exists());
    let summary = place.restore_source(&made, &target);
    assert_eq!(would.created, summary.created);
}

#[test]
fn what_is_mounted_from_the_same_file_system_is_not_deleted() {
    let restored = Restored::new(|source| small_tree(source, 8));
    let elsewhere = restored.place.path("elsewhere");
    write(elsewhere.join("precious"), b"x");
    write(restored.at("other"), b"x");
    fs::create_dir_all(restored.at("new/mounted")).unwrap();
    let Some(_mount) = Mount::bind(&elsewhere, &restored.at("new/mounted")) else {
        return;
    };
    let options = restored.place.source_into(&restored.target).delete(true);
    let (summary, warnings) =
        restore_observed(&restored.place.repository, id(&restored.made), options);
    assert_eq!((summary.deleted, summary.errors), (1, 0), "{warnings:?}");
    assert!(elsewhere.join("precious").exists());
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}

#[test]
fn a_surplus_directory_that_stays_keeps_its_mode() {
    let restored = Restored::new(|source| small_tree(source, 8));
    for name in ["surplus/keep", "surplus/go"] {
        write(restored.at(name), b"x");
    }
    fs::set_permissions(restored.at("surplus"), Permissions::from_mode(0o555)).unwrap();
    let options = restored.place.source_into(&restored.target).delete(true);
    let options = options.includes(IncludeOptions::default().exclude(["keep".to_owned()]));
    let summary = restore_with(&restored.place.repository, id(&restored.made), options);
    assert_eq!(summary.deleted, 1);
    assert!(restored.at("surplus/keep").exists());
    let there = fs::metadata(restored.at("surplus")).unwrap();
    assert_eq!(there.mode() & 0o7777, 0o555);
}

/// Moves the repository into the target, restores and deletes the surplus: all of it must stay.
fn assert_repository_stays(restored: &Restored, within: &Path) {
    fs::rename(restored.place.path("repository"), within).unwrap();
    std::os::unix::fs::symlink(within, restored.place.path("repository")).unwrap();
    let options = restored.place.source_into(&restored.target).delete(true);
    let (summary, warnings) =
        restore_observed(&restored.place.repository, id(&restored.made), options);
    assert_eq!((summary.deleted, summary.errors), (0, 0), "{warnings:?}");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let elsewhere = restored.place.path("elsewhere");
    restored.place.restore_source(&restored.made, &elsewhere);
}

#[test]
fn a_repository_is_not_deleted() {
    let restored = Restored::new(|source| small_tree(source, 8));
    let within = restored.at("backups/mine");
    fs::create_dir(restored.at("backups")).unwrap();
    assert_repository_stays(&restored, &within);
}

/// Not even where the snapshot has a directory of that name.
#[test]
fn nothing_is_deleted_in_a_repository() {
    let restored = Restored::new(|source| {
        small_tree(source, 8);
        write(source.join("mine/packs/old"), b"x");
    });
    let within = restored.at("mine");
    fs::remove_dir_all(&within).unwrap();
    assert_repository_stays(&restored, &within);
    assert!(within.join("packs/old").exists());
}

#[test]
fn a_repository_is_no_target() {
    let restored = Restored::new(|source| small_tree(source, 8));
    for below in ["repository", "repository/packs", "repository/packs/new"] {
        let options = restored.place.source_into(&restored.place.path(below));
        let snapshot = restored.place.repository.load_snapshot(id(&restored.made));
        let refused =
            restored
                .place
                .repository
                .restore(options, id(&restored.made), &snapshot.unwrap());
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("is in a repository"), "{error}");
    }
    assert!(!restored.place.path("repository/packs/new").exists());
}

#[test]
fn one_that_cannot_be_deleted_holds_up_no_other() {
    let restored = Restored::new(|source| small_tree(source, 8));
    for name in ["a", "b"] {
        write(restored.at(name), b"x");
    }
    let Some(_mount) = Mount::bind(&restored.place.source.join("empty"), &restored.at("a")) else {
        return;
    };
    let options = restored.place.source_into(&restored.target).delete(true);
    let (summary, warnings) =
        restore_observed(&restored.place.repository, id(&restored.made), options);
    assert_eq!((summary.deleted, summary.errors), (1, 1), "{warnings:?}");
    assert!(!restored.at("b").exists());
}

#[test]
fn a_target_that_an_interrupted_restore_made_gets_its_attributes() {
    let place = Place::new();
    small_tree(&place.source, 8);
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    fs::set_permissions(&place.source, Permissions::from_mode(0o751)).unwrap();
    let made = back_up(&place.repository, &[&place.source]);
    // As a restore that was killed has left it.
    let target = place.path("target");
    fs::create_dir(&target).unwrap();
    fs::set_permissions(&target, Permissions::from_mode(0o700)).unwrap();
    let mark = rustix::fs::setxattr(
        &target,
        "user.tabane.unfinished",
        b"1",
        rustix::fs::XattrFlags::empty(),
    );
    if mark.is_err() {
        return not_checked(
            "an interrupted restore",
            "the file system has no attributes",
        );
    }
    place.restore_source(&made, &target);
    assert_eq!(mode(&target), 0o751);
    let mut names = [0_u8; 100];
    let len = rustix::fs::listxattr(&target, &mut names[..]).unwrap();
    assert!(!String::from_utf8_lossy(&names[..len]).contains("tabane"));
    // One that was there has its own.
    fs::set_permissions(&target, Permissions::from_mode(0o700)).unwrap();
    place.restore_source(&made, &target);
    assert_eq!(mode(&target), 0o700);
}

#[test]
fn other_names_of_a_wrong_file_keep_their_bytes() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 4] = [
        ("one wrong byte", |path| flip(path, 0)),
        ("shorter", |path| resize(path, 10)),
        ("longer", |path| {
            let mut bytes = fs::read(path).unwrap();
            bytes.extend_from_slice(b"precious");
            fs::write(path, bytes).unwrap();
        }),
        ("empty", |path| resize(path, 0)),
    ];
    for (what, change) in changes {
        for name in ["random", "empty"] {
            if name == "empty" && what != "longer" {
                continue;
            }
            let restored = Restored::new(|source| small_tree(source, 9));
            change(&restored.at(name));
            let other = restored.place.path("other name");
            fs::hard_link(restored.at(name), &other).unwrap();
            let before = fs::read(&other).unwrap();
            restored.again();
            let after = fs::read(&other).unwrap();
            assert!(after == before, "{what}: the other name of {name} changed");
        }
    }
}

/// A tool may have linked files of equal content; each must still get its own attributes.
#[test]
fn names_that_became_links_are_files_of_their_own_again() {
    let restored = Restored::new(|source| {
        for (name, mode) in [("a", 0o600), ("b", 0o644)] {
            write(source.join(name), b"the same");
            fs::set_permissions(source.join(name), Permissions::from_mode(mode)).unwrap();
        }
    });
    fs::remove_file(restored.at("b")).unwrap();
    fs::hard_link(restored.at("a"), restored.at("b")).unwrap();
    restored.again();
}

#[test]
fn hard_links_that_were_cut_are_made_again() {
    let restored = Restored::new(|source| small_tree(source, 10));
    let bytes = fs::read(restored.at("text")).unwrap();
    fs::remove_file(restored.at("many/text again")).unwrap();
    fs::write(restored.at("many/text again"), bytes).unwrap();
    restored.again();
    fs::remove_file(restored.at("text")).unwrap();
    restored.again();
}

#[test]
fn attributes_are_put_right() {
    let restored = Restored::new(|source| {
        small_tree(source, 11);
        let _ = xattr::set(source.join("text"), "user.kept", b"v");
    });
    for name in ["text", "many", "random"] {
        let path = restored.at(name);
        let _ = xattr::set(&path, "user.not in the snapshot", b"v");
        let _ = xattr::set(&path, "user.kept", b"changed");
        fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
        set_mtime(&path, 1, 1);
        if is_root() {
            std::os::unix::fs::chown(&path, Some(1234), Some(4321)).unwrap();
        }
    }
    if !is_root() {
        not_checked("owners that are put right", "this needs root");
    }
    let summary = restored.again();
    assert_eq!(summary.restored_bytes, 0);
}

#[test]
fn what_is_not_in_the_snapshot_stays() {
    let restored = Restored::new(|source| small_tree(source, 12));
    write(restored.at("more"), b"x");
    restored
        .place
        .restore_source(&restored.made, &restored.target);
    assert_eq!(fs::read(restored.at("more")).unwrap(), b"x");
}

/// As when a system is restored over itself.
#[test]
fn a_program_that_runs_and_is_right_is_no_error() {
    let Some(sleep) = ["/bin/sleep", "/usr/bin/sleep"]
        .iter()
        .find(|path| Path::new(path).exists())
    else {
        return not_checked("a running program", "there is no sleep");
    };
    let restored = Restored::new(|source| {
        fs::copy(sleep, source.join("sleep")).unwrap();
    });
    let child = std::process::Command::new(restored.at("sleep"))
        .arg("60")
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => return not_checked("a running program", error),
    };
    let (_, warnings) = restore_observed(
        &restored.place.repository,
        id(&restored.made),
        restored.place.source_into(&restored.target),
    );
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(warnings, []);
}

#[test]
fn subpaths() {
    let place = Place::new();
    small_tree(&place.source, 13);
    let made = back_up(&place.repository, &[&place.source]);
    let options = |name: &str, target: &str| {
        restore_options(&place.path(target)).subpath(place.source.join(name))
    };
    restore_with(&place.repository, id(&made), options("many", "directory"));
    compare::assert_same_contents(&place.source.join("many"), &place.path("directory"));
    restore_with(&place.repository, id(&made), options("text", "file"));
    let found = compare::contents(&place.path("file"));
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[Path::new("text")],
        fs::read(place.source.join("text")).unwrap()
    );
    for missing in ["nothing", "text/below a file"] {
        let snapshot = &made.snapshot;
        let result = place
            .repository
            .restore(options(missing, "missing"), id(&made), snapshot);
        let error = result.unwrap_err();
        assert!(matches!(error, Error::NoSuchPath { .. }), "{error}");
        assert!(!place.path("missing").exists());
    }
}

#[test]
fn includes() {
    let place = Place::new();
    small_tree(&place.source, 14);
    let made = back_up(&place.repository, &[&place.source]);
    let only = |include: &[&str], exclude: &[&str], target: &str| {
        let options = place.source_into(&place.path(target)).includes(
            IncludeOptions::default()
                .include(include.iter().copied())
                .exclude(exclude.iter().copied()),
        );
        restore_with(&place.repository, id(&made), options);
        let found = compare::listing(&place.path(target));
        let names = found.keys().map(|path| path.to_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(only(&["text"], &[], "a"), ["text"]);
    assert_eq!(
        only(&["many/1/7", "one*"], &[], "b"),
        ["many", "many/1", "many/1/7", "one byte"]
    );
    let rest = only(&[], &["many", "e*"], "c");
    assert_eq!(rest, ["one byte", "random", "text"]);
    assert_eq!(
        only(&["many/text again"], &[], "d"),
        ["many", "many/text again"]
    );
    compare::assert_same(
        &place.source.join("many/1/7"),
        &place.path("b").join("many/1/7"),
    );
}

#[test]
fn a_dry_run_writes_nothing() {
    let place = Place::new();
    small_tree(&place.source, 15);
    let made = back_up(&place.repository, &[&place.source]);
    let options = place.source_into(&place.path("target")).dry_run(true);
    let summary = restore_with(&place.repository, id(&made), options);
    // Everything would be written, since the target is empty.
    assert!(summary.files > 40 && summary.restored_bytes > 0 && summary.created > summary.files);
    assert_eq!((summary.skipped_bytes, summary.unchanged), (0, 0));
    assert!(!place.path("target").exists());
}

#[test]
fn verify_reads_what_was_restored() {
    let place = Place::new();
    small_tree(&place.source, 16);
    write(place.source.join("big"), &random_bytes(17, 9 << 20));
    let made = back_up(&place.repository, &[&place.source]);
    let options = || place.source_into(&place.path("target")).verify(true);
    let summary = restore_with(&place.repository, id(&made), options());
    assert_eq!(summary.verified_bytes, summary.total_bytes);
}

/// Files are changed when their directory is reported: after they are written, and before they are
/// verified.
#[test]
fn verify_notices_what_changed_meanwhile() {
    struct Meddler {
        target: PathBuf,
        recorder: crate::common::Recorder,
    }
    impl Progress for Meddler {
        fn warning(&self, path: &Path, what: &str) {
            self.recorder.warning(path, what);
        }

        fn entry(&self, path: &Path, _outcome: Outcome) {
            if path == Path::new("empty directory") {
                flip(&self.target.join("big"), 7 << 20);
                resize(&self.target.join("random"), 10);
                fs::remove_file(self.target.join("one byte")).unwrap();
            }
        }
    }
    let place = Place::new();
    small_tree(&place.source, 18);
    write(place.source.join("big"), &random_bytes(19, 9 << 20));
    let made = back_up(&place.repository, &[&place.source]);
    let target = place.path("target");
    let options = place.source_into(&target).verify(true);
    let meddler = std::sync::Arc::new(Meddler {
        target,
        recorder: crate::common::Recorder::default(),
    });
    let summary = place
        .repository
        .with_progress(std::sync::Arc::clone(&meddler))
        .restore(options, id(&made), &made.snapshot);
    assert_eq!(summary.unwrap().errors, 3);
    let mut names: Vec<PathBuf> = meddler
        .recorder
        .warnings()
        .into_iter()
        .map(|(path, _)| path)
        .collect();
    names.sort();
    assert_eq!(names, ["big", "one byte", "random"].map(PathBuf::from));
}

fn flip(path: &Path, position: u64) {
    let file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, position).unwrap();
    file.write_all_at(&[byte[0] ^ 1], position).unwrap();
}

fn resize(path: &Path, len: u64) {
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(len).unwrap();
}
