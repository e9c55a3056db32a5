//! Damages samples.

use crate::random::Random;

/// Makes inputs out of samples, the same ones from the same seed.
pub struct Mutator {
    random: Random,
}

/// Numbers at the edges of types, in the ways in which they are written: varint, JSON.
const NUMBERS: &[&[u8]] = &[
    &[0],
    &[0x7f],
    &[0x80, 0x00],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0x80, 0x80, 0x80, 0x08],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    &[0xff; 11],
    b"-1",
    b"0",
    b"1e999",
    b"4294967295",
    b"18446744073709551616",
    b"null",
    b"\"\"",
    b"[[[[[[[[[[[[[[[[",
    b"\\u0000",
];

impl Mutator {
    /// The mutator of this seed.
    pub fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
        }
    }

    /// A number below `bound`; 0 if there is none.
    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound.max(1) as u64) as usize
    }

    /// One of the samples with one to four damages.
    pub fn mutate(&mut self, samples: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = samples[self.below(samples.len())].clone();
        for _ in 0..=self.below(4) {
            self.damage(&mut bytes, samples);
        }
        bytes
    }

    fn damage(&mut self, bytes: &mut Vec<u8>, samples: &[Vec<u8>]) {
        let at = self.below(bytes.len());
        let end = at + self.below((bytes.len() - at).min(40) + 1);
        match self.below(9) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
            1 if !bytes.is_empty() => bytes[at] = self.random.next_u64() as u8,
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..end)),
            4 => {
                let copied = bytes[at..end].to_vec();
                let to = self.below(bytes.len() + 1);
                bytes.splice(to..to, copied);
            }
            5 => {
                let other = &samples[self.below(samples.len())];
                let from = self.below(other.len());
                bytes.splice(at.., other[from..].iter().copied());
            }
            6 => {
                let number = NUMBERS[self.below(NUMBERS.len())];
                // Instead of a number of one byte, or of any length in JSON.
                let digits = bytes[at..]
                    .iter()
                    .take_while(|byte| byte.is_ascii_digit())
                    .count();
                let old = at..(at + digits.max(1)).min(bytes.len());
                bytes.splice(old, number.iter().copied());
            }
            7 => {
                let byte = self.random.next_u64() as u8;
                bytes.insert(at, byte);
            }
            _ => {
                let edge =
                    [0, 1, u64::from(u32::MAX), u64::MAX, self.random.next_u64()][self.below(5)];
                let written = edge.to_le_bytes();
                let len = [2, 4, 8][self.below(3)].min(bytes.len() - at);
                bytes[at..at + len].copy_from_slice(&written[..len]);
            }
        }
    }
}
