//! Schedules found by search: fewer transfers, since what a node sends may be a sum of what it keeps and of what it has
//! received.
//!
//! Where n is prime, node u (role u − 1) and row v (from 1), multiplied by any number modulo n, give the same code again. The
//! schedules here are invariant under that, so what node 1 sends says it all.

use super::{Builder, Node, Schedule};
use crate::Layout;
use crate::gf2::{Span, Vector, cell_vectors};

/// What node 1 sends to a node, 0 being the diagonal role: the sum of cells (u, v).
type Sent = (usize, &'static [(usize, usize)]);

/// 16 transfers, the fewest that there can be.
const FIVE: &[Sent] = &[
    (2, &[(1, 2)]),
    (2, &[(1, 3), (3, 1)]),
    (4, &[(1, 1), (1, 2), (3, 1)]),
    (0, &[(1, 1), (3, 4), (4, 3)]),
];

/// 42 transfers; 36 is the lower bound.
const SEVEN: &[Sent] = &[
    (3, &[(1, 1)]),
    (5, &[(1, 3)]),
    (5, &[(1, 2), (3, 2)]),
    (2, &[(1, 5)]),
    (4, &[(1, 4), (3, 2), (4, 6)]),
    (6, &[(1, 1), (2, 1), (6, 4)]),
    (0, &[(1, 2), (2, 1), (4, 6), (5, 5), (6, 4)]),
];

pub(super) fn schedule(layout: &Layout) -> Option<Schedule> {
    let sent = match layout.roles() {
        5 => FIVE,
        7 => SEVEN,
        _ => return None,
    };
    let prime = layout.prime();
    let cells = cell_vectors(layout);
    let sends = (1..prime).flat_map(|by| {
        let times = move |number: usize| number * by % prime;
        let cells = &cells;
        sent.iter().map(move |&(to, of)| {
            let to = times(to).checked_sub(1).unwrap_or(layout.diagonal_role());
            let of = of
                .iter()
                .map(|&(u, v)| &cells[layout.cell(times(u) - 1, times(v) - 1)]);
            (by - 1, to, Vector::sum(of))
        })
    });
    let schedule = ordered(layout, sends.collect(), &cells);
    Some(schedule.expect("a schedule whose nodes can compute what they send"))
}

/// Puts transfers (from, to, what) into an order in which each sender has what it takes, and says how it computes what it
/// sends and stores. None if there is no such order, or if a cell cannot be computed in the end.
fn ordered(
    layout: &Layout,
    mut sends: Vec<(usize, usize, Vector)>,
    cells: &[Vector],
) -> Option<Schedule> {
    let mut builder = Builder::with_data(layout);
    let mut held = vec![Span::default(); layout.roles()];
    for (number, &cell) in layout.data_cells().iter().enumerate() {
        held[layout.role_of(cell)].add(number, &cells[cell]);
    }
    while !sends.is_empty() {
        let before = sends.len();
        sends.retain(|(from, to, what)| {
            let Some(of) = held[*from].express(what) else {
                return true;
            };
            let arrived = builder.send(Node::Role(*from), *to, of);
            held[*to].add(arrived, what);
            false
        });
        if sends.len() == before {
            return None;
        }
    }
    for (cell, vector) in cells.iter().enumerate() {
        builder.schedule.stores[cell] = held[layout.role_of(cell)].express(vector)?;
    }
    Some(builder.schedule)
}
