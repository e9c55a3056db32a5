//! A pool of reused buffers: page faults of fresh memory cost more than the work in it.

use std::sync::Mutex;

use crate::sync::lock;

/// Bytes from which buffers are pooled: the allocator keeps shorter ones itself.
const POOLED_MIN: usize = 32 << 10;

/// The most bytes kept in unused buffers.
const KEPT_MAX: usize = 128 << 20;

static SPARE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// An empty vector with room for `len` bytes; [`give_back`] returns it to the pool.
pub fn with_capacity(len: usize) -> Vec<u8> {
    let mut bytes = take(len);
    bytes.clear();
    bytes.reserve_exact(len);
    bytes
}

/// Returns memory to the pool.
pub fn give_back(bytes: Vec<u8>) {
    if bytes.capacity() < POOLED_MIN {
        return;
    }
    let mut spare = lock(&SPARE);
    let kept: usize = spare.iter().map(Vec::capacity).sum();
    if kept + bytes.capacity() <= KEPT_MAX {
        spare.push(bytes);
    }
}

/// Takes a pooled vector with room for `len` bytes, or an empty one.
fn take(len: usize) -> Vec<u8> {
    if len < POOLED_MIN {
        return Vec::new();
    }
    let mut spare = lock(&SPARE);
    let fits = |bytes: &Vec<u8>| (len..=4 * len).contains(&bytes.capacity());
    let found = spare.iter().position(fits);
    found.map_or_else(Vec::new, |found| spare.swap_remove(found))
}

/// Bytes whose memory returns to the pool.
#[derive(Default)]
pub struct Buffer(Vec<u8>);

impl Buffer {
    /// `len` bytes of any content, to be overwritten.
    pub fn of(len: usize) -> Self {
        let mut bytes = take(len);
        bytes.resize(len, 0);
        Self(bytes)
    }

    /// A copy of `bytes`, padded with zeros to `len`.
    pub fn padded(bytes: &[u8], len: usize) -> Self {
        let mut buffer = Self::of(len);
        let (start, end) = buffer.0.split_at_mut(bytes.len());
        start.copy_from_slice(bytes);
        end.fill(0);
        buffer
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        give_back(std::mem::take(&mut self.0));
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_have_the_length_that_is_asked_for_and_padding_of_zeros() {
        for len in [
            0,
            1,
            POOLED_MIN - 1,
            POOLED_MIN,
            3 * POOLED_MIN,
            POOLED_MIN + 5,
        ] {
            let mut dirty = Buffer::of(len);
            dirty.as_mut().fill(0xff);
            drop(dirty);
            assert_eq!(Buffer::of(len).as_ref().len(), len);
            let bytes = vec![7; len / 2];
            let padded = Buffer::padded(&bytes, len);
            assert_eq!(padded.as_ref()[..len / 2], bytes);
            assert!(padded.as_ref()[len / 2..].iter().all(|&byte| byte == 0));
            assert_eq!(padded.as_ref().len(), len);
        }
    }
}
