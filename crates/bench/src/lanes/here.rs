//! Timing what runs in this process: Tabane and the crates of others.

use std::hint::black_box;

use tabane_bench::data::{cut, cut_mut};
use tabane_bench::peak::work::AesMode;
use tabane_bench::timing::Rate;
use tabane_lanes::aes::{self, CbcJob, Ctr, Key};
use tabane_lanes::{Algorithm, HmacKey, hash_many, hash_many_on, hmac_many};

use super::subject::{Instructions, Subject};
use super::{Program, rustcrypto};

/// The key of all HMACs.
const HMAC_KEY: [u8; 32] = [0x0b; 32];

/// Times the subject on messages of these lengths, which `data` begins with. AES works in place.
pub fn rate(
    subject: Subject,
    program: Program,
    data: &mut [u8],
    lens: &[usize],
    seconds: f64,
) -> Rate {
    let whole_blocks: Vec<usize>;
    let lens = match subject {
        Subject::Aes(..) => {
            whole_blocks = lens
                .iter()
                .map(|len| len / aes::BLOCK * aes::BLOCK)
                .collect();
            &whole_blocks
        }
        _ => lens,
    };
    let bytes = lens.iter().sum();
    match subject {
        Subject::Hash(algorithm) => {
            let messages = cut(data, lens);
            Rate::of(bytes, seconds, || hash(algorithm, program, &messages))
        }
        Subject::Hmac(algorithm) => {
            let messages = cut(data, lens);
            let key = HmacKey::new(algorithm, &HMAC_KEY);
            let messages: Vec<_> = messages
                .into_iter()
                .map(|message| (&key, message))
                .collect();
            Rate::of(bytes, seconds, || {
                black_box(hmac_many(&messages));
            })
        }
        Subject::Aes(mode, key_bits) => {
            let key = &[7; 32][..key_bits / 8];
            let mut messages = cut_mut(data, lens);
            if program == Program::RustCrypto {
                return Rate::of(bytes, seconds, || {
                    for message in &mut messages {
                        rustcrypto::cbc_encrypt(key, message);
                    }
                });
            }
            let key = match program {
                Program::Only(Instructions::Aes(backend)) => Key::new_on(backend, key),
                _ => Key::new(key),
            };
            let key = key.expect("backends that are available, keys of right lengths");
            rate_of_aes(mode, &key, messages, bytes, seconds)
        }
    }
}

fn hash(algorithm: Algorithm, program: Program, messages: &[&[u8]]) {
    match program {
        Program::Only(Instructions::Hash(backend)) => {
            let _ = black_box(hash_many_on(backend, algorithm, messages));
        }
        Program::RustCrypto => {
            for message in messages {
                rustcrypto::hash(algorithm, message);
            }
        }
        Program::Blake3 => {
            for message in messages {
                black_box(blake3::hash(message));
            }
        }
        _ => {
            black_box(hash_many(algorithm, messages));
        }
    }
}

fn rate_of_aes(
    mode: AesMode,
    key: &Key,
    mut messages: Vec<&mut [u8]>,
    bytes: usize,
    seconds: f64,
) -> Rate {
    let mut ivs = vec![[0; aes::BLOCK]; messages.len()];
    match mode {
        AesMode::CbcEncrypt => {
            let mut jobs: Vec<_> = messages
                .into_iter()
                .zip(&mut ivs)
                .map(|(data, iv)| CbcJob { key, iv, data })
                .collect();
            Rate::of(bytes, seconds, || {
                aes::cbc_encrypt_many(&mut jobs).expect("messages of whole blocks");
            })
        }
        AesMode::CbcDecrypt => Rate::of(bytes, seconds, || {
            for (message, iv) in messages.iter_mut().zip(&mut ivs) {
                aes::cbc_decrypt(key, iv, &mut **message).expect("messages of whole blocks");
            }
        }),
        AesMode::Ctr => Rate::of(bytes, seconds, || {
            for (message, iv) in messages.iter_mut().zip(&ivs) {
                Ctr::new(key, iv).apply(&mut **message);
            }
        }),
        AesMode::Ecb => Rate::of(bytes, seconds, || {
            for message in &mut messages {
                aes::ecb_encrypt(key, &mut **message).expect("messages of whole blocks");
            }
        }),
    }
}
