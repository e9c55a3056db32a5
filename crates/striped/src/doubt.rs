//! Parts with right checksums and wrong bytes: a program that changes a cell can compute its
//! checksum too. A caller that can tell right bytes from wrong ones reads around one or two such
//! parts, by leaving out targets. So a reader does without tags, or without the secret of tags.

use std::ops::Range;

use tabane_storage::sync::lock;
use tabane_storage::{Event, EventKind, Id, Name};

use crate::read::{StripeReader, wants};
use crate::striped::StripedStorage;

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
        let Some(shape) = self.shape(name).ok() else {
            return false;
        };
        let geometry = shape.geometry;
        if geometry.is_replica() {
            return false;
        }
        if range.is_empty() || range.end > geometry.object_len {
            return false;
        }
        let Some(by_role) = self.targets_by_role(name.id, &shape) else {
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
            let reader = StripeReader::new(self, name, shape, window.clone());
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
    pub(super) fn tell_of_liar(&self, number: usize, name: Name) {
        lock(&self.damage).insert((number, name.id));
        if lock(&self.liars).insert(number) {
            let text = format!(
                "target {} has parts with right checksums and wrong bytes (of {name}, and maybe of \
                 others): they are computed from other targets. Something changes data there or on \
                 the way there, and computes checksums after that: its memory, its network, or \
                 somebody",
                self.targets.all()[number].url
            );
            let kind = EventKind::TargetLies;
            self.targets.tell(&Event { kind, text });
        }
    }
}
