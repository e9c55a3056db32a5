//! Parts with right checksums and wrong bytes: a program that changes a cell can compute its
//! checksum too. Such a part contradicts the others, so the equations of a stripe find it. A caller
//! that can tell right bytes from wrong ones reads around one or two such parts, by leaving out
//! targets.

use std::ops::Range;

use tabane_lanes::xor_of;
use tabane_parity::repair_plan;
use tabane_storage::sync::lock;
use tabane_storage::{Event, Id, Name};

use crate::read::{StripeReader, wants};
use crate::striped::StripedStorage;

impl StripeReader<'_> {
    /// Looks for contradicting parts in sectors of which all cells are known; names the role whose
    /// part is wrong, if it is a single one.
    ///
    /// The role is a guess: two parts can be changed so that a third one seems wrong. So no part
    /// may be replaced on its account.
    pub fn contradiction(&self) -> Option<Option<usize>> {
        let mut sectors = self.whole_sectors().into_iter();
        let sector =
            sectors.find(|&sector| !self.is_consistent(|cell| self.sector(cell, sector)))?;
        let cells = 0..self.layout().cells();
        let cells: Vec<Vec<u8>> = cells
            .map(|cell| self.sector(cell, sector).to_vec())
            .collect();
        Some(self.suspect(sector, &cells))
    }

    /// Whether all rows and diagonals add up to zero.
    fn is_consistent<'c>(&self, bytes: impl Fn(usize) -> &'c [u8]) -> bool {
        let mut sum = Vec::new();
        self.layout().equations().iter().all(|equation| {
            let cells: Vec<&[u8]> = equation.iter().map(|&cell| bytes(cell)).collect();
            sum.resize(cells[0].len(), 0);
            xor_of(&mut sum, &cells);
            sum.iter().all(|&byte| byte == 0)
        })
    }

    /// The only role without which all other cells agree, if there is one. Two parities identify a
    /// single wrong role if no role is missing.
    fn suspect(&self, sector: u64, cells: &[Vec<u8>]) -> Option<usize> {
        if !self.all_were_read(sector) {
            return None;
        }
        let is_suspect = |role: &usize| {
            let mut cells = cells.to_vec();
            let mut slices: Vec<&mut [u8]> = cells.iter_mut().map(|cell| &mut cell[..]).collect();
            let plan = repair_plan(self.layout(), &[*role]);
            let computed = plan.is_ok_and(|plan| plan.run(&mut slices).is_ok());
            computed && self.is_consistent(|cell| &cells[cell])
        };
        let mut suspects = (0..self.layout().roles()).filter(is_suspect);
        let first = suspects.next();
        first.filter(|_| suspects.next().is_none())
    }
}

impl StripedStorage {
    /// Reads a range of a stripe anew after its bytes proved wrong in spite of right checksums:
    /// without each target, then without each pair. Returns whether `is_right` accepted a result;
    /// then the targets left out are reported, and left out for this object from now on.
    pub(super) fn read_without_each(
        &self,
        name: Name,
        range: &Range<u64>,
        is_right: &mut dyn FnMut(&[u8]) -> bool,
    ) -> bool {
        let Some(geometry) = self.geometry(name).ok().filter(|one| !one.is_replica()) else {
            return false;
        };
        if range.is_empty() || range.end > geometry.object_len {
            return false;
        }
        let Some(by_role) = self.targets_by_role(name.id, geometry.generation) else {
            return false;
        };
        let wanted = wants(&geometry, &geometry.layout(), range);
        let sectors = wanted.iter().map(|(_, sectors)| sectors);
        let first = sectors.clone().map(|sectors| sectors.start).min();
        let last = sectors.map(|sectors| sectors.end).max();
        let window = first.unwrap_or(0)..last.unwrap_or(0);
        let up = |role: &usize| self.targets.is_up(by_role[*role]);
        let roles: Vec<usize> = (0..by_role.len()).filter(up).collect();
        let away = by_role.len() - roles.len();
        let singles = roles.iter().map(|&role| vec![role]);
        let pairs = roles.iter().flat_map(|&a| {
            roles
                .iter()
                .filter(move |&&b| a < b)
                .map(move |&b| vec![a, b])
        });
        for choice in singles
            .chain(pairs)
            .filter(|choice| choice.len() + away <= 2)
        {
            let reader = StripeReader::new(self, name, geometry, window.clone());
            let Some(mut reader) = reader else {
                return false;
            };
            choice.iter().for_each(|&role| reader.leave_out(role));
            let is_read = reader.obtain(&wanted).is_ok();
            if is_read && is_right(&reader.bytes(range, &wanted)) {
                self.decoded.forget(name.id);
                lock(&self.distrusted).insert(name.id, choice.clone());
                let targets = choice.iter().map(|&role| by_role[role]);
                targets.for_each(|number| self.tell_of_liar(number, name));
                return true;
            }
        }
        false
    }

    /// The roles of an object whose parts are wrong although their checksums are right.
    pub(super) fn distrusted(&self, object: Id) -> Vec<usize> {
        lock(&self.distrusted)
            .get(&object)
            .cloned()
            .unwrap_or_default()
    }

    /// Reports, once a target, that its parts have right checksums and wrong bytes.
    fn tell_of_liar(&self, number: usize, name: Name) {
        lock(&self.damage).insert((number, name.id));
        if lock(&self.liars).insert(number) {
            let text = format!(
                "target {} has parts with right checksums and wrong bytes (of {name}, and maybe of \
                 others): they are computed from other targets. Something changes data there or on \
                 the way there, and computes checksums after that: its memory, its network, or \
                 somebody",
                self.targets.all()[number].url
            );
            self.targets.tell(&Event::note(text));
        }
    }
}
