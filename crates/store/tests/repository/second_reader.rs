//! `contrib/read-repository.py`, which was written from the page of the format alone, restores what
//! this crate writes and what it wrote long ago.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use crate::common::tree::{set_mtime, small_tree, sparse, text, write};
use crate::common::{
    Place, back_up, compare, init_options, init_with, not_checked, password, restore_options,
    restore_with, scratch, striped,
};
use tabane_storage::{LocalStorage, Storage};
use tabane_store::chunker::Chunking;
use tabane_store::key::KdfCost;
use tabane_store::snapshot::Filter;
use tabane_store::{Algorithm, PruneOptions, Repository};

const PACKAGES: &str = "blake3, cryptography.hazmat.primitives.asymmetric.mlkem, xxhash, zstandard";

/// A Python that has what the reader needs: that of `make test-tools`, or the one in the path.
fn python() -> Option<PathBuf> {
    let test = std::env::current_exe().expect("the path of this program");
    let tools = test
        .ancestors()
        .map(|folder| folder.join("tools/python/bin/python"));
    let has_packages = |python: &PathBuf| {
        let tried = Command::new(python)
            .args(["-c", &format!("import {PACKAGES}")])
            .output();
        tried.is_ok_and(|tried| tried.status.success())
    };
    let found = tools.chain([PathBuf::from("python3")]).find(has_packages);
    if found.is_none() {
        not_checked(
            "repositories with a second reader",
            format!("no Python has {PACKAGES} (make test-tools installs them)"),
        );
    }
    found
}

/// Runs the reader.
fn read(python: &Path, arguments: &[&Path]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/read-repository.py");
    let mut command = Command::new(python);
    command.arg(script).args(arguments);
    command
        .env_remove("TABANE_PASSWORD_FILE")
        .env("TABANE_PASSWORD", "correct horse");
    command.output().expect("the reader runs")
}

/// Restores the latest snapshot of a repository at these places with the reader, and wants below
/// `source` what is there.
fn assert_reads(python: &Path, places: &[PathBuf], source: &Path, expected: &Path) {
    let target = scratch();
    let mut arguments = vec![Path::new("restore")];
    arguments.extend(places.iter().map(PathBuf::as_path));
    arguments.extend([Path::new("latest"), target.path()]);
    let output = read(python, &arguments);
    assert!(output.status.success(), "{output:?}");
    let below = source.strip_prefix("/").expect("an absolute path");
    compare::assert_same_contents(expected, &target.path().join(below));
}

fn fill(source: &Path) {
    small_tree(source, 7);
    sparse(
        &source.join("sparse"),
        3_000_000,
        &[(70_000, b"some"), (2_000_000, b"more")],
    );
    symlink("nowhere", source.join("dangling")).unwrap();
    set_mtime(&source.join("text"), -5, 7);
}

#[test]
fn the_second_reader_restores_what_is_written_now() {
    let Some(python) = python() else { return };
    for hash in [Algorithm::Sha256, Algorithm::Blake3, Algorithm::Sha1] {
        for chunking in [Chunking::default(), Chunking::Fixed { len: 4096 }] {
            let place = Place::with(init_options().hash(hash).chunking(chunking));
            fill(&place.source);
            back_up(&place.repository, &[&place.source]);
            let repository = place.path("repository");
            assert_reads(&python, &[repository], &place.source, &place.source);
        }
    }
}

#[test]
fn the_second_reader_restores_what_a_write_only_key_stored() {
    let Some(python) = python() else { return };
    let place = Place::new();
    fill(&place.source);
    back_up(&place.repository, &[&place.source]);
    let key = b"write only".to_vec().into();
    place
        .repository
        .add_write_only_key(&key, KdfCost::WEAKEST)
        .unwrap();
    let path = place.path("repository");
    let open = |password| {
        let storage = Arc::new(LocalStorage::new(path.clone()));
        Arc::new(Repository::open(storage, password).unwrap())
    };
    write(place.source.join("of the writer"), &text(300));
    back_up(&open(&key), &[&place.source]);
    assert_reads(
        &python,
        std::slice::from_ref(&path),
        &place.source,
        &place.source,
    );
    // And when a prune has verified it.
    let plan = open(&password())
        .plan_prune(PruneOptions::default())
        .unwrap();
    assert!(plan.execute().unwrap().verified_packs > 0);
    assert_reads(
        &python,
        std::slice::from_ref(&path),
        &place.source,
        &place.source,
    );
}

#[test]
fn the_second_reader_restores_a_striped_repository_without_any_two_targets() {
    let Some(python) = python() else { return };
    let dir = scratch();
    let source = dir.path().join("source");
    fs::create_dir(&source).unwrap();
    fill(&source);
    for count in [3, 4, 5, 9] {
        let target = |number| dir.path().join(format!("{count}-{number}"));
        let targets: Vec<PathBuf> = (0..count).map(target).collect();
        let storages = targets.iter().map(|path| {
            let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(path.clone()));
            storage
        });
        let set = striped::new_set(storages.collect(), false);
        back_up(&init_with(set, init_options()), &[&source]);
        for (first, second) in [(0, 1), (1, count - 1), (count - 2, count - 1)] {
            let mut left = targets.clone();
            left.remove(second);
            left.remove(first);
            assert_reads(&python, &left, &source, &source);
        }
    }
}

#[test]
fn the_second_reader_names_what_is_damaged_and_restores_the_rest() {
    let Some(python) = python() else { return };
    let place = Place::new();
    fill(&place.source);
    back_up(&place.repository, &[&place.source]);
    let mut packs = Vec::new();
    for folder in fs::read_dir(place.path("repository/packs")).unwrap() {
        for pack in fs::read_dir(folder.unwrap().path()).unwrap() {
            packs.push(pack.unwrap().path());
        }
    }
    let largest = packs
        .iter()
        .max_by_key(|pack| fs::metadata(pack).unwrap().len())
        .unwrap();
    let mut bytes = fs::read(largest).unwrap();
    bytes[100] ^= 1;
    fs::remove_file(largest).unwrap();
    fs::write(largest, bytes).unwrap();
    let target = place.path("target");
    let repository = place.path("repository");
    let output = read(
        &python,
        &["restore".as_ref(), &repository, "latest".as_ref(), &target],
    );
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        told.contains("not restored: ") && told.contains("is damaged"),
        "{told}"
    );
    let below = target.join(place.source.strip_prefix("/").unwrap());
    assert_eq!(fs::read(below.join("empty")).unwrap(), b"");
}

#[test]
fn repositories_of_the_first_format_are_restored_by_both_readers() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-1");
    let expected = fixtures.join("expected");
    let python = python();
    for hash in ["sha256", "blake3", "sha1"] {
        // Beside the fixture, since files are linked.
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        // The fixture itself stays as it is.
        let copied = dir.path().join(hash);
        crate::common::tree::link_tree(&fixtures.join(hash), &copied);
        // Git keeps no empty folders.
        for folder in ["clients", "pending", "removals"] {
            let _ = fs::create_dir(copied.join(folder));
        }
        let storage = Arc::new(LocalStorage::new(copied.clone()));
        let repository = Arc::new(Repository::open(storage, &password()).expect("open"));
        let (latest, _) = repository
            .find_snapshot("latest", &Filter::default())
            .unwrap();
        let target = dir.path().join("target");
        let options = restore_options(&target).subpath(PathBuf::from("/tmp/fixture"));
        restore_with(&repository, latest, options);
        assert_eq!(compare::contents(&target), compare::contents(&expected));
        let Some(python) = &python else { continue };
        let read_to = dir.path().join("read");
        let output = read(
            python,
            &["restore".as_ref(), &copied, "latest".as_ref(), &read_to],
        );
        assert!(output.status.success(), "{output:?}");
        assert_eq!(
            compare::contents(&read_to.join("tmp/fixture")),
            compare::contents(&expected)
        );
    }
}
