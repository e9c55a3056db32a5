//! Known answers, which a card must give before it is trusted.

use crate::aes::{Aes, Design, Mode};
use crate::algorithm::Algorithm;
use crate::card::Card;
use crate::error::Error;

/// Digests of "", "abc" and a thousand times "a", as published or by OpenSSL.
const DIGESTS: [(Algorithm, [&str; 3]); 3] = [
    (
        Algorithm::Md5,
        [
            "d41d8cd98f00b204e9800998ecf8427e",
            "900150983cd24fb0d6963f7d28e17f72",
            "cabe45dcc9ae5b66ba86600cca6b8ba8",
        ],
    ),
    (
        Algorithm::Sha1,
        [
            "da39a3ee5e6b4b0d3255bfef95601890afd80709",
            "a9993e364706816aba3e25717850c26c9cd0d89d",
            "291e9a6c66994949b57ba5e650361e98fc36b1ba",
        ],
    ),
    (
        Algorithm::Sha256,
        [
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3",
        ],
    ),
];

/// Hashes known messages.
pub(crate) fn hashes(card: &Card) -> Result<(), Error> {
    for (algorithm, digests) in DIGESTS {
        let messages = [&b""[..], b"abc", &[b'a'; 1000]];
        if hex(&card.hash_many(algorithm, &messages)?) != digests.concat() {
            return Err(Error::WrongAnswer(algorithm.name()));
        }
    }
    Ok(())
}

/// NIST SP 800-38A, F.1.1 to F.5.6: key of so many bits, mode, design, the second block of the
/// ciphertext.
const CIPHERTEXTS: [(usize, Mode, &str); 6] = [
    (128, Mode::EcbEncrypt, "f5d3d58503b9699de785895a96fdbaaf"),
    (256, Mode::EcbEncrypt, "591ccb10d410ed26dc5ba74a31362870"),
    (128, Mode::CbcEncrypt, "5086cb9b507219ee95db113a917678b2"),
    (256, Mode::CbcEncrypt, "9cfc4e967edb808d679f777bc6702c7d"),
    (128, Mode::Ctr, "9806f66b7970fdff8617187bb9fffdff"),
    (256, Mode::Ctr, "f443e3ca4d62b59aca84e990cacaf5c5"),
];

/// The standard's first two blocks of plaintext.
const PLAINTEXT: &str = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51";

/// Encrypts what the standard does, by every design, and decrypts it.
pub(crate) fn ciphers(card: &Card) -> Result<(), Error> {
    let plaintext = bytes(PLAINTEXT);
    for (bits, mode, expected) in CIPHERTEXTS {
        let key = match bits {
            128 => "2b7e151628aed2a6abf7158809cf4f3c",
            _ => "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
        };
        let vector = match mode {
            Mode::Ctr => "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
            _ => "000102030405060708090a0b0c0d0e0f",
        };
        let vector: [u8; 16] = bytes(vector).try_into().expect("16 bytes");
        let key = Aes::unchecked(card, &bytes(key))?;
        for design in [Design::Tables, Design::Bits] {
            let mut data = plaintext.clone();
            key.crypt_many_by(design, mode, &mut [(vector, &mut data)])?;
            if hex(&data[16..]) != expected {
                return Err(Error::WrongAnswer("AES"));
            }
            let back = match mode {
                Mode::EcbEncrypt => Mode::EcbDecrypt,
                Mode::CbcEncrypt => Mode::CbcDecrypt,
                other => other,
            };
            key.crypt_many_by(design, back, &mut [(vector, &mut data)])?;
            if data != plaintext {
                return Err(Error::WrongAnswer("AES"));
            }
        }
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |i| u8::from_str_radix(&hex[i..i + 2], 16).expect("a constant");
    (0..hex.len()).step_by(2).map(byte).collect()
}
