//! Rebuilds a lost role without any node that has the whole stripe.

use std::collections::{BTreeMap, BTreeSet};

use super::transfer::{Node, Schedule, Transfer};
use crate::{Error, Layout, repair_plan};

/// The transfers that rebuild a role when `others` are missing as well. [`Node::Client`] stands for
/// what a role keeps: such a transfer is a cell that a role reads, by its number.
///
/// For each lost cell a sum goes along the roles that are left: each adds what it keeps of it, and
/// the last one sends it to who is to keep the cell. So none receives or sends more than what one
/// role keeps, however many there are; the cells that are read are those of [`repair_plan`].
///
/// # Errors
///
/// As [`repair_plan`].
pub fn rebuild(layout: &Layout, role: usize, others: &[usize]) -> Result<Schedule, Error> {
    let missing: Vec<usize> = [role].into_iter().chain(others.iter().copied()).collect();
    let mut terms = terms(layout, &missing)?;
    terms.retain(|&cell, _| layout.role_of(cell) == role);
    // Begins with the role behind the lost one, so that each role comes first for another one.
    let order = (1..layout.roles()).map(|more| (role + more) % layout.roles());
    let order: Vec<usize> = order.filter(|other| !missing.contains(other)).collect();
    let adds = |role: usize, terms: &BTreeSet<usize>| {
        let mut kept = layout.cells_of_role(role);
        kept.any(|cell| terms.contains(&cell))
    };

    let mut transfers: Vec<Transfer> = Vec::new();
    // For each cell to rebuild, the transfer of what there is of it so far.
    let mut sums: BTreeMap<usize, usize> = BTreeMap::new();
    for (place, &from) in order.iter().enumerate() {
        let mut read: BTreeMap<usize, usize> = BTreeMap::new();
        for cell in layout.cells_of_role(from) {
            if terms.values().any(|terms| terms.contains(&cell)) {
                read.insert(cell, transfers.len());
                transfers.push(Transfer {
                    from: Node::Client,
                    to: from,
                    of: vec![cell],
                });
            }
        }
        for (&cell, terms) in terms.iter().filter(|(_, terms)| adds(from, terms)) {
            let own = read.iter().filter(|(kept, _)| terms.contains(kept));
            let own = own.map(|(_, &number)| number);
            let mut behind = order[place + 1..].iter().copied();
            let transfer = Transfer {
                from: Node::Role(from),
                to: behind.find(|&next| adds(next, terms)).unwrap_or(role),
                of: own.chain(sums.get(&cell).copied()).collect(),
            };
            sums.insert(cell, transfers.len());
            transfers.push(transfer);
        }
    }
    let mut stores = vec![Vec::new(); layout.cells()];
    for (cell, sum) in sums {
        stores[cell] = vec![sum];
    }
    Ok(Schedule { transfers, stores })
}

/// For each cell of the missing roles, the cells that are there whose exclusive or it is.
fn terms(layout: &Layout, missing: &[usize]) -> Result<BTreeMap<usize, BTreeSet<usize>>, Error> {
    let mut terms: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for step in repair_plan(layout, missing)?.steps {
        let sum = step
            .from
            .iter()
            .fold(BTreeSet::new(), |sum, &cell| match terms.get(&cell) {
                Some(earlier) => &sum ^ earlier,
                None => &sum ^ &BTreeSet::from([cell]),
            });
        terms.insert(step.into, sum);
    }
    Ok(terms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{encode, fewest_reads};

    /// Every role of every pair, and each alone: what arrives is what was there, and no role sends
    /// or receives more than what one keeps.
    #[test]
    fn a_role_comes_back_and_nobody_moves_more_than_one_keeps() {
        for roles in 3..=12 {
            let layout = Layout::new(roles).unwrap();
            let mut cells: Vec<Vec<u8>> = vec![vec![0]; layout.cells()];
            for (number, &cell) in layout.data_cells().iter().enumerate() {
                cells[cell] = vec![(number * 37 + 11) as u8];
            }
            encode(&layout, &mut cells).unwrap();
            for (first, second) in (0..roles).flat_map(|a| (0..roles).map(move |b| (a, b))) {
                let missing: Vec<usize> = BTreeSet::from([first, second]).into_iter().collect();
                let others: Vec<usize> = missing
                    .iter()
                    .copied()
                    .filter(|&other| other != first)
                    .collect();
                let schedule = rebuild(&layout, first, &others).unwrap();
                let mut carried: Vec<u8> = Vec::new();
                let (mut sent, mut received) = (vec![0; roles], vec![0; roles]);
                let mut reads = 0;
                for transfer in &schedule.transfers {
                    assert!(!missing.contains(&transfer.to) || transfer.to == first);
                    let sum = match transfer.from {
                        Node::Client => {
                            reads += 1;
                            assert_eq!(layout.role_of(transfer.of[0]), transfer.to);
                            cells[transfer.of[0]][0]
                        }
                        Node::Role(from) => {
                            (sent[from], received[transfer.to]) =
                                (sent[from] + 1, received[transfer.to] + 1);
                            let of = transfer.of.iter();
                            of.map(|&earlier| {
                                assert_eq!(schedule.transfers[earlier].to, from);
                                carried[earlier]
                            })
                            .fold(0, |sum, more| sum ^ more)
                        }
                    };
                    carried.push(sum);
                }
                for cell in layout.cells_of_role(first) {
                    let [arrived] = schedule.stores[cell][..] else {
                        panic!("one sum is the cell");
                    };
                    assert_eq!(schedule.transfers[arrived].to, first);
                    assert_eq!(carried[arrived], cells[cell][0], "{roles} {missing:?}");
                }
                let most = sent.into_iter().chain(received).max();
                assert_eq!(most, Some(layout.rows()), "{roles} {missing:?}");
                if let [_] = missing[..] {
                    let plan = repair_plan(&layout, &missing).unwrap();
                    assert_eq!(reads, plan.reads().len());
                    assert!(reads >= fewest_reads(&layout, &missing).unwrap());
                }
            }
        }
        let layout = Layout::new(5).unwrap();
        assert!(rebuild(&layout, 5, &[]).is_err());
        assert!(rebuild(&layout, 1, &[2, 3]).is_err());
    }
}
