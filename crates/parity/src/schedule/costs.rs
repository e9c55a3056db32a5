//! Costs of a schedule.

use super::transfer::{Node, Schedule};
use crate::Layout;

/// Costs of a stripe, in blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Data blocks of the stripe.
    pub data: usize,
    /// Blocks that the client sends.
    pub client: usize,
    /// Blocks that nodes send to nodes.
    pub transfers: usize,
    /// Blocks that each role receives, including those from the client.
    pub ingress: Vec<usize>,
    /// Blocks that each role sends.
    pub egress: Vec<usize>,
    /// Exclusive ors of two blocks that nodes compute.
    pub xors: usize,
    /// Transfers in the longest sequence of such as wait for one another, the client's included.
    pub hops: usize,
}

impl Costs {
    /// Counts them.
    pub(super) fn of(schedule: &Schedule, layout: &Layout) -> Self {
        let roles = layout.roles();
        let mut costs = Self {
            data: layout.data_cells().len(),
            client: 0,
            transfers: 0,
            ingress: vec![0; roles],
            egress: vec![0; roles],
            xors: 0,
            hops: 0,
        };
        let mut hops = Vec::with_capacity(schedule.transfers.len());
        for transfer in &schedule.transfers {
            costs.ingress[transfer.to] += 1;
            hops.push(match transfer.from {
                Node::Client => {
                    costs.client += 1;
                    1
                }
                Node::Role(role) => {
                    costs.transfers += 1;
                    costs.egress[role] += 1;
                    costs.xors += transfer.of.len().saturating_sub(1);
                    1 + transfer
                        .of
                        .iter()
                        .map(|&earlier| hops[earlier])
                        .max()
                        .unwrap_or(0)
                }
            });
        }
        let to_store = schedule.stores.iter().map(|of| of.len().saturating_sub(1));
        costs.xors += to_store.sum::<usize>();
        costs.hops = hops.into_iter().max().unwrap_or(0);
        costs
    }

    /// Share of data in the blocks that the client sends.
    pub fn goodput(&self) -> f64 {
        self.data as f64 / self.client as f64
    }

    /// Blocks that the busiest role receives, over the data blocks of a stripe.
    pub fn busiest_ingress(&self) -> f64 {
        self.busiest(&self.ingress)
    }

    /// Blocks that the busiest role sends, over the data blocks of a stripe.
    pub fn busiest_egress(&self) -> f64 {
        self.busiest(&self.egress)
    }

    /// Blocks that each node receives, over the data blocks, if nodes take turns with all roles,
    /// stripe by stripe.
    pub fn rotating_ingress(&self) -> f64 {
        self.mean(&self.ingress)
    }

    /// Blocks that each node sends, over the data blocks, if nodes take turns with all roles.
    pub fn rotating_egress(&self) -> f64 {
        self.mean(&self.egress)
    }

    /// As [`Self::busiest_ingress`], where nodes take turns with the row roles and one keeps the
    /// diagonal role.
    pub fn turning_ingress(&self) -> f64 {
        self.busier_kind(&self.ingress)
    }

    /// As [`Self::busiest_egress`], where nodes take turns with the row roles and one keeps the
    /// diagonal role.
    pub fn turning_egress(&self) -> f64 {
        self.busier_kind(&self.egress)
    }

    fn busiest(&self, loads: &[usize]) -> f64 {
        loads.iter().max().map_or(0.0, |&load| load as f64) / self.data as f64
    }

    fn mean(&self, loads: &[usize]) -> f64 {
        loads.iter().sum::<usize>() as f64 / loads.len() as f64 / self.data as f64
    }

    fn busier_kind(&self, loads: &[usize]) -> f64 {
        let (diagonal, rows) = loads.split_last().expect("there are roles");
        self.mean(rows).max(*diagonal as f64 / self.data as f64)
    }
}

impl Schedule {
    /// The costs of this schedule, which was made for `layout`.
    pub fn costs(&self, layout: &Layout) -> Costs {
        Costs::of(self, layout)
    }
}

/// The fewest transfers between nodes with which each data block can enter the network once, at the
/// role that keeps it: D (n − 1)/(n − 2) for D data blocks, rounded up. The proof is in
/// `docs/explanation/parity.md`.
pub fn fewest_transfers(layout: &Layout) -> usize {
    let roles = layout.roles();
    (layout.data_cells().len() * (roles - 1)).div_ceil(roles - 2)
}
