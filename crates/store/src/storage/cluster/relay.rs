//! Decides how each stripe goes to the nodes, and goes around them when that fails.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tabane_parity::Layout;
use tabane_parity::schedule::Kind;

use super::limits::Limits;
use super::node::NodeStorage;
use super::session::{STALL, Session};
use super::wire::{Reason, Reply, Request, Source, Stripe};
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
    /// One for each generation, whose targets are always the same.
    sessions: HashMap<u8, Session>,
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

    /// Puts an object.
    pub(in crate::storage) fn put(
        &self,
        targets: &Targets,
        placed: &Placed,
        object: &[u8],
    ) -> io::Result<Relayed> {
        let Some(nodes) = placed.nodes(targets) else {
            return Ok(Relayed::NotTried);
        };
        let geometry = &placed.geometry;
        // Nodes give up on who sends too slowly to one of them, while it sends to the others.
        let layout = geometry.layout();
        let of_sector = layout.data_cells().len() as u64 * SECTOR_LEN;
        if self.limits.least_seconds(of_sector) > STALL.as_secs_f64() / 2.0 {
            return Ok(Relayed::NotTried);
        }
        let fail = |why: &str| {
            self.pause(targets, why);
            Ok(Relayed::Failed)
        };

        let mut state = lock(&self.state);
        if state.is_paused() {
            return Ok(Relayed::NotTried);
        }
        let (opened, mixer) = match state.session(geometry.generation, &nodes) {
            Ok(opened) => opened,
            Err(error) => {
                drop(state);
                return fail(&error.to_string());
            }
        };
        let kind = match self.plan {
            Plan::Always(kind) => kind,
            Plan::Auto => mixer.choose(),
        };
        // Not for every number of nodes is there one that was searched for.
        let kinds = [kind, Kind::Shared].into_iter();
        let mut possible = kinds.filter_map(|kind| Some((kind, kind.schedule(&layout)?)));
        let (kind, schedule) = possible.next().expect("there is always a shared one");
        let cells = match kind {
            Kind::Direct => encode_cells(object, geometry)?,
            _ => data_cells(object, geometry),
        };
        let members = placed.members();
        let (number, request) = placed.request(opened, Source::Client(kind.name().to_owned()));
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
                mixer.learn(waited / (took + idle).as_secs_f64().max(1e-9));
            }
            Err(error) => {
                drop(state);
                return fail(&error.to_string());
            }
        }
        // The next stripe goes out while the nodes make this one durable.
        drop(state);
        let (mut puts, mut clients) = (Vec::new(), 1);
        for (&target, asked) in placed.generation.iter().zip(asked) {
            let put = match asked.answer() {
                Ok(Reply::Stored(busy)) => {
                    clients = clients.max(busy);
                    Ok(())
                }
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
        lock(&self.state).mixer.share_among(clients, &layout);
        Ok(Relayed::Put(puts))
    }

    /// Lets nodes rebuild among themselves what a role keeps of an object, of which `others` lack their parts, too. Says whether the part
    /// is durable now; if it is not, it takes somebody who reads what the other parts are.
    pub(in crate::storage) fn rebuild(
        &self,
        targets: &Targets,
        placed: &Placed,
        role: usize,
        others: &[usize],
    ) -> bool {
        let Some(nodes) = placed.nodes(targets) else {
            return false;
        };
        if self.plan == Plan::Always(Kind::Direct) {
            return false;
        }
        let mut state = lock(&self.state);
        if state.is_paused() {
            return false;
        }
        let session = state.session(placed.geometry.generation, &nodes);
        let asked = session.and_then(|(session, _)| {
            let source = Source::Nodes {
                role: role as u8,
                others: others.iter().map(|&role| role as u8).collect(),
            };
            let (_, request) = placed.request(session, source);
            try_each(&nodes, nodes.len(), |node| node.begin(&request))
        });
        // The next one may begin while nodes are at this one.
        drop(state);
        let failures: Vec<io::Error> = match asked {
            Ok(asked) => {
                let answers = asked.into_iter().map(|asked| match asked.answer()? {
                    Reply::Stored(_) | Reply::Failed(Reason::AlreadyExists, _) => Ok(()),
                    Reply::Failed(reason, text) => Err(reason.to_error(&text)),
                    _ => Err(io::Error::other("a node answers something else")),
                });
                answers.filter_map(Result::err).collect()
            }
            Err(error) => vec![error],
        };
        // When one fails, the session ends for the others, who say that.
        let is_cause = |error: &&io::Error| error.kind() != io::ErrorKind::NotConnected;
        let cause = failures.iter().find(is_cause).or(failures.first());
        if let Some(cause) = cause {
            self.pause(targets, &cause.to_string());
        }
        failures.is_empty()
    }

    /// Ends the session, and opens no other for a while.
    fn pause(&self, targets: &Targets, why: &str) {
        let mut state = lock(&self.state);
        state.sessions.clear();
        if state.paused_until.replace(Instant::now() + PAUSE).is_none() {
            targets.tell(&format!(
                "nodes cannot make parities among themselves ({why}): sending everything from here for a while"
            ));
        }
    }
}

impl State {
    fn is_paused(&self) -> bool {
        self.paused_until
            .is_some_and(|until| Instant::now() < until)
    }

    /// The session with these nodes, which are those of the generation.
    fn session(
        &mut self,
        generation: u8,
        nodes: &[&NodeStorage],
    ) -> io::Result<(&mut Session, &mut Mixer)> {
        let mixer = &mut self.mixer;
        let session = match self.sessions.entry(generation) {
            Entry::Occupied(session) => session.into_mut(),
            Entry::Vacant(place) => {
                let session = Session::open(nodes)?;
                mixer.share_among(session.clients(), session.layout());
                place.insert(session)
            }
        };
        Ok((session, mixer))
    }
}

/// An object's stripe, and where its parts belong.
pub struct Placed<'a> {
    /// The object.
    pub name: Name,
    /// How it is laid out.
    pub geometry: Geometry,
    /// The targets of the stripe's generation.
    pub generation: &'a [usize],
    /// The same, with that of each role in its place.
    pub by_role: &'a [usize],
}

impl Placed<'_> {
    /// The nodes of the generation, if they are all in use.
    fn nodes<'t>(&self, targets: &'t Targets) -> Option<Vec<&'t NodeStorage>> {
        let nodes = self.generation.iter();
        nodes
            .map(|&number| targets.storage(number)?.as_node())
            .collect()
    }

    /// The member of the session that has each role.
    fn members(&self) -> Vec<usize> {
        let member_of = |target: &usize| {
            let member = self.generation.iter().position(|number| number == target);
            member.expect("the targets of a stripe are those of its generation")
        };
        self.by_role.iter().map(member_of).collect()
    }

    /// The next stripe of a session, and its number.
    fn request(&self, session: &mut Session, source: Source) -> (u64, Request) {
        let number = session.next_number();
        let members = self.members().into_iter();
        let stripe = Stripe {
            number,
            name: self.name,
            object_len: self.geometry.object_len,
            generation: self.geometry.generation,
            by_role: members.map(|member| member as u8).collect(),
            source,
            lag: session.lag(),
        };
        (number, Request::Stripe(session.id(), stripe))
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
/// sent all that it may. Among many clients fewer stripes are relayed then, until it does not. The share goes up by steps and down by a factor, so that several clients
/// come to equal shares.
///
/// That takes many stripes. So when nodes say that more clients write than before, or fewer, each begins with the share that were best
/// if all links and all clients were alike.
///
/// Where that is all, nobody else is spared by sending a stripe directly: it is all or nothing, by what waiting costs and relaying
/// saves. A node with a slow link can make a relayed stripe take as long as many others; so after a trial that was in vain, twice as many
/// stripes go directly as after the one before.
struct Mixer {
    /// How many clients there were when it began with a share.
    clients: u16,
    /// Of stripes that are relayed.
    share: f64,
    /// What it began with then.
    best: f64,
    /// What relaying saves the client's link, by what sending everything takes.
    worth: f64,
    /// Stripes that go directly before relaying is tried again, where it is all or nothing.
    direct: u32,
    /// How many that will be the next time.
    pause: u32,
    /// Stripes since it was tried again.
    tried: u32,
    /// Relayed stripes that are due.
    due: f64,
    /// Of the time of the last stripes, what was waiting for nodes.
    waited: f64,
}

impl Default for Mixer {
    fn default() -> Self {
        Self {
            clients: 0,
            share: 1.0,
            best: 1.0,
            worth: Self::WAITED,
            direct: 0,
            pause: Self::PAUSE,
            tried: 0,
            due: 0.0,
            waited: 0.0,
        }
    }
}

impl Mixer {
    /// Waiting for nodes for so much of the time is as it should be: less means that they could take more. One client by itself
    /// waits for less, in networks of 500 Mbit/s; three wait for half of the time if everything is relayed.
    const WAITED: f64 = 0.25;
    /// The same for a share that is more than the best one among equals: it is only right if nodes have much room.
    const WAITED_ABOVE: f64 = 0.05;
    /// More than this counts as this much: now and then a network hiccups, and a whole stripe waits.
    const WAITED_MAX: f64 = 0.5;
    /// Over how many stripes it is averaged.
    const STRIPES: f64 = 2.0;
    /// Up by this at most after a stripe, as long as it waits for less.
    const UP: f64 = 0.04;
    /// Down by a factor, the more the farther nodes are behind: then every stripe that is relayed is one too many.
    const DOWN: f64 = 0.2;
    /// Some are always relayed, or nobody would notice that nodes keep up again.
    const LEAST: f64 = 0.05;
    /// Over how many stripes it is averaged where it is all or nothing: one that waits is no reason.
    const STRIPES_ALONE: f64 = 3.0;
    /// Stripes that go directly after the first trial that was in vain, and at most.
    const PAUSE: u32 = 32;
    const PAUSE_MAX: u32 = 1024;
    /// After so many stripes a trial was not in vain.
    const TRIAL: u32 = 8;

    fn choose(&mut self) -> Kind {
        if self.direct > 0 {
            self.direct -= 1;
            return Kind::Direct;
        }
        self.due += self.share;
        match self.due >= 1.0 {
            true => {
                self.due -= 1.0;
                Kind::Coded
            }
            false => Kind::Direct,
        }
    }

    /// Takes in that so many clients write.
    fn share_among(&mut self, clients: u16, layout: &Layout) {
        if self.clients != clients {
            self.clients = clients;
            self.best = best_share(clients, layout).clamp(Self::LEAST, 1.0);
            self.share = self.best;
            self.worth = 2.0 / layout.roles() as f64;
            self.direct = 0;
        }
    }

    /// Takes in that, of the time that a stripe took, so much was waiting for nodes.
    fn learn(&mut self, waited: f64) {
        if self.best == 1.0 {
            return self.learn_alone(waited);
        }
        self.waited += (waited.min(Self::WAITED_MAX) - self.waited) / Self::STRIPES;
        let as_it_should_be = match self.share > self.best {
            true => Self::WAITED_ABOVE,
            false => Self::WAITED,
        };
        let spare = 1.0 - self.waited / as_it_should_be;
        let share = match spare > 0.0 {
            true => self.share + Self::UP * spare,
            false => self.share / (1.0 + Self::DOWN * spare * spare),
        };
        self.share = share.clamp(Self::LEAST, 1.0);
    }

    fn learn_alone(&mut self, waited: f64) {
        if self.direct > 0 {
            return;
        }
        self.waited += (waited - self.waited) / Self::STRIPES_ALONE;
        self.tried += 1;
        if self.waited > self.worth {
            (self.direct, self.pause) = (self.pause, (2 * self.pause).min(Self::PAUSE_MAX));
            (self.waited, self.tried) = (0.0, 0);
        } else if self.tried > Self::TRIAL {
            self.pause = Self::PAUSE;
        }
    }
}

/// The share of relayed stripes with which links of clients and nodes, all alike, are equally busy; beyond 0 and 1 where there is none.
///
/// By the data, a client sends all cells of a stripe that it does not relay; a relayed one costs every node more.
fn best_share(clients: u16, layout: &Layout) -> f64 {
    let ingress = |kind: Kind| {
        let schedule = kind.schedule(layout)?;
        Some(schedule.costs(layout).rotating_ingress())
    };
    let relayed = ingress(Kind::Coded).or_else(|| ingress(Kind::Shared));
    let (Some(direct), Some(relayed)) = (ingress(Kind::Direct), relayed) else {
        return 1.0;
    };
    let (sent, clients) = (direct * layout.roles() as f64, f64::from(clients));
    (sent - clients * direct) / (sent - 1.0 + clients * (relayed - direct))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_clients_relay_all_and_many_nothing() {
        for roles in 4..=12 {
            let layout = Layout::new(roles).unwrap();
            let mut before = f64::INFINITY;
            for clients in 1..=40 {
                let share = best_share(clients, &layout);
                assert!(share < before, "{roles} {clients}");
                before = share;
            }
            assert!(best_share(1, &layout) >= 1.0 && before <= 0.0);
        }
        // By hand: 12 data cells of 20; 1/3 and 29/60 of the data are received by a node.
        let three = best_share(3, &Layout::new(5).unwrap());
        assert!((0.55..0.75).contains(&three), "{three}");
    }

    #[test]
    fn one_client_sends_everything_as_long_as_nodes_are_slow() {
        let mut mixer = Mixer::default();
        mixer.share_among(1, &Layout::new(5).unwrap());
        // Nodes keep up, but for a moment now and then.
        for stripe in 0..100 {
            assert_eq!(mixer.choose(), Kind::Coded, "{stripe}");
            mixer.learn(if stripe % 10 == 5 { 0.9 } else { 0.1 });
        }
        // A relayed stripe waits for most of the time.
        let mut relayed = |stripes: u32, waited: f64| {
            let of = (0..stripes).filter(|_| {
                let is_relayed = mixer.choose() == Kind::Coded;
                mixer.learn(if is_relayed { waited } else { 0.0 });
                is_relayed
            });
            of.count()
        };
        let first = relayed(100, 0.8);
        assert!((2..=8).contains(&first), "{first}");
        assert!(relayed(1000, 0.8) <= 20);
        // It is tried again in the end.
        assert!(relayed(3000, 0.1) >= 1500);
    }
}
