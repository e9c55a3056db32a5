//! Sources of round keys.

/// Round keys of the longest key.
pub(super) const ROUND_KEYS_MAX: usize = 15;

/// The keys of a number of registers.
pub(super) trait RoundKeys<V> {
    /// The key of a round in a register.
    fn get(&self, round: usize, register: usize) -> V;

    /// The same keys. Called before each block, for keys that are better read each time than held
    /// in registers.
    #[inline(always)]
    fn again(&self) -> &Self {
        self
    }
}
