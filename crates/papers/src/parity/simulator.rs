//! Writes to a cluster, frame by frame, without a network: for numbers of nodes and clients that no
//! machine here can hold.
//!
//! Links are servers that take one frame after the other; clients and nodes do what those of a
//! cluster do, in the same order and with rings of the same size. What takes no time here:
//! processors, disks, and the way itself.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use anyhow::{Context, Result};
use tabane_parity::Layout;
use tabane_parity::schedule::{Kind, Node, Part, Schedule, Sectors};
use tabane_striped::cluster::optimum::{Choice, Loads, Rates};
use tabane_striped::cluster::{Due, Rings, SENDING_MAX};
use tabane_striped::container::SECTOR_LEN;
use tabane_testing::member::CLIENT_PUTS;
use tabane_testing::random::Random;

/// What is simulated. Rates of links are each way, in parts of one rate; each node and client has
/// one link.
pub struct Case {
    /// How many nodes are a group. Each object goes to one group, chosen at random.
    pub group: usize,
    /// The rate of each node's link, group by group; 0 for a node that is away.
    pub nodes: Vec<f64>,
    /// How many clients.
    pub clients: usize,
    /// The rate of each client's link.
    pub client_rate: f64,
    /// Bytes of an object.
    pub object: usize,
    /// Objects of each client.
    pub objects: usize,
}

/// Objects of each client in a usual case.
const CLIENT_OBJECTS: usize = 40;

/// How objects go to the nodes of a group: each choice with its share.
pub type Mixture = Vec<(Choice, f64)>;

impl Case {
    /// So many groups of nodes, and clients, with equal links.
    pub fn equal(group: usize, groups: usize, clients: usize, object: usize) -> Self {
        Self {
            group,
            nodes: vec![1.0; group * groups],
            clients,
            client_rate: 1.0,
            object,
            objects: CLIENT_OBJECTS,
        }
    }

    fn groups(&self) -> usize {
        self.nodes.len() / self.group
    }

    /// One schedule for all objects; the nodes take turns with the roles.
    pub fn alone(&self, kind: Kind) -> Vec<Mixture> {
        vec![vec![(Choice { kind, turn: None }, 1.0)]; self.groups()]
    }

    /// For each group the quickest mixture, as a client chooses it that knows all rates. Where a
    /// node is away all is sent directly.
    ///
    /// # Errors
    /// When a group cannot have so many nodes.
    pub fn best(&self) -> Result<Vec<Mixture>> {
        let loads = Loads::new(&Layout::new(self.group)?);
        let of_group = |nodes: &[f64]| {
            if nodes.contains(&0.0) {
                let (kind, turn) = (Kind::Direct, None);
                return vec![(Choice { kind, turn }, 1.0)];
            }
            // Of all that clients send, a group gets its share.
            let links = nodes.iter().map(|rate| rate * self.groups() as f64);
            let links: Vec<f64> = links.collect();
            let rates = Rates {
                client: self.client_rate * self.clients as f64,
                ingress: links.clone(),
                egress: links,
            };
            loads.best(&rates, true).shares
        };
        Ok(self.nodes.chunks(self.group).map(of_group).collect())
    }

    /// The sum of what clients can write at most in a unit of time by these mixtures, one for each
    /// group, by what each link has to carry.
    ///
    /// # Errors
    /// As [`Case::goodput`].
    pub fn bound(&self, mixtures: &[Mixture]) -> Result<f64> {
        let layout = Layout::new(self.group)?;
        let (groups, data) = (self.groups() as f64, layout.data_cells().len() as f64);
        let mut client = 0.0;
        let mut nodes = vec![[0.0; 2]; self.nodes.len()];
        for (group, mixture) in mixtures.iter().enumerate() {
            let first = group * self.group;
            for &(choice, share) in mixture {
                let turns: Vec<usize> = match choice.turn {
                    Some(turn) => vec![turn],
                    None => (0..self.group).collect(),
                };
                let load = share / groups / data / turns.len() as f64;
                for turn in turns {
                    for transfer in &schedule(choice.kind, &layout)?.transfers {
                        let to = first + node_of(transfer.to, turn, self.group);
                        if self.nodes[to] == 0.0 {
                            continue;
                        }
                        nodes[to][0] += load;
                        match transfer.from {
                            Node::Client => client += load,
                            Node::Role(role) => {
                                nodes[first + node_of(role, turn, self.group)][1] += load;
                            }
                        }
                    }
                }
            }
        }
        let clients = self.client_rate * self.clients as f64 / client;
        let of_nodes = nodes.iter().zip(&self.nodes).flat_map(|(loads, rate)| {
            let loads = loads.iter().filter(|load| **load > 0.0);
            loads.map(move |load| rate / load)
        });
        Ok(of_nodes.fold(clients, f64::min))
    }

    /// The sum of what clients write in a unit of time by these mixtures, one for each group.
    ///
    /// # Errors
    /// When a group cannot have so many nodes, or a schedule is not made for so many.
    pub fn goodput(&self, mixtures: &[Mixture]) -> Result<f64> {
        let layout = Layout::new(self.group)?;
        let is_mixed = |kind: &Kind| mixtures.iter().flatten().any(|(one, _)| one.kind == *kind);
        let kinds = Kind::ALL.into_iter().filter(is_mixed);
        let plan = Plan::new(kinds.collect(), &layout)?;
        Ok(Simulation::new(self, &layout, mixtures, plan).run())
    }
}

fn schedule(kind: Kind, layout: &Layout) -> Result<Schedule> {
    let schedule = kind.schedule(layout);
    schedule.context("there is no such schedule for so many nodes")
}

/// Schedules, as nodes work by them.
struct Plan {
    kinds: Vec<Kind>,
    /// Of each role.
    parts: Vec<Part>,
    /// For each schedule, how many frames of a sector the client sends to each role.
    from_client: Vec<Vec<u64>>,
}

impl Plan {
    fn new(kinds: Vec<Kind>, layout: &Layout) -> Result<Self> {
        let schedules = kinds.iter().map(|kind| schedule(*kind, layout));
        let schedules = schedules.collect::<Result<Vec<Schedule>>>()?;
        let lag = Rings::new(layout).lag.into();
        let roles = 0..layout.roles();
        let parts = roles
            .clone()
            .map(|role| Part::new(&schedules, layout, role, lag));
        let parts = parts.collect();
        let frames = |schedule: &Schedule| {
            let cells = |role| schedule.cells_from_client(layout, role).len() as u64;
            roles.clone().map(cells).collect()
        };
        let from_client = schedules.iter().map(frames).collect();
        Ok(Self {
            kinds,
            parts,
            from_client,
        })
    }
}

/// Time, in thousandths of what a frame takes on a link of rate 1.
type Time = u64;

const FRAME_TIME: f64 = 1000.0;

/// A link, one way.
#[derive(Clone)]
struct Link {
    frame_time: Time,
    free_at: Time,
}

impl Link {
    fn new(rate: f64) -> Self {
        Self {
            frame_time: (FRAME_TIME / rate).round() as Time,
            free_at: 0,
        }
    }

    /// When a frame that comes now is through.
    fn carry(&mut self, now: Time) -> Time {
        self.free_at = self.free_at.max(now) + self.frame_time;
        self.free_at
    }
}

/// A frame on its way. `from` and `to` are nodes of the session's group, or `from` is the client,
/// behind all of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Frame {
    session: usize,
    from: usize,
    to: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// It has left its sender.
    Left(Frame),
    /// It has arrived.
    Arrived(Frame),
}

/// A stripe of a session.
struct Stripe {
    sectors: Sectors,
    /// The first role is this node's, the next that of the next.
    turn: usize,
    /// Frames of the session so far, by receiver and sender.
    bases: Vec<Vec<u64>>,
}

/// A node's progress in a session.
#[derive(Clone, Default)]
struct Place {
    stripe: usize,
    /// Of the relay a step, of the store a sector.
    step: u64,
    send: usize,
}

#[derive(Default)]
struct Client {
    begun: usize,
    stored: usize,
    is_sending: bool,
    /// The groups to which it is sending; the next frame goes to the first that has room.
    open: VecDeque<usize>,
}

/// A client and a group.
struct Session {
    stripes: Vec<Stripe>,
    due: Due,
    bases: Vec<Vec<u64>>,
    /// Frames that the client has not sent yet, stripe by stripe and node by node, and whose turn
    /// it is.
    unsent: VecDeque<Vec<u64>>,
    turn: usize,
    /// Stripes that all nodes have stored.
    stored: usize,
    /// By receiver and sender.
    sent: Vec<Vec<u64>>,
    arrived: Vec<Vec<u64>>,
    released: [Vec<Vec<u64>>; 2],
    relays: Vec<Place>,
    stores: Vec<Place>,
}

impl Session {
    fn new(nodes: usize) -> Self {
        let table = || vec![vec![0; nodes + 1]; nodes];
        Self {
            stripes: Vec::new(),
            due: Due::default(),
            bases: table(),
            unsent: VecDeque::new(),
            turn: 0,
            stored: 0,
            sent: table(),
            arrived: table(),
            released: [table(), table()],
            relays: vec![Place::default(); nodes],
            stores: vec![Place::default(); nodes],
        }
    }
}

struct Simulation<'a> {
    case: &'a Case,
    mixtures: &'a [Mixture],
    plan: Plan,
    sectors: u64,
    data_frames: u64,
    /// Frames that the rings for clients and for nodes hold.
    rings: [u64; 2],
    clients: Vec<Client>,
    /// Those of the first client with each group, then those of the second.
    sessions: Vec<Option<Box<Session>>>,
    senders: Vec<Link>,
    egress: Vec<Link>,
    ingress: Vec<Link>,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    count: u64,
    now: Time,
    random: Random,
}

/// Who may be able to go on.
enum Wake {
    Client,
    Relay(usize),
    Store(usize),
}

impl<'a> Simulation<'a> {
    fn new(case: &'a Case, layout: &Layout, mixtures: &'a [Mixture], plan: Plan) -> Self {
        let data = layout.data_cells().len();
        let cell = case.object.div_ceil(data) as u64;
        let sectors = cell.div_ceil(SECTOR_LEN);
        let rings = Rings::new(layout);
        // A quarter may be owed.
        let frames = |bytes: usize| bytes as u64 * 3 / 4 / cell.div_ceil(sectors);
        // Nothing is sent to a node that is away.
        let links = || case.nodes.iter().map(|rate| Link::new(*rate)).collect();
        Self {
            case,
            mixtures,
            plan,
            sectors,
            data_frames: data as u64 * sectors,
            rings: [frames(rings.client), frames(rings.peer)],
            clients: (0..case.clients).map(|_| Client::default()).collect(),
            sessions: (0..case.clients * case.groups()).map(|_| None).collect(),
            senders: vec![Link::new(case.client_rate); case.clients],
            egress: links(),
            ingress: links(),
            events: BinaryHeap::new(),
            count: 0,
            now: 0,
            random: Random::new(1),
        }
    }

    /// Runs until one client has put all its objects.
    fn run(mut self) -> f64 {
        for client in 0..self.case.clients {
            self.begin(client);
            self.send(client);
        }
        while let Some(Reverse((now, _, event))) = self.events.pop() {
            self.now = now;
            match event {
                Event::Left(frame) => {
                    let to = self.first_node(frame.session) + frame.to;
                    let through = self.ingress[to].carry(now);
                    self.push(through, Event::Arrived(frame));
                    if frame.from == self.case.group {
                        let client = self.client_of(frame.session);
                        self.clients[client].is_sending = false;
                        self.send(client);
                    }
                }
                Event::Arrived(Frame { session, from, to }) => {
                    self.session(session).arrived[to][from] += 1;
                    self.wake(session, Wake::Relay(to));
                    self.wake(session, Wake::Store(to));
                    let client = &self.clients[self.client_of(session)];
                    if client.stored == self.case.objects {
                        break;
                    }
                }
            }
        }
        let stripes: f64 = (0..self.sessions.len())
            .map(|number| self.stripes(number))
            .sum();
        stripes * self.data_frames as f64 * FRAME_TIME / self.now as f64
    }

    /// How many stripes of a session the nodes have stored, on average.
    fn stripes(&self, number: usize) -> f64 {
        let Some(session) = &self.sessions[number] else {
            return 0.0;
        };
        let here = (0..self.case.group).filter(|&node| !self.is_away(number, node));
        let places = session.stores.iter();
        let stored = places.map(|place| place.stripe as u64 * self.sectors + place.step);
        stored.sum::<u64>() as f64 / self.sectors as f64 / here.count() as f64
    }

    fn client_of(&self, session: usize) -> usize {
        session / self.case.groups()
    }

    /// The first node of a session's group.
    fn first_node(&self, session: usize) -> usize {
        session % self.case.groups() * self.case.group
    }

    fn is_away(&self, session: usize, node: usize) -> bool {
        self.case.nodes[self.first_node(session) + node] == 0.0
    }

    fn session(&mut self, number: usize) -> &mut Session {
        self.sessions[number].as_mut().expect("it has begun")
    }

    fn push(&mut self, at: Time, event: Event) {
        self.count += 1;
        self.events.push(Reverse((at, self.count, event)));
    }

    fn wake(&mut self, session: usize, first: Wake) {
        let mut waking = VecDeque::from([first]);
        while let Some(wake) = waking.pop_front() {
            match wake {
                Wake::Client => self.send(self.client_of(session)),
                Wake::Relay(node) => self.relay(session, node, &mut waking),
                Wake::Store(node) => self.store(session, node, &mut waking),
            }
        }
    }

    fn has_room(&self, session: &Session, from: usize, to: usize) -> bool {
        let ring = self.rings[usize::from(from < self.case.group)];
        let [relayed, stored] = [0, 1].map(|tail| session.released[tail][to][from]);
        session.sent[to][from] - relayed.min(stored) < ring
    }

    /// Sends the next frame of a client, if its link is free: to each group in turn, and there to
    /// each node in turn, that has room.
    fn send(&mut self, client: usize) {
        let nodes = self.case.group;
        if self.clients[client].is_sending {
            return;
        }
        for _ in 0..self.clients[client].open.len() {
            let group = self.clients[client].open[0];
            self.clients[client].open.rotate_left(1);
            let number = client * self.case.groups() + group;
            let session = self.sessions[number].as_ref().expect("it has begun");
            let turns = (0..nodes).map(|offset| (session.turn + offset) % nodes);
            let mut next = turns.filter_map(|to| {
                let mut stripes = session.unsent.iter().take(SENDING_MAX);
                let stripe = stripes.position(|unsent| unsent[to] > 0)?;
                self.has_room(session, nodes, to).then_some((to, stripe))
            });
            let Some((to, stripe)) = next.next() else {
                continue;
            };
            let session = self.session(number);
            session.turn = to + 1;
            session.sent[to][nodes] += 1;
            session.unsent[stripe][to] -= 1;
            if session.unsent[stripe].iter().all(|&frames| frames == 0) {
                session.unsent.remove(stripe);
                if session.unsent.is_empty() {
                    self.clients[client].open.pop_back();
                }
            }
            self.clients[client].is_sending = true;
            let frame = Frame {
                session: number,
                from: nodes,
                to,
            };
            let left = self.senders[client].carry(self.now);
            self.push(left, Event::Left(frame));
            return;
        }
    }

    /// Begins stripes of a client, until there are none left or enough on their way.
    fn begin(&mut self, client: usize) {
        let groups = self.case.groups();
        let is_next = |client: &Client, objects| {
            client.begun < objects && client.begun - client.stored < CLIENT_PUTS
        };
        while is_next(&self.clients[client], self.case.objects) {
            let group = self.random.below(groups as u64) as usize;
            self.begin_stripe(client * groups + group);
            let client = &mut self.clients[client];
            client.begun += 1;
            if !client.open.contains(&group) {
                client.open.push_back(group);
            }
        }
    }

    fn begin_stripe(&mut self, number: usize) {
        let nodes = self.case.group;
        let mixtures = self.mixtures;
        let mixture = &mixtures[number % self.case.groups()];
        let mut session = self.sessions[number]
            .take()
            .unwrap_or_else(|| Box::new(Session::new(nodes)));
        let (turn, kinds) = session.due.choose(mixture, self.sectors);
        let number_of = |kind| self.plan.kinds.iter().position(|other| other == kind);
        let numbers = kinds
            .iter()
            .map(|kind| number_of(kind).expect("it is in a mixture"));
        let numbers: Vec<usize> = numbers.collect();
        let sectors = Sectors::mixed(&numbers, self.plan.kinds.len());
        let turn = turn.unwrap_or_else(|| self.random.below(nodes as u64) as usize);
        let bases = session.bases.clone();
        let mut unsent = vec![0; nodes];
        for (role, part) in self.plan.parts.iter().enumerate() {
            let to = node_of(role, turn, nodes);
            if self.is_away(number, to) {
                continue;
            }
            let of_sectors = numbers.iter();
            let of_sectors = of_sectors.map(|&schedule| self.plan.from_client[schedule][role]);
            unsent[to] = of_sectors.sum();
            for from in 0..=nodes {
                let arrived = part.arrivals(from, &sectors);
                session.bases[to][node_of(from, turn, nodes)] += arrived;
            }
        }
        session.unsent.push_back(unsent);
        session.stripes.push(Stripe {
            sectors,
            turn,
            bases,
        });
        self.sessions[number] = Some(session);
    }

    fn relay(&mut self, number: usize, node: usize, waking: &mut VecDeque<Wake>) {
        let nodes = self.case.group;
        let first = self.first_node(number);
        loop {
            let session = self.sessions[number].as_ref().expect("it has begun");
            let place = session.relays[node].clone();
            let Some(stripe) = session.stripes.get(place.stripe) else {
                return;
            };
            let part = &self.plan.parts[(node + nodes - stripe.turn) % nodes];
            if let Some(sent) = part.sends.get(place.send) {
                let sector = place.step.checked_sub(sent.lag as u64);
                let to = node_of(sent.to, stripe.turn, nodes);
                let goes = |sector: &u64| stripe.sectors.schedule(*sector) == Some(sent.schedule);
                if let Some(sector) = sector.filter(goes) {
                    let is_there = sent.of.iter().all(|&arrived| {
                        let from = node_of(arrived.from, stripe.turn, nodes);
                        let before = part.number(arrived, sector, &stripe.sectors);
                        session.arrived[node][from] > stripe.bases[node][from] + before
                    });
                    if !is_there || !self.has_room(session, node, to) {
                        return;
                    }
                    self.session(number).sent[to][node] += 1;
                    let left = self.egress[first + node].carry(self.now);
                    let frame = Frame {
                        session: number,
                        from: node,
                        to,
                    };
                    self.push(left, Event::Left(frame));
                }
                self.session(number).relays[node].send += 1;
                continue;
            }
            let end = part.steps(&stripe.sectors);
            if let Some(done) = place.step.checked_sub(part.longest_lag as u64)
                && !self.release(number, node, 0, place.stripe, done, waking)
            {
                return;
            }
            self.session(number).relays[node] = next(&place, end);
        }
    }

    fn store(&mut self, number: usize, node: usize, waking: &mut VecDeque<Wake>) {
        let nodes = self.case.group;
        loop {
            let session = self.sessions[number].as_ref().expect("it has begun");
            let place = session.stores[node].clone();
            let Some(stripe) = session.stripes.get(place.stripe) else {
                return;
            };
            let part = &self.plan.parts[(node + nodes - stripe.turn) % nodes];
            let schedule = stripe.sectors.schedule(place.step);
            let stores = &part.stores[schedule.expect("a sector of the stripe")];
            let is_there = stores.iter().flatten().all(|&arrived| {
                let from = node_of(arrived.from, stripe.turn, nodes);
                let before = part.number(arrived, place.step, &stripe.sectors);
                session.arrived[node][from] > stripe.bases[node][from] + before
            });
            if !is_there || !self.release(number, node, 1, place.stripe, place.step, waking) {
                return;
            }
            self.session(number).stores[node] = next(&place, self.sectors);
            if place.step + 1 == self.sectors {
                self.count_stored(number);
            }
            waking.push_back(Wake::Client);
        }
    }

    /// Counts the stripes that all nodes of a session have stored, and begins others.
    fn count_stored(&mut self, number: usize) {
        let here = (0..self.case.group).filter(|&node| !self.is_away(number, node));
        let session = self.sessions[number].as_ref().expect("it has begun");
        let stored = here.map(|node| session.stores[node].stripe).min();
        let stored = stored.expect("nodes are there");
        let client = self.client_of(number);
        let session = self.session(number);
        let more = stored - session.stored;
        session.stored = stored;
        self.clients[client].stored += more;
        self.begin(client);
    }

    /// Gives back the frames of a sector and those before, if all have arrived that have to.
    fn release(
        &mut self,
        number: usize,
        node: usize,
        tail: usize,
        stripe: usize,
        sector: u64,
        waking: &mut VecDeque<Wake>,
    ) -> bool {
        let nodes = self.case.group;
        let session = self.sessions[number].as_ref().expect("it has begun");
        let stripe = &session.stripes[stripe];
        let part = &self.plan.parts[(node + nodes - stripe.turn) % nodes];
        let mut ends = Vec::with_capacity(nodes + 1);
        for from in 0..=nodes {
            let spent = part.spent(from, sector, &stripe.sectors);
            let from = node_of(from, stripe.turn, nodes);
            let end = stripe.bases[node][from] + spent.end;
            if !spent.is_empty() && session.arrived[node][from] < end {
                return false;
            }
            ends.push((from, end));
        }
        for (from, end) in ends {
            let released = &mut self.session(number).released[tail][node][from];
            if *released < end {
                *released = end;
                waking.push_back(if from == nodes {
                    Wake::Client
                } else {
                    Wake::Relay(from)
                });
            }
        }
        true
    }
}

/// Who has a role when the first role is that node's; the client stays what it is.
fn node_of(role: usize, turn: usize, nodes: usize) -> usize {
    if role == nodes {
        nodes
    } else {
        (role + turn) % nodes
    }
}

fn next(place: &Place, end: u64) -> Place {
    let is_last = place.step + 1 == end;
    Place {
        stripe: place.stripe + usize::from(is_last),
        step: if is_last { 0 } else { place.step + 1 },
        send: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(nodes: &[f64], group: usize, clients: usize) -> Case {
        Case {
            nodes: nodes.to_vec(),
            objects: 6,
            ..Case::equal(group, nodes.len() / group, clients, 8 << 20)
        }
    }

    fn goodput(clients: usize, kind: Kind) -> f64 {
        let case = case(&[1.0; 5], 5, clients);
        case.goodput(&case.alone(kind)).unwrap()
    }

    fn near(value: f64, bound: f64) -> bool {
        (0.8..=1.01).contains(&(value / bound))
    }

    #[test]
    fn one_client_comes_near_its_link_and_many_near_those_of_the_nodes() {
        assert!(near(goodput(1, Kind::Direct), 0.6));
        assert!(near(goodput(1, Kind::Coded), 1.0));
        // 28 of 60 blocks go to each node.
        let many = goodput(4, Kind::Coded);
        assert!(near(many, 60.0 / 28.0), "{many}");
    }

    #[test]
    fn the_bound_is_what_the_fullest_links_carry() {
        let bound = |clients, kind: Option<Kind>| {
            let case = case(&[1.0; 5], 5, clients);
            let mixtures = match kind {
                Some(kind) => case.alone(kind),
                None => case.best().unwrap(),
            };
            case.bound(&mixtures).unwrap()
        };
        let direct = Some(Kind::Direct);
        assert!((bound(1, direct) - 0.6).abs() < 1e-9);
        assert!((bound(1, None) - 1.0).abs() < 1e-9);
        // Nodes store five thirds of the data, so all together take in three links of data.
        assert!((bound(6, direct) - 3.0).abs() < 1e-9);
        assert!((bound(6, None) - 3.0).abs() < 1e-9);
        assert!(bound(3, None) > bound(3, direct) && bound(3, None) < 3.0);
    }

    /// Objects of any client go to any group, so all have an equal share of what clients send.
    #[test]
    fn groups_carry_as_much_as_their_links_together() {
        for kind in [Kind::Direct, Kind::Coded] {
            let (one, four) = (case(&[1.0; 5], 5, 6), case(&[1.0; 20], 5, 24));
            let bounds = [&one, &four].map(|case| case.bound(&case.alone(kind)).unwrap());
            assert!((bounds[1] / bounds[0] - 4.0).abs() < 1e-9, "{bounds:?}");
            let reached = four.goodput(&four.alone(kind)).unwrap();
            assert!((0.6..=1.01).contains(&(reached / bounds[1])), "{reached}");
        }
    }

    #[test]
    fn a_slow_node_holds_up_less_where_roles_are_chosen() {
        let case = case(&[1.0, 1.0, 0.25, 1.0, 1.0], 5, 1);
        let best = case.best().unwrap();
        assert!((case.bound(&best).unwrap() - 0.75).abs() < 1e-3);
        assert!(near(case.goodput(&best).unwrap(), 0.75));
        let relayed = case.alone(Kind::Coded);
        assert!(near(
            case.goodput(&relayed).unwrap(),
            case.bound(&relayed).unwrap()
        ));
        assert!(case.bound(&relayed).unwrap() < 0.6);
    }

    #[test]
    fn what_a_node_that_is_away_would_get_is_not_sent() {
        let case = case(&[1.0, 0.0, 1.0, 1.0, 1.0], 5, 1);
        let best = case.best().unwrap();
        assert!((case.bound(&best).unwrap() - 0.75).abs() < 1e-9);
        assert!(near(case.goodput(&best).unwrap(), 0.75));
    }
}
