//! Messages of many owners that are hashed in one go.

use std::ops::Range;

use crate::algorithm::Algorithm;
use crate::digest::Digest;

/// Messages in one buffer, each with a tag that names its owner.
///
/// Callers append bytes to [`Bundle::arena`] and mark each message's range by [`Bundle::add`];
/// messages of different owners fill the same lanes.
pub struct Bundle<T> {
    /// The bytes; append freely, ranges that were added must stay as they are.
    pub arena: Vec<u8>,
    messages: Vec<(Range<usize>, T)>,
}

impl<T> Bundle<T> {
    /// A bundle without messages, whose arena is `arena`.
    pub fn new(arena: Vec<u8>) -> Self {
        Self {
            arena,
            messages: Vec::new(),
        }
    }

    /// Makes `range` of the arena a message that belongs to `tag`.
    ///
    /// # Panics
    /// When the range is not within the arena.
    pub fn add(&mut self, range: Range<usize>, tag: T) {
        assert!(range.start <= range.end && range.end <= self.arena.len());
        self.messages.push((range, tag));
    }

    /// Number of messages.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether the bundle has no message.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Each message with its tag, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &T)> {
        self.messages
            .iter()
            .map(|(range, tag)| (&self.arena[range.clone()], tag))
    }

    /// The digests of all messages, in the order in which they were added.
    pub fn digests(&self, algorithm: Algorithm) -> Vec<Digest> {
        let messages: Vec<&[u8]> = self.iter().map(|(message, _)| message).collect();
        algorithm.digest_many(&messages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_equals_its_messages() {
        let mut bundle = Bundle::new(Vec::new());
        for owner in 0..40_usize {
            let start = bundle.arena.len();
            bundle
                .arena
                .extend((0..owner * 7).map(|i| (i ^ owner) as u8));
            bundle.add(start..bundle.arena.len(), owner);
        }
        let digests = bundle.digests(Algorithm::Sha256);
        assert_eq!(bundle.len(), 40);
        for ((message, &owner), digest) in bundle.iter().zip(digests) {
            assert_eq!(message.len(), owner * 7);
            assert_eq!(digest, Algorithm::Sha256.digest(message));
        }
    }
}
