//! What is said of a pack: kinds, lengths, limits.

use tabane_index::{
    BLOCK_LEN_MAX, BlockKind, Cache, Codec, Index, PackContents, PackKind, SEGMENT_LEN_MAX,
    Segment, TAG_LEN,
};
use tabane_storage::object_id;

use crate::bed::{Objects, id, pack};

const KINDS: [(PackKind, BlockKind, bool); 4] = [
    (PackKind::Data, BlockKind::Data, false),
    (PackKind::Tree, BlockKind::Tree, false),
    (PackKind::WriterData, BlockKind::Data, true),
    (PackKind::WriterTree, BlockKind::Tree, true),
];

#[test]
fn a_kind_of_packs_says_what_blocks_they_hold_and_who_sealed_them() {
    for (kind, blocks, is_of_writer) in KINDS {
        assert_eq!(PackKind::new(blocks, is_of_writer), kind);
        assert_eq!(kind.blocks(), blocks);
        assert_eq!(kind.is_of_writer(), is_of_writer);
        let head_len = if is_of_writer { 40 + 32 + 1088 } else { 40 };
        assert_eq!(kind.head_len(), head_len);
    }
}

/// Two segments, the second of them compressed, with blocks of 300, 5 and 0 bytes.
fn two_segments(kind: PackKind) -> PackContents {
    PackContents {
        salt: [9; 32],
        kind,
        segments: vec![
            Segment {
                stored_len: 321,
                codec: Codec::Stored,
                blocks: vec![(id(1), 300), (id(2), 5)],
            },
            Segment {
                stored_len: 16,
                codec: Codec::Zstd,
                blocks: vec![(id(3), 0)],
            },
        ],
    }
}

/// The encoding of [`two_segments`], by hand.
fn two_segments_encoded(kind: u8) -> Vec<u8> {
    let mut bytes = vec![9; 32];
    bytes.push(kind);
    bytes.push(2);
    // 321 and 300 as variable-length integers.
    bytes.extend([0xc1, 0x02, 0, 2]);
    bytes.extend([1; 32]);
    bytes.extend([0xac, 0x02]);
    bytes.extend([2; 32]);
    bytes.push(5);
    bytes.extend([16, 1, 1]);
    bytes.extend([3; 32]);
    bytes.push(0);
    bytes
}

#[test]
fn contents_of_a_pack_are_encoded_as_the_format_says() {
    for (number, (kind, ..)) in (0..).zip(KINDS) {
        let contents = two_segments(kind);
        let encoded = two_segments_encoded(number);
        assert_eq!(postcard::to_stdvec(&contents).unwrap(), encoded);
        assert_eq!(
            postcard::from_bytes::<PackContents>(&encoded).unwrap(),
            contents
        );
        let digest = object_id(&[&encoded]).0;
        let first = u64::from_le_bytes(*digest.first_chunk().unwrap());
        assert_eq!(contents.fingerprint(), first);
    }
}

#[test]
fn lengths_of_a_pack_and_its_segments_are_sums() {
    for (kind, ..) in KINDS {
        let contents = two_segments(kind);
        assert_eq!(contents.segments[0].raw_len(), 305);
        assert_eq!(contents.segments_len(), 337);
        // Header, segments, footer with its tag, and the footer's length.
        let footer_len = two_segments_encoded(0).len() + TAG_LEN;
        let len = kind.head_len() + 337 + footer_len + 4;
        assert_eq!(contents.object_len(), len as u64);
    }
}

fn is_valid(contents: &PackContents) -> bool {
    let result = contents.validate("the pack");
    let text = "the pack is damaged: its contents break the limits of the format";
    if let Err(error) = &result {
        assert_eq!(error.to_string(), text);
    }
    result.is_ok()
}

fn of_segments(segments: Vec<Segment>) -> PackContents {
    PackContents {
        segments,
        ..pack(&[])
    }
}

#[test]
fn a_segment_that_breaks_a_limit_is_refused() {
    let segment = |stored_len: usize, blocks: &[u32]| Segment {
        stored_len: stored_len as u32,
        codec: Codec::Stored,
        blocks: blocks.iter().map(|&len| (id(1), len)).collect(),
    };
    // (16 MiB + 512 KiB) of blocks at most, each of them 16 MiB.
    assert_eq!(
        (BLOCK_LEN_MAX, SEGMENT_LEN_MAX),
        (16 << 20, (16 << 20) + (512 << 10))
    );
    let max = SEGMENT_LEN_MAX + TAG_LEN;
    for (segment, expected) in [
        (segment(16, &[]), true),
        (segment(15, &[]), false),
        (segment(0, &[]), false),
        (segment(max, &[]), true),
        (segment(max + 1, &[]), false),
        (segment(u32::MAX as usize, &[]), false),
        (segment(100, &[16 << 20]), true),
        (segment(100, &[(16 << 20) + 1]), false),
        (segment(100, &[u32::MAX]), false),
        (segment(100, &[16 << 20, 512 << 10]), true),
        (segment(100, &[16 << 20, 512 << 10, 0]), true),
        (segment(100, &[16 << 20, 512 << 10, 1]), false),
        (segment(100, &[16 << 20, 16 << 20]), false),
    ] {
        let contents = of_segments(vec![segment.clone()]);
        assert_eq!(is_valid(&contents), expected, "{contents:?}");
        // One bad segment among good ones is enough.
        let good = pack(&[&[2]]).segments.remove(0);
        assert_eq!(
            is_valid(&of_segments(vec![good.clone(), segment, good])),
            expected
        );
    }
}

/// Segments that end at this byte of a pack.
fn segments_up_to(kind: PackKind, end: u64) -> PackContents {
    let longest = (SEGMENT_LEN_MAX + TAG_LEN) as u64;
    let mut left = end - kind.head_len() as u64;
    let mut segments = Vec::new();
    while left > 0 {
        // The last one must not be too short.
        let len = if left > longest {
            longest.min(left - 16)
        } else {
            left
        };
        segments.push(Segment {
            stored_len: len as u32,
            codec: Codec::Stored,
            blocks: vec![],
        });
        left -= len;
    }
    PackContents {
        kind,
        ..of_segments(segments)
    }
}

#[test]
fn offsets_in_a_pack_have_32_bits() {
    for kind in [PackKind::Data, PackKind::WriterTree] {
        let last = u64::from(u32::MAX);
        for (end, expected) in [(last - 1, true), (last, true), (last + 1, false)] {
            let contents = segments_up_to(kind, end);
            assert_eq!(is_valid(&contents), expected, "{end}");
            let added = Index::default().add(id(9), &contents);
            assert_eq!(added.is_ok(), expected);
        }
    }
}

#[test]
fn contents_that_break_limits_go_neither_to_memory_nor_to_a_cache() {
    let text = "the index of pack 09090909 is damaged: its contents break the limits of the format";
    let mut bad = pack(&[&[1]]);
    bad.segments[0].stored_len = 15;
    let mut index = Index::default();
    assert_eq!(index.add(id(9), &bad).unwrap_err().to_string(), text);
    let packs = vec![(id(8), pack(&[&[2]])), (id(9), bad.clone())];
    assert_eq!(index.add_all(&packs).unwrap_err().to_string(), text);
    assert!(index.find(&id(1)).unwrap().is_none());

    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(folder.path(), |warning| panic!("{warning}"));
    let mut objects = Objects::default();
    objects.add(packs);
    let error = cache.load_index(&objects).err().unwrap();
    assert_eq!(error.to_string(), text);
}
