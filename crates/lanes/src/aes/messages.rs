//! Messages of whole blocks, each in one call.

use super::block::BLOCK;
use super::error::Error;
use super::in_out::InOut;
use super::key::Key;

/// Encrypts one message in CBC mode. `iv` becomes the last block of ciphertext, with which a next
/// call goes on with the same message. For several messages,
/// [`cbc_encrypt_many`](super::cbc_encrypt_many) is much faster.
///
/// # Errors
///
/// [`Error::DataLength`] if `data` is not a multiple of 16 bytes long. Then nothing is encrypted.
#[inline]
pub fn cbc_encrypt<'a>(
    key: &Key,
    iv: &mut [u8; BLOCK],
    data: impl Into<InOut<'a>>,
) -> Result<(), Error> {
    let mut data = data.into();
    let blocks = data.whole_blocks()?;
    // SAFETY: a key's backend is available.
    unsafe { (key.kernels().cbc_encrypt)(key, iv, blocks) };
    Ok(())
}

/// Decrypts one message in CBC mode. `iv` becomes the last block of ciphertext, with which a next
/// call goes on with the same message.
///
/// # Errors
///
/// [`Error::DataLength`] if `data` is not a multiple of 16 bytes long. Then nothing is decrypted.
#[inline]
pub fn cbc_decrypt<'a>(
    key: &Key,
    iv: &mut [u8; BLOCK],
    data: impl Into<InOut<'a>>,
) -> Result<(), Error> {
    let mut data = data.into();
    let blocks = data.whole_blocks()?;
    if let Some(last) = data.last_block() {
        // SAFETY: a key's backend is available.
        unsafe { (key.kernels().cbc_decrypt)(key, iv, blocks) };
        *iv = last;
    }
    Ok(())
}

/// Encrypts or decrypts one message in CTR mode, starting at the counter block `counter`, which
/// becomes the one behind the last. [`Ctr`](super::Ctr) takes pieces of any length.
///
/// # Errors
///
/// [`Error::DataLength`] if `data` is not a multiple of 16 bytes long. Then nothing is done.
#[inline]
pub fn ctr<'a>(
    key: &Key,
    counter: &mut [u8; BLOCK],
    data: impl Into<InOut<'a>>,
) -> Result<(), Error> {
    let mut data = data.into();
    let blocks = data.whole_blocks()?;
    let first = u128::from_be_bytes(*counter);
    // SAFETY: a key's backend is available.
    unsafe { (key.kernels().ctr)(key, first, blocks) };
    *counter = first.wrapping_add(blocks.count as u128).to_be_bytes();
    Ok(())
}

/// Encrypts each block of `data` by itself. Equal blocks stay equal: a building block, not a way to
/// encrypt messages.
///
/// # Errors
///
/// [`Error::DataLength`] if `data` is not a multiple of 16 bytes long. Then nothing is encrypted.
#[inline]
pub fn ecb_encrypt<'a>(key: &Key, data: impl Into<InOut<'a>>) -> Result<(), Error> {
    let mut data = data.into();
    let blocks = data.whole_blocks()?;
    // SAFETY: a key's backend is available.
    unsafe { (key.kernels().ecb_encrypt)(key, blocks) };
    Ok(())
}

/// Decrypts each block of `data` by itself.
///
/// # Errors
///
/// [`Error::DataLength`] if `data` is not a multiple of 16 bytes long. Then nothing is decrypted.
#[inline]
pub fn ecb_decrypt<'a>(key: &Key, data: impl Into<InOut<'a>>) -> Result<(), Error> {
    let mut data = data.into();
    let blocks = data.whole_blocks()?;
    // SAFETY: a key's backend is available.
    unsafe { (key.kernels().ecb_decrypt)(key, blocks) };
    Ok(())
}
