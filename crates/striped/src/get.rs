//! Reads objects, or parts of them.

use std::ops::Range;

use crate::container::{Geometry, HEADER_LEN, HEADER_LEN_MAX, Header, Shape};
use crate::list::Holding;
use crate::read::{StripeReader, Want, open_replica, wants};
use crate::striped::StripedStorage;
use tabane_storage::sync::lock;
use tabane_storage::{Id, Name, ObjectKind, Result, Storage, StorageError, StorageErrorKind};

/// The form of the object found under a name.
enum Found {
    Stripe(Shape),
    /// The whole object, from one of its copies.
    Replica(Vec<u8>),
}

impl StripedStorage {
    pub(super) fn get_object(&self, name: Name, range: Option<Range<u64>>) -> Result<Vec<u8>> {
        let mut tried = Vec::new();
        loop {
            match self.find(name, |shape| !tried.contains(&shape.geometry.generation))? {
                Found::Stripe(shape) => {
                    let range = range.clone().unwrap_or(0..shape.geometry.object_len);
                    match self.get_striped(name, shape, range) {
                        // A write to this group was interrupted, and made again to another.
                        Err(error)
                            if error.kind() == StorageErrorKind::NotFound
                                && self.groups.len() > 1 =>
                        {
                            tried.push(shape.geometry.generation);
                        }
                        got => return got,
                    }
                }
                Found::Replica(object) => {
                    return match range {
                        None => Ok(object),
                        Some(range) => object
                            .get(range.start as usize..range.end as usize)
                            .map(<[u8]>::to_vec)
                            .ok_or_else(|| StorageErrorKind::PastEnd.into()),
                    };
                }
            }
        }
    }

    pub(super) fn stat_object(&self, name: Name) -> Result<u64> {
        let found = self.find(name, |_| true)?;
        if let Found::Stripe(_) = found {
            // A header alone does not show whether enough other shards exist.
            let holding = self.holding(name)?;
            if holding.is_none_or(|holding| self.listed_len(&holding).is_none()) {
                return Err(StorageErrorKind::NotFound.into());
            }
        }
        Ok(match found {
            Found::Stripe(shape) => shape.geometry.object_len,
            Found::Replica(object) => object.len() as u64,
        })
    }

    /// Asks targets for an intact header, of a stripe that is wanted or of a copy.
    fn find(&self, name: Name, is_wanted: impl Fn(&Shape) -> bool) -> Result<Found> {
        if self.is_deleted(name) {
            return Err(StorageErrorKind::NotFound.into());
        }
        if let Some(shape) = lock(&self.known).get(&name.id)
            && is_wanted(shape)
        {
            return Ok(Found::Stripe(*shape));
        }
        let (mut damaged, mut failed, mut away) = (Vec::new(), Vec::new(), Vec::new());
        for round in self.rounds(name.id) {
            let found = self.targets.each(&round, |_, target| find_on(target, name));
            let has_answered = |number: &usize| found.iter().any(|(other, _)| other == number);
            away.extend(round.iter().filter(|number| !has_answered(number)));
            for (number, found) in found {
                match found {
                    Ok(Some(Found::Stripe(shape))) if self.is_sealed(name.id, &shape) => {
                        if is_wanted(&shape) {
                            self.shape_is(name.id, shape);
                            return Ok(Found::Stripe(shape));
                        }
                    }
                    Ok(Some(Found::Stripe(_))) => {
                        self.tell_of_liar(number, name);
                        damaged.push(self.targets.all()[number].url.clone());
                    }
                    Ok(Some(found)) => return Ok(found),
                    Ok(None) => {
                        lock(&self.damage).insert((number, name.id));
                        damaged.push(self.targets.all()[number].url.clone());
                    }
                    Err(error) if error.kind() == StorageErrorKind::NotFound => {}
                    Err(error) if self.failed_to_read(number, &error) => away.push(number),
                    Err(error) => failed.push((number, error)),
                }
            }
        }
        self.check_enough_but(|number| away.contains(&number))?;
        if let Some((number, error)) = failed.first()
            && failed.len() + away.len() > 2
        {
            return Err(self.targets.blame(*number, error));
        }
        if damaged.is_empty() {
            return Err(StorageErrorKind::NotFound.into());
        }
        let text = format!("its parts on {} are damaged", damaged.join(", "));
        Err(StorageError::new(StorageErrorKind::Damaged, text))
    }

    /// The shape of an object, from the first intact header.
    pub(super) fn shape(&self, name: Name) -> Result<Shape> {
        self.shape_like(name, |_| true)
    }

    /// The shape of an object that is known to be held like this.
    pub(super) fn shape_of(&self, name: Name, holding: &Holding) -> Result<Shape> {
        let generation = holding.generation();
        self.shape_like(name, |shape| shape.geometry.generation == generation)
    }

    /// The same, of a stripe that is wanted, or of a copy.
    pub(super) fn shape_like(
        &self,
        name: Name,
        is_wanted: impl Fn(&Shape) -> bool,
    ) -> Result<Shape> {
        Ok(match self.find(name, is_wanted)? {
            Found::Stripe(shape) => shape,
            Found::Replica(object) => Shape {
                geometry: Geometry::replica(object.len() as u64),
                seal: None,
            },
        })
    }

    fn get_striped(&self, name: Name, shape: Shape, range: Range<u64>) -> Result<Vec<u8>> {
        let geometry = shape.geometry;
        if range.end > geometry.object_len {
            return Err(StorageErrorKind::PastEnd.into());
        }
        let layout = geometry.layout();
        let mut wanted = wants(&geometry, &layout, &range);
        if range.is_empty() {
            // Reads one sector all the same, to see whether the object exists.
            wanted = vec![(layout.data_cells()[0], 0..1)];
        }
        let unknown = || {
            let text = "it is striped over targets that this set does not know".to_owned();
            StorageError::new(StorageErrorKind::Damaged, text)
        };
        let by_role = self.targets_by_role(name.id, &shape);
        let by_role = by_role.ok_or_else(unknown)?;
        let left_out = self.left_out(name.id, &by_role);
        if !left_out.is_empty() && !range.is_empty() {
            return self.get_degraded(name, shape, &range, &wanted, &left_out);
        }
        let sectors = wanted.iter().map(|(_, sectors)| sectors);
        let first = sectors.clone().map(|sectors| sectors.start).min();
        let last = sectors.map(|sectors| sectors.end).max();
        let window = first.unwrap_or(0)..last.unwrap_or(0);
        let reader = || StripeReader::new(self, name, shape, window.clone()).ok_or_else(unknown);
        let mut first = reader()?.hurry();
        let mut obtained = self.obtain(&mut first, name, &wanted);
        if obtained.is_err() && !first.away().is_empty() {
            // Waits for slow targets too: they may hold the missing cells.
            first = reader()?;
            obtained = self.obtain(&mut first, name, &wanted);
        }
        obtained?;
        if range.is_empty() {
            return Ok(Vec::new());
        }
        Ok(first.bytes(&range, &wanted))
    }

    /// The roles to leave out when reading a stripe: all whose targets are away; then, up to two in
    /// total, roles with wrong parts, then roles on slow targets.
    fn left_out(&self, object: Id, by_role: &[usize]) -> Vec<usize> {
        let is_away = |role: &usize| !self.targets.is_up(by_role[*role]);
        let mut left_out: Vec<usize> = (0..by_role.len()).filter(is_away).collect();
        let may_be_wrong = 2_usize.saturating_sub(left_out.len());
        let wrong = self.distrusted(object).into_iter();
        let wrong: Vec<usize> = wrong.filter(|role| !left_out.contains(role)).collect();
        left_out.extend(wrong.into_iter().take(may_be_wrong));
        let role_of = |target: usize| by_role.iter().position(|&other| other == target);
        let slow = self.targets.slow(by_role).into_iter().filter_map(role_of);
        let may_be_slow = 2_usize.saturating_sub(left_out.len());
        let slow: Vec<usize> = slow.filter(|role| !left_out.contains(role)).collect();
        left_out.extend(slow.into_iter().take(may_be_slow));
        left_out
    }

    /// Reads a range of a stripe without some roles, and keeps what it takes for the next ranges.
    fn get_degraded(
        &self,
        name: Name,
        shape: Shape,
        range: &Range<u64>,
        wanted: &[Want],
        left_out: &[usize],
    ) -> Result<Vec<u8>> {
        let kept = self.decoded.of(name.id, &shape.geometry);
        let mut kept = lock(&kept);
        let reader = || {
            let reader = StripeReader::new(self, name, shape, 0..shape.geometry.sectors());
            reader.expect("the generation is known")
        };
        let mut first = reader().hurry().resume(std::mem::take(&mut *kept));
        left_out.iter().for_each(|&role| first.leave_out(role));
        let mut obtained = self.obtain(&mut first, name, wanted);
        if obtained.is_err() {
            // Reads from slow targets too: they may hold the missing cells.
            first = reader().resume(first.into_sectors());
            obtained = self.obtain(&mut first, name, wanted);
        }
        let bytes = obtained.map(|()| first.bytes(range, wanted));
        *kept = first.into_sectors();
        bytes
    }

    /// Obtains the wanted sectors, and records the damage found on the way.
    fn obtain(&self, reader: &mut StripeReader, name: Name, wanted: &[Want]) -> Result<()> {
        let obtained = reader.obtain(wanted);
        let damaged = reader.damaged_targets().map(|number| (number, name.id));
        lock(&self.damage).extend(damaged);
        for &role in reader.forged() {
            self.tell_of_liar(reader.by_role()[role], name);
        }
        obtained.inspect_err(|error| {
            if error.kind() == StorageErrorKind::NotFound {
                lock(&self.known).remove(&name.id);
                self.decoded.forget(name.id);
            }
        })
    }

    /// Handles a failed read. A target that does not answer is put out of use; a fault of one
    /// object leaves the target in use. Returns whether the target was put out of use.
    pub(super) fn failed_to_read(&self, number: usize, error: &StorageError) -> bool {
        use StorageErrorKind::{Denied, Retryable, SessionOver, Unauthorized, Unreachable};
        let is_away = matches!(
            error.kind(),
            Denied | Retryable | SessionOver | Unauthorized | Unreachable
        );
        if is_away {
            self.targets.give_up(number, error);
        }
        is_away
    }
}

/// Reads the header, or the copy, of an object on one target; `None` if it is damaged.
fn find_on(target: &dyn Storage, name: Name) -> Result<Option<Found>> {
    let is_short = |bytes: &Result<Vec<u8>>| {
        let error = bytes.as_ref().err();
        error.is_some_and(|error| error.kind() == StorageErrorKind::PastEnd)
    };
    // A pack is probably a stripe, anything else a replica.
    let mut bytes = match name.kind {
        ObjectKind::Pack => target.get(name, Some(0..HEADER_LEN_MAX)),
        _ => target.get(name, None),
    };
    if is_short(&bytes) {
        bytes = target.get(name, Some(0..HEADER_LEN));
    }
    if is_short(&bytes) {
        return Ok(None);
    }
    let bytes = bytes?;
    let Some(header) = Header::parse(name.id, &bytes) else {
        return Ok(None);
    };
    if !header.shape.geometry.is_replica() {
        return Ok(Some(Found::Stripe(header.shape)));
    }
    let bytes = match name.kind {
        ObjectKind::Pack => target.get(name, None)?,
        _ => bytes,
    };
    Ok(open_replica(name.id, &header.shape.geometry, &bytes).map(Found::Replica))
}
