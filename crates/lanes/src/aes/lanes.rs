//! CBC encryption of many messages at once: one message a lane of 128 bits.

use zeroize::Zeroize;

use super::arch::Engine;
use super::block::BlockVector;
use super::cipher::{MAX_ROUND_KEYS, RoundKeys, encrypt_whitened};
use super::key::Key;
use super::{BLOCK, Block};

/// The most lanes of an engine.
pub(super) const MAX_LANES: usize = 48;

/// Where lanes stand.
#[repr(align(64))]
pub(super) struct LaneSet {
    /// The block of ciphertext before the next one.
    pub(super) before: [Block; MAX_LANES],
    /// The next block.
    pub(super) data: [*mut Block; MAX_LANES],
}

/// The keys of lanes.
pub(super) trait LaneKeys {
    /// The engine's function for keys of this kind.
    fn function(engine: &Engine) -> EncryptLanes<Self>;
    /// Gives a lane its message's key.
    fn set(&mut self, lane: usize, key: &Key);
    /// Gives a lane the key of another lane.
    fn copy(&mut self, from: usize, to: usize);
}

/// Encrypts `blocks` blocks of each lane. Does not move [`LaneSet::data`].
///
/// Several lanes may work on the same blocks if they agree in everything: all is read before anything is written.
///
/// # Safety
///
/// The processor has the engine's instruction set, and the pointers of the engine's lanes are each readable and writable
/// for `blocks` blocks. Two messages do not overlap, unless they are the same in everything.
pub(super) type EncryptLanes<K> =
    unsafe fn(set: &mut LaneSet, keys: &K, rounds: usize, blocks: usize);

/// All lanes have the same key.
pub(super) struct OneKey<'k>(pub(super) &'k Key);

impl LaneKeys for OneKey<'_> {
    fn function(engine: &Engine) -> EncryptLanes<Self> {
        engine.one_key
    }
    #[inline]
    fn set(&mut self, _lane: usize, _key: &Key) {}
    #[inline]
    fn copy(&mut self, _from: usize, _to: usize) {}
}

/// Each lane has its key. Overwritten with zeros when dropped.
#[repr(align(64))]
pub(super) struct OwnKeys([[Block; MAX_LANES]; MAX_ROUND_KEYS]);

impl OwnKeys {
    pub(super) fn new() -> Self {
        Self([[[0; BLOCK]; MAX_LANES]; MAX_ROUND_KEYS])
    }
}

impl LaneKeys for OwnKeys {
    fn function(engine: &Engine) -> EncryptLanes<Self> {
        engine.own_keys
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
        self.0.zeroize();
    }
}

impl<V: BlockVector> RoundKeys<V> for &OwnKeys {
    #[inline(always)]
    fn get(&self, round: usize, register: usize) -> V {
        let row = &self.0[round][register * V::BLOCKS..][..V::BLOCKS];
        // SAFETY: there are values of this type where keys are added to them, and the row has BLOCKS blocks.
        unsafe { V::load(row.as_ptr()) }
    }
}

/// The body of every [`EncryptLanes`], with `N * V::BLOCKS` lanes.
///
/// # Safety
///
/// As [`EncryptLanes`].
#[inline(always)]
pub(super) unsafe fn encrypt_lanes<V: BlockVector, const N: usize>(
    set: &mut LaneSet,
    keys: &impl RoundKeys<V>,
    rounds: usize,
    blocks: usize,
) {
    const { assert!(N * V::BLOCKS <= MAX_LANES) };
    let before = set.before.as_mut_ptr();
    let data = set.data.as_ptr();
    // SAFETY: the caller's promise, and there are N * BLOCKS lanes.
    unsafe {
        let mut state = [V::load(before); N];
        for (i, state) in state.iter_mut().enumerate() {
            *state = V::load(before.add(i * V::BLOCKS));
        }
        for block in 0..blocks {
            let offset = block * BLOCK;
            for (i, state) in state.iter_mut().enumerate() {
                let plain = V::gather(data.add(i * V::BLOCKS), offset);
                *state = state.xor3(plain, keys.get(0, i));
            }
            state = encrypt_whitened(state, keys, rounds);
            for (i, state) in state.iter().enumerate() {
                state.scatter(data.add(i * V::BLOCKS), offset);
            }
        }
        for (i, state) in state.iter().enumerate() {
            state.store(before.add(i * V::BLOCKS));
        }
    }
}
