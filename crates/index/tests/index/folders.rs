//! The folders of a cache: where they are, what is in them, what goes.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use tabane_index::{Cache, Cached};
use tabane_storage::Id;

use crate::bed::{Objects, Part, cache, id, names, only_run, pack, warning_cache};

fn objects() -> Objects {
    let mut objects = Objects::default();
    objects.add(vec![(id(101), pack(&[&[1], &[2]]))]);
    objects
}

/// Where the environment of a child process has the expected folder.
const EXPECTED: &str = "TABANE_TEST_EXPECTED_ROOT";

#[test]
fn the_default_folder_is_where_the_environment_says() {
    if let Some(expected) = std::env::var_os(EXPECTED) {
        let root = Cache::default_root().unwrap_or_default();
        assert_eq!(root, PathBuf::from(expected));
        return;
    }
    for (xdg, home, expected) in [
        (Some("/xdg"), Some("/home/me"), "/xdg/tabane"),
        (Some("/xdg"), None, "/xdg/tabane"),
        (Some("xdg"), Some("/home/me"), "/home/me/.cache/tabane"),
        (Some(""), Some("/home/me"), "/home/me/.cache/tabane"),
        (None, Some("/home/me"), "/home/me/.cache/tabane"),
        (None, Some("me"), ""),
        (None, None, ""),
    ] {
        let name = "folders::the_default_folder_is_where_the_environment_says";
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", name]).env(EXPECTED, expected);
        for (variable, value) in [("XDG_CACHE_HOME", xdg), ("HOME", home)] {
            match value {
                Some(value) => child.env(variable, value),
                None => child.env_remove(variable),
            };
        }
        assert!(child.output().unwrap().status.success(), "{expected}");
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_cache_is_for_its_owner_and_says_that_it_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("some/where");
    let cache = cache(&root);
    cache.load_index(&objects()).unwrap();
    let runs = root.join(id(0).to_string());
    assert_eq!(cache.folder(id(0)), runs);
    assert_eq!(
        (mode(&root), mode(&runs), mode(&only_run(&runs))),
        (0o700, 0o700, 0o600)
    );
    assert_eq!(names(&root), [id(0).to_string(), "CACHEDIR.TAG".to_owned()]);
    let tag = root.join("CACHEDIR.TAG");
    let text = "Signature: 8a477f597d28d172789f06886806bc55\n\
        # This directory is a cache of tabane: it can be removed at any time.\n";
    assert_eq!(fs::read_to_string(&tag).unwrap(), text);
    // It is written once.
    fs::write(&tag, "mine").unwrap();
    cache.load_index(&objects()).unwrap();
    assert_eq!(fs::read_to_string(&tag).unwrap(), "mine");
}

fn age(path: &Path, days: u64) {
    let time = SystemTime::now() - Duration::from_secs(days * 86_400);
    let is_file = path.is_file();
    let file = OpenOptions::new()
        .read(true)
        .write(is_file)
        .open(path)
        .unwrap();
    file.set_modified(time).unwrap();
}

fn is_used(path: &Path) -> bool {
    let time = fs::metadata(path).unwrap().modified().unwrap();
    time.elapsed()
        .is_ok_and(|age| age < Duration::from_secs(3600))
}

#[test]
fn folders_of_a_repository_tell_when_it_was_used() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path());
    let part = Part("unverified", objects());
    let objects = objects();
    cache.load_index(&part).unwrap();
    cache.load_index(&objects).unwrap();
    let of_repository = cache.folder(id(0));
    let of_part = of_repository.join("unverified");
    only_run(&of_part);
    let all = [folder.path(), &of_repository, &of_part];
    let used = |load: &dyn Fn()| {
        all.iter().for_each(|path| age(path, 3));
        load();
        all.map(is_used)
    };
    let load = || drop(cache.load_index(&objects).unwrap());
    assert_eq!(used(&load), [false, true, false]);
    let load = || drop(cache.load_index(&part).unwrap());
    assert_eq!(used(&load), [false, true, true]);
}

#[test]
fn runs_of_a_repository_and_its_parts_are_forgotten_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path());
    // Nothing is there yet.
    cache.forget(id(0));
    cache.load_index(&objects()).unwrap();
    cache.load_index(&Part("unverified", objects())).unwrap();
    let of_repository = cache.folder(id(0));
    fs::write(of_repository.join("other"), "kept").unwrap();
    fs::create_dir(of_repository.join("packs")).unwrap();
    fs::write(of_repository.join("packs/segment"), "kept").unwrap();
    cache.forget(id(0));
    assert_eq!(names(&of_repository), ["other", "packs", "unverified"]);
    assert_eq!(names(&of_repository.join("unverified")), [""; 0]);
    assert_eq!(names(&of_repository.join("packs")), ["segment"]);
    let objects = objects();
    cache.load_index(&objects).unwrap();
    assert_eq!(objects.take_read().len(), 1);
}

#[test]
fn what_cannot_be_forgotten_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, warnings) = warning_cache(folder.path());
    fs::create_dir_all(cache.folder(id(0)).join("index2-folder")).unwrap();
    cache.forget(id(0));
    assert_eq!(warnings.lock().unwrap().len(), 1);
}

#[test]
fn parts_of_a_cache_are_listed_with_their_sizes_the_last_used_first() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    assert_eq!(Cached::list(&root.join("none")).unwrap().len(), 0);
    let mut expected = Vec::new();
    for (number, days) in [(7, 2), (3, 1), (5, 3)] {
        let part = root.join(id(number).to_string());
        fs::create_dir_all(part.join("packs/more")).unwrap();
        let lens = [1000 * usize::from(number), 500, 7];
        for (name, len) in ["index2-1", "packs/one", "packs/more/two"].iter().zip(lens) {
            fs::write(part.join(name), vec![0; len]).unwrap();
        }
        age(&part, days);
        expected.push((days, id(number), part, lens.iter().sum::<usize>() as u64));
    }
    expected.sort();
    fs::write(root.join("CACHEDIR.TAG"), "a tag").unwrap();
    fs::create_dir(root.join("something")).unwrap();
    let listed = Cached::list(root).unwrap();
    let days = |used: SystemTime| used.elapsed().unwrap().as_secs() / 86_400;
    let found = listed.iter().map(|cached| {
        let Cached {
            repository,
            path,
            bytes,
            used,
        } = cached.clone();
        (days(used), repository, path, bytes)
    });
    assert_eq!(found.collect::<Vec<(u64, Id, PathBuf, u64)>>(), expected);

    listed[0].remove().unwrap();
    assert!(!listed[0].path.exists());
    assert_eq!(Cached::list(root).unwrap().len(), 2);
    let path = listed[0].path.display();
    let text = format!("cannot remove {path}: No such file or directory (os error 2)");
    assert_eq!(listed[0].remove().unwrap_err().to_string(), text);
}

#[test]
fn a_cache_that_is_no_folder_cannot_be_listed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "").unwrap();
    let error = Cached::list(&path).unwrap_err().to_string();
    let text = format!(
        "cannot list {}: Not a directory (os error 20)",
        path.display()
    );
    assert_eq!(error, text);
}

#[test]
fn without_a_folder_the_index_is_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("file");
    fs::write(&root, "").unwrap();
    let (cache, warnings) = warning_cache(&root);
    for _ in 0..2 {
        let objects = objects();
        assert_eq!(cache.load_index(&objects).unwrap().len(), 2);
    }
    cache.forget(id(0));
    let root = root.display();
    let text = format!("cannot use the cache in {root}: ");
    let warnings = warnings.lock().unwrap();
    assert_eq!(warnings.len(), 1);
    let why = warnings[0].strip_prefix(&text).unwrap();
    assert!(why.ends_with("; going on without it"), "{why}");
}

#[test]
fn files_that_dead_processes_left_go_when_they_are_old() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path());
    cache.load_index(&objects()).unwrap();
    let of_repository = cache.folder(id(0));
    for (name, days) in [
        ("tmp-old", 2),
        ("tmp-young", 0),
        ("index1-old", 2),
        ("index1-young", 0),
        ("other", 9),
    ] {
        fs::write(of_repository.join(name), "half a run").unwrap();
        age(&of_repository.join(name), days);
    }
    cache.load_index(&objects()).unwrap();
    let mut left = names(&of_repository);
    left.retain(|name| !name.starts_with("index2-"));
    assert_eq!(left, ["index1-young", "other", "tmp-young"]);
}

#[test]
fn a_run_that_vanishes_meanwhile_is_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path());
    let objects = objects();
    cache.load_index(&objects).unwrap();
    // A name without a file, as if the run had gone behind the listing.
    let link = cache.folder(id(0)).join("index2-gone");
    symlink("nowhere", &link).unwrap();
    objects.take_read();
    assert_eq!(cache.load_index(&objects).unwrap().len(), 2);
    assert_eq!(objects.take_read(), []);
    assert!(link.is_symlink());
}

#[test]
fn a_run_that_cannot_be_read_is_a_warning_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, warnings) = warning_cache(folder.path());
    let objects = objects();
    cache.load_index(&objects).unwrap();
    let link = cache.folder(id(0)).join("index2-loop");
    symlink("index2-loop", &link).unwrap();
    assert_eq!(cache.load_index(&objects).unwrap().len(), 2);
    assert!(link.is_symlink());
    let warnings = warnings.lock().unwrap();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("symbolic links"), "{warnings:?}");
}
