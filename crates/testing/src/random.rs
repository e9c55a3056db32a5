//! Numbers, bytes and text that look random and are the same each time.

/// SplitMix64 (Steele, Lea and Flood 2014): small, and the same everywhere for ever.
pub struct Random(u64);

impl Random {
    /// A generator for the thing numbered `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x7461_6261_6e65)
    }

    /// The generator whose sequence goes on from `state`.
    pub fn at(state: u64) -> Random {
        Random(state)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    /// True once in so many times, on average.
    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// `length` bytes that cannot be compressed.
    pub fn noise(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            bytes.extend_from_slice(&self.next_u64().to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }

    /// `length` bytes of something like source text.
    pub fn text(&mut self, length: usize) -> Vec<u8> {
        const WORDS: [&str; 24] = [
            "self", "the", "return", "let", "of", "match", "fn", "value", "error", "index",
            "buffer", "length", "==", "();", "{", "}", "=>", "//", "pub", "result", "while",
            "struct", "state", "offset",
        ];
        let mut bytes = Vec::with_capacity(length + 32);
        while bytes.len() < length {
            // Two draws, the lesser taken: the first words come oftener.
            let word = self.below(24).min(self.below(24)) as usize;
            bytes.extend_from_slice(WORDS[word].as_bytes());
            match self.below(12) {
                0 => bytes.extend_from_slice(b"\n    "),
                1 => bytes.extend_from_slice(format!("_{}", self.below(10_000)).as_bytes()),
                _ => bytes.push(b' '),
            }
        }
        bytes.truncate(length);
        bytes
    }
}
