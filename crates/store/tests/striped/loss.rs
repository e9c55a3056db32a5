//! What is lost or damaged comes back.

use std::fs;
use std::sync::Arc;

use tabane_parity::{Layout, fewest_reads};
use tabane_storage::{Name, ObjectKind, Storage, object_id};
use tabane_store::Id;
use tabane_striped::StripedStorage;

use crate::bed::{Bed, Random, heal, pairs, scrub};
use crate::common::assert_clean;
use crate::common::memory::MemoryStorage;
use crate::common::striped::{open, places};

/// Any two targets are lost, or have a thousand bytes flipped: everything restores, and is whole
/// again after a heal.
pub fn every_pair(bed: &Bed, snapshot: Id) {
    bed.assert_whole();
    let mut random = Random(bed.count as u64);
    for pair in pairs(bed.count) {
        for number in pair {
            bed.lose(number);
        }
        bed.assert_restores(snapshot);
        for number in pair {
            bed.renew(number);
        }
        let report = heal(&bed.open());
        assert!(
            report.healed_objects > 0 && report.unhealed_objects == 0,
            "{report:?}"
        );
        bed.assert_scrubbed();

        bed.flip(&pair, 1000, &mut random);
        bed.assert_restores(snapshot);
        let report = scrub(&bed.open());
        assert!(
            report.damaged_parts > 0 && report.unhealed_objects == 0,
            "{report:?}"
        );
        bed.assert_scrubbed();
    }
    bed.assert_whole();
    bed.assert_restores(snapshot);
    assert_clean(&bed.repository());
}

#[test]
fn every_pair_of_five() {
    let bed = Bed::new(5);
    let snapshot = bed.fill();
    every_pair(&bed, snapshot);
}

#[test]
fn every_pair_of_five_with_fixed_roles() {
    let bed = Bed::new(5);
    let snapshot = bed.fill_with(true);
    assert!(stripes(&bed).all(|(number, role)| role == number));
    every_pair(&bed, snapshot);
    assert!(stripes(&bed).all(|(number, role)| role == number));
}

#[test]
fn every_pair_of_eight() {
    let bed = Bed::new(8);
    let snapshot = bed.fill();
    every_pair(&bed, snapshot);
}

/// The role of each stripe's part and the number of its target.
fn stripes(bed: &Bed) -> impl Iterator<Item = (u8, u8)> {
    let files = (0..bed.count).flat_map(|number| {
        bed.files(number)
            .into_iter()
            .map(move |file| (number, file))
    });
    let roles = files.filter_map(|(number, file)| {
        let bytes = fs::read(file).unwrap();
        let is_stripe = bytes.starts_with(b"TABANE#") && bytes[16] > 0;
        is_stripe.then(|| (number as u8, bytes[18]))
    });
    let roles: Vec<(u8, u8)> = roles.collect();
    assert!(roles.len() >= bed.count, "there are no stripes: {roles:?}");
    roles.into_iter()
}

fn memory(count: usize) -> Vec<MemoryStorage> {
    (0..count).map(|_| MemoryStorage::default()).collect()
}

fn set_of(storages: &[MemoryStorage]) -> StripedStorage {
    let shared = storages.iter().cloned();
    open(places(
        shared
            .map(|storage| -> Arc<dyn Storage> { Arc::new(storage) })
            .collect(),
    ))
    .unwrap()
}

fn form(storages: &[MemoryStorage], fixed_roles: bool) {
    let shared = storages.iter().cloned();
    let places = places(
        shared
            .map(|storage| -> Arc<dyn Storage> { Arc::new(storage) })
            .collect(),
    );
    StripedStorage::form(places, fixed_roles).unwrap();
}

/// Every number of targets, objects of lengths around the edges of sectors and cells, every range
/// that matters, with no target, each and each two of them empty.
#[test]
fn objects_of_all_lengths_over_all_numbers_of_targets() {
    let mut random = Random(3);
    for count in 3..=16 {
        let storages = memory(count);
        form(&storages, count % 2 == 0);
        let layout = Layout::new(count).unwrap();
        let data = layout.data_cells().len();
        let sector = 64 << 10;
        let mut lens = vec![0, 1, sector, sector + 1, 100_000];
        if count <= 6 {
            lens.extend([
                data * sector - 1,
                data * sector,
                data * sector + 1,
                data * 70_000,
            ]);
        }
        let storage = set_of(&storages);
        let mut objects = Vec::new();
        for len in lens {
            let bytes = random.bytes(len);
            let name = Name::new(ObjectKind::Pack, object_id(&[&bytes]));
            storage.put(name, &[&bytes]).unwrap();
            objects.push((name, bytes));
        }
        let mut lost: Vec<Vec<usize>> = pairs(count).map(Vec::from).collect();
        if count > 6 {
            lost = lost.into_iter().step_by(count - 4).collect();
        }
        lost.extend([vec![], vec![count - 1], vec![0]]);
        for lost in lost {
            let mut left = storages.clone();
            for &number in &lost {
                left[number] = MemoryStorage::default();
            }
            let storage = set_of(&left);
            assert_eq!(storage.list(ObjectKind::Pack).unwrap().len(), objects.len());
            for (name, bytes) in &objects {
                assert!(
                    storage.get(*name, None).unwrap() == *bytes,
                    "{count} without {lost:?}"
                );
                assert_eq!(storage.stat(*name).unwrap(), bytes.len() as u64);
                for _ in 0..3 {
                    let end = random.below(bytes.len() as u64 + 1);
                    let start = random.below(end + 1);
                    let part = storage.get(*name, Some(start..end)).unwrap();
                    assert!(
                        part == bytes[start as usize..end as usize],
                        "{start}..{end}"
                    );
                }
            }
        }
    }
}

/// A heal of one lost target reads no more than the code must, checksums aside, and writes nothing
/// but what is missing.
#[test]
fn a_heal_reads_as_little_as_it_must() {
    for count in [4, 5, 8] {
        let storages = memory(count);
        form(&storages, true);
        let name = Name::new(ObjectKind::Pack, Id([9; 32]));
        let layout = Layout::new(count).unwrap();
        let cell_len = 300_000;
        let len = layout.data_cells().len() * cell_len;
        set_of(&storages)
            .put(name, &[&Random(5).bytes(len)])
            .unwrap();
        for role in 0..count {
            let whole = storages[role].objects();
            storages[role].remove(name);
            let report = heal(&set_of(&storages));
            assert_eq!((report.healed_objects, report.written_parts), (1, 1));
            assert_eq!(storages[role].objects(), whole, "target {role} of {count}");
            let bound = fewest_reads(&layout, &[role]).unwrap() * cell_len;
            let with_checksums = bound + bound / 1000;
            let read = report.read_bytes as usize;
            assert!(
                read <= with_checksums,
                "{count} targets, {role}: {read} of {bound}"
            );
        }
    }
}
