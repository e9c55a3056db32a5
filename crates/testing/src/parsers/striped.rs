//! What targets of a striped repository keep beside what every repository keeps, and the file that
//! lists them. The first byte of an input chooses which targets get it.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tabane_engine::{Algorithm, Hasher};
use tabane_storage::{Name, ObjectKind, Storage, object_id};
use tabane_store::Id;
use tabane_striped::{HealOptions, HealReport, Place, StripedStorage, set_file};

use crate::memory::{MemoryStorage, Objects};

const TARGETS: usize = 5;

/// What a repository would tell its storage.
const SECRET: [u8; 32] = [3; 32];

/// Length of the header of a plain shard, and of a tagged one, which has another format.
const HEADER_LEN: usize = 64;
const TAGGED_HEADER_LEN: usize = 112;
const FORMAT_AT: usize = 7;

thread_local! {
    /// What is on the targets of a set that was over one target less before, and what is stored
    /// there.
    static SET: (Vec<Objects>, Vec<(Name, Vec<u8>)>) = {
        let disks: Vec<MemoryStorage> = (0..TARGETS).map(|_| MemoryStorage::default()).collect();
        describe(&disks[..TARGETS - 1], 1);
        let bytes = 0..70_000_u32;
        let stripe = |byte: u8| bytes.clone().map(|at| (at / 256) as u8 ^ byte).collect::<Vec<_>>();
        let mut stored = Vec::new();
        let mut put = |disks: &[MemoryStorage], kind, bytes: Vec<u8>, is_tagged| {
            let name = Name::new(kind, object_id(&[&bytes]));
            let storage = open(disks).expect("the set");
            if is_tagged {
                storage.learn_secret(&SECRET);
            }
            storage.put(name, &[&bytes]).expect("a put");
            stored.push((name, bytes));
        };
        put(&disks[..TARGETS - 1], ObjectKind::Pack, stripe(0), true);
        describe(&disks, 2);
        put(&disks, ObjectKind::Pack, stripe(1), false);
        put(&disks, ObjectKind::Pack, stripe(2), true);
        put(&disks, ObjectKind::Snapshot, b"a snapshot".to_vec(), true);
        heal(&open(&disks).expect("the set"));
        (disks.iter().map(MemoryStorage::objects).collect(), stored)
    };
}

/// Makes a set of these targets, or adds the last one to a set of the others. Names are the same
/// each time: a set of a program has random ones.
fn describe(disks: &[MemoryStorage], epoch: u64) {
    let set = Id([0xee; 32]);
    let target = |number: usize| Id([number as u8; 32]);
    let numbers = 0..disks.len();
    let generations = (TARGETS - 1..=disks.len()).map(|len| (0..len).map(target).collect());
    let generations: Vec<Vec<Id>> = generations.collect();
    let members = numbers.map(|number| json!({"id": target(number), "url": url(number)}));
    let description = json!({
        "format": 2,
        "set": set,
        "epoch": epoch,
        "fixed_roles": false,
        "targets": members.collect::<Vec<_>>(),
        "generations": generations,
    });
    let description = description.to_string().into_bytes();
    for (number, disk) in disks.iter().enumerate() {
        let identity = json!({
            "format": 1,
            "set": set,
            "target": target(number),
            "checksum": object_id(&[&set.0, &target(number).0]),
        });
        disk.set(Name::TARGET, identity.to_string().into_bytes());
        let name = Name::new(ObjectKind::Set, object_id(&[&description]));
        disk.set(name, description.clone());
    }
}

fn url(number: usize) -> String {
    format!("/disk/{number}")
}

fn places(disks: &[MemoryStorage]) -> Vec<Place> {
    let disks = disks.iter().cloned().enumerate();
    let places = disks.map(|(number, disk)| Place {
        url: url(number),
        storage: Arc::new(disk),
    });
    places.collect()
}

fn open(disks: &[MemoryStorage]) -> tabane_storage::Result<StripedStorage> {
    StripedStorage::open("a set".to_owned(), places(disks), Arc::new(|_| {}))
}

fn heal(storage: &StripedStorage) -> Option<HealReport> {
    let options = HealOptions::default().read_data(true);
    storage.heal(options, &()).ok()
}

/// Fresh copies of the targets, which may be written to.
fn fresh() -> (Vec<MemoryStorage>, Vec<(Name, Vec<u8>)>) {
    let (disks, stored) = SET.with(Clone::clone);
    (disks.into_iter().map(MemoryStorage::new).collect(), stored)
}

/// The targets that the first byte chooses, and its flag: to seal the input, or to replace all
/// others by it.
fn chosen(first: u8) -> (Vec<usize>, bool) {
    let chosen = (0..TARGETS).filter(|number| first >> number & 1 == 1);
    (chosen.collect(), first >> TARGETS & 1 == 1)
}

fn xxh128(parts: &[&[u8]]) -> Vec<u8> {
    let mut hasher = Hasher::new(Algorithm::Xxh128);
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finish().as_ref().to_vec()
}

/// Uses all that a storage can do, whatever it answers.
fn use_it(storage: &StripedStorage, stored: &[(Name, Vec<u8>)]) {
    for (name, _) in stored {
        let _ = (storage.get(*name, Some(100..200)), storage.stat(*name));
        if let Ok(bytes) = storage.get(*name, None) {
            assert_eq!(storage.stat(*name).ok(), Some(bytes.len() as u64));
        }
        let _ = storage.list(name.kind);
    }
    if let Ok(survey) = storage.survey() {
        survey.statement();
    }
    let bytes = vec![7; 100_000];
    let new = Name::new(ObjectKind::Pack, object_id(&[&bytes]));
    if storage.put(new, &[&bytes]).is_ok() {
        assert!(storage.get(new, None).expect("what was put") == bytes);
    }
    heal(storage);
}

/// Everything is there as it was stored.
fn assert_whole(storage: &StripedStorage, stored: &[(Name, Vec<u8>)]) {
    for (name, bytes) in stored {
        assert!(storage.get(*name, None).expect("an object") == *bytes);
        assert_eq!(storage.stat(*name).expect("an object"), bytes.len() as u64);
        let listed = storage.list(name.kind).expect("a list");
        let mut found = listed.iter().filter(|listed| listed.id == name.id);
        assert!(found.any(|listed| storage.is_listed_as(listed.len, bytes.len() as u64)));
    }
}

// Containers. The second byte chooses the object.

pub fn container(input: &[u8]) {
    let Some((&[first, object], bytes)) = input.split_first_chunk() else {
        return;
    };
    let (disks, stored) = fresh();
    let (name, _) = stored[usize::from(object) % stored.len()];
    let ((targets, seal), mut bytes) = (chosen(first), bytes.to_vec());
    let header_len = match bytes.get(FORMAT_AT) {
        Some(2) => TAGGED_HEADER_LEN,
        _ => HEADER_LEN,
    };
    if seal && bytes.len() >= header_len {
        let at = header_len - 16;
        let checksum = xxh128(&[&name.id.0, &bytes[..at]]);
        bytes[at..header_len].copy_from_slice(&checksum);
    }
    for &number in &targets {
        disks[number].set(name, bytes.clone());
    }
    let knows_secret = first >> (TARGETS + 1) & 1 == 1;
    let open = || {
        let storage = open(&disks).expect("the set is as it was");
        if knows_secret {
            storage.learn_secret(&SECRET);
        }
        storage
    };
    let storage = open();
    if seal || targets.len() > 2 {
        return use_it(&storage, &stored);
    }
    assert_whole(&storage, &stored);
    let report = heal(&storage).expect("a heal");
    assert_eq!(report.unhealed_objects, 0, "{report:?}");
    let storage = open();
    assert_whole(&storage, &stored);
    let report = heal(&storage).expect("a heal");
    let found = (report.damaged_parts, report.written_parts, report.fragments);
    assert_eq!(found, (0, 0, 0), "{report:?}");
}

pub fn container_samples() -> Vec<Vec<u8>> {
    let (disks, stored) = SET.with(Clone::clone);
    let mut samples = Vec::new();
    for (object, (name, _)) in (0..).zip(&stored) {
        for (number, disk) in disks.iter().enumerate() {
            let Some(container) = disk.get(name) else {
                continue;
            };
            let sealed = 0b10_0000 | 1 << number;
            for first in [0b00001, 0b100_0110, sealed, 0b100_0000 | sealed, 0b11_1111] {
                samples.push([&[first, object], &container[..]].concat());
            }
        }
    }
    samples
}

// What a target says of itself.

pub fn target(input: &[u8]) {
    let Some((&first, bytes)) = input.split_first() else {
        return;
    };
    let (disks, stored) = fresh();
    let ((targets, seal), mut bytes) = (chosen(first), bytes.to_vec());
    if seal && let Ok(mut json) = serde_json::from_slice::<Value>(&bytes) {
        let id = |name: &str| json[name].as_str()?.parse::<Id>().ok();
        if let (Some(set), Some(target)) = (id("set"), id("target")) {
            json["checksum"] = object_id(&[&set.0, &target.0]).to_string().into();
            bytes = json.to_string().into();
        }
    }
    for &number in &targets {
        disks[number].set(Name::TARGET, bytes.clone());
    }
    let Ok(storage) = open(&disks) else {
        return;
    };
    match targets.len() {
        0..=2 => assert_whole(&storage, &stored),
        _ => use_it(&storage, &stored),
    }
    let described = storage.survey().map(|survey| survey.targets);
    heal(&storage);
    let again = open(&disks).expect("a heal leaves a set");
    let all_there = described.is_ok_and(|targets| targets.iter().all(|one| one.missing.is_none()));
    if all_there {
        let survey = again.survey().expect("a survey");
        assert!(survey.targets.iter().all(|one| one.missing.is_none()));
    }
}

pub fn target_samples() -> Vec<Vec<u8>> {
    let (disks, _) = SET.with(Clone::clone);
    let own = |disk: &Objects| disk[&Name::TARGET].clone();
    let mut samples = Vec::new();
    for first in [0, 0b00001, 0b00110, 0b10_0001, 0b11_1111] {
        samples.extend(disks.iter().map(|disk| [&[first], &own(disk)[..]].concat()));
    }
    samples
}

// Descriptions of the set. With the flag, the input replaces all other descriptions.

pub fn set(input: &[u8]) {
    let Some((&first, bytes)) = input.split_first() else {
        return;
    };
    let (disks, stored) = fresh();
    let (targets, alone) = chosen(first);
    for (number, disk) in disks.iter().enumerate() {
        let known = disk.objects().into_keys();
        for name in known.filter(|name| alone && name.kind == ObjectKind::Set) {
            disk.remove(name);
        }
        if targets.contains(&number) {
            disk.set(
                Name::new(ObjectKind::Set, object_id(&[bytes])),
                bytes.to_vec(),
            );
        }
    }
    let Ok(storage) = open(&disks) else {
        return;
    };
    use_it(&storage, &stored);
    let new = Place {
        url: "/disk/new".to_owned(),
        storage: Arc::new(MemoryStorage::default()),
    };
    let _ = storage.add(&new);
    let _ = storage.replace("/disk/1", &new);
    let _ = open(&disks);
}

pub fn set_samples() -> Vec<Vec<u8>> {
    let (disks, _) = SET.with(Clone::clone);
    let mut samples = Vec::new();
    for (name, bytes) in &disks[0] {
        if name.kind == ObjectKind::Set {
            for first in [0, 0b00001, 0b01_1111, 0b11_1111] {
                samples.push([&[first], &bytes[..]].concat());
            }
        }
    }
    assert!(!samples.is_empty());
    samples
}

// The file that lists the targets.

pub fn set_file(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let Ok(urls) = set_file::parse(text) else {
        return;
    };
    assert_eq!(set_file::parse(&set_file::text(&urls)).as_ref(), Ok(&urls));
    let folder = Path::new("/home/me");
    for url in urls {
        if let Ok(absolute) = set_file::absolute(&url, folder) {
            assert!(!absolute.is_empty());
            let again = set_file::absolute(&absolute, Path::new("/elsewhere"));
            assert_eq!(again, Ok(absolute));
        }
    }
}

pub fn set_file_samples() -> Vec<Vec<u8>> {
    let urls = [
        "/mnt/a",
        "b/../c/",
        "s3://bucket/e",
        "s3+http://127.0.0.1:7070/bucket/e",
        "webdav+http://host/x y",
        "gs://bucket",
        "az://account/container/x",
        "striped:x",
        "/tab\there \"and\" \\ \u{7f}é",
    ];
    let urls = urls.map(str::to_owned);
    let samples = [
        set_file::text(&urls),
        set_file::text(&urls[..1]),
        "target = [{url = '/mnt/a'}, {url = \"\"\"b\"\"\"}]".to_owned(),
        "[[target]]\nurl = \"/\"\n[[target]]\nurl = 1979-05-27\n".to_owned(),
    ];
    samples.map(String::into_bytes).into()
}
