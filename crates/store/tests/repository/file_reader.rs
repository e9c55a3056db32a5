//! Files of snapshots that are read at any offset.

use std::fs;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use tabane_store::browse::find_with;
use tabane_store::entry::Kind;
use tabane_store::file_reader::FileReader;
use tabane_store::segment_cache::SegmentCache;
use tabane_testing::random::Random;

use crate::common::{Place, back_up, id};

/// A file of 6 MiB with a hole, and a reader of it whose cache holds so much.
fn file(cache_len: usize) -> (Place, Vec<u8>, FileReader) {
    let place = Place::new();
    let mut random = Random::new(7);
    let mut data = random.noise(6 << 20);
    data[1 << 20..3 << 20].fill(0);
    let path = place.source.join("file");
    let file = fs::File::create(&path).unwrap();
    for part in [0..1 << 20, 3 << 20..data.len()] {
        file.write_all_at(&data[part.clone()], part.start as u64)
            .unwrap();
    }
    let made = back_up(&place.repository, &[&place.source]);
    let mut cache = Arc::new(SegmentCache::new(&place.repository, cache_len).unwrap());
    let entry = find_with(&mut cache, id(&made), &made.snapshot, &path).unwrap();
    let Kind::File { content, .. } = entry.kind else {
        panic!("it is a file")
    };
    let reader = FileReader::new(&cache, content);
    (place, data, reader)
}

/// What is decoded, and the rest behind it, are the bytes of the file wherever a read begins,
/// whether the cache holds all of it or has to give up some.
#[test]
fn a_read_is_what_is_decoded_and_the_rest() {
    for cache_len in [16 << 20, 1 << 20] {
        let (_place, data, reader) = file(cache_len);
        let mut random = Random::new(8);
        for _ in 0..300 {
            let offset = random.below(data.len() as u64 + 1000) as usize;
            let mut buffer = vec![0x55; random.below(1 << 20) as usize];
            let expected = &data[offset.min(data.len())..(offset + buffer.len()).min(data.len())];
            let count = reader.read_decoded(offset as u64, &mut buffer);
            let rest = reader.read_on((offset + count) as u64, buffer.len() - count);
            let what = format!("{count} at {offset}, with {cache_len}");
            assert!(buffer[..count] == expected[..count], "{what}");
            assert!(rest.unwrap() == expected[count..], "behind {what}");
            assert!(buffer[count..].iter().all(|&byte| byte == 0x55));
        }
    }
}

#[test]
fn holes_are_found() {
    let (_place, data, reader) = file(16 << 20);
    let len = data.len() as u64;
    let hole = reader.hole_from(0).unwrap();
    assert_eq!(hole, 1 << 20);
    assert_eq!(reader.data_from(hole), Some(3 << 20));
    assert_eq!(reader.hole_from(hole + 1), Some(hole + 1));
    assert_eq!(reader.hole_from(3 << 20), Some(len), "the end is one");
    assert_eq!([reader.hole_from(len), reader.data_from(len)], [None; 2]);
}

/// A read that nobody has announced finds nothing decoded, and one of the same bytes finds all.
#[test]
fn only_what_is_decoded_is_read_without_waiting() {
    let (_place, data, reader) = file(16 << 20);
    let mut buffer = vec![0; 100_000];
    let offset = 4_000_000;
    assert_eq!(reader.read_decoded(offset, &mut buffer), 0);
    reader.read_at(offset, buffer.len()).unwrap();
    assert_eq!(reader.read_decoded(offset, &mut buffer), buffer.len());
    assert_eq!(buffer, data[4_000_000..4_100_000]);
}
