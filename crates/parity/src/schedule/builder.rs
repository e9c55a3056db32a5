//! A builder for all kinds of schedules.

use super::transfer::{Node, Schedule, Transfer};
use crate::Layout;

/// A schedule in the making, in which data blocks go to their homes once.
pub(super) struct Builder<'a> {
    pub(super) layout: &'a Layout,
    pub(super) schedule: Schedule,
    /// Number of transfers to each role.
    pub(super) ingress: Vec<usize>,
}

impl<'a> Builder<'a> {
    /// The client's transfers: each data block to the role that keeps it.
    pub(super) fn with_data(layout: &'a Layout) -> Self {
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
    pub(super) fn send(&mut self, from: Node, to: usize, of: Vec<usize>) -> usize {
        self.ingress[to] += 1;
        self.schedule.transfers.push(Transfer { from, to, of });
        self.schedule.transfers.len() - 1
    }

    /// The transfers whose sum is a cell, at its role.
    pub(super) fn stored(&self, cell: usize) -> &[usize] {
        &self.schedule.stores[cell]
    }
}
