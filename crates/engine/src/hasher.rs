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
    Lanes(tabane_lanes::Hasher),
    Blake3(Box<blake3::Hasher>),
    Xxh64(twox_hash::XxHash64),
    Xxh3(Box<twox_hash::xxhash3_64::Hasher>),
    Xxh128(Box<twox_hash::xxhash3_128::Hasher>),
}

impl Hasher {
    /// Of the empty message.
    pub fn new(algorithm: Algorithm) -> Self {
        Self(match algorithm.kernel() {
            Kernel::Lanes(algorithm) => State::Lanes(tabane_lanes::Hasher::new(algorithm)),
            Kernel::Blake3 => State::Blake3(Box::default()),
            Kernel::Xxh64 => State::Xxh64(twox_hash::XxHash64::with_seed(0)),
            Kernel::Xxh3 => State::Xxh3(Box::default()),
            Kernel::Xxh128 => State::Xxh128(Box::default()),
        })
    }

    /// Appends to the message.
    pub fn update(&mut self, part: &[u8]) {
        match &mut self.0 {
            State::Lanes(hasher) => hasher.update(part),
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
            State::Lanes(hasher) => return from_lanes(&hasher.finish()),
            State::Blake3(hasher) => Digest::from_bytes(hasher.finalize().as_bytes()),
            // The canonical form of an XXH value is big-endian.
            State::Xxh64(hasher) => Digest::from_bytes(&hasher.finish().to_be_bytes()),
            State::Xxh3(hasher) => Digest::from_bytes(&hasher.finish().to_be_bytes()),
            State::Xxh128(hasher) => Digest::from_bytes(&hasher.finish_128().to_be_bytes()),
        };
        digest.expect("none is longer than the longest")
    }

    fn lanes(&self) -> Option<&tabane_lanes::Hasher> {
        match &self.0 {
            State::Lanes(hasher) => Some(hasher),
            _ => None,
        }
    }
}

/// Appends a part to each of many messages at once, one message a lane.
///
/// The messages may be of different algorithms; those of one algorithm share the lanes.
pub fn update_many(parts: &mut [(&mut Hasher, &[u8])]) {
    let mut in_lanes = Vec::with_capacity(parts.len());
    for (hasher, part) in parts {
        match &mut **hasher {
            Hasher(State::Lanes(hasher)) => in_lanes.push((hasher, *part)),
            other => other.update(part),
        }
    }
    tabane_lanes::update_many(&mut in_lanes);
}

/// The digests of the messages so far, in their order, one message a lane.
pub fn finish_many(hashers: &[&Hasher]) -> Vec<Digest> {
    let in_lanes: Vec<_> = hashers.iter().filter_map(|hasher| hasher.lanes()).collect();
    let mut digests = tabane_lanes::finish_many(&in_lanes).into_iter();
    let digest = |hasher: &&Hasher| match hasher.lanes() {
        Some(_) => from_lanes(&digests.next().expect("one for each")),
        None => hasher.finish(),
    };
    hashers.iter().map(digest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_messages_are_cut_and_mixed_their_digests_are_the_same() {
        const STEP: usize = 500;
        let message: Vec<u8> = (0..10_000_u32).map(|i| (i ^ (i >> 5)) as u8).collect();
        let mut algorithms: Vec<Algorithm> = Algorithm::all().collect();
        algorithms.extend_from_within(..);
        algorithms.extend_from_within(..);
        let mut hashers: Vec<Hasher> = algorithms.iter().copied().map(Hasher::new).collect();
        for start in (0..message.len()).step_by(STEP) {
            let mut parts: Vec<(&mut Hasher, &[u8])> = Vec::new();
            for (number, hasher) in hashers.iter_mut().enumerate() {
                let cut = start + 12 * number;
                hasher.update(&message[start..cut]);
                parts.push((hasher, &message[cut..start + STEP]));
            }
            update_many(&mut parts);
        }
        let all: Vec<&Hasher> = hashers.iter().collect();
        for (digest, algorithm) in finish_many(&all).iter().zip(algorithms) {
            assert_eq!(*digest, algorithm.digest(&message), "{algorithm}");
        }
    }
}
