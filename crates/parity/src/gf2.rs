//! Vectors over GF(2), which write a block as the set of data blocks whose exclusive or it is.

use crate::Layout;
use crate::plan::encode_plan;

/// A vector of unlimited length; places that were not set are zero.
#[derive(Clone, Debug, Default)]
pub struct Vector(Vec<u64>);

impl Vector {
    /// The unit vector of this place.
    pub fn unit(place: usize) -> Self {
        let mut words = vec![0; place / 64 + 1];
        words[place / 64] = 1 << (place % 64);
        Self(words)
    }

    /// Adds another vector, which is the same as subtracting it.
    pub fn add(&mut self, other: &Self) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word ^= other;
        }
    }

    /// The sum of vectors.
    pub fn sum<'a>(vectors: impl IntoIterator<Item = &'a Self>) -> Self {
        vectors
            .into_iter()
            .fold(Self::default(), |mut sum, vector| {
                sum.add(vector);
                sum
            })
    }

    /// The places of the ones.
    pub fn ones(&self) -> impl Iterator<Item = usize> {
        let ones = |(number, &word): (usize, &u64)| {
            let set = (0..64).filter(move |bit| word >> bit & 1 == 1);
            set.map(move |bit| number * 64 + bit)
        };
        self.0.iter().enumerate().flat_map(ones)
    }

    /// Whether the vector is zero.
    pub fn is_zero(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }
}

impl PartialEq for Vector {
    fn eq(&self, other: &Self) -> bool {
        Self::sum([self, other]).is_zero()
    }
}

/// The vector of each cell of a layout.
pub fn cell_vectors(layout: &Layout) -> Vec<Vector> {
    let mut vectors = vec![Vector::default(); layout.cells()];
    for (block, &cell) in layout.data_cells().iter().enumerate() {
        vectors[cell] = Vector::unit(block);
    }
    for step in encode_plan(layout).steps {
        vectors[step.into] = Vector::sum(step.from.iter().map(|&cell| &vectors[cell]));
    }
    vectors
}

impl Layout {
    /// For each cell, the data cells whose exclusive or it is; a data cell has itself alone.
    pub fn terms(&self) -> Vec<Vec<usize>> {
        let data = |vector: &Vector| {
            vector
                .ones()
                .map(|block| self.data_cells()[block])
                .collect()
        };
        cell_vectors(self).iter().map(data).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_the_sums_of_their_terms() {
        for roles in 3..=32 {
            let layout = Layout::new(roles).unwrap();
            let mut cells = vec![vec![0]; layout.cells()];
            for (number, &cell) in layout.data_cells().iter().enumerate() {
                cells[cell] = vec![((number as u32).wrapping_mul(0x9e37_79b9) >> 11) as u8];
            }
            crate::encode(&layout, &mut cells).unwrap();
            assert_eq!(layout.terms().len(), layout.cells());
            for (cell, terms) in layout.terms().iter().enumerate() {
                let sum = terms.iter().fold(0, |sum, &term| sum ^ cells[term][0]);
                assert_eq!(cells[cell], [sum], "{roles} {cell}");
            }
        }
    }
}
