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
use tabane_parity::schedule::{Kind, Part};
use tabane_striped::cluster::Rings;
use tabane_striped::container::SECTOR_LEN;

/// Puts of a client that are on their way at a time.
const CLIENT_PUTS: usize = 3;

/// What is simulated.
pub struct Case {
    /// How many nodes.
    pub nodes: usize,
    /// How many clients.
    pub clients: usize,
    /// By which schedule stripes are relayed.
    pub kind: Kind,
    /// How many of them; the others are sent directly.
    pub share: f64,
    /// Bytes of an object.
    pub object: usize,
    /// Objects of each client.
    pub objects: usize,
}

impl Case {
    /// The sum of what clients write in a unit of time, a link's being 1.
    ///
    /// # Errors
    /// When there are too few nodes, or the schedule is not made for so many.
    pub fn goodput(&self) -> Result<f64> {
        let layout = Layout::new(self.nodes)?;
        let plans = [self.kind, Kind::Direct].map(|kind| Plan::new(kind, &layout));
        let [relayed, direct] = plans;
        let plans = [
            relayed.context("there is no such schedule for so many nodes")?,
            direct.context("there is always a direct one")?,
        ];
        Ok(Simulation::new(self, &layout, plans).run())
    }
}

/// A schedule, as nodes work by it.
struct Plan {
    parts: Vec<Part>,
    /// How many frames of a sector the client sends to each role.
    from_client: Vec<u64>,
}

impl Plan {
    fn new(kind: Kind, layout: &Layout) -> Option<Self> {
        let schedule = kind.schedule(layout)?;
        let lag = Rings::new(layout).lag.into();
        let roles = 0..layout.roles();
        Some(Self {
            parts: roles
                .clone()
                .map(|role| schedule.part(layout, role, lag))
                .collect(),
            from_client: roles
                .map(|role| schedule.cells_from_client(layout, role).len() as u64)
                .collect(),
        })
    }
}

/// Time, in thousandths of what a frame takes on a link.
type Time = u64;

const FRAME_TIME: Time = 1000;

/// A link, one way.
#[derive(Clone, Default)]
struct Link {
    free_at: Time,
}

impl Link {
    /// When a frame that comes now is through.
    fn carry(&mut self, now: Time) -> Time {
        self.free_at = self.free_at.max(now) + FRAME_TIME;
        self.free_at
    }
}

/// A frame on its way. `from` is a node, or behind all of them the client.
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
    plan: usize,
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

struct Session {
    stripes: Vec<Stripe>,
    bases: Vec<Vec<u64>>,
    /// Share of stripes to relay that is due.
    due: f64,
    /// What the client has not sent yet of the newest stripe, by node, and whose turn it is.
    unsent: Vec<u64>,
    turn: usize,
    is_sending: bool,
    /// By receiver and sender.
    sent: Vec<Vec<u64>>,
    arrived: Vec<Vec<u64>>,
    released: [Vec<Vec<u64>>; 2],
    relays: Vec<Place>,
    stores: Vec<Place>,
}

struct Simulation<'a> {
    case: &'a Case,
    plans: [Plan; 2],
    sectors: u64,
    data_frames: u64,
    /// Frames that the rings for clients and for nodes hold.
    rings: [u64; 2],
    sessions: Vec<Session>,
    egress: Vec<Link>,
    ingress: Vec<Link>,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    count: u64,
    now: Time,
    random: u64,
}

/// Who may be able to go on.
enum Wake {
    Client,
    Relay(usize),
    Store(usize),
}

impl<'a> Simulation<'a> {
    fn new(case: &'a Case, layout: &Layout, plans: [Plan; 2]) -> Self {
        let nodes = case.nodes;
        let data = layout.data_cells().len();
        let cell = case.object.div_ceil(data) as u64;
        let sectors = cell.div_ceil(SECTOR_LEN);
        let rings = Rings::new(layout);
        let table = || vec![vec![0; nodes + 1]; nodes];
        let session = || Session {
            stripes: Vec::new(),
            bases: table(),
            due: 0.0,
            unsent: vec![0; nodes],
            turn: 0,
            is_sending: false,
            sent: table(),
            arrived: table(),
            released: [table(), table()],
            relays: vec![Place::default(); nodes],
            stores: vec![Place::default(); nodes],
        };
        // A quarter may be owed.
        let frames = |bytes: usize| bytes as u64 * 3 / 4 / cell.div_ceil(sectors);
        Self {
            case,
            plans,
            sectors,
            data_frames: data as u64 * sectors,
            rings: [frames(rings.client), frames(rings.peer)],
            sessions: (0..case.clients).map(|_| session()).collect(),
            egress: vec![Link::default(); nodes],
            ingress: vec![Link::default(); nodes],
            events: BinaryHeap::new(),
            count: 0,
            now: 0,
            random: 1,
        }
    }

    /// Runs until one client has put all its objects.
    fn run(mut self) -> f64 {
        for session in 0..self.case.clients {
            self.wake(session, Wake::Client);
        }
        while let Some(Reverse((now, _, event))) = self.events.pop() {
            self.now = now;
            match event {
                Event::Left(frame) => {
                    let through = self.ingress[frame.to].carry(now);
                    self.push(through, Event::Arrived(frame));
                    if frame.from == self.case.nodes {
                        self.sessions[frame.session].is_sending = false;
                        self.wake(frame.session, Wake::Client);
                    }
                }
                Event::Arrived(Frame { session, from, to }) => {
                    self.sessions[session].arrived[to][from] += 1;
                    self.wake(session, Wake::Relay(to));
                    self.wake(session, Wake::Store(to));
                }
            }
            let done = |session: &Session| {
                let places = session.stores.iter().map(|place| place.stripe);
                places.min().unwrap_or(0)
            };
            if self
                .sessions
                .iter()
                .any(|session| done(session) == self.case.objects)
            {
                break;
            }
        }
        let sectors = self.sessions.iter().flat_map(|session| &session.stores);
        let stored = sectors.map(|place| place.stripe as u64 * self.sectors + place.step);
        let stripes = stored.sum::<u64>() as f64 / (self.sectors * self.case.nodes as u64) as f64;
        stripes * self.data_frames as f64 * FRAME_TIME as f64 / self.now as f64
    }

    fn push(&mut self, at: Time, event: Event) {
        self.count += 1;
        self.events.push(Reverse((at, self.count, event)));
    }

    fn wake(&mut self, session: usize, first: Wake) {
        let mut waking = VecDeque::from([first]);
        while let Some(wake) = waking.pop_front() {
            match wake {
                Wake::Client => self.client(session),
                Wake::Relay(node) => self.relay(session, node, &mut waking),
                Wake::Store(node) => self.store(session, node, &mut waking),
            }
        }
    }

    fn has_room(&self, session: usize, from: usize, to: usize) -> bool {
        let ring = self.rings[usize::from(from < self.case.nodes)];
        let session = &self.sessions[session];
        let [relayed, stored] = [0, 1].map(|tail| session.released[tail][to][from]);
        session.sent[to][from] - relayed.min(stored) < ring
    }

    /// Sends the next frame of a client, if its link is free: to each node in turn that has room.
    fn client(&mut self, number: usize) {
        let nodes = self.case.nodes;
        if self.sessions[number].is_sending {
            return;
        }
        if self.sessions[number]
            .unsent
            .iter()
            .all(|&frames| frames == 0)
            && !self.begin(number)
        {
            return;
        }
        for offset in 0..nodes {
            let to = (self.sessions[number].turn + offset) % nodes;
            if self.sessions[number].unsent[to] > 0 && self.has_room(number, nodes, to) {
                let session = &mut self.sessions[number];
                session.turn = to + 1;
                session.unsent[to] -= 1;
                session.sent[to][nodes] += 1;
                session.is_sending = true;
                let frame = Frame {
                    session: number,
                    from: nodes,
                    to,
                };
                self.push(self.now + FRAME_TIME, Event::Left(frame));
                return;
            }
        }
    }

    /// Begins the next stripe, unless there are none left or too many on their way.
    fn begin(&mut self, number: usize) -> bool {
        let nodes = self.case.nodes;
        let session = &mut self.sessions[number];
        let stored = session.stores.iter().map(|place| place.stripe).min();
        let begun = session.stripes.len();
        if begun == self.case.objects || begun - stored.unwrap_or(0) == CLIENT_PUTS {
            return false;
        }
        session.due += self.case.share;
        let plan = usize::from(session.due < 1.0);
        session.due -= if plan == 0 { 1.0 } else { 0.0 };
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let stripe = Stripe {
            plan,
            turn: (self.random >> 20) as usize % nodes,
            bases: session.bases.clone(),
        };
        let plan = &self.plans[plan];
        for (role, part) in plan.parts.iter().enumerate() {
            let to = (role + stripe.turn) % nodes;
            session.unsent[to] = plan.from_client[role] * self.sectors;
            for (from, lags) in part.receives.iter().enumerate() {
                let from = node_of(from, stripe.turn, nodes);
                session.bases[to][from] += lags.len() as u64 * self.sectors;
            }
        }
        session.stripes.push(stripe);
        true
    }

    fn relay(&mut self, number: usize, node: usize, waking: &mut VecDeque<Wake>) {
        let nodes = self.case.nodes;
        loop {
            let session = &self.sessions[number];
            let place = session.relays[node].clone();
            let Some(stripe) = session.stripes.get(place.stripe) else {
                return;
            };
            let part = &self.plans[stripe.plan].parts[(node + nodes - stripe.turn) % nodes];
            let longest = part.longest_lag as u64;
            if let Some(sent) = part.sends.get(place.send) {
                let sector = place.step.checked_sub(sent.lag as u64);
                let to = node_of(sent.to, stripe.turn, nodes);
                if let Some(sector) = sector.filter(|&sector| sector < self.sectors) {
                    let is_there = sent.of.iter().all(|&arrived| {
                        let from = node_of(arrived.from, stripe.turn, nodes);
                        let before = part.number(arrived, sector, self.sectors);
                        session.arrived[node][from] > stripe.bases[node][from] + before
                    });
                    if !is_there || !self.has_room(number, node, to) {
                        return;
                    }
                    self.sessions[number].sent[to][node] += 1;
                    let left = self.egress[node].carry(self.now);
                    let frame = Frame {
                        session: number,
                        from: node,
                        to,
                    };
                    self.push(left, Event::Left(frame));
                }
                self.sessions[number].relays[node].send += 1;
                continue;
            }
            if let Some(done) = place.step.checked_sub(longest)
                && !self.release(number, node, 0, place.stripe, done, waking)
            {
                return;
            }
            let end = self.sectors + longest;
            self.sessions[number].relays[node] = next(&place, end);
        }
    }

    fn store(&mut self, number: usize, node: usize, waking: &mut VecDeque<Wake>) {
        let nodes = self.case.nodes;
        loop {
            let session = &self.sessions[number];
            let place = session.stores[node].clone();
            let Some(stripe) = session.stripes.get(place.stripe) else {
                return;
            };
            let part = &self.plans[stripe.plan].parts[(node + nodes - stripe.turn) % nodes];
            let is_there = part.stores.iter().flatten().all(|&arrived| {
                let from = node_of(arrived.from, stripe.turn, nodes);
                let before = part.number(arrived, place.step, self.sectors);
                session.arrived[node][from] > stripe.bases[node][from] + before
            });
            if !is_there || !self.release(number, node, 1, place.stripe, place.step, waking) {
                return;
            }
            self.sessions[number].stores[node] = next(&place, self.sectors);
            waking.push_back(Wake::Client);
        }
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
        let nodes = self.case.nodes;
        let session = &mut self.sessions[number];
        let stripe = &session.stripes[stripe];
        let part = &self.plans[stripe.plan].parts[(node + nodes - stripe.turn) % nodes];
        let mut ends = Vec::with_capacity(nodes + 1);
        for from in 0..=nodes {
            let step = if sector + 1 == self.sectors {
                self.sectors + part.longest_lag as u64
            } else {
                part.step_of(from, sector + 1)
            };
            let arrived = part.arrived_before(from, step, self.sectors);
            let from = node_of(from, stripe.turn, nodes);
            let end = stripe.bases[node][from] + arrived;
            if arrived > 0 && session.arrived[node][from] < end {
                return false;
            }
            ends.push((from, end));
        }
        for (from, end) in ends {
            let released = &mut session.released[tail][node][from];
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

    fn goodput(clients: usize, kind: Kind) -> f64 {
        let case = Case {
            nodes: 5,
            clients,
            kind,
            share: 1.0,
            object: 8 << 20,
            objects: 6,
        };
        case.goodput().unwrap()
    }

    #[test]
    fn one_client_comes_near_its_link_and_many_near_those_of_the_nodes() {
        let near = |value: f64, bound: f64| (0.8..=1.01).contains(&(value / bound));
        assert!(near(goodput(1, Kind::Direct), 0.6));
        assert!(near(goodput(1, Kind::Coded), 1.0));
        // 28 of 60 blocks go to each node.
        let many = goodput(4, Kind::Coded);
        assert!(near(many, 60.0 / 28.0), "{many}");
    }
}
