//! Schedules found by search: with fewer transfers, since a node may send a sum of its own and
//! received cells.
//!
//! Where n or n − 1 is the prime p, node u (role u − 1; node 0 is role p − 1, where there is one)
//! and row v (from 1), multiplied by any number modulo p, give the same code again. The schedules
//! here are invariant under that, so what node 1 sends to others and node 0 to node 1 says it all.
//! `examples/search_coded.rs` finds such.

use super::builder::Builder;
use super::transfer::{Node, Schedule};
use crate::Layout;
use crate::gf2::{Span, Vector, cell_vectors};

/// Sender, receiver and the cells (u, v) of a sum that is sent.
type Sent = (usize, To, &'static [(usize, usize)]);

/// To whom.
#[derive(Clone, Copy)]
enum To {
    Node(usize),
    Diagonal,
}

/// 16 transfers, the fewest that there can be.
const FIVE: &[Sent] = &[
    (1, To::Node(2), &[(1, 2)]),
    (1, To::Node(2), &[(1, 3), (3, 1)]),
    (1, To::Node(4), &[(1, 1), (1, 2), (3, 1)]),
    (1, To::Diagonal, &[(1, 1), (3, 4), (4, 3)]),
];

/// 20 transfers, the fewest.
const SIX: &[Sent] = &[
    (0, To::Node(1), &[(0, 2), (0, 3), (0, 4)]),
    (1, To::Node(2), &[(0, 2), (0, 3), (0, 4), (1, 2)]),
    (
        1,
        To::Node(2),
        &[(0, 1), (0, 2), (0, 4), (1, 2), (1, 3), (3, 1)],
    ),
    (1, To::Node(4), &[(0, 1), (0, 3), (1, 1), (1, 2), (3, 1)]),
    (1, To::Diagonal, &[(0, 2), (1, 1), (3, 4), (4, 3)]),
];

/// 36 transfers, the fewest.
const SEVEN: &[Sent] = &[
    (1, To::Node(2), &[(1, 2), (1, 5)]),
    (1, To::Node(5), &[(1, 2), (4, 1), (4, 6)]),
    (1, To::Node(6), &[(1, 1), (3, 6), (5, 3), (5, 4)]),
    (
        1,
        To::Node(3),
        &[(1, 2), (1, 4), (1, 5), (2, 3), (2, 4), (4, 1), (6, 6)],
    ),
    (
        1,
        To::Node(4),
        &[(1, 1), (1, 2), (1, 3), (1, 5), (3, 6), (5, 3), (5, 4)],
    ),
    (1, To::Diagonal, &[(1, 3), (2, 2), (3, 1), (5, 6), (6, 5)]),
];

pub(super) fn schedule(layout: &Layout) -> Option<Schedule> {
    let sent = match layout.roles() {
        5 => FIVE,
        6 => SIX,
        7 => SEVEN,
        _ => return None,
    };
    let prime = layout.prime();
    let cells = cell_vectors(layout);
    let role = |node: usize| (node + prime - 1) % prime;
    let sends = (1..prime).flat_map(|by| {
        let times = move |number: usize| number * by % prime;
        let cells = &cells;
        sent.iter().map(move |&(from, to, of)| {
            let to = match to {
                To::Node(node) => role(times(node)),
                To::Diagonal => layout.diagonal_role(),
            };
            let of = of
                .iter()
                .map(|&(u, v)| &cells[layout.cell(role(times(u)), times(v) - 1)]);
            (role(times(from)), to, Vector::sum(of))
        })
    });
    let schedule = ordered(layout, sends.collect(), &cells);
    Some(schedule.expect("a schedule whose nodes can compute what they send"))
}

/// Orders transfers (from, to, sum) so that each sender can compute its sums, and determines these
/// computations. `None` if no such order exists, or if a cell cannot be computed in the end.
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
