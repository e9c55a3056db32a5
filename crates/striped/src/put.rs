//! Puts an object on several targets at once.

use tabane_parity::encode;

use crate::container::{Container, Geometry, HEADER_LEN_MAX, Header, REPLICA_MAX, Shape};
use crate::sender::{NewStripe, Puts, Relayed};
use crate::striped::StripedStorage;
use crate::tags::{ObjectTags, TAG_LEN};
use tabane_storage::buffer::Buffer;
use tabane_storage::sync::lock;
use tabane_storage::{Name, ObjectKind, Result, StorageErrorKind};

/// The result of putting a shard.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Put {
    /// The target stored the shard.
    New,
    /// A shard of this name existed.
    There,
    /// The target failed, and was put out of use.
    Down,
    /// The node is full or read-only.
    Refused,
}

impl Put {
    /// Whether the target holds a shard of this name now.
    fn is_there(self) -> bool {
        matches!(self, Self::New | Self::There)
    }
}

impl StripedStorage {
    /// Puts an object; on return, its parts are durable on every target in use that should have
    /// one. `is_again` says that an earlier try may have written the parts that are found.
    pub(super) fn put_object(&self, name: Name, parts: &[&[u8]], is_again: bool) -> Result<()> {
        self.check_enough()?;
        // model: groups/put
        let joined;
        let object: &[u8] = match parts {
            [one] => one,
            _ => {
                joined = parts.concat();
                &joined
            }
        };
        let put = match (name.kind, object.len() as u64) {
            (ObjectKind::Config, _) => self.put_config(name, object),
            (kind, 0..=REPLICA_MAX) => self.put_replicas(name, object, self.replicas(kind)),
            _ => self.put_stripe(name, object, is_again, None),
        };
        let put = match put {
            Err(error) if is_again && error.kind() == StorageErrorKind::AlreadyExists => {
                // An existing config may be another client's; other objects of one name have the
                // same bytes.
                let is_own = name.kind != ObjectKind::Config
                    || self
                        .get_object(name, None)
                        .is_ok_and(|there| there == object);
                if is_own { Ok(()) } else { Err(error) }
            }
            put => put,
        };
        put?;
        // What other objects need is put before them, and records are looked after by who puts
        // them.
        use ObjectKind::{Config, Copy, Forgotten, Key, Removal, Snapshot};
        match name.kind {
            // model: groups/check-again
            Config | Copy | Forgotten | Key | Removal | Snapshot => self.check_groups_in_use(),
            _ => Ok(()),
        }
    }

    /// Puts the config. Several clients may put different ones at once: the first target decides
    /// which wins.
    fn put_config(&self, name: Name, object: &[u8]) -> Result<()> {
        let cell = padded(object);
        let container = Container::replica(name.id, object.len() as u64, cell.as_ref());
        let parts = container.parts();
        let mut refused = Vec::new();
        loop {
            let mut up = self.targets.up();
            up.retain(|number| !refused.contains(number));
            let Some((&first, others)) = up.split_first() else {
                return self.check_enough_but(|_| true);
            };
            match self.put_each(&[first], name, &parts)?[..] {
                [(_, Put::New)] => {
                    let mut puts = self.put_each(others, name, &parts)?;
                    puts.push((first, Put::New));
                    let all = self.targets.up();
                    return self.check_stored(&all, &puts);
                }
                [(_, Put::There)] => return Err(StorageErrorKind::AlreadyExists.into()),
                [(number, Put::Refused)] => refused.push(number),
                _ => {}
            }
        }
    }

    /// Puts `count` copies, or one on each target in use if these are fewer.
    fn put_replicas(&self, name: Name, object: &[u8], count: usize) -> Result<()> {
        let cell = padded(object);
        let container = Container::replica(name.id, object.len() as u64, cell.as_ref());
        let parts = container.parts();
        let all = self.replica_order(name.id);
        // Waits for nodes that are restarting, so that they get their copies.
        self.targets.up_after_restart(&all[..count.min(all.len())]);
        let enough = count.min(self.home().len() - 2);
        let mut order = all.into_iter();
        let (mut durable, mut refused, mut new) = (Vec::new(), 0, false);
        loop {
            let next: Vec<usize> = order
                .by_ref()
                .filter(|&number| self.targets.is_up(number))
                .take(count - durable.len())
                .collect();
            if next.is_empty() {
                break;
            }
            for (number, put) in self.put_each(&next, name, &parts)? {
                if put.is_there() {
                    durable.push(number);
                }
                refused += usize::from(put == Put::Refused);
                new |= put == Put::New;
            }
        }
        // With fewer copies, the loss of two targets could be the loss of all that have one. Full
        // nodes are no reason to fail: what frees space on them must be stored.
        if durable.is_empty() || durable.len() + refused < enough {
            self.check_enough_but(|number| !durable.contains(&number))?;
        }
        self.check_enough()?;
        acknowledge(new)
    }

    /// Puts copies in the place of what is on all targets. A target that is away would bring back
    /// what it has; so the error names those that have failed.
    pub(super) fn replace_replicas(&self, name: Name, object: &[u8]) -> Result<()> {
        self.check_all_there()?;
        let cell = padded(object);
        let container = Container::replica(name.id, object.len() as u64, cell.as_ref());
        let parts = container.parts();
        for (number, replaced) in self.targets.each(&self.targets.up(), |_, storage| {
            storage.replace(name, &parts)
        }) {
            if let Err(error) = replaced {
                self.targets.give_up(number, &error);
            }
        }
        self.check_all_there()
    }

    /// Puts an object as a stripe, into this group, if any. A stripe that is put again keeps the
    /// roles that it has.
    pub(super) fn put_stripe(
        &self,
        name: Name,
        object: &[u8],
        is_again: bool,
        into: Option<u8>,
    ) -> Result<()> {
        let geometry = |group: u8| {
            let targets = self.generation(group).expect("a group is a generation");
            Geometry::stripe(object.len() as u64, group, targets.len())
        };
        let is_there = |shape: &Shape| {
            let group = shape.geometry.generation;
            into.is_none_or(|into| into == group)
                && self.groups.contains(&group)
                && shape.geometry == geometry(group)
        };
        let there = if is_again {
            self.shape_like(name, is_there).ok()
        } else {
            None
        };
        // A copy instead of a stripe is no shape of one.
        let there = there.filter(is_there);
        let group = match there {
            Some(shape) => shape.geometry.generation,
            None => into.unwrap_or_else(|| self.group_for(name)),
        };
        let geometry = geometry(group);
        let targets = self.generation(group).expect("a group is a generation");
        let there = there.filter(|shape| shape.seal.is_some());
        let placed = |turn: Option<usize>| {
            let shape = there.unwrap_or_else(|| self.new_shape(name.id, geometry, turn));
            let by_role = self.targets_by_role(name.id, &shape);
            (shape, by_role.expect("a group is a generation"))
        };
        let tags = self
            .is_tagged()
            .then(|| self.object_tags(name.id, &geometry));
        let tags = tags.flatten();
        let stripe = NewStripe {
            name,
            geometry,
            tags: tags.as_ref(),
            generation: targets,
            may_turn: tags.is_some() && there.is_none() && !self.description.fixed_roles,
            placed: &placed,
        };
        let relayed = match &self.sender {
            Some(sender) => sender.put(&self.targets, &stripe, object),
            None => Relayed::NotTried,
        };
        let (puts, turn, is_new) = match relayed {
            Relayed::Put(puts, turn) => (Some(puts), turn, false),
            // Parts of a stripe whose relaying failed were written by this put.
            Relayed::Failed(turn) => (None, turn, true),
            Relayed::NotTried => (None, None, false),
        };
        let (shape, by_role) = placed(turn);
        let put_cells = |numbers: &[usize]| {
            let tags = tags.as_ref();
            self.put_cells(name, object, (&shape, &by_role), tags, numbers)
        };
        let puts = puts.unwrap_or_else(|| put_cells(&by_role));
        let mut puts = self.judge_all(puts)?;
        let without = |puts: &[(usize, Put)]| -> Vec<usize> {
            let has = |number: &usize| {
                let mut puts = puts.iter();
                puts.any(|(other, put)| other == number && *put != Put::Down)
            };
            targets
                .iter()
                .copied()
                .filter(|number| !has(number))
                .collect()
        };
        // Nodes that have just restarted get their parts too.
        let back = self.targets.up_after_restart(&without(&puts));
        if !back.is_empty() {
            puts.extend(self.judge_all(put_cells(&back))?);
        }
        self.check_stored(targets, &puts)?;
        let is_there = |(_, put): &(usize, Put)| *put == Put::There;
        if !is_again && puts.iter().any(is_there) && self.has_other_roles(name, &shape, &puts) {
            // The same object was put before, with other roles: these stay.
            return self.put_stripe(name, object, true, Some(group));
        }
        let is_new = is_new || puts.iter().any(|(_, put)| *put == Put::New);
        self.shape_is(name.id, shape);
        acknowledge(is_new)
    }

    /// Whether a part that was there before has other roles than those that were put now; then the
    /// latter are deleted.
    fn has_other_roles(&self, name: Name, shape: &Shape, puts: &[(usize, Put)]) -> bool {
        let before = puts.iter().filter(|(_, put)| *put == Put::There);
        let headers = before.filter_map(|(number, _)| {
            let target = self.targets.storage(*number)?;
            Header::parse(name.id, &target.get(name, Some(0..HEADER_LEN_MAX)).ok()?)
        });
        let roles = |shape: &Shape| self.targets_by_role(name.id, shape);
        let mut shapes = headers.map(|header| header.shape);
        if !shapes.any(|there| roles(&there) != roles(shape)) {
            return false;
        }
        lock(&self.known).remove(&name.id);
        for (number, _) in puts.iter().filter(|(_, put)| *put == Put::New) {
            if let Some(target) = self.targets.storage(*number) {
                let _ = target.delete(name);
            }
        }
        true
    }

    /// Computes all cells of a stripe here, and puts them on each of these targets.
    fn put_cells(
        &self,
        name: Name,
        object: &[u8],
        (shape, by_role): (&Shape, &[usize]),
        tags: Option<&ObjectTags>,
        numbers: &[usize],
    ) -> Puts {
        let layout = shape.geometry.layout();
        let cells = encode_cells(object, &shape.geometry);
        let parts_of = |target: usize| {
            let role = by_role.iter().position(|&number| number == target);
            let role = role.expect("every target has a role");
            let numbers = layout.cells_of_role(role);
            let cells = numbers.map(|cell| cells[cell].as_ref());
            let header = Header {
                shape: *shape,
                role,
            };
            Container::new(&header, name.id, cells, &|row, sector, bytes| {
                let cell = layout.cell(role, row);
                tags.map_or([0; TAG_LEN], |tags| tags.tag(cell, sector, bytes))
            })
        };
        self.targets.each(numbers, |number, storage| {
            storage.put(name, &parts_of(number).parts())
        })
    }

    /// Puts a shard on each of these targets.
    fn put_each(
        &self,
        numbers: &[usize],
        name: Name,
        parts: &[&[u8]],
    ) -> Result<Vec<(usize, Put)>> {
        self.judge_all(
            self.targets
                .each(numbers, |_, storage| storage.put(name, parts)),
        )
    }

    /// The group for a new stripe: of a pack one whose targets are all in use, if there is one, the
    /// more often the more room it has. Other objects are where small ones are, so that clients
    /// which do not know a new group find them.
    fn group_for(&self, name: Name) -> u8 {
        if name.kind != ObjectKind::Pack || self.groups.len() == 1 {
            return self.groups[0];
        }
        let room = self.room.get_or_init(|| self.room_of_groups());
        let targets = |group: u8| self.generation(group).unwrap_or_default();
        let takes = |&number: &usize| self.targets.takes(number);
        let all: Vec<(u8, u64)> = self
            .groups
            .iter()
            .copied()
            .zip(room.iter().copied())
            .collect();
        let whole = all.iter().copied();
        let whole = whole.filter(|&(group, _)| targets(group).iter().all(takes));
        let whole: Vec<(u8, u64)> = whole.collect();
        let choice = if whole.is_empty() { all } else { whole };
        // The first 8 bytes decide on roles.
        let chance = name.id.0[8..].first_chunk().expect("an ID has 32 bytes");
        let total: u128 = choice.iter().map(|&(_, room)| u128::from(room)).sum();
        let mut point = (u128::from(u64::from_le_bytes(*chance)) * total) >> 64;
        for &(group, room) in &choice {
            match point.checked_sub(room.into()) {
                Some(rest) => point = rest,
                None => return group,
            }
        }
        choice.last().expect("there is a group").0
    }

    /// Bytes that each group can still take, about: as much as its fullest target, on each. If one
    /// does not tell, all groups count alike.
    fn room_of_groups(&self) -> Vec<u64> {
        let room = self.groups.iter().zip(self.least_free());
        let room = room.map(|(group, least)| {
            let targets = self.generation(*group).unwrap_or_default().len() as u64;
            Some((least? / 1024 * (targets - 2)).max(1))
        });
        let room: Option<Vec<u64>> = room.collect();
        room.unwrap_or_else(|| vec![1; self.groups.len()])
    }

    /// Fails if more than two of these targets lack their part of the put.
    fn check_stored(&self, targets: &[usize], puts: &[(usize, Put)]) -> Result<()> {
        let has = |number: usize| {
            let mut puts = puts.iter();
            puts.any(|(other, put)| *other == number && put.is_there())
        };
        self.check_enough_but(|number| targets.contains(&number) && !has(number))
    }

    /// # Errors
    /// When a target is full or read-only, or more than two nodes are.
    fn judge_all(&self, puts: Puts) -> Result<Vec<(usize, Put)>> {
        let mut judged = Vec::new();
        let mut refused = 0;
        for (number, put) in puts {
            let error = put.as_ref().err().cloned();
            let put = self.judge(number, put)?;
            refused += usize::from(put == Put::Refused);
            if let Some(error) = error.filter(|_| refused > 2) {
                return Err(self.targets.blame(number, &error));
            }
            judged.push((number, put));
        }
        Ok(judged)
    }

    /// Judges the result of a put. A full or read-only target ends the operation; of nodes, up to
    /// two may refuse.
    fn judge(&self, number: usize, put: Result<()>) -> Result<Put> {
        use StorageErrorKind::{AlreadyExists, Denied, Full, ReadOnly, Unauthorized};
        let Err(error) = put else { return Ok(Put::New) };
        match error.kind() {
            AlreadyExists => Ok(Put::There),
            Full | Denied | ReadOnly if self.targets.refuses(number, &error) => Ok(Put::Refused),
            Full | Denied | ReadOnly | Unauthorized => Err(self.targets.blame(number, &error)),
            _ => {
                self.targets.give_up(number, &error);
                Ok(Put::Down)
            }
        }
    }
}

fn acknowledge(new: bool) -> Result<()> {
    if new {
        Ok(())
    } else {
        Err(StorageErrorKind::AlreadyExists.into())
    }
}

/// The only cell of a replica.
pub fn padded(object: &[u8]) -> Buffer {
    let geometry = Geometry::replica(object.len() as u64);
    Buffer::padded(object, geometry.cell_len() as usize)
}

/// A cell of a new stripe; data cells borrow the object's bytes.
pub enum Cell<'a> {
    /// Of the object.
    Data(&'a [u8]),
    /// Made for the stripe.
    Own(Buffer),
}

impl Default for Cell<'_> {
    fn default() -> Self {
        Self::Data(&[])
    }
}

impl AsRef<[u8]> for Cell<'_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Data(bytes) => bytes,
            Self::Own(buffer) => buffer.as_ref(),
        }
    }
}

impl AsMut<[u8]> for Cell<'_> {
    fn as_mut(&mut self) -> &mut [u8] {
        if let Self::Data(bytes) = self {
            *self = Self::Own(Buffer::padded(bytes, bytes.len()));
        }
        match self {
            Self::Own(buffer) => buffer.as_mut(),
            Self::Data(_) => &mut [],
        }
    }
}

/// The data cells of an object's stripe; parity cells are left empty.
pub fn data_cells<'a>(object: &'a [u8], geometry: &Geometry) -> Vec<Cell<'a>> {
    let (layout, cell_len) = (geometry.layout(), geometry.cell_len() as usize);
    let mut cells: Vec<Cell<'_>> = (0..layout.cells()).map(|_| Cell::default()).collect();
    let mut data = object.chunks(cell_len);
    for &cell in layout.data_cells() {
        let bytes = data.next().unwrap_or_default();
        cells[cell] = if bytes.len() == cell_len {
            Cell::Data(bytes)
        } else {
            Cell::Own(Buffer::padded(bytes, cell_len))
        };
    }
    cells
}

/// All cells of the stripe of an object.
pub fn encode_cells<'a>(object: &'a [u8], geometry: &Geometry) -> Vec<Cell<'a>> {
    let (layout, cell_len) = (geometry.layout(), geometry.cell_len() as usize);
    let mut cells = data_cells(object, geometry);
    let is_data: std::collections::HashSet<usize> = layout.data_cells().iter().copied().collect();
    for (number, cell) in cells.iter_mut().enumerate() {
        if !is_data.contains(&number) {
            *cell = Cell::Own(Buffer::of(cell_len));
        }
    }
    encode(&layout, &mut cells).expect("the cells are those of the layout, and of one length");
    cells
}
