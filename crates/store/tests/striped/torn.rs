//! Containers that a crash has cut short or filled with zeros, on two targets, at every border of
//! what is in them and beside it.

use std::sync::Arc;

use tabane_storage::{Name, ObjectKind, Storage, object_id};
use tabane_striped::{HealOptions, StripedStorage};

use crate::bed::{Quiet, Random, read_all};
use crate::common::memory::MemoryStorage;
use crate::common::striped::{open, places};

/// What became of a shard.
#[derive(Clone, Copy, Debug)]
enum Tear {
    /// It ends here.
    Cut,
    /// Zeros from here on.
    Zeros,
    /// A page of zeros.
    ZeroPage,
}

impl Tear {
    fn apply(self, bytes: &mut Vec<u8>, at: usize) {
        match self {
            Self::Cut => bytes.truncate(at),
            Self::Zeros => bytes[at..].fill(0),
            Self::ZeroPage => {
                let end = bytes.len().min(at + 4096);
                bytes[at..end].fill(0);
            }
        }
    }
}

fn set_of(disks: &[MemoryStorage]) -> StripedStorage {
    let shared = disks.iter().cloned();
    let shared = shared.map(|disk| -> Arc<dyn Storage> { Arc::new(disk) });
    open(places(shared.collect())).unwrap()
}

/// Where the parts of a shard begin and end: header, cells of `rows` rows, sectors in them,
/// checksums.
fn borders(len: usize, rows: usize) -> Vec<usize> {
    const HEADER: usize = 64;
    const SECTOR: usize = 64 << 10;
    const CHECKSUM: usize = 16;
    let row = (len - HEADER) / rows;
    let mut borders = vec![0, HEADER - CHECKSUM, HEADER];
    for start in (0..rows).map(|number| HEADER + number * row) {
        let sectors = (start..start + row).step_by(SECTOR + CHECKSUM);
        for end in sectors.map(|sector| (sector + SECTOR + CHECKSUM).min(start + row)) {
            borders.extend([end - CHECKSUM, end]);
        }
    }
    borders
}

/// An object over `count` targets; its shards have `rows` rows.
fn torn(count: usize, len: usize, rows: usize) {
    let disks: Vec<MemoryStorage> = (0..count).map(|_| MemoryStorage::default()).collect();
    let shared = disks.iter().cloned();
    let shared = shared.map(|disk| -> Arc<dyn Storage> { Arc::new(disk) });
    StripedStorage::form(places(shared.collect()), false).unwrap();
    let mut random = Random(9);
    let object = random.bytes(len);
    let name = Name::new(ObjectKind::Pack, object_id(&[&object]));
    set_of(&disks).put(name, &[&object]).unwrap();
    let whole: Vec<Option<Vec<u8>>> = disks
        .iter()
        .map(|disk| disk.objects().remove(&name))
        .collect();
    let holders: Vec<usize> = (0..count).filter(|&one| whole[one].is_some()).collect();
    let container_len = whole[holders[0]].as_ref().unwrap().len();
    let mut places = borders(container_len, rows);
    let beside = [places.clone(), places.iter().map(|at| at + 7).collect()].concat();
    places.extend(beside.into_iter().map(|at| at.saturating_sub(1)));
    places.retain(|&at| at < container_len);
    places.push(container_len - 1);
    for (round, at) in places.into_iter().enumerate() {
        let one = holders[round % holders.len()];
        let other = holders[(round + 1 + round / holders.len() % 2) % holders.len()];
        for tear in [Tear::Cut, [Tear::Zeros, Tear::ZeroPage][round % 2]] {
            for number in [one, other] {
                let mut bytes = whole[number].clone().unwrap();
                tear.apply(&mut bytes, at);
                disks[number].set(name, bytes);
            }
            let what = format!("{tear:?} at {at} of {container_len}, targets {one}, {other}");
            let storage = set_of(&disks);
            assert!(storage.get(name, None).unwrap() == object, "{what}");
            let from = random.below(len as u64);
            let part = from..from + random.below(len as u64 - from);
            let found = storage.get(name, Some(part.clone())).unwrap();
            assert!(found == object[part.start as usize..part.end as usize]);
            assert_eq!(storage.stat(name).unwrap(), len as u64, "{what}");
            let listed = storage.list(ObjectKind::Pack).unwrap();
            assert!(storage.is_listed_as(listed[0].len, len as u64), "{what}");
            // That a shard is too short is seen from listings; it is no fragment.
            let options = match tear {
                Tear::Cut => HealOptions::default(),
                _ => read_all(),
            };
            if let Tear::Cut = tear {
                storage.remove_leftovers(Default::default()).unwrap();
            }
            storage.heal(options, &Quiet).unwrap();
            for (disk, whole) in disks.iter().zip(&whole) {
                assert!(disk.objects().get(&name) == whole.as_ref(), "{what}");
            }
        }
    }
}

#[test]
fn containers_of_stripes() {
    torn(3, 150_000, 2);
    torn(4, 90_000, 2);
    torn(5, 800_000, 4);
}

#[test]
fn whole_copies() {
    torn(3, 20_000, 1);
    torn(5, 65_536, 1);
}
