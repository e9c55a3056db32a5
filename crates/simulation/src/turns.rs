//! Lets one storage operation happen at a time, in an order that a seed decides.

use std::fmt;
use std::sync::{Condvar, Mutex};

use tabane_storage::sync::lock;
use tabane_testing::random::Random;

/// What happens before a turn, without any client. It gets the turn's number, whether a client has
/// fallen asleep for long, and where to tell what has happened.
pub type Between = Box<dyn FnMut(u32, bool, &dyn Fn(String)) + Send>;

/// The turns of all clients.
pub struct Turns {
    state: Mutex<State>,
    /// A client has a turn, by its number.
    granted: Vec<Condvar>,
    /// Every operation in words, if somebody wants to see them.
    told: Option<Mutex<Vec<String>>>,
}

struct State {
    clients: Vec<Waiting>,
    turn: u32,
    random: Random,
    /// A client has so many turns one after the other, on average.
    row: u64,
    /// Who had the last turn.
    favourite: usize,
    between: Between,
}

/// A client, with operations that wait.
#[derive(Default)]
struct Waiting {
    waiting: u64,
    /// How many of them may go on.
    granted: u64,
    /// An operation is going on.
    acting: bool,
    ended: bool,
    /// Operations so far, those of all targets.
    operations: u32,
    /// From which operation on all fail.
    dies_at: Option<u32>,
    /// Before which operations it falls asleep, and for how many turns.
    naps: Vec<(u32, u32)>,
    /// It has no turn before this one, unless nobody is awake.
    sleeps_until: u32,
    /// It has no turn before each other client has acted so often, or ended.
    waits_for: Vec<u32>,
}

impl Waiting {
    fn is_busy(&self) -> bool {
        self.acting || self.granted > 0 || (!self.ended && self.waiting == 0)
    }

    fn is_dead(&self) -> bool {
        self.dies_at.is_some_and(|at| self.operations > at)
    }

    /// Falls asleep at this turn, if it is time; says whether it does.
    fn falls_asleep(&mut self, turn: u32) -> bool {
        let next = self.operations;
        let Some(nap) = self.naps.iter().position(|&(at, _)| at == next) else {
            return false;
        };
        self.sleeps_until = turn + self.naps.swap_remove(nap).1;
        true
    }
}

/// What an operation hears when its turn comes.
pub struct Turn {
    /// Its number.
    pub number: u32,
    /// Whether the client is dead.
    pub is_dead: bool,
}

impl Turns {
    /// Turns of so many clients, `row` one after the other on average; `tells` keeps every
    /// operation in words. The first comes once every client waits.
    pub fn new(clients: usize, random: Random, row: u64, tells: bool) -> Self {
        let state = State {
            clients: (0..clients).map(|_| Waiting::default()).collect(),
            turn: 0,
            random,
            row,
            favourite: usize::MAX,
            between: Box::new(|_, _, _| ()),
        };
        Self {
            state: Mutex::new(state),
            granted: (0..clients).map(|_| Condvar::new()).collect(),
            told: tells.then(Mutex::default),
        }
    }

    /// Says what happens before each turn. It must not ask for a turn.
    pub fn before_each(&self, between: Between) {
        lock(&self.state).between = between;
    }

    /// Lets a client die at this operation, or before it.
    pub fn dies_at(&self, client: usize, at: u32) {
        let client = &mut lock(&self.state).clients[client];
        client.dies_at = Some(client.dies_at.map_or(at, |other| other.min(at)));
    }

    /// Lets a client fall asleep before this operation, until the others have had so many turns.
    pub fn naps_at(&self, client: usize, at: u32, turns: u32) {
        lock(&self.state).clients[client].naps.push((at, turns));
    }

    /// From now on a client has no turn until each other has acted so often, or ended.
    pub fn let_others_act(&self, client: usize, times: u32) {
        let mut state = lock(&self.state);
        let others = state.clients.iter();
        state.clients[client].waits_for = others.map(|other| other.operations + times).collect();
    }

    /// Whether all operations of a client fail by now.
    pub fn is_dead(&self, client: usize) -> bool {
        lock(&self.state).clients[client].is_dead()
    }

    /// How many turns there were.
    pub fn count(&self) -> u32 {
        lock(&self.state).turn
    }

    /// Waits for the turn of `client`.
    pub fn begin(&self, client: usize) -> Turn {
        let mut state = lock(&self.state);
        state.clients[client].waiting += 1;
        self.go_on(&mut state);
        while state.clients[client].granted == 0 {
            let granted = &self.granted[client];
            state = granted.wait(state).expect("nothing has panicked");
        }
        let number = state.turn;
        let client = &mut state.clients[client];
        client.granted -= 1;
        client.acting = true;
        client.operations += 1;
        Turn {
            number,
            is_dead: client.is_dead(),
        }
    }

    /// Ends the turn of `client`.
    pub fn end(&self, client: usize) {
        let mut state = lock(&self.state);
        state.clients[client].acting = false;
        self.go_on(&mut state);
    }

    /// A client has ended.
    pub fn leave(&self, client: usize) {
        let mut state = lock(&self.state);
        state.clients[client].ended = true;
        self.go_on(&mut state);
    }

    /// Gives the next turn, once every client waits or has ended.
    fn go_on(&self, state: &mut State) {
        if state.clients.iter().any(Waiting::is_busy) {
            return;
        }
        let live: Vec<usize> = (0..state.clients.len())
            .filter(|&client| !state.clients[client].ended)
            .collect();
        if live.is_empty() {
            return;
        }
        state.turn += 1;
        let turn = state.turn;
        let mut fell_asleep = false;
        for &client in &live {
            if state.clients[client].falls_asleep(turn) {
                fell_asleep = true;
                self.tell(format_args!("client {client} falls asleep"));
            }
        }
        let waits = |client: usize| {
            let others = state.clients[client].waits_for.iter().enumerate();
            let mut others = others.filter(|&(other, _)| other != client);
            others.any(|(other, &times)| {
                !state.clients[other].ended && state.clients[other].operations < times
            })
        };
        let patient: Vec<usize> = live.iter().copied().filter(|&one| !waits(one)).collect();
        let live = if patient.is_empty() { live } else { patient };
        let mut awake = live.clone();
        awake.retain(|&client| state.clients[client].sleeps_until <= turn);
        let awake = if awake.is_empty() { live } else { awake };
        if state.random.one_in(state.row) || !awake.contains(&state.favourite) {
            state.favourite = awake[state.random.below(awake.len() as u64) as usize];
        }
        (state.between)(turn, fell_asleep, &|what| self.tell(what));
        let client = &mut state.clients[state.favourite];
        client.waiting -= 1;
        client.granted += 1;
        self.granted[state.favourite].notify_one();
    }

    /// Tells what a client, or something else, has done.
    pub fn tell(&self, what: impl fmt::Display) {
        if let Some(told) = &self.told {
            lock(told).push(what.to_string());
        }
    }

    /// All that was told.
    pub fn told(&self) -> String {
        let told = self.told.as_ref();
        told.map_or_else(String::new, |told| lock(told).join("\n"))
    }
}
