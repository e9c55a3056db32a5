//! Decodes a whole pack as its readers will, and compares every block with its digest.

use crate::access::repository::Repository;
use crate::error::{Error, Result};
use crate::format::crypto::HEADER_LEN;
use crate::format::pack::{self, PackContents, SegmentReader};
use tabane_storage::Id;
use tabane_storage::ObjectKind;

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
        let master = repository.master();
        if pack::read_contents(master, bytes, what)? != *expected {
            let why = "its footer is not what the index says";
            return Err(Error::damaged(what, why));
        }
        let key = master.object_key(ObjectKind::Pack, &expected.salt);
        let mut rest = &bytes[HEADER_LEN..];
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
                .open_into(&key, number, segment.codec, sealed, raw, name);
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
