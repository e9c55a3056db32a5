//! Ways through the model of removal, chosen at random.

use stateright::Model;
use tabane_models::removal::prune::Judgement;
use tabane_models::removal::steps::Step;
use tabane_models::removal::world::Packs;
use tabane_models::removal::{Action, Removal, State};
use tabane_testing::random::Random;

/// A step that was taken.
pub struct Taken {
    pub action: Action,
    pub step: Step,
    /// The state behind it.
    pub state: State,
    /// What each prune thinks of others when it lists next.
    pub judgements: Vec<Judgement>,
}

/// A way through the model, from its first state.
pub struct Walk {
    pub first: State,
    pub first_judgements: Vec<Judgement>,
    pub taken: Vec<Taken>,
}

/// A way to the end, or to where nobody can go on. One client takes `row` steps one after the
/// other, on average.
pub fn walk(model: &Removal, seed: u64, row: u64) -> Walk {
    let mut random = Random::new(seed);
    let judge = |random: &mut Random| {
        let all = &Judgement::ALL;
        // Half of the prunes are alone: only these delete what they condemn.
        match random.below(2) {
            0 => Judgement::AllDead,
            _ => all[random.below(all.len() as u64) as usize],
        }
    };
    let mut judgements: Vec<Judgement> = (0..model.prunes).map(|_| judge(&mut random)).collect();
    let first = model.init_states().swap_remove(0);
    let (mut state, mut taken) = (first.clone(), Vec::new());
    let first_judgements = judgements.clone();
    let mut favourite = None;
    loop {
        let mut actions = Vec::new();
        model.actions(&state, &mut actions);
        let mut ways: Vec<(Action, State)> = actions
            .iter()
            .filter(|action| is_judged(**action, &actions, &judgements))
            .filter_map(|&action| Some((action, model.next_state(&state, action)?)))
            .filter(|(action, next)| !disturbs_a_backup(model, &state, *action, next))
            .collect();
        if ways.is_empty() {
            break;
        }
        if random.one_in(row) {
            favourite = None;
        }
        let of_favourite = |(action, _): &(Action, State)| Some(client(*action)) == favourite;
        if ways.iter().any(of_favourite) {
            ways.retain(of_favourite);
        }
        let way = random.below(ways.len() as u64) as usize;
        let (action, next) = ways.swap_remove(way);
        favourite = Some(client(action));
        let step = action.step(&state);
        if step == Step::RepackReadPacks && reads_half(&state, action) {
            // Reads are one step in the model: the program may have stored a copy before it finds
            // that the next pack is gone. Nothing will name that copy.
            break;
        }
        if let Action::Prune(number, _) = action
            && lists(&state, number)
            && !lists(&next, number)
        {
            judgements[number] = judge(&mut random);
        }
        state = next;
        taken.push(Taken {
            action,
            step,
            state: state.clone(),
            judgements: judgements.clone(),
        });
    }
    Walk {
        first,
        first_judgements,
        taken,
    }
}

/// The client that takes a step; all forgets are one.
pub fn client(action: Action) -> (u8, usize) {
    match action {
        Action::Backup(number) => (0, number),
        Action::Prune(number, _) => (1, number),
        Action::Forget(_) => (2, 0),
    }
}

/// Whether an action goes with what its prune thinks of others. Where that matters, the same step
/// is among the `actions` once for each judgement.
fn is_judged(action: Action, actions: &[Action], judgements: &[Judgement]) -> bool {
    let Action::Prune(number, look) = action else {
        return true;
    };
    let wanted = judgements[number];
    look.judgement == wanted
        || !actions.iter().any(|other| match *other {
            Action::Prune(one, other) => {
                (one, other.kind, other.judgement) == (number, look.kind, wanted)
            }
            _ => false,
        })
}

/// The packs that a client is about to read.
pub fn sources(state: &State, client: (u8, usize)) -> Packs {
    match client {
        (0, number) => state.backups[number].sources,
        (1, number) => state.prunes[number].sources,
        _ => 0,
    }
}

/// Whether some of the packs that a client is about to read are gone, and not all.
fn reads_half(state: &State, action: Action) -> bool {
    let sources = sources(state, client(action));
    let there = sources & state.world.packs;
    there != 0 && there != sources
}

fn lists(state: &State, prune: usize) -> bool {
    let step = state.prunes[prune].step(Default::default());
    step == Step::ViewListRemovals
}

/// Whether a step changes what a backup is in the middle of listing. The program sees to it that
/// these lists are of one moment, by making them twice, which the model leaves out.
fn disturbs_a_backup(model: &Removal, state: &State, action: Action, next: &State) -> bool {
    let listed = |state: &State| {
        let world = &state.world;
        (world.removals, world.objects, world.packs)
    };
    if listed(state) == listed(next) {
        return false;
    }
    let is_listing = |number: usize| {
        let backup = &state.backups[number];
        !backup.has_ended()
            && matches!(
                backup.step(),
                Step::IndexListObjects | Step::IndexListPacks | Step::IndexListUnverified
            )
    };
    (0..model.backups.len()).any(|number| client(action) != (0, number) && is_listing(number))
}
