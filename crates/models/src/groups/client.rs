//! Clients that put, list and delete the object.

use super::set::{COPY, PAIRS, Parts, REPLICAS, TARGETS, Targets};
use super::{Groups, Kind, Life, State, Way, Who};
use crate::removal::world::bits;

/// Where the writer stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Writing {
    #[default]
    Idle,
    Opened,
    Announced,
    Checked,
    Put,
    /// It was told that the object is there, or that it has to try again.
    Ended,
}

/// The client that puts the object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Writer {
    at: Writing,
    own: u8,
}

impl Writer {
    /// The description that it follows.
    pub fn knows(&self) -> Option<u8> {
        (!matches!(self.at, Writing::Idle | Writing::Ended)).then_some(self.own)
    }

    /// The name of its next step.
    pub fn step(&self) -> &'static str {
        match self.at {
            Writing::Idle => "open",
            Writing::Opened => "put-record",
            Writing::Announced => "check-groups",
            Writing::Checked => "put",
            Writing::Put => "check-again",
            Writing::Ended => unreachable!("it has ended"),
        }
    }
}

/// Where the lister stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Listing {
    #[default]
    Idle,
    Opened,
    /// It asks for objects.
    Objects,
    /// It asks for marks.
    Marks,
    /// It asks whether the set has changed.
    Later,
}

/// The client that lists objects again and again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lister {
    at: Listing,
    own: u8,
    /// Targets that it has yet to ask.
    pub todo: Targets,
    /// What it has found of the object.
    pub seen: Parts,
    /// Targets that did not answer.
    silent: Targets,
    is_marked: bool,
    /// Whether the object was put before the list began, and nobody has deleted it since.
    must_find: bool,
    /// Whether its deletion had returned before.
    must_miss: bool,
}

impl Lister {
    /// The description that it follows.
    pub fn knows(&self) -> Option<u8> {
        (self.at != Listing::Idle).then_some(self.own)
    }

    /// Whether a list is at work.
    pub fn is_listing(&self) -> bool {
        !matches!(self.at, Listing::Idle | Listing::Opened)
    }

    /// The name of its next step.
    pub fn step(&self) -> &'static str {
        match self.at {
            Listing::Idle => "open",
            Listing::Opened | Listing::Objects => "list-objects",
            Listing::Marks => "list-marks",
            Listing::Later => "look-for-later",
        }
    }
}

/// Where the deleter stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Deletion {
    #[default]
    Idle,
    Opened,
    /// It marks the object before it deletes parts.
    MarkingFirst,
    Deleting,
    LookingForTargets,
    LookingForNotes,
    LookingForParts,
    Marking,
    CheckingMark,
    Ended,
}

/// The client that deletes the object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Deleter {
    at: Deletion,
    own: u8,
    /// Targets that it has yet to ask.
    pub todo: Targets,
    /// Whether it has found a part.
    has_found: bool,
    has_marked: bool,
    /// Whether a target was away.
    has_missed: bool,
}

impl Deleter {
    /// The description that it follows.
    pub fn knows(&self) -> Option<u8> {
        (!matches!(self.at, Deletion::Idle | Deletion::Ended)).then_some(self.own)
    }

    /// The name of its next step.
    pub fn step(&self) -> &'static str {
        match self.at {
            Deletion::Idle => "open",
            Deletion::Opened => "begin",
            Deletion::MarkingFirst | Deletion::Marking => "mark",
            Deletion::Deleting => "delete",
            Deletion::LookingForTargets => "look-for-targets",
            Deletion::LookingForNotes => "look-for-notes",
            Deletion::LookingForParts => "look-for-parts",
            Deletion::CheckingMark => "check-mark",
            Deletion::Ended => unreachable!("it has ended"),
        }
    }
}

/// The pairs of which targets are left, as numbers.
fn pairs(todo: Targets) -> Targets {
    let pairs = (0..PAIRS.len()).filter(|pair| PAIRS[*pair] & todo != 0);
    pairs.fold(0, |all, pair| all | 1 << pair)
}

impl Groups {
    pub(super) fn writer_choices(&self, state: &State) -> Targets {
        match state.writer.at {
            Writing::Checked => match self.kind {
                Kind::Small => 1,
                _ => self.groups_for(state.known(state.writer.own)),
            },
            Writing::Ended => 0,
            _ => 1,
        }
    }

    pub(super) fn writer(&self, state: &mut State, group: u8) -> Option<()> {
        let Writer { at, own } = state.writer;
        let next = match at {
            Writing::Idle => {
                state.writer.own = state.open()?;
                Writing::Opened
            }
            Writing::Opened => {
                state.record = state.for_copies(own, 0);
                Writing::Announced
            }
            Writing::Announced if state.lacks_a_group(own) => Writing::Ended,
            Writing::Announced => Writing::Checked,
            Writing::Checked => {
                let known = *state.known(own);
                match self.kind {
                    Kind::Small if self.way == Way::SmallToNewest => {
                        let newest = *known.groups().last().expect("there is a group");
                        state.put(known.generation(newest), COPY);
                    }
                    Kind::Small => state.put(state.for_copies(own, state.turn), COPY),
                    _ => state.put(known.generation(group), group),
                }
                Writing::Put
            }
            Writing::Put => {
                if self.way == Way::ChecksBefore || !state.lacks_a_group(own) {
                    state.life = Life::Stored;
                }
                Writing::Ended
            }
            Writing::Ended => return None,
        };
        state.writer.at = next;
        if next == Writing::Ended {
            state.record = 0;
            state.writer.own = 0;
        }
        Some(())
    }

    pub(super) fn lister_choices(&self, state: &State) -> Targets {
        let lister = &state.lister;
        match lister.at {
            Listing::Opened => pairs(state.known(lister.own).targets),
            Listing::Objects => pairs(lister.todo),
            _ => 1,
        }
    }

    pub(super) fn lister(&self, state: &mut State, pair: Targets) -> Option<()> {
        let own = state.lister.own;
        let known = *state.known(own);
        match state.lister.at {
            Listing::Idle => {
                state.lister.own = state.open()?;
                state.lister.at = Listing::Opened;
            }
            Listing::Opened | Listing::Objects => {
                let mut lister = state.lister;
                if lister.at == Listing::Opened {
                    lister.todo = known.targets;
                    lister.must_find = state.life == Life::Stored;
                    lister.must_miss = state.life == Life::Deleted;
                    lister.at = Listing::Objects;
                }
                let seen = state.seen(pair & lister.todo);
                for (own, seen) in lister.seen.iter_mut().zip(seen) {
                    *own = (*own).max(seen);
                }
                lister.silent |= pair & lister.todo & state.away;
                lister.todo &= !pair;
                if lister.todo == 0 {
                    lister.at = Listing::Marks;
                }
                state.lister = lister;
            }
            Listing::Marks => {
                let marked = state.there(state.marked & known.targets);
                state.lister.is_marked = self.is_marked() && marked != 0;
                state.lister.at = Listing::Later;
            }
            Listing::Later => {
                let lister = state.lister;
                if let Some(is_found) = self.listed(state) {
                    state.was_missed |= lister.must_find && !is_found;
                    state.was_revived |= lister.must_miss && is_found;
                }
                state.lister = Lister {
                    at: Listing::Opened,
                    own,
                    ..Lister::default()
                };
                state.movers.iter_mut().for_each(|it| it.list_ends());
            }
        }
        Some(())
    }

    /// Whether a list that asks whether the set has changed now has the object; `None` if it is
    /// refused.
    pub fn listed(&self, state: &State) -> Option<bool> {
        let Lister {
            own,
            seen,
            is_marked,
            ..
        } = state.lister;
        let is_refused = self.way != Way::ListsUnasked && self.may_miss(state, own);
        (!is_refused).then(|| state.known(own).finds(&seen) && !is_marked)
    }

    /// Whether all that there is of an object may be on targets that a client does not know, or
    /// that are away; or whether it has one that is only in a generation that is new, or that is
    /// there only with targets which are forgotten meanwhile.
    fn may_miss(&self, state: &State, own: u8) -> bool {
        let generations = state.known(own).generations().len() as u8;
        let known = state.known(own).targets;
        let missing = match self.way {
            Way::ListsWithReturned => known & state.away,
            _ => state.lister.silent,
        };
        let missing = missing.count_ones();
        let mut seen = state.lister.seen.iter();
        let is_newer = seen.any(|part| (generations + 1..COPY).contains(part));
        state.later(own).is_some_and(|later| {
            let mut rest = state.lister.seen;
            bits(known & !later.targets).for_each(|target| rest[target] = 0);
            let own = state.known(own);
            let is_forgotten = own.finds(&state.lister.seen) && !own.finds(&rest);
            let is_unknown = is_newer && !own.finds(&state.lister.seen);
            let is_astray = is_forgotten && self.way != Way::ListsForgotten || is_unknown;
            // What is marked it leaves out before.
            if is_astray && !state.lister.is_marked {
                return true;
            }
            let groups = match self.kind {
                Kind::Pack => later.groups(),
                _ => &later.groups()[..1],
            };
            groups.iter().any(|group| {
                let unknown = (later.generation(*group) & !known).count_ones();
                unknown > 0 && unknown + missing >= REPLICAS
            })
        })
    }

    pub(super) fn deleter_choices(&self, state: &State) -> Targets {
        match state.deleter.at {
            Deletion::Opened if state.life != Life::Stored => 0,
            Deletion::Deleting => pairs(state.deleter.todo),
            Deletion::Ended => 0,
            _ => 1,
        }
    }

    pub(super) fn deleter(&self, state: &mut State, pair: Targets) -> Option<()> {
        let Deleter { at, own, .. } = state.deleter;
        let targets = state.known(own).targets;
        let next = match at {
            Deletion::Idle => {
                state.deleter.own = state.open()?;
                Deletion::Opened
            }
            Deletion::Opened => {
                state.life = Life::Deleting;
                state.lister.forget_the_object();
                state.deleter.todo = targets;
                if self.is_marked() && state.there(targets) != targets {
                    Deletion::MarkingFirst
                } else {
                    Deletion::Deleting
                }
            }
            Deletion::MarkingFirst | Deletion::Marking => {
                state.marked |= state.for_copies(own, state.turn);
                state.deleter.has_marked = true;
                match at {
                    Deletion::MarkingFirst => Deletion::Deleting,
                    _ => Deletion::CheckingMark,
                }
            }
            Deletion::Deleting => {
                let asked = pair & state.deleter.todo;
                let found = bits(state.there(asked)).any(|target| state.parts[target] != 0);
                state.deleter.has_found |= found;
                state.deleter.has_missed |= asked & state.away != 0;
                state.delete(asked);
                state.deleter.todo &= !pair;
                match state.deleter.todo {
                    0 if !self.is_marked() => Deletion::Ended,
                    0 if state.deleter.has_marked => Deletion::CheckingMark,
                    0 if state.deleter.has_missed => Deletion::Marking,
                    0 if self.way == Way::DeletesUnasked => Deletion::LookingForNotes,
                    0 => Deletion::LookingForTargets,
                    _ => Deletion::Deleting,
                }
            }
            Deletion::LookingForTargets => {
                let later = state.later(own);
                let lacks = later.is_some_and(|later| later.targets & !targets != 0);
                if lacks {
                    Deletion::Marking
                } else {
                    Deletion::LookingForNotes
                }
            }
            Deletion::LookingForNotes => {
                let notes = state.noted_by_others(Who::Deleter) & targets;
                if notes != 0 || state.there(targets) != targets {
                    Deletion::Marking
                } else {
                    Deletion::LookingForParts
                }
            }
            Deletion::LookingForParts => {
                let is_there = state.seen(targets) != [0; TARGETS];
                if is_there || state.there(targets) != targets {
                    Deletion::Marking
                } else {
                    Deletion::Ended
                }
            }
            Deletion::CheckingMark => {
                if self.way != Way::MarksUnchecked && state.lacks_a_group(own) {
                    state.deleter.has_found = false;
                }
                Deletion::Ended
            }
            Deletion::Ended => return None,
        };
        state.deleter.at = next;
        if next == Deletion::Ended {
            if state.deleter.has_found {
                state.life = Life::Deleted;
            }
            state.deleter = Deleter {
                at: Deletion::Ended,
                ..Deleter::default()
            };
        }
        Some(())
    }
}

impl Lister {
    /// The object is deleted from now on: the list may have it, or not.
    fn forget_the_object(&mut self) {
        self.must_find = false;
    }

    /// The mark of the object is gone from now on: the list may have it nevertheless.
    pub fn forgives(&mut self) {
        self.must_miss = false;
    }
}
