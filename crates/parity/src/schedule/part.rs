//! What one role does in a schedule: the form that a node works by.

use super::{Node, Schedule};
use crate::Layout;

/// What one role receives, sends and stores of every stripe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// How many transfers arrive from each role, and behind them, in the last place, how many from the client.
    pub receives: Vec<usize>,
    /// The transfers that it sends, in the order in which they are possible.
    pub sends: Vec<Sent>,
    /// For each of its cells, by row, what arrived and adds up to it.
    pub stores: Vec<Vec<Arrived>>,
}

/// A transfer to another role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The role to which it goes.
    pub to: usize,
    /// What arrived and adds up to it.
    pub of: Vec<Arrived>,
}

/// A transfer that arrives at the role in question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The role that it comes from; the number of roles stands for the client.
    pub from: usize,
    /// Which of those that come from there, in the order in which they are sent.
    pub index: usize,
}

impl Schedule {
    /// What a role does. The schedule is one that [`Schedule::verify`] accepts.
    pub fn part(&self, layout: &Layout, role: usize) -> Part {
        let mut receives = vec![0; layout.roles() + 1];
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
                    of,
                });
            }
            if transfer.to == role {
                let from = match transfer.from {
                    Node::Client => layout.roles(),
                    Node::Role(from) => from,
                };
                let index = receives[from];
                receives[from] += 1;
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
        }
    }

    /// The cells that the client sends to a role, in that order. All that the client sends are whole cells of the role that it
    /// sends them to.
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
