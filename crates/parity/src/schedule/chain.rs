//! A running exclusive or along each row to its parity, then along each diagonal.

use super::builder::Builder;
use super::transfer::{Node, Schedule};
use crate::Layout;

pub(super) fn schedule(layout: &Layout) -> Schedule {
    let mut builder = Builder::with_data(layout);
    for row in 0..layout.rows() {
        let parity = layout.row_parity(row);
        let data = layout.row(row).filter(|&cell| cell != parity).collect();
        chain(&mut builder, data, parity);
    }
    for diagonal in layout.diagonals() {
        let cells = layout.diagonal(diagonal).collect();
        chain(&mut builder, cells, layout.diagonal_parity(diagonal));
    }
    builder.schedule
}

/// Sends the sum of `cells` from one to the next and at last to the role of `parity`. The first
/// role receives nothing in the chain, so the role with the most other ingress goes first.
fn chain(builder: &mut Builder, mut cells: Vec<usize>, parity: usize) {
    let layout = builder.layout;
    let ingress = |number: &usize| builder.ingress[layout.role_of(cells[*number])];
    let busiest = (0..cells.len()).max_by_key(ingress);
    cells.rotate_left(busiest.expect("there are cells"));
    let nodes: Vec<usize> = cells
        .iter()
        .chain([&parity])
        .map(|&cell| layout.role_of(cell))
        .collect();
    let mut arrived = Vec::new();
    for (cell, hop) in cells.into_iter().zip(nodes.windows(2)) {
        arrived.extend_from_slice(builder.stored(cell));
        arrived = vec![builder.send(Node::Role(hop[0]), hop[1], arrived)];
    }
    builder.schedule.stores[parity] = arrived;
}
