//! Chooses the plan of each stripe, and leaves the stripe to the caller when relaying fails.

use std::any::Any;
use std::collections::HashMap;
use std::io;
use std::str::FromStr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tabane_parity::Layout;
use tabane_parity::schedule::{Kind, Schedule, Sectors};

use super::limits::Limits;
use super::mixer::Mixer;
use super::node::NodeStorage;
use super::session::{Outgoing, STALL_TIMEOUT, Session};
use super::wire::{Reply, Request, SessionId, Source, Stripe, Usage};
use crate::container::SECTOR_LEN;
use crate::put::{data_cells, encode_cells};
use crate::sender::{Lost, NewStripe, Placed, Relayed, StripeSender};
use crate::targets::Targets;
use tabane_storage::sync::{lock, try_each};
use tabane_storage::{Event, Result, StorageError, StorageErrorKind};

/// Pause of relaying after its first failure.
const RELAY_PAUSE_MIN: Duration = Duration::from_secs(2);

/// The longest pause of relaying, after repeated failures, as between nodes that cannot reach each
/// other.
const RELAY_PAUSE_MAX: Duration = Duration::from_secs(60);

/// Pause between two looks at what goes through all links.
const WATCH_PAUSE: Duration = Duration::from_millis(150);

/// Stripes that go out at a time to the nodes of a generation: quick nodes get the next one while
/// slow ones still take the one before. More would be chosen before anything is known of the links.
pub const SENDING_MAX: usize = 2;

/// The plan by which stripes go to the nodes of a cluster; without effect elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plan {
    /// Each stripe by the schedule that is quickest at the moment.
    #[default]
    Auto,
    /// All stripes by this schedule.
    Always(Kind),
}

impl FromStr for Plan {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        match name {
            "auto" => Ok(Self::Auto),
            _ => match name.parse() {
                Ok(kind) => Ok(Self::Always(kind)),
                Err(_) => Err("there are auto, direct, chain, shared and coded".to_owned()),
            },
        }
    }
}

/// Sends stripes through a session with all nodes.
pub struct Relay {
    plan: Plan,
    limits: Arc<Limits>,
    state: Mutex<State>,
    /// Something is no longer going out.
    sent: Condvar,
}

#[derive(Default)]
struct State {
    /// The way to the nodes of each generation, since its targets never change.
    ways: HashMap<u8, Way>,
    /// Time from which relaying is tried again.
    paused_until: Option<Instant>,
    /// Length of the last pause, until a stripe is relayed successfully.
    pause: Option<Duration>,
    /// How many threads look which nodes are there.
    looking: usize,
}

/// The way to the nodes of a generation.
#[derive(Default)]
struct Way {
    open: Option<Open>,
    /// What is known of the links, once there was a session.
    mixer: Option<Mixer>,
}

/// A session that is open.
struct Open {
    session: Arc<Session>,
    /// The number of the next stripe.
    next: u64,
    /// How many of the stripes the client has begun to send, and how many are going out.
    begun: u64,
    sending: usize,
    /// When somebody last looked at what goes through links.
    watched: Instant,
}

impl Relay {
    /// A relay with this plan and these limits; no request is sent yet.
    pub(super) fn new(plan: Plan, limits: Arc<Limits>) -> Self {
        Self {
            plan,
            limits,
            state: Mutex::default(),
            sent: Condvar::new(),
        }
    }

    /// Ends the session, and opens no other for a while. Nodes that do not answer are put out of
    /// use, so that later operations do not wait for them.
    fn pause(&self, targets: &Targets, generation: &[usize], why: &str) {
        self.pause_from(lock(&self.state), targets, generation, why);
    }

    fn pause_from(
        &self,
        mut state: MutexGuard<'_, State>,
        targets: &Targets,
        generation: &[usize],
        why: &str,
    ) {
        let open = state.ways.values_mut().filter_map(|way| way.open.take());
        // What other stripes send through them ends too.
        open.for_each(|open| open.session.close());
        self.sent.notify_all();
        let is_first = state.paused_until.is_none();
        if !state.is_paused() {
            let pause = state.pause.map_or(RELAY_PAUSE_MIN, |last| 2 * last);
            let pause = pause.min(RELAY_PAUSE_MAX);
            state.pause = Some(pause);
            state.paused_until = Some(Instant::now() + pause);
        }
        state.looking += 1;
        drop(state);
        for (number, node) in nodes_in_use(generation, targets) {
            if !node.is_there() {
                let error = io::Error::from(io::ErrorKind::TimedOut);
                targets.give_up(number, &node.blame(error));
            }
        }
        lock(&self.state).looking -= 1;
        self.sent.notify_all();
        if is_first {
            targets.tell(&Event::note(format!(
                "nodes cannot make parities among themselves ({why}): sending everything from here \
                 for a while"
            )));
        }
    }
}

impl StripeSender for Relay {
    fn put(&self, targets: &Targets, stripe: &NewStripe, object: &[u8]) -> Relayed {
        let Some(nodes) = nodes(stripe.generation, targets) else {
            return Relayed::NotTried;
        };
        let geometry = &stripe.geometry;
        // At a low rate limit, one node would time out while the client sends to the others.
        let layout = geometry.layout();
        let of_sector = layout.data_cells().len() as u64 * SECTOR_LEN;
        if self.limits.least_seconds(of_sector) > STALL_TIMEOUT.as_secs_f64() / 2.0 {
            return Relayed::NotTried;
        }
        let mut turn = None;
        let fail = |turn: Option<usize>, why: &str| {
            self.pause(targets, stripe.generation, why);
            Relayed::Failed(turn)
        };
        let is_busy = |state: &mut State| {
            let way = state.ways.get(&geometry.generation);
            let open = way.and_then(|way| way.open.as_ref());
            // Whoever sends everything from here should know which nodes are there.
            state.looking > 0 || open.is_some_and(|open| open.sending >= SENDING_MAX)
        };
        let state = self.sent.wait_while(lock(&self.state), is_busy);
        let mut state = state.expect("no panic under this lock");
        if state.is_paused() {
            return Relayed::NotTried;
        }
        let (open, mixer) = match state.session(geometry.generation, &nodes) {
            Ok(session) => session,
            Err(error) => {
                self.pause_from(state, targets, stripe.generation, &error.to_string());
                return Relayed::Failed(turn);
            }
        };
        let chosen = match self.plan {
            Plan::Always(kind) => (None, vec![kind; geometry.sectors() as usize]),
            Plan::Auto => mixer.choose(stripe.may_turn, geometry.sectors()),
        };
        turn = chosen.0;
        let course = Course::new(&chosen.1, &layout);
        let cells = if course.kinds.contains(&Kind::Direct) {
            encode_cells(object, geometry)
        } else {
            data_cells(object, geometry)
        };
        let (shape, by_role) = (stripe.placed)(turn);
        let placed = Placed {
            name: stripe.name,
            shape,
            generation: stripe.generation,
            by_role: &by_role,
        };
        let members = members(&placed);
        let (number, request) = request(&placed, open, course.source());
        // Answers come when the stripe is durable: until everything is sent, this depends on the
        // network.
        let asked = match try_each(&nodes, nodes.len(), |node| node.begin(&request)) {
            Ok(asked) => asked,
            Err(error) => {
                drop(state);
                return fail(turn, &error.to_string());
            }
        };
        let outgoing = Outgoing {
            number,
            sent_before: open.begun,
            geometry,
            tags: stripe.tags.filter(|_| shape.seal.is_some()),
            schedules: &course.schedules,
            sectors: &Sectors::mixed(&course.by_sector, course.schedules.len()),
            members: &members,
        };
        open.begun += 1;
        open.sending += 1;
        let session = Arc::clone(&open.session);
        // The next stripe goes out to nodes that have all of this one.
        drop(state);
        let look = || match self.plan {
            Plan::Auto => self.look(geometry.generation, &session, &nodes),
            Plan::Always(_) => (),
        };
        let id = session.id();
        let may_wait = || are_there(&nodes) && !is_over(&nodes, id);
        let sent = session.send(&outgoing, &cells, &self.limits, &may_wait, &look);
        if let Some((open, _)) = lock(&self.state).if_open(geometry.generation, &session) {
            open.sending -= 1;
        }
        self.sent.notify_all();
        drop(session);
        if let Err(error) = sent {
            return fail(turn, &error.to_string());
        }
        let mut puts = Vec::new();
        for (&target, asked) in stripe.generation.iter().zip(asked) {
            let put = match asked.answer(&may_wait) {
                Ok(Reply::Stored) => Ok(()),
                // Failures that do not concern the node's storage: putting each part directly may
                // succeed.
                Ok(Reply::Failed(
                    StorageErrorKind::SessionOver | StorageErrorKind::Permanent,
                    text,
                )) => {
                    return fail(turn, &text);
                }
                Ok(Reply::Failed(kind, text)) => Err(StorageError::new(kind, text)),
                Ok(_) => return fail(turn, "a node answers something else"),
                Err(error) => return fail(turn, &error.to_string()),
            };
            puts.push((target, put));
        }
        lock(&self.state).pause = None;
        Relayed::Put(puts, turn)
    }

    fn rebuild(&self, targets: &Targets, placed: &Placed, lost: &Lost) -> bool {
        let Some(nodes) = nodes(placed.generation, targets) else {
            return false;
        };
        if self.plan == Plan::Always(Kind::Direct) {
            return false;
        }
        let mut state = lock(&self.state);
        if state.is_paused() {
            return false;
        }
        let session = state.session(placed.shape.geometry.generation, &nodes);
        let asked = session.and_then(|(open, _)| {
            let source = Source::Nodes {
                role: lost.role as u8,
                others: lost.others.iter().map(|&role| role as u8).collect(),
                yields: lost.yields,
            };
            let id = open.session.id();
            let (_, request) = request(placed, open, source);
            let asked = try_each(&nodes, nodes.len(), |node| node.begin(&request))?;
            Ok((id, asked))
        });
        // The next stripe may begin while nodes work on this one.
        drop(state);
        let failures: Vec<StorageError> = match asked {
            Ok((id, asked)) => {
                let may_wait = || are_there(&nodes) && !is_over(&nodes, id);
                let answers = asked
                    .into_iter()
                    .map(|asked| match asked.answer(&may_wait)? {
                        Reply::Stored | Reply::Failed(StorageErrorKind::AlreadyExists, _) => Ok(()),
                        Reply::Failed(kind, text) => Err(StorageError::new(kind, text)),
                        _ => Err(super::wire::malformed("a node answers something else")),
                    });
                answers.filter_map(Result::err).collect()
            }
            Err(error) => vec![error],
        };
        // When one node fails, the others report that the session is over.
        let is_cause = |error: &&StorageError| error.kind() != StorageErrorKind::SessionOver;
        let cause = failures.iter().find(is_cause).or(failures.first());
        if let Some(cause) = cause {
            self.pause(targets, placed.generation, &cause.to_string());
        }
        failures.is_empty()
    }
}

impl Relay {
    /// Looks at what the client sends in a session, and, if it is time, at what goes through all
    /// links.
    fn look(&self, generation: u8, session: &Session, nodes: &[&NodeStorage]) {
        let mut state = lock(&self.state);
        let Some((open, mixer)) = state.if_open(generation, session) else {
            return;
        };
        mixer.look(session.age_us(), session.flows());
        if open.watched.elapsed() < WATCH_PAUSE {
            return;
        }
        open.watched = Instant::now();
        // Answers may come late over links that are full.
        drop(state);
        let usages = try_each(nodes, nodes.len(), |node| node.usage(session.id()));
        // A node that does not answer at once is left to the stripe.
        let Ok(mut usages) = usages else { return };
        usages.push(Usage {
            at_us: session.age_us(),
            flows: session.flows().iter().map(Into::into).collect(),
            ..Usage::default()
        });
        if let Some((_, mixer)) = lock(&self.state).if_open(generation, session) {
            mixer.learn(&usages);
        }
    }
}

/// The schedules by which the sectors of a stripe go.
struct Course {
    /// Each of them once.
    kinds: Vec<Kind>,
    schedules: Vec<Schedule>,
    /// For each sector, the number of its schedule.
    by_sector: Vec<usize>,
}

impl Course {
    fn new(by_sector: &[Kind], layout: &Layout) -> Self {
        // An empty object has no sectors, and is stored by a schedule all the same.
        let mut kinds = Vec::from_iter(by_sector.first().or(Some(&Kind::Shared)).copied());
        let numbers = by_sector.iter().map(|kind| {
            let known = kinds.iter().position(|other| other == kind);
            known.unwrap_or_else(|| {
                kinds.push(*kind);
                kinds.len() - 1
            })
        });
        let by_sector = numbers.collect();
        // Some plans have no schedule for this number of nodes; the shared plan always has one.
        let schedule = |kind: &Kind| kind.schedule(layout).map(|schedule| (*kind, schedule));
        let shared = || schedule(&Kind::Shared).expect("there is always a shared one");
        let possible = kinds
            .iter()
            .map(|kind| schedule(kind).unwrap_or_else(shared));
        let (kinds, schedules) = possible.unzip();
        Self {
            kinds,
            schedules,
            by_sector,
        }
    }

    fn source(&self) -> Source {
        let names = self.kinds.iter().map(|kind| kind.name().to_owned());
        let numbers = self.by_sector.iter().map(|&number| number as u8);
        Source::Client {
            schedules: names.collect(),
            by_sector: numbers.collect(),
        }
    }
}

impl State {
    fn is_paused(&self) -> bool {
        self.paused_until
            .is_some_and(|until| Instant::now() < until)
    }

    /// The session with the nodes of a generation, opened if needed, and what is known of their
    /// links.
    fn session(
        &mut self,
        generation: u8,
        nodes: &[&NodeStorage],
    ) -> Result<(&mut Open, &mut Mixer)> {
        let Way { open, mixer } = self.ways.entry(generation).or_default();
        let is_new = open.is_none();
        let open = match open {
            Some(open) => open,
            none => none.insert(Open {
                session: Arc::new(Session::open(nodes)?),
                next: 0,
                begun: 0,
                sending: 0,
                watched: Instant::now(),
            }),
        };
        let session = &open.session;
        let mixer = mixer.get_or_insert_with(|| Mixer::new(session.layout()));
        if is_new {
            mixer.restart(session.clients());
        }
        Ok((open, mixer))
    }

    /// The same, unless the session has been given up.
    fn if_open(&mut self, generation: u8, session: &Session) -> Option<(&mut Open, &mut Mixer)> {
        let Way { open, mixer } = self.ways.get_mut(&generation)?;
        let open = open
            .as_mut()
            .filter(|open| open.session.id() == session.id());
        open.zip(mixer.as_mut())
    }
}

/// The nodes of the generation, if all its targets are nodes in use.
fn nodes<'t>(generation: &[usize], targets: &'t Targets) -> Option<Vec<&'t NodeStorage>> {
    let nodes = generation.iter();
    nodes
        .map(|&number| (targets.storage(number)? as &dyn Any).downcast_ref())
        .collect()
}

/// The nodes of the generation that are in use, by their numbers.
fn nodes_in_use<'t>(
    generation: &'t [usize],
    targets: &'t Targets,
) -> impl Iterator<Item = (usize, &'t NodeStorage)> {
    generation.iter().filter_map(|&number| {
        let storage = targets.storage(number)? as &dyn Any;
        Some((number, storage.downcast_ref()?))
    })
}

/// Whether all of these nodes answer.
fn are_there(nodes: &[&NodeStorage]) -> bool {
    let asked = try_each(nodes, nodes.len(), |node| {
        let is_there = node.is_there();
        is_there.then_some(()).ok_or(())
    });
    asked.is_ok()
}

/// Whether a node has ended a session: then no other node's part in it may ever end.
fn is_over(nodes: &[&NodeStorage], session: SessionId) -> bool {
    let asked = try_each(nodes, nodes.len(), |node| match node.usage(session) {
        Err(error) if error.kind() == StorageErrorKind::SessionOver => Err(()),
        _ => Ok(()),
    });
    asked.is_err()
}

/// The session's member for each role.
fn members(placed: &Placed) -> Vec<usize> {
    let member_of = |target: &usize| {
        let member = placed.generation.iter().position(|number| number == target);
        member.expect("the targets of a stripe are those of its generation")
    };
    placed.by_role.iter().map(member_of).collect()
}

/// The next stripe of a session, and its number.
fn request(placed: &Placed, open: &mut Open, source: Source) -> (u64, Request) {
    let number = open.next;
    open.next += 1;
    let members = members(placed).into_iter();
    let stripe = Stripe {
        number,
        name: placed.name,
        object_len: placed.shape.geometry.object_len,
        generation: placed.shape.geometry.generation,
        seal: placed.shape.seal.map(|seal| seal.tag),
        by_role: members.map(|member| member as u8).collect(),
        source,
        lag: open.session.lag(),
    };
    (number, Request::Stripe(open.session.id(), stripe))
}
