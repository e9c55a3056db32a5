//! The kernels of AES on a card, and the tables that they read.

use std::sync::Arc;

use super::tables::TABLES;
use crate::context::Core;
use crate::error::Error;
use crate::kernel::Kernel;
use crate::memory::DeviceBuffer;

/// Offsets of the tables of each direction, in bytes.
pub(super) const ENCRYPT: u64 = 0;
pub(super) const DECRYPT: u64 = 1024;
pub(super) const INVERSE: u64 = 2048;

/// The kernels, one for each mode and design.
pub(crate) struct Kernels {
    pub(super) ecb_encrypt: Kernel,
    pub(super) ecb_decrypt: Kernel,
    pub(super) ctr: Kernel,
    pub(super) cbc_encrypt: Kernel,
    pub(super) cbc_decrypt: Kernel,
    pub(super) ecb_encrypt_bits: Kernel,
    pub(super) ctr_bits: Kernel,
    /// The columns of a round of encryption, of decryption, and the inverse S-box.
    pub(super) tables: DeviceBuffer,
}

impl Kernels {
    pub(super) fn load(core: &Arc<Core>) -> Result<Self, Error> {
        let module = core.load_module(include_str!("../../ptx/aes.ptx"))?;
        let mut tables = DeviceBuffer::new(core, 2048 + 256)?;
        tables.write(&TABLES.bytes())?;
        Ok(Self {
            ecb_encrypt: module.kernel("aes_ecb_encrypt", 256)?,
            ecb_decrypt: module.kernel("aes_ecb_decrypt", 256)?,
            ctr: module.kernel("aes_ctr", 256)?,
            cbc_encrypt: module.kernel("aes_cbc_encrypt", 256)?,
            cbc_decrypt: module.kernel("aes_cbc_decrypt", 256)?,
            ecb_encrypt_bits: module.kernel("aes_ecb_encrypt_bits", 128)?,
            ctr_bits: module.kernel("aes_ctr_bits", 128)?,
            tables,
        })
    }
}
