//! Whatever operation of the storage fails, or whenever the process dies: nothing that was stored
//! is lost.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::common::fault::{Fault, FaultyStorage};
use crate::common::mount::Mount;
use crate::common::tree::{link_tree, random_bytes, small_tree, write};
use crate::common::{
    assert_clean, back_up, back_up_observed, backup_options, compare, id, init, init_options, open,
    password, process, restore_options, restore_with, scratch,
};
use tabane_storage::LocalStorage;
use tabane_store::IncludeOptions;
use tabane_store::{Error, Id, Repository};
use tempfile::TempDir;

/// Three packs of data, since a pack has 16 MiB.
const BIG_LEN: usize = 36 << 20;

type Contents = BTreeMap<PathBuf, Vec<u8>>;

/// A repository with two snapshots, and a source with much more than they have.
struct Base {
    dir: TempDir,
    source: PathBuf,
    earlier: Vec<(Id, Contents)>,
}

impl Base {
    fn new() -> Self {
        let dir = scratch();
        let source = dir.path().join("source");
        fs::create_dir(&source).unwrap();
        small_tree(&source, 1);
        let repository = init(LocalStorage::new(dir.path().join("base")));
        let mut earlier = Vec::new();
        for seed in 0..2 {
            write(source.join("changes"), &random_bytes(seed, 50_000));
            let made = back_up(&repository, &[&source]);
            earlier.push((id(&made), compare::contents(&source)));
        }
        write(source.join("changes"), &random_bytes(2, 50_000));
        write(source.join("new/file"), &random_bytes(3, 50_000));
        write(source.join("big"), &random_bytes(4, BIG_LEN));
        Self {
            dir,
            source,
            earlier,
        }
    }

    /// A fresh copy of the repository for one point. Objects are never changed, so they can be
    /// links.
    fn copy(&self) -> Point<'_> {
        let dir = tempfile::tempdir_in(self.dir.path()).unwrap();
        let repository = dir.path().join("repository");
        link_tree(&self.dir.path().join("base"), &repository);
        let before = compare::listing(&repository);
        Point {
            base: self,
            _dir: dir,
            repository,
            before,
        }
    }
}

struct Point<'a> {
    base: &'a Base,
    _dir: TempDir,
    repository: PathBuf,
    before: BTreeMap<PathBuf, (u64, i64, i64)>,
}

impl Point<'_> {
    /// Whether anything was written at all.
    fn is_touched(&self) -> bool {
        compare::listing(&self.repository) != self.before
    }

    /// Wants everything that was stored, and that the next backup is good.
    fn verify(&self, what: &str) {
        eprintln!("{what}: verifying");
        let repository = open(LocalStorage::new(&self.repository));
        let report = assert_clean(&repository);
        assert!(report.snapshots >= 2, "{what}");
        for (id, contents) in &self.base.earlier {
            assert_eq!(restored(&repository, *id, &self.base.source), *contents);
        }
        let made = back_up(&repository, &[&self.base.source]);
        let report = assert_clean(&repository);
        assert!(report.read_bytes > BIG_LEN as u64, "{what}");
        let mut expected = compare::contents(&self.base.source);
        // It was read with the packs.
        expected.remove(Path::new("big"));
        let found = restored(&repository, id(&made), &self.base.source);
        assert!(found == expected, "{what}: the next backup restores wrong");
    }
}

/// All files of a snapshot but the big one.
fn restored(repository: &Arc<Repository>, id: Id, source: &Path) -> Contents {
    let target = scratch();
    let options = restore_options(target.path())
        .subpath(source.to_owned())
        .includes(IncludeOptions::default().exclude(vec!["big".to_owned()]));
    restore_with(repository, id, options);
    compare::contents(target.path())
}

/// Runs backups with the fault at the first, second, … operation, until one ends without reaching
/// it.
fn at_every_operation(fault: Fault) {
    let base = Base::new();
    let (mut tried, mut touched) = (0, 0);
    loop {
        let number = tried + 1;
        let point = base.copy();
        let reached = if fault.kills() {
            dies(&point, fault, number)
        } else {
            fails(&point, fault, number)
        };
        if !reached {
            break;
        }
        tried += 1;
        // What was not touched is the base, which other points verify.
        if point.is_touched() {
            touched += 1;
            point.verify(&format!("{fault:?} at operation {number}"));
        }
    }
    eprintln!("{fault:?}: {tried} points of a backup tried, {touched} of which left something");
    assert!(tried >= 6, "only {tried} points were tried");
    assert!(touched >= 5, "only {touched} points left something");
}

/// Backs up with a fault in this process; says whether it was reached.
fn fails(point: &Point<'_>, fault: Fault, number: u64) -> bool {
    let storage = FaultyStorage::new(point.repository.clone(), fault, number);
    let done = storage.done();
    let result = Repository::open(Arc::new(storage), &password()).and_then(|repository| {
        back_up_observed(
            &Arc::new(repository),
            &[&point.base.source],
            backup_options(),
            &Arc::default(),
        )
    });
    let reached = done.load(Ordering::SeqCst) >= number;
    match result {
        // A parent that cannot be read is no reason to fail.
        Ok(_) => {}
        Err(error) => {
            assert!(reached, "{error}");
            let text = error.to_string();
            assert!(
                text.contains("injected fault"),
                "the cause is hidden: {text}"
            );
        }
    }
    reached
}

/// Backs up in a process that dies; false if it does not.
fn dies(point: &Point<'_>, fault: Fault, number: u64) -> bool {
    let task = [
        PathBuf::from(fault.name()),
        PathBuf::from(number.to_string()),
        point.repository.clone(),
        point.base.source.clone(),
    ];
    !run_child(child_that_backs_up, &task)
}

/// Whether a child succeeded; the only other end allowed is an abort.
fn run_child(test: impl Fn(), task: &[PathBuf]) -> bool {
    use std::os::unix::process::ExitStatusExt;
    const SIGABRT: i32 = 6;
    let output = process::child(test, task)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    let aborted = output.status.signal() == Some(SIGABRT);
    assert!(output.status.success() || aborted, "{}", text);
    output.status.success()
}

fn storage_of(task: &[PathBuf]) -> FaultyStorage {
    let fault = Fault::named(task[0].to_str().unwrap());
    let number = task[1].to_str().unwrap().parse().unwrap();
    FaultyStorage::new(task[2].clone(), fault, number)
}

#[test]
fn child_that_backs_up() {
    let Some(task) = process::task() else { return };
    let repository = open(storage_of(&task));
    back_up(&repository, &[&task[3]]);
}

#[test]
fn child_that_inits() {
    let Some(task) = process::task() else { return };
    init(storage_of(&task));
}

#[test]
fn one_operation_fails() {
    at_every_operation(Fault::FailOnce);
}

#[test]
fn all_operations_fail_from_one_on() {
    at_every_operation(Fault::FailFrom);
}

#[test]
fn killed_before_an_operation() {
    at_every_operation(Fault::KillBefore);
}

#[test]
fn killed_after_an_operation() {
    at_every_operation(Fault::KillAfter);
}

#[test]
fn killed_while_writing() {
    at_every_operation(Fault::Tear);
}

/// Makes a repository where one was begun, and uses it.
fn use_what_is_left(repository: &Path, what: &str) {
    let storage = || Arc::new(LocalStorage::new(repository));
    match Repository::init(storage(), &password(), init_options()) {
        Ok(_) | Err(Error::RepositoryExists(_)) => {}
        Err(error) => panic!("{what}: cannot init again: {error}"),
    }
    let opened = Repository::open(storage(), &password())
        .unwrap_or_else(|error| panic!("{what}: cannot be opened: {error}"));
    // Copies of the config and the key come last; until then a check says that they are missing.
    opened.repair_config().expect(what);
    let source = scratch();
    write(source.path().join("file"), b"x");
    let opened = Arc::new(opened);
    back_up(&opened, &[source.path()]);
    assert_clean(&opened);
}

#[test]
fn init_dies_or_fails_at_every_operation() {
    // What is left may be tried in the order of random names: each point more than once.
    const ROUNDS: usize = 5;
    let mut tried = 0;
    for fault in Fault::ALL {
        for number in 1.. {
            let mut reached = true;
            for _ in 0..ROUNDS {
                let dir = scratch();
                let repository = dir.path().join("repository");
                let what = format!("init with {fault:?} at operation {number}");
                if fault.kills() {
                    let task = [
                        PathBuf::from(fault.name()),
                        PathBuf::from(number.to_string()),
                        repository.clone(),
                    ];
                    reached = !run_child(child_that_inits, &task);
                } else {
                    let storage = FaultyStorage::new(repository.clone(), fault, number);
                    let done = storage.done();
                    let result = Repository::init(Arc::new(storage), &password(), init_options());
                    reached = done.load(Ordering::SeqCst) >= number;
                    assert_eq!(result.is_err(), reached, "{what}");
                }
                if !reached {
                    break;
                }
                tried += 1;
                use_what_is_left(&repository, &what);
            }
            if !reached {
                break;
            }
        }
    }
    eprintln!("init: {tried} points tried");
    assert!(tried >= 4 * ROUNDS);
}

#[test]
fn init_dies_while_it_makes_directories() {
    let directories = ["keys", "packs", "index", "snapshots", "tmp"];
    for made in 0..=directories.len() {
        let dir = scratch();
        let repository = dir.path().join("repository");
        fs::create_dir(&repository).unwrap();
        for directory in &directories[..made] {
            fs::create_dir(repository.join(directory)).unwrap();
        }
        use_what_is_left(&repository, &format!("{made} directories"));
    }
}

#[test]
fn a_full_disk() {
    let dir = scratch();
    let (disk, source) = (dir.path().join("disk"), dir.path().join("source"));
    fs::create_dir(&disk).unwrap();
    fs::create_dir(&source).unwrap();
    let Some(_mount) = Mount::tmpfs(&disk, "24m") else {
        return;
    };
    small_tree(&source, 1);
    let path = disk.join("repository");
    let repository = init(LocalStorage::new(&path));
    let first = back_up(&repository, &[&source]);
    let before = compare::contents(&source);
    write(source.join("big"), &random_bytes(2, BIG_LEN));
    let result = back_up_observed(&repository, &[&source], backup_options(), &Arc::default());
    let error = result.unwrap_err();
    assert!(
        matches!(&error, Error::Storage { source,
            .. } if source.kind() == tabane_storage::StorageErrorKind::Full),
        "{error}"
    );
    assert!(error.to_string().contains("cannot write packs/"), "{error}");
    assert_eq!(fs::read_dir(path.join("tmp")).unwrap().count(), 0);
    let repository = open(LocalStorage::new(&path));
    assert_clean(&repository);
    assert!(restored(&repository, id(&first), &source) == before);
    let freed = Command::new("mount")
        .args(["-o", "remount,size=200m"])
        .arg(&disk)
        .status();
    assert!(freed.unwrap().success());
    let made = back_up(&repository, &[&source]);
    assert_clean(&repository);
    crate::common::assert_restores(&repository, id(&made), &source, &source);
}

#[test]
fn a_full_disk_under_the_target_of_a_restore() {
    let dir = scratch();
    let (disk, source) = (dir.path().join("disk"), dir.path().join("source"));
    fs::create_dir(&disk).unwrap();
    fs::create_dir(&source).unwrap();
    let Some(_mount) = Mount::tmpfs(&disk, "8m") else {
        return;
    };
    write(source.join("big"), &random_bytes(1, 20 << 20));
    let repository = init(LocalStorage::new(dir.path().join("repository")));
    let made = back_up(&repository, &[&source]);
    let result = repository.restore(
        restore_options(&disk.join("target")),
        id(&made),
        &repository.load_snapshot(id(&made)).unwrap(),
    );
    let error = result.unwrap_err();
    assert!(
        matches!(&error, Error::Path { source, .. } if source.kind() == ErrorKind::StorageFull),
        "{error}"
    );
}
