//! The instruction sets: one file each. A file implements [`BlockVector`](super::block::BlockVector) for its
//! registers and lists its kernels.

#[cfg(target_arch = "x86_64")]
pub(super) mod aesni;
pub(super) mod portable;
#[cfg(target_arch = "x86_64")]
mod register;
#[cfg(target_arch = "x86_64")]
pub(super) mod vaes;
#[cfg(target_arch = "x86_64")]
pub(super) mod vaes256;

use super::ghash::Powers;
use super::in_out::Blocks;
use super::key::Key;
use super::lanes::{EncryptLanes, LaneSet, OneKey, OwnKeys};
use super::{Backend, Block};

/// What a backend can do. All these functions are unsafe to call because the processor must have the instruction set.
pub(super) struct Kernels {
    /// Whose they are.
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
    /// One message. Leaves the last block of ciphertext in `iv`.
    pub(super) cbc_encrypt: unsafe fn(key: &Key, iv: &mut Block, data: Blocks),
    /// Ways of CBC encryption of many messages, the one with the fewest lanes first.
    pub(super) cbc_kernels: &'static [CbcKernel],
}

impl Kernels {
    /// The kernel with the fewest lanes that are enough, or else the one with the most.
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

/// The [`Kernels`] of a backend: attributes for its functions, the register and how many of them for the modes in which
/// one message fills all, the registers and how many of them for CBC encryption.
macro_rules! kernels {
    (
        # $attribute:tt
        backend: $backend:ident;
        single: $single:ty;
        one: $register:ty, $registers:literal;
        many: $($lane_register:ty, $lane_registers:literal);+;
    ) => {
        pub(in super::super) static KERNELS: $crate::aes::arch::Kernels = {
            use $crate::aes::Block;
            use $crate::aes::arch::{CbcKernel, Kernels};
            use $crate::aes::block::BlockVector;
            use $crate::aes::cipher::SameKey;
            use $crate::aes::ghash::{self, Powers};
            use $crate::aes::in_out::Blocks;
            use $crate::aes::key::{self, Key};
            use $crate::aes::lanes::{LaneSet, OneKey, OwnKeys, encrypt_lanes};
            use $crate::aes::modes::{CbcDecrypt, Counter, EcbDecrypt, EcbEncrypt, FEW_BLOCKS_MAX, chain, run, run_few};

            /// All of a message. A block alone is sooner ready in a register of its own.
            macro_rules! all {
                ($mode:ident $args:tt, $data:ident) => {
                    if $data.count == 1 {
                        run::<$single, 1>(&mut $mode::new $args, $data)
                    } else {
                        run::<$register, $registers>(&mut $mode::new $args, $data)
                    }
                };
            }

            /// As `all` with few blocks in registers of their own, for a mode in which nothing else takes time.
            macro_rules! few_or_all {
                ($mode:ident $args:tt, $data:ident) => {
                    if $data.count <= FEW_BLOCKS_MAX {
                        run_few::<$single>(&mut $mode::new $args, $data)
                    } else {
                        run::<$register, $registers>(&mut $mode::new $args, $data)
                    }
                };
            }

            #$attribute
            unsafe fn expand(key: &mut Key, bytes: &[u8]) {
                // SAFETY: the caller promises the instruction set.
                unsafe { key::expand::<$single>(key, bytes) }
            }
            #$attribute
            unsafe fn invert(key: &mut Key) {
                // SAFETY: the caller promises the instruction set.
                unsafe { key::invert::<$single>(key) }
            }
            #$attribute
            unsafe fn ecb_encrypt(key: &Key, data: Blocks) {
                // SAFETY: the caller promises the instruction set.
                unsafe { few_or_all!(EcbEncrypt(key), data) }
            }
            #$attribute
            unsafe fn ecb_decrypt(key: &Key, data: Blocks) {
                // SAFETY: the caller promises the instruction set.
                unsafe { few_or_all!(EcbDecrypt(key), data) }
            }
            #$attribute
            unsafe fn cbc_decrypt(key: &Key, iv: &Block, data: Blocks) {
                // SAFETY: the caller promises the instruction set.
                unsafe { all!(CbcDecrypt(key, iv), data) }
            }
            #$attribute
            unsafe fn ctr(key: &Key, first: u128, data: Blocks) {
                // SAFETY: the caller promises the instruction set.
                unsafe { all!(Counter(key, first), data) }
            }
            #$attribute
            unsafe fn cbc_encrypt(key: &Key, iv: &mut Block, data: Blocks) {
                // SAFETY: the caller promises the instruction set.
                unsafe { chain::<$single>(key, iv, data) }
            }
            #$attribute
            unsafe fn gcm_encrypt(key: &Key, powers: &Powers, first: u128, sum: &mut u128, data: Blocks) {
                // SAFETY: the caller promises the instruction set.
                unsafe { ghash::crypt::<$register, $registers, true>(key, powers, first, sum, data) }
            }
            #$attribute
            unsafe fn gcm_decrypt(key: &Key, powers: &Powers, first: u128, sum: &mut u128, data: Blocks) {
                // SAFETY: the caller promises the instruction set.
                unsafe { ghash::crypt::<$register, $registers, false>(key, powers, first, sum, data) }
            }
            #$attribute
            unsafe fn powers(powers: &mut Powers, hash_key: &Block) {
                // SAFETY: the caller promises the instruction set.
                unsafe { ghash::powers::<$register>(powers, hash_key) }
            }
            #$attribute
            unsafe fn ghash(powers: &Powers, sum: &mut u128, data: &[Block]) {
                // SAFETY: the caller promises the instruction set.
                unsafe { ghash::hash::<$register, $registers>(powers, sum, data) }
            }
            Kernels {
                backend: $crate::aes::Backend::$backend,
                expand,
                invert,
                gcm_encrypt,
                gcm_decrypt,
                powers,
                ghash,
                ecb_encrypt,
                ecb_decrypt,
                cbc_decrypt,
                ctr,
                cbc_encrypt,
                cbc_kernels: &[$({
                    #$attribute
                    unsafe fn one_key<const ROUNDS: usize>(set: &mut LaneSet, key: &OneKey, chunks: usize) {
                        // SAFETY: what the caller promises is what the callee asks for, with the same instruction set.
                        unsafe {
                            let keys = &SameKey::new(&key.0.encrypt.0);
                            encrypt_lanes::<$lane_register, $lane_registers, ROUNDS>(set, keys, chunks);
                        }
                    }
                    #$attribute
                    unsafe fn own_keys<const ROUNDS: usize>(set: &mut LaneSet, keys: &OwnKeys, chunks: usize) {
                        // SAFETY: what the caller promises is what the callee asks for, with the same instruction set.
                        unsafe { encrypt_lanes::<$lane_register, $lane_registers, ROUNDS>(set, keys, chunks) }
                    }
                    CbcKernel {
                        lanes: $lane_registers * <$lane_register>::BLOCKS,
                        one_key: [one_key::<10>, one_key::<12>, one_key::<14>],
                        own_keys: [own_keys::<10>, own_keys::<12>, own_keys::<14>],
                    }
                }),+],
            }
        };
    };
}
use kernels;
