//! Clients that move the object to another group, and one that heals.

use super::set::{COPY, Description, REPLICAS, TARGETS, Targets};
use super::{Groups, Kind, State, Way, Who};
use crate::removal::world::bits;

/// Where a client stands that moves objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Moving {
    #[default]
    Idle,
    Opened,
    Noted,
    /// It is to read the object.
    Chosen,
    Read,
    Copied,
    /// The object is in two groups, and stays in one of them.
    Waiting,
    /// It has looked whether the object is still whole where it stays.
    Looked,
    Done,
}

/// A client that moves objects, again and again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mover {
    at: Moving,
    own: u8,
    /// Targets with its note.
    pub noted: Targets,
    /// Where the object is to go, or to stay.
    pub to: u8,
    /// Targets from which it is to go.
    pub from: Targets,
    /// The generations of the parts that are to go, as bits.
    old: u16,
    /// Lists (bit 0), and deletions of others that move objects, that began before the object was
    /// where it stays.
    before: u8,
}

impl Mover {
    /// The description that it follows.
    pub fn knows(&self) -> Option<u8> {
        (self.at != Moving::Idle).then_some(self.own)
    }

    /// Whether it ends without having put its note.
    pub fn is_done_unnoted(&self) -> bool {
        self.at == Moving::Done && self.noted == 0
    }

    /// The list has ended.
    pub fn list_ends(&mut self) {
        self.before &= !1;
    }

    /// The name of its next step.
    pub fn step(&self, to: u8) -> String {
        let step = match self.at {
            Moving::Idle => "open",
            Moving::Opened => "note",
            Moving::Noted if to == 0 => "list-for-moves",
            Moving::Noted => return format!("list-for-moves, to generation {to}"),
            Moving::Chosen => "read",
            Moving::Read => return format!("put-copy, generation {}", self.to),
            Moving::Copied => "check-copy",
            Moving::Waiting => "look-again",
            Moving::Looked => return format!("delete-old, keeps generation {}", self.to),
            Moving::Done => "take-back",
        };
        step.to_owned()
    }
}

/// Where a heal stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Stage {
    #[default]
    Idle,
    Opened,
    /// Its note is there, and it is to ask whether the set has changed.
    Noted,
    Described,
    /// It has found the mark, and is to apply it.
    Marked,
    Applied,
    Listing,
    Writing,
    Done,
}

/// A client that heals, again and again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Heal {
    stage: Stage,
    own: u8,
    /// Targets with its note.
    pub noted: Targets,
    /// Targets that lack a part.
    pub todo: Targets,
    part: u8,
    /// Whether the set has changed, as far as it has asked before it put its note.
    is_outdated: bool,
}

impl Heal {
    /// The description that it follows.
    pub fn knows(&self) -> Option<u8> {
        (self.stage != Stage::Idle).then_some(self.own)
    }

    /// The name of its next step.
    pub fn step(&self) -> &'static str {
        match self.stage {
            Stage::Idle => "open",
            Stage::Opened => "note",
            Stage::Noted => "describe",
            Stage::Described => "list-marks",
            Stage::Marked => "apply-marks",
            Stage::Applied => "unmark",
            Stage::Listing => "list-objects",
            Stage::Writing => "put-missing",
            Stage::Done => "take-back",
        }
    }
}

/// What there is to do for a client that moves objects.
enum Task {
    Nothing,
    /// The object is whole in two groups: this generation stays, and these targets lose it.
    Free(u8, Targets),
    /// It may go to one of these groups, from these targets.
    Move(Targets, Targets),
}

impl Groups {
    fn task(&self, state: &State, own: u8) -> Task {
        let own = state.known(own);
        let parts = state.seen(own.targets);
        let is_deleted = self.is_marked() && state.there(state.marked & own.targets) != 0;
        let highest = own.highest_whole(&parts);
        if is_deleted || highest == 0 {
            return Task::Nothing;
        }
        let numbers = 1..=own.generations().len() as u8;
        let whole: Vec<u8> = numbers.filter(|it| own.is_whole(&parts, *it)).collect();
        let others = |stays: u8| {
            let others = whole.iter().map(|other| own.generation(*other));
            let apart = others.filter(|targets| targets & own.generation(stays) == 0);
            apart.fold(0, |all, targets| all | targets)
        };
        let is_in_use = |number: &&u8| own.generation(**number) & own.in_groups() != 0;
        let stays = match self.way {
            // The one from which it goes otherwise.
            Way::MovesBack => whole[0],
            Way::KeepsRetired => highest,
            _ => whole
                .iter()
                .rev()
                .find(is_in_use)
                .copied()
                .unwrap_or(highest),
        };
        if others(stays) != 0 {
            return Task::Free(stays, others(stays));
        }
        let targets = own.generation(highest);
        let is_retired = own.group_of(targets).is_none();
        let mut groups: Targets = own.groups().iter().fold(0, |all, group| all | 1 << group);
        if self.kind == Kind::Large && self.way != Way::LargeAnywhere {
            groups = if is_retired { 1 << own.groups()[0] } else { 0 };
        }
        let is_other = |group: &usize| {
            let is_newer = *group as u8 > highest || self.way == Way::MovesBack;
            is_newer && own.generation(*group as u8) & targets == 0
        };
        let to = bits(groups).filter(is_other);
        Task::Move(to.fold(0, |all, group| all | 1 << group), targets)
    }

    pub(super) fn mover_choices(&self, state: &State, mover: usize) -> Targets {
        let Mover {
            at, own, before, ..
        } = state.movers[mover];
        match at {
            Moving::Noted => match self.task(state, own) {
                Task::Move(to, _) if to != 0 => to,
                _ => 1,
            },
            Moving::Waiting if before != 0 => 0,
            _ => 1,
        }
    }

    /// What began before this moment: lists and deletions that end before five minutes have passed.
    fn at_work(&self, state: &State, mover: usize) -> u8 {
        let movers = state.movers.iter().enumerate();
        let deletes = movers.filter(|(it, other)| *it != mover && other.at == Moving::Looked);
        let deletes = deletes.fold(0, |all, (number, _)| all | 2 << number);
        deletes | u8::from(state.lister.is_listing())
    }

    pub(super) fn mover(&self, state: &mut State, number: usize, to: u8) -> Option<()> {
        let mover = state.movers[number];
        let own = *state.known(mover.own);
        let is_whole = |state: &State| own.is_whole(&state.seen(own.targets), mover.to);
        let is_all_there = state.there(own.targets) == own.targets;
        let mut next = mover;
        next.at = match mover.at {
            Moving::Idle => {
                next.own = state.open()?;
                Moving::Opened
            }
            Moving::Opened if !is_all_there => Moving::Done,
            Moving::Opened => {
                if self.way != Way::MovesUnnoted {
                    next.noted = own.targets;
                }
                Moving::Noted
            }
            Moving::Noted => match self.task(state, mover.own) {
                Task::Free(stays, from) => {
                    (next.to, next.from) = (stays, from);
                    next.old = state.generations_on(from);
                    next.before = self.at_work(state, number);
                    Moving::Waiting
                }
                Task::Move(_, from) if to != 0 => {
                    (next.to, next.from) = (to, from);
                    next.old = state.generations_on(from);
                    Moving::Chosen
                }
                _ => Moving::Done,
            },
            Moving::Chosen if own.finds(&state.seen(own.targets)) => Moving::Read,
            Moving::Chosen => Moving::Done,
            Moving::Read => {
                state.put(own.generation(mover.to), mover.to);
                next.before = self.at_work(state, number);
                Moving::Copied
            }
            Moving::Copied if !is_all_there || !is_whole(state) => Moving::Done,
            Moving::Copied => {
                if self.way == Way::DeletesAtOnce {
                    next.before = 0;
                }
                Moving::Waiting
            }
            Moving::Waiting => {
                let is_whole = self.way == Way::LooksOnce || is_all_there && is_whole(state);
                let is_current = self.way == Way::MovesUnasked || state.later(mover.own).is_none();
                if self.way != Way::DeletesAnyParts {
                    let is_old = |target: &usize| mover.old >> state.parts[*target] & 1 == 1;
                    let old = bits(mover.from).filter(is_old);
                    next.from = old.fold(0, |all, target| all | 1 << target);
                }
                if is_whole && is_current {
                    Moving::Looked
                } else {
                    Moving::Done
                }
            }
            Moving::Looked => {
                state.delete(mover.from);
                Moving::Done
            }
            Moving::Done => {
                state.left |= mover.noted & state.away;
                Moving::Idle
            }
        };
        if mover.at == Moving::Looked {
            let others = state.movers.iter_mut();
            others.for_each(|other| other.before &= !(2 << number));
        }
        if next.at == Moving::Done {
            next = Mover {
                at: Moving::Done,
                own: mover.own,
                noted: next.noted,
                ..Mover::default()
            };
        }
        state.movers[number] = next;
        if next.at == Moving::Looked && self.lists && self.movers > 1 {
            // More than it stands: a list, and two that move objects, of which one sleeps here.
            return self.mover(state, number, 0);
        }
        if next.at == Moving::Idle {
            state.end_mover(number);
        }
        Some(())
    }

    /// Whether the heal gives up, since the set has changed.
    fn is_outdated(&self, state: &State) -> bool {
        match self.way {
            Way::HealsBack => false,
            Way::NotesAfterAsking => state.heal.is_outdated,
            _ => state.later(state.heal.own).is_some(),
        }
    }

    pub(super) fn heal(&self, state: &mut State) -> Option<()> {
        let heal = state.heal;
        let own = *state.known(heal.own);
        let is_all_there = state.there(own.targets) == own.targets;
        let is_alone = |state: &State| state.noted_by_others(Who::Heal) & own.targets == 0;
        let is_marked =
            |state: &State| self.is_marked() && state.there(state.marked & own.targets) != 0;
        let mut next = heal;
        next.stage = match heal.stage {
            Stage::Idle => {
                next.own = state.open()?;
                Stage::Opened
            }
            Stage::Opened => {
                if self.way == Way::NotesAfterAsking {
                    next.is_outdated = state.later(heal.own).is_some();
                } else {
                    next.noted = state.there(own.targets);
                }
                Stage::Noted
            }
            Stage::Noted if self.is_outdated(state) => Stage::Done,
            Stage::Noted => {
                let known = (0..).zip(&state.descriptions);
                let outdated = known.filter(|(number, it)| {
                    let is_later = it.epoch > own.epoch && self.way != Way::HealsBack;
                    *number != heal.own && !is_later
                });
                let outdated = outdated.fold(0, |all, (number, _)| all | 1 << number);
                for target in bits(state.there(own.targets)) {
                    state.on[target] = state.on[target] & !outdated | 1 << heal.own;
                }
                if self.way == Way::NotesAfterAsking {
                    next.noted = state.there(own.targets);
                }
                Stage::Described
            }
            Stage::Described => {
                if is_marked(state) {
                    Stage::Marked
                } else {
                    Stage::Listing
                }
            }
            Stage::Marked => {
                let is_current = self.way == Way::AppliesUnasked || state.later(heal.own).is_none();
                if is_all_there && is_alone(state) && is_current {
                    state.delete(own.targets);
                    Stage::Applied
                } else {
                    Stage::Listing
                }
            }
            Stage::Applied => {
                if is_all_there && is_alone(state) {
                    state.marked &= !own.targets;
                    // A list that is at work has the object and not the mark.
                    state.lister.forgives();
                }
                Stage::Listing
            }
            Stage::Listing => {
                let parts = state.seen(own.targets);
                if own.finds(&parts) && !is_marked(state) {
                    (next.todo, next.part) = self.lacking(&own, &parts);
                    next.todo = state.there(next.todo);
                }
                match next.todo {
                    0 => Stage::Done,
                    _ => Stage::Writing,
                }
            }
            Stage::Writing => {
                state.put(heal.todo, heal.part);
                Stage::Done
            }
            Stage::Done => {
                state.left |= heal.noted & state.away;
                state.heal = Heal::default();
                return Some(());
            }
        };
        if next.stage == Stage::Done {
            (next.todo, next.part) = (0, 0);
        }
        state.heal = next;
        Some(())
    }

    /// The targets that lack a part of an object of which these are found, and which part.
    pub(super) fn lacking(&self, own: &Description, parts: &[u8; TARGETS]) -> (Targets, u8) {
        let copies = own.copies(parts);
        if copies == 0 {
            let numbers = (1..=own.generations().len() as u8).rev();
            let has = |number: &u8| bits(own.generation(*number)).any(|it| parts[it] == *number);
            let highest = own.highest_whole(parts);
            let best = Some(highest).filter(|it| *it != 0);
            let best = best.or_else(|| numbers.filter(has).max());
            let number = best.expect("it was found");
            let lacking = bits(own.generation(number)).filter(|it| parts[*it] != number);
            return (lacking.fold(0, |all, it| all | 1 << it), number);
        }
        // All copies have to be in one group.
        let groups = own
            .groups()
            .iter()
            .rev()
            .map(|group| own.generation(*group));
        let most = groups.max_by_key(|group| (group & copies).count_ones());
        let most = most.expect("there is a group");
        let wanted = REPLICAS - (most & copies).count_ones().min(REPLICAS);
        let lacking = bits(most & !copies).take(wanted as usize);
        (lacking.fold(0, |all, it| all | 1 << it), COPY)
    }
}

impl State {
    /// The generations of the parts on these targets, as bits.
    fn generations_on(&self, targets: Targets) -> u16 {
        let parts = bits(targets).map(|target| self.parts[target]);
        let parts = parts.filter(|part| *part != 0);
        parts.fold(0, |all, part| all | 1 << part)
    }

    /// A client that moves objects has ended, or was killed.
    pub(super) fn end_mover(&mut self, number: usize) {
        self.movers[number] = Mover::default();
        let others = self.movers.iter_mut();
        others.for_each(|other| other.before &= !(2 << number));
    }
}
