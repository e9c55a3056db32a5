//! Repositories that borg makes are imported and compared with what borg extracts.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use tabane_import::{Borg, Error, ImportOptions, Imported, LockedBorg};
use tabane_storage::{LocalStorage, Location};
use tabane_store::check::ReadData;
use tabane_store::key::{KdfCost, Password};
use tabane_store::snapshot::Filter;
use tabane_store::{
    BackupOptions, CheckOptions, Id, InitOptions, Progress, Repository, RestoreOptions, Snapshot,
};
use tabane_testing::tree::{self, Kind};
use tabane_testing::{compare, not_checked, random::Random, scratch};
use tempfile::TempDir;

const PASSPHRASE: &str = "old passphrase";

struct Bed {
    place: TempDir,
}

fn has_borg() -> bool {
    let found = Command::new("borg").arg("--version").output().is_ok();
    if !found {
        not_checked("imports from borg", "borg is not installed");
    }
    found
}

impl Bed {
    /// With an empty repository of borg, encrypted so.
    fn new(encryption: &str) -> Self {
        let bed = Self { place: scratch() };
        fs::create_dir(bed.path("source")).expect("made");
        bed.borg(["init", "--encryption", encryption, "repository"]);
        bed
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Runs borg in the bed's directory.
    fn borg<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) {
        self.borg_in(self.place.path(), args);
    }

    fn borg_in<A: AsRef<OsStr>>(&self, directory: &Path, args: impl IntoIterator<Item = A>) {
        let ran = Command::new("borg")
            .args(args)
            .current_dir(directory)
            .env("BORG_PASSPHRASE", PASSPHRASE)
            .env("BORG_BASE_DIR", self.path("base"))
            .env("BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK", "yes")
            .env("LC_ALL", "C.UTF-8")
            .output()
            .expect("it can be started");
        // 1: warnings, as of files that changed.
        let is_done = matches!(ran.status.code(), Some(0 | 1));
        assert!(is_done, "{}", String::from_utf8_lossy(&ran.stderr));
    }

    fn create(&self, name: &str, args: &[&str]) {
        let archive = format!("repository::{name}");
        let source = self.path("source");
        let source = source.to_str().expect("UTF-8");
        self.borg([&["create"], args, &[&archive, source]].concat());
    }

    fn open(&self) -> tabane_import::Result<Borg> {
        self.open_with(PASSPHRASE)
    }

    fn find(&self) -> tabane_import::Result<LockedBorg> {
        let place = Location::parse(self.path("repository").as_os_str(), "").expect("a directory");
        LockedBorg::find(place.open_files(&Default::default()).expect("opened"))
    }

    fn open_with(&self, passphrase: &str) -> tabane_import::Result<Borg> {
        let locked = self.find()?;
        let keys = fs::read_dir(self.path("base/.config/borg/keys"))
            .into_iter()
            .flatten();
        let mut keys =
            keys.map(|file| fs::read_to_string(file.expect("listed").path()).expect("text"));
        let key = locked.needs_key_file().map(|id| {
            let begins = format!("BORG_KEY {id}\n");
            keys.find(|key| key.starts_with(&begins))
                .expect("a key file")
        });
        locked.unlock(passphrase.as_bytes(), key.as_deref())
    }

    /// The segments of the repository, in no order.
    fn segments(&self) -> Vec<PathBuf> {
        fs::read_dir(self.path("repository/data/0"))
            .expect("listed")
            .map(|file| file.expect("listed").path())
            .collect()
    }

    fn target(&self) -> Repository {
        let storage = Arc::new(LocalStorage::new(self.path("tabane")));
        let options = InitOptions::default().kdf_cost(KdfCost::WEAKEST);
        let password: Password = b"new password".to_vec().into();
        Repository::init(storage, &password, options).expect("made")
    }

    fn import(&self, to: &Repository) -> (Imported, BTreeMap<PathBuf, String>) {
        let borg = self.open().expect("opened");
        let archives = borg.snapshots().expect("listed").snapshots;
        let recorder = Arc::new(Recorder::default());
        let options = ImportOptions::default();
        let imported = borg.import(options, to, &archives, Arc::clone(&recorder) as _);
        let warnings = std::mem::take(&mut *recorder.0.lock().expect("no panic"));
        (imported.expect("imported"), warnings)
    }
}

#[derive(Default)]
struct Recorder(Mutex<BTreeMap<PathBuf, String>>);

impl Progress for Recorder {
    fn warning(&self, path: &Path, what: &str) {
        let mut warnings = self.0.lock().expect("no panic");
        warnings.insert(path.to_owned(), what.to_owned());
    }
}

fn restore(repository: &Repository, target: &Path, id: Id, snapshot: &Snapshot, below: &Path) {
    let options = RestoreOptions::new(target).numeric_ids(true).subpath(below);
    let restored = repository.restore(options, id, snapshot).expect("restored");
    assert_eq!(restored.errors, 0);
}

fn check(repository: &Repository) {
    let options = CheckOptions::default().read_data(ReadData::All);
    assert_eq!(repository.check(options).expect("checked").problems, 0);
}

fn change(source: &Path, round: u64) {
    let mut random = Random::new(round);
    let len = 30_000 + random.below(9000) as usize;
    fs::create_dir_all(source.join("texts/deep")).expect("made");
    fs::write(source.join("texts/deep/changing"), random.text(len)).expect("written");
    fs::write(source.join(format!("new-{round}")), random.noise(3000)).expect("written");
    let mut large = Random::new(7).noise(5 << 20);
    large[(round as usize) << 18] ^= 1;
    fs::write(source.join("large"), large).expect("written");
    fs::write(source.join("zeros"), vec![0; 3 << 20]).expect("written");
}

#[test]
fn every_archive_is_restored_as_borg_extracts_it() {
    if !has_borg() {
        return;
    }
    for (encryption, compression) in [
        ("repokey", "lz4"),
        ("repokey-blake2", "zstd,3"),
        ("keyfile", "zlib"),
        ("authenticated", "lzma,0"),
        ("none", "none"),
    ] {
        let bed = Bed::new(encryption);
        let source = bed.path("source");
        if encryption == "repokey" {
            tree::build(&source.join("names"), Kind::Names, None, None).expect("built");
            tree::build(&source.join("links"), Kind::Links, None, None).expect("built");
        }
        for round in 0..3 {
            change(&source, round);
            let comment = format!("round {round}");
            bed.create(
                &format!("a{round}"),
                &["-C", compression, "--comment", &comment],
            );
        }
        // What was deleted or replaced is passed over.
        bed.create("gone", &[]);
        bed.borg(["delete", "repository::gone"]);
        let to = bed.target();
        let (imported, warnings) = bed.import(&to);
        assert_eq!(
            (imported.snapshots.len(), imported.errors),
            (3, 0),
            "{warnings:?}"
        );
        check(&to);
        let snapshots = to.snapshots(&Filter::default()).expect("listed").snapshots;
        for (round, (id, snapshot)) in snapshots.iter().enumerate() {
            assert_eq!(snapshot.tags, [format!("a{round}")]);
            assert_eq!(snapshot.description, Some(format!("round {round}")));
            assert_eq!(snapshot.paths, [source.to_str().expect("UTF-8")]);
            let [by_borg, by_tabane] = ["by-borg", "by-tabane"].map(|name| bed.path(name));
            fs::create_dir(&by_borg).expect("made");
            let archive = format!("{}::a{round}", bed.path("repository").display());
            bed.borg_in(&by_borg, ["extract", "--numeric-ids", &archive]);
            restore(&to, &by_tabane, *id, snapshot, &source);
            let extracted = by_borg.join(source.strip_prefix("/").expect("absolute"));
            compare::assert_same_contents(&extracted, &by_tabane);
            for folder in [by_borg, by_tabane] {
                fs::remove_dir_all(folder).expect("removed");
            }
        }
        let (again, _) = bed.import(&to);
        assert_eq!((again.snapshots.len(), again.present.len()), (0, 3));
        // Without numbers of inodes, only size and times tell that files are unchanged.
        tabane_testing::files::settle();
        let options = BackupOptions::default().ignore_inode(true);
        let made = to.backup(options, &[&source]).expect("backed up");
        assert_eq!(made.snapshot.summary.files_new, 0);
    }
}

#[test]
fn what_the_source_has_lost_is_named_and_the_rest_is_imported() {
    if !has_borg() {
        return;
    }
    let bed = Bed::new("repokey");
    let source = bed.path("source");
    change(&source, 0);
    for number in 0..300 {
        fs::write(
            source.join(format!("small-{number}")),
            Random::new(number).noise(700),
        )
        .expect("written");
    }
    bed.create("one", &[]);
    let files = compare::contents(&source);
    let mut random = Random::new(1);
    let mut segments = bed.segments();
    segments.sort_by_key(|path| fs::metadata(path).expect("there").len());
    let largest = segments.pop().expect("a segment");
    let sound = fs::read(&largest).expect("read");
    let mut found = 0;
    for _ in 0..25 {
        let mut damaged = sound.clone();
        damaged[200 + random.below(sound.len() as u64 - 200) as usize] ^= 4;
        fs::write(&largest, damaged).expect("written");
        let Ok(borg) = bed.open() else {
            // The list of archives, or the length of an entry.
            continue;
        };
        let archives = borg.snapshots().expect("listed");
        if archives.snapshots.is_empty() {
            assert_eq!(archives.damaged.len(), 1);
            continue;
        }
        let to = bed.target();
        let (imported, warnings) = bed.import(&to);
        assert_eq!(imported.errors > 0, !warnings.is_empty());
        found += usize::from(imported.errors > 0);
        check(&to);
        let (id, snapshot) = to
            .find_snapshot("latest", &Filter::default())
            .expect("found");
        let target = bed.path("restored");
        restore(&to, &target, id, &snapshot, &source);
        let restored = compare::contents(&target);
        for (path, bytes) in &restored {
            assert_eq!(files.get(path), Some(bytes), "{}", path.display());
        }
        for path in files.keys().filter(|path| !restored.contains_key(*path)) {
            let path = source.join(path);
            let is_named = path.ancestors().any(|path| warnings.contains_key(path));
            assert!(is_named, "{} is not among {warnings:?}", path.display());
        }
        for folder in [target, bed.path("tabane")] {
            fs::remove_dir_all(folder).expect("removed");
        }
    }
    assert!(found > 5, "{found}");
}

#[test]
fn damaged_and_missing_segments_leave_the_others() {
    if !has_borg() {
        return;
    }
    let bed = Bed::new("repokey");
    let source = bed.path("source");
    change(&source, 0);
    bed.create("one", &[]);
    change(&source, 1);
    bed.create("two", &[]);
    let damage = || {
        let all = bed.open().expect("opened").snapshots().expect("listed");
        (all.snapshots.len(), all.damaged.len())
    };
    assert_eq!(damage(), (2, 0));
    let mut segments = bed.segments();
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u64>().ok();
    segments.sort_by_key(number);
    let last = segments.last().expect("a segment").clone();
    // A program that was killed leaves an empty one.
    let empty = last.with_file_name((number(&last).expect("a number") + 1).to_string());
    fs::write(&empty, []).expect("written");
    assert_eq!(damage(), (2, 0));
    fs::remove_file(&empty).expect("removed");
    let mut found = 0;
    for segment in &segments {
        let sound = fs::read(segment).expect("read");
        fs::write(segment, b"no segment").expect("written");
        if let Ok(borg) = bed.open() {
            let all = borg.snapshots().expect("listed");
            assert!(!all.damaged.is_empty(), "{}", segment.display());
            let (_, warnings) = bed.import(&bed.target());
            let is_less = all.snapshots.len() < 2;
            found += usize::from(is_less || !warnings.is_empty());
            fs::remove_dir_all(bed.path("tabane")).expect("removed");
        }
        fs::write(segment, sound).expect("written");
    }
    assert!(found > 0);
    assert_eq!(damage(), (2, 0));
    // Without the last commit the archive before is there, and somebody hears of it.
    let sound = fs::read(&last).expect("read");
    fs::remove_file(&last).expect("removed");
    let (archives, damaged) = damage();
    assert!(archives < 2 && damaged == 1, "{archives} {damaged}");
    fs::write(&last, sound).expect("written");
}

#[test]
fn what_is_no_repository_is_told_apart_from_a_wrong_passphrase() {
    if !has_borg() {
        return;
    }
    let bed = Bed::new("repokey");
    bed.create("one", &[]);
    let wrong = bed.open_with("wrong").err().expect("refused");
    assert!(matches!(wrong, Error::WrongPassword { .. }), "{wrong}");
    assert!(bed.find().expect("found").needs_key_file().is_none());
    let bed = Bed::new("keyfile");
    assert!(bed.find().expect("found").needs_key_file().is_some());
    fs::remove_file(bed.path("repository/config")).expect("removed");
    let none = bed.find().err().expect("refused");
    assert!(matches!(none, Error::NoRepository { .. }), "{none}");
}
