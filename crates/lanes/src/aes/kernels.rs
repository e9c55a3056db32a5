//! The functions of an instruction set, as a table.

use super::backend::Backend;
use super::block::Block;
use super::in_out::Blocks;
use super::key::Key;
use super::lane_keys::{EncryptLanes, LaneSet, OneKey, OwnKeys};
use super::powers::Powers;

/// The functions of a backend. All are unsafe to call because the processor must have the
/// instruction set.
pub(super) struct Kernels {
    /// The backend of these kernels.
    pub(super) backend: Backend,
    /// Fills in the round keys of encryption.
    pub(super) expand: unsafe fn(key: &mut Key, bytes: &[u8]),
    /// Fills in those of decryption, which follow from them.
    pub(super) invert: unsafe fn(key: &mut Key),
    pub(super) ecb_encrypt: unsafe fn(key: &Key, data: Blocks),
    pub(super) ecb_decrypt: unsafe fn(key: &Key, data: Blocks),
    pub(super) cbc_decrypt: unsafe fn(key: &Key, iv: &Block, data: Blocks),
    pub(super) ctr: unsafe fn(key: &Key, first: u128, data: Blocks),
    /// Encrypts from the counter block `first` on, and adds the ciphertext to `sum`.
    pub(super) gcm_encrypt:
        unsafe fn(key: &Key, powers: &Powers, first: u128, sum: &mut u128, data: Blocks),
    /// Adds the ciphertext to `sum` and decrypts it.
    pub(super) gcm_decrypt:
        unsafe fn(key: &Key, powers: &Powers, first: u128, sum: &mut u128, data: Blocks),
    /// Fills in the powers of the hash key.
    pub(super) powers: unsafe fn(powers: &mut Powers, hash_key: &Block),
    /// Adds blocks to `sum`.
    pub(super) ghash: unsafe fn(powers: &Powers, sum: &mut u128, data: &[Block]),
    /// Encrypts one message. Leaves the last block of ciphertext in `iv`.
    pub(super) cbc_encrypt: unsafe fn(key: &Key, iv: &mut Block, data: Blocks),
    /// Ways of CBC encryption of many messages, the one with the fewest lanes first.
    pub(super) cbc_kernels: &'static [CbcKernel],
}

impl Kernels {
    /// The kernel with the fewest lanes of at least `lanes`, or else the one with the most.
    pub(super) fn cbc_kernel(&self, lanes: usize) -> &CbcKernel {
        let enough = self.cbc_kernels.iter().find(|kernel| kernel.lanes >= lanes);
        enough.unwrap_or(&self.cbc_kernels[self.cbc_kernels.len() - 1])
    }
}

/// CBC encryption of a number of messages at once.
pub(super) struct CbcKernel {
    pub(super) lanes: usize,
    /// For 10, 12 and 14 rounds.
    pub(super) one_key: [for<'k> unsafe fn(&mut LaneSet, &OneKey<'k>, usize); 3],
    pub(super) own_keys: [EncryptLanes<OwnKeys>; 3],
}
