//! Powers of the hash key of GCM.

use zeroize::Zeroize;

/// The most blocks between two reductions.
pub(super) const POWERS: usize = 32;

/// Powers of the hash key times x: 32, 31, ... 1. Behind them zeros, for the places of a register
/// that hold no block. Overwritten with zeros when dropped.
#[derive(Clone)]
pub(super) struct Powers(pub(super) [u128; POWERS + 3]);

impl Default for Powers {
    /// Not found yet.
    fn default() -> Self {
        Self([0; POWERS + 3])
    }
}

impl Drop for Powers {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}
