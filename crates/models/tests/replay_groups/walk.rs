//! Ways through the model of groups, chosen at random among those that the program can go.

use stateright::Model;
use tabane_models::groups::set::{TARGETS, Targets};
use tabane_models::groups::{Action, Groups, Kind, State, Who};
use tabane_models::removal::world::bits;
use tabane_testing::random::Random;

/// Steps of a way, at least and at most: lists, heals and moves begin again for ever.
const STEPS_MIN: u64 = 20;
const STEPS_MAX: u64 = 120;

/// Of so many choices of who goes on, one is a fault, or its end.
const FAULT_CHOICES: u64 = 12;

/// Of so many choices of a client that would begin again, one is left to it: others go on.
const AGAIN_CHOICES: u64 = 4;

/// A step that was taken.
pub struct Taken {
    pub action: Action,
    /// The state behind it.
    pub state: State,
    /// Whether its client knows a mark that it would not find any more.
    pub knows_old_mark: bool,
}

/// A way through the model, from its first state.
pub struct Walk {
    pub first: State,
    pub taken: Vec<Taken>,
}

/// What the object's name decides.
#[derive(Clone, Copy, Debug)]
pub struct Chance(pub u64);

impl Chance {
    /// The group of a new pack, among so many.
    pub fn group(self, count: usize) -> usize {
        ((u128::from(self.0) * count as u128) >> 64) as usize
    }
}

/// What a client of the program knows, and the model leaves open.
#[derive(Clone, Copy, Debug, Default)]
struct Knowledge {
    /// Targets that have failed it: it does not use them again.
    out: Targets,
    /// The mark, for as long as it follows one description.
    mark: bool,
}

/// What all clients know.
#[derive(Default)]
struct Minds(Vec<(Who, Knowledge)>);

impl Minds {
    fn of(&self, who: Who) -> Knowledge {
        let mut minds = self.0.iter();
        let known = minds.find(|(other, _)| *other == who);
        known.map_or_else(Knowledge::default, |(_, known)| *known)
    }

    /// Whether somebody does not use a target that has failed.
    fn is_out(&self, target: usize) -> bool {
        self.0.iter().any(|(_, known)| known.out >> target & 1 == 1)
    }

    /// A client takes a step, from a state to another.
    fn learn(&mut self, who: Who, before: &State, next: &State) {
        let mut known = self.of(who);
        self.0.retain(|(other, _)| *other != who);
        let Some(own) = knows(next, who) else { return };
        let targets = next.known(own).targets;
        known.out |= targets & before.away;
        let step = step(before, who);
        let lists = ["open", "list-marks", "list-for-moves", "list-objects"];
        let is_marked = before.marked & targets & !before.away != 0;
        known.mark |= lists.contains(&&*step) && is_marked;
        // Who takes a mark away forgets it.
        known.mark &= step != "unmark" || next.marked & targets != 0;
        self.0.push((who, known));
    }
}

/// The description that a client follows.
pub fn knows(state: &State, who: Who) -> Option<u8> {
    match who {
        Who::Writer => state.writer.knows(),
        Who::Lister => state.lister.knows(),
        Who::Deleter => state.deleter.knows(),
        Who::Mover(mover) => state.movers[mover].knows(),
        Who::Heal => state.heal.knows(),
        Who::Admin(admin) => state.admins[admin].knows(),
    }
}

/// The name of a client's next step; one that has ended has none.
pub fn step(state: &State, who: Who) -> String {
    let step = match who {
        Who::Writer => state.writer.step(),
        Who::Lister => state.lister.step(),
        Who::Deleter => state.deleter.step(),
        Who::Mover(mover) => {
            let step = state.movers[mover].step(0);
            return step.split(',').next().unwrap_or_default().to_owned();
        }
        Who::Heal => state.heal.step(),
        Who::Admin(admin) => state.admins[admin].step_name(),
    };
    step.to_owned()
}

/// Whether a client finds a mark on the targets that it knows.
fn sees_mark(state: &State, who: Who) -> bool {
    let targets = knows(state, who).map(|own| state.known(own).targets);
    state.marked & !state.away & targets.unwrap_or_default() != 0
}

/// Whether a client that does the same again and again is about to begin with it.
fn begins_again(state: &State, who: Who) -> bool {
    match who {
        Who::Lister => !state.lister.is_listing(),
        Who::Mover(_) | Who::Heal => knows(state, who).is_none(),
        Who::Writer | Who::Deleter | Who::Admin(_) => false,
    }
}

/// Who takes a step; nobody if it is a fault or the end of one.
fn who(action: Action) -> Option<Who> {
    match action {
        Action::Step(who, _) => Some(who),
        Action::Kill(_) | Action::Leave(_) | Action::Return(_) | Action::TakeForDead => None,
    }
}

/// The first state in which the object is where its name says.
fn first(model: &Groups, random: &mut Random, chance: Chance) -> State {
    let mut states = model.init_states();
    let place = match model.kind {
        Kind::Pack if !model.writes => chance.group(states.len()),
        _ => random.below(states.len() as u64) as usize,
    };
    states.swap_remove(place)
}

/// A way to the end, or to where it is long enough. One client takes `row` steps one after the
/// other, on average.
pub fn walk(model: &Groups, seed: u64, row: u64, chance: Chance) -> Walk {
    let mut random = Random::new(seed);
    let first = first(model, &mut random, chance);
    let (mut state, mut taken) = (first.clone(), Vec::new());
    let (mut favourite, mut minds) = (None, Minds::default());
    let steps = STEPS_MIN + random.below(STEPS_MAX - STEPS_MIN);
    while (taken.len() as u64) < steps {
        let mut actions = Vec::new();
        model.actions(&state, &mut actions);
        let ways = actions.into_iter().filter_map(|action| {
            let next = model.next_state(&state, action)?;
            let is_ours = next != state && is_ours(model, &state, action, &minds, chance);
            is_ours.then_some((action, next))
        });
        let (steps, faults): (Vec<_>, Vec<_>) =
            ways.partition(|(action, _)| who(*action).is_some());
        if random.one_in(row) {
            favourite = None;
        }
        let is_fault = !faults.is_empty() && (steps.is_empty() || random.one_in(FAULT_CHOICES));
        let mut ways = if is_fault { faults } else { steps };
        if ways.is_empty() {
            break;
        }
        if !is_fault {
            let mut others: Vec<Who> = ways.iter().filter_map(|(one, _)| who(*one)).collect();
            others.dedup();
            let one = favourite.filter(|one| others.contains(one));
            let mut any = || others[random.below(others.len() as u64) as usize];
            let mut one = one.unwrap_or_else(&mut any);
            if begins_again(&state, one) && !random.one_in(AGAIN_CHOICES) {
                one = others[random.below(others.len() as u64) as usize];
            }
            ways.retain(|(action, _)| who(*action) == Some(one));
            favourite = Some(one);
        }
        let (action, next) = ways.swap_remove(random.below(ways.len() as u64) as usize);
        let mut knows_old_mark = false;
        if let Some(one) = who(action) {
            knows_old_mark = minds.of(one).mark && !sees_mark(&state, one);
            minds.learn(one, &state, &next);
        } else if let Action::Kill(one) = action {
            minds.learn(one, &state, &next);
        }
        state = next;
        taken.push(Taken {
            action,
            state: state.clone(),
            knows_old_mark,
        });
    }
    Walk { first, taken }
}

/// Whether the program takes this step here, and the test can follow it.
fn is_ours(model: &Groups, state: &State, action: Action, minds: &Minds, chance: Chance) -> bool {
    let (who, choice) = match action {
        Action::Step(who, choice) => (who, choice),
        Action::Kill(_) | Action::TakeForDead => return true,
        Action::Return(target) => return !minds.is_out(target),
        // Targets have another order where the third group was added before the second one.
        Action::Leave(_) if !model.changes[1].is_empty() => return false,
        Action::Leave(_) => {
            let movers = state.movers.iter().any(|mover| mover.knows().is_some());
            let admins = state.admins.iter();
            let admins = admins.filter(|it| !["open", "plan"].contains(&it.step_name()));
            return !movers && admins.count() == 0;
        }
    };
    let known = minds.of(who);
    let is_surprised = state.away & !known.out != 0;
    let knows_old_mark = known.mark && !sees_mark(state, who);
    match (who, &*step(state, who)) {
        // Of two descriptions that count alike chance decides.
        (_, "open") if are_alike(state) => false,
        // It needs all targets, and does not ask again for those that it misses.
        (Who::Admin(_), "open") => state.away == 0,
        (Who::Admin(_), "plan") => state.away == 0,
        (Who::Writer, "put") if model.kind == Kind::Pack => {
            let own = state.known(state.writer.knows().expect("it has opened the set"));
            let targets = |group: &&u8| own.generation(**group) & known.out == 0;
            let whole: Vec<u8> = own.groups().iter().filter(targets).copied().collect();
            let groups = if whole.is_empty() {
                own.groups()
            } else {
                &whole
            };
            groups[chance.group(groups.len())] == choice
        }
        // What is away it finds out later.
        (Who::Deleter, "begin") | (Who::Mover(_), "note") => !is_surprised,
        // It leaves what it knows to be deleted.
        (Who::Mover(_), "list-for-moves") | (Who::Heal, "list-objects") => !knows_old_mark,
        _ => true,
    }
}

/// Whether two of the latest descriptions are on as many targets.
fn are_alike(state: &State) -> bool {
    let there = !state.away;
    let with = |number: usize| {
        let targets = (0..TARGETS).filter(|it| there >> it & 1 == 1);
        targets
            .filter(|it| state.on[*it] >> number & 1 == 1)
            .count()
    };
    let known = state.on.iter().fold(0, |all, on| all | on);
    let ranks = bits(known).map(|number| (state.descriptions[number].epoch, with(number)));
    let ranks: Vec<_> = ranks.filter(|(_, count)| *count > 0).collect();
    let best = ranks.iter().max();
    ranks.iter().filter(|rank| Some(*rank) == best).count() > 1
}
