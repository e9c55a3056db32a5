//! Digests that others have published.

#![forbid(unsafe_code)]

use std::hash::Hasher;

use tabane_engine::{Algorithm, Function, Key, KeyError};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn counting(len: usize) -> Vec<u8> {
    (0..len).map(|i| i as u8).collect()
}

#[track_caller]
fn keyed(algorithm: Algorithm, key: &[u8], message: &[u8], expected: &str) {
    let function = Function::new(algorithm, Some(&Key::new(key.to_vec()))).expect("a key");
    let digest = function.digest(message);
    assert_eq!(digest.to_string(), expected, "{algorithm}");
    assert_eq!(digest.as_ref().len(), algorithm.digest_len());
}

/// FIPS 180-4, RFC 1321, the test vectors of BLAKE3, and what `xxhsum` of the xxHash project
/// prints.
#[test]
fn of_abc() {
    for (name, expected) in [
        ("md5", "900150983cd24fb0d6963f7d28e17f72"),
        ("sha1", "a9993e364706816aba3e25717850c26c9cd0d89d"),
        (
            "sha224",
            "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7",
        ),
        (
            "sha256",
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ),
        (
            "sha384",
            "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed\
             8086072ba1e7cc2358baeca134c825a7",
        ),
        (
            "sha512",
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
             2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        ),
        (
            "blake3",
            "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85",
        ),
        ("xxh32", "32d153ff"),
        ("xxh64", "44bc2cf5ad770999"),
        ("xxh3", "78af5f94892f3950"),
        ("xxh128", "06b05ab6733a618578af5f94892f3950"),
    ] {
        let algorithm: Algorithm = name.parse().unwrap();
        let digest = algorithm.digest(b"abc");
        assert_eq!(digest.to_string(), expected, "{algorithm}");
        assert_eq!(digest.as_ref().len(), algorithm.digest_len());
    }
}

/// The verification value of SMHasher: 256 keys of growing length under seeds that shrink, and then
/// their digests.
#[test]
fn of_murmurhash3() {
    let digest = |message: &[u8], seed: u32| {
        let mut hasher = mur3::Hasher128::with_seed(seed);
        hasher.write(message);
        let (first, second) = hasher.finish128();
        [first.to_le_bytes(), second.to_le_bytes()].concat()
    };
    let digests: Vec<u8> = (0..256_u32)
        .flat_map(|i| digest(&counting(i as usize), 256 - i))
        .collect();
    let last = Algorithm::Murmur3.digest(&digests);
    assert_eq!(last.as_ref()[..4], 0x6384_ba69_u32.to_le_bytes());
    assert_eq!(last.as_ref(), digest(&digests, 0));
}

/// The rows of `city-test.cc` of CityHash 1.1: row `i` has `i` bytes from place `i * i` of its
/// data.
#[test]
fn of_cityhash() {
    const K0: u64 = 0xc3a5_c85c_97cb_3127;
    let (mut a, mut b) = (9_u64, 777_u64);
    let data: Vec<u8> = (0..1 << 20)
        .map(|i| {
            a = a.wrapping_add(b);
            b = b.wrapping_add(a);
            a = (a ^ (a >> 41)).wrapping_mul(K0);
            b = (b ^ (b >> 41)).wrapping_mul(K0).wrapping_add(i);
            (b >> 37) as u8
        })
        .collect();
    for (row, expected) in [
        (0, "2b9ac064fc9df03d291ee592c340b53c"),
        (1, "1335f31d1ec4cdc3f6426d59f28f132c"),
        (15, "83673964b118ab3b6fc0d4f95f387e04"),
        (16, "736690f5179605aca76930cd3d0dd594"),
        (17, "827caeb8905537a4ffe4ca9e2fd48f16"),
        (127, "0795e1223fe5b8856b48ca39771357bb"),
        (128, "5e6e6fb7dd2dc5ad682b965a924ead4a"),
        (129, "f4e25f5bd130e00c31240c78a0a7b486"),
        (298, "2a3d67f90d977e96c015a4ff7c2465d4"),
    ] {
        let digest = Algorithm::CityHash128.digest(&data[row * row..][..row]);
        assert_eq!(digest.to_string(), expected, "{row}");
    }
}

/// `vectors.h` of the reference implementation: the key and the messages count from 0.
#[test]
fn of_siphash() {
    for (len, expected) in [
        (0, "310e0edd47db6f72"),
        (1, "fd67dc93c539f874"),
        (7, "37d1018bf50002ab"),
        (8, "6224939a79f5f593"),
        (9, "b0e4a90bdf82009e"),
        (15, "e545be4961ca29a1"),
        (63, "724506eb4c328a95"),
    ] {
        keyed(
            Algorithm::SipHash24,
            &counting(16),
            &counting(len),
            expected,
        );
    }
}

/// `highwayhash_test.cc` of the reference implementation: the key and the messages count from 0.
#[test]
fn of_highwayhash() {
    for (len, expected) in [
        (
            0,
            "f574c8c22a4844dd1f35c713730146d9ff1487b9ccbeaeb3f41d75453123da41",
        ),
        (
            1,
            "54825fe4bc41b9ed0fc6ca3def440de2474a32cb9b1b657284e475b24c627320",
        ),
        (
            31,
            "4d641a6076e28068dab70fb1208b72b36ed110060612bdd0f22e4533ef14ef8a",
        ),
        (
            32,
            "fec3a139908ce3bc8912c1a32663d542a9aefc64f79555e3995a47c96b3cb0c9",
        ),
        (
            33,
            "e5a634f0cb1501f6d046cebf75ea366c90597282d3c8173b357a0011eda2da7e",
        ),
        (
            63,
            "67eb3a6a26f8b1f5dd1aec4dbe40b083aefb265b63c8e17f9fd7fede47a4a3f4",
        ),
    ] {
        keyed(
            Algorithm::HighwayHash256,
            &counting(32),
            &counting(len),
            expected,
        );
    }
}

/// `test_vectors.json` of BLAKE3: messages count from 0 to 250 again and again.
#[test]
fn of_keyed_blake3() {
    for (len, expected) in [
        (
            0,
            "92b2b75604ed3c761f9d6f62392c8a9227ad0ea3f09573e783f1498a4ed60d26",
        ),
        (
            1,
            "6d7878dfff2f485635d39013278ae14f1454b8c0a3a2d34bc1ab38228a80c95b",
        ),
        (
            64,
            "ba8ced36f327700d213f120b1a207a3b8c04330528586f414d09f2f7d9ccb7e6",
        ),
        (
            1024,
            "75c46f6f3d9eb4f55ecaaee480db732e6c2105546f1e675003687c31719c7ba4",
        ),
        (
            1025,
            "357dc55de0c7e382c900fd6e320acc04146be01db6a8ce7210b7189bd664ea69",
        ),
    ] {
        let message: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
        let key = b"whats the Elvish word for friend";
        keyed(Algorithm::Blake3Keyed, key, &message, expected);
    }
}

/// RFC 2202 (MD5, SHA-1) and RFC 4231 (SHA-256).
#[test]
fn of_hmac() {
    let counting_key: Vec<u8> = (1..=25).collect();
    for (algorithm, key, message, expected) in [
        (
            Algorithm::HmacMd5,
            &[0x0b; 16][..],
            &b"Hi There"[..],
            "9294727a3638bb1c13f48ef8158bfc9d",
        ),
        (
            Algorithm::HmacMd5,
            b"Jefe",
            b"what do ya want for nothing?",
            "750c783e6ab0b503eaa86e310a5db738",
        ),
        (
            Algorithm::HmacMd5,
            &[0xaa; 16],
            &[0xdd; 50],
            "56be34521d144c88dbb8c733f0e8b3f6",
        ),
        (
            Algorithm::HmacMd5,
            &counting_key,
            &[0xcd; 50],
            "697eaf0aca3a3aea3a75164746ffaa79",
        ),
        (
            Algorithm::HmacMd5,
            &[0xaa; 80],
            b"Test Using Larger Than Block-Size Key - Hash Key First",
            "6b1ab7fe4bd7bf8f0b62e6ce61b9d0cd",
        ),
        (
            Algorithm::HmacSha1,
            &[0x0b; 20],
            b"Hi There",
            "b617318655057264e28bc0b6fb378c8ef146be00",
        ),
        (
            Algorithm::HmacSha1,
            b"Jefe",
            b"what do ya want for nothing?",
            "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
        ),
        (
            Algorithm::HmacSha1,
            &[0xaa; 80],
            b"Test Using Larger Than Block-Size Key - Hash Key First",
            "aa4ae5e15272d00e95705637ce8a3b55ed402112",
        ),
        (
            Algorithm::HmacSha256,
            &[0x0b; 20],
            b"Hi There",
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
        ),
        (
            Algorithm::HmacSha256,
            b"Jefe",
            b"what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
        (
            Algorithm::HmacSha256,
            &[0xaa; 131],
            b"Test Using Larger Than Block-Size Key - Hash Key First",
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        ),
    ] {
        keyed(algorithm, key, message, expected);
    }
}

#[test]
fn keys_that_do_not_fit_are_refused() {
    let error = |algorithm, len: Option<usize>| {
        let key = len.map(|len| Key::new(vec![1; len]));
        Function::new(algorithm, key.as_ref()).expect_err("refused")
    };
    assert_eq!(
        error(Algorithm::HmacMd5, None),
        KeyError::Missing(Algorithm::HmacMd5)
    );
    for (algorithm, len, text) in [
        (
            Algorithm::HmacMd5,
            0,
            "hmac-md5 takes a key of one byte or more, not of 0",
        ),
        (
            Algorithm::SipHash24,
            15,
            "siphash-2-4 takes a key of 16 bytes, not of 15",
        ),
        (Algorithm::Sha256, 32, "sha256 takes no key"),
    ] {
        assert_eq!(error(algorithm, Some(len)).to_string(), text);
    }
}

#[test]
fn nothing_shows_a_key() {
    let key = Key::new(b"secret".to_vec());
    let function = Function::new(Algorithm::HmacMd5, Some(&key)).expect("a key");
    let shown = format!("{key:?} {function:?} {:?}", function.hasher());
    assert!(!shown.contains("secret"), "{shown}");
    assert!(!shown.contains(&hex(b"secret")), "{shown}");
    assert!(!shown.contains("115, 101"), "{shown}");
}
