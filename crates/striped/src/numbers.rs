//! Sets of numbers of targets.

use crate::set::TARGETS_MAX;

const WORDS: usize = TARGETS_MAX / u64::BITS as usize;

/// A set of numbers of targets, each below [`TARGETS_MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Numbers([u64; WORDS]);

impl Numbers {
    /// Adds a number.
    pub fn insert(&mut self, number: usize) {
        self.0[number / 64] |= 1 << (number % 64);
    }

    /// Whether it has this number.
    pub fn contains(&self, number: usize) -> bool {
        self.0[number / 64] >> (number % 64) & 1 == 1
    }

    /// How many it has.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// All numbers of both.
    #[must_use]
    pub fn or(mut self, other: &Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a |= b);
        self
    }

    /// The numbers that both have.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a &= b);
        self
    }

    /// The numbers that the other lacks.
    #[must_use]
    pub fn without(mut self, other: &Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a &= !b);
        self
    }

    /// The numbers, from the lowest on.
    pub fn iter(&self) -> impl Iterator<Item = usize> + use<> {
        let this = *self;
        (0..TARGETS_MAX).filter(move |&number| this.contains(number))
    }
}

impl FromIterator<usize> for Numbers {
    fn from_iter<T: IntoIterator<Item = usize>>(numbers: T) -> Self {
        let mut all = Self::default();
        numbers.into_iter().for_each(|number| all.insert(number));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_sets() {
        let a: Numbers = [0, 63, 64, 255].into_iter().collect();
        let b: Numbers = [63, 64, 100].into_iter().collect();
        assert_eq!((a.len(), Numbers::default().is_empty()), (4, true));
        assert!(a.contains(255) && !a.contains(100) && !a.is_empty());
        let numbers = |set: Numbers| set.iter().collect::<Vec<_>>();
        assert_eq!(numbers(a.or(&b)), [0, 63, 64, 100, 255]);
        assert_eq!(numbers(a.and(&b)), [63, 64]);
        assert_eq!(numbers(a.without(&b)), [0, 255]);
    }
}
