//! A client's session: its rings, and the stripes that go through them one after another.

use std::collections::HashMap;
use std::io;
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tabane_fabric::{Endpoint, Flow, Receiver, Ring, Sender};
use tabane_storage::{Result, StorageError, StorageErrorKind};
use tabane_striped::cluster::wire::{
    FlowUsage, FrameKey, Open, Pass, Peer, Source, Stripe, Token, malformed,
};
use tabane_striped::cluster::{STALL_TIMEOUT, data_endpoint};

use crate::arrivals::Arrivals;
use crate::commit::Commits;
use crate::counters::Counters;
use crate::door::Memory;
use crate::home::Home;
use crate::lock;
use crate::part::{Incoming, Outgoing, Work};

/// Consumers of each ring: one relays, one stores.
const TAILS_PER_RING: usize = 2;

/// Bytes of a ring at most, so that a client cannot take all memory.
const RING_MAX: u32 = 16 << 20;

/// Nodes of a session at most.
const MEMBERS_MAX: u8 = 32;

/// Time for which a session counts as busy after its opening and after a stripe: several times as
/// long as a stripe takes.
const BUSY_DURATION: Duration = Duration::from_secs(2);

/// Pause between two looks at what has arrived at other members.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// The most stripes that wait: a client sends a few at a time.
const WAITING_MAX: usize = 64;

/// A client's session: its rings at this node.
pub struct Session {
    me: usize,
    state: Mutex<State>,
    changed: Condvar,
    counters: Arc<Counters>,
    _memory: Memory,
}

struct State {
    /// Tokens that may still connect, each with its ring.
    expected: HashMap<Token, Expected>,
    /// Frames received from each member, and in the last place from the client: for the relaying
    /// thread, and for the storing one.
    tails: [Vec<Option<Incoming>>; TAILS_PER_RING],
    peers: Vec<Option<Outgoing>>,
    /// What goes to other members.
    flows: Vec<Option<Flow>>,
    /// All connections of the session.
    endpoints: Vec<Arc<dyn Endpoint>>,
    /// Stripes that are known and not begun, by number, with the channels for their answers.
    waiting: [HashMap<u64, Waiting>; TAILS_PER_RING],
    /// Frames that the stripes so far take, and the number of the next stripe.
    bases: Vec<u64>,
    next: u64,
    /// Stripes whose predecessors have not come yet.
    early: HashMap<u64, (Stripe, Answer)>,
    is_running: bool,
    is_closed: bool,
    /// Time of the opening, or of the start of the latest stripe.
    last: Instant,
}

/// The channel for the answer to a stripe.
type Answer = mpsc::Sender<Result<()>>;

struct Waiting {
    work: Arc<Work>,
    answer: Answer,
}

struct Expected {
    member: usize,
    capacity: usize,
    key: Arc<FrameKey>,
}

impl State {
    /// Whether all peers that write to this member have connected.
    fn is_complete(&self, me: usize) -> bool {
        let mut tails = (0..).zip(&self.tails[0]);
        self.is_running || tails.all(|(member, tail)| member == me || tail.is_some())
    }
}

impl Session {
    /// Opens rings for each member and the client, and returns the passes for them.
    ///
    /// # Errors
    /// When the client's request is malformed, or asks for too much.
    pub fn open(
        open: &Open,
        counters: Arc<Counters>,
        lend: impl FnOnce(u64) -> Result<Memory>,
    ) -> Result<(Arc<Self>, Vec<Pass>)> {
        let is_sound = (3..=MEMBERS_MAX).contains(&open.members)
            && open.me < open.members
            && [open.client_ring, open.peer_ring]
                .iter()
                .all(|len| (4096..=RING_MAX).contains(len));
        if !is_sound {
            return Err(malformed(
                "the session is malformed, or its rings are too large",
            ));
        }
        let members = usize::from(open.members);
        let of_peers = u64::from(open.peer_ring) * (members as u64 - 1);
        let memory = lend(u64::from(open.client_ring) + of_peers)?;
        let mut expected = HashMap::new();
        let mut passes = Vec::new();
        for member in 0..=members {
            let pass = Pass::random();
            let capacity = if member == members {
                open.client_ring as usize
            } else {
                open.peer_ring as usize
            };
            if member != usize::from(open.me) {
                let key = Arc::new(FrameKey::new(&pass.key));
                let ring = Expected {
                    member,
                    capacity,
                    key,
                };
                expected.insert(pass.token, ring);
            }
            passes.push(pass);
        }
        let none = || (0..=members).map(|_| None).collect();
        counters.sessions.add(1);
        let session = Self {
            me: open.me.into(),
            state: Mutex::new(State {
                expected,
                tails: [none(), none()],
                peers: (0..=members).map(|_| None).collect(),
                flows: vec![None; members],
                endpoints: Vec::new(),
                waiting: [HashMap::new(), HashMap::new()],
                bases: vec![0; members + 1],
                next: 0,
                early: HashMap::new(),
                is_running: false,
                is_closed: false,
                last: Instant::now(),
            }),
            changed: Condvar::new(),
            counters,
            _memory: memory,
        };
        Ok((Arc::new(session), passes))
    }

    /// Whether there is a ring that this token is for.
    pub fn expects(&self, token: &Token) -> bool {
        lock(&self.state).expected.contains_key(token)
    }

    /// Lets a connection, made by `connect`, write into the ring of its token; `None` if the token
    /// is not expected. After a failure the token stays valid.
    ///
    /// # Errors
    /// When `connect` fails.
    pub fn admit<E: Endpoint + 'static>(
        &self,
        token: &Token,
        connect: impl FnOnce(Arc<Ring>) -> io::Result<E>,
    ) -> io::Result<Option<Receiver>> {
        let Some(expected) = lock(&self.state).expected.remove(token) else {
            return Ok(None);
        };
        let ring = Arc::new(Ring::new(expected.capacity, TAILS_PER_RING));
        // Without the lock: this may take as long as the peer likes.
        let connected = connect(Arc::clone(&ring));
        let mut state = lock(&self.state);
        let endpoint: Arc<dyn Endpoint> = match connected {
            Ok(endpoint) => Arc::new(endpoint),
            Err(error) => {
                state.expected.insert(*token, expected);
                return Err(error);
            }
        };
        if state.is_closed {
            return Ok(None);
        }
        let receiver = Receiver::new(ring, Arc::clone(&endpoint));
        state.endpoints.push(endpoint);
        for (tails, tail) in state.tails.iter_mut().zip(receiver.tails()) {
            let key = Arc::clone(&expected.key);
            tails[expected.member] = Some(Incoming { tail, key });
        }
        drop(state);
        self.changed.notify_all();
        Ok(Some(receiver))
    }

    /// Connects to the rings of other members, each of which has to `prove` that it is one.
    ///
    /// # Errors
    /// When a member does not answer, proves nothing, or refuses this node's token.
    pub fn join(
        &self,
        peers: Vec<Option<Peer>>,
        prove: impl Fn(&Peer) -> Result<()>,
    ) -> Result<()> {
        for (member, peer) in peers.into_iter().enumerate() {
            let Some(peer) = peer else { continue };
            prove(&peer)?;
            let endpoint = data_endpoint(&peer.address, peer.pass.token, peer.fabric.as_ref())
                .map_err(|error| blame(&format!("cannot reach {}: {error}", peer.address)))?;
            let mut state = lock(&self.state);
            if member >= state.peers.len() || state.is_closed {
                return Err(closed());
            }
            state.endpoints.push(Arc::clone(&endpoint));
            let sender = Sender::new(endpoint, peer.ring as usize);
            if let Some(flow) = state.flows.get_mut(member) {
                *flow = Some(sender.flow());
            }
            let key = FrameKey::new(&peer.pass.key);
            state.peers[member] = Some(Outgoing { sender, key });
        }
        Ok(())
    }

    /// Takes part in a stripe; returns when this node's part of it is durable.
    ///
    /// # Errors
    /// [`StorageErrorKind::SessionOver`] when the session has ended; why the part cannot be
    /// stored.
    pub fn stripe(
        self: &Arc<Self>,
        stripe: Stripe,
        home: &Arc<Home>,
        commits: &Arc<Commits>,
    ) -> Result<()> {
        let (answer, answered) = mpsc::channel();
        let mut state = lock(&self.state);
        if state.is_closed {
            return Err(closed());
        }
        if stripe.number < state.next || state.early.len() >= WAITING_MAX {
            return Err(malformed("a stripe out of order"));
        }
        if let Source::Client { .. } = stripe.source {
            state.last = Instant::now();
            self.counters.client_writes();
        }
        state.early.insert(stripe.number, (stripe, answer));
        // Stripes start in order, since the place of a stripe's frames depends on all stripes
        // before it.
        loop {
            let next = state.next;
            let Some((stripe, answer)) = state.early.remove(&next) else {
                break;
            };
            match Work::new(&stripe, self.me, &mut state.bases) {
                Ok(work) => {
                    let work = Arc::new(work);
                    for waiting in &mut state.waiting {
                        let (work, answer) = (Arc::clone(&work), answer.clone());
                        waiting.insert(next, Waiting { work, answer });
                    }
                }
                Err(error) => {
                    drop(state);
                    self.close();
                    return Err(error);
                }
            }
            state.next += 1;
        }
        // Over libfabric, a client may be ready before the node that accepts it.
        let is_incomplete = |state: &mut State| !state.is_closed && !state.is_complete(self.me);
        let waited = self
            .changed
            .wait_timeout_while(state, STALL_TIMEOUT, is_incomplete);
        let (mut state, waited) = waited.expect("no panic under this lock");
        if waited.timed_out() {
            return Err(blame("not all members have connected"));
        }
        if !state.is_running && !state.is_closed {
            state.is_running = true;
            self.start(&mut state, home, commits);
        }
        drop(state);
        self.changed.notify_all();
        answered.recv().unwrap_or_else(|_| Err(closed()))
    }

    /// Ends the session when nothing arrives any more at a member. Nobody may be waiting for that
    /// here: what this node had to do for a stripe is done when it has handed its frames on.
    fn watch(&self) {
        let mut arrivals = Arrivals::default();
        let mut state = lock(&self.state);
        while !state.is_closed {
            let flows = state.flows.iter().flatten();
            let flows: Vec<_> = flows.map(|flow| (flow.sent(), flow.arrived())).collect();
            if arrivals.stuck(Instant::now(), &flows).is_some() {
                drop(state);
                return self.close();
            }
            let waited = self
                .changed
                .wait_timeout_while(state, LOOK_PAUSE, |state| !state.is_closed);
            state = waited.expect("no panic under this lock").0;
        }
    }

    /// What this node has sent each member.
    ///
    /// # Errors
    /// [`StorageErrorKind::SessionOver`] when the session has ended.
    pub fn flows(&self) -> Result<Vec<FlowUsage>> {
        let state = lock(&self.state);
        if state.is_closed {
            return Err(closed());
        }
        let of = |flow: &Option<Flow>| flow.as_ref().map_or_else(FlowUsage::default, Into::into);
        Ok(state.flows.iter().map(of).collect())
    }

    /// Whether it writes, or is about to.
    pub fn is_busy(&self) -> bool {
        lock(&self.state).last.elapsed() < BUSY_DURATION
    }

    /// Starts the threads that relay and store.
    fn start(self: &Arc<Self>, state: &mut State, home: &Arc<Home>, commits: &Arc<Commits>) {
        let [mut to_relay, mut to_store] = std::mem::take(&mut state.tails);
        let mut peers = std::mem::take(&mut state.peers);
        let session = Arc::clone(self);
        thread::spawn(move || session.watch());
        let session = Arc::clone(self);
        let reading = Arc::clone(home);
        thread::spawn(move || {
            session.each(0, |waiting| {
                let (storage, counters) = (reading.storage(), &session.counters);
                waiting
                    .work
                    .relay(&mut to_relay, &mut peers, storage, counters)?;
                if !waiting.work.is_stored() {
                    // The asking connection may be gone.
                    let _ = waiting.answer.send(Ok(()));
                }
                Ok(())
            });
        });
        let session = Arc::clone(self);
        let (home, commits) = (Arc::clone(home), Arc::clone(commits));
        thread::spawn(move || {
            session.each(1, |waiting| {
                let Waiting { work, answer } = waiting;
                if !work.is_stored() {
                    return work.pass(&mut to_store);
                }
                let room = home.check_room(work.name);
                let draft = room.and_then(|()| home.storage().draft(work.name));
                let draft = work.store(&mut to_store, draft)?;
                let counters = Arc::clone(&session.counters);
                let (len, of_quota) = (work.stored_len(), Arc::clone(&home));
                let done = move |result: Result<()>| {
                    match &result {
                        Ok(()) => {
                            of_quota.stored(len);
                            counters.stripes.add(1);
                            counters.stored_bytes.add(len);
                        }
                        Err(error) if error.kind() == StorageErrorKind::AlreadyExists => {}
                        Err(_) => counters.failed_stripes.add(1),
                    }
                    // The asking connection may be gone.
                    let _ = answer.send(result);
                };
                match draft {
                    Ok(draft) => commits.push(draft, Box::new(done)),
                    Err(error) => done(Err(error)),
                }
                Ok(())
            });
        });
    }

    /// Calls a function for each stripe in turn, until the session ends.
    fn each(&self, consumer: usize, mut act: impl FnMut(Waiting) -> Result<()>) {
        for number in 0.. {
            let Some(waiting) = self.take(consumer, number) else {
                return;
            };
            let answer = waiting.answer.clone();
            if let Err(error) = act(waiting) {
                self.counters.failed_stripes.add(1);
                let _ = answer.send(Err(ended_by(error)));
                self.close();
                return;
            }
        }
    }

    fn take(&self, consumer: usize, number: u64) -> Option<Waiting> {
        let mut state = lock(&self.state);
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(waiting) = state.waiting[consumer].remove(&number) {
                return Some(waiting);
            }
            state = self.changed.wait(state).expect("no panic under this lock");
        }
    }

    /// Ends the session: closes every connection, answers waiting stripes with an error, and drops
    /// shards that are not durable.
    pub fn close(&self) {
        let mut state = lock(&self.state);
        if std::mem::replace(&mut state.is_closed, true) {
            return;
        }
        state.endpoints.iter().for_each(|endpoint| endpoint.close());
        state.expected.clear();
        state.early.clear();
        state.waiting.iter_mut().for_each(HashMap::clear);
        drop(state);
        self.counters.sessions.less();
        self.changed.notify_all();
    }
}

/// For how long data connections wait for their peers.
pub fn set_patience(stream: &TcpStream) -> io::Result<()> {
    // A ring may be idle for as long as its session lasts; only credit has to go out.
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(Some(STALL_TIMEOUT))
}

/// The error that ends a session.
pub fn blame(why: &str) -> StorageError {
    StorageError::new(StorageErrorKind::SessionOver, why)
}

/// The answer of a session that ends with this error. A lost peer has its cause elsewhere.
fn ended_by(error: StorageError) -> StorageError {
    match error.kind() {
        StorageErrorKind::SessionOver => error,
        _ => StorageError::new(StorageErrorKind::Permanent, error.to_string()),
    }
}

fn closed() -> StorageError {
    blame("the session has ended")
}
