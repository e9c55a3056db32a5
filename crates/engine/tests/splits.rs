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
    // Around the blocks and the buffers of all algorithms, and past the longest of XXH3's and BLAKE3's.
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
            let mut hasher = function.hasher();
            for piece in pieces(&message, &cuts) {
                hasher.update(piece);
                // To ask for the digest changes nothing.
                hasher.finish();
            }
            prop_assert_eq!(hasher.finish(), function.digest(&message), "{}", algorithm);
        }
    }

    #[test]
    fn all_algorithms_at_once((message, cuts) in message(), rotation in 0..20_usize) {
        let mut functions: Vec<Function> = Algorithm::all().map(function).collect();
        functions.extend_from_within(..);
        let count = functions.len();
        functions.rotate_left(rotation % count);
        let mut hashers: Vec<Hasher> = functions.iter().map(Function::hasher).collect();
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
        let expected: Vec<Digest> = functions.iter().map(|f| f.digest(&message)).collect();
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
        let alone: Vec<Digest> = messages
            .iter()
            .map(|message| function.digest(message))
            .collect();
        assert_eq!(function.digest_many(&messages), alone, "{algorithm}");
    }
}
