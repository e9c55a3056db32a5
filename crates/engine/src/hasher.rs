//! Hashes of messages that come in parts.

use std::hash::Hasher as _;

use crate::algorithm::{Algorithm, Kernel, from_lanes};
use crate::digest::Digest;

/// The hash of one message that comes in parts; the digest is the same for every way to cut it.
///
/// [`update_many`] takes the next parts of many messages at once.
#[derive(Clone)]
pub struct Hasher(State);

#[derive(Clone)]
enum State {
    Lanes(tabane_lanes::Algorithm, Vec<u8>),
    Blake3(Box<blake3::Hasher>),
    Xxh64(twox_hash::XxHash64),
    Xxh3(Box<twox_hash::xxhash3_64::Hasher>),
    Xxh128(Box<twox_hash::xxhash3_128::Hasher>),
}

impl Hasher {
    /// Of the empty message.
    pub fn new(algorithm: Algorithm) -> Self {
        Self(match algorithm.kernel() {
            Kernel::Lanes(algorithm) => State::Lanes(algorithm, Vec::new()),
            Kernel::Blake3 => State::Blake3(Box::default()),
            Kernel::Xxh64 => State::Xxh64(twox_hash::XxHash64::with_seed(0)),
            Kernel::Xxh3 => State::Xxh3(Box::default()),
            Kernel::Xxh128 => State::Xxh128(Box::default()),
        })
    }

    /// Appends to the message.
    pub fn update(&mut self, part: &[u8]) {
        match &mut self.0 {
            State::Lanes(_, hasher) => {
                hasher.extend_from_slice(part);
            }
            State::Blake3(hasher) => {
                hasher.update(part);
            }
            State::Xxh64(hasher) => hasher.write(part),
            State::Xxh3(hasher) => hasher.write(part),
            State::Xxh128(hasher) => hasher.write(part),
        }
    }

    /// The digest of the message so far.
    pub fn finish(&self) -> Digest {
        let digest = match &self.0 {
            State::Lanes(algorithm, hasher) => {
                return from_lanes(&tabane_lanes::hash_one(*algorithm, hasher));
            }
            State::Blake3(hasher) => Digest::from_bytes(hasher.finalize().as_bytes()),
            // The canonical form of an XXH value is big-endian.
            State::Xxh64(hasher) => Digest::from_bytes(&hasher.finish().to_be_bytes()),
            State::Xxh3(hasher) => Digest::from_bytes(&hasher.finish().to_be_bytes()),
            State::Xxh128(hasher) => Digest::from_bytes(&hasher.finish_128().to_be_bytes()),
        };
        digest.expect("none is longer than the longest")
    }
}

/// Appends a part to each of many messages at once, one message a lane.
pub fn update_many(parts: &mut [(&mut Hasher, &[u8])]) {
    for (hasher, part) in parts {
        hasher.update(part);
    }
}

/// The digests of the messages so far, in their order.
pub fn finish_many(hashers: &[&Hasher]) -> Vec<Digest> {
    hashers.iter().map(|hasher| hasher.finish()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_a_message_is_cut_its_digest_is_the_same() {
        let message: Vec<u8> = (0..10_000_u32).map(|i| (i ^ (i >> 5)) as u8).collect();
        for algorithm in Algorithm::all() {
            let mut hashers = vec![Hasher::new(algorithm); 40];
            for start in (0..message.len()).step_by(500) {
                let mut parts: Vec<(&mut Hasher, &[u8])> = Vec::new();
                for (number, hasher) in hashers.iter_mut().enumerate() {
                    let cut = start + 12 * number;
                    hasher.update(&message[start..cut]);
                    parts.push((hasher, &message[cut..start + 500]));
                }
                update_many(&mut parts);
            }
            let expected = algorithm.digest(&message);
            let all: Vec<&Hasher> = hashers.iter().collect();
            for digest in finish_many(&all) {
                assert_eq!(digest, expected, "{algorithm}");
            }
        }
    }
}
