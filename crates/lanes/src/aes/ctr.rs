//! Counter mode as a stream.

use core::fmt;

use zeroize::Zeroize;

use super::block::{BLOCK, Block};
use super::in_out::InOut;
use super::key::Key;

/// A message in CTR mode (NIST SP 800-38A), encrypted or decrypted piece by piece, in pieces of any
/// length.
///
/// The whole counter block counts, as a big-endian number modulo 2¹²⁸. (Where the standard of a
/// protocol counts in fewer bits, as GCM does in 32, the two agree until that count wraps.)
///
/// ```
/// use tabane_lanes::aes::{Ctr, Key};
///
/// let key = Key::new(&[7; 32])?;
/// let mut message = *b"attack at dawn";
/// Ctr::new(&key, &[9; 16]).apply(&mut message);
///
/// let mut again = Ctr::new(&key, &[9; 16]);
/// let (a, b) = message.split_at_mut(5);
/// again.apply(a);
/// again.apply(b);
/// assert_eq!(&message, b"attack at dawn");
/// # Ok::<(), tabane_lanes::aes::Error>(())
/// ```
pub struct Ctr<'k> {
    key: &'k Key,
    /// The number of the next whole block.
    counter: u128,
    /// The last block of keystream that was begun.
    stream: Block,
    /// Number of its bytes that are used: all if no block is begun.
    used: usize,
}

impl<'k> Ctr<'k> {
    /// Starts at a counter block: a nonce and a first count, mostly. Never use one twice with the
    /// same key.
    pub fn new(key: &'k Key, counter_block: &[u8; BLOCK]) -> Self {
        Self {
            key,
            counter: u128::from_be_bytes(*counter_block),
            stream: [0; BLOCK],
            used: BLOCK,
        }
    }

    /// Encrypts or decrypts the next bytes of the message.
    pub fn apply<'a>(&mut self, data: impl Into<InOut<'a>>) {
        let data = data.into();
        let begun = data.len().min(BLOCK - self.used);
        let (begun, data) = data.split_at(begun);
        self.apply_stream(begun);

        let whole = data.len() / BLOCK * BLOCK;
        let (whole, rest) = data.split_at(whole);
        self.apply_blocks(whole);

        if !rest.is_empty() {
            let mut stream = [0; BLOCK];
            self.apply_blocks((&mut stream).into());
            self.stream = stream;
            self.used = 0;
            self.apply_stream(rest);
        }
    }

    fn apply_stream(&mut self, mut data: InOut) {
        data.map(|byte| {
            self.used += 1;
            byte ^ self.stream[self.used - 1]
        });
    }

    fn apply_blocks(&mut self, mut data: InOut) {
        let blocks = data.blocks();
        // SAFETY: a key's backend is available.
        unsafe { (self.key.kernels().ctr)(self.key, self.counter, blocks) };
        self.counter = self.counter.wrapping_add(blocks.count as u128);
    }
}

impl fmt::Debug for Ctr<'_> {
    /// No secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ctr({:?})", self.key)
    }
}

impl Drop for Ctr<'_> {
    fn drop(&mut self) {
        self.stream.zeroize();
    }
}
