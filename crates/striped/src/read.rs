//! Reads cells of a stripe, and computes unreadable cells from others.

mod prove;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use tabane_parity::{Layout, Plan, recover_plan};

use crate::container::{self, Form, Geometry, HEADER_LEN_MAX, Header, Shape};
use crate::striped::StripedStorage;
use crate::tags::{ObjectTags, TAG_LEN, Tag};
use crate::targets::{Parts, Ranges};
use tabane_storage::Id;
use tabane_storage::buffer::{self, Buffer};
use tabane_storage::{Name, Result, StorageError, StorageErrorKind, object_id};

/// Fewer bytes than these are not worth a thread for each target.
const HURRY_BYTES_MIN: u64 = 256 << 10;

/// State of a sector of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Unread,
    /// Read with the right tag or checksum, or computed from such sectors.
    Good,
    /// Missing, damaged, forged or unreachable on its own target.
    Bad,
}

/// What a stored sector is.
enum Verdict<'b> {
    /// As it was stored: its bytes and its tag, which is empty in a plain shard.
    Sound(&'b [u8], &'b [u8]),
    /// Its checksum is wrong.
    Damaged,
    /// Its checksum is right and its tag is wrong: somebody made the checksum of other bytes.
    Forged,
}

/// A sector that is not sound: its cell, its number, and whether it is forged.
type Spoilt = (usize, u64, bool);

/// Some sectors of all cells of a stripe.
pub struct StripeReader<'a> {
    storage: &'a StripedStorage,
    name: Name,
    shape: Shape,
    geometry: Geometry,
    layout: Layout,
    /// The target of each role.
    by_role: Vec<usize>,
    /// The form of each role's shard: until it shows, that of the stripe.
    forms: Vec<Form>,
    /// Roles whose header was read.
    seen: BTreeSet<usize>,
    /// What checks tags, if the secret is known.
    object_tags: Option<ObjectTags>,
    /// The sectors of each cell that are read.
    window: Range<u64>,
    /// For each cell the bytes of the window, once a sector of it is read.
    cells: Vec<Buffer>,
    /// The tags of these sectors, once a sector is read.
    tags: Vec<Vec<u8>>,
    states: Vec<Vec<State>>,
    /// Roles whose shard is missing or was not readable so far.
    absent: BTreeSet<usize>,
    /// Absent roles whose target is out of use, stopped answering or was too slow.
    away: BTreeSet<usize>,
    /// Absent roles whose target failed to read the shard, with its error.
    failed: BTreeMap<usize, String>,
    /// Roles with a damaged shard.
    damaged: BTreeSet<usize>,
    /// Damaged and forged sectors: cell and number.
    damage: BTreeSet<(usize, u64)>,
    /// Roles with a forged sector.
    forged: BTreeSet<usize>,
    has_odd_tags: bool,
    bytes_read: u64,
    /// Whether it does without targets that are much slower than the others.
    is_in_a_hurry: bool,
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
        shape: Shape,
        window: Range<u64>,
    ) -> Option<Self> {
        let by_role = storage.targets_by_role(name.id, &shape)?;
        let (geometry, layout) = (shape.geometry, shape.geometry.layout());
        let sectors = (window.end - window.start) as usize;
        let mut reader = Self {
            storage,
            name,
            shape,
            geometry,
            forms: vec![shape.form(); by_role.len()],
            seen: BTreeSet::new(),
            object_tags: storage.object_tags(name.id, &geometry),
            cells: (0..layout.cells()).map(|_| Buffer::default()).collect(),
            tags: vec![Vec::new(); layout.cells()],
            states: vec![vec![State::Unread; sectors]; layout.cells()],
            layout,
            by_role,
            window,
            absent: BTreeSet::new(),
            away: BTreeSet::new(),
            failed: BTreeMap::new(),
            damaged: BTreeSet::new(),
            damage: BTreeSet::new(),
            forged: BTreeSet::new(),
            has_odd_tags: false,
            bytes_read: 0,
            is_in_a_hurry: false,
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

    /// Lets it do without targets that are much slower than the others, as long as at most two
    /// roles are left out.
    pub fn hurry(mut self) -> Self {
        self.is_in_a_hurry = true;
        self
    }

    /// Hands out the sectors for a later reader.
    pub fn into_sectors(self) -> Sectors {
        Sectors {
            cells: self.cells,
            states: self.states,
        }
    }

    /// Leaves a role out, even if its target is in use.
    pub fn leave_out(&mut self, role: usize) {
        self.away.insert(role);
        self.give_up_role(role);
    }

    /// The object.
    pub fn name(&self) -> Name {
        self.name
    }

    /// The shape with which the stripe is read.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The sectors of each cell that are read.
    pub fn window(&self) -> Range<u64> {
        self.window.clone()
    }

    /// What makes tags, if the secret is known.
    pub fn object_tags(&self) -> Option<&ObjectTags> {
        self.object_tags.as_ref()
    }

    /// The layout of the stripe.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Roles whose shard is missing or whose target is out of use.
    pub fn absent(&self) -> &BTreeSet<usize> {
        &self.absent
    }

    /// Absent roles whose target is out of use, stopped answering or was too slow.
    pub fn away(&self) -> &BTreeSet<usize> {
        &self.away
    }

    /// Roles whose shard proved damaged.
    pub fn damaged(&self) -> &BTreeSet<usize> {
        &self.damaged
    }

    /// Roles with bytes that have the right checksum and are wrong.
    pub fn forged(&self) -> &BTreeSet<usize> {
        &self.forged
    }

    /// The targets of damaged roles.
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

    /// The target of each role.
    pub fn by_role(&self) -> &[usize] {
        &self.by_role
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

    /// Reads and computes all cells.
    ///
    /// # Errors
    /// As [`StripeReader::obtain`].
    pub fn obtain_all(&mut self) -> Result<()> {
        let cells = 0..self.layout.cells();
        let wants: Vec<Want> = cells.map(|cell| (cell, self.window.clone())).collect();
        self.obtain(&wants)
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
        let tags = self.tags_of(sectors);
        let slices = self.tags.iter_mut().enumerate().map(|(number, cell)| {
            if used.contains(&number) {
                &mut cell[tags.clone()]
            } else {
                &mut []
            }
        });
        let mut slices: Vec<&mut [u8]> = slices.collect();
        plan.run(&mut slices)
            .expect("the tags of all cells are of one length");
        for cell in plan.writes() {
            self.mark(cell, sectors, State::Good);
        }
    }

    /// The form of a role's shard.
    pub fn form(&self, role: usize) -> Form {
        self.forms[role]
    }

    /// Whether the shards of all roles that are there are tagged.
    pub fn are_all_tagged(&self) -> bool {
        let mut there = (0..self.forms.len()).filter(|role| !self.absent.contains(role));
        there.all(|role| self.forms[role] == Form::Tagged)
    }

    /// The tag of a sector, read or computed from others.
    pub fn tag(&self, cell: usize, sector: u64) -> Tag {
        let tag = &self.tags[cell][self.tags_of(&(sector..sector + 1))];
        *tag.first_chunk().expect("a tag has this length")
    }

    /// Whether all of these cells are good in the whole window.
    pub fn all_good<'c>(&self, cells: impl IntoIterator<Item = &'c usize>) -> bool {
        let is_good = |&cell: &usize| self.states[cell].iter().all(|state| *state == State::Good);
        cells.into_iter().all(is_good)
    }

    /// Reads wanted, unread sectors from all targets at once. Unreadable sectors become bad.
    pub fn read(&mut self, wants: &[Want]) {
        let mut wants = wants.to_vec();
        while !wants.is_empty() {
            wants = self.read_in_known_forms(&wants);
        }
    }

    /// As [`StripeReader::read`], but returns what has to be read again, from shards that proved to
    /// have another form.
    fn read_in_known_forms(&mut self, wants: &[Want]) -> Vec<Want> {
        let mut of_role: BTreeMap<usize, Vec<Want>> = BTreeMap::new();
        for (cell, sectors) in wants {
            for sectors in self.unread(*cell, sectors) {
                let role = self.layout.role_of(*cell);
                of_role.entry(role).or_default().push((*cell, sectors));
            }
        }
        let spans = of_role
            .iter()
            .map(|(&role, wants)| (role, self.spans(wants)));
        let spans: BTreeMap<usize, Vec<Vec<Want>>> = spans.collect();
        let range = |span: &Vec<Want>| {
            let stored = [span.first(), span.last()].map(|want| want.map(|want| self.stored(want)));
            match stored {
                [Some(first), Some(last)] => first.start..last.end,
                _ => 0..0,
            }
        };
        let ranges = spans
            .iter()
            .map(|(role, spans)| (self.by_role[*role], spans.iter().map(range).collect()));
        let ranges: Ranges = ranges.collect();
        let fetched = self.fetch(&ranges);
        let answered: Vec<usize> = fetched.iter().map(|(number, _)| *number).collect();
        let mut again = Vec::new();
        for (number, found) in fetched {
            let role = self.role_of_target(number);
            match found {
                Ok(found) => {
                    let mut spoilt = Vec::new();
                    for ((span, range), bytes) in
                        spans[&role].iter().zip(&ranges[&number]).zip(found)
                    {
                        self.bytes_read += bytes.len() as u64;
                        spoilt.extend(self.take(span, range.start, &bytes, false));
                        buffer::give_back(bytes);
                    }
                    if !spoilt.is_empty() && self.has_other_form(role) {
                        again.extend(of_role[&role].iter().cloned());
                    } else {
                        self.spoil(role, &spoilt);
                    }
                }
                Err(error) => {
                    match error.kind() {
                        StorageErrorKind::NotFound => {}
                        StorageErrorKind::PastEnd if self.has_other_form(role) => {
                            again.extend(of_role[&role].iter().cloned());
                            continue;
                        }
                        // The shard is truncated.
                        StorageErrorKind::PastEnd => drop(self.damaged.insert(role)),
                        _ => self.failed_to_read(role, &error),
                    }
                    self.give_up_role(role);
                }
            }
        }
        // Another thread has put the target out of use, or it is too slow.
        for role in of_role.into_keys() {
            if !answered.contains(&self.by_role[role]) {
                self.leave_out(role);
            }
        }
        again
    }

    /// Reads these ranges from targets at once.
    fn fetch(&self, ranges: &Ranges) -> Parts {
        let targets = &self.storage.targets;
        let bytes = ranges
            .values()
            .flatten()
            .map(|range| range.end - range.start);
        if self.is_in_a_hurry && bytes.sum::<u64>() >= HURRY_BYTES_MIN {
            let spare = 2_usize.saturating_sub(self.absent.len());
            return targets.read_first(self.name, ranges, spare);
        }
        targets.read(self.name, ranges)
    }

    /// Whether the header of a role's shard shows another form than was thought; asked once a role.
    fn has_other_form(&mut self, role: usize) -> bool {
        if !self.seen.insert(role) {
            return false;
        }
        let target = self.storage.targets.storage(self.by_role[role]);
        let header = target.and_then(|target| target.get(self.name, Some(0..HEADER_LEN_MAX)).ok());
        let header = header.and_then(|bytes| Header::parse(self.name.id, &bytes));
        let Some(header) = header.filter(|header| self.is_ours(header, role)) else {
            return false;
        };
        std::mem::replace(&mut self.forms[role], header.shape.form()) != header.shape.form()
    }

    /// Whether a header is that of a shard of this role of this stripe.
    fn is_ours(&self, header: &Header, role: usize) -> bool {
        let (object, shape) = (self.name.id, &header.shape);
        let are_same = match (&shape.seal, &self.shape.seal) {
            (Some(seal), Some(own)) => seal == own,
            _ => self.storage.is_sealed(object, shape),
        };
        let by_role = self.storage.targets_by_role(object, shape);
        header.role == role
            && shape.geometry == self.geometry
            && are_same
            && by_role.is_some_and(|by_role| by_role == self.by_role)
    }

    /// Reads the whole shards of all roles that are not absent, including headers, and checks tags
    /// and checksums. Returns the headers.
    pub fn read_containers(&mut self) -> Vec<Header> {
        let roles = (0..self.by_role.len()).filter(|role| !self.absent.contains(role));
        let numbers: Vec<usize> = roles.clone().map(|role| self.by_role[role]).collect();
        let roles: Vec<usize> = roles.collect();
        let name = self.name;
        let read = self
            .storage
            .targets
            .each(&numbers, |_, target| target.get(name, None));
        let answered: Vec<usize> = read.iter().map(|(number, _)| *number).collect();
        let mut headers = Vec::new();
        for (number, bytes) in read {
            let role = self.role_of_target(number);
            match bytes {
                Ok(bytes) => {
                    self.bytes_read += bytes.len() as u64;
                    headers.extend(self.take_container(role, &bytes));
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
        headers
    }

    /// Takes over a whole shard; returns its header, if that is sound.
    fn take_container(&mut self, role: usize, bytes: &[u8]) -> Option<Header> {
        let header = Header::parse(self.name.id, bytes);
        if let Some(header) = header.filter(|header| self.is_ours(header, role)) {
            self.forms[role] = header.shape.form();
        } else {
            self.damaged.insert(role);
        }
        let form = self.forms[role];
        if bytes.len() as u64 != self.geometry.container_len(form) {
            self.damaged.insert(role);
            self.give_up_role(role);
            return header;
        }
        let rows = self.layout.rows();
        let end = self.geometry.stored(form, rows, &(0..0)).start as usize;
        if bytes[end..].iter().any(|&byte| byte != 0) {
            self.damaged.insert(role);
        }
        let cells = self.layout.cells_of_role(role);
        let wants: Vec<Want> = cells.map(|cell| (cell, self.window.clone())).collect();
        let spoilt = self.take(&wants, 0, bytes, true);
        self.spoil(role, &spoilt);
        header
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
        let form = self.forms[self.layout.role_of(*cell)];
        self.geometry
            .stored(form, self.layout.row_of(*cell), sectors)
    }

    /// Takes over the sound sectors of a span, and returns the others; `bytes` begin at offset
    /// `start` of the shard.
    fn take(
        &mut self,
        span: &[Want],
        start: u64,
        bytes: &[u8],
        with_checksums: bool,
    ) -> Vec<Spoilt> {
        let mut spoilt = Vec::new();
        for (cell, sectors) in span {
            self.make_room(*cell);
            for sector in sectors.clone() {
                let sectors = sector..sector + 1;
                let at = self.stored(&(*cell, sectors.clone()));
                let stored = &bytes[(at.start - start) as usize..(at.end - start) as usize];
                match self.judge(*cell, sector, stored, with_checksums) {
                    Verdict::Sound(sound, tag) => {
                        let (range, tags) = (self.bytes_of(&sectors), self.tags_of(&sectors));
                        self.cells[*cell].as_mut()[range].copy_from_slice(sound);
                        self.tags[*cell][tags][..tag.len()].copy_from_slice(tag);
                        self.mark(*cell, &sectors, State::Good);
                    }
                    Verdict::Damaged => spoilt.push((*cell, sector, false)),
                    Verdict::Forged => spoilt.push((*cell, sector, true)),
                }
            }
        }
        spoilt
    }

    /// Judges a sector by its tag where that can be checked, and by its checksum otherwise, or
    /// `with_checksums` by both.
    fn judge<'b>(
        &self,
        cell: usize,
        sector: u64,
        stored: &'b [u8],
        with_checksums: bool,
    ) -> Verdict<'b> {
        let (role, row) = (self.layout.role_of(cell), self.layout.row_of(cell));
        let len = self.geometry.sector(sector);
        let (bytes, tail) = stored.split_at((len.end - len.start) as usize);
        let tag = &tail[..self.forms[role].tag_len() as usize];
        let tags = self.object_tags.as_ref().filter(|_| !tag.is_empty());
        let is_right = tags.map(|tags| tags.tag(cell, sector, bytes) == *tag);
        if is_right == Some(true) && !with_checksums {
            return Verdict::Sound(bytes, tag);
        }
        match container::open_sector(self.name.id, role, row, sector, stored) {
            None => Verdict::Damaged,
            Some(_) if is_right == Some(false) => Verdict::Forged,
            Some(_) => Verdict::Sound(bytes, tag),
        }
    }

    /// Records sectors of a role that are not sound.
    fn spoil(&mut self, role: usize, spoilt: &[Spoilt]) {
        for &(cell, sector, is_forged) in spoilt {
            self.damaged.insert(role);
            self.damage.insert((cell, sector));
            self.mark(cell, &(sector..sector + 1), State::Bad);
            if is_forged {
                self.forged.insert(role);
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

    /// Byte range of the tags of sectors within the window.
    fn tags_of(&self, sectors: &Range<u64>) -> Range<usize> {
        let at = |sector: u64| (sector - self.window.start) as usize * TAG_LEN;
        at(sectors.start)..at(sectors.end)
    }

    fn make_room(&mut self, cell: usize) {
        let len = self.bytes_of(&self.window.clone()).end;
        if self.cells[cell].as_ref().len() != len {
            self.cells[cell] = Buffer::of(len);
        }
        let tags = self.tags_of(&self.window.clone()).end;
        self.tags[cell].resize(tags, 0);
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

/// The object in the shard of a replica, if it is intact and what its name says. The name of the
/// config says nothing.
pub fn open_replica(object: Id, geometry: &Geometry, bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.len() as u64 != geometry.container_len(Form::Plain) {
        return None;
    }
    let mut found = Vec::with_capacity(geometry.cell_len() as usize);
    for sector in 0..geometry.sectors() {
        let at = geometry.stored(Form::Plain, 0, &(sector..sector + 1));
        let stored = &bytes[at.start as usize..at.end as usize];
        found.extend_from_slice(container::open_sector(object, 0, 0, sector, stored)?);
    }
    found.truncate(geometry.object_len as usize);
    let is_named = object == Name::CONFIG.id || object_id(&[&found]) == object;
    is_named.then_some(found)
}
