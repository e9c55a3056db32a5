//! Finds which cells of a stripe are wrong although their checksums are right, by the name of the
//! object: its hash. No secret is needed.

use std::collections::BTreeSet;

use tabane_parity::encode;
use tabane_storage::object_id;

use super::{State, StripeReader};

/// The bytes of some cells, by their numbers.
type Copies = Vec<(usize, Vec<u8>)>;

impl StripeReader<'_> {
    /// Makes the cells of a stripe, all of which are known, those of the object that has this name.
    /// Sectors that were read and prove wrong count as forged from then on.
    ///
    /// If the data are not what the name says, the cells of one role are computed from the others,
    /// of each in turn, and then those of two, if so many can be spared. Returns whether the object
    /// was found.
    pub fn prove(&mut self) -> bool {
        let is_found = self.is_named()
            || self
                .choices()
                .iter()
                .any(|choice| self.is_found_without(choice));
        if is_found {
            self.correct_parities();
        }
        is_found
    }

    /// Whether the tags of parities are not the sums of those of the data. Which are wrong only who
    /// has the secret can say.
    pub fn has_odd_tags(&self) -> bool {
        self.has_odd_tags
    }

    /// Whether the data are those of the object's name.
    fn is_named(&self) -> bool {
        let mut left = self.geometry.object_len as usize;
        let parts = self.layout.data_cells().iter().map(|&cell| {
            let bytes = self.cells[cell].as_ref();
            let len = left.min(bytes.len());
            left -= len;
            &bytes[..len]
        });
        object_id(&parts.collect::<Vec<_>>()) == self.name.id
    }

    /// Single roles, then pairs, that could be computed from the others.
    fn choices(&self) -> Vec<Vec<usize>> {
        let there = (0..self.layout.roles()).filter(|role| !self.absent.contains(role));
        let there: Vec<usize> = there.collect();
        let pairs = there.iter().enumerate().flat_map(|(at, &a)| {
            let behind = there[at + 1..].iter();
            behind.map(move |&b| vec![a, b])
        });
        let singles = there.iter().map(|&role| vec![role]);
        let spare = 2_usize.saturating_sub(self.absent.len());
        let choices = singles.chain(pairs);
        choices.filter(|choice| choice.len() <= spare).collect()
    }

    /// Computes the cells of these roles from the others, and leaves them as they were if that does
    /// not give the object.
    fn is_found_without(&mut self, roles: &[usize]) -> bool {
        let cells = roles
            .iter()
            .flat_map(|&role| self.layout.cells_of_role(role));
        let cells: BTreeSet<usize> = cells.collect();
        let before = self.copies(&cells);
        if self.compute_without(&cells) && self.is_named() {
            self.distrust_changed(&before);
            return true;
        }
        for (cell, bytes) in before {
            self.cells[cell].as_mut().copy_from_slice(&bytes);
            self.mark(cell, &self.window.clone(), State::Good);
        }
        false
    }

    /// Computes these cells, and what could not be read, from all others; returns whether that can
    /// be done.
    fn compute_without(&mut self, cells: &BTreeSet<usize>) -> bool {
        let all = self.window.clone();
        let absent = self
            .absent
            .iter()
            .flat_map(|&role| self.layout.cells_of_role(role));
        let computed: Vec<usize> = absent.chain(cells.iter().copied()).collect();
        for cell in computed {
            self.mark(cell, &all, State::Bad);
        }
        for (cell, sector) in self.damage.clone() {
            self.mark(cell, &(sector..sector + 1), State::Bad);
        }
        self.obtain_all().is_ok()
    }

    /// Computes all parities, and their tags, anew; parities that were read otherwise are forged.
    fn correct_parities(&mut self) {
        let data: BTreeSet<usize> = self.layout.data_cells().iter().copied().collect();
        let parities = (0..self.layout.cells()).filter(|cell| !data.contains(cell));
        let parities: BTreeSet<usize> = parities.collect();
        let before = self.copies(&parities);
        let tags = self.tags.clone();
        let is_sound = "the cells are those of the layout, and of one length";
        encode(&self.layout, &mut self.cells).expect(is_sound);
        encode(&self.layout, &mut self.tags).expect(is_sound);
        self.distrust_changed(&before);
        self.has_odd_tags = self.are_all_tagged() && tags != self.tags;
    }

    fn copies(&self, cells: &BTreeSet<usize>) -> Copies {
        let copy = |&cell: &usize| (cell, self.cells[cell].as_ref().to_vec());
        cells.iter().map(copy).collect()
    }

    /// Distrusts the sectors that were read and are others now.
    fn distrust_changed(&mut self, before: &Copies) {
        for (cell, before) in before {
            let role = self.layout.role_of(*cell);
            for sector in self.window.clone() {
                let range = self.bytes_of(&(sector..sector + 1));
                let is_changed = before[range.clone()] != self.cells[*cell].as_ref()[range];
                let was_read =
                    !self.absent.contains(&role) && !self.damage.contains(&(*cell, sector));
                if is_changed && was_read {
                    self.damaged.insert(role);
                    self.forged.insert(role);
                    self.damage.insert((*cell, sector));
                }
            }
        }
    }
}
