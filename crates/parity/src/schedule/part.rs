//! One role's share of a schedule: the form that a node works by.
//!
//! A stripe goes sector by sector, in *steps*: each transfer sends once a step. If transfers made
//! of arrived cells belonged to the same sector as these, a step would take as long as the longest
//! sequence of transfers that wait for one another. So transfers *lag*: a transfer of lag 2 sends,
//! in a step, its part of the sector of two steps before.

use super::transfer::{Node, Schedule};
use crate::Layout;

/// One role's receives, sends and stores for every stripe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The lags of the transfers that arrive from each role, in the order in which they are sent,
    /// and behind them, in the last place, of those from the client, which have none.
    pub receives: Vec<Vec<usize>>,
    /// The transfers that it sends, in the order in which they are possible.
    pub sends: Vec<Sent>,
    /// For each of its cells, by row, what arrived and adds up to it.
    pub stores: Vec<Vec<Arrived>>,
    /// The longest lag of the whole schedule.
    pub longest_lag: usize,
}

/// A transfer to another role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
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
    /// Number of transfers that have arrived from `from` (a role, or the number of roles for the
    /// client) before a step, in a stripe of `sectors` sectors.
    pub fn arrived_before(&self, from: usize, step: u64, sectors: u64) -> u64 {
        self.count(from, sectors, |_| step)
    }

    /// How many of a stripe's transfers arrive before this one of a sector, from where it comes.
    pub fn number(&self, arrived: Arrived, sector: u64, sectors: u64) -> u64 {
        let step = sector + self.receives[arrived.from][arrived.index] as u64;
        let before = |index| step + u64::from(index < arrived.index);
        self.count(arrived.from, sectors, before)
    }

    /// How many arrive, where of the transfer of each index those do that are sent before a step.
    fn count(&self, from: usize, sectors: u64, before: impl Fn(usize) -> u64) -> u64 {
        let lags = self.receives[from].iter().enumerate();
        lags.map(|(index, &lag)| before(index).saturating_sub(lag as u64).min(sectors))
            .sum()
    }

    /// The first step in which something of a sector is sent from there: all that comes before is
    /// of sectors before.
    pub fn step_of(&self, from: usize, sector: u64) -> u64 {
        let least = self.receives[from].iter().copied().min().unwrap_or(0);
        sector + least as u64
    }
}

impl Schedule {
    /// What a role does. The schedule is one that [`Schedule::verify`] accepts. Those who send and
    /// who receive have to agree on `lag_max`, the longest lag that there may be.
    pub fn part(&self, layout: &Layout, role: usize, lag_max: usize) -> Part {
        let lags = self.lags(lag_max);
        let mut receives = vec![Vec::new(); layout.roles() + 1];
        let mut arrived = vec![None; self.transfers.len()];
        let mut sends = Vec::new();
        let sum = |arrived: &[Option<Arrived>], of: &[usize]| {
            let of = of.iter().map(|&number| arrived[number]);
            of.map(|arrived| arrived.expect("a schedule that was verified"))
                .collect()
        };
        for (number, transfer) in self.transfers.iter().enumerate() {
            if transfer.from == Node::Role(role) {
                let of = sum(&arrived, &transfer.of);
                sends.push(Sent {
                    to: transfer.to,
                    lag: lags[number],
                    of,
                });
            }
            if transfer.to == role {
                let from = match transfer.from {
                    Node::Client => layout.roles(),
                    Node::Role(from) => from,
                };
                let index = receives[from].len();
                receives[from].push(lags[number]);
                arrived[number] = Some(Arrived { from, index });
            }
        }
        let cells = layout.cells_of_role(role);
        Part {
            receives,
            sends,
            stores: cells
                .map(|cell| sum(&arrived, &self.stores[cell]))
                .collect(),
            longest_lag: lags.into_iter().max().unwrap_or(0),
        }
    }

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
