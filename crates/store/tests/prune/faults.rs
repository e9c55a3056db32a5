//! Whatever operation of the storage fails, or whenever the process dies: forgetting, pruning and
//! repairing lose nothing that should stay, and the next run makes all tidy.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tabane_storage::{LocalStorage, Name, ObjectKind, Storage};
use tabane_store::repair::RepairOptions;
use tabane_store::{Id, Repository};

use super::basics::{prune_with, tight};
use crate::common::fault::{Fault, FaultyStorage};
use crate::common::tree::{link_tree, random_bytes, small_tree, write};
use crate::common::{
    assert_clean, back_up, compare, id, init, open, password, process, restore_options,
    restore_with, scratch,
};

/// What is disturbed.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// The first snapshot is forgotten, and the repository pruned.
    ForgetAndPrune,
    /// The index is made anew; half of it is missing.
    RepairIndex,
    /// The second snapshot is repaired; a pack is missing that only it needs.
    RepairSnapshots,
}

impl Work {
    fn run(self, repository: &Arc<Repository>) -> tabane_store::Result<()> {
        match self {
            Self::ForgetAndPrune => {
                let listing = repository.snapshots(&Default::default())?;
                if let [(first, _), _, _] = listing.snapshots[..] {
                    repository.remove_snapshot(first)?;
                }
                prune_with(repository, tight()).map(|_| ())
            }
            Self::RepairIndex => repository
                .repair_index(RepairOptions::default())
                .map(|_| ()),
            Self::RepairSnapshots => {
                let snapshots = repository.snapshots(&Default::default())?.snapshots;
                let options = RepairOptions::default().forget(true).dry_run(false);
                repository.repair_snapshots(options, &snapshots).map(|_| ())
            }
        }
    }
}

type Contents = BTreeMap<PathBuf, Vec<u8>>;

struct Base {
    dir: tempfile::TempDir,
    source: PathBuf,
    /// Snapshots that stay.
    stay: Vec<(Id, Contents)>,
}

impl Base {
    fn new(work: Work) -> Self {
        let dir = scratch();
        let source = dir.path().join("source");
        small_tree(&source, 1);
        let path = dir.path().join("base");
        let repository = init(LocalStorage::new(&path));
        let mut made = Vec::new();
        let mut largest_new = Vec::new();
        for seed in 0..3 {
            let before = repository.list(ObjectKind::Pack).unwrap();
            // Not what a file of the tree has: then little of it would be new.
            write(source.join("changes"), &random_bytes(1000 + seed, 50_000));
            made.push((
                id(&back_up(&repository, &[&source])),
                compare::contents(&source),
            ));
            let mut packs = repository.list(ObjectKind::Pack).unwrap();
            packs.retain(|pack| !before.contains(pack));
            let largest = packs.iter().max_by_key(|(_, len)| len).unwrap();
            largest_new.push(Name::new(ObjectKind::Pack, largest.0));
        }
        match work {
            Work::ForgetAndPrune => drop(made.remove(0)),
            Work::RepairIndex => {
                let index = fs::read_dir(path.join("index")).unwrap();
                fs::remove_file(index.last().unwrap().unwrap().path()).unwrap();
            }
            Work::RepairSnapshots => {
                // The contents of the changed file, and nothing else.
                made.remove(1);
                LocalStorage::new(&path).delete(largest_new[1]).unwrap();
                repository.repair_index(RepairOptions::default()).unwrap();
            }
        }
        Self {
            dir,
            source,
            stay: made,
        }
    }

    /// A fresh copy of the repository for one point.
    fn copy(&self) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir_in(self.dir.path()).unwrap();
        let path = dir.path().join("repository");
        link_tree(&self.dir.path().join("base"), &path);
        (dir, path)
    }

    /// Wants all that should stay, and that the same work is done well now.
    fn verify(&self, path: &Path, work: Work, what: &str) {
        let repository = open(LocalStorage::new(path));
        work.run(&repository)
            .unwrap_or_else(|error| panic!("{what}, then: {error}"));
        assert_clean(&repository);
        for (id, contents) in &self.stay {
            let target = scratch();
            let options = restore_options(target.path()).subpath(self.source.clone());
            restore_with(&repository, *id, options);
            assert!(compare::contents(target.path()) == *contents, "{what}");
        }
        let count = repository.list(ObjectKind::Snapshot).unwrap().len();
        assert_eq!(
            count,
            match work {
                Work::ForgetAndPrune => 2,
                Work::RepairIndex | Work::RepairSnapshots => 3,
            },
            "{what}"
        );
        // What is left of the other clients of this process does not matter here.
        repository.forget_dead_clients(true).unwrap();
        prune_with(&repository, tight()).unwrap();
        let planned = repository
            .preview_prune(tight(), &Default::default())
            .unwrap();
        assert_eq!(
            planned.stats().used_bytes,
            planned.stats().pack_bytes,
            "{what}: waste is left"
        );
        assert_clean(&repository);
    }
}

fn at_every_operation(work: Work, fault: Fault) {
    let base = Base::new(work);
    let mut tried = 0;
    loop {
        let number = tried + 1;
        let (_dir, path) = base.copy();
        let reached = if fault.kills() {
            dies(&path, work, fault, number)
        } else {
            fails(&path, work, fault, number)
        };
        if !reached {
            break;
        }
        tried += 1;
        // Clients of this very process are alive, and nobody else can tell.
        let clients = path.join(Name::new(ObjectKind::Client, Id::default()).path());
        let _ = fs::remove_dir_all(clients.parent().unwrap());
        base.verify(
            &path,
            work,
            &format!("{work:?} with {fault:?} at operation {number}"),
        );
    }
    eprintln!("{work:?} with {fault:?}: {tried} points tried");
    assert!(tried >= 2, "only {tried} points were tried");
}

/// Works with a fault in this process; says whether it was reached.
fn fails(path: &Path, work: Work, fault: Fault, number: u64) -> bool {
    let storage = FaultyStorage::new(path.to_owned(), fault, number);
    let done = storage.done();
    let result = Repository::open(Arc::new(storage), &password())
        .and_then(|repository| work.run(&Arc::new(repository)));
    let reached = done.load(Ordering::SeqCst) >= number;
    if let Err(error) = result {
        assert!(reached, "{error}");
        let text = error.to_string();
        assert!(
            text.contains("injected fault"),
            "the cause is hidden: {text}"
        );
    }
    reached
}

/// Works in a process that dies; false if it does not.
fn dies(path: &Path, work: Work, fault: Fault, number: u64) -> bool {
    const SIGABRT: i32 = 6;
    let task = [
        PathBuf::from(format!("{work:?}")),
        PathBuf::from(fault.name()),
        PathBuf::from(number.to_string()),
        path.to_owned(),
    ];
    let output = process::child(child_that_works, &task)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let aborted = output.status.signal() == Some(SIGABRT);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || aborted, "{text}");
    aborted
}

#[test]
fn child_that_works() {
    let Some(task) = process::task() else { return };
    let work = match task[0].to_str().unwrap() {
        "ForgetAndPrune" => Work::ForgetAndPrune,
        "RepairIndex" => Work::RepairIndex,
        "RepairSnapshots" => Work::RepairSnapshots,
        other => panic!("no work {other}"),
    };
    let fault = Fault::named(task[1].to_str().unwrap());
    let number = task[2].to_str().unwrap().parse().unwrap();
    let storage = FaultyStorage::new(task[3].clone(), fault, number);
    work.run(&open(storage)).unwrap();
}

#[test]
fn a_prune_fails_or_dies_at_every_operation() {
    for fault in Fault::ALL {
        at_every_operation(Work::ForgetAndPrune, fault);
    }
}

#[test]
fn a_repair_of_the_index_fails_or_dies_at_every_operation() {
    for fault in Fault::ALL {
        at_every_operation(Work::RepairIndex, fault);
    }
}

#[test]
fn a_repair_of_snapshots_fails_or_dies_at_every_operation() {
    for fault in Fault::ALL {
        at_every_operation(Work::RepairSnapshots, fault);
    }
}
