//! The next backup reads what has changed, all of it, and nothing else.

use std::fs::{self, Permissions};
use std::ops::ControlFlow;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::common::tree::{random_bytes, set_mtime, settle, small_tree, write};
use crate::common::{
    Place, Recorder, back_up, back_up_observed, back_up_with, backup_options, compare, id,
};
use tabane_storage::{Name, ObjectKind};
use tabane_store::Outcome;
use tabane_store::backup::{Backup, BackupOptions, Parent};
use tabane_store::browse::Browser;
use tabane_store::entry::Entry;
use tabane_store::find::{Finder, Pattern, Query};
use tabane_store::history::PathHistory;
use tabane_store::lister::Lister;
use tabane_store::snapshot::{Filter, Summary};
use tabane_testing::random::Random;

/// A source that was backed up once.
fn backed_up() -> (Place, Backup) {
    let place = Place::new();
    small_tree(&place.source, 1);
    write(place.source.join("big"), &random_bytes(2, 3 << 20));
    settle();
    let made = back_up(&place.repository, &[&place.source]);
    (place, made)
}

/// Backs up once more, compares what is restored, and returns the summary and what became of each
/// file.
fn again(place: &Place) -> (Summary, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let made = back_up_observed(
        &place.repository,
        &[&place.source],
        backup_options(),
        &recorder,
    )
    .unwrap();
    assert_eq!(recorder.warnings(), []);
    let target = place.path("target");
    let _ = fs::remove_dir_all(&target);
    place.restore_source(&made, &target);
    compare::assert_same_contents(&place.source, &target);
    (made.snapshot.summary, recorder)
}

/// What a snapshot has of the source.
fn source_in(place: &Place, made: &Backup) -> Entry {
    let mut browser = Browser::new(&place.repository).unwrap();
    browser
        .find(id(made), &made.snapshot, &place.source)
        .unwrap()
}

#[test]
fn what_changed_after_a_backup_began_is_read_again() {
    let place = Place::new();
    small_tree(&place.source, 1);
    let late = place.source.join("zzz");
    write(&late, b"before");
    let changed = late.clone();
    // The file is written after the backup began and before it is read; a second write might follow
    // in the same tick.
    let recorder = Arc::new(Recorder::on_entry(move |path, outcome| {
        if outcome == Outcome::Directory && changed.starts_with(path) {
            fs::write(&changed, b"behind").unwrap();
        }
    }));
    let paths = [place.source.as_path()];
    back_up_observed(&place.repository, &paths, backup_options(), &recorder).unwrap();
    let second = back_up(&place.repository, &paths);
    assert!(second.snapshot.summary.read_bytes >= 6);
    let third = back_up(&place.repository, &paths);
    assert_eq!(third.snapshot.summary.files_new, 0);
}

#[test]
fn what_a_lost_pack_held_is_stored_again() {
    let (place, _) = backed_up();
    let kind = ObjectKind::Pack;
    for (pack, len) in place.repository.list(kind).unwrap() {
        if len > 400_000 {
            place
                .repository
                .storage()
                .delete(Name::new(kind, pack))
                .unwrap();
        }
    }
    let recorder = Arc::new(Recorder::default());
    let paths = [place.source.as_path()];
    let made = back_up_observed(&place.repository, &paths, backup_options(), &recorder).unwrap();
    assert!(
        recorder
            .warnings()
            .iter()
            .any(|(_, what)| what.contains("stored again"))
    );
    assert!(made.snapshot.summary.added_bytes > 400_000);
    crate::common::assert_clean(&place.repository);
    crate::common::assert_restores(&place.repository, id(&made), &place.source, &place.source);
}

#[test]
fn nothing_changed() {
    let (place, first) = backed_up();
    let second = back_up(&place.repository, &[&place.source]);
    assert_eq!(second.snapshot.parent, first.id);
    let summary = &second.snapshot.summary;
    let files = first.snapshot.summary.files_new;
    assert_eq!(summary.read_bytes, 0);
    // Directories above the source may have changed: others use them, too.
    assert!(summary.added_bytes < 10_000);
    assert_eq!((summary.files_new, summary.files_changed), (0, 0));
    assert_eq!(summary.files_unmodified, files);
    assert_eq!(summary.total_bytes, first.snapshot.summary.total_bytes);
    assert_eq!(source_in(&place, &second), source_in(&place, &first));
    again(&place);
}

#[test]
fn a_touched_file_is_read_and_adds_nothing_but_its_directory() {
    let (place, _) = backed_up();
    set_mtime(&place.source.join("random"), 1_000_000_000, 5);
    let (summary, recorder) = again(&place);
    assert_eq!(summary.read_bytes, 70_000);
    assert_eq!(summary.files_changed, 1);
    assert!(summary.added_bytes < 20_000);
    let outcome = |name: &str| recorder.outcome(&place.source.join(name));
    assert_eq!(outcome("random"), Some(Outcome::Changed));
    assert_eq!(outcome("big"), Some(Outcome::Unmodified));
}

/// Neither length nor time of the last change tell; the time of the last change of the inode does.
#[test]
fn a_change_that_hides_itself() {
    let (place, _) = backed_up();
    for name in ["random", "big"] {
        let path = place.source.join(name);
        let before = fs::metadata(&path).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        bytes[12_345] ^= 1;
        fs::write(&path, bytes).unwrap();
        set_mtime(&path, before.mtime(), before.mtime_nsec() as u32);
        let after = fs::metadata(&path).unwrap();
        assert_eq!(before.modified().unwrap(), after.modified().unwrap());
        assert_eq!(before.len(), after.len());
    }
    let (summary, _) = again(&place);
    assert_eq!(summary.files_changed, 2);
}

#[test]
fn a_file_replaced_by_another_of_the_same_length_and_time() {
    let (place, _) = backed_up();
    let path = place.source.join("random");
    let before = fs::metadata(&path).unwrap();
    write(place.path("other"), &random_bytes(9, 70_000));
    fs::rename(place.path("other"), &path).unwrap();
    set_mtime(&path, before.mtime(), before.mtime_nsec() as u32);
    assert_eq!(again(&place).0.files_changed, 1);
}

#[test]
fn attributes_alone() {
    let (place, _) = backed_up();
    let path = place.source.join("random");
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    let _ = xattr::set(place.source.join("text"), "user.new", b"v");
    let _ = xattr::set(place.source.join("many"), "user.new", b"v");
    again(&place);
}

#[test]
fn new_and_removed_and_changed_types() {
    let (place, _) = backed_up();
    let at = |name: &str| place.source.join(name);
    write(at("new"), b"new");
    fs::remove_file(at("one byte")).unwrap();
    fs::remove_file(at("random")).unwrap();
    write(at("random/is a directory now"), b"x");
    fs::remove_dir(at("empty directory")).unwrap();
    write(at("empty directory"), b"is a file now");
    fs::remove_file(at("many/link")).unwrap();
    write(at("many/link"), b"is a file now");
    let (summary, _) = again(&place);
    assert_eq!(summary.files_new + summary.files_changed, 4);
}

#[test]
fn renamed_files_add_no_data() {
    let (place, _) = backed_up();
    fs::rename(place.source.join("big"), place.source.join("renamed")).unwrap();
    let (summary, _) = again(&place);
    assert_eq!(summary.read_bytes, 3 << 20);
    assert!(summary.added_bytes < 20_000);
}

#[test]
fn an_insertion_adds_what_is_around_it() {
    let (place, _) = backed_up();
    let mut bytes = random_bytes(3, 8 << 20);
    write(place.source.join("file"), &bytes);
    again(&place);
    bytes.insert(1_000_000, 7);
    write(place.source.join("file"), &bytes);
    let (summary, _) = again(&place);
    assert!(summary.added_bytes < 3 << 20, "{}", summary.added_bytes);
}

#[test]
fn no_parent_on_request() {
    let (place, _) = backed_up();
    let options = backup_options().parent(Parent::None);
    let made = back_up_with(&place.repository, &[&place.source], options);
    let summary = &made.snapshot.summary;
    assert_eq!(made.snapshot.parent, None);
    assert!(summary.added_bytes < 10_000);
    // Names of one inode are read once each.
    assert_eq!(summary.read_bytes, summary.total_bytes);
}

#[test]
fn which_parent() {
    let (place, first) = backed_up();
    let parent = |options: BackupOptions, paths: &[&Path]| {
        back_up_with(&place.repository, paths, options)
            .snapshot
            .parent
    };
    let source: &[&Path] = &[&place.source];
    let other_host = backup_options().hostname("another".to_owned());
    assert_eq!(parent(other_host, source), None);
    let below = place.source.join("many");
    assert_eq!(parent(backup_options(), &[&below]), None);
    // A backup of another time is not compared with one from after it.
    let early = backup_options().time("2001-02-03T04:05:06Z".parse::<jiff::Timestamp>().unwrap());
    assert_eq!(parent(early, source), None);
    assert_eq!(parent(backup_options(), source), first.id);
    let chosen = backup_options().parent(Parent::Snapshot(id(&first)));
    assert_eq!(parent(chosen, source), first.id);
}

/// As after a `prune` that went wrong: what is gone is stored again.
#[test]
fn a_parent_whose_blocks_are_gone() {
    let (place, _) = backed_up();
    let repository = place.path("repository");
    fs::remove_dir_all(repository.join("index")).unwrap();
    fs::create_dir(repository.join("index")).unwrap();
    let recorder = Arc::new(Recorder::default());
    let made = back_up_observed(
        &place.repository,
        &[&place.source],
        backup_options(),
        &recorder,
    )
    .unwrap();
    assert_eq!(made.snapshot.summary.files_unmodified, 0);
    crate::common::assert_restores(&place.repository, id(&made), &place.source, &place.source);
}

#[test]
fn a_dry_run_stores_nothing() {
    let (place, _) = backed_up();
    write(place.source.join("new"), &random_bytes(4, 5 << 20));
    let before = compare::listing(&place.path("repository"));
    let options = backup_options().dry_run(true);
    let made = back_up_with(&place.repository, &[&place.source], options);
    assert_eq!(compare::listing(&place.path("repository")), before);
    assert_eq!(made.id, None);
    let summary = &made.snapshot.summary;
    assert_eq!(summary.files_new, 1);
    // What cannot be compressed would take as much as it is.
    assert!(summary.added_bytes >= 5 << 20 && summary.stored_bytes >= 5 << 20);
    let listed = place.repository.snapshots(&Default::default()).unwrap();
    assert_eq!(listed.snapshots.len(), 1);
}

/// What a comparison of two file systems tells of random changes: names of what was changed, made
/// or removed; of a directory that was renamed only the two names.
fn change_at_random(root: &Path, random: &mut Random) -> Vec<PathBuf> {
    let mut directories = vec![root.to_owned()];
    let mut files = Vec::new();
    let mut next = 0;
    while let Some(directory) = directories.get(next).cloned() {
        next += 1;
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                directories.push(entry.path());
            } else {
                files.push(entry.path());
            }
        }
    }
    let number = random.next_u64();
    let new =
        directories[random.below(directories.len() as u64) as usize].join(format!("{number}"));
    let file =
        (!files.is_empty()).then(|| files[random.below(files.len() as u64) as usize].clone());
    let old = directories[random.below(directories.len() as u64) as usize].clone();
    let is_usable = old != root && !new.starts_with(&old);
    match (random.below(6), file) {
        (0, Some(file)) => {
            fs::remove_file(&file).unwrap();
            vec![file]
        }
        (1, Some(file)) => {
            fs::write(&file, random.noise(1000)).unwrap();
            vec![file]
        }
        (2, Some(file)) => {
            fs::rename(&file, &new).unwrap();
            vec![file, new]
        }
        (3, _) if is_usable => {
            fs::rename(&old, &new).unwrap();
            vec![old, new]
        }
        (4, _) if is_usable && random.below(3) == 0 => {
            // A new directory takes the name of an old one.
            fs::remove_dir_all(&old).unwrap();
            fs::create_dir(&old).unwrap();
            fs::write(old.join("other"), random.noise(10)).unwrap();
            vec![old]
        }
        (number, _) if number > 3 => {
            fs::create_dir(&new).unwrap();
            let inner = new.join("inner");
            fs::write(&inner, random.noise(500)).unwrap();
            vec![new, inner]
        }
        _ => {
            fs::write(&new, random.noise(500)).unwrap();
            vec![new]
        }
    }
}

#[test]
fn with_a_list_of_changes_the_rest_is_not_looked_at() {
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let (place, _) = backed_up();
        // The parent of one with a list may itself be one.
        for round in 0..5 {
            let mut changed = Vec::new();
            for _ in 0..=random.below(5) {
                changed.extend(change_at_random(&place.source, &mut random));
            }
            let options = backup_options().dry_run(true);
            let expected = back_up_with(&place.repository, &[&place.source], options);
            let options = backup_options().changed(changed.clone());
            let made = back_up_with(&place.repository, &[&place.source], options);
            let context = format!("seed {seed}, round {round}: {changed:?}");
            let totals = |made: &Backup| {
                let summary = &made.snapshot.summary;
                let files = summary.files_new + summary.files_changed + summary.files_unmodified;
                (
                    files,
                    summary.directories,
                    summary.others,
                    summary.total_bytes,
                )
            };
            assert_eq!(totals(&made), totals(&expected), "{context}");
            let target = place.path("target");
            let _ = fs::remove_dir_all(&target);
            place.restore_source(&made, &target);
            compare::assert_same_contents(&place.source, &target);
        }
        crate::common::assert_clean(&place.repository);
    }
}

#[test]
fn what_a_list_of_changes_does_not_name_is_taken_from_the_parent() {
    let (place, first) = backed_up();
    let hidden = place.source.join("many/hidden");
    write(&hidden, b"not in the list");
    write(place.source.join("seen/too"), b"in the list");
    let changed = [place.source.join("seen")];
    let options = backup_options().changed(changed.to_vec());
    let recorder = Arc::new(Recorder::default());
    let paths = [place.source.as_path()];
    let made = back_up_observed(&place.repository, &paths, options, &recorder).unwrap();
    assert_eq!(recorder.notes(), Vec::<String>::new());
    assert!(!browser_has(&place, &made, &hidden));
    assert!(browser_has(&place, &made, &place.source.join("seen/too")));
    // Nothing at all has changed.
    let none = backup_options().changed(Vec::new()).skip_if_unchanged(true);
    let made = back_up_with(&place.repository, &paths, none);
    assert!(made.unchanged && made.id.is_none());
    // With another parent than the list was made for, or none, everything is looked at.
    let other = backup_options().hostname("other").changed(Vec::new());
    let recorder = Arc::new(Recorder::default());
    let made = back_up_observed(&place.repository, &paths, other, &recorder).unwrap();
    let notes = recorder.notes();
    assert!(
        notes[0].contains("no snapshot to compare with"),
        "{notes:?}"
    );
    assert!(browser_has(&place, &made, &hidden));
    // The blocks of unseen directories are kept by the parent until the new snapshot is there.
    assert_eq!(first.snapshot.paths, made.snapshot.paths);
    let mut changed = backup_options()
        .changed(Vec::new())
        .as_path(PathBuf::from("/elsewhere"));
    for _ in 0..2 {
        let made = back_up_with(&place.repository, &paths, changed.clone());
        assert_eq!(made.snapshot.paths, ["/elsewhere"]);
        changed = changed.changed(vec![Path::new("/elsewhere/many").to_owned()]);
        write(&hidden, b"changed twice");
    }
}

fn browser_has(place: &Place, made: &Backup, path: &Path) -> bool {
    let mut browser = Browser::new(&place.repository).unwrap();
    browser.find(id(made), &made.snapshot, path).is_ok()
}

/// Three snapshots: a file changes, another goes, and a directory stays.
fn three_snapshots() -> (Place, Vec<(tabane_store::Id, tabane_store::Snapshot)>) {
    let place = Place::new();
    let write = |name: &str, text: &str| write(place.source.join(name), text.as_bytes());
    let mut made = Vec::new();
    write("stays/same", "same");
    write("changes", "one");
    write("goes/away", "for now");
    for text in ["one", "two", "three"] {
        write("changes", text);
        if text == "three" {
            fs::remove_dir_all(place.source.join("goes")).unwrap();
        }
        settle();
        let backup = back_up(&place.repository, &[&place.source]);
        made.push((id(&backup), backup.snapshot));
    }
    (place, made)
}

#[test]
fn one_path_is_followed_through_snapshots() {
    let (place, made) = three_snapshots();
    let find = |name: &str| -> Vec<Option<u64>> {
        let browser = Browser::new(&place.repository).unwrap();
        let mut history = PathHistory::new(browser, &place.source.join(name));
        let sizes = made.iter().map(|(_, snapshot)| {
            let entry = history.find(snapshot).unwrap();
            entry.map(|entry| entry.size())
        });
        sizes.collect()
    };
    assert_eq!(find("changes"), [Some(3), Some(3), Some(5)]);
    assert_eq!(find("goes/away"), [Some(7), Some(7), None]);
    assert_eq!(find("stays/same"), [Some(4); 3]);
    assert_eq!(find("changes/below"), [None; 3]);
    assert_eq!(find("nowhere/at/all"), [None; 3]);
    let browser = Browser::new(&place.repository).unwrap();
    let root = PathHistory::new(browser, Path::new("/")).find(&made[0].1);
    assert!(root.unwrap().is_some_and(|root| root.directory().is_some()));
}

#[test]
fn what_is_gone_is_found_without_what_stays() {
    let (place, made) = three_snapshots();
    let search = |text: &str, gone: bool| -> Vec<String> {
        let query = Query {
            patterns: vec![Pattern::new(text, true).unwrap()],
            ..Query::default()
        };
        let mut finder = Finder::new(Browser::new(&place.repository).unwrap(), query);
        let mut found = Vec::new();
        let mut hear = |path: &Path, _: &Entry| {
            // The random name of a folder above may match, too.
            if let Ok(path) = path.strip_prefix(&place.source) {
                found.push(path.display().to_string());
            }
            ControlFlow::Continue(())
        };
        let unreadable = if gone {
            finder.search_gone(&made[0].1, &made[2].1, &mut hear)
        } else {
            finder.search(&made[0].1, &mut hear)
        };
        assert!(unreadable.is_empty());
        found
    };
    assert_eq!(
        search("*a*", false),
        ["changes", "goes/away", "stays", "stays/same"]
    );
    assert_eq!(search("*a*", true), ["goes/away"]);
    assert_eq!(search("goes", true), ["goes"]);
    assert_eq!(search("same", true), [""; 0]);
}

/// A search ends where it is told to, also in the middle of what it has seen before.
#[test]
fn a_search_ends_when_it_is_told_to() {
    let (place, made) = three_snapshots();
    let query = Query::default();
    let mut finder = Finder::new(Browser::new(&place.repository).unwrap(), query);
    let mut count = |most: usize| {
        let mut found = 0;
        finder.search(&made[0].1, &mut |_, _| {
            found += 1;
            if found == most {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        found
    };
    assert_eq!(count(2), 2);
    let all = count(usize::MAX);
    assert!(all > 6);
    assert_eq!((count(3), count(usize::MAX)), (3, all));
}

/// A listing knows what came and went, reads each snapshot once, and keeps what is damaged apart.
#[test]
fn snapshots_are_listed_again_and_again() {
    let (place, made) = three_snapshots();
    let lister = Lister::new(&place.repository, Filter::default());
    let list = || lister.list(Duration::ZERO).unwrap();
    let first = list();
    let ids: Vec<_> = first.snapshots().iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, made.iter().map(|(id, _)| *id).collect::<Vec<_>>());
    assert!(Arc::ptr_eq(&first, &list()));
    place.repository.remove_snapshot(made[1].0).unwrap();
    let garbage = Name::new(ObjectKind::Snapshot, tabane_store::Id([7; 32]));
    place
        .repository
        .storage()
        .put(garbage, &[b"garbage"])
        .unwrap();
    let second = list();
    assert!(!Arc::ptr_eq(&first, &second));
    assert!(second.get(&made[1].0).is_none());
    assert_eq!(second.get(&made[2].0).map(|(place, _)| place), Some(1));
    assert_eq!(second.damaged().len(), 1);
    assert!(Arc::ptr_eq(
        &second,
        &lister.list(Duration::from_secs(60)).unwrap()
    ));
}
