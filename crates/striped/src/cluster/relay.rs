//! Chooses the plan of each stripe, and leaves the stripe to the caller when relaying fails.

use std::any::Any;
use std::collections::HashMap;
use std::io;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tabane_parity::schedule::Kind;

use super::limits::Limits;
use super::mixer::Mixer;
use super::node::NodeStorage;
use super::optimum::Choice;
use super::session::{Outgoing, STALL_TIMEOUT, Session};
use super::wire::{Reply, Request, Source, Stripe, Usage};
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
}

#[derive(Default)]
struct State {
    /// The way to the nodes of each generation, since its targets never change.
    ways: HashMap<u8, Way>,
    /// Time from which relaying is tried again.
    paused_until: Option<Instant>,
    /// Length of the last pause, until a stripe is relayed successfully.
    pause: Option<Duration>,
}

/// The way to the nodes of a generation.
#[derive(Default)]
struct Way {
    session: Option<Session>,
    /// What is known of the links, once there was a session.
    mixer: Option<Mixer>,
}

impl Relay {
    /// A relay with this plan and these limits; no request is sent yet.
    pub(super) fn new(plan: Plan, limits: Arc<Limits>) -> Self {
        Self {
            plan,
            limits,
            state: Mutex::default(),
        }
    }

    /// Ends the session, and opens no other for a while. Nodes that do not answer are put out of
    /// use, so that later operations do not wait for them.
    fn pause(&self, targets: &Targets, generation: &[usize], why: &str) {
        let mut state = lock(&self.state);
        state.ways.values_mut().for_each(|way| way.session = None);
        let is_first = state.paused_until.is_none();
        if !state.is_paused() {
            let pause = state.pause.map_or(RELAY_PAUSE_MIN, |last| 2 * last);
            let pause = pause.min(RELAY_PAUSE_MAX);
            state.pause = Some(pause);
            state.paused_until = Some(Instant::now() + pause);
        }
        drop(state);
        for (number, node) in nodes_in_use(generation, targets) {
            if !node.is_there() {
                let error = io::Error::from(io::ErrorKind::TimedOut);
                targets.give_up(number, &node.blame(error));
            }
        }
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
        let may_wait = || are_there(&nodes);

        let mut state = lock(&self.state);
        if state.is_paused() {
            return Relayed::NotTried;
        }
        let (opened, mixer) = match state.session(geometry.generation, &nodes) {
            Ok(opened) => opened,
            Err(error) => {
                drop(state);
                return fail(turn, &error.to_string());
            }
        };
        let kind = match self.plan {
            Plan::Always(kind) => kind,
            Plan::Auto => {
                let Choice { kind, turn: chosen } = mixer.choose(stripe.may_turn);
                turn = chosen;
                kind
            }
        };
        // Some plans have no schedule for this number of nodes; the shared plan always has one.
        let kinds = [kind, Kind::Shared].into_iter();
        let mut possible = kinds.filter_map(|kind| Some((kind, kind.schedule(&layout)?)));
        let (kind, schedule) = possible.next().expect("there is always a shared one");
        let cells = match kind {
            Kind::Direct => encode_cells(object, geometry),
            _ => data_cells(object, geometry),
        };
        let (shape, by_role) = (stripe.placed)(turn);
        let placed = Placed {
            name: stripe.name,
            shape,
            generation: stripe.generation,
            by_role: &by_role,
        };
        let members = members(&placed);
        let (number, request) = request(&placed, opened, Source::Client(kind.name().to_owned()));
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
            geometry,
            tags: stripe.tags.filter(|_| shape.seal.is_some()),
            schedule: &schedule,
            members: &members,
        };
        let (session, own) = (opened.id(), opened.flows());
        let mut watch = |is_due: bool| {
            let at_us = own.since.elapsed().as_micros() as u64;
            mixer.look(at_us, &own.flows);
            if !is_due {
                return;
            }
            // A node that does not answer at once is left to the stripe.
            let usages = try_each(&nodes, nodes.len(), |node| node.usage(session));
            if let Ok(mut usages) = usages {
                usages.push(Usage {
                    at_us: own.since.elapsed().as_micros() as u64,
                    flows: own.flows.iter().map(Into::into).collect(),
                    ..Usage::default()
                });
                mixer.learn(&usages);
            }
        };
        let watch: Option<&mut dyn FnMut(bool)> = match self.plan {
            Plan::Auto => Some(&mut watch),
            Plan::Always(_) => None,
        };
        let sent = opened.send(&outgoing, &cells, &self.limits, &may_wait, watch);
        // The next stripe goes out while the nodes make this one durable.
        drop(state);
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
        let asked = session.and_then(|(session, _)| {
            let source = Source::Nodes {
                role: lost.role as u8,
                others: lost.others.iter().map(|&role| role as u8).collect(),
                yields: lost.yields,
            };
            let (_, request) = request(placed, session, source);
            try_each(&nodes, nodes.len(), |node| node.begin(&request))
        });
        // The next stripe may begin while nodes work on this one.
        drop(state);
        let failures: Vec<StorageError> = match asked {
            Ok(asked) => {
                let may_wait = || are_there(&nodes);
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
    ) -> Result<(&mut Session, &mut Mixer)> {
        let way = self.ways.entry(generation).or_default();
        let is_new = way.session.is_none();
        let session = match &mut way.session {
            Some(session) => session,
            none => none.insert(Session::open(nodes)?),
        };
        let mixer = way
            .mixer
            .get_or_insert_with(|| Mixer::new(session.layout()));
        if is_new {
            mixer.restart(session.clients());
        }
        Ok((session, mixer))
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

/// The session's member for each role.
fn members(placed: &Placed) -> Vec<usize> {
    let member_of = |target: &usize| {
        let member = placed.generation.iter().position(|number| number == target);
        member.expect("the targets of a stripe are those of its generation")
    };
    placed.by_role.iter().map(member_of).collect()
}

/// The next stripe of a session, and its number.
fn request(placed: &Placed, session: &mut Session, source: Source) -> (u64, Request) {
    let number = session.next_number();
    let members = members(placed).into_iter();
    let stripe = Stripe {
        number,
        name: placed.name,
        object_len: placed.shape.geometry.object_len,
        generation: placed.shape.geometry.generation,
        seal: placed.shape.seal.map(|seal| seal.tag),
        by_role: members.map(|member| member as u8).collect(),
        source,
        lag: session.lag(),
    };
    (number, Request::Stripe(session.id(), stripe))
}
