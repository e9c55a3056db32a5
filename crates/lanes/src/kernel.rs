//! The interface of an algorithm's kernel.

use crate::registers::Registers;
use crate::vector::{Next, Vector, Word};

/// The largest block of an algorithm, in bytes.
pub(crate) const BLOCK_BYTES_MAX: usize = 128;

/// A hash of the Merkle–Damgård kind: blocks of 16 words, and the message's length in two words at
/// the end.
pub(crate) trait Kernel: 'static {
    /// What it computes with.
    type Word: Registers;
    /// The state before the first block.
    const INITIAL: &'static [Self::Word];
    /// Bytes in a digest: the state, or its beginning.
    const DIGEST_LEN: usize;
    /// Whether words and the length are stored most significant byte first.
    const BIG_ENDIAN: bool;
    /// Whether a step is so short, and the state so small, that three or four registers side by
    /// side hide the latency better than two.
    const SHORT: bool = false;
    /// Whether two registers of AVX-512 side by side are faster than one. SHA-256 in two was 1.15
    /// times as fast on Zen 5, or half as fast: that hung on the pages of memory in which the
    /// program's file happened to lie.
    const PAIRED: bool = Self::SHORT;
    /// Bytes in a block.
    const BLOCK: usize = 16 * <Self::Word as Word>::BYTES;

    /// Adds one block of each lane to the state, `INITIAL.len()` elements. Calls [`Next::load`]
    /// once for every part of as many parts as it likes. What becomes of `block` is its own affair.
    fn compress<V: Vector<Word = Self::Word>>(
        state: &mut [V],
        block: &mut [V; 16],
        next: Next<'_, V>,
    );
}
