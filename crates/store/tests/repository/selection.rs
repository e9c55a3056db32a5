//! Which paths get into a snapshot: several sources, nested ones, excludes, file systems.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::common::mount::Mount;
use crate::common::tree::{random_bytes, small_tree, write};
use crate::common::{
    Place, back_up, back_up_with, backup_options, compare, id, restore_options, restore_with,
};
use tabane_store::Error;
use tabane_store::ExcludeOptions;
use tabane_store::backup::BackupOptions;

/// What a snapshot of `paths` restores to, below the place.
fn stored(place: &Place, paths: &[&Path], options: BackupOptions) -> Vec<String> {
    let made = back_up_with(&place.repository, paths, options);
    let target = place.path("target");
    let _ = fs::remove_dir_all(&target);
    restore_with(&place.repository, id(&made), restore_options(&target));
    let above = target.join(place.dir.path().strip_prefix("/").unwrap());
    let listed = compare::listing(&above);
    let names = listed.keys().map(|path| path.to_str().unwrap().to_owned());
    names.collect()
}

fn excluding(patterns: &[&str]) -> BackupOptions {
    backup_options().excludes(ExcludeOptions::default().patterns(patterns.iter().copied()))
}

#[test]
fn several_sources() {
    let place = Place::new();
    small_tree(&place.source, 1);
    let other = place.path("other");
    fs::create_dir(&other).unwrap();
    small_tree(&other, 2);
    write(place.path("not asked for"), b"x");
    let made = back_up(&place.repository, &[&place.source, &other]);
    let target = place.path("target");
    restore_with(&place.repository, id(&made), restore_options(&target));
    let above = target.join(place.dir.path().strip_prefix("/").unwrap());
    compare::assert_same(&place.source, &above.join("source"));
    compare::assert_same(&other, &above.join("other"));
    assert!(!above.join("not asked for").exists());
}

#[test]
fn nested_and_repeated_sources() {
    let place = Place::new();
    let source = &place.source;
    write(source.join("a/b/c"), b"c");
    write(source.join("a/d"), b"d");
    write(source.join("e"), b"e");
    let all = [
        "source",
        "source/a",
        "source/a/b",
        "source/a/b/c",
        "source/a/d",
        "source/e",
    ];
    let below = source.join("a/b");
    let roundabout = source.join("a/../a/./b");
    for paths in [
        &[source.as_path(), &below][..],
        &[&below, source],
        &[source, source, &roundabout],
    ] {
        assert_eq!(stored(&place, paths, backup_options()), all);
    }
    let found = stored(&place, &[&below, &roundabout], backup_options());
    assert_eq!(found, all[..4]);
    let (first, second) = (source.join("a/b/c"), source.join("e"));
    let found = stored(&place, &[&first, &second], backup_options());
    assert_eq!(
        found,
        [
            "source",
            "source/a",
            "source/a/b",
            "source/a/b/c",
            "source/e"
        ]
    );
}

#[test]
fn a_file_or_a_link_as_source() {
    let place = Place::new();
    write(place.source.join("file"), b"x");
    symlink("file", place.source.join("link")).unwrap();
    symlink("source", place.path("link to the directory")).unwrap();
    let file = stored(&place, &[&place.source.join("file")], backup_options());
    assert_eq!(file, ["source", "source/file"]);
    let link = stored(&place, &[&place.source.join("link")], backup_options());
    assert_eq!(link, ["source", "source/link"]);
    let restored = place
        .path("target")
        .join(place.source.strip_prefix("/").unwrap());
    let target = fs::read_link(restored.join("link")).unwrap();
    assert_eq!(target, PathBuf::from("file"));
    let link = place.path("link to the directory");
    let found = stored(&place, &[&link], backup_options());
    assert_eq!(found, ["link to the directory"]);
}

/// A source `/var/run/x`, where `/var/run` is a link: the link is followed.
#[test]
fn a_source_behind_a_link() {
    let place = Place::new();
    write(place.source.join("below/file"), b"x");
    symlink("source", place.path("link")).unwrap();
    let found = stored(&place, &[&place.path("link/below")], backup_options());
    assert!(
        found.iter().any(|name| name.ends_with("below/file")),
        "{found:?}"
    );
}

#[test]
fn a_relative_source_is_stored_by_its_absolute_path() {
    let place = Place::new();
    write(place.source.join("file"), b"x");
    let here = std::env::current_dir().unwrap();
    let up = "../".repeat(here.components().count() - 1);
    let relative = PathBuf::from(up).join(place.source.strip_prefix("/").unwrap());
    let found = stored(&place, &[&relative], backup_options());
    assert_eq!(found, ["source", "source/file"]);
}

#[test]
fn a_source_that_is_not_there() {
    let place = Place::new();
    let missing = place.path("missing");
    let result = crate::common::back_up_observed(
        &place.repository,
        &[&place.source, &missing],
        backup_options(),
        &Default::default(),
    );
    // The others are stored.
    let made = result.unwrap();
    assert_eq!(made.snapshot.summary.errors, 1);
    assert_eq!(made.snapshot.paths.len(), 2);
    let none = [missing.as_path()];
    let observer = Default::default();
    let result =
        crate::common::back_up_observed(&place.repository, &none, backup_options(), &observer);
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Path { .. }), "{error}");
    assert!(error.to_string().contains("missing"), "{error}");
    let listed = place.repository.snapshots(&Default::default());
    assert_eq!(listed.unwrap().snapshots.len(), 1);
}

#[test]
fn excludes() {
    let place = Place::new();
    for name in ["keep", "drop.o", "sub/keep", "sub/drop.o", "cache/x"] {
        write(place.source.join(name), name.as_bytes());
    }
    let found = stored(&place, &[&place.source], excluding(&["*.o", "cache"]));
    assert_eq!(
        found,
        ["source", "source/keep", "source/sub", "source/sub/keep"]
    );
    let too_large = backup_options().excludes(ExcludeOptions::default().larger_than(Some(1000)));
    write(place.source.join("large"), &random_bytes(1, 1001));
    let found = stored(&place, &[&place.source], too_large);
    assert!(!found.contains(&"source/large".to_owned()));
    assert!(found.contains(&"source/keep".to_owned()));
}

#[test]
fn ignore_files_and_cache_tags() {
    let place = Place::new();
    for name in ["keep", "drop.o", "sub/drop.o", "sub/keep"] {
        write(place.source.join(name), b"x");
    }
    write(place.source.join(".gitignore"), b"*.o\n");
    write(
        place.source.join("cached/CACHEDIR.TAG"),
        b"Signature: 8a477f597d28d172789f06886806bc55\n",
    );
    write(place.source.join("cached/thing"), b"x");
    let options = backup_options().excludes(
        ExcludeOptions::default()
            .caches(true)
            .ignore_files(vec![".gitignore".to_owned()]),
    );
    assert_eq!(
        stored(&place, &[&place.source], options),
        [
            "source",
            "source/.gitignore",
            "source/cached",
            "source/cached/CACHEDIR.TAG",
            "source/keep",
            "source/sub",
            "source/sub/keep",
        ]
    );
}

#[test]
fn what_is_asked_for_by_name_is_never_excluded() {
    let place = Place::new();
    let named = place.source.join("sub/named.o");
    write(&named, b"x");
    write(place.source.join("sub/other.o"), b"x");
    let found = stored(&place, &[&named], excluding(&["*.o"]));
    assert_eq!(found, ["source", "source/sub", "source/sub/named.o"]);
    // Also when something above it is asked for as well.
    let found = stored(&place, &[&place.source, &named], excluding(&["*.o"]));
    assert_eq!(found, ["source", "source/sub", "source/sub/named.o"]);
}

#[test]
fn one_file_system() {
    let place = Place::new();
    write(place.source.join("file"), b"x");
    let inner = place.source.join("mounted");
    fs::create_dir(&inner).unwrap();
    let Some(_mount) = Mount::tmpfs(&inner, "1m") else {
        return;
    };
    write(inner.join("foreign"), b"x");
    let options = || backup_options().one_file_system(true);
    let found = stored(&place, &[&place.source], options());
    assert_eq!(found, ["source", "source/file", "source/mounted"]);
    let found = stored(&place, &[&inner], options());
    assert_eq!(
        found,
        ["source", "source/mounted", "source/mounted/foreign"]
    );
    // As in `backup --one-file-system / /home`.
    let found = stored(&place, &[&place.source, &inner], options());
    assert_eq!(
        found,
        [
            "source",
            "source/file",
            "source/mounted",
            "source/mounted/foreign"
        ]
    );
}
