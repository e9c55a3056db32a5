//! A stripe over four nodes: it is put, becomes durable, is healed and deleted, while nodes crash,
//! restart, lose their disks, lag and cannot be reached, and heals are killed.
//!
//! A step is one request to one node, or one node's commit; a listing of all nodes is one step, and
//! so are a heal's notes on all nodes. The client and each heal judge by themselves which nodes are
//! missing. They give up those that do not answer, and use none that they have given up, until they
//! hear from it again. The client may also give up one that lags: what such a node was sent may
//! become durable later.

use stateright::{Model, Property};

use crate::removal::world::bits;

/// Nodes.
pub const NODES: usize = 4;
/// Nodes that may be missing.
const MISSING_MAX: u32 = 2;
/// Nodes on which a deleted object is marked.
pub const MARKS: u32 = 3;
/// Heals at once, at most.
pub const HEALS: usize = 2;

/// Steps of deletions and heals as they are called in the code.
pub const STEPS: [&str; 12] = [
    "mark",
    "delete",
    "look-for-heals",
    "look-for-parts",
    "note",
    "list-marks",
    "apply-mark",
    "look-again",
    "unmark",
    "list-objects",
    "list-marks-of-objects",
    "take-back",
];

/// A set of nodes.
pub type Nodes = u8;

/// All nodes.
pub const ALL: Nodes = (1 << NODES) - 1;

/// What the program does, or could do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As the code does.
    Ours,
    /// A node says that it has its part before that is durable.
    AnswersEarly,
    /// A put may leave out three nodes.
    LeavesOutThree,
    /// Nobody marks what is deleted while nodes are missing.
    MarksNothing,
    /// Who deletes does not look for heals.
    LooksForNoHeals,
    /// Who deletes does not look for parts that heals have put back.
    LooksForNoParts,
    /// Who deletes looks for heals, and deletes only then.
    LooksBeforeDeleting,
    /// A heal puts its note after it has listed the objects.
    NotesLate,
    /// A heal applies marks beside another one.
    AppliesBesideHeals,
    /// A heal that has applied marks removes them without another look.
    LooksOnce,
}

/// The model.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// What the program does.
    pub way: Way,
    /// Crashes, lost disks, lost connections, killed heals and answers that come too late, in all.
    pub faults: u8,
    /// Heals at once, at most [`HEALS`].
    pub heals: usize,
}

/// Where the client stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Client {
    /// It hands parts to nodes and waits until each has its part or is given up.
    #[default]
    Putting,
    /// The put has returned.
    Stored,
    /// It marks the object on three nodes, before it deletes parts or after that.
    Marking {
        /// Whether parts are still to be deleted.
        is_first: bool,
    },
    /// It deletes the part of each node.
    Deleting,
    /// It looks for heals.
    Looking,
    /// It looks for parts that a heal has put back.
    Checking,
    /// The deletion has returned.
    Deleted,
    /// It was told that too many nodes are missing.
    Refused,
}

/// Where a heal stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Stage {
    /// There is none.
    #[default]
    Idle,
    /// Its note is on the nodes.
    Noted,
    /// It deletes the marked object from the nodes.
    Applying,
    /// It has deleted it from all.
    Applied,
    /// It deletes the mark.
    Unmarking,
    /// It has dealt with marks.
    Ready,
    /// It has listed the objects, and will list the marks.
    Listed,
    /// It writes the parts of nodes that lack one.
    Writing,
}

/// A heal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Heal {
    /// Where it stands.
    pub stage: Stage,
    /// Nodes to which it does what it does now, but for those that it has given up.
    pub todo: Nodes,
    /// Nodes with its note.
    pub noted: Nodes,
    /// Nodes that it has given up.
    pub given_up: Nodes,
}

/// The nodes, the client and the heals.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Nodes that are sent a part and have not made it durable.
    pub written: Nodes,
    /// Nodes whose part is durable.
    pub durable: Nodes,
    /// Nodes with the mark.
    pub marked: Nodes,
    /// Nodes with notes of heals that are no more.
    pub left: Nodes,
    up: Nodes,
    connected: Nodes,
    faults: u8,
    /// The client.
    pub client: Client,
    /// Nodes that the client has dealt with in what it does now.
    pub handled: Nodes,
    /// Nodes that it has given up.
    pub given_up: Nodes,
    /// Whether it has marked the object.
    knows_mark: bool,
    /// The heals.
    pub heals: [Heal; HEALS],
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
    /// The client uses a node again that it had given up.
    Return(usize),
    /// The put returns, with an error if too many nodes lack their part.
    EndPut,
    /// The client begins to delete the object.
    BeginDelete,
    /// A node marks the object.
    Mark(usize),
    /// All marks are made that can be.
    EndMarks,
    /// A node deletes its part.
    Delete(usize),
    /// All parts are deleted that can be.
    EndDelete,
    /// The client looks for heals.
    LookForHeals,
    /// The client looks for a node's part.
    LookForPart(usize),
    /// All nodes were asked that answer.
    EndLook,
    /// A heal notes on all nodes that it is at work.
    Note(usize),
    /// It lists the marks, and whether another heal is at work.
    ListMarks(usize),
    /// It deletes the marked object from a node.
    ApplyMark(usize, usize),
    /// It looks once more whether another heal is at work.
    LookAgain(usize),
    /// It deletes the mark from a node.
    Unmark(usize, usize),
    /// It lists the objects.
    ListObjects(usize),
    /// It lists the marks of objects that it is not to heal.
    ListMarksOfObjects(usize),
    /// It writes the part of a node.
    Write(usize, usize),
    /// It leaves the object, which it cannot read.
    Leave(usize),
    /// It gives up a node that is not there.
    Pass(usize, usize),
    /// It uses a node again that it had given up.
    UseAgain(usize, usize),
    /// It takes its note back.
    TakeBack(usize),
    /// It is killed.
    Kill(usize),
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
    pub fn there(&self) -> Nodes {
        self.up & self.connected
    }

    /// Whether enough nodes that answer have a part.
    pub fn is_found(&self) -> bool {
        (self.durable & self.there()).count_ones() >= NODES as u32 - MISSING_MAX
    }

    /// Whether a node that answers has the mark.
    pub fn is_marked(&self) -> bool {
        self.marked & self.there() != 0
    }

    /// Whether one of these nodes has a note of a heal other than this one.
    fn is_other_noted(&self, heal: Option<usize>, nodes: Nodes) -> bool {
        let heals = self.heals.iter().enumerate();
        let others = heals.filter(|(number, _)| Some(*number) != heal);
        let notes = others.fold(self.left, |notes, (_, other)| notes | other.noted);
        notes & nodes != 0
    }
}

/// Whether so many nodes are missing that nobody goes on.
pub fn are_too_few(missing: Nodes) -> bool {
    missing.count_ones() > MISSING_MAX
}

impl Heal {
    /// Nodes to which it still does what it does now.
    pub fn open(&self) -> Nodes {
        self.todo & !self.given_up
    }

    /// It goes on to a stage, or ends if it has given up too many nodes.
    fn go_on(&mut self, stage: Stage, todo: Nodes) {
        (self.stage, self.todo) = if are_too_few(self.given_up) {
            (Stage::Writing, 0)
        } else {
            (stage, todo)
        };
    }

    /// It has done something to a node, or has given it up.
    fn has_done(&mut self, then: Stage) {
        if self.open() == 0 {
            self.go_on(if self.todo == 0 { then } else { Stage::Ready }, 0);
        }
    }
}

impl Cluster {
    /// The steps that a heal can take.
    fn heal_actions(&self, state: &State, heal: usize, actions: &mut Vec<Action>) {
        let Heal {
            stage, given_up, ..
        } = state.heals[heal];
        let (there, open) = (state.there(), state.heals[heal].open());
        let each = |nodes: Nodes, action: fn(usize, usize) -> Action| {
            bits(nodes).map(move |node| action(heal, node))
        };
        let is_first = heal == 0 || state.heals[heal - 1].stage != Stage::Idle;
        match stage {
            // One after the other: which is which makes no difference.
            Stage::Idle if is_first && !are_too_few(ALL & !there) => {
                actions.push(Action::Note(heal));
            }
            Stage::Idle => {}
            Stage::Noted => actions.push(Action::ListMarks(heal)),
            Stage::Applying => actions.extend(each(open & there, Action::ApplyMark)),
            Stage::Applied => actions.push(Action::LookAgain(heal)),
            Stage::Unmarking => actions.extend(each(open & there, Action::Unmark)),
            Stage::Ready => actions.push(Action::ListObjects(heal)),
            Stage::Listed => actions.push(Action::ListMarksOfObjects(heal)),
            Stage::Writing if open == 0 => actions.push(Action::TakeBack(heal)),
            Stage::Writing => {
                actions.extend(each(open & there, Action::Write));
                actions.push(Action::Leave(heal));
            }
        }
        if stage != Stage::Listed {
            actions.extend(each(open & !there, Action::Pass));
        }
        actions.extend(each(given_up & there, Action::UseAgain));
        if stage != Stage::Idle && state.faults < self.faults {
            actions.push(Action::Kill(heal));
        }
    }

    /// A heal's step.
    fn next_heal(&self, state: &State, action: Action, number: usize) -> State {
        let mut next = state.clone();
        let there = state.there();
        let heal = &mut next.heals[number];
        if let Action::Note(_)
        | Action::ListMarks(_)
        | Action::LookAgain(_)
        | Action::ListObjects(_)
        | Action::ListMarksOfObjects(_) = action
        {
            // It asks all nodes, and hears which are missing.
            heal.given_up |= ALL & !there;
        }
        let seen = ALL & !heal.given_up;
        match action {
            Action::Note(_) => {
                heal.stage = Stage::Noted;
                if self.way != Way::NotesLate {
                    heal.noted = seen;
                }
            }
            Action::ListMarks(_) => {
                let is_alone = self.way == Way::AppliesBesideHeals
                    || !state.is_other_noted(Some(number), seen);
                let applies = state.marked & seen != 0 && seen == ALL && is_alone;
                if applies {
                    heal.go_on(Stage::Applying, ALL);
                } else {
                    heal.go_on(Stage::Ready, 0);
                }
            }
            Action::ApplyMark(_, node) => {
                next.durable &= !(1 << node);
                next.written &= !(1 << node);
                heal.todo &= !(1 << node);
                heal.has_done(Stage::Applied);
            }
            Action::LookAgain(_) => {
                let looks = !matches!(self.way, Way::AppliesBesideHeals | Way::LooksOnce);
                let is_alone = !(looks && state.is_other_noted(Some(number), seen));
                if seen == ALL && is_alone {
                    heal.go_on(Stage::Unmarking, ALL);
                } else {
                    heal.go_on(Stage::Ready, 0);
                }
            }
            Action::Unmark(_, node) => {
                next.marked &= !(1 << node);
                heal.todo &= !(1 << node);
                heal.has_done(Stage::Ready);
            }
            Action::ListObjects(_) => {
                let is_found = !are_too_few(ALL & !(state.durable & seen));
                let lacking = if is_found { seen & !state.durable } else { 0 };
                heal.go_on(Stage::Listed, lacking);
            }
            Action::ListMarksOfObjects(_) => {
                let is_marked = state.marked & seen != 0;
                let lacking = if is_marked { 0 } else { heal.todo };
                heal.go_on(Stage::Writing, lacking);
                if self.way == Way::NotesLate {
                    heal.noted = seen;
                }
            }
            Action::Write(_, node) => {
                next.durable |= 1 << node;
                heal.todo &= !(1 << node);
            }
            Action::Leave(_) => heal.todo = 0,
            Action::Pass(_, node) => {
                heal.given_up |= 1 << node;
                if heal.stage != Stage::Writing {
                    heal.has_done(Stage::Ready);
                }
            }
            Action::UseAgain(_, node) => heal.given_up &= !(1 << node),
            Action::TakeBack(_) => {
                next.left |= heal.noted & !(there & seen);
                *heal = Heal::default();
            }
            Action::Kill(_) => {
                next.faults += 1;
                next.left |= heal.noted;
                *heal = Heal::default();
            }
            _ => unreachable!("a heal does not do {action:?}"),
        }
        next
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
            left: 0,
            up: ALL,
            connected: ALL,
            faults: 0,
            client: Client::default(),
            handled: 0,
            given_up: 0,
            knows_mark: false,
            heals: Default::default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let there = state.there();
        let each = |nodes: Nodes| bits(nodes);
        let open = ALL & !state.handled & !state.given_up;
        let is_marking = matches!(state.client, Client::Marking { .. })
            && state.handled.count_ones() < MARKS
            && open != 0;
        // More than it stands: beside two heals a node that fails while marks are put, and a disk
        // that is lost in the moment in which a deletion looks for parts.
        let may_fail = state.faults < self.faults
            && !(matches!(state.client, Client::Marking { .. }) && self.heals > 1);
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
            Client::Marking { .. } => {
                if is_marking {
                    actions.extend(each(open & there).map(Action::Mark));
                } else {
                    actions.push(Action::EndMarks);
                }
            }
            Client::Deleting => {
                actions.extend(each(open & there).map(Action::Delete));
                if open == 0 {
                    actions.push(Action::EndDelete);
                }
            }
            Client::Looking => actions.push(Action::LookForHeals),
            Client::Checking => {
                actions.extend(each(open & there).map(Action::LookForPart));
                if state.handled == ALL || open & !there != 0 {
                    actions.push(Action::EndLook);
                }
            }
            Client::Deleted | Client::Refused => {}
        }
        if matches!(state.client, Client::Putting | Client::Deleting) || is_marking {
            // Of one that is there, it is the node that lags: a fault.
            let late = if may_fail { open } else { open & !there };
            actions.extend(each(late).map(Action::GiveUp));
        }
        actions.extend(each(state.given_up & there).map(Action::Return));
        actions.extend(each(state.written & state.up).map(Action::Commit));
        for heal in 0..self.heals {
            self.heal_actions(state, heal, actions);
        }
        if may_fail {
            actions.extend(each(state.up).map(Action::Crash));
            actions.extend(each(state.connected).map(Action::Disconnect));
            if state.client != Client::Checking {
                actions.extend(each(state.up).map(Action::LoseDisk));
            }
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
            Action::Return(node) => next.given_up &= !(1 << node),
            Action::EndPut => {
                let left_out = MISSING_MAX + u32::from(self.way == Way::LeavesOutThree);
                let is_stored = state.given_up.count_ones() <= left_out;
                next.client = if is_stored {
                    Client::Stored
                } else {
                    Client::Refused
                };
                next.handled = 0;
            }
            Action::BeginDelete => {
                next.given_up = ALL & !state.there();
                next.client = if are_too_few(next.given_up) {
                    Client::Refused
                } else if next.given_up != 0 && self.way != Way::MarksNothing {
                    Client::Marking { is_first: true }
                } else if self.way == Way::LooksBeforeDeleting {
                    Client::Looking
                } else {
                    Client::Deleting
                };
            }
            Action::Mark(node) => {
                next.marked |= 1 << node;
                next.handled |= 1 << node;
            }
            Action::EndMarks => {
                next.client = match state.client {
                    _ if are_too_few(state.given_up) => Client::Refused,
                    Client::Marking { is_first: true } => Client::Deleting,
                    _ => Client::Deleted,
                };
                next.knows_mark = true;
                next.handled = 0;
            }
            Action::Delete(node) => {
                next.durable &= !(1 << node);
                next.written &= !(1 << node);
                next.handled |= 1 << node;
            }
            Action::EndDelete => {
                next.handled = 0;
                let marks = self.way != Way::MarksNothing && !state.knows_mark;
                let looks = !matches!(self.way, Way::LooksForNoHeals | Way::LooksBeforeDeleting);
                next.client = if marks && state.given_up != 0 {
                    // A node has failed since the deletion began.
                    Client::Marking { is_first: false }
                } else if are_too_few(state.given_up) {
                    Client::Refused
                } else if marks && looks {
                    Client::Looking
                } else {
                    Client::Deleted
                };
            }
            Action::LookForHeals => {
                next.given_up |= ALL & !state.there();
                let seen = ALL & !next.given_up;
                let marks = state.is_other_noted(None, seen) || seen != ALL;
                let is_first = self.way == Way::LooksBeforeDeleting;
                next.client = match marks {
                    _ if are_too_few(next.given_up) => Client::Refused,
                    true => Client::Marking { is_first },
                    false if is_first => Client::Deleting,
                    false if self.way == Way::LooksForNoParts => Client::Deleted,
                    false => Client::Checking,
                };
            }
            Action::LookForPart(node) => {
                next.handled |= 1 << node;
                if state.durable & 1 << node != 0 {
                    next.client = Client::Marking { is_first: false };
                    next.handled = 0;
                }
            }
            Action::EndLook => {
                next.client = match state.handled {
                    ALL => Client::Deleted,
                    _ => Client::Marking { is_first: false },
                };
                next.handled = 0;
            }
            Action::Note(heal)
            | Action::ListMarks(heal)
            | Action::ApplyMark(heal, _)
            | Action::LookAgain(heal)
            | Action::Unmark(heal, _)
            | Action::ListObjects(heal)
            | Action::ListMarksOfObjects(heal)
            | Action::Write(heal, _)
            | Action::Leave(heal)
            | Action::Pass(heal, _)
            | Action::UseAgain(heal, _)
            | Action::TakeBack(heal)
            | Action::Kill(heal) => return Some(self.next_heal(state, action, heal)),
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
                next.left &= !(1 << node);
                next.heals
                    .iter_mut()
                    .for_each(|heal| heal.noted &= !(1 << node));
            }
            Action::Disconnect(node) => {
                next.faults += 1;
                next.connected &= !(1 << node);
            }
            Action::Connect(node) => next.connected |= 1 << node,
        }
        if matches!(
            next.client,
            Client::Stored | Client::Deleted | Client::Refused
        ) {
            next.given_up = 0;
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
                state.client != Client::Deleted || !state.is_found() || state.is_marked()
            }),
            Property::sometimes("a put leaves out two nodes", |_, state: &State| {
                state.client == Client::Stored && state.durable.count_ones() == 2
            }),
            Property::sometimes("a heal writes a part", |_, state: &State| {
                let mut heals = state.heals.iter();
                heals.any(|heal| heal.stage == Stage::Writing && heal.todo != 0)
            }),
            Property::sometimes("a mark is applied", |_, state: &State| {
                let mut heals = state.heals.iter();
                state.client == Client::Deleted
                    && heals.any(|heal| heal.stage == Stage::Unmarking && state.marked == 0)
            }),
        ]
    }
}

/// What a put promises.
pub const STORED_STAYS: &str = "an object whose put has returned can be read from what disks hold";
/// What a deletion promises.
pub const DELETED_STAYS_AWAY: &str = "an object whose deletion has returned is never listed again";
