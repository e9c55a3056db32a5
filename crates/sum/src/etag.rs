//! The ETags of S3.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use tabane_engine::{Algorithm, Digest, Hasher};

use crate::sum::Sum;

/// The way in which a file is uploaded to S3, on which its ETag depends.
///
/// An object that was uploaded whole (`PutObject`) has the MD5 of its bytes for an ETag. One that
/// was uploaded in parts has the MD5 of the parts' MD5s, then `-`, then the number of parts, even
/// if there is only one part. (Objects encrypted with SSE-KMS or SSE-C have ETags that no one can
/// compute from their bytes.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Length of each part but the last, in bytes.
    pub part_len: NonZeroU64,
    /// Files shorter than this, in bytes, are uploaded whole.
    pub whole_below: u64,
}

impl Upload {
    /// Files of `part_len` bytes or more in parts, shorter ones whole: what the AWS command line
    /// and SDKs do, with `part_len` of 8 MiB unless told otherwise.
    pub fn new(part_len: NonZeroU64) -> Self {
        Self {
            part_len,
            whole_below: part_len.get(),
        }
    }

    /// Uploads of every file in parts, even of a single part.
    pub fn always_in_parts(part_len: NonZeroU64) -> Self {
        Self {
            part_len,
            whole_below: 0,
        }
    }

    /// Number of parts of a file of `len` bytes; `None` if it is uploaded whole.
    pub fn parts(&self, len: u64) -> Option<u64> {
        (len >= self.whole_below).then(|| len.div_ceil(self.part_len.get()).max(1))
    }
}

/// Puts the digests of parts together, in whatever order they come.
pub(crate) struct Assembly {
    hasher: Hasher,
    parts: u64,
    /// Digests of parts whose predecessors are not hashed yet.
    waiting: BTreeMap<u64, Digest>,
}

impl Assembly {
    pub(crate) fn new() -> Self {
        Self {
            hasher: Hasher::new(Algorithm::Md5),
            parts: 0,
            waiting: BTreeMap::new(),
        }
    }

    /// Takes the MD5 of part `number`, counted from 0.
    pub(crate) fn add(&mut self, number: u64, digest: Digest) {
        self.waiting.insert(number, digest);
        while let Some(digest) = self.waiting.remove(&self.parts) {
            self.hasher.update(digest.as_ref());
            self.parts += 1;
        }
    }

    /// Number of consecutive parts hashed.
    pub(crate) fn parts(&self) -> u64 {
        self.parts
    }

    pub(crate) fn sum(&self) -> Sum {
        Sum {
            digest: self.hasher.finish(),
            parts: Some(self.parts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upload(part_len: u64) -> Upload {
        Upload::new(NonZeroU64::new(part_len).unwrap())
    }

    #[test]
    fn a_file_of_exactly_one_part_is_uploaded_in_one_part() {
        assert_eq!(upload(8).parts(0), None);
        assert_eq!(upload(8).parts(7), None);
        assert_eq!(upload(8).parts(8), Some(1));
        assert_eq!(upload(8).parts(9), Some(2));
        assert_eq!(upload(8).parts(17), Some(3));
        let always = Upload::always_in_parts(NonZeroU64::new(8).unwrap());
        assert_eq!(always.parts(0), Some(1));
        assert_eq!(always.parts(8), Some(1));
    }

    #[test]
    fn parts_may_come_in_any_order() {
        let digests: Vec<Digest> = (0..5_u8).map(|i| Algorithm::Md5.digest(&[i])).collect();
        let joined: Vec<u8> = digests.iter().flat_map(|d| d.as_ref().to_vec()).collect();
        let expected = format!("{}-5", Algorithm::Md5.digest(&joined));
        for order in [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]] {
            let mut assembly = Assembly::new();
            for number in order {
                assert!(assembly.parts() < 5);
                assembly.add(number, digests[number as usize]);
            }
            assert_eq!(assembly.sum().to_string(), expected);
        }
    }
}
