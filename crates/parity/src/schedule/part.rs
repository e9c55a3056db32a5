//! One role's share of a schedule: the form that a node works by.
//!
//! A stripe goes sector by sector, in *steps*: each transfer sends once a step. If transfers made
//! of arrived cells belonged to the same sector as these, a step would take as long as the longest
//! sequence of transfers that wait for one another. So transfers *lag*: a transfer of lag 2 sends,
//! in a step, its part of the sector of two steps before.

use std::ops::Range;

use super::transfer::{Node, Schedule};
use crate::Layout;

/// The sectors of a stripe, each of which goes by one of several schedules. So the stripe puts on
/// the links what none of these puts on them alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sectors {
    /// For each schedule, how many of the sectors before go by it: for the first sector, the next,
    /// and so on, and behind the last.
    before: Vec<Vec<u64>>,
}

impl Sectors {
    /// So many sectors, by one schedule.
    pub fn alike(count: u64) -> Self {
        Self {
            before: vec![(0..=count).collect()],
        }
    }

    /// A sector for each of these numbers of schedules, of which there are so many.
    ///
    /// # Panics
    /// If there is no such schedule.
    pub fn mixed(numbers: &[usize], schedules: usize) -> Self {
        assert!(numbers.iter().all(|&number| number < schedules));
        let of_schedule = |schedule| {
            let mut before = 0;
            let counted = numbers.iter().map(|&number| {
                before += u64::from(number == schedule);
                before
            });
            std::iter::once(0).chain(counted).collect()
        };
        Self {
            before: (0..schedules).map(of_schedule).collect(),
        }
    }

    /// How many they are.
    pub fn count(&self) -> u64 {
        self.before[0].len() as u64 - 1
    }

    /// The number of the schedule that a sector goes by; `None` behind the last sector.
    pub fn schedule(&self, sector: u64) -> Option<usize> {
        let at = sector as usize;
        let goes_by = |before: &Vec<u64>| before.get(at + 1).is_some_and(|&n| n > before[at]);
        self.before.iter().position(goes_by)
    }

    /// How many of the sectors before this one go by a schedule.
    fn before(&self, schedule: usize, sector: u64) -> u64 {
        self.before[schedule][sector.min(self.count()) as usize]
    }
}

/// One role's receives, sends and stores for every stripe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The transfers that arrive from each role, in the order in which they are sent, and behind
    /// them, in the last place, those from the client, which have no lag.
    pub receives: Vec<Vec<Received>>,
    /// The transfers that it sends, in the order in which they are possible.
    pub sends: Vec<Sent>,
    /// For each schedule and each of its cells, by row, what arrived and adds up to it.
    pub stores: Vec<Vec<Vec<Arrived>>>,
    /// The longest lag of the schedules.
    pub longest_lag: usize,
}

/// A transfer from another role or the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The number of its schedule: it comes once for each sector that goes by this one.
    pub schedule: usize,
    /// By how many sectors it is behind what the client sends.
    pub lag: usize,
}

/// A transfer to another role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The number of its schedule.
    pub schedule: usize,
    /// The role to which it goes.
    pub to: usize,
    /// By how many sectors it is behind what the client sends.
    pub lag: usize,
    /// Arrived transfers whose sum it is.
    pub of: Vec<Arrived>,
}

/// A transfer that arrives at the role in question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The role that sends; the number of roles stands for the client.
    pub from: usize,
    /// Number of the transfer among all from this role, in the order of sending.
    pub index: usize,
}

impl Part {
    /// What a role does in stripes whose sectors go by these schedules, which
    /// [`Schedule::verify`] accepts. Those who send and who receive have to agree on the schedules'
    /// order, and on `lag_max`, the longest lag that there may be.
    pub fn new(schedules: &[Schedule], layout: &Layout, role: usize, lag_max: usize) -> Self {
        let mut part = Self {
            receives: vec![Vec::new(); layout.roles() + 1],
            sends: Vec::new(),
            stores: Vec::new(),
            longest_lag: 0,
        };
        for schedule in schedules {
            part.add(schedule, layout, role, lag_max);
        }
        part
    }

    fn add(&mut self, added: &Schedule, layout: &Layout, role: usize, lag_max: usize) {
        let (schedule, lags) = (self.stores.len(), added.lags(lag_max));
        let mut arrived = vec![None; added.transfers.len()];
        let sum = |arrived: &[Option<Arrived>], of: &[usize]| {
            let of = of.iter().map(|&number| arrived[number]);
            of.map(|arrived| arrived.expect("a schedule that was verified"))
                .collect()
        };
        for (number, transfer) in added.transfers.iter().enumerate() {
            let lag = lags[number];
            if transfer.from == Node::Role(role) {
                let (to, of) = (transfer.to, sum(&arrived, &transfer.of));
                self.sends.push(Sent {
                    schedule,
                    to,
                    lag,
                    of,
                });
            }
            if transfer.to == role {
                let from = match transfer.from {
                    Node::Client => layout.roles(),
                    Node::Role(from) => from,
                };
                let index = self.receives[from].len();
                self.receives[from].push(Received { schedule, lag });
                arrived[number] = Some(Arrived { from, index });
            }
        }
        let cells = layout.cells_of_role(role);
        let stores = cells.map(|cell| sum(&arrived, &added.stores[cell]));
        self.stores.push(stores.collect());
        self.longest_lag = lags.into_iter().fold(self.longest_lag, usize::max);
    }

    /// How many steps a stripe takes.
    pub fn steps(&self, sectors: &Sectors) -> u64 {
        sectors.count() + self.longest_lag as u64
    }

    /// How many of a stripe's transfers arrive from `from` (a role, or the number of roles for the
    /// client).
    pub fn arrivals(&self, from: usize, sectors: &Sectors) -> u64 {
        self.count(from, sectors, |_| self.steps(sectors))
    }

    /// The transfers from there, by their numbers in the stripe, that are needed up to this sector
    /// and no longer; empty if there are none.
    pub fn spent(&self, from: usize, sector: u64, sectors: &Sectors) -> Range<u64> {
        let lags = self.receives[from].iter().map(|transfer| transfer.lag);
        let least = lags.min().unwrap_or(0) as u64;
        // What is sent before the first of a sector is all of sectors before.
        let needed_from = |sector| {
            if sector == sectors.count() {
                self.arrivals(from, sectors)
            } else {
                self.count(from, sectors, |_| sector + least)
            }
        };
        needed_from(sector)..needed_from(sector + 1)
    }

    /// How many of a stripe's transfers arrive before this one of a sector, from where it comes.
    pub fn number(&self, arrived: Arrived, sector: u64, sectors: &Sectors) -> u64 {
        let step = sector + self.receives[arrived.from][arrived.index].lag as u64;
        let before = |index| step + u64::from(index < arrived.index);
        self.count(arrived.from, sectors, before)
    }

    /// How many arrive, where of the transfer of each index those do that are sent before a step.
    fn count(&self, from: usize, sectors: &Sectors, before: impl Fn(usize) -> u64) -> u64 {
        let transfers = self.receives[from].iter().enumerate();
        transfers
            .map(|(index, &Received { schedule, lag })| {
                sectors.before(schedule, before(index).saturating_sub(lag as u64))
            })
            .sum()
    }
}

impl Schedule {
    /// The lag of each transfer behind the client's, in sectors: the number of nodes in front of
    /// its sender that it waits for, scaled down to `lag_max` at most.
    fn lags(&self, lag_max: usize) -> Vec<usize> {
        let mut depths: Vec<usize> = Vec::with_capacity(self.transfers.len());
        for transfer in &self.transfers {
            depths.push(match transfer.from {
                Node::Client => 0,
                Node::Role(_) => {
                    let earlier = transfer.of.iter().map(|&earlier| depths[earlier]);
                    1 + earlier.max().unwrap_or(0)
                }
            });
        }
        let deepest = depths.iter().copied().max().unwrap_or(0).saturating_sub(1);
        let lags = depths.into_iter().map(|depth| {
            let behind = depth.saturating_sub(1);
            if deepest <= lag_max {
                behind
            } else {
                behind * lag_max / deepest
            }
        });
        lags.collect()
    }

    /// The cells that the client sends to a role, in that order. All that the client sends are
    /// whole cells of the role that it sends them to.
    pub fn cells_from_client(&self, layout: &Layout, role: usize) -> Vec<usize> {
        let is_whole = |number: usize, cell: &usize| self.stores[*cell] == [number];
        let transfers = self.transfers.iter().enumerate();
        let from_client =
            transfers.filter(|(_, transfer)| transfer.from == Node::Client && transfer.to == role);
        let cells = from_client.filter_map(|(number, _)| {
            let mut cells = layout.cells_of_role(role);
            cells.find(|cell| is_whole(number, cell))
        });
        cells.collect()
    }
}
