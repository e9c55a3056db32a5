//! Decodes a whole pack as its readers will, and compares what it holds with digests or checksums.

use tabane_engine::{Algorithm, Digest, Hasher};

use crate::access::repository::Repository;
use tabane_format::crypto::{ObjectKey, TAG_LEN};
use tabane_format::pack::{self, Codec, PackContents, SegmentReader};
use tabane_format::{Error, Result};
use tabane_storage::Id;

/// Decoded bytes whose blocks are hashed together.
const BATCH_LEN: usize = 4 << 20;

/// Examines packs, one at a time, with reused buffers.
#[derive(Default)]
pub struct Examiner {
    segments: SegmentReader,
    /// Consecutive decoded segments.
    decoded: Vec<u8>,
}

impl Examiner {
    /// Compares the bytes of a pack with what it should hold; `what` names it in errors.
    ///
    /// Its header, segments, footer and their lengths are all authenticated, so no byte can differ.
    /// Damage of a segment or block is reported to `problem`, with the blocks that it loses.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the pack cannot be decoded at all.
    pub fn examine(
        &mut self,
        repository: &Repository,
        bytes: &[u8],
        expected: &PackContents,
        what: &str,
        mut problem: impl FnMut(Error, &[(Id, u32)]),
    ) -> Result<()> {
        let key = &repository.keys().pack_key(bytes, what)?;
        if pack::read_contents_with(key, bytes, what)? != *expected {
            let why = "its footer is not what the index says";
            return Err(Error::damaged(what, why));
        }
        let mut rest = &bytes[expected.kind.head_len()..];
        let (mut batch, mut batch_len) = (Vec::new(), 0);
        for (number, segment) in expected.segments.iter().enumerate() {
            let sealed = rest
                .split_off(..segment.stored_len as usize)
                .expect("the footer fits the body");
            let end = batch_len + segment.raw_len();
            if self.decoded.len() < end {
                self.decoded.resize(end, 0);
            }
            let raw = &mut self.decoded[batch_len..end];
            let name = || what.to_owned();
            let opened = self
                .segments
                .open_into(key, number, segment.codec, sealed, raw, name);
            match opened {
                Ok(()) => {
                    batch.extend(&segment.blocks);
                    batch_len = end;
                }
                Err(error) => problem(error, &segment.blocks),
            }
            if batch_len >= BATCH_LEN || number + 1 == expected.segments.len() {
                compare_digests(repository, &self.decoded, &batch, what, &mut problem);
                batch.clear();
                batch_len = 0;
            }
        }
        Ok(())
    }

    /// Decodes a segment that has just been encoded and compares it with the checksum of its
    /// blocks; returns the digest of the encoded bytes, for [`Examiner::verify_pack`].
    ///
    /// # Errors
    /// The reason why the segment would not be read as it came in.
    pub fn verify_segment(
        &mut self,
        codec: Codec,
        encoded: &[u8],
        raw_len: usize,
        checksum: &Checksum,
    ) -> std::result::Result<Digest, String> {
        // Made first: bytes that change after this are found in the pack.
        let digest = Algorithm::Xxh3.digest(encoded);
        let fits = match codec {
            Codec::Stored => checksum.is(&digest),
            Codec::Zstd => {
                // Of the same length as the one before, mostly, so that nothing is cleared.
                self.decoded.resize(raw_len, 0);
                let len = self.segments.decompress_into(encoded, &mut self.decoded);
                let len =
                    len.map_err(|error| format!("a segment cannot be decompressed: {error}"))?;
                len == raw_len && checksum.is(&Algorithm::Xxh3.digest(&self.decoded))
            }
        };
        if fits {
            Ok(digest)
        } else {
            Err("a segment does not match its checksum".to_owned())
        }
    }

    /// Compares the bytes of a pack, whose key is `key`, with what it should hold: `contents`, and
    /// encoded segments with these digests.
    ///
    /// # Errors
    /// The reason why the pack would not be read as it was written.
    pub fn verify_pack(
        &mut self,
        key: &ObjectKey,
        bytes: &[u8],
        contents: &PackContents,
        digests: &[Digest],
    ) -> std::result::Result<(), String> {
        let why = |error: Error| match error {
            Error::Damaged { why, .. } => why,
            error => error.to_string(),
        };
        if pack::read_contents_with(key, bytes, "it").map_err(why)? != *contents {
            return Err("its footer is not what was written".to_owned());
        }
        let mut rest = &bytes[contents.kind.head_len()..];
        for (number, segment) in contents.segments.iter().enumerate() {
            let (sealed, behind) = rest.split_at(segment.stored_len as usize);
            rest = behind;
            self.decoded.resize(sealed.len() - TAG_LEN, 0);
            let encoded = &mut self.decoded[..];
            let opened =
                self.segments
                    .open_into(key, number, Codec::Stored, sealed, encoded, String::new);
            opened.map_err(why)?;
            if Algorithm::Xxh3.digest(&self.decoded) != digests[number] {
                return Err(format!("segment {number} does not match its digest"));
            }
        }
        Ok(())
    }
}

/// Checksums of the segments of a pack, made while their blocks came in.
///
/// They find accidents, as digests do, in a tenth of the time.
pub struct Checksum(Hasher);

impl Default for Checksum {
    fn default() -> Self {
        Self(Hasher::new(Algorithm::Xxh3))
    }
}

impl Checksum {
    /// Adds a block.
    pub fn add(&mut self, block: &[u8]) {
        self.0.update(block);
    }

    /// Whether these are the bytes of all blocks.
    pub fn fits(&self, raw: &[u8]) -> bool {
        self.is(&Algorithm::Xxh3.digest(raw))
    }

    fn is(&self, digest: &Digest) -> bool {
        self.0.finish() == *digest
    }
}

/// Hashes the blocks at the beginning of `decoded`.
fn compare_digests(
    repository: &Repository,
    mut decoded: &[u8],
    blocks: &[&(Id, u32)],
    what: &str,
    problem: &mut impl FnMut(Error, &[(Id, u32)]),
) {
    let messages = blocks.iter().map(|block| {
        let message = decoded.split_off(..block.1 as usize);
        message.expect("as long as its blocks")
    });
    let messages: Vec<&[u8]> = messages.collect();
    let digests = repository.config().hash.digest_many(&messages);
    for (block, digest) in blocks.iter().zip(&digests) {
        if !repository.is_block(&block.0, digest) {
            let why = format!("block {} does not match its digest", block.0);
            problem(Error::damaged(what, why), std::slice::from_ref(block));
        }
    }
}
