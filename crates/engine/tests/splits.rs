//! However a message is cut, and whatever else is hashed with it, its digest is the same.

#![forbid(unsafe_code)]

use proptest::prelude::*;
use tabane_engine::{Algorithm, Digest, Function, Hasher, Key, KeyRule, finish_many, update_many};

fn function(algorithm: Algorithm) -> Function {
    let key = match algorithm.key_rule() {
        KeyRule::None => None,
        KeyRule::Exactly(len) => Some(Key::new(vec![7; len])),
        KeyRule::AnyLength => Some(Key::new(vec![7; 20])),
    };
    Function::new(algorithm, key.as_ref()).expect("a key that fits")
}

/// A message as long as `varied` says, and where to cut it.
fn message() -> impl Strategy<Value = (Vec<u8>, Vec<usize>)> {
    // Around the blocks and the buffers of all algorithms, and past the longest of XXH3's and
    // BLAKE3's.
    let len = prop_oneof![0..300_usize, 1000..1100_usize, 0..9000_usize];
    let bytes = len.prop_flat_map(|len| prop::collection::vec(any::<u8>(), len));
    bytes.prop_flat_map(|bytes| {
        let cuts = prop::collection::vec(0..=bytes.len(), 0..12);
        (Just(bytes), cuts)
    })
}

/// The pieces between cuts, empty ones among them.
fn pieces<'a>(message: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut cuts = cuts.to_vec();
    cuts.sort_unstable();
    let starts = [0].into_iter().chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain([message.len()]);
    starts
        .zip(ends)
        .map(|(start, end)| &message[start..end])
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn one_message((message, cuts) in message()) {
        for algorithm in Algorithm::all() {
            let function = function(algorithm);
            let expected = function.digest(&message);
            let mut hasher = function.to_check(&expected).hasher();
            for piece in pieces(&message, &cuts) {
                hasher.update(piece);
                // To ask for the digest changes nothing.
                hasher.finish();
            }
            prop_assert_eq!(hasher.finish(), expected, "{}", algorithm);
        }
    }

    #[test]
    fn all_algorithms_at_once((message, cuts) in message(), rotation in 0..20_usize) {
        let mut functions: Vec<Function> = Algorithm::all().map(function).collect();
        functions.extend_from_within(..);
        let count = functions.len();
        functions.rotate_left(rotation % count);
        let expected: Vec<Digest> = functions.iter().map(|f| f.digest(&message)).collect();
        let to_check = functions.iter().zip(&expected).map(|(f, digest)| f.to_check(digest));
        let mut hashers: Vec<Hasher> = to_check.map(|f| f.hasher()).collect();
        for piece in pieces(&message, &cuts) {
            // Each at a pace of its own.
            let cut = |number: usize| piece.len() * number / count;
            for (number, hasher) in hashers.iter_mut().enumerate() {
                hasher.update(&piece[..cut(number)]);
            }
            let hashers = hashers.iter_mut().enumerate();
            let mut parts: Vec<(&mut Hasher, &[u8])> =
                hashers.map(|(number, hasher)| (hasher, &piece[cut(number)..])).collect();
            update_many(&mut parts);
        }
        let digests = finish_many(&hashers.iter().collect::<Vec<_>>());
        prop_assert_eq!(digests, expected);
    }
}

#[test]
fn many_messages_have_the_digests_that_each_has_alone() {
    let messages: Vec<Vec<u8>> = (0..100_usize)
        .map(|i| vec![i as u8; i * 37 % 700])
        .collect();
    let messages: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
    for algorithm in Algorithm::all() {
        let function = function(algorithm);
        for (message, digest) in messages.iter().zip(function.digest_many(&messages)) {
            assert_eq!(
                function.to_check(&digest).digest(message),
                digest,
                "{algorithm}"
            );
        }
    }
}

#[test]
fn vmac_never_uses_a_nonce_twice_but_to_check() {
    for algorithm in [Algorithm::Vmac64, Algorithm::Vmac128] {
        let function = function(algorithm);
        let hasher = function.hasher();
        let digests = [hasher.finish(), hasher.finish(), function.digest(b"")];
        for (number, digest) in digests.iter().enumerate() {
            assert!(
                digests[..number]
                    .iter()
                    .all(|other| other.as_ref()[..16] != digest.as_ref()[..16])
            );
            let same = function.to_check(digest).hasher();
            assert_eq!([same.finish(), same.finish()], [*digest; 2]);
            assert_ne!(function.to_check(digest).digest(b"x"), *digest);
        }
        // No nonce begins so.
        let impossible = Digest::from_bytes(&vec![0xff; algorithm.digest_len()]).expect("short");
        assert_ne!(function.to_check(&impossible).digest(b""), impossible);
    }
}
