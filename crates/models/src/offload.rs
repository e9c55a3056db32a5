//! The offload service: a slot of a client's ring, a unit that sleeps, and a client that does with
//! its memory whatever it likes.
//!
//! One client keeps to the protocol. The other writes anything into the words of its own ring at
//! any time, says any note, and moves whoever sleeps on a word that it can name. Its words are no
//! part of a state: whoever reads one may find anything. Each client has one slot; there are two
//! units. A step is one access to shared memory, or one call of the system. Orders of memory that
//! are weaker than one step after the other are not in the model.

use stateright::{Model, Property};

/// Units of the service.
pub const UNITS: usize = 2;
/// The number of the client that keeps to the protocol; the other one is 1.
pub const HONEST: usize = 0;
/// Clients.
pub const CLIENTS: usize = 2;

/// What a slot's word says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Word {
    /// Nothing has been in it, or something else.
    #[default]
    Other,
    /// A message waits.
    Ready,
    /// A message waits, and so does the client.
    Asleep,
    /// The service has done it.
    Done,
}

impl Word {
    const ALL: [Self; 4] = [Self::Other, Self::Ready, Self::Asleep, Self::Done];

    fn waits(self) -> bool {
        matches!(self, Self::Ready | Self::Asleep)
    }
}

/// What a unit does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// It looks at the slot of this client.
    Look(usize),
    LookWhomItAsks(usize),
    Take(usize),
    LookAgain(usize),
    Leave(usize),
    SayAsleep,
    Sleep,
    /// It sleeps and is woken by a call that is for it.
    Sleeping,
    /// Somebody has moved it to where nobody wakes it.
    Lost,
    SayAwake,
    Release(usize, Answer),
    Answer(usize, Answer),
    Wake(usize, Answer),
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Answer {
    /// The work is done, after all messages of the bundle have been taken.
    Done,
    /// The message makes no sense. Others are taken afterwards.
    Refused,
}

/// A unit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Unit {
    at: At,
    /// Clients whose messages are in its bundle.
    has: [bool; CLIENTS],
}

impl Unit {
    fn next_of_bundle(&self) -> impl Iterator<Item = At> {
        let clients = (0..CLIENTS).filter(|&client| self.has[client]);
        clients.map(|client| At::Release(client, Answer::Done))
    }
}

/// What the client does next that keeps to the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Calls {
    Ask,
    Put,
    LookAtUnit,
    Say,
    Wait,
    SayItWaits,
    Sleep,
    /// It sleeps on its own word.
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
    /// A unit does not look again whether a message waits after it has taken the slot.
    TakesAtOnce,
}

/// The model.
#[derive(Clone, Debug)]
pub struct Offload {
    /// What the service does.
    pub way: Way,
    /// Messages of the client that keeps to the protocol.
    pub messages: u8,
}

/// Everything shared, and where all stand.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The word of the client that keeps to the protocol.
    word: Word,
    /// Which unit its slot asks.
    asks: usize,
    /// In memory of the service: slots that a unit has.
    taken: [bool; CLIENTS],
    /// On the board: units that sleep.
    asleep: [bool; UNITS],
    /// Calls that are on their way to a unit.
    woken: [bool; UNITS],
    units: [Unit; UNITS],
    client: Calls,
    /// Messages after the one that the client is at.
    messages_left: u8,
}

/// Who does what. Where a step may go on in several ways, the last number says in which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A unit takes its next step.
    Unit(usize, usize),
    /// The client that keeps to the protocol takes its next step.
    Client(usize),
    /// The other client says that a unit should wake up.
    Say(usize),
    /// It moves a unit that sleeps on memory that it can name.
    Move(usize),
}

/// Something that a step reads or changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The state of this client's slot, a [`Word`].
    Word(usize),
    /// Which unit this client's slot asks.
    Asks(usize),
    /// Whether a unit has this client's slot.
    Taken(usize),
    /// Whether the board says that this unit sleeps.
    Asleep(usize),
    /// Whether a call is on its way to this unit.
    Woken(usize),
    /// How many sleep on the state of this client's slot.
    Sleepers(usize),
}

/// An access to shared memory or a call of the system: what a place had in it before, and has
/// afterwards. They are the same if it is only read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// What is read or changed.
    pub place: Place,
    /// Its value before.
    pub before: u32,
    /// Its value afterwards.
    pub after: u32,
}

impl Access {
    fn read(place: Place, value: impl Into<u32>) -> Self {
        let value = value.into();
        Self::change(place, value, value)
    }

    fn change(place: Place, before: impl Into<u32>, after: impl Into<u32>) -> Self {
        Self {
            place,
            before: before.into(),
            after: after.into(),
        }
    }
}

impl From<Word> for u32 {
    fn from(word: Word) -> Self {
        word as Self
    }
}

/// The names that mark the steps in `crates/offload/src`, behind `// model: offload/`.
pub const STEPS: [&str; 18] = [
    "unit/look",
    "unit/look-whom-it-asks",
    "unit/take",
    "unit/look-again",
    "unit/leave",
    "unit/say-asleep",
    "unit/sleep",
    "unit/say-awake",
    "unit/release",
    "unit/answer",
    "unit/wake",
    "client/ask",
    "client/put",
    "client/look-at-unit",
    "client/say",
    "client/wait",
    "client/say-it-waits",
    "client/sleep",
];

impl At {
    fn step(self) -> &'static str {
        let number = match self {
            Self::Look(_) => 0,
            Self::LookWhomItAsks(_) => 1,
            Self::Take(_) => 2,
            Self::LookAgain(_) => 3,
            Self::Leave(_) => 4,
            Self::SayAsleep => 5,
            Self::Sleep | Self::Sleeping | Self::Lost => 6,
            Self::SayAwake => 7,
            Self::Release(..) => 8,
            Self::Answer(..) => 9,
            Self::Wake(..) => 10,
        };
        STEPS[number]
    }
}

impl Calls {
    fn step(self) -> &'static str {
        let number = match self {
            Self::Ask => 11,
            Self::Put => 12,
            Self::LookAtUnit => 13,
            Self::Say => 14,
            Self::Wait | Self::Ended => 15,
            Self::SayItWaits => 16,
            Self::Sleep | Self::Sleeping => 17,
        };
        STEPS[number]
    }
}

fn with(mut has: [bool; CLIENTS], client: usize) -> [bool; CLIENTS] {
    has[client] = true;
    has
}

/// Ways in which somebody may go on: an access, and the state that it leads to.
type Ways = Vec<(Access, State)>;

impl State {
    /// What may be in the word of a client.
    fn words(&self, client: usize) -> Vec<Word> {
        if client == HONEST {
            vec![self.word]
        } else {
            Word::ALL.to_vec()
        }
    }

    /// Whom a client may ask.
    fn asked(&self, client: usize) -> Vec<usize> {
        if client == HONEST {
            vec![self.asks]
        } else {
            (0..UNITS).collect()
        }
    }

    /// After a change, with a unit at each of these places.
    fn go(&self, unit: usize, to: Vec<At>, change: impl Fn(&mut Self)) -> Vec<Self> {
        let with = |at| {
            let mut next = self.clone();
            change(&mut next);
            next.units[unit].at = at;
            next
        };
        to.into_iter().map(with).collect()
    }

    /// Where a unit goes that has looked at the slot of this client, with the messages that it has.
    fn after(&self, unit: usize, client: usize, has: [bool; CLIENTS]) -> Vec<At> {
        if client + 1 < CLIENTS {
            return vec![At::Look(client + 1)];
        }
        match (self.asleep[unit], has.contains(&true)) {
            // It looks a few times before it sleeps.
            (false, false) => vec![At::Look(0), At::SayAsleep],
            (true, false) => vec![At::Sleep],
            (true, true) => vec![At::SayAwake],
            (false, true) => Self::with_bundle(has),
        }
    }

    /// It waits for others to come, or works on those that it has and says so.
    fn with_bundle(has: [bool; CLIENTS]) -> Vec<At> {
        let unit = Unit {
            at: At::Look(0),
            has,
        };
        unit.next_of_bundle().chain([At::Look(0)]).collect()
    }
}

impl Offload {
    fn unit(&self, state: &State, unit: usize) -> Ways {
        let has = state.units[unit].has;
        let go = |access: Access, to: Vec<At>, change: &dyn Fn(&mut State)| -> Ways {
            let states = state.go(unit, to, change);
            states.into_iter().map(|state| (access, state)).collect()
        };
        let nothing = |_: &mut State| {};
        match state.units[unit].at {
            At::Look(client) => {
                let look = |word: Word| {
                    let to = if word.waits() {
                        vec![At::LookWhomItAsks(client)]
                    } else {
                        state.after(unit, client, has)
                    };
                    go(Access::read(Place::Word(client), word), to, &nothing)
                };
                state.words(client).into_iter().flat_map(look).collect()
            }
            At::LookWhomItAsks(client) => {
                let look = |asked: usize| {
                    let to = if asked == unit {
                        vec![At::Take(client)]
                    } else {
                        state.after(unit, client, has)
                    };
                    go(
                        Access::read(Place::Asks(client), asked as u32),
                        to,
                        &nothing,
                    )
                };
                state.asked(client).into_iter().flat_map(look).collect()
            }
            At::Take(client) => {
                let was_taken = state.taken[client];
                let access = Access::change(Place::Taken(client), was_taken, true);
                if was_taken && self.way != Way::TakesByWord {
                    return go(access, state.after(unit, client, has), &nothing);
                }
                let (to, has) = if self.way == Way::TakesAtOnce {
                    let has = with(has, client);
                    (state.after(unit, client, has), has)
                } else {
                    (vec![At::LookAgain(client)], has)
                };
                go(access, to, &|next| {
                    next.taken[client] = true;
                    next.units[unit].has = has;
                })
            }
            At::LookAgain(client) => {
                let with = with(has, client);
                let look = |word: Word| {
                    let access = Access::read(Place::Word(client), word);
                    if !word.waits() {
                        return go(access, vec![At::Leave(client)], &nothing);
                    }
                    let mut ways = go(access, state.after(unit, client, with), &|next| {
                        next.units[unit].has = with;
                    });
                    if client != HONEST {
                        let refuse = vec![At::Release(client, Answer::Refused)];
                        ways.extend(go(access, refuse, &nothing));
                    }
                    ways
                };
                state.words(client).into_iter().flat_map(look).collect()
            }
            At::Leave(client) => {
                let access = Access::change(Place::Taken(client), state.taken[client], false);
                go(access, state.after(unit, client, has), &|next| {
                    next.taken[client] = false;
                })
            }
            At::SayAsleep => {
                let access = Access::change(Place::Asleep(unit), state.asleep[unit], true);
                let to = if self.way == Way::SleepsAtOnce {
                    At::Sleep
                } else {
                    At::Look(0)
                };
                go(access, vec![to], &|next| next.asleep[unit] = true)
            }
            // A call that came before is not lost.
            At::Sleep | At::Sleeping if state.woken[unit] => {
                let access = Access::change(Place::Woken(unit), true, false);
                go(access, vec![At::SayAwake], &|next| next.woken[unit] = false)
            }
            At::Sleep => {
                let access = Access::read(Place::Woken(unit), false);
                go(access, vec![At::Sleeping], &nothing)
            }
            At::Sleeping | At::Lost => Vec::new(),
            At::SayAwake => {
                let access = Access::change(Place::Asleep(unit), state.asleep[unit], false);
                let to = State::with_bundle(has);
                go(access, to, &|next| next.asleep[unit] = false)
            }
            At::Release(client, answer) => {
                let access = Access::change(Place::Taken(client), state.taken[client], false);
                go(access, vec![At::Answer(client, answer)], &|next| {
                    next.taken[client] = false;
                    if answer == Answer::Done {
                        next.units[unit].has[client] = false;
                    }
                })
            }
            At::Answer(client, answer) => {
                let after = match answer {
                    Answer::Done => Word::Done,
                    Answer::Refused => Word::Other,
                };
                let say = |before: Word| {
                    let access = Access::change(Place::Word(client), before, after);
                    let to = if before == Word::Asleep {
                        vec![At::Wake(client, answer)]
                    } else {
                        self.after_answer(state, unit, client, answer)
                    };
                    go(access, to, &|next| {
                        if client == HONEST {
                            next.word = after;
                        }
                    })
                };
                state.words(client).into_iter().flat_map(say).collect()
            }
            At::Wake(client, answer) => {
                let sleeps = client == HONEST && state.client == Calls::Sleeping;
                let access = Access::change(Place::Sleepers(client), sleeps, false);
                let to = self.after_answer(state, unit, client, answer);
                go(access, to, &|next| {
                    if sleeps {
                        next.client = Calls::Wait;
                    }
                })
            }
        }
    }

    fn after_answer(&self, state: &State, unit: usize, client: usize, answer: Answer) -> Vec<At> {
        if answer == Answer::Refused {
            return state.after(unit, client, state.units[unit].has);
        }
        let rest: Vec<At> = state.units[unit].next_of_bundle().collect();
        if rest.is_empty() {
            vec![At::Look(0)]
        } else {
            rest
        }
    }

    fn client(&self, state: &State) -> Ways {
        let go = |access: Access, to: Calls, change: &dyn Fn(&mut State)| {
            let mut next = state.clone();
            next.client = to;
            change(&mut next);
            (access, next)
        };
        let nothing = |_: &mut State| {};
        let (asks, word) = (state.asks, state.word);
        let read = Access::read(Place::Word(HONEST), word);
        match (state.client, word) {
            (Calls::Ask, _) => {
                let ask = |unit: usize| {
                    let access = Access::change(Place::Asks(HONEST), asks as u32, unit as u32);
                    go(access, Calls::Put, &|next| next.asks = unit)
                };
                (0..UNITS).map(ask).collect()
            }
            (Calls::Put, _) => {
                let access = Access::change(Place::Word(HONEST), word, Word::Ready);
                let put = |next: &mut State| next.word = Word::Ready;
                vec![go(access, Calls::LookAtUnit, &put)]
            }
            (Calls::LookAtUnit, _) => {
                let access = Access::read(Place::Asleep(asks), state.asleep[asks]);
                let to = if state.asleep[asks] {
                    Calls::Say
                } else {
                    Calls::Wait
                };
                vec![go(access, to, &nothing)]
            }
            (Calls::Say, _) => {
                let access = Access::change(Place::Woken(asks), state.woken[asks], true);
                vec![go(access, Calls::Wait, &|next| next.woken[asks] = true)]
            }
            // It looks a few times before it sleeps.
            (Calls::Wait, Word::Ready) => vec![
                go(read, Calls::Wait, &nothing),
                go(read, Calls::SayItWaits, &nothing),
            ],
            (Calls::Wait, Word::Asleep) => vec![go(read, Calls::Sleep, &nothing)],
            (Calls::Wait, Word::Done | Word::Other) => match state.messages_left {
                0 => vec![go(read, Calls::Ended, &nothing)],
                left => vec![go(read, Calls::Ask, &|next| next.messages_left = left - 1)],
            },
            (Calls::SayItWaits, Word::Ready) => {
                let access = Access::change(Place::Word(HONEST), word, Word::Asleep);
                vec![go(access, Calls::Wait, &|next| next.word = Word::Asleep)]
            }
            (Calls::SayItWaits, _) => vec![go(read, Calls::Wait, &nothing)],
            (Calls::Sleep, Word::Asleep) => {
                let access = Access::change(Place::Sleepers(HONEST), false, true);
                vec![go(access, Calls::Sleeping, &nothing)]
            }
            (Calls::Sleep, _) => {
                let access = Access::read(Place::Sleepers(HONEST), false);
                vec![go(access, Calls::Wait, &nothing)]
            }
            (Calls::Sleeping | Calls::Ended, _) => Vec::new(),
        }
    }

    /// The ways in which an action goes on, of which its number says one.
    fn ways(&self, state: &State, action: Action) -> Ways {
        match action {
            Action::Unit(unit, _) => self.unit(state, unit),
            Action::Client(_) => self.client(state),
            Action::Say(unit) => {
                let mut next = state.clone();
                next.woken[unit] = true;
                let access = Access::change(Place::Woken(unit), state.woken[unit], true);
                vec![(access, next)]
            }
            Action::Move(_) => Vec::new(),
        }
    }

    /// The access of an action; none where somebody is moved.
    pub fn access(&self, state: &State, action: Action) -> Option<Access> {
        let number = match action {
            Action::Unit(_, number) | Action::Client(number) => number,
            Action::Say(_) | Action::Move(_) => 0,
        };
        let ways = self.ways(state, action);
        ways.get(number).map(|(access, _)| *access)
    }
}

impl Model for Offload {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let unit = Unit {
            at: At::Look(0),
            has: [false; CLIENTS],
        };
        vec![State {
            word: Word::Other,
            asks: 0,
            taken: [false; CLIENTS],
            asleep: [false; UNITS],
            woken: [false; UNITS],
            units: [unit.clone(), unit],
            client: Calls::Ask,
            messages_left: self.messages - 1,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for unit in 0..UNITS {
            let ways = self.unit(state, unit).len();
            actions.extend((0..ways).map(|number| Action::Unit(unit, number)));
            if state.units[unit].at == At::Sleeping && self.way == Way::SleepsOnBoard {
                actions.push(Action::Move(unit));
            }
            actions.push(Action::Say(unit));
        }
        let ways = self.client(state).len();
        actions.extend((0..ways).map(Action::Client));
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let number = match action {
            Action::Unit(_, number) | Action::Client(number) => number,
            Action::Say(_) => 0,
            Action::Move(unit) => {
                let mut next = state.clone();
                next.units[unit].at = At::Lost;
                return Some(next);
            }
        };
        let mut ways = self.ways(state, action);
        Some(ways.swap_remove(number).1)
    }

    fn format_step(&self, state: &State, action: Action) -> Option<String> {
        let access = self.access(state, action);
        let access = access.map_or_else(String::new, |access| format!(" {access:?}"));
        Some(match action {
            Action::Unit(unit, _) => {
                format!("unit {unit}: {}{access}", state.units[unit].at.step())
            }
            Action::Client(_) => format!("client: {}{access}", state.client.step()),
            other => format!("other client: {other:?}"),
        })
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_UNIT_A_MESSAGE, |_, state: &State| {
                let [first, second] = &state.units;
                (0..CLIENTS).all(|client| !(first.has[client] && second.has[client]))
            }),
            Property::always(WORK_ON_WHAT_WAITS, |_, state: &State| {
                let has_it = |unit: &Unit| unit.has[HONEST];
                state.word.waits() || !state.units.iter().any(has_it)
            }),
            Property::always(NOBODY_IS_OVERLOOKED, |_, state: &State| {
                let waits =
                    state.word.waits() && !matches!(state.client, Calls::LookAtUnit | Calls::Say);
                let is_deaf = match state.units[state.asks].at {
                    At::Lost => true,
                    At::Sleeping => !state.woken[state.asks],
                    _ => false,
                };
                !(waits && is_deaf)
            }),
            Property::always(ANSWERS_WAKE, |_, state: &State| {
                let is_woken = |unit: &Unit| matches!(unit.at, At::Wake(HONEST, _));
                let sleeps = state.client == Calls::Sleeping;
                !sleeps || state.word == Word::Asleep || state.units.iter().any(is_woken)
            }),
            Property::sometimes("all messages are done", |_, state: &State| {
                state.client == Calls::Ended
            }),
            Property::sometimes("a unit sleeps", |_, state: &State| {
                state.units.iter().any(|unit| unit.at == At::Sleeping)
            }),
            Property::sometimes("the client sleeps", |_, state: &State| {
                state.client == Calls::Sleeping
            }),
            Property::sometimes("a bundle has two messages", |_, state: &State| {
                state.units.iter().any(|unit| unit.has == [true; CLIENTS])
            }),
        ]
    }
}

/// What the unsafe code relies on.
pub const ONE_UNIT_A_MESSAGE: &str = "no two units work on one message";
/// What the answer relies on: the client has brought the message, and it is worked on once.
pub const WORK_ON_WHAT_WAITS: &str =
    "a unit has a message of a client that keeps to the protocol only while it waits";
/// What a client waits for.
pub const NOBODY_IS_OVERLOOKED: &str =
    "while a client that keeps to the protocol waits, the unit that it asks is awake or is called";
/// What a client that sleeps waits for.
pub const ANSWERS_WAKE: &str =
    "a client that keeps to the protocol sleeps only until its message is answered";
