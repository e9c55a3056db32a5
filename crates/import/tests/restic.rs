//! Repositories that restic makes are imported and compared with what restic restores.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tabane_import::{Error, Foreign, ImportOptions, Imported, Restic};
use tabane_storage::{LocalStorage, Location};
use tabane_store::key::{KdfCost, Password};
use tabane_store::snapshot::Filter;
use tabane_store::{
    Algorithm, BackupOptions, CheckOptions, Id, InitOptions, Progress, Repository, RestoreOptions,
    Snapshot,
};
use tabane_testing::tree::{self, Kind};
use tabane_testing::{compare, not_checked, random::Random, scratch};
use tempfile::TempDir;

const PASSWORD: &str = "old password";

/// A directory with a source, a repository of restic, and one of Tabane.
struct Bed {
    place: TempDir,
}

/// Whether restic is installed.
fn has_restic() -> bool {
    let found = Command::new("restic").arg("version").output().is_ok();
    if !found {
        not_checked("imports from restic", "restic is not installed");
    }
    found
}

impl Bed {
    /// With an empty repository of restic, of this version.
    fn new(version: &str) -> Self {
        let bed = Self { place: scratch() };
        fs::create_dir(bed.path("source")).expect("made");
        bed.restic(["init", "--repository-version", version]);
        bed
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Runs restic; returns what it prints.
    fn restic<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> String {
        let ran = Command::new("restic")
            .args(["--no-cache", "--quiet", "--repo"])
            .arg(self.path("restic"))
            .args(args)
            .env("RESTIC_PASSWORD", PASSWORD)
            .output()
            .expect("it can be started");
        // 3: some files could not be read.
        let is_done = matches!(ran.status.code(), Some(0 | 3));
        assert!(is_done, "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).expect("text")
    }

    fn back_up(&self, args: &[&str]) {
        let source = self.path("source");
        let args = args.iter().map(OsStr::new);
        self.restic(
            [OsStr::new("backup"), source.as_os_str()]
                .into_iter()
                .chain(args),
        );
    }

    fn repository(&self, hash: Algorithm) -> Repository {
        let storage = Arc::new(LocalStorage::new(self.path("tabane")));
        let options = InitOptions::default().kdf_cost(KdfCost::WEAKEST).hash(hash);
        let password: Password = b"new password".to_vec().into();
        Repository::init(storage, &password, options).expect("made")
    }

    fn open(&self) -> tabane_import::Result<Restic> {
        self.open_with(PASSWORD)
    }

    fn open_with(&self, password: &str) -> tabane_import::Result<Restic> {
        let place = Location::parse(self.path("restic").as_os_str(), "").expect("a directory");
        let files = place.open_files(&Default::default()).expect("opened");
        Restic::open(files, password.as_bytes())
    }

    fn foreign(&self) -> Vec<Foreign> {
        self.open()
            .expect("opened")
            .snapshots()
            .expect("listed")
            .snapshots
    }

    fn import(&self, to: &Repository) -> Imported {
        let restic = self.open().expect("opened");
        let snapshots = restic.snapshots().expect("listed").snapshots;
        let imported = restic.import(ImportOptions::default(), to, &snapshots, Arc::new(()));
        imported.expect("imported")
    }

    /// Wants that Tabane restores every snapshot as restic does.
    fn compare(&self, to: &Repository) {
        let snapshots = to.snapshots(&Filter::default()).expect("listed").snapshots;
        assert!(!snapshots.is_empty());
        for (number, (id, snapshot)) in snapshots.iter().enumerate() {
            let [by_restic, by_tabane] =
                ["by-restic", "by-tabane"].map(|name| self.path(&format!("{name}-{number}")));
            let original = snapshot.original.expect("it was imported").to_string();
            let target = by_restic.to_str().expect("UTF-8");
            self.restic(["restore", &original, "--target", target]);
            restore(to, &by_tabane, *id, snapshot);
            compare::assert_same_contents(&by_restic, &by_tabane);
            fs::remove_dir_all(&by_restic).expect("removed");
            fs::remove_dir_all(&by_tabane).expect("removed");
        }
    }
}

fn restore(repository: &Repository, target: &Path, id: Id, snapshot: &Snapshot) {
    let options = RestoreOptions::new(target).numeric_ids(true);
    let restored = repository.restore(options, id, snapshot).expect("restored");
    assert_eq!(restored.errors, 0);
}

fn check(repository: &Repository) {
    let options = CheckOptions::default().read_data(tabane_store::check::ReadData::All);
    let report = repository.check(options).expect("checked");
    assert_eq!(report.problems, 0);
}

/// Changes some of the files that end in `.txt`, and adds one.
fn change(source: &Path, round: u64) {
    let mut random = Random::new(round);
    for number in 0..40 {
        if round == 0 || random.below(10) == 0 {
            let folder = source.join(format!("texts/{}", number % 7));
            fs::create_dir_all(&folder).expect("made");
            let len = random.below(20_000) as usize;
            fs::write(folder.join(format!("{number}.txt")), random.text(len)).expect("written");
        }
    }
    fs::write(source.join(format!("new-{round}")), random.noise(3000)).expect("written");
    let mut large = random_bytes(7, 5 << 20);
    large[(round as usize) << 18] ^= 1;
    fs::write(source.join("large"), large).expect("written");
    if round > 1 {
        fs::remove_file(source.join(format!("new-{}", round - 2))).expect("removed");
    }
}

fn random_bytes(seed: u64, len: usize) -> Vec<u8> {
    Random::new(seed).noise(len)
}

#[test]
fn every_snapshot_is_restored_as_restic_restores_it() {
    if !has_restic() {
        return;
    }
    for (version, hash) in [("1", Algorithm::Sha256), ("2", Algorithm::Blake3)] {
        let bed = Bed::new(version);
        let source = bed.path("source");
        tree::build(&source.join("names"), Kind::Names, None, None).expect("built");
        tree::build(&source.join("links"), Kind::Links, None, None).expect("built");
        // restic restores times after 2262 wrongly, and hard links of symbolic links as several.
        for name in ["times/2400", "times/link-2400", "hard/symlink-0"] {
            fs::remove_file(source.join("links").join(name)).expect("removed");
        }
        for round in 0..4 {
            change(&source, round);
            bed.back_up(&["--tag", &format!("round-{round},all"), "--host", "old-host"]);
        }
        let to = bed.repository(hash);
        let imported = bed.import(&to);
        assert_eq!((imported.snapshots.len(), imported.errors), (4, 0));
        bed.compare(&to);
        check(&to);
        let snapshots = to.snapshots(&Filter::default()).expect("listed").snapshots;
        let (_, second) = &snapshots[1];
        assert_eq!(second.tags, ["round-1", "all"]);
        assert_eq!(second.hostname, "old-host");
        assert_eq!(second.paths, [source.to_str().expect("UTF-8")]);
        let told: serde_json::Value =
            serde_json::from_str(&bed.restic(["snapshots", "--json"])).expect("JSON");
        let time = told[1]["time"].as_str().expect("a time");
        assert_eq!(second.time, time.parse().expect("a time"));
        assert_eq!(second.user(0), Some("root"));

        // A second import finds everything there.
        let again = bed.import(&to);
        assert_eq!((again.snapshots.len(), again.present.len()), (0, 4));
        // Later snapshots come with little work.
        change(&source, 4);
        bed.back_up(&[]);
        let later = bed.import(&to);
        assert_eq!((later.snapshots.len(), later.present.len()), (1, 4));
        if hash == Algorithm::Sha256 {
            assert!(later.bytes < imported.bytes / 2, "{later:?}");
        }
    }
}

#[test]
fn the_next_backup_reads_only_what_has_changed() {
    if !has_restic() {
        return;
    }
    let bed = Bed::new("2");
    let source = bed.path("source");
    change(&source, 0);
    // Files that change at the time of a backup are read again by the next one.
    std::thread::sleep(std::time::Duration::from_millis(100));
    bed.back_up(&["--host", "host"]);
    let to = bed.repository(Algorithm::Sha256);
    bed.import(&to);
    let options = || BackupOptions::default().hostname("host");
    let backup = to.backup(options(), &[&source]).expect("backed up");
    let summary = &backup.snapshot.summary;
    assert!(backup.unchanged, "{summary:?}");
    assert_eq!((summary.read_bytes, summary.files_unmodified), (0, 42));
    fs::write(source.join("new-0"), "changed").expect("written");
    let backup = to.backup(options(), &[&source]).expect("backed up");
    assert_eq!(backup.snapshot.summary.read_bytes, 7);
}

/// Writes down what is told.
#[derive(Default)]
struct Recorder {
    warnings: Mutex<BTreeMap<PathBuf, String>>,
    bytes: AtomicU64,
    bytes_max: u64,
}

impl Progress for Recorder {
    fn warning(&self, path: &Path, what: &str) {
        let mut warnings = self.warnings.lock().expect("no panic");
        warnings.insert(path.to_owned(), what.to_owned());
    }

    fn bytes(&self, done: u64, _: u64) {
        self.bytes.fetch_max(done, Ordering::Relaxed);
    }

    fn is_cancelled(&self) -> bool {
        self.bytes_max > 0 && self.bytes.load(Ordering::Relaxed) > self.bytes_max
    }
}

/// The packs of restic.
fn packs(bed: &Bed) -> Vec<PathBuf> {
    let folders = fs::read_dir(bed.path("restic/data")).expect("listed");
    let folders = folders.map(|folder| folder.expect("listed").path());
    let files = folders.flat_map(|folder| fs::read_dir(folder).expect("listed"));
    let mut files: Vec<_> = files.map(|file| file.expect("listed").path()).collect();
    files.sort();
    files
}

#[test]
fn what_the_source_has_lost_is_named_and_the_rest_is_imported() {
    if !has_restic() {
        return;
    }
    let bed = Bed::new("2");
    let source = bed.path("source");
    change(&source, 0);
    bed.back_up(&[]);
    change(&source, 1);
    bed.back_up(&[]);
    let files: BTreeMap<PathBuf, Vec<u8>> = compare::contents(&source);
    let mut random = Random::new(1);
    let mut found = 0;
    for (number, pack) in packs(&bed).into_iter().enumerate() {
        let sound = fs::read(&pack).expect("read");
        for damage in 0..3 {
            let mut damaged = sound.clone();
            match damage {
                0 => fs::remove_file(&pack).expect("removed"),
                1 => damaged.truncate(sound.len() / 2),
                _ => damaged[random.below(sound.len() as u64) as usize] ^= 4,
            }
            if damage > 0 {
                fs::remove_file(&pack).unwrap_or_default();
                fs::write(&pack, damaged).expect("written");
            }
            let to = bed.repository(Algorithm::Sha256);
            let recorder = Arc::new(Recorder::default());
            let restic = bed.open().expect("opened");
            let foreign = restic.snapshots().expect("listed").snapshots;
            let options = ImportOptions::default();
            let imported = restic
                .import(options, &to, &foreign, Arc::clone(&recorder) as _)
                .expect("imported");
            let restic = bed.open().expect("opened");
            let again = restic
                .import(
                    ImportOptions::default(),
                    &to,
                    &foreign,
                    Arc::new(Recorder::default()),
                )
                .expect("imported");
            assert_eq!(again.snapshots, [], "nothing is new");
            assert_eq!(again.errors, imported.errors);
            let warnings = std::mem::take(&mut *recorder.warnings.lock().expect("no panic"));
            assert_eq!(imported.errors > 0, !warnings.is_empty(), "{warnings:?}");
            assert_eq!(imported.snapshots.len(), 2);
            found += usize::from(imported.errors > 0);
            // A flip in the pack's own header is of no consequence.
            assert!(
                imported.errors > 0 || damage == 2,
                "pack {number}, damage {damage}"
            );
            check(&to);
            let (id, snapshot) = to
                .find_snapshot("latest", &Filter::default())
                .expect("found");
            let target = bed.path("restored");
            restore(&to, &target, id, &snapshot);
            let below = target.join(source.strip_prefix("/").expect("absolute"));
            let restored = if below.exists() {
                compare::contents(&below)
            } else {
                BTreeMap::new()
            };
            for (path, bytes) in &restored {
                assert_eq!(files.get(path), Some(bytes), "{}", path.display());
            }
            let lost = files.keys().filter(|path| !restored.contains_key(*path));
            for path in lost {
                let path = source.join(path);
                let is_named = path.ancestors().any(|path| warnings.contains_key(path));
                assert!(is_named, "{} is not among {warnings:?}", path.display());
            }
            // Where only an older snapshot has lost something, the latest is whole.
            assert_eq!(snapshot.summary.errors > 0, restored.len() < files.len());
            for folder in [target, bed.path("tabane")] {
                fs::remove_dir_all(folder).expect("removed");
            }
        }
        fs::remove_file(&pack).unwrap_or_default();
        fs::write(&pack, sound).expect("written");
    }
    assert!(found > 4, "{found}");
}

#[test]
fn an_import_that_was_interrupted_goes_on() {
    if !has_restic() {
        return;
    }
    let bed = Bed::new("2");
    let source = bed.path("source");
    change(&source, 0);
    for number in 0..12 {
        let path = source.join(format!("noise-{number}"));
        fs::write(path, random_bytes(number, 6 << 20)).expect("written");
    }
    bed.back_up(&[]);
    let to = bed.repository(Algorithm::Sha256);
    let recorder = Arc::new(Recorder {
        bytes_max: 40 << 20,
        ..Recorder::default()
    });
    let restic = bed.open().expect("opened");
    let foreign = restic.snapshots().expect("listed").snapshots;
    let interrupted = restic.import(ImportOptions::default(), &to, &foreign, recorder);
    let error = interrupted.expect_err("cancelled");
    assert!(
        matches!(error, Error::Store(tabane_store::Error::Cancelled)),
        "{error}"
    );
    assert!(
        to.snapshots(&Filter::default())
            .expect("listed")
            .snapshots
            .is_empty()
    );
    let imported = bed.import(&to);
    assert!(imported.blocks_present > 0, "{imported:?}");
    bed.compare(&to);
}

#[test]
fn what_is_no_repository_is_told_apart_from_a_wrong_password() {
    if !has_restic() {
        return;
    }
    let bed = Bed::new("2");
    let wrong = bed.open_with("wrong").err().expect("refused");
    assert!(
        matches!(wrong, Error::WrongPassword { keys: 1, .. }),
        "{wrong}"
    );
    fs::write(bed.path("source/file"), "bytes").expect("written");
    bed.back_up(&[]);
    assert_eq!(bed.foreign().len(), 1);
    // A snapshot that cannot be read leaves the others.
    let snapshots = bed.path("restic/snapshots");
    let first = fs::read_dir(&snapshots)
        .expect("listed")
        .next()
        .expect("one")
        .expect("listed");
    let strange = snapshots.join("0".repeat(64));
    let mut bytes = fs::read(first.path()).expect("read");
    bytes[20] ^= 1;
    fs::write(strange, bytes).expect("written");
    let listing = bed.open().expect("opened").snapshots().expect("listed");
    assert_eq!((listing.snapshots.len(), listing.damaged.len()), (1, 1));
    // As do a damaged index, a damaged config and no repository at all.
    for (folder, what) in [("index", "damaged"), ("config", "damaged")] {
        let path = bed.path("restic").join(folder);
        let file = if path.is_dir() {
            fs::read_dir(&path)
                .expect("listed")
                .next()
                .expect("one")
                .expect("listed")
                .path()
        } else {
            path
        };
        let sound = fs::read(&file).expect("read");
        let mut bytes = sound.clone();
        bytes[30] ^= 1;
        fs::remove_file(&file).expect("removed");
        fs::write(&file, bytes).expect("written");
        let to = match folder {
            "index" => bed.repository(Algorithm::Sha256),
            _ => Repository::open(
                Arc::new(LocalStorage::new(bed.path("tabane"))),
                &b"new password".to_vec().into(),
            )
            .expect("opened"),
        };
        let import = || {
            let restic = bed.open()?;
            let foreign = restic.snapshots()?.snapshots;
            restic.import(ImportOptions::default(), &to, &foreign, Arc::new(()))
        };
        let error = import().expect_err("refused").to_string();
        assert!(error.contains(what), "{error}");
        fs::remove_file(&file).expect("removed");
        if folder == "index" {
            let error = import().expect_err("refused").to_string();
            assert!(error.contains("it names nothing"), "{error}");
        }
        fs::write(&file, sound).expect("written");
    }
    // Another program's, which has a config and no keys.
    fs::remove_dir_all(bed.path("restic/keys")).expect("removed");
    let none = bed.open().err().expect("refused");
    assert!(matches!(none, Error::NoRepository { .. }), "{none}");
    fs::remove_file(bed.path("restic/config")).expect("removed");
    let none = bed.open().err().expect("refused");
    assert!(matches!(none, Error::NoRepository { .. }), "{none}");
}
