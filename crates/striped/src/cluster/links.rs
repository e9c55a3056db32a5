//! Estimates how many bytes a second the links of a client and its nodes carry, from what flows
//! through them.
//!
//! A flow is *behind* when its sender finds that earlier bytes have not left yet: then the link of
//! its sender or that of its receiver is full. A client sends in bursts, and waits for the slowest
//! node between them. So of its own flows counts for how much of the time bytes have not left, and
//! its link is full only if it carries nearly as much as in a burst. Of several links that could be
//! full, the one with the most bytes behind is at fault: it makes others wait, and these are not
//! behind. Of links that were never at fault it is only known that they carry what they did; they
//! are taken for as fast as the fastest.

use std::collections::BTreeMap;
use std::time::Duration;

use super::optimum::Rates;
use super::wire::{FlowUsage, Usage};

/// Time over which rates are measured at least.
const WINDOW_MIN: Duration = Duration::from_millis(120);

/// A flow between nodes is behind if at least this share of its bytes is.
const BEHIND_SHARE_MIN: f64 = 0.5;

/// A flow of the client is behind if bytes have not left for at least this share of the time.
const WAITING_SHARE_MIN: f64 = 0.75;

/// A link may be full if it carries at least this share of its peak.
const FULL_SHARE: f64 = 0.75;

/// Time over which the peak of the client's link is measured at least, in microseconds.
const BURST_MIN_US: u64 = 60_000;

/// What is left of a peak after a second.
const PEAK_LEFT_PER_SECOND: f64 = 0.8;

/// With so few bytes in a window, nothing is said about a link.
const BYTES_MIN: f64 = 32.0 * 1024.0;

/// A link that carries this share of its supposed rate without being at fault may carry more.
const USED_SHARE: f64 = 0.9;

/// How much more, each time.
const RISE: f64 = 1.1;

/// By how much a supposed rate rises in a second anyway, so that a link that is faster now is
/// found.
const RISE_PER_SECOND: f64 = 0.01;

/// A link that was never at fault is taken for so many times as fast as the fastest that was seen.
const HOPE: f64 = 2.0;

/// Weight of the latest measurement of a link that is at fault.
const LATEST_WEIGHT: f64 = 0.5;

/// What is known of the links of a client and of its nodes.
#[derive(Debug)]
pub struct Links {
    /// What nodes knew when the last window ended, and the client, at the end.
    last: Vec<Usage>,
    /// The links from the client, to each node, and from each node.
    client: Known,
    ingress: Vec<Known>,
    egress: Vec<Known>,
    /// What others put on the links to and from each node.
    others_in: Vec<f64>,
    others_out: Vec<f64>,
    /// The highest rate seen on any link.
    fastest: f64,
    clients: u16,
    own: Own,
}

/// What a client has seen of its own flows since the last window.
#[derive(Clone, Debug, Default)]
struct Own {
    /// When it looked first and last, in microseconds.
    begun_us: u64,
    at_us: u64,
    /// For how long bytes to each node had not left, in microseconds.
    waited_us: Vec<u64>,
    /// When the present burst began, and what had arrived then.
    burst: (u64, u64),
    /// The most bytes a second that arrived in a burst.
    peak: f64,
}

impl Own {
    /// Of the time since the last window, for how much bytes to a node had not left.
    fn waiting_share(&self, node: usize) -> f64 {
        let waited = self.waited_us.get(node).copied().unwrap_or(0);
        waited as f64 / self.at_us.saturating_sub(self.begun_us).max(1) as f64
    }

    fn look(&mut self, at_us: u64, arrived: u64, is_waiting: impl Iterator<Item = bool>) {
        let since = at_us.saturating_sub(self.at_us);
        let is_first = self.at_us == 0;
        self.at_us = at_us;
        let waiting: Vec<bool> = is_waiting.collect();
        self.waited_us.resize(waiting.len(), 0);
        if is_first {
            (self.begun_us, self.burst) = (at_us, (at_us, arrived));
            return;
        }
        for (waited, _) in self.waited_us.iter_mut().zip(waiting).filter(|(_, is)| *is) {
            *waited += since;
        }
        let (begun, before) = self.burst;
        if at_us >= begun + BURST_MIN_US {
            let rate = arrived.saturating_sub(before) as f64 / (at_us - begun) as f64 * 1e6;
            self.peak = self.peak.max(rate);
            self.burst = (at_us, arrived);
        }
    }

    /// Begins the next window.
    fn restart(&mut self) {
        self.begun_us = self.at_us;
        self.waited_us.fill(0);
        self.peak = 0.0;
    }
}

/// What is known of a link, in bytes a second.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// The supposed rate, if the link was at fault.
    rate: Option<f64>,
    /// The most that it has carried of late.
    peak: f64,
}

impl Known {
    /// It has carried so much at most in a window of so many seconds.
    fn see(&mut self, most: f64, window: f64) {
        self.peak = most.max(self.peak * PEAK_LEFT_PER_SECOND.powf(window));
    }

    fn is_full(&self, carried: f64) -> bool {
        carried >= FULL_SHARE * self.peak
    }

    /// It was at fault, or not, in a window of so many seconds, in which it has carried so much.
    fn judge(&mut self, is_at_fault: bool, carried: f64, window: f64) {
        self.rate = match self.rate {
            rate if !is_at_fault => rate.map(|rate| {
                let may_rise = carried >= USED_SHARE * rate;
                let rise = if may_rise {
                    RISE
                } else {
                    1.0 + RISE_PER_SECOND * window
                };
                (rate * rise).max(carried)
            }),
            None => Some(carried),
            Some(rate) => Some(rate + (carried - rate) * LATEST_WEIGHT),
        };
    }
}

/// A link, as a set of flows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Link {
    /// From a member; the client comes behind the nodes.
    From(usize),
    /// To a node.
    To(usize),
}

impl Links {
    /// Nothing is known of the links of so many nodes.
    pub fn new(nodes: usize) -> Self {
        Self {
            last: Vec::new(),
            client: Known::default(),
            ingress: vec![Known::default(); nodes],
            egress: vec![Known::default(); nodes],
            others_in: vec![0.0; nodes],
            others_out: vec![0.0; nodes],
            fastest: 0.0,
            clients: 1,
            own: Own::default(),
        }
    }

    /// Looks at the client's own flows at this time of its clock, in microseconds: how much has
    /// arrived at all nodes, and to which of them bytes have not left yet. Many times a window.
    pub fn look(&mut self, at_us: u64, arrived: u64, is_waiting: impl Iterator<Item = bool>) {
        self.own.look(at_us, arrived, is_waiting);
    }

    /// Begins to count anew, since a new session does.
    pub fn restart(&mut self, clients: u16) {
        self.last.clear();
        self.own = Own::default();
        self.clients = clients;
    }

    /// What the links carry for this client.
    pub fn rates(&self) -> Rates {
        let is_known = self.fastest > 0.0;
        let fastest = if is_known { HOPE * self.fastest } else { 1.0 };
        let clients = f64::from(self.clients.max(1));
        let left = |link: &Known, others: &f64| {
            let rate = link.rate.unwrap_or(fastest);
            // Until something is known, each client is taken to have its share.
            let share = rate / clients;
            if is_known {
                (rate - others).max(share)
            } else {
                share
            }
        };
        let of_nodes = |links: &[Known], others: &[f64]| {
            let links = links.iter().zip(others);
            links.map(|(link, others)| left(link, others)).collect()
        };
        Rates {
            client: self.client.rate.unwrap_or(fastest),
            ingress: of_nodes(&self.ingress, &self.others_in),
            egress: of_nodes(&self.egress, &self.others_out),
        }
    }

    /// Learns what all nodes and the client, at the end, know now. Returns whether a window has
    /// ended.
    pub fn learn(&mut self, now: &[Usage]) -> bool {
        let nodes = self.ingress.len();
        debug_assert!(now.len() == nodes + 1);
        if self.last.is_empty() {
            self.last = now.to_vec();
            return false;
        }
        let windows: Vec<f64> = now
            .iter()
            .zip(&self.last)
            .map(|(now, last)| now.at_us.saturating_sub(last.at_us) as f64 * 1e-6)
            .collect();
        if windows
            .iter()
            .any(|&window| window < WINDOW_MIN.as_secs_f64())
        {
            return false;
        }
        let since = |member: usize, of: &dyn Fn(&Usage) -> u64| {
            let (now, last) = (of(&now[member]), of(&self.last[member]));
            now.saturating_sub(last) as f64 / windows[member]
        };
        let flow = |from: usize, to: usize, of: &dyn Fn(&FlowUsage) -> u64| {
            since(from, &|usage| usage.flows.get(to).map_or(0, of))
        };
        let table = |of: &dyn Fn(&FlowUsage) -> u64| -> Vec<Vec<f64>> {
            let row = |from| (0..nodes).map(|to| flow(from, to, of)).collect();
            (0..=nodes).map(row).collect()
        };
        let sent = table(&|flow| flow.sent);
        let arrived = table(&|flow| flow.arrived);
        let mut behind = table(&|flow| flow.behind);
        let into = |table: &[Vec<f64>], to: usize| -> f64 { table.iter().map(|row| row[to]).sum() };
        let out_of = |table: &[Vec<f64>], from: usize| -> f64 { table[from].iter().sum() };

        let window = windows[nodes];
        for (from, row) in behind.iter_mut().enumerate() {
            for (to, bytes) in row.iter_mut().enumerate() {
                let is_behind = match from {
                    _ if from == nodes => self.own.waiting_share(to) >= WAITING_SHARE_MIN,
                    _ => *bytes >= BEHIND_SHARE_MIN * sent[from][to],
                };
                *bytes = if is_behind { sent[from][to] } else { 0.0 };
            }
        }
        let mut carried = BTreeMap::from([(Link::From(nodes), out_of(&arrived, nodes))]);
        for node in 0..nodes {
            let own = (into(&arrived, node), out_of(&arrived, node));
            let received = since(node, &|usage| usage.received_bytes).max(own.0);
            let sent = since(node, &|usage| usage.sent_bytes).max(own.1);
            self.others_in[node] = received - own.0;
            self.others_out[node] = sent - own.1;
            carried.extend([(Link::To(node), received), (Link::From(node), sent)]);
        }
        let mut full = Vec::new();
        for (&link, &carried) in &carried {
            self.fastest = self.fastest.max(carried);
            let burst = match link {
                Link::From(from) if from == nodes => self.own.peak,
                _ => 0.0,
            };
            let known = self.known(link);
            known.see(carried.max(burst), window);
            if known.is_full(carried) {
                full.push(link);
            }
        }

        let mut at_fault = Vec::new();
        loop {
            let behind_on = |link: Link| match link {
                Link::From(from) => out_of(&behind, from),
                Link::To(to) => into(&behind, to),
            };
            let could_be = carried.keys().copied();
            let could_be = could_be.filter(|&link| behind_on(link) * window >= BYTES_MIN);
            let worst = could_be.max_by(|a, b| {
                let is_full = [a, b].map(|link| full.contains(link));
                let bytes = [a, b].map(|link| behind_on(*link));
                is_full[0]
                    .cmp(&is_full[1])
                    .then(bytes[0].total_cmp(&bytes[1]))
            });
            let Some(link) = worst else { break };
            at_fault.push(link);
            match link {
                Link::From(from) => behind[from].fill(0.0),
                Link::To(to) => behind.iter_mut().for_each(|row| row[to] = 0.0),
            }
        }
        for (link, carried) in carried {
            let is_at_fault = at_fault.contains(&link);
            self.known(link).judge(is_at_fault, carried, window);
        }
        let fastest = self.fastest;
        let of_nodes = self.ingress.iter_mut().chain(&mut self.egress);
        for link in of_nodes.chain([&mut self.client]) {
            // As good as unknown.
            link.rate = link.rate.filter(|&rate| rate < HOPE * fastest);
        }
        self.clients = now.iter().map(|usage| usage.clients).max().unwrap_or(1);
        self.last = now.to_vec();
        self.own.restart();
        true
    }

    fn known(&mut self, link: Link) -> &mut Known {
        match link {
            Link::To(node) => &mut self.ingress[node],
            Link::From(node) if node < self.egress.len() => &mut self.egress[node],
            Link::From(_) => &mut self.client,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::optimum::{Choice, Loads, Mixture};
    use super::*;
    use tabane_parity::Layout;
    use tabane_parity::schedule::Node;

    /// Links of these rates; each link carries what it can, and what is more is behind.
    struct Fluid {
        layout: Layout,
        rates: Rates,
        usages: Vec<Usage>,
        /// To which nodes the client's bytes wait.
        waiting: Vec<bool>,
    }

    impl Fluid {
        fn new(client: f64, nodes: &[f64]) -> Self {
            let count = nodes.len();
            let usage = || Usage {
                at_us: 1,
                clients: 1,
                flows: vec![FlowUsage::default(); count],
                ..Usage::default()
            };
            Self {
                layout: Layout::new(count).unwrap(),
                rates: Rates {
                    client: client * 1e8,
                    ingress: nodes.iter().map(|rate| rate * 1e8).collect(),
                    egress: nodes.iter().map(|rate| rate * 1e8).collect(),
                },
                usages: (0..=count).map(|_| usage()).collect(),
                waiting: vec![false; count],
            }
        }

        fn tell(&self, links: &mut Links) {
            let client = self.usages.last().unwrap();
            let arrived = client.flows.iter().map(|flow| flow.arrived).sum();
            links.look(client.at_us, arrived, self.waiting.iter().copied());
            links.learn(&self.usages);
        }

        /// What a byte of data puts on the way from each member to each node.
        fn loads(&self, choice: Choice) -> Vec<Vec<f64>> {
            let nodes = self.layout.roles();
            let schedule = choice.kind.schedule(&self.layout).unwrap();
            let turns: Vec<usize> = choice.turn.map_or((0..nodes).collect(), |turn| vec![turn]);
            let each = 1.0 / (self.layout.data_cells().len() * turns.len()) as f64;
            let mut loads = vec![vec![0.0; nodes]; nodes + 1];
            for turn in turns {
                for transfer in &schedule.transfers {
                    let from = match transfer.from {
                        Node::Client => nodes,
                        Node::Role(role) => (role + turn) % nodes,
                    };
                    loads[from][(transfer.to + turn) % nodes] += each;
                }
            }
            loads
        }

        /// Sends by a mixture for a while; returns bytes of data a second.
        fn send(&mut self, mixture: &Mixture, seconds: f64) -> f64 {
            let nodes = self.layout.roles();
            let mut load = vec![vec![0.0; nodes]; nodes + 1];
            for (choice, share) in &mixture.shares {
                for (row, more) in load.iter_mut().zip(self.loads(*choice)) {
                    row.iter_mut()
                        .zip(more)
                        .for_each(|(sum, more)| *sum += share * more);
                }
            }
            let into = |to: usize| load.iter().map(|row| row[to]).sum::<f64>();
            let rate_out = |from: usize| match self.rates.egress.get(from) {
                Some(rate) => *rate,
                None => self.rates.client,
            };
            let out = |from: usize| rate_out(from) / load[from].iter().sum::<f64>().max(1e-9);
            let limits = (0..=nodes).map(out);
            let limits = limits.chain((0..nodes).map(|to| self.rates.ingress[to] / into(to)));
            let rate = limits.fold(f64::INFINITY, f64::min);
            let is_full = |limit: f64| limit < rate * 1.02;
            for (from, row) in load.iter().enumerate() {
                let usage = &mut self.usages[from];
                usage.at_us += (seconds * 1e6) as u64;
                for (to, load) in row.iter().enumerate() {
                    let bytes = (load * rate * seconds) as u64;
                    let flow = &mut usage.flows[to];
                    flow.sent += bytes;
                    flow.arrived += bytes;
                    let is_behind =
                        is_full(out(from)) || is_full(self.rates.ingress[to] / into(to));
                    flow.behind += bytes * u64::from(is_behind);
                    if from == nodes {
                        self.waiting[to] = is_behind;
                    }
                }
            }
            rate
        }

        /// What is sent, of what could be, after so many windows of a sixth of a second.
        fn learn(&mut self, windows: usize) -> f64 {
            let loads = Loads::new(&self.layout);
            let mut links = Links::new(self.layout.roles());
            self.tell(&mut links);
            let mut mixture = loads.best(&links.rates(), true);
            for _ in 0..windows {
                self.send(&mixture, 0.15);
                self.tell(&mut links);
                mixture = loads.best(&links.rates(), true);
            }
            // Rates that are supposed rise until a link is at fault again: the mean counts.
            let sum: f64 = (0..20)
                .map(|_| {
                    let rate = self.send(&mixture, 0.15);
                    self.tell(&mut links);
                    mixture = loads.best(&links.rates(), true);
                    rate
                })
                .sum();
            sum / 20.0 / loads.best(&self.rates, true).rate
        }
    }

    #[test]
    fn unequal_links_are_learnt_in_a_second() {
        let cases: [(f64, &[f64]); 10] = [
            (1.0, &[1.0; 5]),
            (1.0, &[1.0, 1.0, 0.25, 1.0, 1.0]),
            (1.0, &[1.0, 0.05, 1.0, 1.0, 1.0]),
            (2.0, &[1.0; 5]),
            (0.5, &[1.0; 5]),
            (1.0, &[1.0, 1.0, 1.0, 0.5, 0.5]),
            (1.0, &[0.25, 0.25, 1.0, 1.0, 1.0]),
            (1.0, &[1.0, 1.0, 1.0, 0.3]),
            (1.0, &[1.0, 1.0, 1.0, 1.0, 1.0, 0.2, 0.2]),
            (3.0, &[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5]),
        ];
        for (client, nodes) in cases {
            let reached = Fluid::new(client, nodes).learn(6);
            assert!(reached > 0.9, "{client} {nodes:?}: {reached}");
        }
    }

    #[test]
    fn a_link_that_is_slow_no_more_is_found() {
        let mut fluid = Fluid::new(1.0, &[1.0, 1.0, 0.05, 1.0, 1.0]);
        let loads = Loads::new(&fluid.layout);
        let mut links = Links::new(5);
        fluid.tell(&mut links);
        let mut rate = 0.0;
        for window in 0..100 {
            if window == 20 {
                fluid.rates.ingress[2] = 1e8;
                fluid.rates.egress[2] = 1e8;
            }
            rate = fluid.send(&loads.best(&links.rates(), true), 0.15);
            fluid.tell(&mut links);
        }
        assert!(rate > 0.95e8, "{rate}");
    }

    #[test]
    fn waiting_counts_by_time_and_a_burst_over_its_least_length() {
        let mut own = Own::default();
        own.look(1_000_000, 500, [true, false].into_iter());
        own.look(1_030_000, 300_500, [true, false].into_iter());
        assert_eq!(own.peak, 0.0, "too short for a burst");
        assert_eq!((own.waiting_share(0), own.waiting_share(1)), (1.0, 0.0));
        own.look(1_060_000, 600_500, [false, true].into_iter());
        assert_eq!(own.peak, 1e7);
        assert_eq!((own.waiting_share(0), own.waiting_share(1)), (0.5, 0.5));
        own.look(1_120_000, 660_500, [false, false].into_iter());
        assert_eq!(own.peak, 1e7, "it was more before");
        assert_eq!((own.waiting_share(0), own.waiting_share(2)), (0.25, 0.0));
        own.restart();
        assert_eq!((own.peak, own.waiting_share(0)), (0.0, 0.0));
        own.look(1_180_000, 960_500, [false, true].into_iter());
        assert_eq!((own.peak, own.waiting_share(1)), (5e6, 1.0));
    }

    #[test]
    fn a_peak_fades_and_a_supposed_rate_rises() {
        let mut known = Known::default();
        known.see(100.0, 1.0);
        assert!(known.is_full(75.0) && !known.is_full(74.9));
        known.see(10.0, 2.0);
        assert!((known.peak - 64.0).abs() < 1e-9, "{known:?}");
        known.see(80.0, 1.0);
        assert_eq!(known.peak, 80.0);
        let mut judge = |is_at_fault, carried, window| {
            known.judge(is_at_fault, carried, window);
            known.rate.map(|rate| (rate * 1000.0).round() / 1000.0)
        };
        assert_eq!(judge(false, 50.0, 1.0), None);
        assert_eq!(judge(true, 40.0, 1.0), Some(40.0));
        assert_eq!(judge(true, 20.0, 1.0), Some(30.0));
        assert_eq!(judge(false, 27.0, 1.0), Some(33.0), "it may carry more");
        assert_eq!(judge(false, 10.0, 2.0), Some(33.66));
        assert_eq!(judge(false, 50.0, 1.0), Some(50.0));
    }

    /// What three nodes and the client know after so many windows of 150 ms, in which each flow of
    /// `flows` (from, to) has carried a MB, and the members have received and sent so many MB.
    fn after(window: u64, flows: &[(usize, usize)], received: u64, sent: u64) -> Vec<Usage> {
        let bytes = window * 1_000_000;
        let mut all: Vec<Usage> = (0..4)
            .map(|_| Usage {
                at_us: window * 150_000,
                clients: 2,
                received_bytes: received * bytes,
                sent_bytes: sent * bytes,
                flows: vec![FlowUsage::default(); 3],
            })
            .collect();
        for &(from, to) in flows {
            all[from].flows[to] = FlowUsage {
                sent: bytes,
                behind: if from == 3 { 0 } else { bytes },
                arrived: bytes,
            };
        }
        all
    }

    /// A client waits for two nodes all the time, and sends nothing for more than half of it: not
    /// its own link is full.
    #[test]
    fn the_link_of_a_client_is_full_if_it_carries_as_much_as_in_a_burst() {
        const A_WINDOW: f64 = 0.15;
        let mut links = Links::new(3);
        let flows = [(3, 0), (3, 1), (3, 2)];
        assert!(!links.learn(&after(0, &flows, 0, 0)));
        let mut short = after(1, &flows, 0, 0);
        short[2].at_us = WINDOW_MIN.as_micros() as u64 - 1;
        assert!(!links.learn(&short), "one window is too short");
        for (at_us, arrived) in [(1, 0), (60_001, 3_000_000), (150_001, 3_000_000)] {
            links.look(at_us, arrived, [true, true, false].into_iter());
        }
        assert!(links.learn(&after(1, &flows, 0, 0)));
        let rates = links.rates();
        // Of the third node nothing is known.
        let (node, unknown) = (1e6 / A_WINDOW, HOPE * 3e6 / A_WINDOW);
        let near = |rate: f64, expected: f64| (rate / expected - 1.0).abs() < 1e-3;
        assert!(near(rates.client, unknown), "{rates:?}");
        let expected = [node, node, unknown];
        let mut all = rates.ingress.iter().zip(expected);
        assert!(
            all.all(|(rate, expected)| near(*rate, expected)),
            "{rates:?}"
        );
    }

    /// What others put on a link is not left for this client.
    #[test]
    fn others_are_taken_from_what_a_link_carries() {
        let rates = |flows: &[(usize, usize)], received, sent| {
            let mut links = Links::new(3);
            links.learn(&after(0, flows, 0, 0));
            assert!(links.learn(&after(1, flows, received, sent)));
            links.rates()
        };
        let megabytes = |rate: f64| (rate * 0.15 / 1e6 * 100.0).round() / 100.0;
        // Two of three MB into node 1 are this client's, more than half.
        let into = rates(&[(0, 1), (2, 1)], 3, 1);
        assert_eq!(megabytes(into.ingress[1]), 2.0);
        let out = rates(&[(0, 1), (0, 2)], 1, 3);
        assert_eq!(megabytes(out.egress[0]), 2.0);
        // Less than half of them: it may have half.
        let into = rates(&[(0, 1), (2, 1)], 8, 1);
        assert_eq!(megabytes(into.ingress[1]), 4.0);
    }

    /// Others that write as much leave each its share.
    #[test]
    fn several_clients_share_links() {
        let mut links = Links::new(5);
        let usage = |window: u64| -> Vec<Usage> {
            let bytes = window * 1_000_000;
            let of_node = Usage {
                at_us: window * 150_000,
                clients: 3,
                received_bytes: bytes * 6,
                sent_bytes: bytes * 3,
                flows: vec![
                    FlowUsage {
                        sent: bytes / 4,
                        behind: bytes / 4,
                        arrived: bytes / 4
                    };
                    5
                ],
            };
            let mut all = vec![of_node; 6];
            all[5].flows.fill(FlowUsage {
                sent: bytes,
                behind: 0,
                arrived: bytes,
            });
            all
        };
        for window in 0..4 {
            links.learn(&usage(window));
        }
        let rates = links.rates();
        // Six MB each 150 ms are all that goes in, two of them for each client.
        let expected = 2e6 / 0.15;
        for rate in rates.ingress {
            assert!((rate / expected - 1.0).abs() < 0.2, "{rate} {expected}");
        }
    }
}
