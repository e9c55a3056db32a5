//! Ways through the model of clusters, chosen at random among those that the program can go.

use stateright::Model;
use tabane_models::cluster::{
    ALL, Action, Client, Cluster, HEALS, MARKS, NODES, Nodes, Stage, State, are_too_few,
};
use tabane_testing::random::Random;

/// Heals of a way at most: they would begin again for ever.
const HEALS_MAX: usize = 6;

/// Steps of a way before its first fault, at most.
const CALM_MAX: u64 = 40;

/// Of so many choices of who goes on, one is a fault.
const FAULT_CHOICES: u64 = 4;

/// Of so many, one lets a heal begin.
const HEAL_CHOICES: u64 = 5;

/// Of so many, one starts or connects a node again.
const MEND_CHOICES: u64 = 16;

/// Who takes a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Client,
    Heal(usize),
    /// A node that commits.
    Node,
    Fault,
    /// Who starts or connects a node again.
    Mender,
    /// Who lets a heal begin.
    Healer,
}

/// A step that was taken.
pub struct Taken {
    pub action: Action,
    /// The state behind it.
    pub state: State,
    /// Whether the next step is that its heal leaves the object: the program does both at once.
    pub leaves: bool,
}

/// A way through the model, from its first state.
pub struct Walk {
    pub first: State,
    pub taken: Vec<Taken>,
    /// The kinds of actions that could be taken in its states.
    pub offered: Vec<String>,
}

/// The order in which the program asks nodes one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    pub first: usize,
}

impl Order {
    /// The first of these nodes.
    pub fn first_of(self, nodes: Nodes) -> Option<usize> {
        let mut order = (0..NODES).map(|place| (self.first + place) % NODES);
        order.find(|node| nodes & 1 << node != 0)
    }
}

/// What a heal of the program knows, and the model leaves open.
#[derive(Clone, Copy, Default)]
struct Knowledge {
    /// The mark, from when it opened the set.
    mark: bool,
    /// Nodes with parts, from when it listed the objects.
    parts: Nodes,
}

/// The name of an action without who does it to whom.
pub fn kind(action: Action) -> String {
    let name = format!("{action:?}");
    name.split('(').next().unwrap_or_default().to_owned()
}

/// The nodes that the client has still to ask in what it does now.
pub fn open(state: &State) -> Nodes {
    match state.client {
        Client::Marking { .. } if state.handled.count_ones() >= MARKS => 0,
        _ => ALL & !state.handled & !state.given_up,
    }
}

/// The state once the client has gone on as far as it does without asking a node.
pub fn settled(model: &Cluster, state: &State) -> State {
    let mut state = state.clone();
    loop {
        let mut actions = Vec::new();
        model.actions(&state, &mut actions);
        let next = actions.into_iter().find(|action| match action {
            Action::EndPut | Action::EndMarks | Action::EndDelete => true,
            Action::EndLook => state.handled == ALL,
            _ => false,
        });
        match next.and_then(|action| model.next_state(&state, action)) {
            Some(next) => state = next,
            None => return state,
        }
    }
}

fn who(state: &State, action: Action) -> Who {
    let is_there = |node: usize| state.there() & 1 << node != 0;
    match action {
        Action::Kill(_) | Action::Crash(_) | Action::LoseDisk(_) | Action::Disconnect(_) => {
            Who::Fault
        }
        Action::GiveUp(node) if is_there(node) => Who::Fault,
        Action::Commit(_) => Who::Node,
        Action::Restart(_) | Action::Connect(_) => Who::Mender,
        Action::Note(_) => Who::Healer,
        Action::ListMarks(heal)
        | Action::ApplyMark(heal, _)
        | Action::LookAgain(heal)
        | Action::Unmark(heal, _)
        | Action::ListObjects(heal)
        | Action::ListMarksOfObjects(heal)
        | Action::Write(heal, _)
        | Action::Leave(heal)
        | Action::Pass(heal, _)
        | Action::UseAgain(heal, _)
        | Action::TakeBack(heal) => Who::Heal(heal),
        _ => Who::Client,
    }
}

/// A way to the end. One client takes `row` steps one after the other, on average.
pub fn walk(model: &Cluster, seed: u64, row: u64, order: Order) -> Walk {
    let mut random = Random::new(seed);
    let first = model.init_states().swap_remove(0);
    let mut walk = Walk {
        first: first.clone(),
        taken: Vec::new(),
        offered: Vec::new(),
    };
    let (mut state, mut favourite) = (first, None);
    let mut begun_heals = 0;
    let calm = random.below(CALM_MAX) as usize;
    let mut knowledge = [Knowledge::default(); HEALS];
    loop {
        let mut actions = Vec::new();
        model.actions(&state, &mut actions);
        walk.offered.extend(actions.iter().map(|&one| kind(one)));
        let last = walk.taken.last().filter(|last| last.leaves);
        actions.retain(|&action| match last.map(|last| last.action) {
            Some(Action::ListMarksOfObjects(heal)) => action == Action::Leave(heal),
            _ => is_ours(&state, action, order),
        });
        if last.is_some() || random.one_in(row) {
            favourite = None;
        }
        let of = |wanted: Who, actions: &[Action]| -> Vec<Action> {
            let of_one = actions
                .iter()
                .filter(|action| who(&state, **action) == wanted);
            of_one.copied().collect()
        };
        let mut ways = favourite.map_or_else(Vec::new, |one| of(one, &actions));
        if ways.is_empty() {
            let others = [Who::Client, Who::Heal(0), Who::Heal(1), Who::Node];
            let mut others: Vec<_> = others.map(|one| of(one, &actions)).into();
            others.retain(|ways| !ways.is_empty());
            let mut seldom = vec![(MEND_CHOICES, of(Who::Mender, &actions))];
            if begun_heals < HEALS_MAX {
                seldom.push((HEAL_CHOICES, of(Who::Healer, &actions)));
            }
            if walk.taken.len() >= calm {
                seldom.push((FAULT_CHOICES, of(Who::Fault, &actions)));
            }
            seldom.retain(|(_, ways)| !ways.is_empty());
            let is_now = |(choices, _): &&(u64, Vec<Action>)| random.one_in(*choices);
            let now = seldom.iter().find(is_now).map(|(_, ways)| ways.clone());
            ways = match others.len() as u64 {
                _ if now.is_some() => now.unwrap_or_default(),
                0 => seldom.pop().map_or_else(Vec::new, |(_, ways)| ways),
                count => others.swap_remove(random.below(count) as usize),
            };
        }
        if ways.is_empty() {
            break;
        }
        let action = ways[random.below(ways.len() as u64) as usize];
        let one = who(&state, action);
        let is_seldom = matches!(one, Who::Fault | Who::Mender | Who::Healer);
        favourite = (!is_seldom).then_some(one);
        begun_heals += usize::from(one == Who::Healer);
        let next = model.next_state(&state, action).expect("it is offered");
        learn(&mut knowledge, &state, action, &next);
        state = next;
        let leaves = matches!(action, Action::ListMarksOfObjects(heal)
            if cannot_write(&state, heal, knowledge[heal]));
        walk.taken.push(Taken {
            action,
            state: state.clone(),
            leaves,
        });
    }
    walk
}

/// Whether the program takes this step here: nodes that it asks one after the other have an order,
/// and a target that has failed stays out of use.
fn is_ours(state: &State, action: Action, order: Order) -> bool {
    let is_first = |nodes: Nodes, node: usize| order.first_of(nodes) == Some(node);
    let is_marking = matches!(state.client, Client::Marking { .. });
    match action {
        Action::Return(_) | Action::UseAgain(..) | Action::Leave(_) => false,
        Action::Mark(node) => is_first(open(state), node),
        Action::GiveUp(node) => !is_marking || is_first(open(state), node),
        Action::Write(heal, node) => is_first(state.heals[heal].open(), node),
        Action::Pass(heal, node) => {
            let heal = state.heals[heal];
            heal.stage != Stage::Writing || is_first(heal.open(), node)
        }
        _ => true,
    }
}

/// Whether a heal that has just listed all cannot read the object, or knows that it is deleted.
fn cannot_write(state: &State, heal: usize, Knowledge { mark, parts }: Knowledge) -> bool {
    let heal = &state.heals[heal];
    let readable = parts & state.durable & state.there() & !heal.given_up;
    heal.open() != 0 && (mark || are_too_few(ALL & !readable))
}

fn learn(knowledge: &mut [Knowledge; HEALS], before: &State, action: Action, next: &State) {
    match action {
        Action::Note(heal) => knowledge[heal].mark = before.is_marked(),
        Action::Unmark(heal, _) if next.heals[heal].todo == 0 => knowledge[heal].mark = false,
        Action::ListObjects(heal) => {
            knowledge[heal].parts = before.durable & !next.heals[heal].given_up;
        }
        _ => {}
    }
}
