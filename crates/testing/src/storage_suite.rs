//! The contract of storages, as one suite that every storage runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, SystemTime};

use tabane_storage::{Id, Name, ObjectKind, Storage, StorageErrorKind, object_id};

/// What is tried with a storage.
pub struct Suite<'a> {
    /// Packs that are put in the end; more than 1000 do not fit into one answer of a server.
    pub count: u32,
    /// Races for a name, the first one for that of the config.
    pub races: u32,
    /// Happens between the parts of the suite, four times.
    pub now_and_then: &'a dyn Fn(),
}

impl Default for Suite<'_> {
    fn default() -> Self {
        Self {
            count: 100,
            races: 5,
            now_and_then: &|| {},
        }
    }
}

impl Suite<'_> {
    /// Runs the suite on a storage that is empty and new.
    pub fn run(&self, storage: &dyn Storage) {
        creating(storage);
        (self.now_and_then)();
        objects(storage);
        (self.now_and_then)();
        ranges(storage);
        (self.now_and_then)();
        lists(storage);
        (self.now_and_then)();
        let winners: Vec<usize> = (0..self.races).map(|race| winners(storage, race)).collect();
        // A WebDAV server may look whether a name is taken and take it later:
        // docs/reference/object-stores.md says what follows.
        if !storage.location().starts_with("webdav") {
            assert!(winners.iter().all(|&winners| winners == 1), "{winners:?}");
        }
        many(storage, self.count);
    }
}

/// The name of an object with these bytes.
fn name(kind: ObjectKind, bytes: &[u8]) -> Name {
    match kind {
        ObjectKind::Config => Name::CONFIG,
        _ => Name::new(kind, object_id(&[bytes])),
    }
}

fn creating(storage: &dyn Storage) {
    assert!(!storage.location().is_empty());
    let kind = storage.stat(Name::CONFIG).unwrap_err().kind();
    assert_eq!(kind, StorageErrorKind::NotFound);
    storage.create().unwrap();
    for kind in ObjectKind::ALL {
        match kind {
            ObjectKind::Config => {
                let kind = storage.list(kind).unwrap_err().kind();
                assert_eq!(kind, StorageErrorKind::NotFound);
            }
            _ => assert_eq!(storage.list(kind).unwrap(), [], "{kind:?}"),
        }
    }
    // An interrupted `init` may have left keys: no obstacle.
    let key = name(ObjectKind::Key, b"key");
    storage.put(key, &[b"key"]).unwrap();
    storage.create().unwrap();
    storage.delete(key).unwrap();
}

/// Put, get, stat and delete, of all kinds and several lengths.
fn objects(storage: &dyn Storage) {
    let lengths = [0, 1, 1000, 17 << 20];
    for kind in ObjectKind::ALL {
        for len in lengths {
            if len > 1000 && kind != ObjectKind::Pack {
                continue;
            }
            let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + at / 251) as u8).collect();
            let name = name(kind, &bytes);
            let before = SystemTime::now() - Duration::from_secs(2);
            // In several parts, some of them empty.
            let (front, back) = bytes.split_at(bytes.len() / 3);
            storage.put(name, &[front, &[], back]).unwrap();
            assert!(
                storage.get(name, None).unwrap() == bytes,
                "{name}, {len} bytes"
            );
            assert_eq!(storage.stat(name).unwrap(), len as u64);
            let listed = storage.list(kind).unwrap();
            assert_eq!(listed.len(), 1, "{name}");
            assert_eq!(listed[0].id, name.id);
            assert!(storage.is_listed_as(listed[0].len, len as u64), "{name}");
            let longer = len as u64 + 100_000;
            assert!(!storage.is_listed_as(listed[0].len, longer), "{name}");
            let soon = SystemTime::now() + Duration::from_secs(2);
            assert!(listed[0].modified > before && listed[0].modified < soon);

            let twice = storage.put(name, &[b"other"]).unwrap_err();
            assert_eq!(twice.kind(), StorageErrorKind::AlreadyExists, "{name}");
            assert_eq!(
                storage.stat(name).unwrap(),
                len as u64,
                "{name} stays as it is"
            );

            storage.delete(name).unwrap();
            // Many servers do not say that there was nothing to delete.
            if let Err(error) = storage.delete(name) {
                assert_eq!(error.kind(), StorageErrorKind::NotFound, "{name}: {error}");
            }
            for error in [
                storage.stat(name).unwrap_err(),
                storage.get(name, None).unwrap_err(),
                storage.get(name, Some(0..1)).unwrap_err(),
                storage.get(name, Some(0..0)).unwrap_err(),
            ] {
                assert_eq!(error.kind(), StorageErrorKind::NotFound, "{name}: {error}");
            }
        }
    }
}

fn ranges(storage: &dyn Storage) {
    let bytes: Vec<u8> = (0..=255).collect();
    let pack = name(ObjectKind::Pack, &bytes);
    storage.put(pack, &[&bytes]).unwrap();
    for (start, end) in [(0, 256), (0, 1), (255, 256), (17, 99), (0, 0), (256, 256)] {
        let part = storage.get(pack, Some(start..end)).unwrap();
        assert_eq!(part, &bytes[start as usize..end as usize], "{start}..{end}");
    }
    for (start, end) in [(0, 257), (255, 257), (256, 257), (1000, 2000)] {
        let error = storage.get(pack, Some(start..end)).unwrap_err();
        let kind = error.kind();
        assert_eq!(kind, StorageErrorKind::PastEnd, "{start}..{end}: {error}");
    }
    storage.delete(pack).unwrap();
}

fn lists(storage: &dyn Storage) {
    for kind in [ObjectKind::Index, ObjectKind::Pack] {
        let objects = (1..=40).map(|len| {
            let bytes = vec![7; len];
            (name(kind, &bytes).id, bytes)
        });
        let objects: BTreeMap<Id, Vec<u8>> = objects.collect();
        for (id, bytes) in &objects {
            storage.put(Name::new(kind, *id), &[bytes]).unwrap();
        }
        let listed = storage.list(kind).unwrap();
        assert_eq!(listed.len(), objects.len());
        for object in listed {
            let len = objects[&object.id].len() as u64;
            assert!(storage.is_listed_as(object.len, len));
        }
        for id in objects.keys() {
            storage.delete(Name::new(kind, *id)).unwrap();
        }
        assert_eq!(storage.list(kind).unwrap(), []);
    }
}

/// Of many who put the same name, some succeed, and the bytes of one of them are there whole:
/// returns how many. Only for the config the bytes can differ.
fn winners(storage: &dyn Storage, race: u32) -> usize {
    let bytes = |number: u8| match race {
        0 => vec![number; 100_000],
        _ => vec![race as u8; 100_000],
    };
    let contested = match race {
        0 => Name::CONFIG,
        _ => name(ObjectKind::Removal, &bytes(0)),
    };
    let start = Barrier::new(8);
    let won: Vec<u8> = thread::scope(|scope| {
        let putters: Vec<_> = (0..8)
            .map(|number| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    match storage.put(contested, &[&bytes(number)]) {
                        Ok(()) => Some(number),
                        Err(error) => {
                            let kind = error.kind();
                            assert_eq!(kind, StorageErrorKind::AlreadyExists, "{error}");
                            None
                        }
                    }
                })
            })
            .collect();
        let done = putters.into_iter().map(|putter| putter.join().unwrap());
        done.flatten().collect()
    });
    let found = storage.get(contested, None).unwrap();
    assert!(won.iter().any(|&winner| found == bytes(winner)));
    storage.delete(contested).unwrap();
    won.len()
}

/// Puts many small packs at once, and lists them.
pub fn many(storage: &dyn Storage, count: u32) {
    let pack = |number: u32| name(ObjectKind::Pack, &number.to_be_bytes());
    thread::scope(|scope| {
        for part in 0..8 {
            scope.spawn(move || {
                for number in (0..count).filter(|number| number % 8 == part) {
                    storage.put(pack(number), &[&number.to_be_bytes()]).unwrap();
                }
            });
        }
    });
    let listed = storage.list(ObjectKind::Pack).unwrap();
    assert_eq!(listed.len(), count as usize);
    let found: BTreeSet<Id> = listed.iter().map(|object| object.id).collect();
    assert_eq!(found, (0..count).map(|number| pack(number).id).collect());
}

/// Objects that [`write_much`] leaves behind, and their number.
pub const MUCH: usize = 100;

/// Puts, reads and deletes objects on several threads, whatever happens to the server meanwhile;
/// [`check_much`] knows what must be there afterwards.
pub fn write_much(storage: &dyn Storage) {
    storage.create().unwrap();
    thread::scope(|scope| {
        for part in 0..5 {
            scope.spawn(move || {
                for number in (part..2 * MUCH).step_by(5) {
                    let bytes = content(number);
                    let pack = name(ObjectKind::Pack, &bytes);
                    storage.put(pack, &[&bytes]).unwrap();
                    assert!(storage.get(pack, None).unwrap() == bytes);
                    let (start, end) = (bytes.len() / 3, bytes.len() / 2);
                    let part = storage.get(pack, Some(start as u64..end as u64)).unwrap();
                    assert!(part == bytes[start..end]);
                    if number % 2 == 0 {
                        storage.delete(pack).unwrap();
                    }
                }
            });
        }
    });
}

/// Checks that just what [`write_much`] left is there.
pub fn check_much(storage: &dyn Storage) {
    let listed = storage.list(ObjectKind::Pack).unwrap();
    assert_eq!(listed.len(), MUCH);
    for number in (1..2 * MUCH).step_by(2) {
        let bytes = content(number);
        let found = storage.get(name(ObjectKind::Pack, &bytes), None).unwrap();
        assert!(found == bytes, "{number}");
    }
}

fn content(number: usize) -> Vec<u8> {
    let len = 8 + (number * 7919) % 600_000;
    let mut bytes = vec![number as u8; len];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes
}
