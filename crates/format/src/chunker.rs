//! The chunker, which cuts files into blocks.
//!
//! Content-defined: over the last 32 bytes `b[0..32]` that end at a position, the gear hash is `Σ
//! table[b[31-k]] << k (mod 2³²)`. A block ends behind the first byte at which it is at least `min`
//! long and the hash is below a limit, which is stricter before the block has reached `avg` than
//! after (normalised chunking, as in FastCDC, Xia et al. 2016), or when it is `max` long. Since the
//! hash depends on 32 bytes alone and `min` is larger, possible cut points do not depend on earlier
//! cuts; so [`Gear`] searches many stretches of the data at once, and bytes skipped before `min`
//! are not hashed at all.
//!
//! The table comes from a secret of the repository: cut points of a known table would tell an
//! observer of block lengths which files are stored (see `docs/explanation/threat-model.md`).

use std::ops::Range;

use serde::{Deserialize, Serialize};
use tabane_lanes::gear::Gear;

use crate::crypto::derive;
use crate::error::{Error, Result};
use tabane_storage::Id;

/// Bytes of a block at most.
pub use tabane_index::BLOCK_LEN_MAX;

/// No block but a file's last is shorter than this many bytes.
const BLOCK_LEN_MIN: u32 = 1 << 10;

/// How much rarer a cut is before the average than after: a factor of 2^(2 · this).
const NORMALISATION: u32 = 2;

/// Methods of cutting files, with lengths in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Chunking {
    /// Cut points by content: an insertion changes only the blocks around it.
    Content {
        /// Bytes of every block but a file's last, at least.
        min: u32,
        /// Bytes from which cuts become more likely; a power of two.
        avg: u32,
        /// Bytes of a block at most.
        max: u32,
    },
    /// Blocks of equal length: for disk images and databases that are changed in place.
    Fixed {
        /// Length of every block but the last.
        len: u32,
    },
}

impl Default for Chunking {
    /// The sizes that docs/notebook.md's table of real trees led to.
    fn default() -> Self {
        Self::content(128 << 10)
    }
}

impl Chunking {
    /// Content-defined with an average length, from a quarter of it to eight times as much.
    pub fn content(avg: u32) -> Self {
        Self::Content {
            min: avg / 4,
            avg,
            max: avg * 8,
        }
    }

    /// Checks that these lengths can be used.
    ///
    /// # Errors
    /// [`Error::Invalid`], which names the wrong length.
    pub fn validate(&self) -> Result<()> {
        let valid = match *self {
            Self::Fixed { len } => (BLOCK_LEN_MIN..=BLOCK_LEN_MAX).contains(&len),
            Self::Content { min, avg, max } => {
                BLOCK_LEN_MIN <= min
                    && min < avg
                    && avg < max
                    && max <= BLOCK_LEN_MAX
                    && avg.is_power_of_two()
            }
        };
        if valid {
            return Ok(());
        }
        Err(Error::Invalid(format!(
            "cannot use blocks of this length: a fixed length must be from {BLOCK_LEN_MIN} to \
             {BLOCK_LEN_MAX} bytes, an average a power of two from {} to {}",
            4 * BLOCK_LEN_MIN,
            BLOCK_LEN_MAX / 8
        )))
    }
}

/// Cuts files into blocks.
#[derive(Clone)]
pub struct Chunker {
    gear: Box<Gear>,
    min: usize,
    avg: usize,
    max: usize,
    /// A cut before `avg` bytes needs a hash below this…
    strict: u32,
    /// …and a cut from `avg` bytes on, one below this.
    lax: u32,
}

impl Chunker {
    /// The chunker of a repository.
    ///
    /// # Errors
    /// See [`Chunking::validate`].
    pub fn new(chunking: Chunking, secret: &Id) -> Result<Self> {
        chunking.validate()?;
        let (min, avg, max) = match chunking {
            Chunking::Content { min, avg, max } => (min, avg, max),
            Chunking::Fixed { len } => (len, len, len),
        };
        let bits = avg.ilog2();
        Ok(Self {
            gear: Box::new(Gear::new(gear_table(secret))),
            min: min as usize,
            avg: avg as usize,
            max: max as usize,
            strict: 1 << (32 - bits - NORMALISATION),
            lax: 1 << (32 - bits + NORMALISATION),
        })
    }

    /// The length of the longest block in bytes.
    pub fn block_len_max(&self) -> usize {
        self.max
    }

    /// Length of the first block of `data` in bytes; `None` when it depends on data to come.
    ///
    /// With `end`, `data` ends where the file does, and the result is `None` only for empty data.
    pub fn first_block(&self, data: &[u8], end: bool) -> Option<usize> {
        let usable = &data[..data.len().min(self.max)];
        if let Some(last) = self.last_of_first(usable.len(), |positions, limit| {
            let data = &usable[..positions.end];
            self.gear.first_below(data, positions.start, limit)
        }) {
            return Some(last + 1);
        }
        if usable.len() == self.max {
            return Some(self.max);
        }
        (end && !data.is_empty()).then_some(data.len())
    }

    /// The table of the gear hash, which is a secret, and its strict and lax limit: for a search
    /// elsewhere, whose result [`Chunker::blocks_by`] takes.
    pub fn hash(&self) -> (&[u32; 256], [u32; 2]) {
        (self.gear.table(), [self.strict, self.lax])
    }

    /// The lengths of all blocks of `len` bytes that are hashed elsewhere.
    ///
    /// Of the positions given, `first_below` finds the first at which the hash is below the strict
    /// limit (`true`) or the lax one.
    pub fn blocks_by(
        &self,
        len: usize,
        first_below: impl Fn(Range<usize>, bool) -> Option<usize>,
    ) -> Vec<usize> {
        let (mut start, mut lens) = (0, Vec::new());
        while start < len {
            let usable = (len - start).min(self.max);
            let last = self.last_of_first(usable, |positions, limit| {
                let positions = start + positions.start..start + positions.end;
                Some(first_below(positions, limit == self.strict)? - start)
            });
            lens.push(last.map_or(usable, |last| last + 1));
            start += lens[lens.len() - 1];
        }
        lens
    }

    /// The position of the first cut in `len` bytes, as far as the hash decides it: `first_below`
    /// finds the first of the positions at which it is below the limit.
    fn last_of_first(
        &self,
        len: usize,
        first_below: impl Fn(Range<usize>, u32) -> Option<usize>,
    ) -> Option<usize> {
        if len <= self.min {
            return None;
        }
        // The strict bound holds up to here: up to the average length, or all of shorter data.
        let middle = len.min(self.avg - 1);
        first_below(self.min - 1..middle, self.strict)
            .or_else(|| first_below(middle..len, self.lax))
    }

    /// The lengths of the blocks of `data` that are certain, in order; with `end`, of all blocks.
    pub fn blocks<'a>(&'a self, data: &'a [u8], end: bool) -> impl Iterator<Item = usize> + 'a {
        let mut rest = data;
        std::iter::from_fn(move || {
            let len = self.first_block(rest, end)?;
            rest = &rest[len..];
            Some(len)
        })
    }
}

/// The table of a repository's gear hash.
fn gear_table(secret: &Id) -> [u32; 256] {
    let mut bytes = [0; 1024];
    derive(&secret.0, &[], b"tabane/1 gear table", &mut bytes);
    let mut numbers = bytes.as_chunks().0.iter().copied().map(u32::from_le_bytes);
    [(); 256].map(|()| numbers.next().expect("there are 256 of 4 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn noise(len: usize, seed: u64) -> Vec<u8> {
        let mut state = seed | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.wrapping_mul(0x2545_f491_4f6c_dd1d)
        };
        (0..len.div_ceil(8))
            .flat_map(|_| next().to_le_bytes())
            .take(len)
            .collect()
    }

    /// The definition, word for word.
    fn defined(chunker: &Chunker, secret: &Id, data: &[u8]) -> Vec<usize> {
        let table = gear_table(secret);
        let hash_at = |end: usize| {
            data[end - 31..=end]
                .iter()
                .rev()
                .enumerate()
                .map(|(k, &byte)| table[usize::from(byte)] << k)
                .fold(0, u32::wrapping_add)
        };
        let (mut start, mut lens) = (0, Vec::new());
        for end in 0..data.len() {
            let len = end + 1 - start;
            let limit = if len < chunker.avg {
                chunker.strict
            } else {
                chunker.lax
            };
            if len == chunker.max || len >= chunker.min && hash_at(end) < limit {
                lens.push(len);
                start = end + 1;
            }
        }
        if start < data.len() {
            lens.push(data.len() - start);
        }
        lens
    }

    #[test]
    fn cuts_equal_the_definition() {
        for (avg, seed) in [(4096, 1), (16384, 7), (65536, 9)] {
            let secret = Id([seed; 32]);
            let chunker = Chunker::new(Chunking::content(avg), &secret).unwrap();
            let mut data = noise(1 << 20, u64::from(seed));
            data[300_000..500_000].fill(0);
            let lens: Vec<usize> = chunker.blocks(&data, true).collect();
            assert_eq!(lens, defined(&chunker, &secret, &data), "average {avg}");
            let elsewhere = chunker.blocks_by(data.len(), |positions, strict| {
                let (table, [strict_limit, lax_limit]) = chunker.hash();
                let limit = if strict { strict_limit } else { lax_limit };
                Gear::new(*table).first_below(&data[..positions.end], positions.start, limit)
            });
            assert_eq!(lens, elsewhere, "average {avg}");
            assert!(lens.len() > (1 << 20) / avg as usize / 3);
        }
    }

    /// The lengths come from the definition as a few lines of Python compute it, with the table.
    #[test]
    fn a_secret_always_cuts_at_the_same_places() {
        let chunker = Chunker::new(Chunking::content(16384), &Id([7; 32])).unwrap();
        let lens: Vec<usize> = chunker.blocks(&noise(1 << 20, 7), true).collect();
        assert_eq!(lens.len(), 58);
        let first = [17818, 18384, 19308, 21881, 7579, 17353, 22973, 16599];
        assert_eq!((&lens[..8], lens[57]), (&first[..], 6515));
        assert_eq!(chunker.block_len_max(), 8 * 16384);
    }

    #[test]
    fn the_limit_changes_at_the_average_length() {
        let chunker = Chunker::new(Chunking::content(4096), &Id([3; 32])).unwrap();
        let searched = |len| {
            let searched = std::cell::RefCell::new(Vec::new());
            let none = chunker.last_of_first(len, |positions, limit| {
                searched.borrow_mut().push((positions, limit));
                None
            });
            assert_eq!(none, None);
            searched.into_inner()
        };
        let (strict, lax) = (chunker.strict, chunker.lax);
        assert_eq!((strict, lax), (1 << 18, 1 << 22));
        assert_eq!(searched(1024), []);
        assert_eq!(searched(1025), [(1023..1025, strict), (1025..1025, lax)]);
        let long = [(1023..4095, strict), (4095..9000, lax)];
        assert_eq!(searched(9000), long);
    }

    #[test]
    fn lengths_that_cannot_be_used_are_refused() {
        let content = |min, avg, max| Chunking::Content { min, avg, max }.validate().is_ok();
        assert!(content(1024, 4096, BLOCK_LEN_MAX));
        assert!(content(1024, 2048, 4096));
        for (min, avg, max) in [
            (1023, 4096, 8192),
            (4096, 4096, 8192),
            (1024, 4096, 4096),
            (1024, 4096, BLOCK_LEN_MAX + 1),
            (1024, 4097, 8192),
        ] {
            assert!(!content(min, avg, max), "{min} {avg} {max}");
        }
        let fixed = |len| Chunking::Fixed { len }.validate().is_ok();
        assert!(fixed(1024) && fixed(BLOCK_LEN_MAX));
        assert!(!fixed(1023) && !fixed(BLOCK_LEN_MAX + 1));
    }

    #[test]
    fn an_insertion_changes_few_blocks() {
        let chunker = Chunker::new(Chunking::content(4096), &Id([3; 32])).unwrap();
        let blocks = |data: &[u8]| -> std::collections::HashSet<Vec<u8>> {
            let mut at = 0;
            let next = |len: usize| {
                at += len;
                data[at - len..at].to_vec()
            };
            chunker.blocks(data, true).map(next).collect()
        };
        let before = noise(1 << 20, 5);
        let mut after = before.clone();
        after.splice(500_000..500_000, [1, 2, 3]);
        let (before, after) = (blocks(&before), blocks(&after));
        assert!(after.difference(&before).count() <= 3);
    }

    #[test]
    fn another_secret_cuts_elsewhere() {
        let cuts = |secret| -> Vec<usize> {
            let chunker = Chunker::new(Chunking::content(4096), &Id([secret; 32])).unwrap();
            chunker.blocks(&noise(1 << 18, 2), true).collect()
        };
        assert_ne!(cuts(1), cuts(2));
    }

    #[test]
    fn where_the_data_end_for_now_is_no_cut() {
        let chunker = Chunker::new(Chunking::content(4096), &Id([8; 32])).unwrap();
        let data = noise(12_000, 77);
        let all: Vec<usize> = chunker.blocks(&data, true).collect();
        for shown in 0..data.len() {
            let some: Vec<usize> = chunker.blocks(&data[..shown], false).collect();
            assert_eq!(&all[..some.len()], &some[..], "{shown} bytes shown");
        }
    }

    proptest! {
        #[test]
        fn what_is_certain_stays(len in 0_usize..40_000, shown in 0_usize..40_000, fixed: bool) {
            let chunking = if fixed { Chunking::Fixed { len: 4096 } } else {
                Chunking::content(4096) };
            let chunker = Chunker::new(chunking, &Id([8; 32])).unwrap();
            let data = noise(len, 77);
            let all: Vec<usize> = chunker.blocks(&data, true).collect();
            let some: Vec<usize> = chunker.blocks(&data[..shown.min(len)], false).collect();
            prop_assert_eq!(&all[..some.len()], &some[..]);
            prop_assert_eq!(all.iter().sum::<usize>(), len);
        }

        #[test]
        fn any_lengths_cut_as_defined(
            len in 0_usize..60_000,
            min in 1024_u32..4000,
            bits in 12_u32..15,
            more in 1_u32..40_000,
            hole in 0_usize..50_000,
            seed: u64,
        ) {
            let (avg, secret) = (1 << bits, Id([seed as u8; 32]));
            let chunking = Chunking::Content { min, avg, max: avg + more };
            let chunker = Chunker::new(chunking, &secret).unwrap();
            let mut data = noise(len, seed);
            if let Some(constant) = data.get_mut(hole..) {
                let len = constant.len().min(9000);
                constant[..len].fill(seed as u8);
            }
            let lens: Vec<usize> = chunker.blocks(&data, true).collect();
            prop_assert_eq!(lens, defined(&chunker, &secret, &data));
        }
    }
}
