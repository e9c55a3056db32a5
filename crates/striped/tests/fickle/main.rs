//! Sets over targets that fail, come back, and lie.

mod beside;
mod drain;
mod forged;
mod groups;
mod grown;
mod refusals;
mod stale;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tabane_storage::{
    Event, Listed, LocalStorage, Name, ObjectKind, Progress, Result, Storage, StorageError,
    StorageErrorKind, object_id,
};
use tabane_striped::{Place, StripedStorage};
use tempfile::TempDir;

/// A directory that fails as it is told.
struct Fickle {
    inner: LocalStorage,
    /// With what reads, and everything else, fail.
    reads: Mutex<Option<StorageErrorKind>>,
    others: Mutex<Option<StorageErrorKind>>,
    read_bytes: AtomicU64,
    /// Bytes that it says are free.
    free: Mutex<Option<u64>>,
    /// How long each 64 KiB that are read take.
    pause: Mutex<Duration>,
    /// What happens before the next put, and the next deletion, of a snapshot.
    before_put: Mutex<Option<Meanwhile>>,
    before_delete: Mutex<Option<Meanwhile>>,
    /// What happens before the next operation of this sort.
    before: Mutex<Option<(Sort, Meanwhile)>>,
}

/// Which operation, and of objects of which kind.
type Sort = (&'static str, ObjectKind);
type Meanwhile = Box<dyn FnOnce() + Send>;

impl Fickle {
    fn new(dir: &std::path::Path) -> Self {
        Self {
            inner: LocalStorage::new(dir),
            reads: Mutex::default(),
            others: Mutex::default(),
            read_bytes: AtomicU64::new(0),
            free: Mutex::default(),
            pause: Mutex::default(),
            before_put: Mutex::default(),
            before_delete: Mutex::default(),
            before: Mutex::default(),
        }
    }

    /// Lets this happen before the next operation of this sort.
    fn before(&self, sort: Sort, act: impl FnOnce() + Send + 'static) {
        *self.before.lock().unwrap() = Some((sort, Box::new(act)));
    }

    fn is_about_to(&self, operation: &str, kind: ObjectKind) {
        let is_it = |(sort, _): &mut (Sort, Meanwhile)| *sort == (operation, kind);
        let act = self.before.lock().unwrap().take_if(is_it);
        if let Some((_, act)) = act {
            act();
        }
    }

    fn fail(&self, kind: Option<StorageErrorKind>) {
        *self.reads.lock().unwrap() = kind;
        *self.others.lock().unwrap() = kind;
    }

    fn act<T>(
        &self,
        fault: &Mutex<Option<StorageErrorKind>>,
        act: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        match *fault.lock().unwrap() {
            Some(kind) => Err(StorageError::new(kind, format!("it fails: {kind:?}"))),
            None => act(),
        }
    }
}

/// Lets something happen before an operation on objects of this kind, if it is the one `of` which
/// it happens.
fn meanwhile(kind: ObjectKind, of: ObjectKind, act: &Mutex<Option<Meanwhile>>) {
    let act = act.lock().unwrap().take_if(|_| kind == of);
    act.into_iter().for_each(|act| act());
}

impl Storage for Fickle {
    fn location(&self) -> String {
        self.inner.location()
    }

    fn create(&self) -> Result<()> {
        self.act(&self.others, || self.inner.create())
    }

    fn put(&self, name: Name, parts: &[&[u8]]) -> Result<()> {
        meanwhile(name.kind, ObjectKind::Snapshot, &self.before_put);
        self.is_about_to("put", name.kind);
        self.act(&self.others, || self.inner.put(name, parts))
    }

    fn get(&self, name: Name, range: Option<Range<u64>>) -> Result<Vec<u8>> {
        let bytes = self.act(&self.reads, || self.inner.get(name, range))?;
        let pause = *self.pause.lock().unwrap();
        std::thread::sleep(pause.mul_f64(bytes.len() as f64 / 65536.0));
        self.read_bytes
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(bytes)
    }

    fn list(&self, kind: ObjectKind) -> Result<Vec<Listed>> {
        self.is_about_to("list", kind);
        self.act(&self.others, || self.inner.list(kind))
    }

    fn stat(&self, name: Name) -> Result<u64> {
        self.is_about_to("stat", name.kind);
        self.act(&self.others, || self.inner.stat(name))
    }

    fn free_bytes(&self) -> Option<u64> {
        *self.free.lock().unwrap()
    }

    fn delete(&self, name: Name) -> Result<()> {
        meanwhile(name.kind, ObjectKind::Snapshot, &self.before_delete);
        self.act(&self.others, || self.inner.delete(name))
    }
}

/// Keeps problems.
#[derive(Default)]
struct Problems(Mutex<Vec<String>>);

impl Progress for Problems {
    fn problem(&self, what: &str) {
        self.0.lock().unwrap().push(what.to_owned());
    }
}

struct Bed {
    _dir: TempDir,
    targets: Vec<Arc<Fickle>>,
    places: Vec<Place>,
    told: Arc<Mutex<Vec<String>>>,
}

impl Bed {
    /// A set of targets at URLs that begin with this.
    fn new(count: usize, scheme: &str) -> Self {
        Self::of_groups(&[count], scheme)
    }

    /// A set of groups of so many targets.
    fn of_groups(groups: &[usize], scheme: &str) -> Self {
        let bed = Self::unformed(groups.iter().sum(), scheme);
        let mut places = bed.places.clone();
        let groups = groups.iter().map(|&count| places.drain(..count).collect());
        StripedStorage::form_groups(groups.collect(), false).unwrap();
        bed
    }

    /// Targets that are no set yet.
    fn unformed(count: usize, scheme: &str) -> Self {
        // In memory, if the system has /dev/shm.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let dir = dir.unwrap();
        let paths = (0..count).map(|number| dir.path().join(number.to_string()));
        let targets: Vec<_> = paths.map(|path| Arc::new(Fickle::new(&path))).collect();
        let places: Vec<_> = (0..)
            .zip(&targets)
            .map(|(number, target)| Place {
                url: format!("{scheme}{number}"),
                storage: Arc::clone(target) as Arc<dyn Storage>,
            })
            .collect();
        Self {
            _dir: dir,
            targets,
            places,
            told: Arc::default(),
        }
    }

    fn open(&self) -> StripedStorage {
        let told = Arc::clone(&self.told);
        let notice = Arc::new(move |event: &Event| told.lock().unwrap().push(event.text.clone()));
        StripedStorage::open("set".to_owned(), self.places.clone(), notice).unwrap()
    }

    fn told(&self) -> String {
        self.told.lock().unwrap().join("\n")
    }

    fn fail(&self, numbers: &[usize], kind: Option<StorageErrorKind>) {
        let targets = numbers.iter().map(|&number| &self.targets[number]);
        targets.for_each(|target| target.fail(kind));
    }

    /// Bytes that all targets gave since the last time.
    fn read_bytes(&self) -> u64 {
        let targets = self.targets.iter();
        targets
            .map(|target| target.read_bytes.swap(0, Ordering::Relaxed))
            .sum()
    }
}

fn object(seed: u8, len: usize) -> (Name, Vec<u8>) {
    let byte = |at: usize| (at as u8).wrapping_mul(31).wrapping_add((at >> 8) as u8) ^ seed;
    let bytes: Vec<u8> = (0..len).map(byte).collect();
    (Name::new(ObjectKind::Pack, object_id(&[&bytes])), bytes)
}

/// A target that cannot be read does not count as one without the object.
#[test]
fn what_cannot_be_read_is_not_taken_for_what_is_not_there() {
    for scheme in ["node://", "target-"] {
        for len in [1000, 700_000] {
            for is_known in [true, false] {
                let bed = Bed::new(5, scheme);
                let (name, bytes) = object(1, len);
                bed.open().put(name, &[&bytes]).unwrap();
                let storage = bed.open();
                if is_known {
                    assert!(storage.get(name, None).unwrap() == bytes);
                }
                // Three targets hold the copies of a small object, any three of the five.
                let failing = [0, 1, 2, 3, 4];
                let failing = &failing[..if len == 1000 { 5 } else { 4 }];
                // An error of input and output is one of these.
                bed.fail(failing, Some(StorageErrorKind::Permanent));
                let error = storage.get(name, None).unwrap_err();
                assert_eq!(error.kind(), StorageErrorKind::Permanent, "{len} {error}");
                assert!(error.to_string().contains("it fails"), "{error}");
                bed.fail(failing, Some(StorageErrorKind::Unreachable));
                let error = storage.get(name, None).unwrap_err();
                let kind = error.kind();
                assert_eq!(kind, StorageErrorKind::TooFewTargets, "{len} {error}");
            }
        }
    }
    // A missing object is NotFound, whichever target fails.
    let bed = Bed::new(5, "target-");
    let storage = bed.open();
    bed.fail(&[4], Some(StorageErrorKind::Permanent));
    let error = storage.get(object(2, 1000).0, None).unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::NotFound);
}

/// One is away from the beginning, one fails while the object is marked, and one when it is to
/// delete it.
#[test]
fn a_deletion_counts_all_targets_that_have_not_deleted() {
    let bed = Bed::new(4, "target-");
    let (pack, bytes) = object(4, 1000);
    let name = Name::new(ObjectKind::Snapshot, pack.id);
    bed.open().put(name, &[&bytes]).unwrap();
    bed.fail(&[0], Some(StorageErrorKind::Unreachable));
    let storage = bed.open();
    bed.fail(&[1], Some(StorageErrorKind::Unreachable));
    let third = Arc::clone(&bed.targets[2]);
    let fails = move || third.fail(Some(StorageErrorKind::Unreachable));
    *bed.targets[2].before_delete.lock().unwrap() = Some(Box::new(fails));
    let error = storage.delete(name).unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::TooFewTargets, "{error}");
}

#[test]
fn a_node_comes_back_and_a_directory_does_not() {
    for (scheme, returns) in [("node://", true), ("target-", false)] {
        let bed = Bed::new(5, scheme);
        let storage = bed.open();
        let (name, bytes) = object(3, 300_000);
        bed.fail(&[1], Some(StorageErrorKind::Unreachable));
        storage.put(name, &[&bytes]).unwrap();
        assert!(bed.told().contains("1 fails"), "{}", bed.told());
        // One that is another now is not taken for it.
        let node = &bed.targets[1].inner;
        let identity = node.get(Name::TARGET, None).unwrap();
        let other = bed.targets[2].inner.get(Name::TARGET, None).unwrap();
        node.replace(Name::TARGET, &[&other]).unwrap();
        bed.fail(&[1], None);
        std::thread::sleep(Duration::from_secs(3));
        assert!(!bed.told().contains("answers again"), "{}", bed.told());
        node.replace(Name::TARGET, &[&identity]).unwrap();
        for _ in 0..60 {
            std::thread::sleep(Duration::from_millis(100));
            if bed.told().contains("answers again") {
                break;
            }
        }
        let told = bed.told();
        assert_eq!(told.contains("answers again"), returns, "{told}");
        let survey = storage.survey().unwrap();
        assert_eq!(survey.targets[1].missing.is_none(), returns);
        assert_eq!(survey.targets[1].lacks, u64::from(returns));
    }
}

/// In whatever order, and whichever two are away, the ranges of a stripe take its sectors once.
#[test]
fn a_stripe_is_decoded_once_and_not_once_a_range() {
    for count in [4, 5, 7] {
        let bed = Bed::new(count, "target-");
        let (name, bytes) = object(5, 6_000_000);
        bed.open().put(name, &[&bytes]).unwrap();
        for lost in [vec![0], vec![0, 1], vec![1, count - 1]] {
            bed.fail(&lost, Some(StorageErrorKind::Unreachable));
            for step in [1, 7] {
                let storage = bed.open();
                storage.get(name, Some(0..1)).unwrap();
                bed.read_bytes();
                let mut starts: Vec<usize> = (0..bytes.len()).step_by(90_000).collect();
                starts.sort_by_key(|start| start / 90_000 * step % 67);
                for start in starts {
                    let end = (start + 90_000).min(bytes.len());
                    let got = storage.get(name, Some(start as u64..end as u64)).unwrap();
                    assert!(got == bytes[start..end], "{count} {lost:?} {start}");
                }
                let read = bed.read_bytes() as f64 / bytes.len() as f64;
                assert!(read <= 1.1, "{count} {lost:?} {step}: {read}");
            }
            bed.fail(&lost, None);
        }
    }
}

#[test]
fn slow_targets_are_left_out_as_long_as_others_have_enough() {
    let bed = Bed::new(5, "target-");
    let objects: Vec<_> = (10..30).map(|seed| object(seed, 1_500_000)).collect();
    let storage = bed.open();
    for (name, bytes) in &objects {
        storage.put(*name, &[bytes]).unwrap();
    }
    *bed.targets[3].pause.lock().unwrap() = Duration::from_millis(40);
    let read_all = |storage: &StripedStorage| {
        for (name, bytes) in &objects {
            assert!(storage.get(*name, None).unwrap() == *bytes);
        }
    };
    let before = bed.targets[3].read_bytes.load(Ordering::Relaxed);
    read_all(&storage);
    // Each target has a fifth of it, with parities more.
    let all: usize = objects.iter().map(|(_, bytes)| bytes.len()).sum();
    let slow = bed.targets[3].read_bytes.load(Ordering::Relaxed) - before;
    assert!(slow < all as u64 / 12, "{slow} of {all}");
    // The slow target is needed when two others are away.
    bed.fail(&[0, 1], Some(StorageErrorKind::Unreachable));
    read_all(&storage);
    read_all(&storage);
}
