//! Plans of computation: the encoding of a stripe, and updates.

use std::collections::{BTreeMap, BTreeSet};

use crate::Layout;

/// A step that computes a cell as the exclusive or of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The cell that is computed.
    pub into: usize,
    /// The cells whose exclusive or it is.
    pub from: Vec<usize>,
}

/// Steps to take in order. A step may use what an earlier one computed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The steps.
    pub steps: Vec<Step>,
}

impl Plan {
    /// The cells that are computed.
    pub fn writes(&self) -> BTreeSet<usize> {
        self.steps.iter().map(|step| step.into).collect()
    }

    /// The cells that must be there before: those that are used and not computed.
    pub fn reads(&self) -> BTreeSet<usize> {
        let used = self.steps.iter().flat_map(|step| step.from.iter().copied());
        let used: BTreeSet<usize> = used.collect();
        &used - &self.writes()
    }

    /// Number of exclusive ors of two cells.
    pub fn xors(&self) -> usize {
        let of_step = |step: &Step| step.from.len().saturating_sub(1);
        self.steps.iter().map(of_step).sum()
    }
}

/// Computes all parities from the data.
pub fn encode_plan(layout: &Layout) -> Plan {
    let rows = (0..layout.rows()).map(|row| {
        let into = layout.row_parity(row);
        let from = layout.row(row).filter(|&cell| cell != into).collect();
        Step { into, from }
    });
    let diagonals = layout.diagonals().map(|diagonal| Step {
        into: layout.diagonal_parity(diagonal),
        from: layout.diagonal(diagonal).collect(),
    });
    Plan {
        steps: rows.chain(diagonals).collect(),
    }
}

/// The update of parities when these data blocks change: each step's cell *changes* by the
/// exclusive or of the changes of its sources; a change is the exclusive or of old and new bytes.
///
/// # Panics
///
/// If a block does not exist.
pub fn update_plan(layout: &Layout, blocks: &[usize]) -> Plan {
    let changed: BTreeSet<usize> = blocks
        .iter()
        .map(|&block| layout.data_cells()[block])
        .collect();
    let mut parities: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for &cell in &changed {
        let of_row = layout.row_parity(layout.row_of(cell));
        // The row parity may lie on a diagonal in its turn.
        let of_diagonals = [cell, of_row]
            .into_iter()
            .filter_map(|cell| layout.diagonal_of(cell));
        let of_diagonals = of_diagonals.map(|diagonal| layout.diagonal_parity(diagonal));
        // Cells of one row are on different diagonals, so these parities are different.
        for parity in of_diagonals.chain([of_row]) {
            parities.entry(parity).or_default().insert(cell);
        }
    }
    Plan {
        steps: parities
            .into_iter()
            .map(|(into, changes)| Step {
                into,
                from: changes.into_iter().collect(),
            })
            .collect(),
    }
}
