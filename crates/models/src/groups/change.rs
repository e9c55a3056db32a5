//! Clients that change the targets of the set.

use super::set::{PAIRS, REPLICAS, TARGETS, THIRD, Targets};
use super::{Change, Groups, Kind, State, Way};
use crate::removal::world::bits;

/// Where such a client stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum At {
    #[default]
    Idle,
    Opened,
    /// The marks of the targets that are to be forgotten are elsewhere too.
    MarksCopied,
    /// It has a description that it is to put.
    Ready,
    Putting,
    Put,
    Withdrawing,
}

/// A client that changes the set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Admin {
    /// How many changes it has made.
    pub change: u8,
    at: At,
    own: u8,
    /// The description that it is to put.
    pub new: u8,
    /// Targets to which it has yet to put its description.
    pub todo: Targets,
}

impl Admin {
    /// The description that it follows.
    pub fn knows(&self) -> Option<u8> {
        (self.at != At::Idle).then_some(self.own)
    }

    /// It begins again with the change that it was about to make.
    pub fn stop(&mut self) {
        *self = Self {
            change: self.change,
            ..Self::default()
        };
    }

    /// Whether it is about to put a description, or has put one and may withdraw it.
    fn announces(&self) -> bool {
        matches!(self.at, At::Putting | At::Put | At::Withdrawing)
    }

    /// The name of its next step, whatever it changes.
    pub fn step_name(&self) -> &'static str {
        match self.at {
            At::Idle => "open",
            At::Opened => "plan",
            At::MarksCopied => "look-for-what-is-left",
            At::Ready => "announce: look for others before",
            At::Putting => "announce: put",
            At::Put => "announce: look for others after",
            At::Withdrawing => "announce: withdraw",
        }
    }

    /// The name of its next step.
    pub fn step(&self, changes: &[Change]) -> String {
        let change = changes[usize::from(self.change)];
        match self.at {
            At::Opened if change == Change::Wait => "wait-for-clients".to_owned(),
            At::Opened if matches!(change, Change::Forget(_)) => "copy-marks".to_owned(),
            At::Opened => format!("plan {change:?}"),
            _ => self.step_name().to_owned(),
        }
    }
}

impl Groups {
    pub(super) fn admin_choices(&self, state: &State, number: usize) -> Targets {
        let admin = &state.admins[number];
        let changes = self.changes[number];
        let Some(change) = changes.get(usize::from(admin.change)) else {
            return 0;
        };
        let is_waiting = admin.at == At::Opened && *change == Change::Wait;
        if is_waiting && state.there(state.record & state.known(admin.own).targets) != 0 {
            return 0;
        }
        // Not two changes in the same moment.
        let is_other_at_work = state.admins[1 - number].announces();
        let looks = admin.at == At::Ready;
        u8::from(!(looks && is_other_at_work && self.way != Way::AnnouncesUnseen))
    }

    pub(super) fn admin(&self, state: &mut State, number: usize) -> Option<()> {
        let admin = state.admins[number];
        let change = self.changes[number][usize::from(admin.change)];
        let own = *state.known(admin.own);
        let is_all_there = state.there(own.targets) == own.targets;
        let mut next = admin;
        next.at = match admin.at {
            At::Idle => {
                next.own = state.open()?;
                At::Opened
            }
            At::Opened => {
                let new = match change {
                    Change::AddGroup(group) if group & own.targets == 0 => {
                        if !is_all_there || state.there(group) != group {
                            return None;
                        }
                        state.empty(group);
                        if self.way == Way::TakesFormer && group == THIRD {
                            // These are the places of the first group.
                            state.parts[4] = state.parts[0];
                            state.parts[5] = state.parts[1];
                        }
                        Some(own.add_group(group))
                    }
                    Change::Add(target) if own.targets >> target & 1 == 0 => {
                        if !is_all_there || state.away >> target & 1 == 1 {
                            return None;
                        }
                        state.empty(1 << target);
                        Some(own.add(target))
                    }
                    Change::Retire(group) => {
                        let known = own.group_of(group).filter(|_| own.groups().len() > 1);
                        if known.is_some() && !is_all_there {
                            return None;
                        }
                        known.map(|group| own.retire(group))
                    }
                    Change::Replace(old, to) if own.targets >> old & 1 == 1 => {
                        let mut without = state.seen(own.targets);
                        without[old] = 0;
                        let is_needed = own.finds(&state.seen(own.targets)) && !own.finds(&without);
                        if is_needed && state.away >> old & 1 == 0 {
                            return None;
                        }
                        state.empty(1 << to);
                        Some(own.replace(old, to))
                    }
                    Change::Forget(gone) if gone & own.targets != 0 => {
                        if !is_all_there || gone & own.in_groups() != 0 {
                            return None;
                        }
                        if self.way != Way::ForgetsMarks && state.marked & gone != 0 {
                            let others = bits(own.home()).chain(bits(own.targets & !own.home()));
                            let others = others.filter(|it| gone >> it & 1 == 0);
                            others
                                .take(REPLICAS as usize)
                                .for_each(|it| state.marked |= 1 << it);
                        }
                        state.admins[number].at = At::MarksCopied;
                        return Some(());
                    }
                    _ => None,
                };
                match new {
                    Some(new) => {
                        next.new = state.number_of(new);
                        At::Ready
                    }
                    // It is so already.
                    None => {
                        next.change += 1;
                        At::Idle
                    }
                }
            }
            At::MarksCopied => {
                let Change::Forget(gone) = change else {
                    unreachable!("only what is forgotten has marks");
                };
                if self.way != Way::ForgetsUnseen && self.is_left(state, &own, gone) {
                    At::Idle
                } else {
                    next.new = state.number_of(own.without(gone));
                    At::Ready
                }
            }
            At::Ready => {
                let new = state.known(admin.new).targets;
                next.todo = new;
                if self.way != Way::ReplacesUntold {
                    next.todo |= own.targets;
                }
                let is_first = self.way == Way::AnnouncesAtOnce
                    || state.is_latest(own.targets & new, admin.new);
                if is_first { At::Putting } else { At::Idle }
            }
            At::Putting => {
                // Those that leave, those that stay, and then those that are new.
                let leave = admin.todo & !state.known(admin.new).targets;
                let known = admin.todo & own.targets;
                let rest = [leave, known].into_iter().find(|rest| *rest != 0);
                let rest = rest.unwrap_or(admin.todo);
                let pair = PAIRS.iter().find(|pair| **pair & rest != 0);
                let pair = pair.copied().unwrap_or_default() & rest;
                for target in bits(state.there(pair)) {
                    state.on[target] |= 1 << admin.new;
                }
                next.todo &= !pair;
                match next.todo {
                    0 => At::Put,
                    _ => At::Putting,
                }
            }
            At::Put => {
                let targets = state.known(admin.new).targets;
                let is_alone = self.way == Way::AnnouncesUnseen
                    || state.is_latest(state.there(targets), admin.new);
                if is_alone {
                    next.change += 1;
                    At::Idle
                } else {
                    At::Withdrawing
                }
            }
            At::Withdrawing => {
                for target in 0..TARGETS {
                    state.on[target] &= !(1 << admin.new);
                }
                At::Idle
            }
        };
        if next.at == At::Idle {
            next.stop();
        }
        state.admins[number] = next;
        Some(())
    }

    /// Whether the object would be lost, or have too few copies, without these targets.
    fn is_left(&self, state: &State, own: &super::set::Description, gone: Targets) -> bool {
        let parts = state.seen(own.targets);
        let is_marked = self.is_marked() && state.there(state.marked & own.targets) != 0;
        if is_marked || !own.finds(&parts) {
            return false;
        }
        if self.kind == Kind::Small {
            return self.lacking(own, &parts).0 != 0;
        }
        let numbers = 1..=own.generations().len() as u8;
        let mut whole = numbers.filter(|number| own.is_whole(&parts, *number));
        let is_apart = |number: u8| own.generation(number) & gone == 0;
        if self.way == Way::ForgetsOneOfTwo && whole.any(is_apart) {
            return false;
        }
        bits(gone).any(|target| parts[target] != 0)
    }
}

impl State {
    /// Whether these targets have no other description of the same or a higher epoch.
    fn is_latest(&self, targets: Targets, new: u8) -> bool {
        let epoch = self.known(new).epoch;
        let mut others = bits(targets).flat_map(|target| bits(self.on[target]));
        !others.any(|other| other != usize::from(new) && self.descriptions[other].epoch >= epoch)
    }

    /// Places are emptied before they become targets.
    fn empty(&mut self, targets: Targets) {
        for target in (0..TARGETS).filter(|target| targets >> target & 1 == 1) {
            self.on[target] = 0;
            self.parts[target] = 0;
        }
        self.marked &= !targets;
        self.left &= !targets;
    }
}
