//! Each data block goes to its row parity's role, so that two roles have it; diagonals are gathered
//! from as few roles as have all of their cells.

use super::builder::Builder;
use super::transfer::{Node, Schedule};
use crate::Layout;

/// A role that knows a cell of a diagonal, and the transfers that brought the cell there.
struct Holder {
    role: usize,
    /// The transfers at that role whose sum it is.
    of: Vec<usize>,
}

/// What a role knows of a diagonal.
struct Piece {
    diagonal: usize,
    role: usize,
    of: Vec<usize>,
    /// The piece to whose role this one is sent; none if straight to the diagonal role.
    next: Option<usize>,
}

pub(super) fn schedule(layout: &Layout) -> Schedule {
    let mut builder = Builder::with_data(layout);
    let mut holders: Vec<Vec<Holder>> = (0..layout.cells()).map(|_| Vec::new()).collect();
    for row in 0..layout.rows() {
        let parity = layout.row_parity(row);
        let keeper = layout.role_of(parity);
        for cell in layout.row(row).filter(|&cell| cell != parity) {
            let (home, of) = (layout.role_of(cell), builder.stored(cell).to_vec());
            let copy = builder.send(Node::Role(home), keeper, of.clone());
            builder.schedule.stores[parity].push(copy);
            let of_copy = vec![copy];
            holders[cell].extend([
                Holder { role: home, of },
                Holder {
                    role: keeper,
                    of: of_copy,
                },
            ]);
        }
        let of = builder.stored(parity).to_vec();
        holders[parity].push(Holder { role: keeper, of });
    }

    let mut pieces = Vec::new();
    let mut egress = vec![0; layout.roles()];
    for diagonal in layout.diagonals() {
        let cells: Vec<&[Holder]> = layout
            .diagonal(diagonal)
            .map(|cell| &holders[cell][..])
            .collect();
        let sets = cells
            .iter()
            .map(|cell| cell.iter().map(|holder| holder.role).collect());
        let cover = smallest_cover(sets.collect(), &egress);
        for &role in &cover {
            egress[role] += 1;
            pieces.push(Piece {
                diagonal,
                role,
                of: Vec::new(),
                next: None,
            });
        }
        let its_pieces = pieces.len() - cover.len();
        for cell in cells {
            let holder = cell.iter().find(|holder| cover.contains(&holder.role));
            let holder = holder.expect("a cover has a holder of every cell");
            let piece = pieces[its_pieces..]
                .iter_mut()
                .find(|piece| piece.role == holder.role);
            piece
                .expect("a piece for each of the cover")
                .of
                .extend(&holder.of);
        }
    }
    join(&mut pieces, &builder.ingress);
    send(&mut builder, pieces);
    builder.schedule
}

/// Sends pieces by way of one another instead of straight to the diagonal role, until that receives
/// no more than others.
fn join(pieces: &mut [Piece], ingress: &[usize]) {
    let mut ingress = ingress.to_vec();
    let mut straight = pieces.len();
    loop {
        // At first all pieces of a diagonal go straight; a straight piece can be joined to another
        // one.
        let pair = (0..pieces.len())
            .filter(|&to| pieces[to].next.is_none())
            .filter_map(|to| {
                let joins = |&from: &usize| {
                    from != to
                        && pieces[from].next.is_none()
                        && pieces[from].diagonal == pieces[to].diagonal
                };
                Some(((0..pieces.len()).find(joins)?, to))
            });
        let Some((from, to)) = pair.min_by_key(|&(_, to)| ingress[pieces[to].role]) else {
            return;
        };
        if ingress[pieces[to].role] >= straight {
            return;
        }
        ingress[pieces[to].role] += 1;
        straight -= 1;
        pieces[from].next = Some(to);
    }
}

/// Sends each piece when all that are joined to it have arrived.
fn send(builder: &mut Builder, mut pieces: Vec<Piece>) {
    let layout = builder.layout;
    let mut waiting_for = vec![0; pieces.len()];
    for piece in &pieces {
        if let Some(next) = piece.next {
            waiting_for[next] += 1;
        }
    }
    let mut ready: Vec<usize> = (0..pieces.len())
        .filter(|&piece| waiting_for[piece] == 0)
        .collect();
    while let Some(piece) = ready.pop() {
        let Piece {
            diagonal,
            role,
            next,
            ..
        } = pieces[piece];
        let of = std::mem::take(&mut pieces[piece].of);
        match next {
            Some(next) => {
                let arrived = builder.send(Node::Role(role), pieces[next].role, of);
                pieces[next].of.push(arrived);
                waiting_for[next] -= 1;
                if waiting_for[next] == 0 {
                    ready.push(next);
                }
            }
            None => {
                let arrived = builder.send(Node::Role(role), layout.diagonal_role(), of);
                builder.schedule.stores[layout.diagonal_parity(diagonal)].push(arrived);
            }
        }
    }
}

/// The fewest roles of which each set has one; among those, ones that send little so far. Sets have
/// one or two roles: a smallest vertex cover.
fn smallest_cover(mut sets: Vec<Vec<usize>>, egress: &[usize]) -> Vec<usize> {
    let mut cover = Vec::new();
    while !sets.is_empty() {
        let degree = |role: usize| sets.iter().filter(|set| set.contains(&role)).count();
        let forced = sets.iter().find(|set| set.len() == 1).map(|set| set[0]);
        // The neighbour of a role that is in one set only is at least as good as that role.
        let leaf = || {
            let leaves = sets
                .iter()
                .filter_map(|set| match (degree(set[0]), degree(set[1])) {
                    (1, 1) => set.iter().copied().min_by_key(|&role| egress[role]),
                    (1, _) => Some(set[1]),
                    (_, 1) => Some(set[0]),
                    _ => None,
                });
            leaves.min_by_key(|&role| egress[role])
        };
        let Some(role) = forced.or_else(leaf) else {
            // Cycles only: either this role or all of its neighbours.
            let roles = sets.iter().flatten().copied();
            let role = roles
                .max_by_key(|&role| degree(role))
                .expect("there are sets");
            let with = without(&sets, &[role]);
            let neighbours: Vec<usize> = sets
                .iter()
                .filter(|set| set.contains(&role))
                .flat_map(|set| set.iter().copied().filter(|&other| other != role))
                .collect();
            let mut with = smallest_cover(with, egress);
            with.push(role);
            let mut around = smallest_cover(without(&sets, &neighbours), egress);
            around.extend(neighbours);
            around.sort_unstable();
            around.dedup();
            cover.extend(if around.len() < with.len() {
                around
            } else {
                with
            });
            return cover;
        };
        cover.push(role);
        sets = without(&sets, &[role]);
    }
    cover
}

/// The sets that have none of these roles.
fn without(sets: &[Vec<usize>], roles: &[usize]) -> Vec<Vec<usize>> {
    let none = |set: &&Vec<usize>| !set.iter().any(|role| roles.contains(role));
    sets.iter().filter(none).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether these roles, by bit, have one of every set.
    fn covers(roles: u32, sets: &[Vec<usize>]) -> bool {
        let has_one = |set: &Vec<usize>| set.iter().any(|&role| roles >> role & 1 == 1);
        sets.iter().all(has_one)
    }

    /// Of sets of one role or two, as many as there can be among six roles: no fewer roles have one
    /// of each.
    #[test]
    fn no_smaller_cover_exists() {
        let egress = [3, 1, 4, 1, 5, 0];
        let pairs: Vec<Vec<usize>> = (0..6)
            .flat_map(|one| (0..one).map(move |other| vec![other, one]))
            .collect();
        for chosen in (0..1_u32 << pairs.len()).step_by(7) {
            let of_pairs = (0..pairs.len()).filter(|pair| chosen >> pair & 1 == 1);
            let mut sets: Vec<Vec<usize>> = of_pairs.map(|pair| pairs[pair].clone()).collect();
            if chosen % 3 == 0 {
                sets.push(vec![chosen as usize % 6]);
            }
            let cover = smallest_cover(sets.clone(), &egress);
            let roles = cover.iter().fold(0, |roles, role| roles | 1 << role);
            assert!(covers(roles, &sets), "{sets:?}: {cover:?}");
            let fewest = (0..1_u32 << 6)
                .filter(|&roles| covers(roles, &sets))
                .map(u32::count_ones)
                .min();
            assert_eq!(Some(cover.len() as u32), fewest, "{sets:?}: {cover:?}");
        }
    }

    #[test]
    fn of_two_that_are_as_good_the_one_that_sends_less_is_taken() {
        let sets = vec![vec![0, 1], vec![2, 3]];
        assert_eq!(smallest_cover(sets, &[2, 1, 0, 9]), [2, 1]);
    }
}
