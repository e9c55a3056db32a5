//! The instruction sets: one file each. A file implements
//! [`BlockVector`](super::block::BlockVector) for its registers and lists its kernels.

#[cfg(target_arch = "x86_64")]
mod aesni;
#[cfg(target_arch = "aarch64")]
mod armce;
mod portable;
#[cfg(target_arch = "x86_64")]
mod register;
#[cfg(target_arch = "x86_64")]
mod vaes;
#[cfg(target_arch = "x86_64")]
mod vaes256;

use super::backend::Backend;
use super::kernels::Kernels;

impl Backend {
    /// The kernels of the backend.
    pub(super) fn kernels(self) -> &'static Kernels {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::AesNi => &aesni::KERNELS,
            #[cfg(target_arch = "x86_64")]
            Self::Vaes256 => &vaes256::KERNELS,
            #[cfg(target_arch = "x86_64")]
            Self::Vaes => &vaes::KERNELS,
            #[cfg(target_arch = "aarch64")]
            Self::ArmCe => &armce::KERNELS,
            _ => &portable::KERNELS,
        }
    }
}

/// The [`Kernels`] of a backend: attributes for its functions, the register and how many of them
/// for the modes in which one message fills all, the registers and how many of them for CBC
/// encryption.
macro_rules! kernels {
    (
        # $attribute:tt
        backend: $backend:ident;
        single: $single:ty;
        one: $register:ty, $registers:literal;
        many: $($lane_register:ty, $lane_registers:literal);+;
    ) => {
        pub(super) static KERNELS: $crate::aes::kernels::Kernels = {
            use $crate::aes::block::{Block, BlockVector};
            use $crate::aes::cipher::SameKey;
            use $crate::aes::ghash;
            use $crate::aes::in_out::Blocks;
            use $crate::aes::kernels::{CbcKernel, Kernels};
            use $crate::aes::key::{self, Key};
            use $crate::aes::lane_keys::{LaneSet, OneKey, OwnKeys};
            use $crate::aes::lanes::encrypt_lanes;
            use $crate::aes::modes::{CbcDecrypt, Counter, EcbDecrypt, EcbEncrypt, FEW_BLOCKS_MAX,
                chain, run, run_few};
            use $crate::aes::powers::Powers;

            /// All of a message. A block alone is sooner ready in a register of its own.
            macro_rules! all {
                ($mode:ident $args:tt, $data:ident) => {
                    if <$single>::BLOCKS == 1 && $data.count == 1 {
                        run::<$single, 1>(&mut $mode::new $args, $data)
                    } else {
                        run::<$register, $registers>(&mut $mode::new $args, $data)
                    }
                };
            }

            /// As `all`, but a few blocks get one register each: for modes without other costly
            /// work.
            macro_rules! few_or_all {
                ($mode:ident $args:tt, $data:ident) => {
                    if <$single>::BLOCKS == 1 && $data.count <= FEW_BLOCKS_MAX {
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
            unsafe fn gcm_encrypt(key: &Key, powers: &Powers, first: u128, sum: &mut u128,
                data: Blocks) {
                // SAFETY: the caller promises the instruction set.
                unsafe { ghash::crypt::<$register, $registers, true>(key, powers, first, sum,
                    data) }
            }
            #$attribute
            unsafe fn gcm_decrypt(key: &Key, powers: &Powers, first: u128, sum: &mut u128,
                data: Blocks) {
                // SAFETY: the caller promises the instruction set.
                unsafe { ghash::crypt::<$register, $registers, false>(key, powers, first, sum,
                    data) }
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
                backend: $crate::aes::backend::Backend::$backend,
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
                    unsafe fn one_key<const ROUNDS: usize>(set: &mut LaneSet, key: &OneKey,
                        chunks: usize) {
                        // SAFETY: what the caller promises is what the callee asks for, with the
                        // same instruction set.
                        unsafe {
                            let keys = &SameKey::new(&key.0.encrypt.0);
                            encrypt_lanes::<$lane_register, $lane_registers, ROUNDS>(set, keys,
                                chunks);
                        }
                    }
                    #$attribute
                    unsafe fn own_keys<const ROUNDS: usize>(set: &mut LaneSet, keys: &OwnKeys,
                        chunks: usize) {
                        // SAFETY: what the caller promises is what the callee asks for, with the
                        // same instruction set.
                        unsafe { encrypt_lanes::<$lane_register, $lane_registers, ROUNDS>(set,
                            keys, chunks) }
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
