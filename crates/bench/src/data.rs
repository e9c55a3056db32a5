//! What is hashed and copied: bytes without a pattern, and messages cut from them.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use tabane_testing::random::Random;

/// Lengths of mixed messages lie between 1 B and two to the power of this.
const MIXED_BITS: f64 = 20.0;

/// Bytes without a pattern.
pub fn noise(len: usize) -> Vec<u8> {
    Random::at(1).noise(len)
}

/// Text to a compressor: words of 4096, some much rarer than others, in another order for each
/// seed.
pub fn words(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::at(3);
    let mut word = || -> Vec<u8> {
        let letters = random.next_u64();
        let count = 2 + letters as usize % 9;
        let letter = |index| b'a' + (letters >> (5 * index + 4)) as u8 % 26;
        (0..count).map(letter).chain([b' ']).collect()
    };
    let dictionary: Vec<Vec<u8>> = (0..4096).map(|_| word()).collect();
    let mut random = Random::at(seed);
    let mut text = Vec::with_capacity(len + 16);
    while text.len() < len {
        let drawn = random.next_u64();
        let rank = (drawn as u32 as u64 * (drawn >> 32)) >> 52;
        text.extend_from_slice(&dictionary[rank as usize]);
    }
    text.truncate(len);
    text
}

/// Makes a file of so many bytes, whole MiB of them.
pub fn make_file(path: &Path, bytes: u64) -> Result<()> {
    let noise = noise(1 << 20);
    let mut file = BufWriter::new(File::create(path).context("cannot make the large file")?);
    for number in 0..bytes >> 20 {
        file.write_all(&noise[8..])
            .and_then(|()| file.write_all(&number.to_le_bytes()))
            .context("cannot write the large file")?;
    }
    file.flush().context("cannot write the large file")
}

/// Lengths of that many messages from 1 B to 1 MiB, their logarithms uniform, of no more than
/// `bytes` in all.
pub fn mixed_lens(count: usize, bytes: usize) -> Vec<usize> {
    let mut random = Random::at(2);
    let mut rest = bytes;
    let next = |_| {
        let uniform = random.next_u64() as f64 / u64::MAX as f64;
        let len = (MIXED_BITS * uniform).exp2() as usize;
        rest = rest.checked_sub(len)?;
        Some(len)
    };
    (0..count).map_while(next).collect()
}

/// Messages of these lengths, one after the other from the beginning of `data`.
///
/// # Panics
///
/// If it is shorter.
pub fn cut<'a>(mut data: &'a [u8], lens: &[usize]) -> Vec<&'a [u8]> {
    let cut = lens
        .iter()
        .map(|&len| data.split_off(..len).expect("enough data"));
    cut.collect()
}

/// As [`cut`], to be changed.
pub fn cut_mut<'a>(mut data: &'a mut [u8], lens: &[usize]) -> Vec<&'a mut [u8]> {
    let cut = lens
        .iter()
        .map(|&len| data.split_off_mut(..len).expect("enough data"));
    cut.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixed_messages_are_short_and_long() {
        let lens = mixed_lens(1000, usize::MAX);
        assert_eq!(lens.len(), 1000);
        let shorter = |than| lens.iter().filter(|&&len| len < than).count();
        assert_eq!(shorter(1), 0);
        // Half of the logarithms are below ten bits.
        assert!(
            (450..550).contains(&shorter(1 << 10)),
            "{}",
            shorter(1 << 10)
        );
        assert_eq!(shorter((1 << 20) + 1), 1000);
        let some = mixed_lens(1000, 5 << 20);
        assert!(some.len() < 200 && lens.starts_with(&some));
        assert!(some.iter().sum::<usize>() <= 5 << 20);
    }

    #[test]
    fn words_differ_by_seed_only() {
        let text = words(10_000, 1);
        assert_eq!(text.len(), 10_000);
        assert!(text.iter().all(|byte| matches!(byte, b'a'..=b'z' | b' ')));
        assert_eq!(text, words(10_000, 1));
        assert_ne!(text, words(10_000, 2));
    }

    #[test]
    fn cuts() {
        let mut data = noise(100);
        let lens = [10, 0, 1, 89];
        assert_eq!(cut(&data, &lens).concat(), data);
        cut_mut(&mut data, &lens)[2][0] = 7;
        assert_eq!(data[10], 7);
    }
}
