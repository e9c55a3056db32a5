//! One function for each parser of bytes that were stored, sent or written by others. It takes any
//! bytes, must not panic, and checks what must hold of whatever is accepted: that it keeps the
//! limits of `docs/reference/format.md`, and comes back when it is written again.
//!
//! Payloads are sealed here, so that what is behind the authentication is reached: a client with
//! the key may be hostile or have a bug. Keys and names are the same in each process, so that an
//! input that is sealed can be kept. `crates/store/tests/fuzz.rs` runs the functions for a short
//! time and with the [kept inputs](crate::corpus) in every test run, `fuzz/fuzz_targets/parsers.rs`
//! in libFuzzer.

mod foreign;
mod kernels;
mod network;
mod served;
mod striped;
mod text;

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::Value;
use tabane_archive::Archive;
use tabane_format::config::{Config, WRITE_ONLY};
use tabane_format::key::Unwrapped;
use tabane_format::keyring::Keyring;
use tabane_format::writer_key::{WRITER_ID_LEN, WriterId};
use tabane_index::Cache;
use tabane_index::PageKeys;
use tabane_index::{Index, IndexSegment};
use tabane_lanes::{Algorithm, hash_many};
use tabane_patterns::{ExcludeOptions, Excludes};
use tabane_storage::{Name, ObjectKind, Storage, object_id};
use tabane_store::browse::{self, Browser};
use tabane_store::check::CheckOptions;
use tabane_store::chunker::{BLOCK_LEN_MAX, Chunking};
use tabane_store::entry::{Entry, Flags, HardLink, Kind, Piece, Time, Xattr};
use tabane_store::forget::{self, Age, Count, Period, Rule};
use tabane_store::key::{self, KdfCost, Password};
use tabane_store::owners::Owners;
use tabane_store::parts::pack::{
    self, BlockKind, Codec, PackContents, PackKind, PackWriter, SEGMENT_LEN_MAX, Segment,
    SegmentReader,
};
use tabane_store::parts::removal::Removal;
use tabane_store::parts::{self, tree};
use tabane_store::restore::RestoreOptions;
use tabane_store::snapshot::{Filter, GroupBy, Origin, Snapshot, Summary};
use tabane_store::{FORMAT, Id, Repository, client, diff, dump, stats};

use crate::memory::MemoryStorage;

/// A parser.
pub struct Parser {
    /// What it reads.
    pub name: &'static str,
    /// Feeds it with these bytes.
    pub run: fn(&[u8]),
    /// Bytes that it accepts, to start from.
    pub samples: fn() -> Vec<Vec<u8>>,
}

/// All parsers, and the kernels.
pub const PARSERS: &[Parser] = &[
    Parser {
        name: "object",
        run: object,
        samples: object_samples,
    },
    Parser {
        name: "key",
        run: key,
        samples: key_samples,
    },
    Parser {
        name: "config",
        run: config,
        samples: config_samples,
    },
    Parser {
        name: "footer",
        run: footer,
        samples: footer_samples,
    },
    Parser {
        name: "segment",
        run: segment,
        samples: segment_samples,
    },
    Parser {
        name: "index",
        run: index,
        samples: index_samples,
    },
    Parser {
        name: "unverified",
        run: unverified,
        samples: index_samples,
    },
    Parser {
        name: "writer_object",
        run: writer_object,
        samples: writer_object_samples,
    },
    Parser {
        name: "writer_key",
        run: writer_key,
        samples: writer_key_samples,
    },
    Parser {
        name: "directory",
        run: directory,
        samples: directory_samples,
    },
    Parser {
        name: "copy",
        run: copy,
        samples: copy_samples,
    },
    Parser {
        name: "snapshot",
        run: snapshot,
        samples: snapshot_samples,
    },
    Parser {
        name: "removal",
        run: removal,
        samples: removal_samples,
    },
    Parser {
        name: "client",
        run: client,
        samples: client_samples,
    },
    Parser {
        name: "cache",
        run: cache,
        samples: cache_samples,
    },
    Parser {
        name: "patterns",
        run: patterns,
        samples: pattern_samples,
    },
    Parser {
        name: "request",
        run: served::request,
        samples: served::request_samples,
    },
    Parser {
        name: "sftp",
        run: served::sftp,
        samples: served::sftp_samples,
    },
    Parser {
        name: "container",
        run: striped::container,
        samples: striped::container_samples,
    },
    Parser {
        name: "target",
        run: striped::target,
        samples: striped::target_samples,
    },
    Parser {
        name: "set",
        run: striped::set,
        samples: striped::set_samples,
    },
    Parser {
        name: "set_file",
        run: striped::set_file,
        samples: striped::set_file_samples,
    },
    Parser {
        name: "wire",
        run: network::wire,
        samples: network::wire_samples,
    },
    Parser {
        name: "ring",
        run: network::ring,
        samples: network::ring_samples,
    },
    Parser {
        name: "borg",
        run: foreign::borg,
        samples: foreign::borg_samples,
    },
    Parser {
        name: "restic",
        run: foreign::restic,
        samples: foreign::restic_samples,
    },
    Parser {
        name: "check_file",
        run: text::check_file,
        samples: text::check_file_samples,
    },
    Parser {
        name: "key_text",
        run: text::key_text,
        samples: text::key_text_samples,
    },
    Parser {
        name: "clients",
        run: text::clients,
        samples: text::clients_samples,
    },
    Parser {
        name: "web",
        run: network::web,
        samples: network::web_samples,
    },
    Parser {
        name: "kernels",
        run: kernels::kernels,
        samples: kernels::kernel_samples,
    },
];

const HEADER_LEN: usize = 40;
const TAG_LEN: usize = 16;
const BLOCK: &[u8] = b"a block of a file";

fn password() -> Password {
    b"correct horse".to_vec().into()
}

/// A storage with a config and a key, whose secrets and names are the same each time.
fn new_storage(features: &[&str]) -> MemoryStorage {
    let storage = MemoryStorage::default();
    let config = Config {
        id: Id([1; 32]),
        hash: tabane_store::Algorithm::Sha256,
        chunking: Chunking::default(),
        chunker_secret: Id([2; 32]),
        features: features.iter().map(|&feature| feature.to_owned()).collect(),
    };
    let json = serde_json::to_vec(&config).expect("JSON");
    let master = parts::MasterKey::from_bytes(&[3; 32]).expect("32 bytes");
    storage.set(Name::CONFIG, master.seal_config(FORMAT, &json));
    let secret = Unwrapped::Master(master);
    key::add(&storage, &secret, &password(), KdfCost::WEAKEST).expect("a key");
    // It copies both.
    open(&storage, &password()).repair_config().expect("copies");
    storage
}

fn open(storage: &MemoryStorage, password: &Password) -> Arc<Repository> {
    let repository = Repository::open(Arc::new(storage.clone()), password);
    Arc::new(repository.expect("a repository"))
}

thread_local! {
    static REPOSITORY: (MemoryStorage, Arc<Repository>) = {
        let storage = new_storage(&[]);
        let repository = open(&storage, &password());
        (storage, repository)
    };
}

/// A repository with a config and a key, and nothing else.
fn empty_repository() -> (MemoryStorage, Arc<Repository>) {
    let (storage, repository) = REPOSITORY.with(Clone::clone);
    for kind in ObjectKind::ALL {
        if !matches!(
            kind,
            ObjectKind::Config | ObjectKind::Key | ObjectKind::Copy
        ) {
            for object in storage.list(kind).expect("a list") {
                storage.remove(Name::new(kind, object.id));
            }
        }
    }
    (storage, repository)
}

fn sha256(bytes: &[u8]) -> Id {
    let digests = hash_many(Algorithm::Sha256, &[bytes]);
    Id(digests[0].as_ref().try_into().expect("32 bytes"))
}

/// Puts an object of any bytes, under the name that they have.
fn put_raw(storage: &MemoryStorage, kind: ObjectKind, bytes: &[u8]) -> Id {
    let id = object_id(&[bytes]);
    storage.set(Name::new(kind, id), bytes.to_vec());
    id
}

// Whole objects: their header and their seal. The first byte chooses the kind that is expected.

fn object(input: &[u8]) {
    let Some((&first, bytes)) = input.split_first() else {
        return;
    };
    let (storage, repository) = empty_repository();
    let kind = ObjectKind::ALL[usize::from(first) % ObjectKind::ALL.len()];
    let opened = parts::master(&repository).open_object(kind, bytes.to_vec(), "it");
    if let Ok(payload) = opened {
        // Nobody else has the key.
        assert!(object_payloads().contains(&&payload[..]));
    }
    let _ = pack::read_contents(parts::keys(&repository), bytes, "it");
    if !matches!(kind, ObjectKind::Config | ObjectKind::Key) {
        let id = put_raw(&storage, kind, bytes);
        let _ = repository.get_sealed(kind, id);
        let _ = pack::fetch_contents(repository.storage(), parts::keys(&repository), id);
    }
    let _ = repository.load_index();
    let _ = repository.snapshots(&Filter::default());
    let _ = client::list(&repository);
}

fn object_payloads() -> [&'static [u8]; 2] {
    [b"", b"payload"]
}

fn object_samples() -> Vec<Vec<u8>> {
    let (_, repository) = empty_repository();
    let mut samples = Vec::new();
    for (number, kind) in ObjectKind::ALL.into_iter().enumerate() {
        for payload in object_payloads() {
            let sealed = parts::master(&repository).seal_object(kind, payload);
            samples.push([&[number as u8], &sealed[..]].concat());
        }
    }
    let mut writer = PackWriter::new(parts::keys(&repository), BlockKind::Data, Vec::new());
    writer.push(
        Codec::Stored,
        BLOCK,
        vec![(sha256(BLOCK), BLOCK.len() as u32)],
    );
    samples.push([&[2], &writer.finish().0[..]].concat());
    samples
}

// Write-only keys: what they seal, what is sealed for them, and what such a key wraps.

thread_local! {
    static WITH_WRITER: (MemoryStorage, Arc<Repository>, Arc<Repository>) = {
        let storage = new_storage(&[WRITE_ONLY]);
        let full = open(&storage, &password());
        let keyring = Keyring::new(Unwrapped::Master(parts::master(&full).clone()), true);
        let master = keyring.as_master("this").expect("the master key");
        let key = master.writer_of(WriterId([4; WRITER_ID_LEN]), full.config());
        let other: Password = b"write only".to_vec().into();
        key::add(&storage, &Unwrapped::Writer(Box::new(key)), &other, KdfCost::WEAKEST)
            .expect("a write-only key");
        let writer = open(&storage, &other);
        (storage, full, writer)
    };
}

/// A storage without objects but keys, and the repository with a full and with a write-only key.
fn with_writer() -> (MemoryStorage, Arc<Repository>, Arc<Repository>) {
    let (storage, full, writer) = WITH_WRITER.with(Clone::clone);
    for kind in WRITER_KINDS {
        for object in storage.list(kind).expect("a list") {
            storage.remove(Name::new(kind, object.id));
        }
    }
    (storage, full, writer)
}

/// Kinds that write-only keys write or read.
const WRITER_KINDS: [ObjectKind; 7] = [
    ObjectKind::Pack,
    ObjectKind::Unverified,
    ObjectKind::Index,
    ObjectKind::Snapshot,
    ObjectKind::Pending,
    ObjectKind::Removal,
    ObjectKind::Client,
];

/// Any bytes under the name that they have, as a full and as a write-only key read them. The first
/// byte chooses the kind.
fn writer_object(input: &[u8]) {
    let Some((&first, bytes)) = input.split_first() else {
        return;
    };
    let (storage, full, writer) = with_writer();
    let kind = WRITER_KINDS[usize::from(first) % WRITER_KINDS.len()];
    let id = tabane_storage::object_id(&[bytes]);
    storage.set(Name::new(kind, id), bytes.to_vec());
    for repository in [&full, &writer] {
        if let Ok(payload) = repository.get_sealed(kind, id) {
            // Nobody else has the keys.
            assert!(object_payloads().contains(&&payload[..]), "{kind:?}");
            let reads = !matches!(kind, ObjectKind::Snapshot | ObjectKind::Pending);
            assert!(reads || !repository.is_write_only());
        }
        let _ = pack::read_contents(parts::keys(repository), bytes, "it");
        let _ = pack::fetch_contents(repository.storage(), parts::keys(repository), id);
        let _ = (repository.load_index(), repository.read_removals());
        let _ = client::list(repository);
    }
    assert!(pack::read_contents(parts::keys(&writer), bytes, "it").is_err());
    // Whoever can only write can put anything here.
    if kind == ObjectKind::Unverified {
        full.load_index().expect("an index");
        writer.load_index().expect("an index");
    }
}

fn writer_object_samples() -> Vec<Vec<u8>> {
    let (_, full, writer) = with_writer();
    let mut samples = Vec::new();
    for (number, kind) in WRITER_KINDS.into_iter().enumerate() {
        for repository in [&full, &writer] {
            for payload in object_payloads() {
                if let Ok(sealed) = parts::keys(repository).seal(kind, payload) {
                    samples.push([&[number as u8], &sealed[..]].concat());
                }
            }
        }
    }
    let mut pack = PackWriter::new(parts::keys(&writer), BlockKind::Data, Vec::new());
    pack.push(
        Codec::Stored,
        BLOCK,
        vec![(sha256(BLOCK), BLOCK.len() as u32)],
    );
    samples.push([&[0], &pack.finish().0[..]].concat());
    samples
}

/// What a write-only key says of packs: nothing that it says may keep others from reading.
fn unverified(input: &[u8]) {
    let (_, full, writer) = with_writer();
    let put = writer.put_sealed(ObjectKind::Unverified, input);
    put.expect("put");
    for repository in [&full, &writer] {
        let index = repository.load_index().expect("an index");
        is_whole(&index);
        for pack in index.packs() {
            assert!(pack.expect("a pack").kind.is_of_writer());
        }
        let _ = repository.check(CheckOptions::default()).expect("a check");
    }
    // A client with a full key relies on none of it.
    let index = full.load_index().expect("an index");
    for block in index.blocks() {
        let (id, _) = block.expect("a block");
        assert!(!index.keeps(&id).expect("an answer"));
    }
}

fn writer_key(input: &[u8]) {
    let Ok(key) = parts::WriterKey::parse(input) else {
        return;
    };
    let bytes = key.to_bytes();
    let again = parts::WriterKey::parse(&bytes).expect("a key that comes back");
    assert_eq!(*again.to_bytes(), *bytes);
    let keyring = parts::Keyring::Writer(Box::new(key));
    for kind in [ObjectKind::Snapshot, ObjectKind::Unverified] {
        keyring.seal(kind, b"payload").expect("sealed");
    }
}

fn writer_key_samples() -> Vec<Vec<u8>> {
    let (_, _, writer) = with_writer();
    let key = parts::keys(&writer).writer().expect("a write-only key");
    vec![key.to_bytes().to_vec()]
}

// Keys.

fn key(input: &[u8]) {
    let (storage, _) = empty_repository();
    let mut objects = storage.objects();
    let keys: Vec<_> = objects
        .keys()
        .copied()
        .filter(|name| matches!(name.kind, ObjectKind::Key | ObjectKind::Copy))
        .collect();
    for name in keys {
        objects.remove(&name);
    }
    let storage = MemoryStorage::new(objects);
    let id = put_raw(&storage, ObjectKind::Key, input);
    let loaded = key::load(&storage, id);
    let _ = key::list(&storage);
    let Ok(loaded) = loaded else {
        assert!(Repository::open(Arc::new(storage), &password()).is_err());
        return;
    };
    let written = serde_json::to_value(&loaded.file).expect("JSON");
    let cost = |name: &str| written["cost"][name].as_u64().expect("a number");
    let (memory, passes, lanes) = (cost("memory_kib"), cost("passes"), cost("lanes"));
    let too_much = memory > 4 << 20 || passes > 64 || lanes > 64;
    if !too_much && memory * passes > 1 << 10 {
        // Allowed, and long.
        return;
    }
    // If it costs too much, this would not end.
    let opened = Repository::open(Arc::new(storage.clone()), &password());
    assert!(!(too_much && opened.is_ok()));
    let again = put_raw(&storage, ObjectKind::Key, written.to_string().as_bytes());
    let again = key::load(&storage, again).expect("a key that comes back");
    assert_eq!(serde_json::to_value(&again.file).expect("JSON"), written);
}

fn key_samples() -> Vec<Vec<u8>> {
    let objects = empty_repository().0.objects();
    let of_keys = objects
        .into_iter()
        .filter(|(name, _)| name.kind == ObjectKind::Key);
    let mut samples: Vec<Vec<u8>> = of_keys.map(|(_, bytes)| bytes).collect();
    let mut json: Value = serde_json::from_slice(&samples[0]).expect("JSON");
    for (field, number) in [
        ("memory_kib", u32::MAX),
        ("passes", 65),
        ("lanes", 65),
        ("lanes", 0),
    ] {
        let before = json["cost"][field].take();
        json["cost"][field] = number.into();
        samples.push(json.to_string().into());
        json["cost"][field] = before;
    }
    samples
}

// The config.

fn config(input: &[u8]) {
    let (storage, repository) = empty_repository();
    let sealed = parts::master(&repository).seal_object(ObjectKind::Config, input);
    let storage = MemoryStorage::new(storage.objects());
    storage.set(Name::CONFIG, sealed);
    let Ok(opened) = Repository::open(Arc::new(storage.clone()), &password()) else {
        return;
    };
    let config = opened.config();
    let keeps = match config.chunking {
        Chunking::Fixed { len } => (1024..=BLOCK_LEN_MAX).contains(&len),
        Chunking::Content { min, avg, max } => {
            1024 <= min && min < avg && avg < max && max <= BLOCK_LEN_MAX && avg.is_power_of_two()
        }
    };
    assert!(keeps, "{:?}", config.chunking);
    assert!(tabane_store::BLOCK_HASHES.contains(&config.hash));
    let json = serde_json::to_vec(config).expect("JSON");
    let sealed = parts::master(&opened).seal_object(ObjectKind::Config, &json);
    storage.set(Name::CONFIG, sealed);
    let again = Repository::open(Arc::new(storage), &password()).expect("a config that comes back");
    assert_eq!(serde_json::to_vec(again.config()).expect("JSON"), json);
}

fn config_samples() -> Vec<Vec<u8>> {
    let (_, repository) = empty_repository();
    let mut config = repository.config().clone();
    let first = serde_json::to_vec(&config).expect("JSON");
    config.chunking = Chunking::Fixed { len: 65536 };
    vec![first, serde_json::to_vec(&config).expect("JSON")]
}

// Copies of the config and of keys: whatever else is there, the right ones are found.

/// Whether `input` is the copy of a config whose header names a format that this program does not
/// know.
fn copies_a_newer_config(input: &[u8]) -> bool {
    let config = input.strip_prefix(b"TABANEY\x01C");
    let format = config.filter(|config| config.starts_with(b"TABANE"));
    format.and_then(|config| config.get(7)) > Some(&FORMAT)
}

fn copy(input: &[u8]) {
    let (storage, repository) = empty_repository();
    let lost = |name: &Name| matches!(name.kind, ObjectKind::Config | ObjectKind::Key);
    let mut objects = storage.objects();
    objects.retain(|name, _| !lost(name));
    let storage = MemoryStorage::new(objects);
    let name = Name::new(ObjectKind::Copy, tabane_storage::object_id(&[input]));
    storage.set(name, input.to_vec());
    let opened = match Repository::open(Arc::new(storage.clone()), &password()) {
        Ok(opened) => opened,
        // Then only a newer program knows which of the configs holds.
        Err(_) if copies_a_newer_config(input) => return,
        Err(error) => panic!("the copies: {error}"),
    };
    assert_eq!(opened.config().id, repository.config().id);
    assert!(!opened.damaged().is_empty());
    opened.repair_config().expect("a repair");
    let opened = Repository::open(Arc::new(storage), &password()).expect("what was mended");
    assert_eq!(opened.config().id, repository.config().id);
}

fn copy_samples() -> Vec<Vec<u8>> {
    let (storage, _) = empty_repository();
    let objects = storage.objects().into_iter();
    let copies = objects.filter(|(name, _)| name.kind == ObjectKind::Copy);
    copies.map(|(_, bytes)| bytes.to_vec()).collect()
}

// Footers of packs. The input is the footer; a body of the length that it says is put before it.

fn footer(input: &[u8]) {
    let (storage, repository) = empty_repository();
    let said = postcard::from_bytes::<PackContents>(input);
    let body_len = said.as_ref().map_or(0, PackContents::segments_len);
    // The salt comes first, and must be that of the header.
    let salt = input.first_chunk::<32>().copied().unwrap_or_default();
    let mut pack = [b"TABANEP\x01", &salt[..]].concat();
    pack.resize(HEADER_LEN + body_len.min(1 << 20) as usize, 0);
    let footer_at = pack.len();
    pack.extend_from_slice(input);
    let key = parts::master(&repository).object_key(ObjectKind::Pack, &salt);
    key.seal(0, &mut pack, footer_at);
    let sealed_len = (pack.len() - footer_at) as u32;
    pack.extend_from_slice(&sealed_len.to_le_bytes());

    let read = pack::read_contents(parts::keys(&repository), &pack, "it");
    let id = put_raw(&storage, ObjectKind::Pack, &pack);
    let fetched = pack::fetch_contents(repository.storage(), parts::keys(&repository), id);
    assert_eq!(read.is_ok(), fetched.is_ok());
    let Ok(contents) = read else {
        return;
    };
    assert_eq!(fetched.expect("as read"), contents);
    assert_eq!(contents.segments_len(), body_len);
    keeps_limits(&contents);
    let written = postcard::to_stdvec(&contents).expect("postcard");
    assert_eq!(postcard::from_bytes(&written), Ok(contents.clone()));
    // It can have been written with longer numbers.
    assert!(contents.object_len() <= pack.len() as u64);
    let mut index = Index::default();
    index
        .add(id, &contents)
        .expect("contents within the limits");
    is_whole(&index);
}

fn keeps_limits(contents: &PackContents) {
    for segment in &contents.segments {
        assert!(segment.blocks.iter().all(|&(_, len)| len <= BLOCK_LEN_MAX));
        assert!(segment.raw_len() <= SEGMENT_LEN_MAX);
        assert!((TAG_LEN..=SEGMENT_LEN_MAX + TAG_LEN).contains(&(segment.stored_len as usize)));
    }
    assert!(contents.segments_len() <= u64::from(u32::MAX));
}

/// Every block is found, within its segment.
fn is_whole(index: &Index) {
    for block in index.blocks() {
        let (id, location) = block.expect("a block");
        assert_eq!(index.find(&id).expect("found"), Some(location));
        let segment = index.segment(location.segment).expect("a segment");
        assert!(u64::from(location.offset) + u64::from(location.len) <= u64::from(segment.raw_len));
        assert!(segment.raw_len as usize <= SEGMENT_LEN_MAX);
        index.pack(segment.pack).expect("a pack");
    }
}

fn contents(salt: u8) -> PackContents {
    let segment = |codec, lens: &[u32]| Segment {
        stored_len: 60,
        codec,
        blocks: lens.iter().map(|&len| (Id([len as u8; 32]), len)).collect(),
    };
    PackContents {
        salt: [salt; 32],
        kind: PackKind::Data,
        segments: vec![
            segment(Codec::Stored, &[44]),
            segment(Codec::Zstd, &[300, 70_000, 0]),
            segment(Codec::Zstd, &[BLOCK_LEN_MAX]),
        ],
    }
}

fn footer_samples() -> Vec<Vec<u8>> {
    let empty = PackContents {
        salt: [0; 32],
        kind: PackKind::Tree,
        segments: Vec::new(),
    };
    [contents(7), empty]
        .iter()
        .map(|contents| postcard::to_stdvec(contents).expect("postcard"))
        .collect()
}

// Segments. Four bytes choose codec and length, the rest is what was sealed.

fn segment(input: &[u8]) {
    let Some((head, encoded)) = input.split_first_chunk::<4>() else {
        return;
    };
    let head = u32::from_le_bytes(*head);
    let codec = if head >> 31 == 0 {
        Codec::Zstd
    } else {
        Codec::Stored
    };
    let raw_len = (head & !(1 << 31)) as usize % (SEGMENT_LEN_MAX + 1);
    let (_, repository) = empty_repository();
    let key = parts::master(&repository).object_key(ObjectKind::Pack, &[7; 32]);
    let mut sealed = encoded.to_vec();
    key.seal(1, &mut sealed, 0);
    let opened = SegmentReader::default().open(&key, 0, codec, raw_len, &sealed, String::new);
    if let Ok(raw) = opened {
        assert_eq!(raw.len(), raw_len);
        // Twice as much would be kept by a cache of segments.
        assert!(raw.capacity() <= raw_len.max(64));
        assert!(codec == Codec::Zstd || raw == encoded);
    }
}

fn segment_samples() -> Vec<Vec<u8>> {
    let text = b"all work and no play makes jack a dull boy ".repeat(50);
    let compress = |raw: &[u8]| zstd::bulk::compress(raw, 3).expect("zstd");
    let sample = |stored: u32, len: usize, encoded: &[u8]| {
        [&(len as u32 | stored << 31).to_le_bytes(), encoded].concat()
    };
    let bomb = compress(&vec![0; 32 << 20]);
    vec![
        sample(1, text.len(), &text),
        sample(0, text.len(), &compress(&text)),
        sample(0, 0, &compress(b"")),
        sample(0, text.len(), &bomb),
        sample(0, SEGMENT_LEN_MAX, &bomb),
    ]
}

// Index objects.

fn index(input: &[u8]) {
    let (_, repository) = empty_repository();
    let id = repository
        .put_sealed(ObjectKind::Index, input)
        .expect("put");
    let read = repository.read_index_segment(id);
    let loaded = repository.load_index();
    let Ok(packs) = read else {
        assert!(loaded.is_err());
        return;
    };
    let written = postcard::to_stdvec(&packs).expect("postcard");
    let again = repository
        .put_sealed(ObjectKind::Index, &written)
        .expect("put");
    assert_eq!(
        repository
            .read_index_segment(again)
            .expect("an index that comes back"),
        packs
    );
    let mut index = Index::default();
    for (pack, contents) in &packs {
        if index.add(*pack, contents).is_ok() && index.pack(0).is_ok_and(|first| first.id == *pack)
        {
            keeps_limits(contents);
        }
    }
    is_whole(&index);
}

fn index_samples() -> Vec<Vec<u8>> {
    let one = vec![(Id([1; 32]), contents(7))];
    let two = vec![(Id([1; 32]), contents(7)), (Id([2; 32]), contents(8))];
    [Vec::new(), one, two]
        .iter()
        .map(|packs| postcard::to_stdvec(packs).expect("postcard"))
        .collect()
}

// Directories, and everything that is done with what they say but the writing of files.

fn directory(input: &[u8]) {
    let Ok(entries) = tree::decode(input) else {
        return;
    };
    assert_eq!(
        tree::decode(&tree::encode(&entries)).expect("a directory that comes back"),
        entries
    );
    assert!(entries.is_sorted_by(|a, b| a.name < b.name));
    for entry in &entries {
        assert!(!entry.name.is_empty() && entry.name != b"." && entry.name != b"..");
        assert!(!entry.name.contains(&b'/') && !entry.name.contains(&0));
        if let Kind::File { size, content } = &entry.kind {
            assert_eq!(
                content
                    .iter()
                    .map(|piece| u128::from(piece.len()))
                    .sum::<u128>(),
                u128::from(*size)
            );
        }
    }
    let (storage, repository) = empty_repository();
    let mut packs = Vec::new();
    for (kind, block) in [(BlockKind::Tree, input), (BlockKind::Data, BLOCK)] {
        let mut writer = PackWriter::new(parts::keys(&repository), kind, Vec::new());
        writer.push(
            Codec::Stored,
            block,
            vec![(sha256(block), block.len() as u32)],
        );
        let (bytes, contents) = writer.finish();
        packs.push((put_raw(&storage, ObjectKind::Pack, &bytes), contents));
    }
    let written = postcard::to_stdvec(&packs).expect("postcard");
    repository
        .put_sealed(ObjectKind::Index, &written)
        .expect("put");
    let root = Piece::Block {
        id: sha256(input),
        len: input.len() as u32,
    };
    let snapshot = snapshot_of(vec![root]);
    let id = repository.save_snapshot(&snapshot).expect("save");

    let mut browser = Browser::new(&repository).expect("an index");
    let (root, empty) = (
        browse::root(&snapshot),
        browse::root(&snapshot_of(Vec::new())),
    );
    let _ = stats::of_snapshots(&mut browser, &repository, [&snapshot]);
    for (old, new) in [(&empty, &root), (&root, &empty), (&root, &root)] {
        let _ = diff::diff(&mut browser, old, new, |_| Ok::<_, tabane_store::Error>(()));
    }
    let shared = Arc::new(snapshot.clone());
    for mut archive in [
        Archive::tar(shared, Path::new("/"), root.clone()),
        Archive::zip(Path::new("/"), root.clone()),
    ] {
        let mut len = 0;
        // A hole can be longer than any patience.
        while len < 1 << 20
            && let Ok(Some(bytes)) = archive.next(&mut browser)
        {
            len += bytes.len();
        }
    }
    for entry in &entries {
        let _ = dump::file(&mut browser, entry, &mut Room(1 << 16));
    }
    let _ = repository.check(CheckOptions::default());
    let options = RestoreOptions::new("/nowhere").dry_run(true);
    let _ = repository.restore(options, id, &snapshot);
}

/// An output with room for so many bytes: a hole can be longer than any patience.
struct Room(usize);

impl io::Write for Room {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.checked_sub(bytes.len()) {
            Some(left) => self.0 = left,
            None => return Err(io::ErrorKind::StorageFull.into()),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn directory_samples() -> Vec<Vec<u8>> {
    let block = Piece::Block {
        id: sha256(BLOCK),
        len: BLOCK.len() as u32,
    };
    let hole = Piece::Hole { len: 1 << 40 };
    let file = |content: Vec<Piece>| Kind::File {
        size: content.iter().map(Piece::len).sum(),
        content,
    };
    let kinds = vec![
        file(vec![block, hole, block]),
        file(vec![Piece::Hole { len: u64::MAX }]),
        file(vec![Piece::Hole { len: 1 << 63 }]),
        Kind::Directory {
            content: vec![block],
        },
        Kind::Directory {
            content: vec![hole],
        },
        Kind::Symlink {
            target: b"to/there".to_vec(),
        },
        Kind::CharDevice { major: 1, minor: 3 },
        Kind::BlockDevice {
            major: u32::MAX,
            minor: 0,
        },
        Kind::Fifo,
        Kind::Socket,
    ];
    let mut entries = Vec::new();
    for (number, kind) in kinds.into_iter().enumerate() {
        entries.push(Entry {
            name: format!("name {number}").into_bytes(),
            mode: 0o4755,
            uid: 1000,
            gid: 1000,
            mtime: Time {
                s: 1_700_000_000,
                ns: 1,
            },
            ctime: Time {
                s: i64::MIN,
                ns: 999_999_999,
            },
            atime: (number == 0).then_some(Time {
                s: i64::MAX,
                ns: u32::MAX,
            }),
            inode: 7,
            hard_link: (number % 3 == 0).then_some(HardLink {
                device: 1,
                inode: 7,
            }),
            xattrs: vec![Xattr {
                name: b"user.a".to_vec(),
                value: b"b".to_vec(),
            }],
            flags: match number {
                0 => Flags::IMMUTABLE | Flags::NODUMP,
                _ => Flags::default(),
            },
            kind,
        });
    }
    let mut samples: Vec<_> = entries
        .iter()
        .map(|entry| tree::encode(std::slice::from_ref(entry)))
        .collect();
    samples.push(tree::encode(&entries));
    samples
}

// Snapshots.

fn snapshot(input: &[u8]) {
    let (_, repository) = empty_repository();
    let id = repository
        .put_sealed(ObjectKind::Snapshot, input)
        .expect("put");
    let listing = repository.snapshots(&Filter::default()).expect("a list");
    let Ok(read) = repository.load_snapshot(id) else {
        assert_eq!((listing.snapshots.len(), listing.damaged.len()), (0, 1));
        return;
    };
    let other = repository
        .save_snapshot(&snapshot_of(Vec::new()))
        .expect("save");
    let written = repository.save_snapshot(&read).expect("save");
    let again = repository
        .load_snapshot(written)
        .expect("a snapshot that comes back");
    let json = |snapshot: &Snapshot| serde_json::to_vec(snapshot).expect("JSON");
    assert_eq!(json(&again), json(&read));
    assert!(repository.load_snapshot(other).is_ok());

    let listing = repository.snapshots(&Filter::default()).expect("a list");
    assert_eq!((listing.snapshots.len(), listing.damaged.len()), (3, 0));
    let _ = repository
        .find_snapshot("latest", &Filter::default())
        .expect("a latest one");
    let _ = repository
        .find_parent_snapshot(
            &Origin {
                hostname: &read.hostname,
                paths: &read.paths,
                tags: &read.tags,
            },
            GroupBy::default(),
            read.time,
        )
        .expect("a list");
    let age: Age = "65535y65535m65535d65535h".parse().expect("an age");
    let year: Age = "1y".parse().expect("an age");
    let mut rules = vec![Rule::Tags(read.tags.clone())];
    for period in [
        Period::Each,
        Period::Hour,
        Period::Day,
        Period::Week,
        Period::Month,
        Period::Year,
    ] {
        rules.extend([
            Rule::Last(period, Count::AtMost(1)),
            Rule::Within(period, age),
            Rule::Within(period, year),
        ]);
    }
    for now in [jiff::Timestamp::MIN, read.time, jiff::Timestamp::MAX] {
        for zone in [-25, 0, 25] {
            let zone = jiff::tz::TimeZone::fixed(jiff::tz::Offset::constant(zone));
            let reasons = forget::reasons(&rules, &listing.snapshots, &zone, now, &HashSet::new());
            assert_eq!(reasons.len(), 3);
        }
    }
}

fn snapshot_of(root: Vec<Piece>) -> Snapshot {
    Snapshot {
        time: jiff::Timestamp::constant(1_767_323_045, 0),
        hostname: "host".to_owned(),
        username: "user".to_owned(),
        paths: vec!["/home/me".to_owned()],
        tags: vec!["a".to_owned()],
        description: None,
        retention: None,
        parent: Some(Id([3; 32])),
        original: None,
        changes: 0,
        writer: None,
        root,
        owners: Some(Owners {
            users: [(0, "root".to_owned())].into(),
            groups: [(1000, "staff".to_owned())].into(),
        }),
        program_version: "tabane 0.1.0".to_owned(),
        summary: Summary::default(),
    }
}

fn snapshot_samples() -> Vec<Vec<u8>> {
    let pieces = vec![
        Piece::Block {
            id: Id([1; 32]),
            len: 417,
        },
        Piece::Hole { len: 1 },
    ];
    let mut samples = Vec::new();
    for time in [
        jiff::Timestamp::MIN,
        jiff::Timestamp::MAX,
        jiff::Timestamp::UNIX_EPOCH,
    ] {
        let snapshot = Snapshot {
            time,
            ..snapshot_of(pieces.clone())
        };
        samples.push(serde_json::to_vec(&snapshot).expect("JSON"));
    }
    samples
}

// Removals.

fn removal(input: &[u8]) {
    let (_, repository) = empty_repository();
    repository
        .put_sealed(ObjectKind::Removal, input)
        .expect("put");
    let (removals, index) = (repository.read_removals(), repository.load_index());
    assert_eq!(removals.is_ok(), index.is_ok());
    let Ok(removals) = removals else {
        return;
    };
    let read: Vec<Removal> = removals
        .iter()
        .map(|(_, removal)| removal.clone())
        .collect();
    assert_eq!(read.len(), 1);
    let written = postcard::to_stdvec(&read[0].packs).expect("postcard");
    assert_eq!(postcard::from_bytes(&written), Ok(read[0].packs.clone()));
    assert!(
        read[0]
            .packs
            .iter()
            .all(|pack| removals.condemned().contains(pack))
    );
}

fn removal_samples() -> Vec<Vec<u8>> {
    let of = |packs: u8| -> Vec<Id> { (0..packs).map(|pack| Id([pack; 32])).collect() };
    [of(0), of(1), of(5)]
        .iter()
        .map(|removal| postcard::to_stdvec(removal).expect("postcard"))
        .collect()
}

// Clients.

fn client(input: &[u8]) {
    let (_, repository) = empty_repository();
    repository
        .put_sealed(ObjectKind::Client, input)
        .expect("put");
    let seen = client::list(&repository).expect("a list");
    assert_eq!(seen.len(), 1);
    let seen = &seen[0];
    for now in [
        SystemTime::UNIX_EPOCH,
        seen.since(),
        seen.modified,
        SystemTime::now(),
    ] {
        seen.is_dead(now);
    }
    if let Some(client) = &seen.client {
        let written = serde_json::to_vec(client).expect("JSON");
        assert_eq!(
            &serde_json::from_slice::<client::Client>(&written).expect("a client that comes back"),
            client
        );
    }
}

fn client_samples() -> Vec<Vec<u8>> {
    let client = client::Client {
        purpose: client::Purpose::Backup,
        hostname: "host".to_owned(),
        username: "user".to_owned(),
        pid: 4711,
        pid_space: Some("boot pid:[1]".to_owned()),
        since: None,
    };
    let since = |since| client::Client {
        since: Some(since),
        ..client.clone()
    };
    let clients = [
        client.clone(),
        since(jiff::Timestamp::MIN),
        since(jiff::Timestamp::MAX),
    ];
    clients
        .iter()
        .map(|client| serde_json::to_vec(client).expect("JSON"))
        .collect()
}

// Runs of the local cache. The input is the salt and what the pages hold, each of which is sealed;
// the footer last.

const PAGE_LEN: usize = 512;

thread_local! {
    /// A repository with an index, and the folder of its cache. Its objects, which a run names,
    /// stay the same.
    static INDEXED: (Arc<Repository>, PathBuf) = {
        let thread = format!("{:?}", std::thread::current().id());
        let name = format!("tabane-fuzz-{}-{}", std::process::id(),
        sha256(thread.as_bytes()).short());
        let root = std::env::temp_dir().join(name);
        let storage = new_storage(&[]);
        let repository = Repository::open(Arc::new(storage.clone()), &password())
            .expect("a repository")
            .with_cache(Cache::new(root.clone(), |_: &str| ()));
        for first in [1, 3] {
            let packs: IndexSegment = [first, first + 1].map(|pack| (Id([pack; 32]),
            contents(pack))).into();
            for (pack, _) in &packs {
                let name = Name::new(ObjectKind::Pack, *pack);
                storage.set(name, b"a pack".to_vec());
            }
            // A run names index objects, so that their salts must not be random.
            let salt = [first; 32];
            let key = parts::master(&repository).object_key(ObjectKind::Index, &salt);
            let payload = postcard::to_stdvec(&packs).expect("postcard");
            let sealed = key.seal_whole(&[b"TABANEI\x01", &salt], &[&payload]);
            put_raw(&storage, ObjectKind::Index, &sealed);
        }
        (Arc::new(repository), root)
    };
}

fn cache(input: &[u8]) {
    let Some((salt, payloads)) = input.split_first_chunk::<32>() else {
        return;
    };
    let (repository, root) = INDEXED.with(Clone::clone);
    let key = parts::keys(&repository).page_key(salt);
    let mut file = salt.to_vec();
    file.resize(PAGE_LEN, 0);
    let mut pages = payloads.chunks(PAGE_LEN - TAG_LEN).zip(1..).peekable();
    while let Some((payload, number)) = pages.next() {
        let at = file.len();
        file.extend_from_slice(payload);
        file.resize(at + PAGE_LEN - TAG_LEN, 0);
        let is_last = pages.peek().is_none();
        let mut page = file.split_off(at);
        key.seal(if is_last { 0 } else { number }, &mut page);
        file.append(&mut page);
    }
    let folder = root.join(repository.config().id.to_string());
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join(format!("index2-{:064x}", 1)), file).expect("a file");
    if let Ok(index) = repository.load_index() {
        // Whatever a run says, it is answered, be it with an error.
        for block in index.blocks().take(1000) {
            let Ok((id, location)) = block else { continue };
            let _ = (index.find(&id), index.places(&id), index.keeps(&id));
            if let Ok(segment) = index.segment(location.segment) {
                let _ = index.pack(segment.pack);
            }
        }
        for pack in index.packs().take(1000) {
            let _ = pack;
        }
        let _ = index.find(&Id([44; 32]));
    }
    let _ = repository.load_index_and_lost(parts::Trust::Any);
    let _ = fs::remove_dir_all(root);
}

fn cache_samples() -> Vec<Vec<u8>> {
    let (repository, root) = INDEXED.with(Clone::clone);
    repository.load_index().expect("an index");
    let folder = root.join(repository.config().id.to_string());
    let mut samples = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let file = fs::read(entry.expect("an entry").path()).expect("a file");
        let (salt, _) = file.split_first_chunk::<32>().expect("a salt");
        let key = parts::keys(&repository).page_key(salt);
        let mut sample = salt.to_vec();
        let pages = file.len() / PAGE_LEN;
        for number in 1..pages {
            let mut page = file[number * PAGE_LEN..][..PAGE_LEN].to_vec();
            let number = if number == pages - 1 {
                0
            } else {
                number as u64
            };
            assert!(key.open(number, &mut page), "a page");
            sample.extend_from_slice(&page[..PAGE_LEN - TAG_LEN]);
        }
        samples.push(sample);
    }
    let _ = fs::remove_dir_all(root);
    assert!(!samples.is_empty());
    samples
}

// Patterns, one a line, the first half of them with case and the others without.

fn patterns(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let insensitive = lines.split_off(lines.len() / 2);
    let options = ExcludeOptions::default()
        .patterns(lines)
        .insensitive(insensitive);
    let Ok(excludes) = Excludes::new(&options) else {
        return;
    };
    for path in [
        "/",
        "/a",
        "/a/b.o",
        "/src/target/x",
        "/A/[x]",
        "/ü\u{10ffff}/\n",
        text,
    ] {
        for is_dir in [false, true] {
            if Path::new(path).is_absolute() && !path.contains('\0') {
                let first = excludes.is_excluded(Path::new(path), is_dir);
                assert_eq!(excludes.is_excluded(Path::new(path), is_dir), first);
            }
        }
    }
}

fn pattern_samples() -> Vec<Vec<u8>> {
    let samples: [&str; 6] = [
        "*.o\n/srv/*.o\nsrc/*.o",
        "dir/\ndir/**\n!dir/keep",
        "**/a/**\n**\n*",
        "[a-z]?[!a-z]*\n[]]\n[!-x]\n[[:alpha:]]",
        "\\*\\ \n\\!x\n#y\n{a,b}",
        "ü/É?\nA/b",
    ];
    samples.map(|sample| sample.as_bytes().to_vec()).into()
}
