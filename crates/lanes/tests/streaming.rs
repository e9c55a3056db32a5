//! Messages in pieces, and HMAC, against whole messages and the RustCrypto crates.

use hmac::{KeyInit, Mac};
use proptest::prelude::*;
use tabane_lanes::{
    Algorithm, Digest, Hasher, HmacKey, finish_many, hash_one, hmac_many, update_many,
};

fn noise(len: usize) -> Vec<u8> {
    let mut x = 0x2545_f491_4f6c_dd1d_u64;
    std::iter::repeat_with(|| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 32) as u8
    })
    .take(len)
    .collect()
}

fn hex(digits: &str) -> Vec<u8> {
    (0..digits.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap())
        .collect()
}

fn is_send<T: Send + Sync + Clone + 'static>() {}

#[test]
fn a_hasher_is_a_plain_value() {
    is_send::<Hasher>();
    is_send::<HmacKey>();
    let key = HmacKey::new(Algorithm::Sha256, b"secret");
    let mut hasher = key.begin();
    hasher.update(b"private");
    assert_eq!(format!("{key:?}"), "HmacKey { algorithm: Sha256, .. }");
    assert_eq!(
        format!("{hasher:?}"),
        "Hasher { algorithm: Sha256, length: 71, .. }"
    );
}

/// Every cut of a message of a few blocks into two pieces, and into pieces of every length.
#[test]
fn every_cut() {
    let message = noise(300);
    for &algorithm in Algorithm::ALL {
        let expected = hash_one(algorithm, &message);
        for at in 0..=300 {
            let mut hasher = Hasher::new(algorithm);
            hasher.update(&message[..at]);
            let middle = hasher.clone();
            assert_eq!(middle.finish(), hash_one(algorithm, &message[..at]));
            hasher.update(&message[at..]);
            assert_eq!(hasher.finish(), expected, "{algorithm} cut at {at}");
            assert_eq!(middle.finish(), hash_one(algorithm, &message[..at]));
        }
        for len in 1..=130 {
            let mut hasher = Hasher::new(algorithm);
            message.chunks(len).for_each(|piece| hasher.update(piece));
            assert_eq!(hasher.finish(), expected, "{algorithm} in pieces of {len}");
        }
    }
}

/// As many messages as there are lanes and more, each cut elsewhere, in step.
#[test]
fn many_in_step() {
    let data = noise(1 << 16);
    let messages: Vec<&[u8]> = (0..100).map(|i| &data[i * 7..][..i * 97]).collect();
    let algorithm = |i: usize| Algorithm::ALL[i % Algorithm::ALL.len()];
    let mut hashers: Vec<Hasher> = (0..100).map(|i| Hasher::new(algorithm(i))).collect();
    let mut rest = messages.clone();
    for round in 0.. {
        if rest.iter().all(|rest| rest.is_empty()) {
            break;
        }
        let mut parts = Vec::new();
        for (i, (hasher, rest)) in hashers.iter_mut().zip(&mut rest).enumerate() {
            let (piece, after) = rest.split_at(rest.len().min((i * 31 + round * 53) % 700));
            *rest = after;
            parts.push((hasher, piece));
        }
        update_many(&mut parts);
    }
    let digests = finish_many(&hashers.iter().collect::<Vec<_>>());
    for (i, (digest, message)) in digests.iter().zip(&messages).enumerate() {
        assert_eq!(*digest, hash_one(algorithm(i), message), "message {i}");
    }
    update_many(&mut []);
    assert!(finish_many(&[]).is_empty());
}

fn hmac_reference(algorithm: Algorithm, key: &[u8], message: &[u8]) -> Vec<u8> {
    macro_rules! with {
        ($hash:ty) => {{
            let mut mac = hmac::Hmac::<$hash>::new_from_slice(key).unwrap();
            mac.update(message);
            mac.finalize().into_bytes().to_vec()
        }};
    }
    match algorithm {
        Algorithm::Md5 => with!(md5::Md5),
        Algorithm::Sha1 => with!(sha1::Sha1),
        Algorithm::Sha224 => with!(sha2::Sha224),
        Algorithm::Sha256 => with!(sha2::Sha256),
        Algorithm::Sha384 => with!(sha2::Sha384),
        Algorithm::Sha512 => with!(sha2::Sha512),
        other => panic!("no reference for {other}: add one"),
    }
}

/// RFC 2202 and RFC 4231: the first cases, a key longer than a block, and a long message under it.
#[test]
fn hmac_published_vectors() {
    let long_key = [0xaa; 131];
    let cases: [(Algorithm, &[u8], &[u8], &str); 8] = [
        (
            Algorithm::Md5,
            &[0x0b; 16],
            b"Hi There",
            "9294727a3638bb1c13f48ef8158bfc9d",
        ),
        (
            Algorithm::Md5,
            &[0xaa; 80],
            b"Test Using Larger Than Block-Size Key - Hash Key First",
            "6b1ab7fe4bd7bf8f0b62e6ce61b9d0cd",
        ),
        (
            Algorithm::Sha1,
            b"Jefe",
            b"what do ya want for nothing?",
            "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
        ),
        (
            Algorithm::Sha1,
            &[0xaa; 80],
            b"Test Using Larger Than Block-Size Key - Hash Key First",
            "aa4ae5e15272d00e95705637ce8a3b55ed402112",
        ),
        (
            Algorithm::Sha224,
            &[0x0b; 20],
            b"Hi There",
            "896fb1128abbdf196832107cd49df33f47b4b1169912ba4f53684b22",
        ),
        (
            Algorithm::Sha256,
            b"Jefe",
            b"what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
        (
            Algorithm::Sha384,
            b"Jefe",
            b"what do ya want for nothing?",
            "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e8e2240ca5e69e2c78b3239ecfab21649",
        ),
        (
            Algorithm::Sha512,
            &long_key,
            b"Test Using Larger Than Block-Size Key - Hash Key First",
            "80b24263c7c1a3ebb71493c1dd7be8b49b46d1f41b4aeec1121b013783f8f352\
             6b56d037e05f2598bd0fd2215d6a1e5295e64f73f63f0aec8b915a985d786598",
        ),
    ];
    for (algorithm, key, message, tag) in cases {
        let key = HmacKey::new(algorithm, key);
        assert_eq!(
            hmac_many(&[(&key, message)])[0].as_ref(),
            hex(tag),
            "{algorithm}"
        );
    }
}

#[test]
fn hmac_against_reference() {
    let data = noise(5000);
    for &algorithm in Algorithm::ALL {
        let keys: Vec<HmacKey> = (0..80)
            .map(|i| HmacKey::new(algorithm, &data[i..][..4 * i]))
            .collect();
        let messages: Vec<(&HmacKey, &[u8])> = keys
            .iter()
            .enumerate()
            .map(|(i, key)| (key, &data[..i * i % 997]))
            .collect();
        let tags: Vec<Digest> = hmac_many(&messages);
        for (i, (tag, (key, message))) in tags.iter().zip(&messages).enumerate() {
            let expected = hmac_reference(algorithm, &data[i..][..4 * i], message);
            assert_eq!(tag.as_ref(), expected, "{algorithm} message {i}");
            let mut hasher = key.begin();
            message.chunks(33).for_each(|piece| hasher.update(piece));
            assert_eq!(key.finish(&hasher), *tag);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_split(cuts in prop::collection::vec(0_usize..400, 0..40),
        which in 0..Algorithm::ALL.len()) {
        let algorithm = Algorithm::ALL[which];
        let message = noise(cuts.iter().sum());
        let mut hasher = Hasher::new(algorithm);
        let mut rest = &message[..];
        for cut in cuts {
            let (piece, after) = rest.split_at(cut);
            hasher.update(piece);
            rest = after;
        }
        prop_assert_eq!(hasher.finish(), hash_one(algorithm, &message));
    }
}
