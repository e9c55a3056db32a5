//! Transfers by which a stripe reaches its nodes: what the client sends, what nodes send to one another, and how each cell
//! arises from what arrived.
//!
//! When the client computes the parities it has to send them, which takes n/(n − 2) times what the data alone would. Nodes can
//! do that for it while data pass through them, so that every data block enters the network once, at the node that
//! keeps it. This is the idea of Otsuji and Tatebe's paper (see [`Layout`]); the [`Kind`]s differ in how often nodes send.

mod chain;
mod coded;
mod costs;
mod direct;
mod part;
mod rebuild;
mod shared;
mod verify;

use std::fmt;
use std::str::FromStr;

use crate::Layout;

pub use costs::{Costs, fewest_transfers};
pub use part::{Arrived, Part, Sent};
pub use rebuild::rebuild;
pub use verify::Fault;

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// Who has the data.
    Client,
    /// Who keeps the cells of this role.
    Role(usize),
}

/// One block on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Who sends it.
    pub from: Node,
    /// The role to which it goes.
    pub to: usize,
    /// What it is the exclusive or of: data blocks, by number, if the client sends it; earlier transfers that arrived at
    /// the sender, by number, if a role does.
    pub of: Vec<usize>,
}

/// All transfers of a stripe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The transfers: each may begin when those that it is made of have arrived, and these come before it.
    pub transfers: Vec<Transfer>,
    /// For each cell the transfers, arrived at its role, whose exclusive or it is.
    pub stores: Vec<Vec<usize>>,
}

/// The ways to make a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The client sends all cells.
    Direct,
    /// A running exclusive or goes along each row and each diagonal, as in the paper: 2 transfers a data block.
    Chain,
    /// Each data block goes to the node of its row parity, which can then stand in for its node when diagonals are
    /// gathered: 1.5 transfers a data block.
    Shared,
    /// Nodes send sums of what they keep and what they have received, found by search. For some numbers of roles.
    Coded,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Direct, Self::Chain, Self::Shared, Self::Coded];

    /// `direct`, `chain`, `shared`, `coded`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Chain => "chain",
            Self::Shared => "shared",
            Self::Coded => "coded",
        }
    }

    /// The schedule of this kind for a layout, if there is one: always, but for [`Kind::Coded`].
    pub fn schedule(self, layout: &Layout) -> Option<Schedule> {
        match self {
            Self::Direct => Some(direct::schedule(layout)),
            Self::Chain => Some(chain::schedule(layout)),
            Self::Shared => Some(shared::schedule(layout)),
            Self::Coded => coded::schedule(layout),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let kind = Self::ALL.into_iter().find(|kind| kind.name() == name);
        kind.ok_or_else(|| "there are direct, chain, shared and coded".to_owned())
    }
}

/// A schedule in the making, in which data blocks go to their homes once.
struct Builder<'a> {
    layout: &'a Layout,
    schedule: Schedule,
    /// How many transfers arrive at each role.
    ingress: Vec<usize>,
}

impl<'a> Builder<'a> {
    /// The client's transfers: each data block to the role that keeps it.
    fn with_data(layout: &'a Layout) -> Self {
        let mut builder = Self {
            layout,
            schedule: Schedule {
                transfers: Vec::new(),
                stores: vec![Vec::new(); layout.cells()],
            },
            ingress: vec![0; layout.roles()],
        };
        for (block, &cell) in layout.data_cells().iter().enumerate() {
            let arrived = builder.send(Node::Client, layout.role_of(cell), vec![block]);
            builder.schedule.stores[cell] = vec![arrived];
        }
        builder
    }

    /// Adds a transfer and gives its number.
    fn send(&mut self, from: Node, to: usize, of: Vec<usize>) -> usize {
        self.ingress[to] += 1;
        self.schedule.transfers.push(Transfer { from, to, of });
        self.schedule.transfers.len() - 1
    }

    /// What its role has of a cell.
    fn stored(&self, cell: usize) -> &[usize] {
        &self.schedule.stores[cell]
    }
}
