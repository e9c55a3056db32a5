//! Hashes of other crates, which take one message at a time.

use std::hash::Hasher;
use std::hint::black_box;

use highway::HighwayHash;
use siphasher::sip::SipHasher24;
use twox_hash::{XxHash3_64, XxHash3_128, XxHash32, XxHash64, xxhash3_64, xxhash3_128};

use crate::digest::Digest;
use crate::vmac::{Nonce, Vmac};

/// A message so far.
pub(crate) trait Serial: TryClone + Send + Sync {
    /// Appends to the message.
    fn update(&mut self, part: &[u8]);

    /// The digest of the message so far.
    fn finish(&self) -> Digest;
}

/// Copies the state behind a `dyn Serial`.
pub(crate) trait TryClone {
    /// Another message, the same so far, if the state can be copied.
    fn try_clone(&self) -> Option<Box<dyn Serial>>;
}

impl<S: Serial + Clone + 'static> TryClone for S {
    fn try_clone(&self) -> Option<Box<dyn Serial>> {
        Some(Box::new(self.clone()))
    }
}

/// Begins a message under a key of the length that the table says.
pub(crate) type Begin = fn(key: &[u8]) -> Box<dyn Serial>;

/// Wraps a digest of an algorithm of the table, none of which exceeds `DIGEST_LEN_MAX`.
pub(crate) fn digest(bytes: &[u8]) -> Digest {
    Digest::from_bytes(bytes).expect("none is longer than the longest")
}

/// Converts a digest of `tabane_lanes`, none of which exceeds `DIGEST_LEN_MAX`.
pub(crate) fn from_lanes(lanes: &tabane_lanes::Digest) -> Digest {
    digest(lanes.as_bytes())
}

/// The bytes of a key, whose length was compared with the table.
pub(crate) fn exactly<const LEN: usize>(key: &[u8]) -> [u8; LEN] {
    key.try_into().expect("the length was checked")
}

/// A state that contains a key, overwritten before its memory is freed. Copies that the crates' own
/// functions leave on the stack cannot be overwritten.
#[derive(Clone)]
struct Secret<S: Default>(S);

impl<S: Default> Drop for Secret<S> {
    fn drop(&mut self) {
        self.0 = S::default();
        // Keeps the compiler from removing the overwriting as unread.
        black_box(&self.0);
    }
}

impl Serial for blake3::Hasher {
    fn update(&mut self, part: &[u8]) {
        self.update(part);
    }

    fn finish(&self) -> Digest {
        digest(self.finalize().as_bytes())
    }
}

pub(crate) fn blake3(_: &[u8]) -> Box<dyn Serial> {
    Box::new(blake3::Hasher::new())
}

impl Serial for Secret<blake3::Hasher> {
    fn update(&mut self, part: &[u8]) {
        self.0.update(part);
    }

    fn finish(&self) -> Digest {
        Serial::finish(&self.0)
    }
}

pub(crate) fn blake3_keyed(key: &[u8]) -> Box<dyn Serial> {
    Box::new(Secret(blake3::Hasher::new_keyed(&exactly(key))))
}

impl Serial for XxHash32 {
    fn update(&mut self, part: &[u8]) {
        self.write(part);
    }

    fn finish(&self) -> Digest {
        digest(&self.finish_32().to_be_bytes())
    }
}

pub(crate) fn xxh32(_: &[u8]) -> Box<dyn Serial> {
    Box::new(XxHash32::with_seed(0))
}

impl Serial for XxHash64 {
    fn update(&mut self, part: &[u8]) {
        self.write(part);
    }

    fn finish(&self) -> Digest {
        digest(&Hasher::finish(self).to_be_bytes())
    }
}

pub(crate) fn xxh64(_: &[u8]) -> Box<dyn Serial> {
    Box::new(XxHash64::with_seed(0))
}

impl Serial for xxhash3_64::Hasher {
    fn update(&mut self, part: &[u8]) {
        self.write(part);
    }

    fn finish(&self) -> Digest {
        digest(&Hasher::finish(self).to_be_bytes())
    }
}

pub(crate) fn xxh3(_: &[u8]) -> Box<dyn Serial> {
    wide(|message| match message {
        Ok(sum) => digest(&(sum as u64).to_be_bytes()),
        Err(short) => digest(&XxHash3_64::oneshot(short).to_be_bytes()),
    })
    .unwrap_or_else(|| Box::new(xxhash3_64::Hasher::new()))
}

impl Serial for xxhash3_128::Hasher {
    fn update(&mut self, part: &[u8]) {
        self.write(part);
    }

    fn finish(&self) -> Digest {
        digest(&self.finish_128().to_be_bytes())
    }
}

pub(crate) fn xxh128(_: &[u8]) -> Box<dyn Serial> {
    wide(|message| match message {
        Ok(sum) => digest(&sum.to_be_bytes()),
        Err(short) => digest(&XxHash3_128::oneshot(short).to_be_bytes()),
    })
    .unwrap_or_else(|| Box::new(xxhash3_128::Hasher::new()))
}

/// Makes the digest from XXH3's result for a long message, or from a short message itself.
type OfXxh3 = fn(Result<u128, &[u8]>) -> Digest;

/// XXH3 with AVX-512, if there is that.
#[cfg(target_arch = "x86_64")]
fn wide(digest: OfXxh3) -> Option<Box<dyn Serial>> {
    #[derive(Clone)]
    struct Wide(tabane_lanes::xxh3::Xxh3, OfXxh3);

    impl Serial for Wide {
        fn update(&mut self, part: &[u8]) {
            self.0.update(part);
        }

        fn finish(&self) -> Digest {
            self.1(self.0.finish())
        }
    }

    Some(Box::new(Wide(tabane_lanes::xxh3::Xxh3::new()?, digest)))
}

#[cfg(not(target_arch = "x86_64"))]
fn wide(_: OfXxh3) -> Option<Box<dyn Serial>> {
    None
}

/// The crate's hasher is not `Clone`.
struct Murmur3(mur3::Hasher128);

impl TryClone for Murmur3 {
    fn try_clone(&self) -> Option<Box<dyn Serial>> {
        None
    }
}

impl Serial for Murmur3 {
    fn update(&mut self, part: &[u8]) {
        self.0.write(part);
    }

    fn finish(&self) -> Digest {
        let (first, second) = self.0.finish128();
        digest(&[first.to_le_bytes(), second.to_le_bytes()].concat())
    }
}

pub(crate) fn murmur3(_: &[u8]) -> Box<dyn Serial> {
    Box::new(Murmur3(mur3::Hasher128::with_seed(0)))
}

impl Serial for Secret<highway::HighwayHasher> {
    fn update(&mut self, part: &[u8]) {
        self.0.append(part);
    }

    fn finish(&self) -> Digest {
        let words = self.0.clone().finalize256();
        digest(&words.map(u64::to_le_bytes).concat())
    }
}

pub(crate) fn highwayhash256(key: &[u8]) -> Box<dyn Serial> {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(key.chunks_exact(8)) {
        *word = u64::from_le_bytes(exactly(bytes));
    }
    let hasher = highway::HighwayHasher::new(highway::Key(words));
    Box::new(Secret(hasher))
}

impl Serial for Secret<SipHasher24> {
    fn update(&mut self, part: &[u8]) {
        self.0.write(part);
    }

    fn finish(&self) -> Digest {
        digest(&Hasher::finish(&self.0).to_le_bytes())
    }
}

pub(crate) fn siphash24(key: &[u8]) -> Box<dyn Serial> {
    Box::new(Secret(SipHasher24::new_with_key(&exactly(key))))
}

/// Collects a message, which is hashed as a whole at its end.
#[derive(Clone)]
pub(crate) struct Whole {
    pub(crate) message: Vec<u8>,
    pub(crate) digest: fn(&[u8]) -> Digest,
}

impl Serial for Whole {
    fn update(&mut self, part: &[u8]) {
        self.message.extend_from_slice(part);
    }

    fn finish(&self) -> Digest {
        (self.digest)(&self.message)
    }
}

/// A message under VMAC, with the nonce of a digest to check, or else a fresh one for each digest.
#[derive(Clone)]
pub(crate) struct WithNonce {
    pub(crate) vmac: Vmac,
    pub(crate) nonce: Option<[u8; 16]>,
}

impl Serial for WithNonce {
    fn update(&mut self, part: &[u8]) {
        self.vmac.update(part);
    }

    fn finish(&self) -> Digest {
        let (nonce, tag) = match self.nonce {
            None => {
                let (nonce, tag) = self.vmac.finish();
                (*nonce.as_bytes(), tag)
            }
            Some(bytes) => {
                let nonce = Nonce::from_bytes(&bytes).expect("it was one");
                (bytes, self.vmac.clone().finish_under_nonce(nonce))
            }
        };
        digest(&[&nonce, tag.as_ref()].concat())
    }
}

pub(crate) fn cityhash128(message: &[u8]) -> Digest {
    // The crate's upper half is what the reference calls the first, and puts first.
    let halves = cityhash_rs::cityhash_110_128(message).rotate_right(64);
    digest(&halves.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::Algorithm;

    /// Every length of short ones, and around the stripes and blocks of long ones.
    #[test]
    fn xxh3_is_that_of_the_crate() {
        let bytes: Vec<u8> = (0..9000_u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 17) as u8)
            .collect();
        if wide(|_| digest(&[])).is_none() {
            println!(
                "NOT CHECKED: XXH3 with AVX-512: this processor lacks it, or TABANE_SIMD forbids it"
            );
        }
        for len in (0..1400)
            .chain((1400..9000).step_by(63))
            .chain([2048, 2049, 4096, 8192, 8193])
        {
            let message = &bytes[bytes.len() - len..];
            let sums = [Algorithm::Xxh3, Algorithm::Xxh128].map(|one| one.digest(message));
            assert_eq!(
                sums[0],
                digest(&XxHash3_64::oneshot(message).to_be_bytes()),
                "{len}"
            );
            assert_eq!(
                sums[1],
                digest(&XxHash3_128::oneshot(message).to_be_bytes()),
                "{len}"
            );
        }
    }
}
