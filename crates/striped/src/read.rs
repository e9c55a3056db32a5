//! Reads cells of a stripe, and computes unreadable cells from others.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tabane_parity::{Layout, Plan, recover_plan};

use crate::container::{self, Geometry};
use crate::striped::StripedStorage;
use tabane_storage::Id;
use tabane_storage::buffer::{self, Buffer};
use tabane_storage::{Name, Result, StorageError, StorageErrorKind};

/// State of a sector of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Unread,
    /// Read with the right checksum, or computed from such sectors.
    Good,
    /// Missing, damaged or unreachable on its own target.
    Bad,
}

/// Some sectors of all cells of a stripe.
pub struct StripeReader<'a> {
    storage: &'a StripedStorage,
    name: Name,
    geometry: Geometry,
    layout: Layout,
    /// The target of each role.
    by_role: Vec<usize>,
    /// The sectors of each cell that are read.
    window: Range<u64>,
    /// For each cell the bytes of the window, once a sector of it is read.
    cells: Vec<Buffer>,
    states: Vec<Vec<State>>,
    /// Roles whose shard is missing or was not readable so far.
    absent: BTreeSet<usize>,
    /// Absent roles whose target is out of use or stopped answering.
    away: BTreeSet<usize>,
    /// Absent roles whose target failed to read the shard, with its error.
    failed: BTreeMap<usize, String>,
    /// Roles with a damaged shard.
    damaged: BTreeSet<usize>,
    /// Damaged sectors: cell and number.
    damage: BTreeSet<(usize, u64)>,
    bytes_read: u64,
}

/// Sectors of a stripe that were read or computed, for a later reader.
#[derive(Default)]
pub struct Sectors {
    cells: Vec<Buffer>,
    states: Vec<Vec<State>>,
}

/// The sectors of a cell that are wanted.
pub type Want = (usize, Range<u64>);

/// Consecutive sectors with the same bad cells, some of which are wanted.
struct Gap {
    bad: BTreeSet<usize>,
    wanted: BTreeSet<usize>,
    sectors: Range<u64>,
}

impl Gap {
    fn continues(&self, sector: u64, bad: &BTreeSet<usize>, wanted: &BTreeSet<usize>) -> bool {
        self.sectors.end == sector && self.bad == *bad && self.wanted == *wanted
    }
}

impl<'a> StripeReader<'a> {
    /// A reader that has read nothing yet; `None` if the set lacks this generation.
    pub fn new(
        storage: &'a StripedStorage,
        name: Name,
        geometry: Geometry,
        window: Range<u64>,
    ) -> Option<Self> {
        let by_role = storage.targets_by_role(name.id, geometry.generation)?;
        if by_role.len() != usize::from(geometry.roles) {
            return None;
        }
        let layout = geometry.layout();
        let sectors = (window.end - window.start) as usize;
        let mut reader = Self {
            storage,
            name,
            geometry,
            cells: (0..layout.cells()).map(|_| Buffer::default()).collect(),
            states: vec![vec![State::Unread; sectors]; layout.cells()],
            layout,
            by_role,
            window,
            absent: BTreeSet::new(),
            away: BTreeSet::new(),
            failed: BTreeMap::new(),
            damaged: BTreeSet::new(),
            damage: BTreeSet::new(),
            bytes_read: 0,
        };
        for role in 0..reader.by_role.len() {
            if !storage.targets.is_up(reader.by_role[role]) {
                reader.leave_out(role);
            }
        }
        Some(reader)
    }

    /// Takes over sectors that were read before; the window must be the whole stripe.
    pub fn resume(mut self, sectors: Sectors) -> Self {
        for (cell, (bytes, states)) in sectors.cells.into_iter().zip(sectors.states).enumerate() {
            self.cells[cell] = bytes;
            for (state, before) in self.states[cell].iter_mut().zip(states) {
                if before == State::Good {
                    *state = State::Good;
                }
            }
        }
        self
    }

    /// Hands out the sectors for a later reader.
    pub fn into_sectors(self) -> Sectors {
        Sectors {
            cells: self.cells,
            states: self.states,
        }
    }

    /// Sectors of which all cells are known.
    pub fn whole_sectors(&self) -> Vec<u64> {
        let is_good = |sector: &u64| {
            let mut cells = 0..self.layout.cells();
            cells.all(|cell| self.state(cell, *sector) == State::Good)
        };
        self.window.clone().filter(is_good).collect()
    }

    /// Whether no cell of a sector was computed from others.
    pub fn all_were_read(&self, sector: u64) -> bool {
        self.absent.is_empty() && !self.damage.iter().any(|(_, damaged)| *damaged == sector)
    }

    /// Leaves a role out, even if its target is in use.
    pub fn leave_out(&mut self, role: usize) {
        self.away.insert(role);
        self.give_up_role(role);
    }

    /// The layout of the stripe.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Roles whose shard is missing or whose target is out of use.
    pub fn absent(&self) -> &BTreeSet<usize> {
        &self.absent
    }

    /// Roles whose shard proved damaged.
    pub fn damaged(&self) -> &BTreeSet<usize> {
        &self.damaged
    }

    /// The targets of these roles.
    pub fn damaged_targets(&self) -> impl Iterator<Item = usize> {
        self.damaged.iter().map(|&role| self.by_role[role])
    }

    /// The damaged cells of these roles, by sector.
    pub fn damage(&self, roles: &BTreeSet<usize>) -> BTreeMap<u64, BTreeSet<usize>> {
        let mut damage: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
        for &(cell, sector) in &self.damage {
            if roles.contains(&self.layout.role_of(cell)) {
                damage.entry(sector).or_default().insert(cell);
            }
        }
        damage
    }

    /// Bytes read from targets.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// The bytes of a sector that [`StripeReader::obtain`] has read or computed.
    pub fn sector(&self, cell: usize, sector: u64) -> &[u8] {
        &self.cells[cell].as_ref()[self.bytes_of(&(sector..sector + 1))]
    }

    /// The bytes of a non-empty range of the object, whose [`wants`] [`StripeReader::obtain`] has
    /// read or computed.
    pub fn bytes(&self, range: &Range<u64>, wanted: &[Want]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
        let cell_len = self.geometry.cell_len();
        for (block, (cell, sectors)) in (range.start / cell_len..).zip(wanted) {
            for sector in sectors.clone() {
                let within = self.geometry.sector(sector);
                let start = block * cell_len + within.start;
                let end = block * cell_len + within.end;
                let found = self.sector(*cell, sector);
                let from = range.start.max(start) - start;
                let to = range.end.min(end) - start;
                bytes.extend_from_slice(&found[from as usize..to as usize]);
            }
        }
        bytes
    }

    /// All cells, in the order of their numbers.
    pub fn cells(&self) -> &[Buffer] {
        &self.cells
    }

    /// Treats a role as absent.
    pub fn give_up_role(&mut self, role: usize) {
        self.absent.insert(role);
        for cell in self.layout.cells_of_role(role) {
            for state in &mut self.states[cell] {
                if *state == State::Unread {
                    *state = State::Bad;
                }
            }
        }
    }

    /// Reads the wanted sectors, and computes unreadable ones.
    ///
    /// # Errors
    /// [`StorageErrorKind::NotFound`] when too many targets lack their part for an object of this
    /// name; [`StorageErrorKind::TooFewTargets`] when too many do not answer;
    /// [`StorageErrorKind::Damaged`] when too much is damaged.
    pub fn obtain(&mut self, wants: &[Want]) -> Result<()> {
        self.read(wants);
        loop {
            let gaps = self.gaps(wants);
            if gaps.is_empty() {
                return Ok(());
            }
            let mut unread = Vec::new();
            let mut ready = Vec::new();
            for gap in gaps {
                let plan = recover_plan(&self.layout, &gap.bad, &gap.wanted);
                let plan = plan.map_err(|_| self.unreadable())?;
                for cell in plan.reads() {
                    let sectors = self.unread(cell, &gap.sectors);
                    unread.extend(sectors.map(|sectors| (cell, sectors)));
                }
                ready.push((plan, gap.sectors));
            }
            if unread.is_empty() {
                for (plan, sectors) in ready {
                    self.compute(&plan, &sectors);
                }
            } else {
                self.read(&unread);
            }
        }
    }

    /// Computes cells from others by `plan`, in these sectors.
    pub fn compute(&mut self, plan: &Plan, sectors: &Range<u64>) {
        let bytes = self.bytes_of(sectors);
        let used: BTreeSet<usize> = &plan.reads() | &plan.writes();
        for &cell in &used {
            self.make_room(cell);
        }
        let slices = self.cells.iter_mut().enumerate().map(|(number, cell)| {
            if used.contains(&number) {
                &mut cell.as_mut()[bytes.clone()]
            } else {
                &mut []
            }
        });
        let mut slices: Vec<&mut [u8]> = slices.collect();
        plan.run(&mut slices)
            .expect("the parts of all cells are of one length");
        for cell in plan.writes() {
            self.mark(cell, sectors, State::Good);
        }
    }

    /// Whether all of these cells are good in the whole window.
    pub fn all_good<'c>(&self, cells: impl IntoIterator<Item = &'c usize>) -> bool {
        let is_good = |&cell: &usize| self.states[cell].iter().all(|state| *state == State::Good);
        cells.into_iter().all(is_good)
    }

    /// Reads wanted, unread sectors from all targets at once. Unreadable sectors become bad.
    pub fn read(&mut self, wants: &[Want]) {
        let mut of_role: BTreeMap<usize, Vec<Want>> = BTreeMap::new();
        for (cell, sectors) in wants {
            for sectors in self.unread(*cell, sectors) {
                let role = self.layout.role_of(*cell);
                of_role.entry(role).or_default().push((*cell, sectors));
            }
        }
        let numbers: Vec<usize> = of_role.keys().map(|&role| self.by_role[role]).collect();
        let bytes_read = AtomicU64::new(0);
        let fetched = self.storage.targets.each(&numbers, |number, target| {
            let wants = &of_role[&self.role_of_target(number)];
            let mut found = Vec::new();
            for span in self.spans(wants) {
                let (first, last) = (span.first(), span.last());
                let (Some(first), Some(last)) = (first, last) else {
                    continue;
                };
                let (first, last) = (self.stored(first), self.stored(last));
                let begun = Instant::now();
                let bytes = target.get(self.name, Some(first.start..last.end))?;
                let targets = &self.storage.targets;
                targets.gave(number, bytes.len(), begun.elapsed());
                bytes_read.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                found.push((span, first.start, bytes));
            }
            Ok::<_, StorageError>(found)
        });
        self.bytes_read += bytes_read.into_inner();
        let answered: Vec<usize> = fetched.iter().map(|(number, _)| *number).collect();
        for (number, found) in fetched {
            let role = self.role_of_target(number);
            match found {
                Ok(found) => {
                    for (span, start, bytes) in found {
                        self.take(&span, start, &bytes);
                        buffer::give_back(bytes);
                    }
                }
                Err(error) => {
                    match error.kind() {
                        StorageErrorKind::NotFound => {}
                        // The shard is truncated.
                        StorageErrorKind::PastEnd => drop(self.damaged.insert(role)),
                        _ => self.failed_to_read(role, &error),
                    }
                    self.give_up_role(role);
                }
            }
        }
        // Another thread has put the target out of use.
        for role in of_role.into_keys() {
            if !answered.contains(&self.by_role[role]) {
                self.leave_out(role);
            }
        }
    }

    /// Reads the whole shards of all roles that are not absent, including headers.
    pub fn read_containers(&mut self) {
        let roles = (0..self.by_role.len()).filter(|role| !self.absent.contains(role));
        let numbers: Vec<usize> = roles.clone().map(|role| self.by_role[role]).collect();
        let roles: Vec<usize> = roles.collect();
        let name = self.name;
        let read = self
            .storage
            .targets
            .each(&numbers, |_, target| target.get(name, None));
        let answered: Vec<usize> = read.iter().map(|(number, _)| *number).collect();
        for (number, bytes) in read {
            let role = self.role_of_target(number);
            match bytes {
                Ok(bytes) => {
                    self.bytes_read += bytes.len() as u64;
                    self.take_container(role, &bytes);
                    buffer::give_back(bytes);
                }
                Err(error) => {
                    if error.kind() != StorageErrorKind::NotFound {
                        self.failed_to_read(role, &error);
                    }
                    self.give_up_role(role);
                }
            }
        }
        for role in roles {
            if !answered.contains(&self.by_role[role]) {
                self.leave_out(role);
            }
        }
    }

    fn take_container(&mut self, role: usize, bytes: &[u8]) {
        let is_ours = Geometry::parse(self.name.id, bytes) == Some((self.geometry, role));
        let len = self.geometry.container_len();
        if !is_ours || bytes.len() as u64 != len {
            self.damaged.insert(role);
        }
        if bytes.len() as u64 != len {
            return self.give_up_role(role);
        }
        let end = self.geometry.stored(self.layout.rows(), &(0..0)).start as usize;
        if bytes[end..].iter().any(|&byte| byte != 0) {
            self.damaged.insert(role);
        }
        let cells = self.layout.cells_of_role(role);
        let wants: Vec<Want> = cells.map(|cell| (cell, self.window.clone())).collect();
        self.take(&wants, 0, bytes);
    }

    /// Handles a failed read of a role's shard that exists.
    fn failed_to_read(&mut self, role: usize, error: &StorageError) {
        if self.storage.failed_to_read(self.by_role[role], error) {
            self.away.insert(role);
        } else {
            self.failed.insert(role, error.to_string());
        }
    }

    fn role_of_target(&self, number: usize) -> usize {
        let role = self.by_role.iter().position(|&other| other == number);
        role.expect("every target of the generation has a role")
    }

    /// Groups wants of one role into runs that are contiguous in its shard.
    fn spans(&self, wants: &[Want]) -> Vec<Vec<Want>> {
        let mut wants = wants.to_vec();
        wants.sort_by_key(|want| self.stored(want).start);
        let mut spans: Vec<Vec<Want>> = Vec::new();
        for want in wants {
            let start = self.stored(&want).start;
            let last = spans.last_mut().filter(|span| {
                let end = span.last().map(|last| self.stored(last).end);
                end == Some(start)
            });
            match last {
                Some(span) => span.push(want),
                None => spans.push(vec![want]),
            }
        }
        spans
    }

    fn stored(&self, (cell, sectors): &Want) -> Range<u64> {
        self.geometry.stored(self.layout.row_of(*cell), sectors)
    }

    /// Takes over the intact sectors of a span; `bytes` begin at offset `start` of the shard.
    fn take(&mut self, span: &[Want], start: u64, bytes: &[u8]) {
        for (cell, sectors) in span {
            let (role, row) = (self.layout.role_of(*cell), self.layout.row_of(*cell));
            self.make_room(*cell);
            for sector in sectors.clone() {
                let at = self.geometry.stored(row, &(sector..sector + 1));
                let stored = &bytes[(at.start - start) as usize..(at.end - start) as usize];
                let sectors = sector..sector + 1;
                match container::open_sector(self.name.id, role, row, sector, stored) {
                    Some(sound) => {
                        let range = self.bytes_of(&sectors);
                        self.cells[*cell].as_mut()[range].copy_from_slice(sound);
                        self.mark(*cell, &sectors, State::Good);
                    }
                    None => {
                        self.damaged.insert(role);
                        self.damage.insert((*cell, sector));
                        self.mark(*cell, &sectors, State::Bad);
                    }
                }
            }
        }
    }

    /// Finds the bad sectors among wanted ones.
    fn gaps(&self, wants: &[Want]) -> Vec<Gap> {
        let mut wanted: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
        for (cell, sectors) in wants {
            for sector in sectors.clone() {
                if self.state(*cell, sector) == State::Bad {
                    wanted.entry(sector).or_default().insert(*cell);
                }
            }
        }
        let mut gaps: Vec<Gap> = Vec::new();
        for (sector, wanted) in wanted {
            let cells = 0..self.layout.cells();
            let bad = cells.filter(|&cell| self.state(cell, sector) == State::Bad);
            let bad: BTreeSet<usize> = bad.collect();
            let last = gaps.last_mut();
            match last.filter(|gap| gap.continues(sector, &bad, &wanted)) {
                Some(gap) => gap.sectors.end += 1,
                None => gaps.push(Gap {
                    bad,
                    wanted,
                    sectors: sector..sector + 1,
                }),
            }
        }
        gaps
    }

    /// The runs of unread sectors among these of a cell.
    fn unread(&self, cell: usize, sectors: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for sector in sectors.clone() {
            if self.state(cell, sector) != State::Unread {
                continue;
            }
            match runs.last_mut().filter(|run| run.end == sector) {
                Some(run) => run.end += 1,
                None => runs.push(sector..sector + 1),
            }
        }
        runs.into_iter()
    }

    fn state(&self, cell: usize, sector: u64) -> State {
        self.states[cell][(sector - self.window.start) as usize]
    }

    fn mark(&mut self, cell: usize, sectors: &Range<u64>, state: State) {
        let first = self.window.start;
        let sectors = (sectors.start - first) as usize..(sectors.end - first) as usize;
        self.states[cell][sectors].fill(state);
    }

    /// Byte range of sectors within the window.
    fn bytes_of(&self, sectors: &Range<u64>) -> Range<usize> {
        let at = |sector: u64| {
            let first = self.geometry.sector(self.window.start).start;
            (self
                .geometry
                .sector(sector)
                .start
                .min(self.geometry.cell_len())
                - first) as usize
        };
        at(sectors.start)..at(sectors.end)
    }

    fn make_room(&mut self, cell: usize) {
        let len = self.bytes_of(&self.window.clone()).end;
        if self.cells[cell].as_ref().len() != len {
            self.cells[cell] = Buffer::of(len);
        }
    }

    /// The error for a stripe whose parts at most two missing targets and some others lack.
    fn too_few(&self) -> StorageError {
        let all = self.storage.targets.all();
        let away = self
            .away
            .iter()
            .map(|&role| all[self.by_role[role]].url.as_str());
        let away: Vec<&str> = away.collect();
        let text = format!(
            "too few of its parts can be read while {} does not answer: it was stored, or changed, \
             while other targets were away",
            away.join(", ")
        );
        StorageError::new(StorageErrorKind::TooFewTargets, text)
    }

    fn unreadable(&self) -> StorageError {
        let silent = self.away.len() + self.failed.len();
        if self.absent.len() - silent > 2 && self.damaged.is_empty() {
            return StorageErrorKind::NotFound.into();
        }
        if !self.away.is_empty() {
            let is_away = |number: usize| {
                let role = self.by_role.iter().position(|&other| other == number);
                role.map_or(!self.storage.targets.is_up(number), |role| {
                    self.away.contains(&role)
                })
            };
            return match self.storage.check_enough_but(is_away) {
                Err(error) => error,
                Ok(()) => self.too_few(),
            };
        }
        let all = self.storage.targets.all();
        if !self.failed.is_empty() {
            let of = |(&role, why): (&usize, &String)| {
                format!("target {}: {why}", all[self.by_role[role]].url)
            };
            let failed: Vec<String> = self.failed.iter().map(of).collect();
            let text = format!(
                "too many of its parts cannot be read: {}",
                failed.join("; ")
            );
            return StorageError::new(StorageErrorKind::Permanent, text);
        }
        let of = |roles: &BTreeSet<usize>| -> Vec<&str> {
            let targets = roles
                .iter()
                .map(|&role| all[self.by_role[role]].url.as_str());
            targets.collect()
        };
        let (absent, damaged) = (of(&self.absent), of(&self.damaged));
        let text = format!(
            "too much of it is lost: its parts on {} are damaged, those on {} are missing",
            if damaged.is_empty() {
                "no target".to_owned()
            } else {
                damaged.join(", ")
            },
            if absent.is_empty() {
                "no target".to_owned()
            } else {
                absent.join(", ")
            },
        );
        StorageError::new(StorageErrorKind::Damaged, text)
    }
}

/// The sectors that contain a range of an object.
pub fn wants(geometry: &Geometry, layout: &Layout, range: &Range<u64>) -> Vec<Want> {
    let cell_len = geometry.cell_len();
    let first = range.start / cell_len;
    let cells = first..range.end.div_ceil(cell_len);
    let of_cell = cells.map(|block| {
        let start = range.start.max(block * cell_len) - block * cell_len;
        let end = range.end.min((block + 1) * cell_len) - block * cell_len;
        let sectors = start / container::SECTOR_LEN..end.div_ceil(container::SECTOR_LEN);
        (layout.data_cells()[block as usize], sectors)
    });
    of_cell.collect()
}

/// The object in the shard of a replica, if intact.
pub fn open_replica(object: Id, geometry: &Geometry, bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.len() as u64 != geometry.container_len() {
        return None;
    }
    let mut found = Vec::with_capacity(geometry.cell_len() as usize);
    for sector in 0..geometry.sectors() {
        let at = geometry.stored(0, &(sector..sector + 1));
        let stored = &bytes[at.start as usize..at.end as usize];
        found.extend_from_slice(container::open_sector(object, 0, 0, sector, stored)?);
    }
    found.truncate(geometry.object_len as usize);
    Some(found)
}
