//! Nodes in memory, on which each client waits, before each operation that the model has, until
//! the test lets it go on.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, SystemTime};

use tabane_models::cluster::{NODES, Nodes};
use tabane_storage::sync::lock;
use tabane_storage::{
    Id, Listed, Name, ObjectKind, Result, Storage, StorageError, StorageErrorKind,
};
use tabane_testing::memory::part_of;

/// How long something that would let a client go on can take, on a busy machine.
const PATIENCE_MAX: Duration = Duration::from_secs(10);

/// Second half of the ID of a heal's note.
const OF_HEAL: [u8; 16] = *b"a heal at work !";

/// What a client changes on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// The object's part.
    Part,
    /// The object's mark.
    Mark,
    /// A heal's note.
    Note,
    /// Something that the model does not have.
    Other,
}

/// An operation that a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Put(What),
    Delete(What),
    List(ObjectKind),
    FindPart,
}

/// What a client waits for at which nodes.
pub type Requests = BTreeSet<(usize, Operation)>;

/// What a client should do next.
#[derive(Debug)]
pub enum Next {
    /// It waits for just this.
    Waits(Requests),
    Ends,
}

/// What a client does, and so what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Anything, of which it waits for nothing.
    Free,
    /// It puts or deletes the object.
    Works,
    /// It has begun to delete parts, and put no mark: it will ask for later descriptions.
    Deletes,
    /// It has put a mark. What it asks for in the end the model does not have.
    Marks,
    /// It heals, and has not listed marks yet.
    BeginsToHeal,
    /// It heals.
    Heals,
}

/// What becomes of an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// It is done now.
    Act,
    /// It was done before, and the client hears of it.
    Answer,
    /// The client hears nothing.
    Fail,
}

/// What a test and the clients share.
#[derive(Default)]
pub struct Stage {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    nodes: [Node; NODES],
    clients: Vec<Client>,
    /// By client and node.
    waiting: BTreeMap<(usize, usize), Waiting>,
}

#[derive(Clone)]
struct Node {
    durable: BTreeMap<Name, Vec<u8>>,
    /// What it was sent and has not made durable.
    written: BTreeMap<Name, Vec<u8>>,
    is_up: bool,
    is_connected: bool,
}

impl Default for Node {
    fn default() -> Self {
        Self {
            durable: BTreeMap::new(),
            written: BTreeMap::new(),
            is_up: true,
            is_connected: true,
        }
    }
}

struct Client {
    mode: Mode,
    has_ended: bool,
    is_dead: bool,
    /// The note that it has put.
    note: Option<Id>,
}

struct Waiting {
    operation: Operation,
    /// What it puts.
    draft: Option<(Name, Vec<u8>)>,
    is_sent: bool,
    verdict: Option<Verdict>,
}

/// What a node holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Holds {
    pub durable: Nodes,
    pub written: Nodes,
    pub marked: Nodes,
    pub notes: BTreeMap<Id, Nodes>,
}

fn what(name: Name) -> What {
    match name.kind {
        ObjectKind::Snapshot => What::Part,
        ObjectKind::Deleted if name.id.0[16..] == OF_HEAL => What::Note,
        ObjectKind::Deleted => What::Mark,
        _ => What::Other,
    }
}

fn unreachable() -> StorageError {
    StorageError::new(StorageErrorKind::Unreachable, "it does not answer")
}

impl Stage {
    /// A client more, which waits for nothing yet. Returns its number.
    pub fn add(&self) -> usize {
        let mut state = lock(&self.state);
        state.clients.push(Client {
            mode: Mode::Free,
            has_ended: false,
            is_dead: false,
            note: None,
        });
        state.clients.len() - 1
    }

    /// A node as this client sees it.
    pub fn seat(self: &Arc<Self>, client: usize, node: usize) -> Seat {
        let stage = Arc::clone(self);
        Seat {
            stage,
            client,
            node,
        }
    }

    /// From now on a client waits before each operation that the model has for what it does.
    pub fn begin(&self, client: usize, mode: Mode) {
        lock(&self.state).clients[client].mode = mode;
    }

    /// Says that a client takes no more steps.
    pub fn end(&self, client: usize) {
        lock(&self.state).clients[client].has_ended = true;
        self.changed.notify_all();
    }

    /// Lets all operations of a client fail from now on.
    pub fn kill(&self, client: usize) {
        lock(&self.state).clients[client].is_dead = true;
        self.changed.notify_all();
    }

    /// The note that a client has put.
    pub fn note(&self, client: usize) -> Option<Id> {
        lock(&self.state).clients[client].note
    }

    /// What nodes hold.
    pub fn holds(&self) -> Holds {
        let state = lock(&self.state);
        let mut holds = Holds::default();
        for (number, node) in state.nodes.iter().enumerate() {
            let has = |names: &BTreeMap<Name, Vec<u8>>, wanted: What| {
                let is_there = names.keys().any(|name| what(*name) == wanted);
                u8::from(is_there) << number
            };
            holds.durable |= has(&node.durable, What::Part);
            holds.written |= has(&node.written, What::Part);
            holds.marked |= has(&node.durable, What::Mark);
            let notes = node.durable.keys();
            for note in notes.filter(|name| what(**name) == What::Note) {
                *holds.notes.entry(note.id).or_default() |= 1 << number;
            }
        }
        holds
    }

    /// Waits until a client waits for just this, or for nothing any more. Otherwise an account of
    /// what it does instead.
    pub fn wait(&self, client: usize, wanted: &Next) -> std::result::Result<(), String> {
        let mut state = lock(&self.state);
        loop {
            let Client {
                has_ended, is_dead, ..
            } = state.clients[client];
            let requests = state.requests(client);
            let is_other = match wanted {
                Next::Ends if has_ended => return Ok(()),
                Next::Waits(wanted) if !has_ended && requests == *wanted => return Ok(()),
                Next::Ends => !is_dead && !requests.is_empty(),
                Next::Waits(wanted) => has_ended || !requests.is_subset(wanted),
            };
            let account = || {
                let does = if has_ended {
                    "has ended".to_owned()
                } else {
                    format!("waits for {requests:?}")
                };
                format!("it {does}, and should: {wanted:?}")
            };
            if is_other {
                return Err(account());
            }
            let (guard, timeout) = self
                .changed
                .wait_timeout(state, PATIENCE_MAX)
                .expect("nobody panics under this lock");
            state = guard;
            if timeout.timed_out() && state.requests(client) == requests {
                return Err(account());
            }
        }
    }

    /// Lets a client do what it waits for at a node, if that answers; returns when that is done.
    pub fn grant(&self, client: usize, node: usize) {
        self.decide(client, node, Verdict::Act);
    }

    /// Lets a client do this at all nodes where it waits for it.
    pub fn grant_all(&self, client: usize, operation: Operation) {
        let requests = lock(&self.state).requests(client).into_iter();
        for (node, _) in requests.filter(|(_, one)| *one == operation) {
            self.grant(client, node);
        }
    }

    /// Lets a client hear that a node has done what it was asked before.
    pub fn answer(&self, client: usize, node: usize) {
        self.decide(client, node, Verdict::Answer);
    }

    /// Lets a client hear that a node does not answer.
    pub fn fail(&self, client: usize, node: usize) {
        self.decide(client, node, Verdict::Fail);
    }

    fn decide(&self, client: usize, node: usize, verdict: Verdict) {
        let (mut state, key) = (lock(&self.state), (client, node));
        if let Some(waiting) = state.waiting.get_mut(&key) {
            waiting.verdict = Some(verdict);
        }
        self.changed.notify_all();
        while state
            .waiting
            .get(&key)
            .is_some_and(|one| one.verdict.is_some())
        {
            state = self.changed.wait(state).expect("nobody panics here");
        }
    }

    /// Sends a node what a client puts there, which goes on waiting.
    pub fn send(&self, client: usize, node: usize) {
        let mut state = lock(&self.state);
        let State { nodes, waiting, .. } = &mut *state;
        if let Some(Waiting { draft, is_sent, .. }) = waiting.get_mut(&(client, node)) {
            *is_sent = true;
            nodes[node].written.extend(draft.clone());
        }
    }

    /// Lets a node make durable what it was sent.
    pub fn commit(&self, node: usize) {
        let mut state = lock(&self.state);
        let Node {
            durable, written, ..
        } = &mut state.nodes[node];
        durable.append(written);
    }

    /// Lets a node die; it forgets what is not durable.
    pub fn crash(&self, node: usize) {
        let mut state = lock(&self.state);
        state.nodes[node].is_up = false;
        state.nodes[node].written.clear();
    }

    /// Starts a node again.
    pub fn restart(&self, node: usize) {
        lock(&self.state).nodes[node].is_up = true;
    }

    /// Gives a node an empty disk, with its identity and the description of the set.
    pub fn lose_disk(&self, node: usize) {
        let mut state = lock(&self.state);
        let Node {
            durable, written, ..
        } = &mut state.nodes[node];
        written.clear();
        durable.retain(|name, _| matches!(name.kind, ObjectKind::Target | ObjectKind::Set));
    }

    /// Says whether a node can be reached.
    pub fn connect(&self, node: usize, is_connected: bool) {
        lock(&self.state).nodes[node].is_connected = is_connected;
    }
}

impl State {
    fn requests(&self, client: usize) -> Requests {
        let of_client = self.waiting.range((client, 0)..(client, NODES));
        let undecided = of_client.filter(|(_, one)| one.verdict.is_none());
        undecided
            .map(|(&(_, node), one)| (node, one.operation))
            .collect()
    }

    /// Whether a client waits before this operation.
    fn has_to_wait(&mut self, client: usize, operation: Operation) -> bool {
        use ObjectKind::{Config, Deleted, Set};
        let client = &mut self.clients[client];
        client.mode = match (client.mode, operation) {
            (Mode::BeginsToHeal, Operation::List(Deleted)) => Mode::Heals,
            (Mode::Works, Operation::Delete(What::Part)) => Mode::Deletes,
            (Mode::Works | Mode::Deletes, Operation::Put(What::Mark)) => Mode::Marks,
            (mode, _) => mode,
        };
        match (client.mode, operation) {
            (Mode::Free, _) => false,
            (Mode::BeginsToHeal, Operation::Put(What::Note)) => false,
            (_, Operation::Put(_) | Operation::Delete(_)) => true,
            (Mode::Works | Mode::Marks, Operation::FindPart) => true,
            (Mode::Deletes, Operation::FindPart | Operation::List(Set)) => true,
            (Mode::Heals, Operation::List(Deleted | Config)) => true,
            (_, Operation::FindPart | Operation::List(_)) => false,
        }
    }
}

/// A node as one client sees it.
pub struct Seat {
    stage: Arc<Stage>,
    client: usize,
    node: usize,
}

impl Seat {
    /// Does something when its turn has come, or at once without an `operation`.
    fn act<T>(
        &self,
        operation: Option<Operation>,
        draft: Option<(Name, &[&[u8]])>,
        act: impl FnOnce(&mut Node, Option<Waiting>) -> Result<T>,
    ) -> Result<T> {
        let (stage, key) = (&self.stage, (self.client, self.node));
        let mut state = lock(&stage.state);
        let operation = operation.filter(|&one| state.has_to_wait(self.client, one));
        if let Some(operation) = operation {
            let waiting = Waiting {
                operation,
                draft: draft.map(|(name, parts)| (name, parts.concat())),
                is_sent: false,
                verdict: None,
            };
            state.waiting.insert(key, waiting);
            stage.changed.notify_all();
            while !state.clients[self.client].is_dead && state.waiting[&key].verdict.is_none() {
                state = stage.changed.wait(state).expect("nobody panics here");
            }
        }
        let waited = operation.and_then(|_| state.waiting.remove(&key));
        stage.changed.notify_all();
        let is_failing = waited
            .as_ref()
            .is_some_and(|one| one.verdict == Some(Verdict::Fail));
        let node = &mut state.nodes[self.node];
        let is_there = node.is_up && node.is_connected;
        if is_failing || !is_there || state.clients[self.client].is_dead {
            return Err(unreachable());
        }
        act(&mut state.nodes[self.node], waited)
    }
}

impl Storage for Seat {
    fn location(&self) -> String {
        format!("node {}", self.node)
    }

    fn create(&self) -> Result<()> {
        Ok(())
    }

    fn put(&self, name: Name, parts: &[&[u8]]) -> Result<()> {
        let operation = Operation::Put(what(name));
        self.act(Some(operation), Some((name, parts)), |node, waited| {
            if let Some(waited) = waited
                && waited.verdict == Some(Verdict::Answer)
                && waited.is_sent
            {
                return Ok(());
            }
            if node.durable.contains_key(&name) {
                return Err(StorageErrorKind::AlreadyExists.into());
            }
            node.durable.insert(name, parts.concat());
            Ok(())
        })?;
        if what(name) == What::Note {
            lock(&self.stage.state).clients[self.client].note = Some(name.id);
        }
        Ok(())
    }

    fn get(&self, name: Name, range: Option<Range<u64>>) -> Result<Vec<u8>> {
        self.act(None, None, |node, _| {
            let bytes = node.durable.get(&name).ok_or(StorageErrorKind::NotFound)?;
            part_of(bytes, range)
        })
    }

    fn list(&self, kind: ObjectKind) -> Result<Vec<Listed>> {
        self.act(Some(Operation::List(kind)), None, |node, _| {
            let of_kind = node.durable.iter().filter(|(name, _)| name.kind == kind);
            let listed = of_kind.map(|(name, bytes)| Listed {
                id: name.id,
                len: bytes.len() as u64,
                modified: SystemTime::UNIX_EPOCH,
            });
            Ok(listed.collect())
        })
    }

    fn stat(&self, name: Name) -> Result<u64> {
        let operation = (what(name) == What::Part).then_some(Operation::FindPart);
        self.act(operation, None, |node, _| {
            let bytes = node.durable.get(&name).ok_or(StorageErrorKind::NotFound)?;
            Ok(bytes.len() as u64)
        })
    }

    fn delete(&self, name: Name) -> Result<()> {
        self.act(Some(Operation::Delete(what(name))), None, |node, _| {
            node.written.remove(&name);
            let removed = node.durable.remove(&name);
            removed.map(drop).ok_or(StorageErrorKind::NotFound.into())
        })
    }
}
