//! Snapshots of any entries, written without a file system: hostile ones, and very many.

use tabane_storage::{Name, ObjectKind, object_id};
use tabane_store::compress::{Compression, Compressor};
use tabane_store::entry::{Entry, Flags, Kind, Piece, Time};
use tabane_store::parts::pack::{BlockKind, PACK_LEN, PackContents, PackWriter};
use tabane_store::parts::{self, tree};
use tabane_store::snapshot::{Snapshot, Summary};
use tabane_store::{Id, Repository, Timestamp};

/// Bytes of a segment.
const SEGMENT_LEN: usize = 512 << 10;

/// Packs of one index object.
const PACKS_MAX: usize = 64;

/// Writes blocks of one kind.
struct Blocks {
    kind: BlockKind,
    raw: Vec<u8>,
    blocks: Vec<(Id, u32)>,
    pack: Option<PackWriter>,
}

/// Writes directories and files into a repository.
pub struct Crafter<'a> {
    repository: &'a Repository,
    compressor: Compressor,
    trees: Blocks,
    data: Blocks,
    packs: Vec<(Id, PackContents)>,
}

impl<'a> Crafter<'a> {
    /// Writes into `repository`.
    pub fn new(repository: &'a Repository) -> Self {
        let blocks = |kind| Blocks {
            kind,
            raw: Vec::new(),
            blocks: Vec::new(),
            pack: None,
        };
        Self {
            repository,
            compressor: Compressor::new(Compression::FASTEST),
            trees: blocks(BlockKind::Tree),
            data: blocks(BlockKind::Data),
            packs: Vec::new(),
        }
    }

    /// Stores a directory of these entries, which are sorted by name; returns its content.
    pub fn directory(&mut self, entries: &[Entry]) -> Vec<Piece> {
        let bytes = tree::encode(entries);
        self.raw_directory(&bytes)
    }

    /// Stores bytes as those of a directory, whatever they are.
    pub fn raw_directory(&mut self, bytes: &[u8]) -> Vec<Piece> {
        // Longer ones have several blocks, which may be cut anywhere.
        let pieces = bytes.chunks(SEGMENT_LEN).map(|block| self.put(true, block));
        pieces.collect()
    }

    /// Stores the bytes of a file; returns its content.
    pub fn file(&mut self, bytes: &[u8]) -> Vec<Piece> {
        let pieces = bytes
            .chunks(SEGMENT_LEN)
            .map(|block| self.put(false, block));
        pieces.collect()
    }

    fn put(&mut self, is_tree: bool, block: &[u8]) -> Piece {
        let digest = self.repository.config().hash.digest(block);
        let (id, len) = (Id::from(digest), block.len() as u32);
        let of_kind = if is_tree { &self.trees } else { &self.data };
        if of_kind.raw.len() + block.len() > SEGMENT_LEN {
            self.end_segment(is_tree);
        }
        let of_kind = if is_tree {
            &mut self.trees
        } else {
            &mut self.data
        };
        of_kind.raw.extend_from_slice(block);
        of_kind.blocks.push((id, len));
        Piece::Block { id, len }
    }

    fn end_segment(&mut self, is_tree: bool) {
        let of_kind = if is_tree {
            &mut self.trees
        } else {
            &mut self.data
        };
        if of_kind.blocks.is_empty() {
            return;
        }
        let (codec, encoded) = self.compressor.encode(&of_kind.raw);
        let keys = parts::keys(self.repository);
        let pack = of_kind
            .pack
            .get_or_insert_with(|| PackWriter::new(keys, of_kind.kind, Vec::new()));
        pack.push(codec, encoded, std::mem::take(&mut of_kind.blocks));
        of_kind.raw.clear();
        if pack.len() >= PACK_LEN {
            self.end_pack(is_tree);
        }
    }

    fn end_pack(&mut self, is_tree: bool) {
        let of_kind = if is_tree {
            &mut self.trees
        } else {
            &mut self.data
        };
        let Some(pack) = of_kind.pack.take() else {
            return;
        };
        let (bytes, contents) = pack.finish();
        let id = object_id(&[&bytes]);
        let name = Name::new(ObjectKind::Pack, id);
        self.repository
            .storage()
            .put(name, &[&bytes])
            .expect("the pack is put");
        self.packs.push((id, contents));
        if self.packs.len() >= PACKS_MAX {
            self.end_index();
        }
    }

    fn end_index(&mut self) {
        if !self.packs.is_empty() {
            let packs = std::mem::take(&mut self.packs);
            self.repository
                .write_index_segment(&packs)
                .expect("the index object is put");
        }
    }

    /// Makes everything readable that was stored.
    pub fn flush(&mut self) {
        for is_tree in [true, false] {
            self.end_segment(is_tree);
            self.end_pack(is_tree);
        }
        self.end_index();
    }

    /// Saves a snapshot with this root; what it needs was flushed.
    pub fn snapshot(&self, time: Timestamp, hostname: &str, root: Vec<Piece>) -> Id {
        let snapshot = Snapshot {
            time,
            hostname: hostname.to_owned(),
            username: "ada".to_owned(),
            paths: vec!["/".to_owned()],
            tags: Vec::new(),
            description: None,
            retention: None,
            parent: None,
            original: None,
            changes: 0,
            writer: None,
            root,
            owners: None,
            program_version: "crafted".to_owned(),
            summary: Summary {
                start: time,
                end: time,
                ..Summary::default()
            },
        };
        self.repository
            .save_snapshot(&snapshot)
            .expect("the snapshot is put")
    }
}

/// A file with this content.
pub fn file(name: &[u8], content: Vec<Piece>) -> Entry {
    let size = content.iter().map(Piece::len).sum();
    entry(name, 0o644, Kind::File { size, content })
}

/// A directory with this content.
pub fn directory(name: &[u8], content: Vec<Piece>) -> Entry {
    entry(name, 0o755, Kind::Directory { content })
}

/// An entry that was last changed in 2026.
pub fn entry(name: &[u8], mode: u32, kind: Kind) -> Entry {
    let time = Time {
        s: 1_790_000_000,
        ns: 0,
    };
    Entry {
        name: name.to_vec(),
        mode,
        uid: 1000,
        gid: 1000,
        mtime: time,
        ctime: time,
        atime: None,
        inode: 0,
        hard_link: None,
        xattrs: Vec::new(),
        flags: Flags::default(),
        kind,
    }
}
