//! Every backend that this processor has against the RustCrypto crates, through one runner.

use std::sync::OnceLock;

use proptest::prelude::*;
use sha2::Digest as _;
use tabane_lanes::{
    Algorithm, Backend, Digest, hash_many, hash_many_into, hash_many_on, hash_one, hash_one_on,
};

/// What an independent implementation makes of a message.
fn reference(algorithm: Algorithm, message: &[u8]) -> Vec<u8> {
    match algorithm {
        Algorithm::Sha1 => sha1::Sha1::digest(message).to_vec(),
        Algorithm::Sha256 => sha2::Sha256::digest(message).to_vec(),
        other => panic!("no reference for {other}: add one"),
    }
}

/// Hashes with every available backend, and with the automatic choice, and compares with `expected`.
fn check_against(algorithm: Algorithm, messages: &[&[u8]], expected: &[impl AsRef<[u8]>]) {
    let check = |name: &str, digests: Vec<Digest>| {
        assert_eq!(
            digests.len(),
            messages.len(),
            "{name} {algorithm}: number of digests"
        );
        for (i, (digest, expected)) in digests.iter().zip(expected).enumerate() {
            assert!(
                digest.as_ref() == expected.as_ref(),
                "{name} {algorithm}: message {i} of {}, {} bytes: {digest}, should be {}",
                messages.len(),
                messages[i].len(),
                expected
                    .as_ref()
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect::<String>(),
            );
        }
    };
    check("automatic", hash_many(algorithm, messages));
    for backend in backends(algorithm) {
        check(
            backend.name(),
            hash_many_on(backend, algorithm, messages).expect("it is available"),
        );
    }
}

fn check(algorithm: Algorithm, messages: &[&[u8]]) {
    let expected: Vec<_> = messages
        .iter()
        .map(|message| reference(algorithm, message))
        .collect();
    check_against(algorithm, messages, &expected);
}

/// The backends to test. Says loudly which ones are not.
fn backends(algorithm: Algorithm) -> Vec<Backend> {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        use std::io::Write;
        for backend in Backend::ALL
            .iter()
            .filter(|backend| !backend.is_available())
        {
            // Not through eprintln!, which the test harness would swallow.
            let _ = writeln!(
                std::io::stderr(),
                "\nNOT RUN: backend {backend}: this processor lacks it\n"
            );
        }
    });
    Backend::available()
        .filter(|backend| backend.supports(algorithm))
        .collect()
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

/// FIPS 180-4's examples and NIST's: nothing, 24, 448 and 896 bits, and a million times 'a'.
#[test]
fn published_vectors() {
    let million = vec![b'a'; 1_000_000];
    let messages: [&[u8]; 5] = [
        b"",
        b"abc",
        b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
        b"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrst\
          nopqrstu",
        &million,
    ];
    let sha1 = [
        "da39a3ee 5e6b4b0d 3255bfef 95601890 afd80709",
        "a9993e36 4706816a ba3e2571 7850c26c 9cd0d89d",
        "84983e44 1c3bd26e baae4aa1 f95129e5 e54670f1",
        "a49b2446 a02c645b f419f995 b6709125 3a04a259",
        "34aa973c d4c4daa4 f61eeb2b dbad2731 6534016f",
    ];
    let sha256 = [
        "e3b0c442 98fc1c14 9afbf4c8 996fb924 27ae41e4 649b934c a495991b 7852b855",
        "ba7816bf 8f01cfea 414140de 5dae2223 b00361a3 96177a9c b410ff61 f20015ad",
        "248d6a61 d20638b8 e5c02693 0c3e6039 a33ce459 64ff2167 f6ecedd4 19db06c1",
        "cf5b16a7 78af8380 036ce59e 7b049237 0b249b11 e8f07a51 afac4503 7afee9d1",
        "cdc76e5c 9914fb92 81a1c7e2 84d73e67 f1809a48 a497200e 046d39cc c7112cd0",
    ];
    check_against(Algorithm::Sha1, &messages, &sha1.map(hex));
    check_against(Algorithm::Sha256, &messages, &sha256.map(hex));
}

#[test]
fn lengths_to_300() {
    let data = noise(300);
    let messages: Vec<&[u8]> = (0..=300).map(|len| &data[..len]).collect();
    for &algorithm in Algorithm::ALL {
        check(algorithm, &messages);
    }
}

/// Around edges of blocks, where padding takes one block or two, up to 1 MiB.
#[test]
fn lengths_around_blocks() {
    let data = noise((1 << 20) + 16);
    let blocks = [5, 8, 15, 16, 17, 64, 255, 1000, 1024, 4095, 1 << 14];
    let mut lengths: Vec<usize> = blocks
        .iter()
        .flat_map(|blocks| [-9, -8, -1, 0, 1, 9].map(|by| (64 * blocks + by) as usize))
        .collect();
    for &algorithm in Algorithm::ALL {
        let messages: Vec<&[u8]> = lengths.iter().map(|&len| &data[..len]).collect();
        check(algorithm, &messages);
        lengths.reverse();
    }
}

/// Any number of messages, which includes every number of lanes, one less and one more. Lengths mixed, long ones
/// in any place, addresses unaligned.
#[test]
fn counts_to_100() {
    let data = noise(1 << 16);
    let lengths = noise(100);
    for &algorithm in Algorithm::ALL {
        for count in 0..=100 {
            let message = |i: usize| {
                let len = usize::from(lengths[(i * 7 + count) % 100]);
                let len = if i % 13 == count % 13 { 20 * len } else { len };
                &data[i * 131 + count..][..len]
            };
            check(algorithm, &(0..count).map(message).collect::<Vec<_>>());
        }
    }
}

#[test]
fn equal_lengths() {
    let data = noise(70 * 1001);
    for &algorithm in Algorithm::ALL {
        for count in [1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 64, 65] {
            check(
                algorithm,
                &data.chunks_exact(1001).take(count).collect::<Vec<_>>(),
            );
        }
    }
}

/// Messages that fall into the same sets of the caches, so that lanes start one group after the other.
#[test]
fn blocks_of_a_file() {
    let data = noise(40 << 14);
    for &algorithm in Algorithm::ALL {
        for count in [13, 17, 40] {
            check(
                algorithm,
                &data.chunks_exact(1 << 14).take(count).collect::<Vec<_>>(),
            );
        }
    }
}

/// Reads past the end of a message would meet an unmapped page or another object here, under a sanitiser at least;
/// everywhere, what follows must not change the digest.
#[test]
fn bytes_outside_do_not_matter() {
    let (mut a, mut b) = (vec![0x00; 4096], vec![0xff; 4096]);
    let data = noise(1000);
    for &algorithm in Algorithm::ALL {
        for len in [0, 1, 55, 56, 63, 64, 65, 640, 1000] {
            a[77..77 + len].copy_from_slice(&data[..len]);
            b[77..77 + len].copy_from_slice(&data[..len]);
            check(
                algorithm,
                &[&a[77..77 + len], &b[77..77 + len], &data[..len]],
            );
        }
    }
}

#[test]
fn one_message() {
    let data = noise(5000);
    for &algorithm in Algorithm::ALL {
        for len in (0..=200).chain([4095, 4096, 5000]) {
            let expected = reference(algorithm, &data[..len]);
            assert_eq!(hash_one(algorithm, &data[..len]).as_ref(), expected);
            for backend in backends(algorithm) {
                let digest = hash_one_on(backend, algorithm, &data[..len]).unwrap();
                assert_eq!(
                    digest.as_ref(),
                    expected,
                    "{backend} {algorithm}, {len} bytes"
                );
            }
        }
    }
}

#[test]
#[should_panic]
fn places_must_match() {
    hash_many_into(Algorithm::Sha1, &[b"a", b"b"], &mut [Digest::default()]);
}

#[test]
fn unavailable_backends_are_errors() {
    for backend in Backend::ALL
        .iter()
        .copied()
        .filter(|backend| !backend.is_available())
    {
        let message = hash_many_on(backend, Algorithm::Sha1, &[])
            .unwrap_err()
            .to_string();
        assert!(
            message.contains(&format!("lacks {backend}")) && message.contains("portable"),
            "{message}"
        );
        assert!(Backend::from_setting(backend.name()).is_err());
    }
}

#[test]
fn settings() {
    assert_eq!(Backend::from_setting(""), Ok(None));
    assert_eq!(
        Backend::from_setting("portable"),
        Ok(Some(Backend::Portable))
    );
    let message = Backend::from_setting("mmx").unwrap_err().to_string();
    assert!(
        message.contains("\"mmx\"") && message.contains("portable"),
        "{message}"
    );
    for &backend in Backend::ALL {
        assert_eq!(backend.name().parse(), Ok(backend));
    }
    for &algorithm in Algorithm::ALL {
        assert_eq!(algorithm.name().parse(), Ok(algorithm));
        assert_eq!(
            hash_one(algorithm, b"").as_ref().len(),
            algorithm.digest_len()
        );
    }
    assert!(
        "sha3"
            .parse::<Algorithm>()
            .unwrap_err()
            .to_string()
            .contains("sha256")
    );
}

/// `TABANE_SIMD` is read once a process, so it takes another process to see it work: this test runs itself.
#[test]
fn forced_by_environment() {
    const MARK: &str = "TABANE_LANES_TEST_CHILD";
    if std::env::var_os(MARK).is_some() {
        println!("forced: {:?}", Backend::forced());
        println!("digest: {}", hash_one(Algorithm::Sha256, b"abc"));
        return;
    }
    let child = |word: &str| {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "forced_by_environment", "--nocapture"])
            .env(MARK, "1")
            .env("TABANE_SIMD", word)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        (output.status.success(), text)
    };
    for backend in Backend::ALL {
        let (success, text) = child(backend.name());
        assert_eq!(success, backend.is_available(), "{text}");
        if success {
            assert!(
                text.contains(&format!("forced: Ok(Some({backend:?}))")),
                "{text}"
            );
            assert!(text.contains("digest: ba7816bf8f01cfea"), "{text}");
        } else {
            assert!(
                text.contains(&format!("TABANE_SIMD: this processor lacks {backend}")),
                "{text}"
            );
        }
    }
    let (success, text) = child("altivec");
    assert!(
        !success && text.contains("no SIMD backend is called \"altivec\"; it has: portable"),
        "{text}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_lengths(
        lengths in prop::collection::vec(prop_oneof![0_usize..200, 0_usize..5000], 0..80),
        start in 0_usize..64,
    ) {
        let data = noise(8192);
        let messages: Vec<&[u8]> = lengths.iter().enumerate().map(|(i, &len)| &data[start + i..][..len]).collect();
        for &algorithm in Algorithm::ALL {
            check(algorithm, &messages);
        }
    }
}
