//! Compression of segments, and a test for blocks not worth it.

use std::str::FromStr;

use crate::error::Error;
use crate::pack::Codec;

/// Levels of compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// No compression.
    Off,
    /// Zstandard at this level, -7 to 22 without 0; blocks that look random are stored as they are.
    Level(i32),
}

impl Compression {
    /// The default. Against level 3, a first backup takes a sixth less CPU time, and the repository
    /// is 8% larger: docs/notebook.md.
    pub const AUTO: Self = Self::Level(1);
    /// The fastest useful level: lower ones make repositories larger and hardly save time.
    pub const FASTEST: Self = Self::Level(-1);
    /// The smallest repository in acceptable time.
    pub const MAX: Self = Self::Level(19);
}

impl FromStr for Compression {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "off" => Ok(Self::Off),
            "auto" => Ok(Self::AUTO),
            "fastest" => Ok(Self::FASTEST),
            "max" => Ok(Self::MAX),
            _ => match text.parse() {
                Ok(level @ (-7..=-1 | 1..=22)) => Ok(Self::Level(level)),
                _ => Err(Error::Invalid(format!(
                    "unknown compression {text:?}: use off, fastest, auto, max or a Zstandard \
                     level from -7 to 22"
                ))),
            },
        }
    }
}

/// Compresses segments, keeping its tables between them.
pub struct Compressor {
    context: Option<zstd::bulk::Compressor<'static>>,
    buffer: Vec<u8>,
}

impl Compressor {
    /// A compressor of this level.
    pub fn new(compression: Compression) -> Self {
        let context = match compression {
            Compression::Off => None,
            Compression::Level(level) => {
                Some(zstd::bulk::Compressor::new(level).expect("the level is in range"))
            }
        };
        Self {
            context,
            buffer: Vec::new(),
        }
    }

    /// Whether trying to compress `block` is worth it.
    pub fn wants(&self, block: &[u8]) -> bool {
        self.context.is_some() && !looks_random(block)
    }

    /// Encodes a segment, compressed if that makes it smaller.
    pub fn encode<'a>(&'a mut self, raw: &'a [u8]) -> (Codec, &'a [u8]) {
        if let Some(context) = &mut self.context {
            self.buffer.clear();
            self.buffer
                .reserve(zstd::zstd_safe::compress_bound(raw.len()));
            let compressed = context.compress_to_buffer(raw, &mut self.buffer);
            if compressed.is_ok_and(|len| len < raw.len()) {
                return (Codec::Zstd, &self.buffer);
            }
        }
        (Codec::Stored, raw)
    }
}

/// Bytes of the sample that decides whether a block is random, in runs spread over the block.
const SAMPLE_LEN: usize = 2048;
const SAMPLE_RUNS: usize = 4;

/// Whether the bytes are spread as evenly as random ones: then they are compressed or encrypted
/// already.
///
/// A chi-squared test of a sample against the uniform distribution. Random bytes score 255 ± 23;
/// JPEG, video and archives stay below the limit, text and programs are far above it.
fn looks_random(block: &[u8]) -> bool {
    const LIMIT: u64 = 430;
    if block.len() < 2 * SAMPLE_LEN {
        return false;
    }
    let mut counts = [0_u64; 256];
    let run_len = SAMPLE_LEN / SAMPLE_RUNS;
    let stride = (block.len() - run_len) / (SAMPLE_RUNS - 1);
    for run in 0..SAMPLE_RUNS {
        for &byte in &block[run * stride..run * stride + run_len] {
            counts[usize::from(byte)] += 1;
        }
    }
    let expected = (SAMPLE_LEN / 256) as u64;
    let distances = counts.iter().map(|&count| count.abs_diff(expected).pow(2));
    distances.sum::<u64>() / expected < LIMIT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read() {
        for (text, level) in [
            ("fastest", -1),
            ("auto", 1),
            ("max", 19),
            ("-7", -7),
            ("22", 22),
        ] {
            assert_eq!(
                text.parse::<Compression>().unwrap(),
                Compression::Level(level)
            );
        }
        for text in ["", "0", "-8", "23", "3.5", "fast"] {
            assert!(text.parse::<Compression>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn random_bytes_are_left_alone_and_text_is_not() {
        let random: Vec<u8> = (0..16)
            .flat_map(|_| tabane_storage::random::<4096>())
            .collect();
        let text = b"all work and no play makes jack a dull boy ".repeat(1500);
        let mut compressor = Compressor::new(Compression::AUTO);
        assert!(!compressor.wants(&random));
        assert!(compressor.wants(&text));
        assert!(matches!(compressor.encode(&text), (Codec::Zstd, small) if small.len() < 1000));
        assert!(matches!(compressor.encode(&random), (Codec::Stored, _)));
        assert!(!Compressor::new(Compression::Off).wants(&text));
    }
}
