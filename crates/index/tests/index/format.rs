//! The file of a run, as `docs/reference/format.md` describes it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use tabane_index::{Codec, IndexObjects, IndexSegment, PackKind, PageKeys, TAG_LEN};
use tabane_storage::Id;

use crate::bed::{Keys, Objects, cache, id, mixed, only_run, pack};

const PAGE_LEN: usize = 512;
const PAYLOAD_LEN: usize = 496;

/// Lengths of records: packs, segments, blocks, table, buckets, sources, namings.
const LENS: [usize; 7] = [97, 21, 44, 8, 4, 32, 8];

/// A file that was opened: what its pages hold, the last as the first, and its sections.
pub struct Opened {
    salt: [u8; 32],
    /// Without tags. Page 0 is the one with the footer.
    pub pages: Vec<Vec<u8>>,
}

impl Opened {
    pub fn read(path: &Path, keys: &Keys) -> Self {
        let bytes = fs::read(path).unwrap();
        assert!(bytes.len().is_multiple_of(PAGE_LEN));
        let mut pages: Vec<Vec<u8>> = bytes.chunks(PAGE_LEN).map(<[u8]>::to_vec).collect();
        let head = pages.remove(0);
        assert_eq!(head[32..], [0; PAGE_LEN - 32]);
        let salt = *head.first_chunk().unwrap();
        pages.rotate_right(1);
        let key = keys.page_key(&salt);
        for (number, page) in (0..).zip(&mut pages) {
            assert!(key.open(number, page), "page {number}");
            page.truncate(PAYLOAD_LEN);
        }
        Self { salt, pages }
    }

    /// Seals the pages anew.
    pub fn write(&self, path: &Path, keys: &Keys) {
        let key = keys.page_key(&self.salt);
        let mut bytes = self.salt.to_vec();
        bytes.resize(PAGE_LEN, 0);
        for number in (1..self.pages.len()).chain([0]) {
            let mut page = self.pages[number].clone();
            key.seal(number as u64, &mut page);
            assert_eq!(page.len(), PAYLOAD_LEN + TAG_LEN);
            bytes.extend(page);
        }
        fs::write(path, bytes).unwrap();
    }

    /// The numbers of the footer: page and count of each section, the bits behind the fifth.
    pub fn footer(&self) -> [u32; 15] {
        let mut bytes = self.pages[0].iter();
        let numbers = std::array::from_fn(|_| {
            let (mut number, mut shift) = (0, 0);
            loop {
                let byte = *bytes.next().unwrap();
                number |= u32::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    return number;
                }
            }
        });
        assert!(bytes.all(|&byte| byte == 0));
        numbers
    }

    /// Bits of a bucket.
    pub fn bucket_bits(&self) -> u32 {
        self.footer()[10]
    }

    /// The records of each section, which fill the pages in order.
    fn sections(&self) -> [Vec<&[u8]>; 7] {
        let mut footer = self.footer().to_vec();
        footer.remove(10);
        let mut next = 1;
        let sections = std::array::from_fn(|number| {
            let [first, count] = [footer[2 * number], footer[2 * number + 1]];
            assert_eq!(first, next, "section {number}");
            let (len, count) = (LENS[number], count as usize);
            let per_page = PAYLOAD_LEN / len;
            let pages = count.div_ceil(per_page);
            next += pages as u32;
            let mut records = Vec::new();
            for page in &self.pages[first as usize..next as usize] {
                let left = (count - records.len()).min(per_page);
                records.extend(page.chunks(len).take(left));
                assert!(page[left * len..].iter().all(|&byte| byte == 0));
            }
            records
        });
        assert_eq!(next as usize, self.pages.len());
        sections
    }
}

fn join(numbers: &[u32]) -> Vec<u8> {
    numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect()
}

fn number(record: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*record[4 * at..].first_chunk().unwrap())
}

/// Checks that a run says what these index objects say, in the order of the format.
pub fn check_run(path: &Path, keys: &Keys, objects: &BTreeMap<Id, IndexSegment>, bits: u32) {
    let opened = Opened::read(path, keys);
    let [packs, segments, blocks, table, starts, sources, namings] = opened.sections();
    assert_eq!(opened.bucket_bits(), bits);
    // By ID, then by what they hold.
    let mut said = BTreeMap::new();
    for (pack, contents) in objects.values().flatten() {
        said.insert((*pack, contents.fingerprint()), contents);
    }
    let mut first_packs = Vec::new();
    let (mut all_segments, mut all_blocks) = (Vec::new(), Vec::new());
    for (pack, (&(id, fingerprint), contents)) in (0..).zip(&said) {
        let mut record = [id.0, contents.salt].concat();
        record.extend(contents.object_len().to_le_bytes());
        let count = contents.segments.iter().map(|segment| segment.blocks.len());
        record.extend(join(&[
            all_segments.len() as u32,
            contents.segments.len() as u32,
            all_blocks.len() as u32,
            count.sum::<usize>() as u32,
        ]));
        record.push(contents.kind as u8);
        record.extend(fingerprint.to_le_bytes());
        first_packs.push(record);
        let mut offset = contents.kind.head_len() as u32;
        for (at, segment) in (0..).zip(&contents.segments) {
            let mut in_segment = 0;
            for (block, len) in &segment.blocks {
                let place = join(&[all_segments.len() as u32, in_segment, *len]);
                all_blocks.push([block.0.to_vec(), place].concat());
                in_segment += len;
            }
            let mut record = join(&[pack, at, offset, segment.stored_len, in_segment]);
            record.push(u8::from(segment.codec == Codec::Zstd));
            all_segments.push(record);
            offset += segment.stored_len;
        }
    }
    assert!(packs.iter().eq(&first_packs), "{packs:?}");
    assert!(segments.iter().eq(&all_segments), "{segments:?}");
    assert!(blocks.iter().eq(&all_blocks));

    let mut expected: Vec<([u8; 5], u32)> = (0..)
        .zip(&all_blocks)
        .map(|(number, block)| (*block.first_chunk().unwrap(), number))
        .collect();
    expected.sort_unstable();
    let mut found: Vec<([u8; 5], u32)> = table
        .iter()
        .map(|entry| {
            let block = &all_blocks[number(entry, 1) as usize];
            assert_eq!(number(entry, 0).to_be_bytes(), block[1..5]);
            (*block.first_chunk().unwrap(), number(entry, 1))
        })
        .collect();
    assert!(found.is_sorted_by_key(|(first, _)| *first));
    found.sort_unstable();
    assert_eq!(found, expected);

    let mut counts = vec![0; (1 << bits) + 1];
    for (first, _) in &expected {
        let first = u32::from_be_bytes(*first.first_chunk().unwrap());
        counts[(first >> (32 - bits)) as usize + 1] += 1;
    }
    let sums = counts.iter().scan(0_u32, |sum, count| {
        *sum += count;
        Some(*sum)
    });
    assert!(starts.iter().map(|start| number(start, 0)).eq(sums));

    let names: BTreeSet<&[u8]> = objects.keys().map(|name| &name.0[..]).collect();
    assert_eq!(sources.iter().copied().collect::<BTreeSet<_>>(), names);
    assert_eq!(sources.len(), names.len());
    let named = namings.iter().map(|naming| {
        let pack = packs[number(naming, 1) as usize];
        (
            sources[number(naming, 0) as usize],
            &pack[..32],
            &pack[89..],
        )
    });
    let mut expected = BTreeSet::new();
    for (name, packs) in objects {
        for (pack, contents) in packs {
            let fingerprint = contents.fingerprint().to_le_bytes();
            expected.insert((name.0.to_vec(), pack.0.to_vec(), fingerprint.to_vec()));
        }
    }
    let named = named.map(|(name, pack, print)| (name.to_vec(), pack.to_vec(), print.to_vec()));
    assert_eq!(named.collect::<BTreeSet<_>>(), expected);
}

/// Index objects with all kinds of packs, in numbers that fill some pages exactly.
pub fn objects() -> Objects {
    let mut objects = Objects::default();
    let kinds = [
        PackKind::Data,
        PackKind::Tree,
        PackKind::WriterData,
        PackKind::WriterTree,
    ];
    let pack = |number: u64| {
        let mut contents = pack(&[&[1, 2, 3], &[], &[4], &[number as u8, 6]]);
        contents.kind = kinds[number as usize % 4];
        contents.salt = mixed(number).0;
        for (at, segment) in (0..).zip(&mut contents.segments) {
            segment.stored_len += number as u32;
            segment.codec = [Codec::Stored, Codec::Zstd][at % 2];
            for (block, len) in &mut segment.blocks {
                block.0[1..9].copy_from_slice(&mixed(number).0[..8]);
                *len += number as u32;
            }
        }
        contents.segments.truncate(number as usize % 5);
        (mixed(1000 + number), contents)
    };
    objects.add((0..15).map(pack).collect());
    objects.add((10..22).map(pack).collect());
    objects.add(vec![]);
    let (name, mut other) = pack(3);
    other.segments[0].stored_len += 1;
    objects.add(vec![(name, other), pack(3)]);
    objects
}

#[test]
fn a_run_is_as_the_format_says() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, objects) = (cache(folder.path()), objects());
    cache.load_index(&objects).unwrap();
    let run = only_run(&cache.folder(id(0)));
    check_run(&run, &objects.keys, objects.all(), 8);
    // Its name has 32 random digits.
    let name = run.file_name().unwrap().to_str().unwrap();
    let digits = name.strip_prefix("index2-").unwrap();
    assert_eq!(hex::decode(digits).unwrap().len(), 16);
}

#[test]
fn a_run_that_was_merged_is_as_the_format_says() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, mut objects) = (cache(folder.path()), objects());
    let names: Vec<Id> = objects.list().unwrap();
    // One object after the other, each merged into what there is.
    let mut some = Objects::default();
    let mut later: Vec<(Id, IndexSegment)> = Vec::new();
    for name in &names {
        later.push((*name, objects.remove(name)));
    }
    for (_, packs) in later {
        some.add(packs);
        cache.load_index(&some).unwrap();
        let run = only_run(&cache.folder(id(0)));
        check_run(&run, &some.keys, some.all(), 8);
    }
    // One after the other goes.
    for name in some.list().unwrap() {
        some.remove(&name);
        cache.load_index(&some).unwrap();
        let folder = cache.folder(id(0));
        match some.all().len() {
            0 => assert_eq!(crate::bed::names(&folder), [""; 0]),
            _ => check_run(&only_run(&folder), &some.keys, some.all(), 8),
        }
    }
}

#[test]
fn buckets_grow_with_the_number_of_blocks() {
    // 256 blocks a bucket: with 131,072 of them, 512 buckets.
    for (blocks, bits) in [(131_071, 8), (131_072, 9)] {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path());
        let mut objects = Objects::default();
        objects.add(vec![(id(9), crate::bed::pack_of(0, blocks))]);
        let index = cache.load_index(&objects).unwrap();
        check_run(
            &only_run(&cache.folder(id(0))),
            &objects.keys,
            objects.all(),
            bits,
        );
        for number in (0..blocks).step_by(997).chain([blocks - 1]) {
            let place = index.find(&mixed(number)).unwrap().unwrap();
            assert_eq!(u64::from(place.offset), number);
        }
        assert_eq!(index.find(&mixed(blocks)).unwrap(), None);
        if bits == 9 {
            // Merged with another, the buckets are read from the table.
            objects.add(vec![(id(8), crate::bed::pack_of(blocks, 40_000))]);
            cache.load_index(&objects).unwrap();
            check_run(
                &only_run(&cache.folder(id(0))),
                &objects.keys,
                objects.all(),
                bits,
            );
        }
    }
}
