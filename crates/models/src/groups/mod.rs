//! A set of targets that grows and shrinks: groups are added and emptied, targets replaced, one
//! object is put, moved and deleted, by clients that opened the set at any time.
//!
//! Groups are pairs of targets, of which one may be missing, and a small object has two copies: one
//! less than in the program. A step is what a client asks all targets of a pair at once, or of
//! all that it knows where the order makes no difference. Any client may sleep between two steps.

pub mod change;
pub mod client;
pub mod movement;
pub mod set;

use stateright::{Model, Property};

use crate::removal::world::bits;
use change::Admin;
use client::{Deleter, Lister, Writer};
use movement::{Heal, Mover};
use set::{ALL, COPY, Description, FIRST, PAIRS, Parts, REPLICAS, SECOND, TARGETS, Targets};

/// Descriptions that a run makes at most.
const DESCRIPTIONS_MAX: usize = 8;
/// Clients that move objects, at most.
pub const MOVERS_MAX: usize = 2;
/// Clients that change the targets, at most.
pub const ADMINS_MAX: usize = 2;

/// Steps as they are called in the code.
pub const STEPS: [&str; 30] = [
    "open",
    "put-record",
    "check-groups",
    "put",
    "check-again",
    "list-objects",
    "list-marks",
    "look-for-later",
    "delete",
    "look-for-targets",
    "look-for-notes",
    "look-for-parts",
    "mark",
    "check-mark",
    "note",
    "list-for-moves",
    "read",
    "put-copy",
    "check-copy",
    "look-again",
    "delete-old",
    "take-back",
    "describe",
    "apply-marks",
    "unmark",
    "put-missing",
    "wait-for-clients",
    "copy-marks",
    "look-for-what-is-left",
    "announce",
];

/// What the program does, or could do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As the code does.
    Ours,
    /// Small objects go to the newest group.
    SmallToNewest,
    /// Large objects go to any group, also if they are no packs.
    LargeAnywhere,
    /// A list does not ask whether the set has got other targets.
    ListsUnasked,
    /// A list asks which targets are away when it has ended.
    ListsWithReturned,
    /// A list counts what is on targets that are forgotten.
    ListsForgotten,
    /// A client that puts something asks only before it puts it whether its groups are in use.
    ChecksBefore,
    /// The old copy of a moved object is deleted at once.
    DeletesAtOnce,
    /// Who moves an object does not look again before it deletes the old parts.
    LooksOnce,
    /// Objects move to any other group.
    MovesBack,
    /// Who moves objects puts no note.
    MovesUnnoted,
    /// Who moves objects does not ask whether the set has changed, before it deletes.
    MovesUnasked,
    /// Who moves objects deletes any parts from the old targets, also newer ones.
    DeletesAnyParts,
    /// Of an object that is in a group that is emptied and in another one, the newer one stays.
    KeepsRetired,
    /// A deletion does not ask whether the set has got other targets.
    DeletesUnasked,
    /// A deletion does not ask, once it is marked, whether its groups are in use.
    MarksUnchecked,
    /// A heal applies marks without asking whether the set has changed.
    AppliesUnasked,
    /// A heal asks whether the set has changed before it puts its note.
    NotesAfterAsking,
    /// A heal also takes away descriptions that are later than its own.
    HealsBack,
    /// A group is forgotten with the marks that it has.
    ForgetsMarks,
    /// A group is forgotten without a look for what is left.
    ForgetsUnseen,
    /// A group is forgotten although it has a stripe, if that is whole elsewhere too.
    ForgetsOneOfTwo,
    /// A place that was a target before is taken with what it holds.
    TakesFormer,
    /// A target that is replaced is not told.
    ReplacesUntold,
    /// Who changes the set does not look for other changes before it puts its own.
    AnnouncesAtOnce,
    /// Who changes the set does not look for other changes after it has put its own.
    AnnouncesUnseen,
    /// Targets are used that the description does not name.
    UsesStrangers,
}

/// Kinds of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A small one, of which there are copies, as of most snapshots.
    Small,
    /// A large one that is no pack, as an index object: a stripe.
    Large,
    /// A pack: a stripe. Its deletion is not marked.
    Pack,
}

/// A change of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A target is added to the smallest group.
    Add(usize),
    /// These targets are added as a group.
    AddGroup(Targets),
    /// Nothing goes to the group of these targets any more.
    Retire(Targets),
    /// Who was at work before has ended.
    Wait,
    /// These targets of a retired group are forgotten.
    Forget(Targets),
    /// A target takes the place of another.
    Replace(usize, usize),
}

/// The model.
#[derive(Clone, Debug)]
pub struct Groups {
    /// What the program does.
    pub way: Way,
    /// What the object is.
    pub kind: Kind,
    /// Whether the set begins with two groups.
    pub begins_with_two: bool,
    /// Whether somebody puts the object; otherwise it is there from the beginning on.
    pub writes: bool,
    /// Whether the copies of the object that is there are in both groups, as of one that was put
    /// while a target was away.
    pub is_astray: bool,
    /// Whether somebody lists objects.
    pub lists: bool,
    /// Whether somebody deletes the object.
    pub deletes: bool,
    /// Clients that move objects, at most [`MOVERS_MAX`].
    pub movers: usize,
    /// Whether somebody heals.
    pub heals: bool,
    /// What each client does that changes the set.
    pub changes: [&'static [Change]; ADMINS_MAX],
    /// Clients that are killed and targets that go away for a while, in all.
    pub faults: u8,
}

/// What has become of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Life {
    /// Nobody was told that it is there.
    Untold,
    /// Its put has returned.
    Stored,
    /// Somebody deletes it.
    Deleting,
    /// Its deletion has returned.
    Deleted,
}

/// The targets and the clients.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// All descriptions that there ever were.
    pub descriptions: [Description; DESCRIPTIONS_MAX],
    /// Those that each target has, as bits.
    pub on: [u8; TARGETS],
    /// What each target holds of the object.
    pub parts: Parts,
    /// Targets with the mark.
    pub marked: Targets,
    /// Targets with notes of clients that were killed.
    pub left: Targets,
    /// Targets that do not answer.
    pub away: Targets,
    faults: u8,
    /// Where in the first group the copies of the object begin.
    turn: u8,
    /// What has become of the object.
    pub life: Life,
    /// Targets with the record of the writer.
    record: Targets,
    /// The client that puts the object.
    pub writer: Writer,
    /// The one that lists.
    pub lister: Lister,
    /// The one that deletes the object.
    pub deleter: Deleter,
    /// Those that move objects.
    pub movers: [Mover; MOVERS_MAX],
    /// The one that heals.
    pub heal: Heal,
    /// Those that change the set.
    pub admins: [Admin; ADMINS_MAX],
    /// Whether a list has missed the object.
    was_missed: bool,
    /// Whether a list had it after its deletion.
    was_revived: bool,
}

/// Who takes a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The client that puts the object.
    Writer,
    /// The one that lists.
    Lister,
    /// The one that deletes the object.
    Deleter,
    /// One that moves objects.
    Mover(usize),
    /// One that heals.
    Heal,
    /// One that changes the set.
    Admin(usize),
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A client takes a step: to this group or pair of targets, where it has a choice.
    Step(Who, u8),
    /// A client is killed.
    Kill(Who),
    /// The record of the writer is removed: it was silent for a day.
    TakeForDead,
    /// A target does not answer any more.
    Leave(usize),
    /// It does again.
    Return(usize),
}

impl State {
    /// A description that a client knows.
    pub fn known(&self, number: u8) -> &Description {
        &self.descriptions[usize::from(number)]
    }

    /// The number of a description.
    fn number_of(&mut self, description: Description) -> u8 {
        let free = |it: &Description| it.epoch == 0 || *it == description;
        let number = self.descriptions.iter().position(free);
        let number = number.expect("there are not more descriptions");
        self.descriptions[number] = description;
        number as u8
    }

    /// Those of these targets that answer.
    fn there(&self, targets: Targets) -> Targets {
        targets & !self.away
    }

    /// The description of the highest epoch on any target, the one on more targets, if enough
    /// targets answer.
    fn open(&self) -> Option<u8> {
        let there = self.there(u8::MAX);
        let count = |number: u8| {
            let with = (0..TARGETS).filter(|&it| there >> it & 1 == 1 && self.has(it, number));
            with.count()
        };
        let numbers = (0..DESCRIPTIONS_MAX as u8).filter(|&number| count(number) > 0);
        let best = numbers.max_by_key(|&number| (self.known(number).epoch, count(number), number));
        best.filter(|&best| self.known(best).is_enough(self.away))
    }

    /// Whether a target has a description.
    pub fn has(&self, target: usize, number: u8) -> bool {
        self.on[target] >> number & 1 == 1
    }

    /// The latest description on targets that a client knows, if it is later than the client's.
    fn later(&self, own: u8) -> Option<&Description> {
        let own = self.known(own);
        let targets = bits(self.there(own.targets));
        let known = targets.fold(0, |all, target| all | self.on[target]);
        let all = bits(known).map(|number| &self.descriptions[number]);
        all.filter(|it| it.epoch > own.epoch)
            .max_by_key(|it| it.epoch)
    }

    /// Whether what a client puts may be lost: of one of its groups so many targets are in none any
    /// more, or away, that no two are left which may have copies.
    fn lacks_a_group(&self, own: u8) -> bool {
        let Some(later) = self.later(own) else {
            return false;
        };
        let own = self.known(own);
        own.groups().iter().any(|group| {
            let targets = own.generation(*group);
            let gone = targets & !later.in_groups();
            let rest = targets & !gone & self.away;
            gone != 0 && (gone | rest).count_ones() > REPLICAS - 2
        })
    }

    /// What these targets hold of the object, as far as they answer.
    fn seen(&self, targets: Targets) -> Parts {
        let mut seen = [0; TARGETS];
        for target in bits(self.there(targets)) {
            seen[target] = self.parts[target];
        }
        seen
    }

    /// Targets that answer and have a note of another client than this one.
    fn noted_by_others(&self, who: Who) -> Targets {
        let movers = self.movers.iter().enumerate();
        let movers = movers.filter(|(number, _)| who != Who::Mover(*number));
        let notes = movers.fold(self.left, |notes, (_, mover)| notes | mover.noted);
        let heal = if who == Who::Heal { 0 } else { self.heal.noted };
        self.there(notes | heal)
    }

    /// Targets for copies, or marks: so many that answer, of the first group before others. The
    /// name of an object says with which of the group it begins.
    fn for_copies(&self, own: u8, turn: u8) -> Targets {
        let own = self.known(own);
        let home: Vec<usize> = bits(own.home()).collect();
        let turn = usize::from(turn) % home.len();
        let home = home.iter().cycle().skip(turn).take(home.len()).copied();
        let others = bits(own.targets & !own.home());
        let all = home.chain(others).filter(|it| self.away >> it & 1 == 0);
        let chosen = all.take(REPLICAS as usize);
        chosen.fold(0, |chosen, target| chosen | 1 << target)
    }

    /// Puts a part on those of these targets that answer and have none.
    fn put(&mut self, targets: Targets, part: u8) {
        for target in bits(self.there(targets)) {
            if self.parts[target] == 0 {
                self.parts[target] = part;
            }
        }
    }

    /// Deletes the parts of those of these targets that answer.
    fn delete(&mut self, targets: Targets) {
        for target in bits(self.there(targets)) {
            self.parts[target] = 0;
        }
    }

    /// What clients at work know.
    fn followed(&self) -> impl Iterator<Item = &Description> {
        let movers = self.movers.iter().map(|mover| mover.knows());
        let admins = self.admins.iter().map(|admin| admin.knows());
        let known = movers.chain(admins).chain([
            self.writer.knows(),
            self.lister.knows(),
            self.deleter.knows(),
            self.heal.knows(),
        ]);
        known.flatten().map(|number| self.known(number))
    }
}

/// A second group is added, and the first one is emptied.
pub const OVER: &[Change] = &[
    Change::AddGroup(SECOND),
    Change::Retire(FIRST),
    Change::Wait,
    Change::Forget(FIRST),
];
/// The second of two groups is emptied.
pub const BACK: &[Change] = &[Change::Retire(SECOND), Change::Wait, Change::Forget(SECOND)];

impl Groups {
    /// A set of one group with an object, and nobody at work.
    pub const fn of(kind: Kind) -> Self {
        Self {
            way: Way::Ours,
            kind,
            begins_with_two: false,
            writes: false,
            is_astray: false,
            lists: false,
            deletes: false,
            movers: 0,
            heals: false,
            changes: [&[], &[]],
            faults: 0,
        }
    }

    /// All clients beside each other, for each kind of objects, while all goes to a new group or
    /// comes back from one.
    pub fn together(faults: u8, movers: usize) -> [(&'static str, Self); 4] {
        let over = |kind: Kind| Self {
            writes: true,
            lists: true,
            deletes: kind != Kind::Pack,
            movers: if kind == Kind::Small { 0 } else { movers },
            heals: true,
            changes: [OVER, &[]],
            faults,
            ..Self::of(kind)
        };
        let back = Self {
            begins_with_two: true,
            changes: [BACK, &[]],
            ..over(Kind::Pack)
        };
        [
            ("a small object goes over", over(Kind::Small)),
            ("a pack goes over", over(Kind::Pack)),
            ("a pack comes back", back),
            ("a large object goes over", over(Kind::Large)),
        ]
    }

    /// Whether deletions of the object are marked.
    pub fn is_marked(&self) -> bool {
        self.kind != Kind::Pack
    }

    /// Whether a client that opens the set now finds the object; `None` if it cannot open it.
    pub fn is_found(&self, state: &State) -> Option<bool> {
        let own = state.known(state.open()?);
        let targets = match self.way {
            Way::UsesStrangers => ALL,
            _ => own.targets,
        };
        let is_marked = self.is_marked() && state.there(state.marked & own.targets) != 0;
        let mut wider = *own;
        wider.targets = targets;
        Some(wider.finds(&state.seen(targets)) && !is_marked)
    }

    /// The groups to which the object may go.
    fn groups_for(&self, own: &Description) -> Targets {
        let groups = match self.kind {
            Kind::Small => &own.groups()[..1],
            Kind::Large if self.way != Way::LargeAnywhere => &own.groups()[..1],
            Kind::Large | Kind::Pack => own.groups(),
        };
        groups.iter().fold(0, |all, group| all | 1 << group)
    }

    fn begin(&self) -> State {
        let mut first = Description::new(FIRST);
        if self.begins_with_two {
            first = first.add_group(SECOND);
            first.epoch = 1;
        }
        let mut state = State {
            descriptions: [Description::default(); DESCRIPTIONS_MAX],
            on: [0; TARGETS],
            parts: [0; TARGETS],
            marked: 0,
            left: 0,
            away: 0,
            faults: 0,
            turn: 0,
            life: Life::Untold,
            record: 0,
            writer: Writer::default(),
            lister: Lister::default(),
            deleter: Deleter::default(),
            movers: Default::default(),
            heal: Heal::default(),
            admins: Default::default(),
            was_missed: false,
            was_revived: false,
        };
        state.number_of(first);
        bits(first.targets).for_each(|target| state.on[target] = 1);
        state
    }
}

impl Model for Groups {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let begun = self.begin();
        if self.writes {
            // A group of three makes a difference of it.
            let adds = |change: &&Change| matches!(change, Change::Add(_));
            let turns = if self.changes[0].iter().any(|it| adds(&it)) {
                3
            } else {
                1
            };
            let turned = |turn| State {
                turn,
                ..begun.clone()
            };
            return (0..turns).map(turned).collect();
        }
        let own = *begun.known(0);
        let groups = bits(self.groups_for(&own));
        let states = groups.map(|group| {
            let mut state = begun.clone();
            state.life = Life::Stored;
            match self.kind {
                Kind::Small if self.is_astray => state.put(0b110, COPY),
                Kind::Small => state.put(own.home(), COPY),
                Kind::Large | Kind::Pack => state.put(own.generation(group as u8), group as u8),
            }
            state
        });
        states.collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let mut step = |who: Who, choices: Targets| {
            actions.extend(bits(choices).map(|choice| Action::Step(who, choice as u8)));
        };
        if self.writes {
            step(Who::Writer, self.writer_choices(state));
        }
        if self.lists {
            step(Who::Lister, self.lister_choices(state));
        }
        if self.deletes {
            step(Who::Deleter, self.deleter_choices(state));
        }
        for mover in 0..self.movers {
            step(Who::Mover(mover), self.mover_choices(state, mover));
        }
        if self.heals {
            step(Who::Heal, 1);
        }
        for (admin, changes) in self.changes.iter().enumerate() {
            if !changes.is_empty() {
                step(Who::Admin(admin), self.admin_choices(state, admin));
            }
        }
        if state.record != 0 {
            actions.push(Action::TakeForDead);
        }
        if state.faults < self.faults {
            let movers = (0..self.movers).map(Who::Mover);
            let admins = (0..ADMINS_MAX).map(Who::Admin);
            let clients = movers.chain(admins).chain([Who::Heal]);
            let at_work = clients.filter(|who| match *who {
                Who::Mover(mover) => state.movers[mover].knows().is_some(),
                Who::Admin(admin) => state.admins[admin].knows().is_some(),
                _ => state.heal.knows().is_some(),
            });
            actions.extend(at_work.map(Action::Kill));
            let known = state.descriptions[0].targets;
            if state.away == 0 {
                actions.extend(bits(known).map(Action::Leave));
            }
        }
        actions.extend(bits(state.away).map(Action::Return));
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Step(Who::Writer, choice) => self.writer(&mut next, choice)?,
            Action::Step(Who::Lister, pair) => self.lister(&mut next, PAIRS[usize::from(pair)])?,
            Action::Step(Who::Deleter, pair) => {
                self.deleter(&mut next, PAIRS[usize::from(pair)])?
            }
            Action::Step(Who::Mover(mover), choice) => self.mover(&mut next, mover, choice)?,
            Action::Step(Who::Heal, _) => self.heal(&mut next)?,
            Action::Step(Who::Admin(admin), _) => self.admin(&mut next, admin)?,
            Action::Kill(who) => {
                next.faults += 1;
                match who {
                    Who::Mover(mover) => {
                        next.left |= next.movers[mover].noted;
                        next.end_mover(mover);
                    }
                    Who::Admin(admin) => next.admins[admin].stop(),
                    _ => {
                        next.left |= next.heal.noted;
                        next.heal = Heal::default();
                    }
                }
            }
            Action::TakeForDead => next.record = 0,
            Action::Leave(target) => {
                next.faults += 1;
                next.away |= 1 << target;
            }
            Action::Return(target) => next.away &= !(1 << target),
        }
        Some(next)
    }

    fn format_step(&self, state: &State, action: Action) -> Option<String> {
        let with = |step: &str, known: Option<u8>| {
            let epoch = known.map(|known| state.known(known).epoch);
            epoch.map_or_else(
                || step.to_owned(),
                |epoch| format!("{step} (knows description {epoch})"),
            )
        };
        Some(match action {
            Action::Step(Who::Writer, group) => {
                let step = state.writer.step();
                let group = if step == "put" {
                    format!("put into group {group}")
                } else {
                    step.to_owned()
                };
                format!("writer: {}", with(&group, state.writer.knows()))
            }
            Action::Step(Who::Lister, pair) => {
                let step = format!("{} {pair}", state.lister.step());
                format!("lister: {}", with(&step, state.lister.knows()))
            }
            Action::Step(Who::Deleter, pair) => {
                let step = format!("{} {pair}", state.deleter.step());
                format!("deleter: {}", with(&step, state.deleter.knows()))
            }
            Action::Step(Who::Mover(mover), to) => {
                let at = &state.movers[mover];
                let step = at.step(to);
                format!("mover {mover}: {}", with(&step, at.knows()))
            }
            Action::Step(Who::Heal, _) => {
                format!("heal: {}", with(state.heal.step(), state.heal.knows()))
            }
            Action::Step(Who::Admin(admin), _) => {
                let at = &state.admins[admin];
                let step = at.step(self.changes[admin]);
                format!("admin {admin}: {}", with(&step, at.knows()))
            }
            other => format!("{other:?}"),
        })
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(STORED_IS_FOUND, |model: &Self, state: &State| {
                state.life != Life::Stored || model.is_found(state) != Some(false)
            }),
            Property::always(DELETED_STAYS_AWAY, |model: &Self, state: &State| {
                state.life != Life::Deleted || model.is_found(state) != Some(true)
            }),
            Property::always(LISTS_MISS_NOTHING, |_, state: &State| !state.was_missed),
            Property::always(LISTS_REVIVE_NOTHING, |_, state: &State| !state.was_revived),
            Property::always(ONE_IS_FOLLOWED, |_, state: &State| {
                let all: Vec<&Description> = state.followed().collect();
                let is_apart = |one: &&Description, other: &&Description| {
                    one.epoch == other.epoch && one != other
                };
                let mut pairs = all
                    .iter()
                    .flat_map(|one| all.iter().map(move |it| (one, it)));
                !pairs.any(|(one, other)| is_apart(one, other))
            }),
            Property::sometimes("a put returns", |_, state: &State| {
                state.life == Life::Stored
            }),
            Property::sometimes("the last change is made", |model: &Self, state: &State| {
                let mut admins = state.admins.iter().zip(&model.changes);
                admins.all(|(admin, changes)| usize::from(admin.change) == changes.len())
            }),
            Property::sometimes(
                "an object has left its group",
                |model: &Self, state: &State| {
                    model.movers == 0 || state.parts[0] == 0 && state.life == Life::Stored
                },
            ),
        ]
    }
}

/// What a put promises.
pub const STORED_IS_FOUND: &str =
    "an object whose put has returned and that nobody deletes is found by whoever opens the set";
/// What a deletion promises.
pub const DELETED_STAYS_AWAY: &str =
    "an object whose deletion has returned is not found by whoever opens the set";
/// What a list promises.
pub const LISTS_MISS_NOTHING: &str =
    "a list that ends well has every object that was put before it began";
/// What a list promises of deleted objects.
pub const LISTS_REVIVE_NOTHING: &str =
    "a list has no object whose deletion had returned before it began";
/// What descriptions are for.
pub const ONE_IS_FOLLOWED: &str = "of two descriptions of the same number only one is followed";
