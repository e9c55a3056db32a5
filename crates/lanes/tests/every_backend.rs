//! Every backend that this processor has against the RustCrypto crates, through one runner.

mod child;

use std::sync::OnceLock;

use proptest::prelude::*;
use sha2::Digest as _;
use tabane_lanes::{
    Algorithm, Backend, Digest, hash_many, hash_many_into, hash_many_on, hash_one, hash_one_on,
};

/// What an independent implementation makes of a message.
fn reference(algorithm: Algorithm, message: &[u8]) -> Vec<u8> {
    match algorithm {
        Algorithm::Md5 => md5::Md5::digest(message).to_vec(),
        Algorithm::Sha1 => sha1::Sha1::digest(message).to_vec(),
        Algorithm::Sha224 => sha2::Sha224::digest(message).to_vec(),
        Algorithm::Sha256 => sha2::Sha256::digest(message).to_vec(),
        Algorithm::Sha384 => sha2::Sha384::digest(message).to_vec(),
        Algorithm::Sha512 => sha2::Sha512::digest(message).to_vec(),
        other => panic!("no reference for {other}: add one"),
    }
}

/// Hashes with every available backend, and with the automatic choice, and compares with
/// `expected`.
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
            .filter(|backend| !backend.is_available() && backend.is_of_this_architecture())
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
        b"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmno\
          ijklmnopjklmnopqklmnopqrlmnopqrsmnopqrst\
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
    let md5 = [
        "d41d8cd9 8f00b204 e9800998 ecf8427e",
        "90015098 3cd24fb0 d6963f7d 28e17f72",
        "8215ef07 96a20bca aae116d3 876c664a",
        "03dd8807 a93175fb 062dfb55 dc7d359c",
        "7707d6ae 4e027c70 eea2a935 c2296f21",
    ];
    let sha224 = [
        "d14a028c 2a3a2bc9 476102bb 288234c4 15a2b01f 828ea62a c5b3e42f",
        "23097d22 3405d822 8642a477 bda255b3 2aadbce4 bda0b3f7 e36c9da7",
        "75388b16 512776cc 5dba5da1 fd890150 b0c6455c b4f58b19 52522525",
        "c97ca9a5 59850ce9 7a04a96d ef6d99a9 e0e0e2ab 14e6b8df 265fc0b3",
        "20794655 980c91d8 bbb4c1ea 97618a4b f03f4258 1948b2ee 4ee7ad67",
    ];
    let sha384 = [
        "38b060a751ac9638 4cd9327eb1b1e36a 21fdb71114be0743 \
         4c0cc7bf63f6e1da 274edebfe76f65fb d51ad2f14898b95b",
        "cb00753f45a35e8b b5a03d699ac65007 272c32ab0eded163 \
         1a8b605a43ff5bed 8086072ba1e7cc23 58baeca134c825a7",
        "3391fdddfc8dc739 3707a65b1b470939 7cf8b1d162af05ab \
         fe8f450de5f36bc6 b0455a8520bc4e6f 5fe95b1fe3c8452b",
        "09330c33f71147e8 3d192fc782cd1b47 53111b173b3b05d2 \
         2fa08086e3b0f712 fcc7c71a557e2db9 66c3e9fa91746039",
        "9d0e1809716474cb 086e834e310a4a1c ed149e9c00f24852 \
         7972cec5704c2a5b 07b8b3dc38ecc4eb ae97ddd87f3d8985",
    ];
    let sha512 = [
        "cf83e1357eefb8bd f1542850d66d8007 d620e4050b5715dc 83f4a921d36ce9ce \
         47d0d13c5d85f2b0 ff8318d2877eec2f 63b931bd47417a81 a538327af927da3e",
        "ddaf35a193617aba cc417349ae204131 12e6fa4e89a97ea2 0a9eeee64b55d39a \
         2192992a274fc1a8 36ba3c23a3feebbd 454d4423643ce80e 2a9ac94fa54ca49f",
        "204a8fc6dda82f0a 0ced7beb8e08a416 57c16ef468b228a8 279be331a703c335 \
         96fd15c13b1b07f9 aa1d3bea57789ca0 31ad85c7a71dd703 54ec631238ca3445",
        "8e959b75dae313da 8cf4f72814fc143f 8f7779c6eb9f7fa1 7299aeadb6889018 \
         501d289e4900f7e4 331b99dec4b5433a c7d329eeb6dd2654 5e96e55b874be909",
        "e718483d0ce76964 4e2e42c7bc15b463 8e1f98b13b204428 5632a803afa973eb \
         de0ff244877ea60a 4cb0432ce577c31b eb009c5c2c49aa2e 4eadb217ad8cc09b",
    ];
    check_against(Algorithm::Md5, &messages, &md5.map(hex));
    check_against(Algorithm::Sha1, &messages, &sha1.map(hex));
    check_against(Algorithm::Sha224, &messages, &sha224.map(hex));
    check_against(Algorithm::Sha256, &messages, &sha256.map(hex));
    check_against(Algorithm::Sha384, &messages, &sha384.map(hex));
    check_against(Algorithm::Sha512, &messages, &sha512.map(hex));
}

/// RFC 1321, appendix A.5.
#[test]
fn md5_suite() {
    let suite = [
        ("", "d41d8cd98f00b204e9800998ecf8427e"),
        ("a", "0cc175b9c0f1b6a831c399e269772661"),
        ("abc", "900150983cd24fb0d6963f7d28e17f72"),
        ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
        (
            "abcdefghijklmnopqrstuvwxyz",
            "c3fcd3d76192e4007dfb496cca67e13b",
        ),
        (
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
            "d174ab98d277d9f5a5611c2c9f419d9f",
        ),
        (
            "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
            "57edf4a22be3c955ac49da2e2107b67a",
        ),
    ];
    let messages = suite.map(|(message, _)| message.as_bytes());
    check_against(
        Algorithm::Md5,
        &messages,
        &suite.map(|(_, digest)| hex(digest)),
    );
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
        .flat_map(|blocks| [-17, -16, -9, -8, -1, 0, 1, 9].map(|by| (64 * blocks + by) as usize))
        .collect();
    for &algorithm in Algorithm::ALL {
        let messages: Vec<&[u8]> = lengths.iter().map(|&len| &data[..len]).collect();
        check(algorithm, &messages);
        lengths.reverse();
    }
}

/// Any number of messages, which includes every number of lanes, one less and one more. Lengths
/// mixed, long ones in any place, addresses unaligned.
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
    let data = noise(130 * 1001);
    for &algorithm in Algorithm::ALL {
        for count in [1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 48, 64, 65, 96, 129] {
            check(
                algorithm,
                &data.chunks_exact(1001).take(count).collect::<Vec<_>>(),
            );
        }
    }
}

/// Messages that fall into the same sets of the caches, so that lanes start one group after the
/// other.
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

/// Reads past the end of a message would meet an unmapped page or another object here, under a
/// sanitiser at least; everywhere, what follows must not change the digest.
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

/// `TABANE_SIMD` is read once a process, so it takes another process to see it work: this test runs
/// itself.
#[test]
fn forced_by_environment() {
    const MARK: &str = "TABANE_LANES_TEST_CHILD";
    if std::env::var_os(MARK).is_some() {
        println!("forced: {:?}", Backend::forced());
        println!("digest: {}", hash_one(Algorithm::Sha256, b"abc"));
        return;
    }
    let child = |word: &str| {
        let output = child::test("forced_by_environment", child::runner())
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
        let messages: Vec<&[u8]> = lengths.iter().enumerate().map(|(i, &len)|
            &data[start + i..][..len]).collect();
        for &algorithm in Algorithm::ALL {
            check(algorithm, &messages);
        }
    }
}
