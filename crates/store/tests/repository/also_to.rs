//! Backups into several repositories from one read.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::common::fault::{Fault, FaultyStorage};
use crate::common::tree::{random_bytes, settle, small_tree, text, write};
use crate::common::{
    Place, assert_clean, assert_restores, back_up, backup_options, id, init, init_options,
    init_with, open,
};
use tabane_storage::{LocalStorage, ObjectKind};
use tabane_store::backup::Backup;
use tabane_store::chunker::Chunking;
use tabane_store::copy::CopyOptions;
use tabane_store::{Error, InitOptions, Repository};

/// Options of a repository that cuts files as the place's does.
fn alike(place: &Place) -> InitOptions {
    let config = place.repository.config();
    init_options()
        .hash(config.hash)
        .chunking(config.chunking)
        .chunker_secret(config.chunker_secret)
}

fn other(place: &Place, name: &str) -> Arc<Repository> {
    init_with(LocalStorage::new(place.path(name)), alike(place))
}

fn back_up_to(place: &Place, others: &[&Arc<Repository>]) -> tabane_store::Result<Backup> {
    let others = others.iter().map(|other| Repository::clone(other));
    let options = backup_options().also_to(others.collect());
    place.repository.backup(options, &[&place.source])
}

/// The snapshots that the others got, of which none failed.
fn copies(made: &Backup) -> Vec<tabane_storage::Id> {
    let ids = made
        .also
        .iter()
        .map(|also| also.id.as_ref().expect("no failure"));
    ids.map(|id| id.expect("it was stored")).collect()
}

fn packs(repository: &Repository) -> usize {
    repository.list(ObjectKind::Pack).expect("listed").len()
}

/// Each gets what it lacks, and nothing twice, whatever the others have.
#[test]
fn repositories_with_different_blocks_all_get_the_snapshot() {
    let place = Place::chunking(Chunking::content(32 << 10));
    small_tree(&place.source, 1);
    write(place.source.join("random"), &random_bytes(1, 3_000_000));
    let (behind, ahead) = (other(&place, "behind"), other(&place, "ahead"));
    // `behind` has nothing; of what comes later, `ahead` alone has a part.
    back_up(&place.repository, &[&place.source]);
    let part = place.source.join("part");
    write(&part, &text(2_000_000));
    back_up(&ahead, &[&place.source]);
    write(place.source.join("new"), &random_bytes(2, 1_000_000));
    settle();

    let made = back_up_to(&place, &[&behind, &ahead]).expect("backed up");
    let ids = copies(&made);
    assert_restores(&place.repository, id(&made), &place.source, &place.source);
    for (repository, copy) in [&behind, &ahead].into_iter().zip(ids) {
        assert_clean(repository);
        assert_restores(repository, copy, &place.source, &place.source);
        let there = repository.load_snapshot(copy).expect("loaded");
        assert_eq!(there.original, made.id);
        assert_eq!(
            (there.root, there.parent),
            (made.snapshot.root.clone(), None)
        );
    }
    assert_clean(&place.repository);
    let added = |copy| {
        let snapshot = ahead.load_snapshot(copy).expect("loaded");
        snapshot.summary.added_bytes
    };
    // The random megabyte and directories.
    assert!((1_000_000..1_100_000).contains(&added(copies(&made)[1])));

    // Now all have all: only directories above the source may be new.
    let again = back_up_to(&place, &[&behind, &ahead]).expect("backed up");
    assert!(
        again.unchanged && again.snapshot.summary.read_bytes < 2_000_000,
        "{again:?}"
    );
    assert!(added(copies(&again)[1]) < 10_000);
    let report = place.repository.copy_to(
        CopyOptions::default(),
        &behind,
        &place
            .repository
            .snapshots(&Default::default())
            .expect("listed")
            .snapshots[1..],
    );
    // What `copy` would have made is there.
    assert_eq!(report.expect("copied").present.len(), 2);
}

/// So many sets of repositories lack a block that an encoder cannot keep a segment open for each.
#[test]
fn each_of_many_repositories_lacks_other_files() {
    let place = Place::chunking(Chunking::content(32 << 10));
    let others: Vec<_> = (0..5)
        .map(|number| other(&place, &number.to_string()))
        .collect();
    let all = place.path("all");
    for file in 0..32 {
        let name = file.to_string();
        write(all.join(&name), &random_bytes(file, 100_000));
        // Wherever it is cut, no two have a block in common.
        let text: Vec<u8> = text(30_000)
            .into_iter()
            .map(|byte| byte ^ file as u8)
            .collect();
        write(place.source.join(&name).with_extension("text"), &text);
        fs::copy(all.join(&name), place.source.join(&name)).expect("copied");
    }
    for (number, other) in others.iter().enumerate() {
        let has = (0..32).filter(|file| file >> number & 1 == 0);
        let files: Vec<_> = has.map(|file: u32| all.join(file.to_string())).collect();
        other
            .backup(backup_options(), files.as_slice())
            .expect("backed up");
    }
    let made = back_up_to(&place, &others.iter().collect::<Vec<_>>()).expect("backed up");
    for (other, copy) in others.iter().zip(copies(&made)) {
        assert_clean(other);
        assert_restores(other, copy, &place.source, &place.source);
        let added = other
            .load_snapshot(copy)
            .expect("loaded")
            .summary
            .added_bytes;
        // Sixteen files of random bytes, and all the texts.
        assert!((2_560_000..2_700_000).contains(&added), "{added}");
    }
    assert_restores(&place.repository, id(&made), &place.source, &place.source);
    assert_clean(&place.repository);
}

/// An empty repository whose storage fails from some operation on, the first behind its opening.
fn fails_after(place: &Place, operation: u64) -> Arc<Repository> {
    let root = place.path("faulty");
    let _ = fs::remove_dir_all(&root);
    drop(init_with(LocalStorage::new(&root), alike(place)));
    let faulty = FaultyStorage::new(root.clone(), Fault::FailFrom, u64::MAX);
    let done = faulty.done();
    drop(open(faulty));
    let opening = done.load(Ordering::SeqCst);
    open(FaultyStorage::new(
        root,
        Fault::FailFrom,
        opening + operation,
    ))
}

/// What fails at one place, at any operation, stops nothing elsewhere.
#[test]
fn a_repository_that_fails_does_not_stop_the_others() {
    let place = Place::new();
    small_tree(&place.source, 2);
    write(place.source.join("random"), &random_bytes(3, 200_000));
    let second = other(&place, "second");
    let mut failures = 0;
    for at in 1.. {
        let faulty = fails_after(&place, at);
        fs::write(place.source.join("number"), at.to_string()).expect("written");
        let made = back_up_to(&place, &[&faulty, &second]).expect("backed up");
        assert_restores(&place.repository, id(&made), &place.source, &place.source);
        let copy = made.also[1]
            .id
            .as_ref()
            .expect("it went on")
            .expect("stored");
        assert_restores(&second, copy, &place.source, &place.source);
        assert_clean(&open(LocalStorage::new(place.path("faulty"))));
        if made.also[0].id.is_ok() {
            break;
        }
        failures += 1;
    }
    assert!(failures > 3, "{failures}");
    assert_clean(&place.repository);
    assert_clean(&second);
}

/// If the first repository fails, at any operation, the backup does, and others get no snapshot.
#[test]
fn nothing_is_committed_if_the_first_repository_fails() {
    let place = Place::new();
    small_tree(&place.source, 4);
    let second = other(&place, "second");
    let mut failures = 0;
    for at in 1.. {
        let faulty = fails_after(&place, at);
        let options = backup_options().also_to(vec![Repository::clone(&second)]);
        if faulty.backup(options, &[&place.source]).is_ok() {
            break;
        }
        failures += 1;
        let snapshots = second.list(ObjectKind::Snapshot).expect("listed");
        assert!(snapshots.is_empty(), "{at}");
    }
    assert!(failures > 3, "{failures}");
    assert_clean(&second);
}

#[test]
fn a_dry_run_stores_nothing_anywhere() {
    let place = Place::new();
    small_tree(&place.source, 5);
    let second = other(&place, "second");
    let options = backup_options()
        .also_to(vec![Repository::clone(&second)])
        .dry_run(true);
    let made = place
        .repository
        .backup(options, &[&place.source])
        .expect("no error");
    assert!(matches!(made.also[0].id, Ok(None)));
    assert_eq!((packs(&place.repository), packs(&second)), (0, 0));
}

#[test]
fn repositories_that_cut_otherwise_are_refused() {
    let place = Place::new();
    small_tree(&place.source, 6);
    let refused = |others: &[&Arc<Repository>]| back_up_to(&place, others).expect_err("refused");
    let cuts = init(LocalStorage::new(place.path("cuts")));
    assert!(matches!(refused(&[&cuts]), Error::OtherCuts(_)));
    let hash = alike(&place).hash(tabane_engine::Algorithm::Blake3);
    let hash = init_with(LocalStorage::new(place.path("hash")), hash);
    assert!(matches!(refused(&[&hash]), Error::Invalid(_)));
    let format = init_with(
        LocalStorage::new(place.path("format")),
        alike(&place).format(1),
    );
    assert!(matches!(refused(&[&format]), Error::OlderFormat { .. }));
    let same: PathBuf = place.path("repository");
    assert!(matches!(
        refused(&[&open(LocalStorage::new(same))]),
        Error::Invalid(_)
    ));
    let twice = other(&place, "twice");
    assert!(matches!(refused(&[&twice, &twice]), Error::Invalid(_)));
    assert_eq!(packs(&place.repository), 0);
}
