//! Decides how each stripe goes to the nodes, and goes around them when that fails.

use std::io;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tabane_parity::schedule::Kind;

use super::limits::Limits;
use super::node::NodeStorage;
use super::session::{STALL, Session};
use super::wire::{Reason, Reply, Request, Stripe};
use crate::storage::Name;
use crate::storage::striped::container::{Geometry, SECTOR_LEN};
use crate::storage::striped::put::{data_cells, encode_cells};
use crate::storage::striped::targets::Targets;
use crate::sync::{lock, try_each};

/// For how long nothing is sent by way of other nodes after that has failed.
const PAUSE: Duration = Duration::from_secs(60);

/// How stripes are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plan {
    /// Each as it is best at the moment.
    #[default]
    Auto,
    /// All by this schedule.
    Always(Kind),
}

impl FromStr for Plan {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
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
    flow: Mutex<Flow>,
}

#[derive(Default)]
struct State {
    session: Option<Session>,
    mixer: Mixer,
    /// When it may be tried again.
    paused_until: Option<Instant>,
}

/// What became of a stripe at each of its targets.
pub type Puts = Vec<(usize, io::Result<()>)>;

/// What became of a stripe that was to go by way of nodes.
pub enum Relayed {
    /// Every node has answered.
    Put(Puts),
    /// It has to be put on each target by itself, since a node is not there, or does not do what it should. What there is of it already
    /// is right, and durable.
    Failed,
    /// As well, and nothing was sent.
    NotTried,
}

impl Relay {
    /// By this plan and within these limits; nothing is sent yet.
    pub(super) fn new(plan: Plan, limits: Arc<Limits>) -> Self {
        Self {
            plan,
            limits,
            state: Mutex::default(),
            flow: Mutex::new(Flow::new()),
        }
    }

    /// Puts the stripe of an object on the targets of a generation, of which `by_role` has that of each role.
    pub(in crate::storage) fn put(
        &self,
        targets: &Targets,
        generation: &[usize],
        by_role: &[usize],
        (name, object): (Name, &[u8]),
        geometry: &Geometry,
    ) -> io::Result<Relayed> {
        let nodes = generation
            .iter()
            .map(|&number| targets.storage(number)?.as_node());
        let Some(nodes) = nodes.collect::<Option<Vec<&NodeStorage>>>() else {
            return Ok(Relayed::NotTried);
        };
        // Nodes give up on who sends too slowly to one of them, while it sends to the others.
        let layout = geometry.layout();
        let of_sector = layout.data_cells().len() as u64 * SECTOR_LEN;
        if self.limits.least_seconds(of_sector) > STALL.as_secs_f64() / 2.0 {
            return Ok(Relayed::NotTried);
        }
        let fail = |why: &str| {
            let mut state = lock(&self.state);
            state.session = None;
            if state.paused_until.replace(Instant::now() + PAUSE).is_none() {
                targets.tell(&format!(
                    "nodes cannot make parities among themselves ({why}): sending them everything for a while"
                ));
            }
            Ok(Relayed::Failed)
        };
        let member_of = |target: &usize| {
            let member = generation.iter().position(|number| number == target);
            member.expect("the targets of a stripe are those of its generation")
        };
        let members: Vec<usize> = by_role.iter().map(member_of).collect();

        let mut state = lock(&self.state);
        if state
            .paused_until
            .is_some_and(|until| Instant::now() < until)
        {
            return Ok(Relayed::NotTried);
        }
        if state.session.is_none() {
            match Session::open(&nodes) {
                Ok(session) => state.session = Some(session),
                Err(error) => {
                    drop(state);
                    return fail(&error.to_string());
                }
            }
        }
        let kind = match self.plan {
            Plan::Always(kind) => kind,
            Plan::Auto => state.mixer.choose(),
        };
        // Not for every number of nodes is there one that was searched for.
        let kinds = [kind, Kind::Shared].into_iter();
        let mut possible = kinds.filter_map(|kind| Some((kind, kind.schedule(&layout)?)));
        let (kind, schedule) = possible.next().expect("there is always a shared one");
        let cells = match kind {
            Kind::Direct => encode_cells(object, geometry)?,
            _ => data_cells(object, geometry),
        };
        let opened = state.session.as_mut().expect("it is open");
        let (id, number) = (opened.id(), opened.next_number());
        let request = Request::Stripe(
            id,
            Stripe {
                number,
                name,
                object_len: geometry.object_len,
                generation: geometry.generation,
                by_role: members.iter().map(|&member| member as u8).collect(),
                schedule: kind.name().to_owned(),
                lag: opened.lag(),
            },
        );
        // The answers come when all is durable: how long that takes is up to the network, until everything has been sent.
        let asked = match try_each(&nodes, nodes.len(), |node| node.begin(&request)) {
            Ok(asked) => asked,
            Err(error) => {
                drop(state);
                return fail(&error.to_string());
            }
        };
        let idle = lock(&self.flow).begin();
        let begun = Instant::now();
        let sent = opened.send(number, geometry, &schedule, &members, &cells, &self.limits);
        let took = begun.elapsed();
        let _unanswered = Unanswered::after_sending(&self.flow);
        match sent {
            Ok(waited) => {
                let waited = (waited + idle).as_secs_f64();
                state
                    .mixer
                    .learn(waited / (took + idle).as_secs_f64().max(1e-9));
            }
            Err(error) => {
                drop(state);
                return fail(&error.to_string());
            }
        }
        // The next stripe goes out while the nodes make this one durable.
        drop(state);
        let mut puts = Vec::new();
        for (&target, asked) in generation.iter().zip(asked) {
            let put = match asked.answer() {
                Ok(Reply::Done) => Ok(()),
                // What has nothing to do with its storage, sending it everything may mend.
                Ok(Reply::Failed(Reason::NotConnected | Reason::Other, text)) => {
                    return fail(&text);
                }
                Ok(Reply::Failed(reason, text)) => Err(reason.to_error(&text)),
                Ok(_) => return fail("a node answers something else"),
                Err(error) => return fail(&error.to_string()),
            };
            puts.push((target, put));
        }
        Ok(Relayed::Put(puts))
    }
}

/// When the client's link is idle because nodes are behind: nothing is being sent, and not all that was sent is answered.
struct Flow {
    sending: bool,
    unanswered: usize,
    /// When one of these changed.
    since: Instant,
    /// Since the last stripe was begun.
    idle: Duration,
}

impl Flow {
    fn new() -> Self {
        Self {
            sending: false,
            unanswered: 0,
            since: Instant::now(),
            idle: Duration::ZERO,
        }
    }

    fn now(&mut self) {
        let now = Instant::now();
        if !self.sending && self.unanswered > 0 {
            self.idle += now - self.since;
        }
        self.since = now;
    }

    /// A stripe is about to be sent; says for how long the link was idle before.
    fn begin(&mut self) -> Duration {
        self.now();
        self.sending = true;
        std::mem::take(&mut self.idle)
    }
}

/// A stripe that was sent, until its answers are there.
struct Unanswered<'a>(&'a Mutex<Flow>);

impl<'a> Unanswered<'a> {
    fn after_sending(flow: &'a Mutex<Flow>) -> Self {
        let mut now = lock(flow);
        now.now();
        now.sending = false;
        now.unanswered += 1;
        Self(flow)
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        let mut now = lock(self.0);
        now.now();
        now.unanswered -= 1;
    }
}

/// Which stripes to relay, without knowing who else writes.
///
/// Relaying spares the client's link and spends those of nodes. As long as nodes keep up, what a client waits for is its own
/// link, and relaying is right. When nodes do not, it waits for them: for credit, when their rings are full, or for answers, when it has
/// sent all that it may. Then fewer stripes are relayed, until it does not. The share goes up by steps and down by a factor, so that several clients
/// come to equal shares.
struct Mixer {
    /// Of stripes that are relayed.
    share: f64,
    /// Relayed stripes that are due.
    due: f64,
    /// Of the time of the last stripes, what was waiting for nodes.
    waited: f64,
}

impl Default for Mixer {
    fn default() -> Self {
        Self {
            share: 1.0,
            due: 0.0,
            waited: 0.0,
        }
    }
}

impl Mixer {
    /// Waiting for nodes for so much of the time is as it should be: less means that they could take more. One client by itself
    /// waits for less, in networks of 500 Mbit/s; three wait for half of the time if everything is relayed.
    const WAITED: f64 = 0.15;
    /// More than this counts as this much: now and then a network hiccups, and a whole stripe waits.
    const WAITED_MAX: f64 = 0.5;
    /// Over how many stripes it is averaged.
    const STRIPES: f64 = 2.0;
    /// Up by this at most after a stripe, as long as it waits for less.
    const UP: f64 = 0.04;
    /// Down by a factor, the more the farther nodes are behind: then every stripe that is relayed is one too many.
    const DOWN: f64 = 0.3;
    /// Some are always relayed, or nobody would notice that nodes keep up again.
    const LEAST: f64 = 0.05;

    fn choose(&mut self) -> Kind {
        self.due += self.share;
        match self.due >= 1.0 {
            true => {
                self.due -= 1.0;
                Kind::Coded
            }
            false => Kind::Direct,
        }
    }

    /// Takes in that, of the time that a stripe took, so much was waiting for nodes.
    fn learn(&mut self, waited: f64) {
        self.waited += (waited.min(Self::WAITED_MAX) - self.waited) / Self::STRIPES;
        let spare = 1.0 - self.waited / Self::WAITED;
        let share = match spare > 0.0 {
            true => self.share + Self::UP * spare,
            false => self.share / (1.0 + Self::DOWN * spare * spare),
        };
        self.share = share.clamp(Self::LEAST, 1.0);
    }
}
