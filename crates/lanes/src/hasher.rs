//! Messages that come in pieces.

use crate::digest::Digest;
use crate::schedule::MAX_BLOCK;
use crate::vector::MAX_WORDS;
use crate::{Algorithm, chosen};

/// A message of which a part has been hashed.
///
/// A plain value: it can be cloned at any point, sent to another thread, or dropped. The digest does not depend on how
/// the message is cut into pieces.
///
/// ```
/// use tabane_lanes::{Algorithm, Hasher, finish_many, update_many};
///
/// let (mut one, mut two) = (Hasher::new(Algorithm::Md5), Hasher::new(Algorithm::Sha1));
/// one.update(b"a");
/// // Both at once, as a server does with what has come from many clients.
/// update_many(&mut [(&mut one, b"bc"), (&mut two, b"abc")]);
/// let digests = finish_many(&[&one, &two]);
/// assert_eq!(digests[0].to_string(), "900150983cd24fb0d6963f7d28e17f72");
/// assert_eq!(digests[1].to_string(), "a9993e364706816aba3e25717850c26c9cd0d89d");
/// ```
#[derive(Clone)]
pub struct Hasher {
    algorithm: Algorithm,
    /// Behind the last whole block. Words of 32 bits are widened.
    pub(crate) state: [u64; MAX_WORDS],
    /// What has come since the last whole block, at its beginning.
    buffer: [u8; MAX_BLOCK],
    /// Bytes of the message so far.
    pub(crate) length: u64,
}

impl Hasher {
    /// An empty message.
    pub fn new(algorithm: Algorithm) -> Self {
        Self {
            algorithm,
            state: (algorithm.entry().initial)(),
            buffer: [0; MAX_BLOCK],
            length: 0,
        }
    }

    /// The algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Appends `data` to the message.
    ///
    /// # Panics
    ///
    /// As [`hash_many`](crate::hash_many).
    pub fn update(&mut self, data: &[u8]) {
        let algorithm = self.algorithm;
        (algorithm.entry().update_many)(chosen(algorithm), &mut [(self, data)]);
    }

    /// The digest of the message so far. More can be appended afterwards.
    ///
    /// # Panics
    ///
    /// As [`hash_many`](crate::hash_many).
    pub fn finish(&self) -> Digest {
        let mut digest = [Digest::default()];
        let algorithm = self.algorithm;
        (algorithm.entry().finish_many)(chosen(algorithm), &[(self, &[])], &mut digest);
        digest[0]
    }

    /// What has come since the last whole block.
    pub(crate) fn pending(&self) -> &[u8] {
        &self.buffer[..self.length as usize % self.algorithm.block_len()]
    }

    /// Keeps what is behind the last whole block, when that block is in the state already.
    pub(crate) fn keep_rest(&mut self, data: &[u8]) {
        let block = self.algorithm.block_len();
        let before = self.pending().len();
        let rest = (before + data.len()) % block;
        if before + data.len() < block {
            self.buffer[before..rest].copy_from_slice(data);
        } else {
            self.buffer[..rest].copy_from_slice(&data[data.len() - rest..]);
        }
        self.length += data.len() as u64;
    }
}

/// What is appended to a message.
pub(crate) type Update<'h, 'a> = (&'h mut Hasher, &'a [u8]);

/// A message so far, and what ends it.
pub(crate) type End<'h, 'a> = (&'h Hasher, &'a [u8]);

impl core::fmt::Debug for Hasher {
    /// Nothing of the message, which may be secret.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Hasher")
            .field("algorithm", &self.algorithm)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

/// Appends to each message its data, all of them at once, one a lane. Algorithms and lengths may differ.
///
/// # Panics
///
/// As [`hash_many`](crate::hash_many).
pub fn update_many(parts: &mut [(&mut Hasher, &[u8])]) {
    let Some(first) = parts.first().map(|(hasher, _)| hasher.algorithm) else {
        return;
    };
    if parts.iter().all(|(hasher, _)| hasher.algorithm == first) {
        return (first.entry().update_many)(chosen(first), parts);
    }
    for &algorithm in Algorithm::ALL {
        let of_this = parts
            .iter_mut()
            .filter(|(hasher, _)| hasher.algorithm == algorithm);
        let mut some: Vec<_> = of_this
            .map(|(hasher, data)| (&mut **hasher, *data))
            .collect();
        (algorithm.entry().update_many)(chosen(algorithm), &mut some);
    }
}

/// The digest of each message so far. More can be appended afterwards.
///
/// # Panics
///
/// As [`hash_many`](crate::hash_many).
pub fn finish_many(hashers: &[&Hasher]) -> Vec<Digest> {
    let parts: Vec<End> = hashers.iter().map(|&hasher| (hasher, &[][..])).collect();
    finish_many_with(&parts)
}

/// The digest of each message so far with the data behind it.
pub(crate) fn finish_many_with(parts: &[End]) -> Vec<Digest> {
    let mut digests = vec![Digest::default(); parts.len()];
    let Some((first, _)) = parts.first() else {
        return digests;
    };
    let first = first.algorithm;
    if parts.iter().all(|(hasher, _)| hasher.algorithm == first) {
        (first.entry().finish_many)(chosen(first), parts, &mut digests);
        return digests;
    }
    for &algorithm in Algorithm::ALL {
        let of_this = |i: &usize| parts[*i].0.algorithm == algorithm;
        let picked: Vec<usize> = (0..parts.len()).filter(of_this).collect();
        let some: Vec<_> = picked.iter().map(|&i| parts[i]).collect();
        let mut found = vec![Digest::default(); some.len()];
        (algorithm.entry().finish_many)(chosen(algorithm), &some, &mut found);
        for (i, digest) in picked.into_iter().zip(found) {
            digests[i] = digest;
        }
    }
    digests
}
