//! The footers of packs, read from a storage.

use tabane_format::crypto::MasterKey;
use tabane_format::key::Unwrapped;
use tabane_format::keyring::Keyring;
use tabane_format::pack::{BlockKind, Codec, PackWriter, fetch_contents};
use tabane_storage::{Id, Name, ObjectKind, object_id};

use crate::common::memory::MemoryStorage;

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
