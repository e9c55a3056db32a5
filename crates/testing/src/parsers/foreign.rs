//! Repositories of other programs, as an import reads them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::memory::part_of;
use tabane_import::{ImportOptions, LockedBorg, parts};
use tabane_storage::{Files, Id, StorageErrorKind};
use tabane_store::check::CheckOptions;

use super::{empty_repository, sha256};

/// Files in memory.
struct MemoryFiles(BTreeMap<String, Vec<u8>>);

impl Files for MemoryFiles {
    fn location(&self) -> String {
        "memory".to_owned()
    }

    fn read(&self, path: &str, range: Option<Range<u64>>) -> tabane_storage::Result<Vec<u8>> {
        let bytes = self.0.get(path).ok_or(StorageErrorKind::NotFound)?;
        part_of(bytes, range)
    }

    fn list(&self, folder: &str) -> tabane_storage::Result<Vec<(String, u64)>> {
        let inside = |path: &str| folder.is_empty() || path.starts_with(&format!("{folder}/"));
        let files = self.0.iter().filter(|(path, _)| inside(path));
        let files = files.map(|(path, bytes)| (path.clone(), bytes.len() as u64));
        Ok(files.collect())
    }
}

const BORG_CONFIG: &[u8] = b"[repository]\nversion = 1\nsegments_per_dir = 1000\nid = 2de4\n";

/// What a segment of borg begins with.
const SEGMENT_MAGIC: &[u8] = b"BORG_SEG";

/// Bytes of an entry of a segment before its key: checksum, length and tag.
const ENTRY_HEADER_LEN: usize = 9;

/// Imports a repository of borg, without encryption, that has one segment. If the first byte is
/// even, the rest is [pieces](pieces); else it is the segment.
pub fn borg(input: &[u8]) {
    let Some((&first, rest)) = input.split_first() else {
        return;
    };
    let segment = match first % 2 {
        0 => segment_of(pieces(rest)),
        _ => rest.to_vec(),
    };
    let files = [("config", BORG_CONFIG.to_vec()), ("data/0/0", segment)];
    let files = files.map(|(path, bytes)| (path.to_owned(), bytes));
    let Ok(found) = LockedBorg::find(Arc::new(MemoryFiles(files.into()))) else {
        return;
    };
    let Ok(borg) = found.unlock(b"", None) else {
        return;
    };
    let listing = borg.snapshots().expect("memory does not fail");
    let (_, repository) = empty_repository();
    let options = ImportOptions::default();
    let imported = borg.import(options, &repository, &listing.snapshots, Arc::new(()));
    let imported = imported.expect("memory does not fail");
    for (_, own) in imported.snapshots {
        let snapshot = repository.load_snapshot(own.expect("it was no dry run"));
        snapshot.expect("what was imported");
    }
    let report = repository.check(CheckOptions::default()).expect("a check");
    assert_eq!(report.problems, 0);
}

/// Each piece is its length in two bytes, and its bytes: first the manifest, then chunks. In the
/// place of the ID of chunk number `n`, a chunk before it has 32 times the byte `n`.
fn pieces(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    while let Some((len, rest)) = bytes.split_first_chunk() {
        let len = usize::from(u16::from_le_bytes(*len)).min(rest.len());
        let (piece, rest) = rest.split_at(len);
        pieces.push(piece.to_vec());
        bytes = rest;
    }
    pieces
}

fn segment_of(mut pieces: Vec<Vec<u8>>) -> Vec<u8> {
    for number in (1..pieces.len()).rev() {
        let Ok(digit) = u8::try_from(number) else {
            continue;
        };
        let (before, chunk) = pieces.split_at_mut(number);
        let (id, placeholder) = (sha256(&chunk[0]), [digit; 32]);
        for piece in before {
            let mut at = 0;
            while at + placeholder.len() <= piece.len() {
                let place = &mut piece[at..at + placeholder.len()];
                if place == placeholder {
                    place.copy_from_slice(&id.0);
                    at += placeholder.len();
                } else {
                    at += 1;
                }
            }
        }
    }
    let mut segment = SEGMENT_MAGIC.to_vec();
    for (number, piece) in pieces.iter().enumerate() {
        let id = match number {
            0 => Id([0; 32]),
            _ => sha256(piece),
        };
        // Not encrypted, not compressed.
        put_entry(&mut segment, 0, &[&id.0, b"\x02\0\0", piece]);
    }
    put_entry(&mut segment, 2, &[]);
    segment
}

/// Appends an entry: 0 puts a chunk, 1 deletes one, 2 commits. Nobody looks at the checksum.
fn put_entry(segment: &mut Vec<u8>, tag: u8, parts: &[&[u8]]) {
    let rest = parts.concat();
    let len = (ENTRY_HEADER_LEN + rest.len()) as u32;
    segment.extend([0; 4]);
    segment.extend(len.to_le_bytes());
    segment.push(tag);
    segment.extend(rest);
}

/// A value of MessagePack.
enum Packed<'a> {
    Bytes(&'a [u8]),
    Text(&'a str),
    Int(i64),
    List(Vec<Packed<'a>>),
    Map(Vec<(&'a str, Packed<'a>)>),
}

impl Packed<'_> {
    fn write(&self, to: &mut Vec<u8>) {
        match self {
            Self::Bytes(bytes) => {
                to.extend([0xc5]);
                to.extend((bytes.len() as u16).to_be_bytes());
                to.extend(*bytes);
            }
            Self::Text(text) => {
                to.extend([0xd9, text.len() as u8]);
                to.extend(text.as_bytes());
            }
            Self::Int(number) => {
                to.extend([0xd3]);
                to.extend(number.to_be_bytes());
            }
            Self::List(values) => {
                to.extend([0x90 | values.len() as u8]);
                values.iter().for_each(|value| value.write(to));
            }
            Self::Map(pairs) => {
                to.extend([0xde]);
                to.extend((pairs.len() as u16).to_be_bytes());
                for (key, value) in pairs {
                    Packed::Text(key).write(to);
                    value.write(to);
                }
            }
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(&mut bytes);
        bytes
    }
}

/// Items of an archive: a directory, a file with two names, a symbolic link, a device.
fn items() -> Vec<u8> {
    use Packed::{Bytes, Int, List, Map, Text};
    let mtime = ("mtime", Int(1_700_000_000_123_456_789));
    let chunks = List(vec![List(vec![Bytes(&[3; 32]), Int(17), Int(20)])]);
    let items = [
        vec![
            ("path", Text("home")),
            ("mode", Int(0o040_755)),
            ("uid", Int(0)),
            ("gid", Int(0)),
            ("user", Text("root")),
            ("group", Text("root")),
        ],
        vec![
            ("path", Text("home/a")),
            ("mode", Int(0o100_644)),
            ("hardlink_master", Int(1)),
            ("bsdflags", Int(7)),
            ("size", Int(17)),
            ("chunks", chunks),
            ("xattrs", Map(vec![("user.a", Bytes(b"b"))])),
            (
                "acl_access",
                Text("user::rw-\nuser:ada:r--:1000\ngroup::r-x\nother::---\n"),
            ),
            mtime,
        ],
        vec![
            ("path", Text("home/b")),
            ("mode", Int(0o100_644)),
            ("source", Text("home/a")),
        ],
        vec![
            ("path", Text("home/l")),
            ("mode", Int(0o120_777)),
            ("source", Text("a")),
        ],
        vec![
            ("path", Text("dev/null")),
            ("mode", Int(0o020_666)),
            ("rdev", Int(0x103)),
        ],
    ];
    items
        .into_iter()
        .flat_map(|item| Map(item).bytes())
        .collect()
}

pub fn borg_samples() -> Vec<Vec<u8>> {
    use Packed::{Bytes, Int, List, Map, Text};
    let archive_of = |id| {
        let archive = Map(vec![
            ("id", Bytes(id)),
            ("time", Text("2026-01-02T03:04:05.678901")),
        ]);
        Map(vec![
            ("version", Int(1)),
            ("archives", Map(vec![("first", archive)])),
        ])
        .bytes()
    };
    let archive = Map(vec![
        ("version", Int(1)),
        ("name", Text("first")),
        ("hostname", Text("host")),
        ("username", Text("user")),
        ("time", Text("2026-01-02T03:04:05.678901")),
        ("time_end", Text("2026-01-02T03:04:06+01:00")),
        ("comment", Text("a comment")),
        ("items", List(vec![Bytes(&[2; 32])])),
    ]);
    let whole = [
        archive_of(&[1; 32]),
        archive.bytes(),
        items(),
        b"a block of a file".to_vec(),
    ];
    let of_pieces = |pieces: &[Vec<u8>]| {
        let piece = |bytes: &Vec<u8>| [&(bytes.len() as u16).to_le_bytes(), &bytes[..]].concat();
        [vec![0], pieces.iter().flat_map(piece).collect()].concat()
    };
    let mut samples = vec![of_pieces(&whole), of_pieces(&whole[..1])];
    // As deep as directories may be in an archive, and deeper.
    for depth in [4096, 5000] {
        let path = "d/".repeat(depth) + "a";
        let deep = Map(vec![
            ("path", Bytes(path.as_bytes())),
            ("mode", Int(0o010_644)),
        ]);
        let mut at_depth = whole.to_vec();
        at_depth[2] = deep.bytes();
        samples.push(of_pieces(&at_depth));
    }
    let mut segment = segment_of(whole.to_vec());
    put_entry(&mut segment, 1, &[&[7; 32]]);
    put_entry(&mut segment, 2, &[]);
    samples.push([&[1], &segment[..]].concat());
    // A manifest without archives, compressed: with zstd, zlib, LZ4 and LZMA.
    let empty = b"\x82\xa7version\x01\xa8archives\x80";
    let lz4 = [&[0xf0, empty.len() as u8 - 15], &empty[..]].concat();
    let zlib = "789c6b5a5e965a549c999fc7b822b1283923b32cb5b801005d3b08ae";
    let xz = "fd377a585a000004e6d6b4460200210116000000742fe5a301001382a776657273696f6e01a861726368\
              6976657380001c6a434ac7e7a99e00012c14f80a6d031fb6f37d010000000004595a";
    for (code, bytes) in [
        (
            &b"\x03\0"[..],
            zstd::bulk::compress(empty, 3).expect("zstd"),
        ),
        (b"", hex::decode(zlib).expect("digits")),
        (b"\x01\0", lz4),
        (b"\x02\0", hex::decode(xz).expect("digits")),
    ] {
        let mut segment = SEGMENT_MAGIC.to_vec();
        put_entry(&mut segment, 0, &[&[0; 32], b"\x02", code, &bytes]);
        put_entry(&mut segment, 2, &[]);
        samples.push([&[1], &segment[..]].concat());
    }
    samples
}

/// Reads a directory or a part of the index of restic.
pub fn restic(input: &[u8]) {
    for name in parts::read_restic_tree(input).unwrap_or_default() {
        assert!(!name.is_empty() && name != b"." && name != b"..");
        assert!(!name.contains(&b'/') && !name.contains(&0));
    }
    let _ = parts::read_restic_index(input);
}

pub fn restic_samples() -> Vec<Vec<u8>> {
    let id = "ab".repeat(32);
    let samples = [
        r#"{"nodes":[{"name":"s\\xff\\u00e9\\101\\n","type":"file","mode":12583405,
            "mtime":"1960-01-02T03:04:05.25+01:00","atime":"1960-01-02T03:04:05.25+01:00",
            "ctime":"2021-01-02T03:04:05Z","uid":1,"gid":2,"user":"u","inode":9,"device_id":3,
            "size":5,"links":2,"content":null,
            "extended_attributes":[{"name":"user.b","value":"eA=="},{"name":"user.a"}]},
            {"name":"l","type":"symlink","linktarget":"?","linktarget_raw":"/w==","links":1},
            {"name":"d","type":"dev","device":2049},
            {"name":"i","type":"irregular"}]}"#
            .to_owned(),
        r#"{"nodes":[{"name":"d","type":"dir","subtree":"ID"}]}"#.replace("ID", &id),
        r#"{"nodes":null}"#.to_owned(),
        r#"{"packs":[{"id":"ID","blobs":[{"id":"ID","type":"data","offset":7,"length":40},
            {"id":"ID","type":"tree","offset":47,"length":52,"uncompressed_length":900}]}]}"#
            .replace("ID", &id),
    ];
    samples.map(String::into_bytes).into()
}
