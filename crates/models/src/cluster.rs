//! A stripe over four nodes: it is put, becomes durable, is healed and deleted, while nodes crash,
//! restart, lose their disks, lag and cannot be reached.
//!
//! A step is one request to one node, or one node's commit. The client judges by itself which nodes
//! are missing: it may give up any that does not answer yet, and what such a node was sent may
//! become durable later.

use stateright::{Model, Property};

use crate::removal::world::bits;

/// Nodes.
pub const NODES: usize = 4;
/// Nodes that may be missing.
const MISSING_MAX: u32 = 2;
/// Nodes on which a deletion is noted while others are missing.
const MARKS: u32 = 3;

/// A set of nodes.
type Nodes = u8;

const ALL: Nodes = (1 << NODES) - 1;

/// What the program does, or could do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As the code does.
    Ours,
    /// A node says that it has its part before that is durable.
    AnswersEarly,
    /// A put may leave out three nodes.
    LeavesOutThree,
    /// Nobody notes a deletion while nodes are missing.
    NotesNoDeletion,
}

/// The model.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// What the program does.
    pub way: Way,
    /// Crashes, lost disks, lost connections and answers that come too late, in all.
    pub faults: u8,
    /// Whether heals go on while the client deletes.
    pub heals_beside_deletes: bool,
}

/// Where the client stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Client {
    /// It hands parts to nodes and waits until each has its part or is given up.
    #[default]
    Putting,
    /// The put has returned.
    Stored,
    /// It notes the deletion on three nodes.
    Noting,
    /// It deletes the part of each node.
    Deleting,
    /// The deletion has returned.
    Deleted,
    /// It was told that too many nodes are missing.
    Refused,
}

/// The nodes, the client and a heal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Nodes that are sent a part and have not made it durable.
    written: Nodes,
    /// Nodes whose part is durable.
    durable: Nodes,
    /// Nodes that know of the deletion.
    marked: Nodes,
    up: Nodes,
    connected: Nodes,
    faults: u8,
    client: Client,
    /// Nodes that the client has dealt with in what it does now.
    handled: Nodes,
    /// Nodes that it has given up.
    given_up: Nodes,
    /// Nodes that a heal has a part for.
    healing: Nodes,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The client sends a node its part.
    Send(usize),
    /// A node makes a part durable.
    Commit(usize),
    /// The client hears that a node has its part.
    Hear(usize),
    /// The client gives a node up.
    GiveUp(usize),
    /// The put returns, with an error if too many nodes lack their part.
    EndPut,
    /// The client begins to delete the object.
    BeginDelete,
    /// A node notes the deletion.
    Note(usize),
    /// All notes are made that can be.
    EndNotes,
    /// A node deletes its part.
    Delete(usize),
    /// The deletion returns.
    EndDelete,
    /// A heal reads the object, and makes parts for the nodes that lack one.
    HealRead,
    /// It writes one of them.
    HealWrite(usize),
    /// With all nodes there, it applies the deletion and forgets it.
    ApplyDeletion,
    /// A node dies, and forgets what is not durable.
    Crash(usize),
    /// It starts again.
    Restart(usize),
    /// A disk is lost; an empty one takes its place.
    LoseDisk(usize),
    /// A node cannot be reached.
    Disconnect(usize),
    /// It can be again.
    Connect(usize),
}

impl State {
    /// Nodes that answer.
    fn there(&self) -> Nodes {
        self.up & self.connected
    }

    fn is_listed(&self) -> bool {
        let has = (self.durable & self.there()).count_ones() >= NODES as u32 - MISSING_MAX;
        has && self.marked & self.there() == 0
    }
}

impl Model for Cluster {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            written: 0,
            durable: 0,
            marked: 0,
            up: ALL,
            connected: ALL,
            faults: 0,
            client: Client::default(),
            handled: 0,
            given_up: 0,
            healing: 0,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let there = state.there();
        let each = |nodes: Nodes| bits(nodes);
        let open = ALL & !state.handled & !state.given_up;
        let answers_early = self.way == Way::AnswersEarly;
        match state.client {
            Client::Putting => {
                let sent = state.written | state.durable;
                actions.extend(each(open & there & !sent).map(Action::Send));
                let has = if answers_early { sent } else { state.durable };
                actions.extend(each(open & there & has).map(Action::Hear));
                if open == 0 {
                    actions.push(Action::EndPut);
                }
            }
            Client::Stored => actions.push(Action::BeginDelete),
            Client::Noting => {
                if (state.handled & state.marked).count_ones() < MARKS {
                    actions.extend(each(open & there).map(Action::Note));
                }
                actions.push(Action::EndNotes);
            }
            Client::Deleting => {
                actions.extend(each(open & there).map(Action::Delete));
                if open == 0 {
                    actions.push(Action::EndDelete);
                }
            }
            Client::Deleted | Client::Refused => {}
        }
        if matches!(state.client, Client::Putting | Client::Deleting) {
            // Of one that is there, it is the node that lags: a fault.
            let late = if state.faults < self.faults {
                open
            } else {
                open & !there
            };
            actions.extend(each(late).map(Action::GiveUp));
        }
        actions.extend(each(state.written & state.up).map(Action::Commit));
        let deletes = matches!(
            state.client,
            Client::Noting | Client::Deleting | Client::Deleted
        );
        if state.healing == 0 && state.is_listed() && there & !state.durable != 0 {
            actions.push(Action::HealRead);
        }
        if self.heals_beside_deletes || !deletes {
            actions.extend(each(state.healing & there).map(Action::HealWrite));
        }
        if there == ALL && state.marked != 0 && state.client == Client::Deleted {
            actions.push(Action::ApplyDeletion);
        }
        if state.faults < self.faults {
            actions.extend(each(state.up).map(Action::Crash));
            actions.extend(each(state.up).map(Action::LoseDisk));
            actions.extend(each(state.connected).map(Action::Disconnect));
        }
        actions.extend(each(ALL & !state.up).map(Action::Restart));
        actions.extend(each(ALL & !state.connected).map(Action::Connect));
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Send(node) => next.written |= 1 << node,
            Action::Commit(node) => {
                next.written &= !(1 << node);
                next.durable |= 1 << node;
            }
            Action::Hear(node) => next.handled |= 1 << node,
            Action::GiveUp(node) => {
                next.faults += u8::from(state.there() & 1 << node != 0);
                next.given_up |= 1 << node;
            }
            Action::EndPut => {
                let left_out = MISSING_MAX + u32::from(self.way == Way::LeavesOutThree);
                let is_stored = state.given_up.count_ones() <= left_out;
                next.client = if is_stored {
                    Client::Stored
                } else {
                    Client::Refused
                };
                (next.handled, next.given_up) = (0, 0);
            }
            Action::BeginDelete => {
                let notes = state.there() != ALL && self.way != Way::NotesNoDeletion;
                next.client = if notes {
                    Client::Noting
                } else {
                    Client::Deleting
                };
                if !self.heals_beside_deletes {
                    next.healing = 0;
                }
            }
            Action::Note(node) => {
                next.marked |= 1 << node;
                next.handled |= 1 << node;
            }
            Action::EndNotes => {
                let missing = (ALL & !state.there()).count_ones();
                let noted = state.handled.count_ones();
                let can_note = state.there().count_ones().min(MARKS);
                if noted < can_note {
                    return None;
                }
                next.client = if missing > MISSING_MAX {
                    Client::Refused
                } else {
                    Client::Deleting
                };
                next.handled = 0;
            }
            Action::Delete(node) => {
                next.durable &= !(1 << node);
                next.written &= !(1 << node);
                next.handled |= 1 << node;
            }
            Action::EndDelete => {
                let missing = state.given_up.count_ones();
                let notes = self.way != Way::NotesNoDeletion;
                next.handled = 0;
                next.client = if missing > MISSING_MAX {
                    Client::Refused
                } else if missing > 0 && state.marked == 0 && notes {
                    // A node has failed since the deletion began.
                    Client::Noting
                } else {
                    Client::Deleted
                };
                next.given_up = 0;
            }
            Action::HealRead => next.healing = state.there() & !state.durable,
            Action::HealWrite(node) => {
                next.durable |= 1 << node;
                next.healing &= !(1 << node);
            }
            Action::ApplyDeletion => (next.durable, next.written, next.marked) = (0, 0, 0),
            Action::Crash(node) => {
                next.faults += 1;
                next.up &= !(1 << node);
                next.written &= !(1 << node);
            }
            Action::Restart(node) => next.up |= 1 << node,
            Action::LoseDisk(node) => {
                next.faults += 1;
                next.durable &= !(1 << node);
                next.written &= !(1 << node);
                next.marked &= !(1 << node);
            }
            Action::Disconnect(node) => {
                next.faults += 1;
                next.connected &= !(1 << node);
            }
            Action::Connect(node) => next.connected |= 1 << node,
        }
        Some(next)
    }

    fn format_step(&self, _: &State, action: Action) -> Option<String> {
        Some(format!("{action:?}"))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(STORED_STAYS, |_, state: &State| {
                state.client != Client::Stored || state.durable.count_ones() >= 2
            }),
            Property::always(DELETED_STAYS_AWAY, |_, state: &State| {
                state.client != Client::Deleted || !state.is_listed()
            }),
            Property::sometimes("a put leaves out two nodes", |_, state: &State| {
                state.client == Client::Stored && state.durable.count_ones() == 2
            }),
            Property::sometimes("a heal writes a part", |_, state: &State| {
                state.healing != 0
            }),
            Property::sometimes("a deletion is noted and applied", |_, state: &State| {
                state.client == Client::Deleted && state.marked == 0 && state.faults > 0
            }),
        ]
    }
}

/// What a put promises.
pub const STORED_STAYS: &str = "an object whose put has returned can be read from what disks hold";
/// What a deletion promises.
pub const DELETED_STAYS_AWAY: &str = "an object whose deletion has returned is never listed again";
