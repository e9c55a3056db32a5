//! The instruction sets: one file each. A file implements [`BlockVector`](super::block::BlockVector) for its
//! registers and lists its kernels.

#[cfg(target_arch = "x86_64")]
pub(super) mod aesni;
pub(super) mod portable;
#[cfg(target_arch = "x86_64")]
pub(super) mod vaes;
#[cfg(target_arch = "x86_64")]
pub(super) mod vaes256;

use super::Block;
use super::key::Key;
use super::lanes::{EncryptLanes, LaneSet, OneKey, OwnKeys};

/// What a backend can do. All these functions are unsafe to call because the processor must have the instruction set.
/// Data are whole blocks.
pub(super) struct Kernels {
    /// Fills in the round keys.
    pub(super) expand: unsafe fn(key: &mut Key, bytes: &[u8]),
    pub(super) ecb_encrypt: unsafe fn(key: &Key, data: &mut [u8]),
    pub(super) ecb_decrypt: unsafe fn(key: &Key, data: &mut [u8]),
    pub(super) cbc_decrypt: unsafe fn(key: &Key, iv: &Block, data: &mut [u8]),
    pub(super) ctr: unsafe fn(key: &Key, first: u128, data: &mut [u8]),
    /// Ways of CBC encryption, the one with the fewest lanes first.
    pub(super) engines: &'static [Engine],
}

/// CBC encryption of a number of messages at once.
pub(super) struct Engine {
    pub(super) lanes: usize,
    pub(super) one_key: for<'k> unsafe fn(&mut LaneSet, &OneKey<'k>, usize, usize),
    pub(super) own_keys: EncryptLanes<OwnKeys>,
}

/// The [`Kernels`] of a backend: attributes for its functions, the register and how many of them for the modes in which
/// one message fills all, the registers and how many of them for CBC encryption.
macro_rules! kernels {
    (
        # $attribute:tt
        one: $register:ty, $registers:literal;
        many: $($lane_register:ty, $lane_registers:literal);+;
    ) => {
        pub(in super::super) static KERNELS: $crate::aes::arch::Kernels = {
            use $crate::aes::Block;
            use $crate::aes::arch::{Engine, Kernels};
            use $crate::aes::block::BlockVector;
            use $crate::aes::cipher::SameKey;
            use $crate::aes::key::{self, Key};
            use $crate::aes::lanes::{LaneSet, OneKey, OwnKeys, encrypt_lanes};
            use $crate::aes::modes::{CbcDecrypt, Counter, EcbDecrypt, EcbEncrypt, run};

            #$attribute
            unsafe fn expand(key: &mut Key, bytes: &[u8]) {
                // SAFETY: the caller promises the instruction set.
                unsafe { key::expand::<$register>(key, bytes) }
            }
            #$attribute
            unsafe fn ecb_encrypt(key: &Key, data: &mut [u8]) {
                // SAFETY: the caller promises the instruction set.
                unsafe { run::<$register, $registers>(&mut EcbEncrypt::new(key), data) }
            }
            #$attribute
            unsafe fn ecb_decrypt(key: &Key, data: &mut [u8]) {
                // SAFETY: the caller promises the instruction set.
                unsafe { run::<$register, $registers>(&mut EcbDecrypt::new(key), data) }
            }
            #$attribute
            unsafe fn cbc_decrypt(key: &Key, iv: &Block, data: &mut [u8]) {
                // SAFETY: the caller promises the instruction set.
                unsafe { run::<$register, $registers>(&mut CbcDecrypt::new(key, iv), data) }
            }
            #$attribute
            unsafe fn ctr(key: &Key, first: u128, data: &mut [u8]) {
                // SAFETY: the caller promises the instruction set.
                unsafe { run::<$register, $registers>(&mut Counter::new(key, first), data) }
            }
            Kernels {
                expand,
                ecb_encrypt,
                ecb_decrypt,
                cbc_decrypt,
                ctr,
                engines: &[$({
                    #$attribute
                    unsafe fn one_key(set: &mut LaneSet, key: &OneKey, rounds: usize, blocks: usize) {
                        // SAFETY: the caller's promise.
                        unsafe {
                            let keys = SameKey::new(&key.0.encrypt.0);
                            encrypt_lanes::<$lane_register, $lane_registers>(set, &keys, rounds, blocks);
                        }
                    }
                    #$attribute
                    unsafe fn own_keys(set: &mut LaneSet, keys: &OwnKeys, rounds: usize, blocks: usize) {
                        // SAFETY: the caller's promise.
                        unsafe { encrypt_lanes::<$lane_register, $lane_registers>(set, &keys, rounds, blocks) }
                    }
                    Engine {
                        lanes: $lane_registers * <$lane_register>::BLOCKS,
                        one_key,
                        own_keys,
                    }
                }),+],
            }
        };
    };
}
use kernels;
