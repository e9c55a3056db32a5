//! What is read is decoded without panics, whatever its bytes are.

use std::sync::{Arc, LazyLock};

use crate::common::memory::MemoryStorage;
use crate::common::{init, open};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use tabane_index::Index;
use tabane_storage::ObjectKind;
use tabane_store::entry::{Entry, Flags, HardLink, Kind, Piece, Time, Xattr};
use tabane_store::key::KdfCost;
use tabane_store::parts::pack::{
    self, BlockKind, Codec, PackContents, PackKind, PackWriter, Segment, SegmentReader,
};
use tabane_store::parts::{self, tree};
use tabane_store::{Id, Repository};

fn ids() -> impl Strategy<Value = Id> {
    any::<[u8; 32]>().prop_map(Id)
}

fn bytes(len: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..len)
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let piece = prop_oneof![
        (ids(), any::<u32>()).prop_map(|(id, len)| Piece::Block { id, len }),
        (0..1_u64 << 60).prop_map(|len| Piece::Hole { len }),
    ];
    vec(piece, 0..5)
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        pieces().prop_map(|content| Kind::File {
            size: content.iter().map(Piece::len).sum(),
            content,
        }),
        pieces().prop_map(|content| Kind::Directory { content }),
        bytes(300).prop_map(|target| Kind::Symlink { target }),
        any::<(u32, u32)>().prop_map(|(major, minor)| Kind::CharDevice { major, minor }),
        any::<(u32, u32)>().prop_map(|(major, minor)| Kind::BlockDevice { major, minor }),
        Just(Kind::Fifo),
        Just(Kind::Socket),
    ]
}

fn times() -> impl Strategy<Value = Time> {
    any::<(i64, u32)>().prop_map(|(s, ns)| Time { s, ns })
}

fn names() -> impl Strategy<Value = Vec<u8>> {
    let byte = any::<u8>().prop_filter("no name has it", |byte| *byte != 0 && *byte != b'/');
    vec(byte, 1..260).prop_filter("no name", |name| name != b"." && name != b"..")
}

prop_compose! {
    fn entries()(
        name in names(),
        (mode, uid, gid) in any::<(u32, u32, u32)>(),
        (mtime, ctime, atime) in (times(), times(), option::of(times())),
        inode in any::<u64>(),
        link in option::of(any::<(u64, u64)>()),
        xattrs in vec((bytes(50), bytes(300)), 0..4),
        flags in prop_oneof![3 => Just(0_u8), 1 => (0..8_u8).prop_map(|bits| bits << 4)],
        kind in kinds(),
    ) -> Entry {
        Entry {
            name,
            mode,
            uid,
            gid,
            mtime,
            ctime,
            atime,
            inode,
            hard_link: link.map(|(device, inode)| HardLink { device, inode }),
            xattrs: xattrs.into_iter().map(|(name, value)| Xattr { name, value }).collect(),
            flags: Flags::from_bits(flags).unwrap(),
            kind,
        }
    }
}

fn directories() -> impl Strategy<Value = Vec<Entry>> {
    vec(entries(), 0..8).prop_map(|mut entries| {
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        entries.dedup_by(|a, b| a.name == b.name);
        entries
    })
}

fn contents() -> impl Strategy<Value = PackContents> {
    let lens = prop_oneof![0..2000_u32, any::<u32>()];
    let codec = prop_oneof![Just(Codec::Stored), Just(Codec::Zstd)];
    let kind = prop_oneof![Just(PackKind::Data), Just(PackKind::Tree)];
    let segment =
        (lens.clone(), codec, vec((ids(), lens), 0..5)).prop_map(|(stored_len, codec, blocks)| {
            Segment {
                stored_len,
                codec,
                blocks,
            }
        });
    (any::<[u8; 32]>(), kind, vec(segment, 0..5)).prop_map(|(salt, kind, segments)| PackContents {
        salt,
        kind,
        segments,
    })
}

proptest! {
    #[test]
    fn directories_come_back(entries in directories()) {
        prop_assert_eq!(tree::decode(&tree::encode(&entries)).unwrap(), entries);
    }

    #[test]
    fn any_bytes_as_a_directory(bytes in bytes(500)) {
        let _ = tree::decode(&bytes);
    }

    #[test]
    fn a_damaged_directory(entries in directories(), at in any::<prop::sample::Index>(), byte: u8) {
        let mut encoded = tree::encode(&entries);
        if !encoded.is_empty() {
            let at = at.index(encoded.len());
            encoded[at] = byte;
            let _ = tree::decode(&encoded);
            let _ = tree::decode(&encoded[..at]);
        }
    }

    #[test]
    fn names_that_are_none(entries in directories(), at in any::<prop::sample::Index>(),
        which in 0..5_usize) {
        let bad: [&[u8]; 5] = [b"", b".", b"..", b"a/b", b"a\0b"];
        let mut entries = entries;
        if !entries.is_empty() {
            let at = at.index(entries.len());
            entries[at].name = bad[which].to_vec();
            prop_assert!(tree::decode(&tree::encode(&entries)).is_err());
        }
    }

    #[test]
    fn names_out_of_order(entries in directories()) {
        prop_assume!(entries.len() > 1);
        let reversed: Vec<Entry> = entries.iter().rev().cloned().collect();
        prop_assert!(tree::decode(&tree::encode(&reversed)).is_err());
        let twice = [entries[0].clone(), entries[0].clone()];
        prop_assert!(tree::decode(&tree::encode(&twice)).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_as_a_pack(bytes in bytes(500), salt: [u8; 32]) {
        let repository = init(MemoryStorage::default());
        prop_assert!(pack::read_contents(parts::keys(&repository), &bytes, "it").is_err());
        let begun = [b"TABANEP\x01", salt.as_slice(), &bytes].concat();
        prop_assert!(pack::read_contents(parts::keys(&repository), &begun, "it").is_err());
    }

    #[test]
    fn a_pack_whose_footer_is_anything(footer in bytes(300), salt: [u8; 32]) {
        let repository = init(MemoryStorage::default());
        let key = parts::master(&repository).object_key(ObjectKind::Pack, &salt);
        let mut pack = [b"TABANEP\x01", salt.as_slice(), &footer].concat();
        key.seal(0, &mut pack, 40);
        let len = pack.len() as u32 - 40;
        pack.extend_from_slice(&len.to_le_bytes());
        let _ = pack::read_contents(parts::keys(&repository), &pack, "it");
    }

    #[test]
    fn a_pack_whose_footer_lies(mut contents in contents(), salt: [u8; 32], body in bytes(300)) {
        let repository = init(MemoryStorage::default());
        contents.salt = salt;
        let key = parts::master(&repository).object_key(ObjectKind::Pack, &salt);
        let mut pack = [b"TABANEP\x01", salt.as_slice(), &body].concat();
        let start = pack.len();
        pack.extend_from_slice(&postcard::to_stdvec(&contents).unwrap());
        key.seal(0, &mut pack, start);
        let len = (pack.len() - start) as u32;
        pack.extend_from_slice(&len.to_le_bytes());
        if let Ok(read) = pack::read_contents(parts::keys(&repository), &pack, "it") {
            prop_assert_eq!(read.segments_len(), body.len() as u64);
        }
    }

    #[test]
    fn packs_come_back(blocks in vec(bytes(3000), 1..10), kind in 0..2) {
        let repository = init(MemoryStorage::default());
        let kind = if kind == 0 { BlockKind::Data } else { BlockKind::Tree };
        let mut writer = PackWriter::new(parts::keys(&repository), kind, Vec::new());
        for block in &blocks {
            writer.push(Codec::Stored, block, vec![(Id::default(), block.len() as u32)]);
        }
        let (pack, contents) = writer.finish();
        let read = pack::read_contents(parts::keys(&repository), &pack, "it").unwrap();
        prop_assert_eq!(&read, &contents);
        let key = parts::master(&repository).object_key(ObjectKind::Pack, &read.salt);
        let (mut reader, mut at) = (SegmentReader::default(), 40);
        for (number, (segment, block)) in read.segments.iter().zip(&blocks).enumerate() {
            let sealed = &pack[at..at + segment.stored_len as usize];
            at += sealed.len();
            let name = || "it".to_owned();
            let raw = reader.open(&key, number, segment.codec, segment.raw_len(), sealed, name);
            prop_assert_eq!(&raw.unwrap(), block);
        }
    }

    #[test]
    fn a_segment_that_is_no_zstd_frame(bytes in bytes(300), raw_len in 0..1_000_000_usize) {
        let repository = init(MemoryStorage::default());
        let key = parts::master(&repository).object_key(ObjectKind::Pack, &[7; 32]);
        let mut sealed = bytes;
        key.seal(1, &mut sealed, 0);
        let name = || "it".to_owned();
        let _ = SegmentReader::default().open(&key, 0, Codec::Zstd, raw_len, &sealed, name);
    }

    #[test]
    fn an_index_of_anything(contents in vec((ids(), contents()), 0..5)) {
        let mut index = Index::default();
        for (pack, contents) in &contents {
            let _ = index.add(*pack, contents);
        }
        for block in index.blocks() {
            let (id, location) = block.unwrap();
            prop_assert_eq!(index.find(&id).unwrap(), Some(location));
            let segment = index.segment(location.segment).unwrap();
            prop_assert!(location.offset + location.len <= segment.raw_len);
        }
    }

    #[test]
    fn sealed_objects_of_anything(bytes in bytes(500)) {
        let repository = init(MemoryStorage::default());
        let index = repository.put_sealed(ObjectKind::Index, &bytes).unwrap();
        let _ = repository.read_index_segment(index);
        let _ = repository.load_index();
        let id = repository.put_sealed(ObjectKind::Snapshot, &bytes).unwrap();
        let _ = repository.load_snapshot(id);
        let _ = repository.snapshots(&Default::default());
    }
}

/// A full key and two write-only keys of one repository.
static KEYS: LazyLock<[Arc<Repository>; 3]> = LazyLock::new(|| {
    let storage = MemoryStorage::default();
    let master = init(storage.clone());
    let writer = |password: &[u8]| {
        let password = password.to_vec().into();
        let added = master.add_write_only_key(&password, KdfCost::WEAKEST);
        added.expect("the key is added");
        let opened = Repository::open(Arc::new(storage.clone()), &password);
        Arc::new(opened.expect("it opens"))
    };
    let writers = [writer(b"one"), writer(b"another")];
    let [one, another] = writers;
    [open(storage.clone()), one, another]
});

/// What write-only keys seal, each kind with its opening by: a full key, the same key, another.
const SEALED_BY_WRITERS: [(ObjectKind, [bool; 3]); 4] = [
    (ObjectKind::Snapshot, [true, false, false]),
    (ObjectKind::Pending, [true, false, false]),
    (ObjectKind::Unverified, [true, true, false]),
    (ObjectKind::Client, [true, true, false]),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_a_write_only_key_seals(payload in bytes(500), which in 0..4_usize,
        at in any::<prop::sample::Index>(), change in 1..=255_u8) {
        let (kind, opens) = SEALED_BY_WRITERS[which];
        let sealed = parts::keys(&KEYS[1]).seal(kind, &payload).unwrap();
        let again = parts::keys(&KEYS[1]).seal(kind, &payload).unwrap();
        prop_assert_ne!(&sealed, &again);
        for (repository, opens) in KEYS.iter().zip(opens) {
            let opened = parts::keys(repository).open(kind, sealed.clone(), "it");
            prop_assert_eq!(opened.is_ok(), opens);
            if let Ok(opened) = opened {
                prop_assert_eq!(&opened.payload, &payload);
                prop_assert_eq!(opened.writer, KEYS[1].writer());
            }
        }
        let at = at.index(sealed.len());
        let mut changed = sealed.clone();
        changed[at] ^= change;
        prop_assert!(parts::keys(&KEYS[0]).open(kind, changed, "it").is_err());
        prop_assert!(parts::keys(&KEYS[0]).open(kind, sealed[..at].to_vec(), "it").is_err());
        for other in ObjectKind::ALL.into_iter().filter(|other| *other != kind) {
            prop_assert!(parts::keys(&KEYS[0]).open(other, sealed.clone(), "it").is_err());
        }
    }

    #[test]
    fn what_a_full_key_signs(payload in bytes(500), at in any::<prop::sample::Index>(),
        change in 1..=255_u8) {
        for kind in [ObjectKind::Index, ObjectKind::Removal, ObjectKind::Forgotten] {
            let sealed = parts::keys(&KEYS[0]).seal(kind, &payload).unwrap();
            let mut changed = sealed.clone();
            changed[at.index(sealed.len())] ^= change;
            for repository in KEYS.iter() {
                let keys = parts::keys(repository);
                let opened = keys.open(kind, sealed.clone(), "it").unwrap();
                prop_assert_eq!((&opened.payload, opened.writer), (&payload, None));
                prop_assert!(keys.open(kind, changed.clone(), "it").is_err());
            }
            prop_assert!(parts::keys(&KEYS[1]).seal(kind, &payload).is_err());
        }
    }

    #[test]
    fn packs_of_a_write_only_key(blocks in vec(bytes(3000), 1..10), of_trees: bool,
        at in any::<prop::sample::Index>(), change in 1..=255_u8) {
        let kind = if of_trees { BlockKind::Tree } else { BlockKind::Data };
        let mut writer = PackWriter::new(parts::keys(&KEYS[1]), kind, Vec::new());
        for block in &blocks {
            writer.push(Codec::Stored, block, vec![(Id::default(), block.len() as u32)]);
        }
        let (pack, contents) = writer.finish();
        let full = parts::keys(&KEYS[0]);
        prop_assert_eq!(&pack::read_contents(full, &pack, "it").unwrap(), &contents);
        for writer in &KEYS[1..] {
            prop_assert!(pack::read_contents(parts::keys(writer), &pack, "it").is_err());
            prop_assert!(parts::keys(writer).pack_key(&pack, "it").is_err());
        }
        let key = full.pack_key(&pack, "it").unwrap();
        let (mut reader, mut begin) = (SegmentReader::default(), 40 + 1120);
        for (number, (segment, block)) in contents.segments.iter().zip(&blocks).enumerate() {
            let mut sealed = pack[begin..begin + segment.stored_len as usize].to_vec();
            begin += sealed.len();
            let name = || "it".to_owned();
            let raw = reader.open(&key, number, segment.codec, segment.raw_len(), &sealed, name);
            prop_assert_eq!(&raw.unwrap(), block);
            let at = at.index(sealed.len());
            sealed[at] ^= change;
            let raw = reader.open(&key, number, segment.codec, segment.raw_len(), &sealed, name);
            prop_assert!(raw.is_err());
        }
        // Of the head, all bytes count.
        let mut head = pack[..40 + 1120].to_vec();
        let at = at.index(head.len());
        head[at] ^= change;
        let changed = [&head, &pack[40 + 1120..]].concat();
        prop_assert!(pack::read_contents(full, &changed, "it").is_err());
    }
}
