//! Messages that come in pieces.

use crate::algorithm::Algorithm;
use crate::digest::Digest;
use crate::kernel::BLOCK_BYTES_MAX;
use crate::plan::Plan;
use crate::vector::State;

/// A message of which a part has been hashed.
///
/// A plain value: it can be cloned at any point, sent to another thread, or dropped. The digest
/// does not depend on how the message is cut into pieces.
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
    plan: &'static Plan,
    /// Behind the last whole block.
    pub(crate) state: State,
    /// Bytes since the last whole block, at the buffer's beginning.
    buffer: [u8; BLOCK_BYTES_MAX],
    /// Bytes of the message so far.
    pub(crate) length: u64,
}

impl Hasher {
    /// An empty message.
    ///
    /// # Panics
    ///
    /// As [`hash_many`](crate::hash_many).
    #[inline]
    pub fn new(algorithm: Algorithm) -> Self {
        Self::with(Plan::chosen(algorithm))
    }

    #[inline]
    pub(crate) fn with(plan: &'static Plan) -> Self {
        Self {
            plan,
            state: plan.initial,
            buffer: [0; BLOCK_BYTES_MAX],
            length: 0,
        }
    }

    /// Forgets what has come: the message is empty again.
    #[inline]
    pub fn reset(&mut self) {
        self.state = self.plan.initial;
        self.length = 0;
    }

    /// The algorithm.
    #[inline]
    pub fn algorithm(&self) -> Algorithm {
        self.plan.entry.algorithm
    }

    /// Appends `data` to the message.
    #[inline]
    pub fn update(&mut self, mut data: &[u8]) {
        let block = self.plan.entry.block_len;
        let before = self.filled();
        self.length += data.len() as u64;
        if before > 0 {
            let Some((first, rest)) = data.split_at_checked(block - before) else {
                return self.buffer[before..before + data.len()].copy_from_slice(data);
            };
            self.buffer[before..block].copy_from_slice(first);
            self.compress_buffer();
            data = rest;
        }
        if data.len() >= block {
            let (whole, rest) = data.split_at(data.len() & !(block - 1));
            // SAFETY: a plan holds only kernels that the processor can run, and `whole` has this
            // many blocks.
            unsafe { (self.plan.one)(&mut self.state, whole.as_ptr(), whole.len() / block) };
            data = rest;
        }
        self.buffer[..data.len()].copy_from_slice(data);
    }

    /// The digest of the message so far. More can be appended afterwards.
    pub fn finish(&self) -> Digest {
        self.clone().finish_last()
    }

    /// The digest of the message, whose end it is: [`reset`](Self::reset) it before it is used
    /// again.
    #[inline]
    pub fn finish_last(&mut self) -> Digest {
        let entry = self.plan.entry;
        let used = self.filled();
        // The standards count bits, modulo 2⁶⁴ where the length has as many. The length has two
        // words of 1/16 block.
        let length_at = entry.block_len - entry.block_len / 8;
        self.buffer[used] = 0x80;
        if used < length_at {
            self.buffer[used + 1..length_at].fill(0);
        } else {
            self.buffer[used + 1..entry.block_len].fill(0);
            self.compress_buffer();
            self.buffer[..length_at].fill(0);
        }
        let bits = u128::from(self.length) * 8;
        let length = &mut self.buffer[length_at..entry.block_len];
        if entry.big_endian {
            length.copy_from_slice(&bits.to_be_bytes()[16 - length.len()..]);
        } else {
            length.copy_from_slice(&bits.to_le_bytes()[..length.len()]);
        }
        self.compress_buffer();
        (entry.digest)(&self.state)
    }

    #[inline]
    fn compress_buffer(&mut self) {
        // SAFETY: a plan has only what the processor can run. The buffer has room for a block.
        unsafe { (self.plan.one)(&mut self.state, self.buffer.as_ptr(), 1) };
    }

    /// Number of bytes since the last whole block.
    #[inline]
    pub fn filled(&self) -> usize {
        // The lengths of blocks are powers of two.
        self.length as usize & (self.plan.entry.block_len - 1)
    }

    /// The state after the last whole block, for hashing on elsewhere; `None` if its words have 64
    /// bits. Words beyond the algorithm's state are undefined.
    pub fn state(&self) -> Option<[u32; 8]> {
        (self.plan.entry.block_len == 64).then(|| *self.state.words())
    }

    /// Goes on with a state that was computed elsewhere, of [`Hasher::state`] and `len` bytes
    /// behind it.
    ///
    /// # Panics
    ///
    /// If this is not at the end of a block, the bytes were no whole blocks, or words have 64 bits.
    pub fn go_on(&mut self, state: [u32; 8], len: u64) {
        assert!(self.filled() == 0 && len.is_multiple_of(64) && self.plan.entry.block_len == 64);
        *self.state.words_mut() = state;
        self.length += len;
    }

    /// Bytes since the last whole block.
    pub(crate) fn pending(&self) -> &[u8] {
        &self.buffer[..self.filled()]
    }

    /// Keeps the bytes behind the last whole block, which is in the state already.
    pub(crate) fn keep_rest(&mut self, data: &[u8]) {
        let block = self.plan.entry.block_len;
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

/// A message and the bytes to append.
pub(crate) type Update<'h, 'a> = (&'h mut Hasher, &'a [u8]);

/// A message so far, and what ends it.
pub(crate) type End<'h, 'a> = (&'h Hasher, &'a [u8]);

impl core::fmt::Debug for Hasher {
    /// Omits the message's state, which may be secret.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Hasher")
            .field("algorithm", &self.algorithm())
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

/// Appends to each message its data, all of them at once, one a lane. Algorithms and lengths may
/// differ.
///
/// # Panics
///
/// As [`hash_many`](crate::hash_many).
pub fn update_many(parts: &mut [(&mut Hasher, &[u8])]) {
    let first = match parts {
        [] => return,
        [(hasher, data)] => return hasher.update(data),
        [(hasher, _), ..] => hasher.algorithm(),
    };
    if parts.iter().all(|(hasher, _)| hasher.algorithm() == first) {
        return (first.entry().update_many)(Plan::chosen(first), parts);
    }
    for &algorithm in Algorithm::ALL {
        let of_this = parts
            .iter_mut()
            .filter(|(hasher, _)| hasher.algorithm() == algorithm);
        let mut some: Vec<_> = of_this
            .map(|(hasher, data)| (&mut **hasher, *data))
            .collect();
        (algorithm.entry().update_many)(Plan::chosen(algorithm), &mut some);
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
    let first = match parts {
        [] => return digests,
        &[(hasher, data)] => {
            let mut hasher = hasher.clone();
            hasher.update(data);
            return vec![hasher.finish_last()];
        }
        [(hasher, _), ..] => hasher.algorithm(),
    };
    if parts.iter().all(|(hasher, _)| hasher.algorithm() == first) {
        (first.entry().finish_many)(Plan::chosen(first), parts, &mut digests);
        return digests;
    }
    for &algorithm in Algorithm::ALL {
        let of_this = |i: &usize| parts[*i].0.algorithm() == algorithm;
        let picked: Vec<usize> = (0..parts.len()).filter(of_this).collect();
        let some: Vec<_> = picked.iter().map(|&i| parts[i]).collect();
        let mut found = vec![Digest::default(); some.len()];
        (algorithm.entry().finish_many)(Plan::chosen(algorithm), &some, &mut found);
        for (i, digest) in picked.into_iter().zip(found) {
            digests[i] = digest;
        }
    }
    digests
}
