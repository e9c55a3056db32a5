//! The offload service: a slot of a client's ring, a unit that sleeps, and a client that does with
//! its memory whatever it likes.
//!
//! One client keeps to the protocol, the other writes anything into the words of its own ring at
//! any time, says any note, and moves whoever sleeps on a word that it can name. Each has one slot;
//! there are two units. A step is one access to shared memory, or one call of the system. Orders of
//! memory that are weaker than one step after the other are not in the model.

use stateright::{Model, Property};

/// Units of the service.
pub const UNITS: usize = 2;
/// The number of the client that keeps to the protocol; the other one is 1.
const HONEST: usize = 0;
/// Clients.
const CLIENTS: usize = 2;

/// What a slot's word says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Word {
    /// Nothing has been in it.
    #[default]
    Empty,
    /// A message waits.
    Ready,
    /// A message waits, and so does the client.
    Asleep,
    /// The service has done it.
    Done,
}

/// Where a unit stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum At {
    /// It looks at the slot of this client, before it would sleep or, the second value, once more.
    #[default]
    Start,
    Look(usize, bool),
    Take(usize, bool),
    SayAsleep,
    Sleep,
    /// It sleeps and is woken by a call that is for it.
    Sleeping,
    /// Somebody has moved it to where nobody wakes it.
    Lost,
    SayAwake,
    /// It has the message of this client.
    Work(usize),
    Release(usize),
    Answer(usize),
}

/// Where the client stands that keeps to the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Calls {
    #[default]
    Choose,
    Put,
    LookAtUnit,
    Say,
    Wait,
    SayItWaits,
    /// It sleeps on its own word, with a time limit.
    Sleeping,
    Ended,
}

/// What the service does, or could do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As the code does.
    Ours,
    /// A unit sleeps on a word of the board, which all clients have mapped.
    SleepsOnBoard,
    /// A unit does not look again after it has said that it sleeps.
    SleepsAtOnce,
    /// A slot is taken without a note in memory of the service.
    TakesByWord,
}

/// The model.
#[derive(Clone, Debug)]
pub struct Offload {
    /// What the service does.
    pub way: Way,
}

/// Everything shared, and where all stand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    words: [Word; CLIENTS],
    /// Which unit each slot asks.
    asks: [usize; CLIENTS],
    /// In memory of the service: slots that a unit has.
    taken: [bool; CLIENTS],
    /// On the board: units that sleep.
    asleep: [bool; UNITS],
    /// Calls that are on their way to a unit.
    woken: [bool; UNITS],
    units: [At; UNITS],
    client: Calls,
}

/// Who does what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A unit takes its next step.
    Unit(usize),
    /// The client that keeps to the protocol takes its next step; the number is the unit that it
    /// asks, where it chooses one.
    Client(usize),
    /// The other client writes into its word.
    Write(Word),
    /// It asks another unit.
    Ask(usize),
    /// It says that a unit should wake up.
    Say(usize),
    /// It moves a unit that sleeps on memory that it can name.
    Move(usize),
}

/// The names that mark the steps in `crates/offload/src`, behind `// model: offload/`.
pub const STEPS: [&str; 13] = [
    "unit/look",
    "unit/take",
    "unit/say-asleep",
    "unit/sleep",
    "unit/say-awake",
    "unit/work",
    "unit/release",
    "unit/answer",
    "client/put",
    "client/look-at-unit",
    "client/say",
    "client/wait",
    "client/say-it-waits",
];

impl At {
    fn step(self) -> &'static str {
        let number = match self {
            Self::Start | Self::Look(..) => 0,
            Self::Take(..) => 1,
            Self::SayAsleep => 2,
            Self::Sleep | Self::Sleeping | Self::Lost => 3,
            Self::SayAwake => 4,
            Self::Work(_) => 5,
            Self::Release(_) => 6,
            Self::Answer(_) => 7,
        };
        STEPS[number]
    }
}

impl Calls {
    fn step(self) -> &'static str {
        let number = match self {
            Self::Choose | Self::Put => 8,
            Self::LookAtUnit => 9,
            Self::Say => 10,
            Self::Wait | Self::Sleeping | Self::Ended => 11,
            Self::SayItWaits => 12,
        };
        STEPS[number]
    }
}

impl Offload {
    fn gather(&self, unit: usize, client: usize, again: bool, state: &State) -> At {
        let is_for_it = state.asks[client] == unit;
        match state.words[client] {
            Word::Ready | Word::Asleep if is_for_it => At::Take(client, again),
            _ => Self::next(client, again),
        }
    }

    /// What is next when there is nothing of this client.
    fn next(client: usize, again: bool) -> At {
        match (client + 1 < CLIENTS, again) {
            (true, _) => At::Look(client + 1, again),
            (false, false) => At::SayAsleep,
            (false, true) => At::Sleep,
        }
    }

    fn unit(&self, state: &mut State, unit: usize) {
        state.units[unit] = match state.units[unit] {
            At::Start => At::Look(0, false),
            At::Look(client, again) => self.gather(unit, client, again, state),
            At::Take(client, again) => {
                let was_taken = state.taken[client] && self.way != Way::TakesByWord;
                state.taken[client] = true;
                if was_taken {
                    Self::next(client, again)
                } else {
                    At::Work(client)
                }
            }
            At::SayAsleep => {
                state.asleep[unit] = true;
                if self.way == Way::SleepsAtOnce {
                    At::Sleep
                } else {
                    At::Look(0, true)
                }
            }
            // A call that came before is not lost.
            At::Sleep if std::mem::take(&mut state.woken[unit]) => At::SayAwake,
            At::Sleep => At::Sleeping,
            At::Sleeping => {
                state.woken[unit] = false;
                At::SayAwake
            }
            At::SayAwake => {
                state.asleep[unit] = false;
                At::Start
            }
            At::Work(client) => At::Release(client),
            At::Release(client) => {
                state.taken[client] = false;
                At::Answer(client)
            }
            At::Answer(client) => {
                state.words[client] = Word::Done;
                At::SayAwake
            }
            At::Lost => unreachable!("a unit that is lost takes no step"),
        };
    }

    fn client(&self, state: &mut State, unit: usize) {
        state.client = match state.client {
            Calls::Choose => {
                state.asks[HONEST] = unit;
                Calls::Put
            }
            Calls::Put => {
                state.words[HONEST] = Word::Ready;
                Calls::LookAtUnit
            }
            Calls::LookAtUnit if state.asleep[state.asks[HONEST]] => Calls::Say,
            Calls::LookAtUnit => Calls::Wait,
            Calls::Say => {
                state.woken[state.asks[HONEST]] = true;
                Calls::Wait
            }
            Calls::Wait if state.words[HONEST] == Word::Ready => Calls::SayItWaits,
            Calls::Wait if state.words[HONEST] == Word::Asleep => Calls::Sleeping,
            Calls::Wait | Calls::Sleeping => Calls::Ended,
            Calls::SayItWaits => {
                if state.words[HONEST] == Word::Ready {
                    state.words[HONEST] = Word::Asleep;
                }
                Calls::Wait
            }
            Calls::Ended => unreachable!("a client that has ended takes no step"),
        };
    }
}

impl Model for Offload {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::default()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for unit in 0..UNITS {
            let sleeps = state.units[unit] == At::Sleeping;
            if state.units[unit] != At::Lost && (!sleeps || state.woken[unit]) {
                actions.push(Action::Unit(unit));
            }
            if sleeps && self.way == Way::SleepsOnBoard {
                actions.push(Action::Move(unit));
            }
            actions.push(Action::Say(unit));
            actions.push(Action::Ask(unit));
        }
        match state.client {
            Calls::Choose => actions.extend((0..UNITS).map(Action::Client)),
            Calls::Sleeping if state.words[HONEST] != Word::Done => {}
            Calls::Ended => {}
            _ => actions.push(Action::Client(0)),
        }
        let words = [Word::Empty, Word::Ready, Word::Asleep, Word::Done];
        actions.extend(words.map(Action::Write));
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Unit(unit) => self.unit(&mut next, unit),
            Action::Client(unit) => self.client(&mut next, unit),
            Action::Write(word) => next.words[1 - HONEST] = word,
            Action::Ask(unit) => next.asks[1 - HONEST] = unit,
            Action::Say(unit) => next.woken[unit] = true,
            Action::Move(unit) => next.units[unit] = At::Lost,
        }
        Some(next)
    }

    fn format_step(&self, state: &State, action: Action) -> Option<String> {
        Some(match action {
            Action::Unit(unit) => format!("unit {unit}: {}", state.units[unit].step()),
            Action::Client(_) => format!("client: {}", state.client.step()),
            other => format!("other client: {other:?}"),
        })
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_UNIT_A_MESSAGE, |_, state: &State| {
                let works = |unit: &At| match *unit {
                    At::Work(client) => Some(client),
                    _ => None,
                };
                let first = works(&state.units[0]);
                first.is_none() || first != works(&state.units[1])
            }),
            Property::always(NOBODY_IS_OVERLOOKED, |_, state: &State| {
                let waits = matches!(state.words[HONEST], Word::Ready | Word::Asleep)
                    && matches!(state.client, Calls::Wait | Calls::Sleeping);
                let unit = state.asks[HONEST];
                let is_deaf = match state.units[unit] {
                    At::Lost => true,
                    At::Sleeping => !state.woken[unit],
                    _ => false,
                };
                // Another unit may have it, asked before.
                let is_taken = state.taken[HONEST];
                !(waits && is_deaf && !is_taken)
            }),
            Property::sometimes("a message is done", |_, state: &State| {
                state.client == Calls::Ended
            }),
            Property::sometimes("a unit sleeps", |_, state: &State| {
                state.units.contains(&At::Sleeping)
            }),
        ]
    }
}

/// What the unsafe code relies on.
pub const ONE_UNIT_A_MESSAGE: &str = "no two units work on one message";
/// What a client waits for.
pub const NOBODY_IS_OVERLOOKED: &str =
    "while a client that keeps to the protocol waits, the unit that it asks is awake or is called";
