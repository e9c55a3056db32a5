//! The footers of packs, read from a storage.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use tabane_format::crypto::MasterKey;
use tabane_format::key::{KdfCost, Unwrapped};
use tabane_format::keyring::Keyring;
use tabane_format::pack::{BlockKind, Codec, PackContents, PackWriter, fetch_contents};
use tabane_storage::{Id, Listed, Name, OBJECT_LEN_MAX, ObjectKind, Storage, object_id};
use tabane_store::{Error, Repository, parts};

use super::write_only::writer_password;
use crate::common::memory::MemoryStorage;
use crate::common::{forward, init};

/// Short packs are read as a whole, long ones at both ends, twice at the end for a long footer.
#[test]
fn footers_of_any_length_are_read() {
    let keys = Keyring::new(Unwrapped::Master(MasterKey::random()), false);
    for (segments, bytes_of_segment) in [
        (0, 0),
        (1, 10),
        (1, 16_000),
        (1, 16_100),
        (1, 16_200),
        (1, 16_300),
        (1, 40_000),
        (300, 1),
        (380, 1),
        (400, 1),
        (430, 1),
        (440, 1),
        (1000, 100),
    ] {
        let mut pack = PackWriter::new(&keys, BlockKind::Data, Vec::new());
        for number in 0..segments {
            let id = object_id(&[&u32::to_le_bytes(number)]);
            let data = vec![number as u8; bytes_of_segment];
            pack.push(Codec::Stored, &data, vec![(id, bytes_of_segment as u32)]);
        }
        let (bytes, contents) = pack.finish();
        let id: Id = object_id(&[&bytes]);
        let storage = MemoryStorage::default();
        storage.set(Name::new(ObjectKind::Pack, id), bytes);
        let read = fetch_contents(&storage, &keys, id).unwrap();
        assert_eq!(read, contents, "{segments} of {bytes_of_segment}");
    }
}

/// Writes down start and end of each read. Says that objects have the length `len`, if it is set.
#[derive(Default)]
struct Asked {
    inner: MemoryStorage,
    len: Option<u64>,
    ranges: Mutex<Vec<(u64, u64)>>,
}

impl Storage for Asked {
    forward!(location, create, put, list, delete);

    fn get(&self, name: Name, range: Option<Range<u64>>) -> tabane_storage::Result<Vec<u8>> {
        let read = range.as_ref().map(|range| (range.start, range.end));
        self.ranges.lock().unwrap().extend(read);
        self.inner.get(name, range)
    }

    fn stat(&self, name: Name) -> tabane_storage::Result<u64> {
        self.len.map_or_else(|| self.inner.stat(name), Ok)
    }
}

/// A pack of one segment with these blocks.
fn pack_of(keys: &Keyring, blocks: &[u32]) -> (Vec<u8>, PackContents) {
    let mut pack = PackWriter::new(keys, BlockKind::Data, Vec::new());
    let data = vec![0x5a; blocks.iter().sum::<u32>() as usize];
    let id = |number: usize| object_id(&[&number.to_le_bytes()]);
    let named = blocks.iter().enumerate();
    let named = named.map(|(number, len)| (id(number), *len)).collect();
    pack.push(Codec::Stored, &data, named);
    pack.finish()
}

/// Bytes behind the segments of a pack.
fn footer_len((bytes, contents): &(Vec<u8>, PackContents)) -> u64 {
    bytes.len() as u64 - contents.kind.head_len() as u64 - contents.segments_len()
}

/// A pack whose footer has `wanted` bytes, 8,000 at least.
fn pack_with_footer(keys: &Keyring, wanted: u64) -> (Vec<u8>, PackContents) {
    let mut blocks = vec![1; 200];
    blocks[0] = 100_000;
    loop {
        let pack = pack_of(keys, &blocks);
        // A block takes 33 bytes, or one more if it is longer than 127.
        match wanted - footer_len(&pack) {
            0 => return pack,
            missing @ 1..33 => blocks[1..=missing as usize].fill(200),
            missing => blocks.resize(blocks.len() + missing as usize / 33, 1),
        }
    }
}

/// A first read at the end of a pack is as long as most footers at most; a longer footer takes a
/// second one. A pack of a write-only key takes a second read at its start, for its longer header.
#[test]
fn of_a_long_pack_only_header_and_footer_are_read() {
    const GUESS: u64 = 16 << 10;
    let storage = MemoryStorage::default();
    let master = init(storage.clone());
    master
        .add_write_only_key(&writer_password(), KdfCost::WEAKEST)
        .unwrap();
    let writer = Repository::open(Arc::new(storage), &writer_password()).unwrap();
    for maker in [&*master, &writer] {
        let keys = parts::keys(maker);
        let mut packs = vec![pack_of(keys, &[40_000])];
        let footers = [GUESS / 2, GUESS - 1, GUESS, GUESS + 1, 3 * GUESS];
        packs.extend(footers.map(|len| pack_with_footer(keys, len)));
        for pack in packs {
            let (footer_len, head_len) = (footer_len(&pack), pack.1.kind.head_len() as u64);
            let (bytes, contents) = pack;
            let (len, id) = (bytes.len() as u64, object_id(&[&bytes]));
            let asked = Asked::default();
            asked.inner.set(Name::new(ObjectKind::Pack, id), bytes);
            let read = fetch_contents(&asked, parts::keys(&master), id).unwrap();
            assert_eq!(read, contents);
            let mut expected = vec![(0, 40)];
            expected.extend((head_len > 40).then_some((0, head_len)));
            expected.push((len - GUESS, len));
            expected.extend((footer_len > GUESS).then_some((len - footer_len, len)));
            let ranges = asked.ranges.into_inner().unwrap();
            assert_eq!(ranges, expected, "a footer of {footer_len} bytes");
        }
    }
}

/// A length beyond the limit of the format is an error before anything is read.
#[test]
fn nothing_is_read_of_a_pack_that_is_longer_than_any_object() {
    let keys = Keyring::new(Unwrapped::Master(MasterKey::random()), false);
    for (len, ranges) in [
        (OBJECT_LEN_MAX, vec![(0, 40)]),
        (OBJECT_LEN_MAX + 1, vec![]),
    ] {
        let asked = Asked {
            len: Some(len),
            ..Asked::default()
        };
        let id = Id::default();
        asked
            .inner
            .set(Name::new(ObjectKind::Pack, id), vec![0; 1000]);
        let read = fetch_contents(&asked, &keys, id);
        assert!(matches!(read, Err(Error::Damaged { .. })), "{read:?}");
        assert_eq!(asked.ranges.into_inner().unwrap(), ranges);
    }
}
