//! Choices that a seed decides.

use std::collections::VecDeque;

/// SplitMix64, or choices that were made before.
pub struct Choices {
    state: u64,
    /// What decides instead of the seed, two bytes a choice.
    choices: Option<VecDeque<[u8; 2]>>,
}

impl Choices {
    /// Choices that `seed` decides.
    pub fn new(seed: u64) -> Self {
        Self {
            state: seed,
            choices: None,
        }
    }

    /// Choices that these bytes make, and when they are used up always the first of what can be
    /// chosen. Only what messages hold is random.
    pub fn of(choices: &[u8]) -> Self {
        let (choices, _) = choices.as_chunks();
        Self {
            state: 0,
            choices: Some(choices.iter().copied().collect()),
        }
    }

    /// Any number; bytes that were given decide nothing here.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Less than `end`.
    pub fn below(&mut self, end: usize) -> usize {
        let number = match &mut self.choices {
            Some(choices) => choices
                .pop_front()
                .map_or(0, |bytes| u16::from_le_bytes(bytes).into()),
            None => self.next_u64(),
        };
        (number % end as u64) as usize
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// `length` bytes, any.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next_u64() as u8).collect()
    }

    /// A length: mostly short, or near the edge of a block, sometimes long.
    pub fn length(&mut self) -> usize {
        match self.below(8) {
            0 => self.below(4),
            1..=3 => self.below(100),
            4 | 5 => (16 * self.below(20) + self.below(5)).saturating_sub(2),
            6 => self.below(1000),
            _ => self.below(9000),
        }
    }
}

/// Calls `test` with many seeds, and says which one failed.
///
/// `TABANE_PROVIDER_SEQUENCES` is how many, `TABANE_PROVIDER_SEED` the first.
pub fn for_seeds(count: u64, test: impl Fn(&mut Choices)) {
    let number = |name| {
        let value = std::env::var(name).ok()?;
        Some(
            value
                .parse::<u64>()
                .unwrap_or_else(|_| panic!("{name} is no number")),
        )
    };
    let count = number("TABANE_PROVIDER_SEQUENCES").unwrap_or(count);
    let first = number("TABANE_PROVIDER_SEED").unwrap_or(1);
    for seed in first..first + count {
        let run = std::panic::AssertUnwindSafe(|| test(&mut Choices::new(seed)));
        if let Err(panic) = std::panic::catch_unwind(run) {
            eprintln!("again with TABANE_PROVIDER_SEED={seed} TABANE_PROVIDER_SEQUENCES=1");
            std::panic::resume_unwind(panic);
        }
    }
}
