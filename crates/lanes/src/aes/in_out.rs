//! Source and destination of a message, which may be the same memory.

use core::marker::PhantomData;

use super::block::{BLOCK, Block};
use super::error::Error;

/// A message to work on: in place, or from one place to another of the same length.
///
/// ```
/// use tabane_lanes::aes::{InOut, Key, ecb_encrypt};
///
/// let key = Key::new(&[7; 16])?;
/// let (plain, mut cipher) = ([1; 32], [0; 32]);
/// ecb_encrypt(&key, InOut::apart(&plain, &mut cipher))?;
///
/// let mut in_place = plain;
/// ecb_encrypt(&key, &mut in_place)?;
/// assert_eq!(in_place, cipher);
/// # Ok::<(), tabane_lanes::aes::Error>(())
/// ```
pub struct InOut<'a> {
    /// Readable for `len` bytes.
    from: *const u8,
    /// Writable for `len` bytes: the same ones, or others.
    to: *mut u8,
    len: usize,
    lifetime: PhantomData<&'a mut [u8]>,
}

/// Whole blocks of an [`InOut`]: readable and writable as there.
#[derive(Clone, Copy)]
pub(super) struct Blocks {
    pub(super) from: *const Block,
    pub(super) to: *mut Block,
    pub(super) count: usize,
}

impl<'a> InOut<'a> {
    /// From one place to another.
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    #[inline]
    pub fn apart(from: &'a [u8], to: &'a mut [u8]) -> Self {
        assert_eq!(from.len(), to.len(), "from and to are of one length");
        Self {
            from: from.as_ptr(),
            to: to.as_mut_ptr(),
            len: from.len(),
            lifetime: PhantomData,
        }
    }

    /// Number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The message.
    pub fn source(&self) -> &[u8] {
        // SAFETY: `from` is readable for `len` bytes; the constructor's borrow excludes foreign
        // writes, and this borrow our own.
        unsafe { core::slice::from_raw_parts(self.from, self.len) }
    }

    /// The destination: the message's own memory, or another place.
    pub fn destination(&mut self) -> &mut [u8] {
        // SAFETY: `to` is writable for `len` bytes; the constructor's borrow excludes foreign
        // accesses, and this mutable borrow our own.
        unsafe { core::slice::from_raw_parts_mut(self.to, self.len) }
    }

    /// The place where the result goes, with the message copied there if it was elsewhere.
    pub fn into_place(self) -> &'a mut [u8] {
        // SAFETY: both are valid for `len` bytes, and are the same memory or do not overlap.
        unsafe {
            if self.from != self.to {
                self.to.copy_from_nonoverlapping(self.from, self.len);
            }
            core::slice::from_raw_parts_mut(self.to, self.len)
        }
    }

    /// Splits after `at` bytes.
    ///
    /// # Panics
    ///
    /// If there are fewer than `at` bytes.
    #[inline]
    pub fn split_at(self, at: usize) -> (Self, Self) {
        assert!(at <= self.len);
        let behind = Self {
            from: self.from.wrapping_add(at),
            to: self.to.wrapping_add(at),
            len: self.len - at,
            lifetime: PhantomData,
        };
        (Self { len: at, ..self }, behind)
    }

    /// The last block of the source.
    #[inline]
    pub(super) fn last_block(&self) -> Option<Block> {
        let at = self.len.checked_sub(BLOCK)?;
        // SAFETY: a block is before the end; bytes need no alignment.
        Some(unsafe { self.from.add(at).cast::<Block>().read() })
    }

    /// Puts each byte through `f`.
    #[inline]
    pub(super) fn map(&mut self, mut f: impl FnMut(u8) -> u8) {
        for i in 0..self.len {
            // SAFETY: within both places.
            unsafe { self.to.add(i).write(f(self.from.add(i).read())) };
        }
    }

    /// The blocks that are whole.
    #[inline]
    pub(super) fn blocks(&mut self) -> Blocks {
        Blocks {
            from: self.from.cast(),
            to: self.to.cast(),
            count: self.len / BLOCK,
        }
    }

    /// All blocks.
    ///
    /// # Errors
    ///
    /// [`Error::DataLength`] if the last one is not whole.
    #[inline]
    pub(super) fn whole_blocks(&mut self) -> Result<Blocks, Error> {
        if self.len().is_multiple_of(BLOCK) {
            Ok(self.blocks())
        } else {
            Err(Error::DataLength(self.len()))
        }
    }
}

impl<'a> From<&'a mut [u8]> for InOut<'a> {
    /// In place.
    #[inline]
    fn from(data: &'a mut [u8]) -> Self {
        let to = data.as_mut_ptr();
        Self {
            from: to,
            to,
            len: data.len(),
            lifetime: PhantomData,
        }
    }
}

impl<'a, const N: usize> From<&'a mut [u8; N]> for InOut<'a> {
    /// In place.
    #[inline]
    fn from(data: &'a mut [u8; N]) -> Self {
        data.as_mut_slice().into()
    }
}

impl<'a> From<&'a mut Vec<u8>> for InOut<'a> {
    /// In place.
    #[inline]
    fn from(data: &'a mut Vec<u8>) -> Self {
        data.as_mut_slice().into()
    }
}
