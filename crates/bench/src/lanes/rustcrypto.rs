//! What the RustCrypto crates do, one message after the other.

use std::hint::black_box;

use aes::{Aes128, Aes192, Aes256};
use cbc::Encryptor;
use cbc::cipher::{
    BlockCipherEncrypt, BlockModeEncrypt, KeyInit, KeyIvInit, block_padding::NoPadding,
};
use sha1::Digest;
use tabane_lanes::Algorithm;

/// Hashes a message.
pub fn hash(algorithm: Algorithm, message: &[u8]) {
    fn digest<D: Digest>(message: &[u8]) {
        black_box(D::digest(message));
    }
    match algorithm {
        Algorithm::Md5 => digest::<md5::Md5>(message),
        Algorithm::Sha1 => digest::<sha1::Sha1>(message),
        Algorithm::Sha224 => digest::<sha2::Sha224>(message),
        Algorithm::Sha256 => digest::<sha2::Sha256>(message),
        Algorithm::Sha384 => digest::<sha2::Sha384>(message),
        Algorithm::Sha512 => digest::<sha2::Sha512>(message),
        other => unreachable!("{other} has a line here"),
    }
}

/// Encrypts a message of whole blocks in CBC mode, in place.
pub fn cbc_encrypt(key: &[u8], message: &mut [u8]) {
    fn encrypt<C: BlockCipherEncrypt + KeyInit>(key: &[u8], message: &mut [u8]) {
        let cipher = Encryptor::<C>::new_from_slices(key, &[0; 16]).expect("lengths of AES");
        let len = message.len();
        cipher
            .encrypt_padded::<NoPadding>(message, len)
            .expect("whole blocks");
    }
    match key.len() {
        16 => encrypt::<Aes128>(key, message),
        24 => encrypt::<Aes192>(key, message),
        _ => encrypt::<Aes256>(key, message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encrypts() {
        let mut message = [0; 32];
        cbc_encrypt(&[0; 16], &mut message);
        assert_eq!(message[..4], [0x66, 0xe9, 0x4b, 0xd4]);
    }
}
