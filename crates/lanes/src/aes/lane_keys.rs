//! Lanes, each with its message, and their keys.

use super::block::{BLOCK, Block, BlockVector};
use super::kernels::CbcKernel;
use super::key::{Key, erase};
use super::round_keys::{ROUND_KEYS_MAX, RoundKeys};

/// The most lanes of a kernel.
pub(super) const LANES_MAX: usize = 48;

/// State of the lanes.
#[repr(align(64))]
pub(super) struct LaneSet {
    /// The block of ciphertext before the next one.
    pub(super) before: [Block; LANES_MAX],
    /// The next block.
    pub(super) data: [*mut Block; LANES_MAX],
}

/// The keys of lanes.
pub(super) trait LaneKeys {
    /// The kernel's function for keys of this kind with `rounds` rounds.
    fn function(kernel: &CbcKernel, rounds: usize) -> EncryptLanes<Self>;
    /// Gives a lane its message's key.
    fn set(&mut self, lane: usize, key: &Key);
    /// Gives a lane the key of another lane.
    fn copy(&mut self, from: usize, to: usize);
}

/// Encrypts `chunks` times four blocks of each lane, at least once. Does not move
/// [`LaneSet::data`].
///
/// Several lanes may work on the same blocks if they agree in everything: all is read before
/// anything is written.
///
/// # Safety
///
/// The processor has the kernel's instruction set, and the pointers of the kernel's lanes are each
/// readable and writable for `chunks` chunks. Two messages do not overlap, unless they are the same
/// in everything.
pub(super) type EncryptLanes<K> = unsafe fn(set: &mut LaneSet, keys: &K, chunks: usize);

/// All lanes have the same key.
pub(super) struct OneKey<'k>(pub(super) &'k Key);

impl LaneKeys for OneKey<'_> {
    fn function(kernel: &CbcKernel, rounds: usize) -> EncryptLanes<Self> {
        kernel.one_key[(rounds - 10) / 2]
    }
    #[inline]
    fn set(&mut self, _lane: usize, _key: &Key) {}
    #[inline]
    fn copy(&mut self, _from: usize, _to: usize) {}
}

/// Each lane has its key. Overwritten with zeros when dropped.
#[repr(align(64))]
pub(super) struct OwnKeys([[Block; LANES_MAX]; ROUND_KEYS_MAX]);

impl OwnKeys {
    pub(super) fn new() -> Self {
        Self([[[0; BLOCK]; LANES_MAX]; ROUND_KEYS_MAX])
    }
}

impl LaneKeys for OwnKeys {
    fn function(kernel: &CbcKernel, rounds: usize) -> EncryptLanes<Self> {
        kernel.own_keys[(rounds - 10) / 2]
    }
    #[inline]
    fn set(&mut self, lane: usize, key: &Key) {
        for (row, block) in self.0.iter_mut().zip(&key.encrypt.0).take(key.rounds + 1) {
            row[lane] = *block;
        }
    }
    #[inline]
    fn copy(&mut self, from: usize, to: usize) {
        for row in &mut self.0 {
            row[to] = row[from];
        }
    }
}

impl Drop for OwnKeys {
    fn drop(&mut self) {
        erase(self.0.as_flattened_mut());
    }
}

impl<V: BlockVector> RoundKeys<V> for OwnKeys {
    #[inline(always)]
    fn again(&self) -> &Self {
        // Else the compiler would take all of them to the stack before it begins, and do the rounds
        // of one register after those of another.
        core::hint::black_box(self)
    }

    #[inline(always)]
    fn get(&self, round: usize, register: usize) -> V {
        let row = &self.0[round][register * V::BLOCKS..][..V::BLOCKS];
        // SAFETY: keys are added to values of this type, so the processor has the instruction set;
        // the row has BLOCKS blocks.
        unsafe { V::load(row.as_ptr()) }
    }
}
