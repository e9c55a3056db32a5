//! Repositories that are kept as programs wrote them: each later program reads them.
//!
//! `repositories/format-1` is from the last program that knew format 1 alone, `format-2` from the
//! first that wrote it. Their password is `format fixtures`. Both have the same source, made on
//! another day: as root, with file flags, an ACL and owners other than root. `striped-1` has
//! targets without tags.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tabane_storage::{LocalStorage, Storage};
use tabane_store::browse::Browser;
use tabane_store::dump;
use tabane_store::entry::{Entry, Flags, Kind};
use tabane_store::{Error, FORMAT, Filter, Id, Repository, Snapshot};
use tabane_striped::{HealOptions, Place, StripedStorage};
use tempfile::TempDir;

use crate::common::{assert_clean, back_up, id, scratch};

const FORMATS: [u8; 2] = [1, FORMAT];

fn password() -> tabane_store::Password {
    b"format fixtures".to_vec().into()
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

struct Kept {
    dir: TempDir,
    repository: Arc<Repository>,
    snapshot: (Id, Snapshot),
}

impl Kept {
    fn of_format(format: u8) -> Self {
        let from = format!(
            "{}/tests/repositories/format-{format}",
            env!("CARGO_MANIFEST_DIR")
        );
        let dir = scratch();
        copy_tree(Path::new(&from), &dir.path().join("repository"));
        let repository = open(&dir).unwrap();
        let snapshots = repository.snapshots(&Filter::default()).unwrap().snapshots;
        let [snapshot] = &snapshots[..] else {
            panic!("{} snapshots", snapshots.len())
        };
        let snapshot = snapshot.clone();
        Self {
            dir,
            repository,
            snapshot,
        }
    }

    fn entry(&self, browser: &mut Browser, path: &str) -> Entry {
        let (id, snapshot) = &self.snapshot;
        let path = PathBuf::from("/fixture").join(path);
        browser.find(*id, snapshot, &path).unwrap()
    }
}

fn open(dir: &TempDir) -> tabane_store::Result<Arc<Repository>> {
    let storage = Arc::new(LocalStorage::new(dir.path().join("repository")));
    Repository::open(storage, &password()).map(Arc::new)
}

fn content(browser: &mut Browser, entry: &Entry) -> Vec<u8> {
    let mut bytes = Vec::new();
    dump::file(browser, entry, &mut bytes).unwrap();
    bytes
}

#[test]
fn everything_in_them_is_read() {
    for format in FORMATS {
        let kept = Kept::of_format(format);
        assert_eq!(kept.repository.format(), format);
        assert_eq!(kept.repository.damaged(), [""; 0]);
        assert_clean(&kept.repository);
        let snapshot = &kept.snapshot.1;
        assert_eq!(
            (&*snapshot.hostname, &snapshot.tags[..]),
            ("ada", &["first".to_owned()][..])
        );

        let mut browser = Browser::new(&kept.repository).unwrap();
        let mut entry = |path: &str| kept.entry(&mut browser, path);
        let letter = entry("letter.txt");
        let other = entry("other name");
        let numbers = entry("dir/numbers");
        let same = entry("dir/deep/same");
        let sparse = entry("sparse");
        assert_eq!((letter.uid, letter.gid, letter.mode), (0, 0, 0o644));
        assert_eq!(
            (letter.mtime.s, letter.mtime.ns),
            (1_767_323_045, 123_456_789)
        );
        assert!(letter.hard_link.is_some() && letter.hard_link == other.hard_link);
        let xattrs = letter
            .xattrs
            .iter()
            .map(|xattr| (&xattr.name[..], &xattr.value[..]));
        assert_eq!(
            xattrs.collect::<Vec<_>>(),
            [(&b"user.note"[..], &b"kept"[..])]
        );
        assert_eq!((numbers.uid, numbers.gid), (12345, 0));
        assert_eq!(numbers.xattrs[0].name, b"system.posix_acl_access");
        assert_eq!((same.uid, same.gid), (65534, 65534));
        assert_eq!(entry("pipe").kind, Kind::Fifo);
        let target = b"letter.txt".to_vec();
        assert_eq!(entry("link").kind, Kind::Symlink { target });

        let lines: String = (1..=2000).map(|number| format!("{number}\n")).collect();
        let end = [vec![0; 100_000], b"end".to_vec()].concat();
        assert_eq!(content(&mut browser, &letter), b"a letter\n");
        assert_eq!(content(&mut browser, &numbers), lines.as_bytes());
        assert_eq!(content(&mut browser, &same), [b'x'; 3000]);
        assert_eq!(content(&mut browser, &sparse), end);

        // What format 2 adds.
        let flags = [
            letter.flags,
            other.flags,
            numbers.flags,
            same.flags,
            sparse.flags,
        ];
        let user = snapshot.user(65534);
        if format == 1 {
            assert_eq!(flags, [Flags::default(); 5]);
            assert_eq!(user, None);
        } else {
            let (none, nodump) = (Flags::default(), Flags::NODUMP);
            assert_eq!(
                flags,
                [nodump, nodump, Flags::APPEND, Flags::IMMUTABLE, none]
            );
            assert_eq!(
                (user, snapshot.group(65534)),
                (Some("nobody"), Some("nogroup"))
            );
            assert_eq!(
                (snapshot.user(0), snapshot.user(12345)),
                (Some("root"), None)
            );
        }
    }
}

/// Whoever does not migrate goes on as before; migrated, both are what was there and what is new.
#[test]
fn they_are_written_in_their_format_until_they_are_migrated() {
    for format in FORMATS {
        let kept = Kept::of_format(format);
        let source = scratch();
        fs::write(source.path().join("file"), "new").unwrap();
        let made = back_up(&kept.repository, &[source.path()]);
        assert_eq!(made.snapshot.owners.is_some(), format > 1);
        assert_eq!(open(&kept.dir).unwrap().format(), format);

        assert_eq!(kept.repository.migrate().unwrap(), format < FORMAT);
        let migrated = open(&kept.dir).unwrap();
        assert_eq!(migrated.format(), FORMAT);
        assert_clean(&migrated);
        let mut browser = Browser::new(&migrated).unwrap();
        let letter = kept.entry(&mut browser, "letter.txt");
        assert_eq!(content(&mut browser, &letter), b"a letter\n");
        let path = source.path().join("file");
        let file = browser.find(id(&made), &made.snapshot, &path).unwrap();
        assert_eq!(content(&mut browser, &file), b"new");
    }
}

#[test]
fn a_wrong_password_opens_none_of_them() {
    for format in FORMATS {
        let kept = Kept::of_format(format);
        let storage = Arc::new(LocalStorage::new(kept.dir.path().join("repository")));
        let error = Repository::open(storage, &b"wrong".to_vec().into()).unwrap_err();
        assert!(
            matches!(error, Error::WrongPassword { keys: 1, .. }),
            "{error}"
        );
    }
}

/// What was stored before there were tags is restored, without any two targets, and gets tags.
#[test]
fn a_striped_repository_without_tags_is_read_and_gets_them() {
    let from = format!(
        "{}/tests/repositories/striped-1",
        env!("CARGO_MANIFEST_DIR")
    );
    let dir = scratch();
    copy_tree(Path::new(&from), &dir.path().join("targets"));
    let place = |name: &str| {
        let path = dir.path().join("targets").join(name);
        // What was empty was not kept.
        for folder in [
            "clients",
            "index",
            "packs",
            "pending",
            "removals",
            "snapshots",
            "tmp",
        ] {
            fs::create_dir_all(path.join(folder)).unwrap();
        }
        Place {
            url: path.display().to_string(),
            storage: Arc::new(LocalStorage::new(path)),
        }
    };
    let open = |names: &[&str]| {
        let places = names.iter().map(|name| place(name)).collect();
        let set = StripedStorage::open("a set".to_owned(), places, Arc::new(|_| {}));
        let set = Arc::new(set.unwrap());
        let storage = Arc::clone(&set) as Arc<dyn Storage>;
        (
            set,
            Arc::new(Repository::open(storage, &password()).unwrap()),
        )
    };
    let assert_restores = |names: &[&str]| {
        let (_, repository) = open(names);
        let snapshots = repository.snapshots(&Filter::default()).unwrap().snapshots;
        let (id, snapshot) = snapshots[0].clone();
        let mut browser = Browser::new(&repository).unwrap();
        let mut read = |path: &str| {
            let entry = browser.find(id, &snapshot, Path::new(path)).unwrap();
            content(&mut browser, &entry)
        };
        assert_eq!(read("/source/small"), b"small\n");
        let large = tabane_lanes::hash_one(tabane_lanes::Algorithm::Sha256, &read("/source/large"));
        let expected = "20ba5c8cdf0ae700ba7de9853fcba2f5fe1886e7fcd8fc37956284da482f4d72";
        assert_eq!(large.to_string(), expected);
    };
    let all = ["a", "b", "c", "d"];
    let pairs = [
        ["a", "b"],
        ["a", "c"],
        ["a", "d"],
        ["b", "c"],
        ["b", "d"],
        ["c", "d"],
    ];
    assert_restores(&all);
    pairs.iter().for_each(|pair| assert_restores(pair));
    let (set, repository) = open(&all);
    assert!(!set.is_tagged());
    assert_clean(&repository);
    assert!(set.allow_tags().unwrap());
    let (set, repository) = open(&all);
    let report = set.heal(HealOptions::default(), &()).unwrap();
    assert_eq!(
        (report.healed_objects, report.written_parts),
        (1, 4),
        "{report:?}"
    );
    assert_clean(&repository);
    pairs.iter().for_each(|pair| assert_restores(pair));
}
