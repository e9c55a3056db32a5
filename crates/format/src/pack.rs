//! Packs: objects that hold blocks.
//!
//! Neighbouring blocks form one *segment*, which is compressed and sealed as a whole. So small
//! files are compressed together, and the length of a block stays hidden.
//!
//! ```text
//! header (40) · segment 0 · segment 1 · … · footer · length of the sealed footer (u32,
//! little-endian)
//! ```
//! Segment `i` is sealed under nonce `i + 1`, the footer (a [`PackContents`] in postcard's
//! encoding) under nonce 0.

use std::io;

use zstd::bulk::Decompressor;

use crate::crypto::{HEADER_LEN, ObjectKey, RECIPIENT_FORMAT, TAG_LEN, format_of, salt_of};
use crate::error::{Error, Result};
use crate::keyring::{Keyring, pack_header};
use crate::recipient::ENCAPSULATION_LEN;
use tabane_index::PACK_TRAILER_LEN;
use tabane_storage::Id;
use tabane_storage::{Name, OBJECT_LEN_MAX, ObjectKind, Storage};

pub use tabane_index::{
    BlockKind, Codec, PackContents, PackKind, SEGMENT_LEN, SEGMENT_LEN_MAX, Segment,
};

/// Packs that wait for an index object at most: indexed packs survive an interruption.
pub use tabane_index::PACKS_PER_INDEX;

// An index knows where the first segment of a pack begins.
const _: () =
    assert!(HEADER_LEN == tabane_index::PACK_HEADER_LEN && TAG_LEN == tabane_index::TAG_LEN);

/// A pack is closed when it has this many bytes.
pub const PACK_LEN: usize = 16 << 20;

/// A pack is closed when it has this many blocks: those on their way to the storage are kept in
/// memory, some 100 bytes each.
pub const PACK_BLOCKS_MAX: usize = 64 << 10;

/// A pack in the making.
pub struct PackWriter {
    key: ObjectKey,
    bytes: Vec<u8>,
    blocks: usize,
    contents: PackContents,
}

impl PackWriter {
    /// An empty pack of these blocks, which is made in `bytes`.
    pub fn new(keys: &Keyring, blocks: BlockKind, mut bytes: Vec<u8>) -> Self {
        let start = keys.begin_pack(blocks);
        bytes.clear();
        bytes.reserve(PACK_LEN + 2 * SEGMENT_LEN);
        bytes.extend_from_slice(&start.head);
        Self {
            key: start.key,
            bytes,
            blocks: 0,
            contents: PackContents {
                salt: start.salt,
                kind: start.kind,
                segments: Vec::new(),
            },
        }
    }

    /// The key of the pack: a write-only key cannot derive it again.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Seals and appends a segment whose bytes are encoded already.
    pub fn push(&mut self, codec: Codec, encoded: &[u8], blocks: Vec<(Id, u32)>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(encoded);
        self.blocks += blocks.len();
        let number = self.contents.segments.len();
        self.key
            .seal(nonce_of_segment(number), &mut self.bytes, start);
        self.contents.segments.push(Segment {
            stored_len: (self.bytes.len() - start) as u32,
            codec,
            blocks,
        });
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Number of blocks so far.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Whether the pack has no segment yet.
    pub fn is_empty(&self) -> bool {
        self.contents.segments.is_empty()
    }

    /// The finished object and its contents.
    pub fn finish(mut self) -> (Vec<u8>, PackContents) {
        let footer = postcard::to_stdvec(&self.contents).expect("contents are plain data");
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&footer);
        self.key.seal(NONCE_OF_FOOTER, &mut self.bytes, start);
        let sealed_len = (self.bytes.len() - start) as u32;
        self.bytes.extend_from_slice(&sealed_len.to_le_bytes());
        (self.bytes, self.contents)
    }
}

/// Reads the footer of a whole pack; `what` names it in errors.
///
/// # Errors
/// [`Error::Damaged`], [`Error::WriteOnly`].
pub fn read_contents(keys: &Keyring, pack: &[u8], what: &str) -> Result<PackContents> {
    let key = keys.pack_key(pack, what)?;
    open_contents(&key, pack, pack, pack.len() as u64, what)
}

/// As [`read_contents`], with the key of the pack.
///
/// # Errors
/// [`Error::Damaged`].
pub fn read_contents_with(key: &ObjectKey, pack: &[u8], what: &str) -> Result<PackContents> {
    open_contents(key, pack, pack, pack.len() as u64, what)
}

/// Bytes of a pack before its first segment, by its header.
fn head_len(header: &[u8; HEADER_LEN]) -> usize {
    match format_of(header) {
        RECIPIENT_FORMAT => HEADER_LEN + ENCAPSULATION_LEN,
        _ => HEADER_LEN,
    }
}

/// Fetches header and footer of a pack, without its segments.
///
/// # Errors
/// As [`read_contents`], and when the storage fails.
pub fn fetch_contents(storage: &dyn Storage, keys: &Keyring, id: Id) -> Result<PackContents> {
    let name = Name::new(ObjectKind::Pack, id);
    let len = storage.stat(name);
    let len = len.map_err(Error::storage("read", name))?;
    let fetch = |range| {
        storage
            .get(name, Some(range))
            .map_err(Error::storage("read", name))
    };
    let what = name.to_string();
    if len > OBJECT_LEN_MAX {
        return Err(Error::damaged(what, "it is longer than any object"));
    }
    if len <= FOOTER_GUESS {
        return read_contents(keys, &fetch(0..len)?, &what);
    }
    let mut head = fetch(0..HEADER_LEN as u64)?;
    let header = pack_header(&head, &what)?;
    if head_len(&header) > HEADER_LEN {
        head = fetch(0..head_len(&header) as u64)?;
    }
    let mut tail = fetch(len - FOOTER_GUESS..len)?;
    let footer_len = tail.last_chunk::<PACK_TRAILER_LEN>().map_or(0, |trailer| {
        u64::from(u32::from_le_bytes(*trailer)) + PACK_TRAILER_LEN as u64
    });
    if footer_len > FOOTER_GUESS && footer_len <= len {
        tail = fetch(len - footer_len..len)?;
    }
    let key = keys.pack_key(&head, &what)?;
    open_contents(&key, &head, &tail, len, &what)
}

/// Reads the footer of a pack of `len` bytes that begins with `head` and ends with `tail`.
fn open_contents(
    key: &ObjectKey,
    head: &[u8],
    tail: &[u8],
    len: u64,
    what: &str,
) -> Result<PackContents> {
    let header = pack_header(head, what)?;
    let head_len = head_len(&header) as u64;
    let damaged = |why: &str| Error::damaged(what, why);
    let (body, trailer) = tail
        .split_last_chunk::<PACK_TRAILER_LEN>()
        .ok_or_else(|| damaged("it is too short"))?;
    let footer_len = u32::from_le_bytes(*trailer) as usize;
    let start = body.len().checked_sub(footer_len);
    let footer_at = len.checked_sub((footer_len + PACK_TRAILER_LEN) as u64);
    let (Some(start), Some(footer_at)) = (start, footer_at.filter(|at| *at >= head_len)) else {
        return Err(damaged("its footer does not fit"));
    };
    let mut footer = body[start..].to_vec();
    let footer = key
        .open(NONCE_OF_FOOTER, &mut footer)
        .ok_or_else(|| damaged("its footer fails authentication"))?;
    let contents: PackContents =
        postcard::from_bytes(footer).map_err(|error| damaged(&error.to_string()))?;
    contents.validate(what)?;
    if contents.salt != salt_of(&header)
        || contents.kind.head_len() as u64 != head_len
        || head_len + contents.segments_len() != footer_at
    {
        return Err(damaged("its footer does not fit its body"));
    }
    Ok(contents)
}

/// Decrypts segment `number` of a pack, which is not compressed, in its own buffer.
///
/// # Errors
/// [`Error::Damaged`], naming `what`.
pub fn open_stored(
    key: &ObjectKey,
    number: usize,
    raw_len: usize,
    mut sealed: Vec<u8>,
    what: impl Fn() -> String,
) -> Result<Vec<u8>> {
    if sealed.len() != raw_len + TAG_LEN {
        return Err(other_len(number, what()));
    }
    if key.open(nonce_of_segment(number), &mut sealed).is_none() {
        return Err(fails_authentication(number, what()));
    }
    sealed.truncate(raw_len);
    sealed.shrink_to_fit();
    Ok(sealed)
}

/// Opens segments with reused buffers.
#[derive(Default)]
pub struct SegmentReader {
    decompressor: Option<Decompressor<'static>>,
    /// The decrypted, compressed bytes.
    compressed: Vec<u8>,
}

impl SegmentReader {
    /// Decrypts and decompresses segment `number` of a pack, whose stored bytes are `sealed`.
    ///
    /// # Errors
    /// [`Error::Damaged`], naming `what`.
    pub fn open(
        &mut self,
        key: &ObjectKey,
        number: usize,
        codec: Codec,
        raw_len: usize,
        sealed: &[u8],
        what: impl Fn() -> String,
    ) -> Result<Vec<u8>> {
        if codec == Codec::Stored {
            return open_stored(key, number, raw_len, sealed.to_vec(), what);
        }
        // It grows over what is decompressed, without being zeroed first.
        let mut raw = Vec::with_capacity(raw_len);
        if self.decompress(key, number, sealed, &mut raw, &what)? == raw_len {
            Ok(raw)
        } else {
            Err(other_len(number, what()))
        }
    }

    /// As [`SegmentReader::open`], into a buffer of the blocks' total length.
    ///
    /// # Errors
    /// [`Error::Damaged`], naming `what`.
    pub fn open_into(
        &mut self,
        key: &ObjectKey,
        number: usize,
        codec: Codec,
        sealed: &[u8],
        raw: &mut [u8],
        what: impl Fn() -> String,
    ) -> Result<()> {
        let is_len = match codec {
            Codec::Stored => {
                let is_len = raw.len() == sealed.len().saturating_sub(TAG_LEN);
                if is_len && !key.open_into(nonce_of_segment(number), sealed, raw) {
                    return Err(fails_authentication(number, what()));
                }
                is_len
            }
            Codec::Zstd => self.decompress(key, number, sealed, raw, &what)? == raw.len(),
        };
        if is_len {
            Ok(())
        } else {
            Err(other_len(number, what()))
        }
    }

    /// Decrypts and decompresses a segment; returns how many bytes it has.
    fn decompress<B: zstd::zstd_safe::WriteBuf + ?Sized>(
        &mut self,
        key: &ObjectKey,
        number: usize,
        sealed: &[u8],
        raw: &mut B,
        what: &impl Fn() -> String,
    ) -> Result<usize> {
        self.compressed
            .resize(sealed.len().saturating_sub(TAG_LEN), 0);
        if !key.open_into(nonce_of_segment(number), sealed, &mut self.compressed) {
            return Err(fails_authentication(number, what()));
        }
        let not_zstd = |error| {
            Error::damaged(
                what(),
                format!("segment {number} cannot be decompressed: {error}"),
            )
        };
        let decompressor = decompressor(&mut self.decompressor).map_err(not_zstd)?;
        decompressor
            .decompress_to_buffer(&self.compressed, raw)
            .map_err(not_zstd)
    }

    /// Decompresses the bytes of a segment that is not sealed; returns how many there are.
    ///
    /// # Errors
    /// When they are not compressed, or more than `raw` takes.
    pub fn decompress_into(&mut self, encoded: &[u8], raw: &mut [u8]) -> io::Result<usize> {
        decompressor(&mut self.decompressor)?.decompress_to_buffer(encoded, raw)
    }
}

/// The decompressor, made when it is first used.
fn decompressor<'a>(
    made: &'a mut Option<Decompressor<'static>>,
) -> io::Result<&'a mut Decompressor<'static>> {
    Ok(match made {
        Some(decompressor) => decompressor,
        none => none.insert(Decompressor::new()?),
    })
}

fn fails_authentication(number: usize, what: String) -> Error {
    Error::damaged(what, format!("segment {number} fails authentication"))
}

fn other_len(number: usize, what: String) -> Error {
    Error::damaged(
        what,
        format!("segment {number} has another length than its blocks"),
    )
}

/// Most footers are shorter: one with a hundred and thirty blocks, as a pack of 128 KiB blocks has,
/// takes 5 KiB.
const FOOTER_GUESS: u64 = 16 << 10;

const NONCE_OF_FOOTER: u64 = 0;

fn nonce_of_segment(number: usize) -> u64 {
    number as u64 + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::MasterKey;
    use crate::key::Unwrapped;

    /// A key seals each part of a pack under a nonce of its own: two parts under one would tell
    /// their sum.
    #[test]
    fn segments_have_nonces_of_their_own() {
        let keys = Keyring::new(Unwrapped::Master(MasterKey::random()), false);
        let mut pack = PackWriter::new(&keys, BlockKind::Data, vec![1, 2, 3]);
        assert!(pack.is_empty());
        let (data, parts) = ([0x5a; 200], 5);
        for number in 0..parts {
            assert_eq!((pack.blocks(), pack.is_empty()), (2 * number, number == 0));
            assert_eq!(pack.len(), HEADER_LEN + number * 216);
            let block = |place| (Id([2 * number as u8 + place; 32]), 100);
            pack.push(Codec::Stored, &data, vec![block(0), block(1)]);
        }
        assert_eq!((pack.blocks(), pack.is_empty()), (2 * parts, false));
        let key = pack.key().clone();
        let (bytes, contents) = pack.finish();
        let sealed = |number: usize| &bytes[HEADER_LEN + number * 216..][..216];
        for number in 0..parts {
            for other in 0..number {
                assert_ne!(sealed(number), sealed(other), "{number} and {other}");
            }
            for nonce in 0..=parts as u64 + 1 {
                let opened = key.open(nonce, &mut sealed(number).to_vec()).is_some();
                assert_eq!(opened, nonce == number as u64 + 1, "{number} under {nonce}");
            }
        }
        assert_eq!(read_contents(&keys, &bytes, "it").unwrap(), contents);
    }

    /// A pack is closed by the segment with which it is full, so it never moves while it grows.
    #[test]
    fn a_new_pack_has_room_for_all_that_it_takes() {
        let keys = Keyring::new(Unwrapped::Master(MasterKey::random()), false);
        let pack = PackWriter::new(&keys, BlockKind::Data, Vec::new());
        assert!(pack.bytes.capacity() >= PACK_LEN + 2 * SEGMENT_LEN);
    }
}
