//! Plans the rebuilding of lost cells with the fewest reads.

use std::collections::BTreeSet;

use crate::plan::{Plan, Step};
use crate::{Error, Layout};

/// Plans the rebuilding of lost roles with the fewest cells read.
///
/// - *Two roles*, or the diagonal role: as many cells as there are data. No plan can do with less.
/// - *One row role*: each of its cells comes from its row or from its diagonal, and cells that lie
///   on both a row and a diagonal in use are read once. That saves about a quarter. Which rows to
///   take is chosen among arithmetic progressions modulo p. No other choice of rows, and no sum of
///   equations, does with less: proved for sums in `docs/explanation/parity.md`, and up to 32 roles
///   for choices
///   of rows, by trying all.
///
/// # Errors
///
/// [`Error::NoSuchRole`], [`Error::RoleTwice`] or [`Error::TooManyLost`].
pub fn repair_plan(layout: &Layout, lost: &[usize]) -> Result<Plan, Error> {
    layout.check_lost(lost)?;
    match *lost {
        [] => Ok(Plan::default()),
        [role] if role == layout.diagonal_role() => Ok(encode_diagonals(layout)),
        [role] => Ok(repair_row_role(layout, role)),
        _ => recover_plan(
            layout,
            &lost
                .iter()
                .flat_map(|&role| layout.cells_of_role(role))
                .collect(),
            &BTreeSet::new(),
        ),
    }
}

/// A lower bound on the cells that any plan for these lost roles reads, found without search.
///
/// [`repair_plan`] reaches it for two roles, for the diagonal role, and where n or n − 1 is prime.
/// For other n the bound is a
/// little lower than what can be reached.
///
/// # Errors
///
/// As [`repair_plan`].
pub fn fewest_reads(layout: &Layout, lost: &[usize]) -> Result<usize, Error> {
    layout.check_lost(lost)?;
    match *lost {
        [] => Ok(0),
        [role] if role != layout.diagonal_role() => {
            // See docs/explanation/parity.md: of the pairs of rows, a missing column spares one
            // less than there
            // are rows.
            let missing = layout.prime() + 1 - layout.roles();
            let reads = |by_diagonal: usize| {
                let pairs = by_diagonal * by_diagonal.saturating_sub(1);
                let spared = missing * by_diagonal.saturating_sub(1);
                let by_row = layout.rows() - by_diagonal;
                by_row * (layout.roles() - 2) + by_diagonal + pairs.saturating_sub(spared)
            };
            let fewest = (0..=layout.rows()).map(reads).min();
            Ok(fewest.expect("there are rows"))
        }
        _ => Ok(layout.data_cells().len()),
    }
}

/// Plans the recovery of missing cells of any number of roles: each comes from a row or a diagonal
/// whose other cells exist or were recovered before. Recovers only the `wanted` cells and the cells
/// that these need; without wanted cells, all that it can.
///
/// # Errors
///
/// [`Error::Unrecoverable`] names wanted cells that cannot be recovered.
pub fn recover_plan(
    layout: &Layout,
    missing: &BTreeSet<usize>,
    wanted: &BTreeSet<usize>,
) -> Result<Plan, Error> {
    let wanted = if wanted.is_empty() { missing } else { wanted };
    let mut is_missing = vec![false; layout.cells()];
    missing.iter().for_each(|&cell| is_missing[cell] = true);
    let equations = layout.equations();
    let mut steps = Vec::new();
    loop {
        // The shortest of the equations that recover a cell.
        let open = equations.iter().filter_map(|equation| {
            let mut cells = equation.iter().filter(|&&cell| is_missing[cell]);
            let &into = cells.next()?;
            cells.next().is_none().then_some((into, equation))
        });
        let Some((into, equation)) = open.min_by_key(|(_, equation)| equation.len()) else {
            break;
        };
        is_missing[into] = false;
        let from = equation.iter().copied().filter(|&cell| cell != into);
        let from = from.collect();
        steps.push(Step { into, from });
    }
    let lost: Vec<usize> = wanted
        .iter()
        .copied()
        .filter(|&cell| is_missing[cell])
        .collect();
    if !lost.is_empty() {
        return Err(Error::Unrecoverable(lost));
    }
    let mut needed = wanted.clone();
    let mut kept: Vec<Step> = Vec::new();
    for step in steps.into_iter().rev() {
        if needed.contains(&step.into) {
            needed.extend(&step.from);
            kept.push(step);
        }
    }
    kept.reverse();
    Ok(Plan { steps: kept })
}

/// Reads data only: a row parity that lies on a diagonal is replaced by the data of its row.
fn encode_diagonals(layout: &Layout) -> Plan {
    let steps = layout.diagonals().map(|diagonal| {
        let mut from: BTreeSet<usize> = layout.diagonal(diagonal).collect();
        for row in 0..layout.rows() {
            if from.contains(&layout.row_parity(row)) {
                from = &from ^ &layout.row(row).collect();
            }
        }
        Step {
            into: layout.diagonal_parity(diagonal),
            from: from.into_iter().collect(),
        }
    });
    Plan {
        steps: steps.collect(),
    }
}

/// Each cell from its row, or from its diagonal where `rows_by_diagonal` says so.
fn repair_row_role(layout: &Layout, role: usize) -> Plan {
    let by_diagonal = rows_by_diagonal(layout, role);
    let steps = (0..layout.rows()).map(|row| {
        let into = layout.cell(role, row);
        let diagonal = layout
            .diagonal_of(into)
            .filter(|_| by_diagonal.contains(&row));
        let equation: Vec<usize> = match diagonal {
            Some(diagonal) => {
                let parity = layout.diagonal_parity(diagonal);
                layout.diagonal(diagonal).chain([parity]).collect()
            }
            None => layout.row(row).collect(),
        };
        let from = equation.into_iter().filter(|&cell| cell != into).collect();
        Step { into, from }
    });
    Plan {
        steps: steps.collect(),
    }
}

/// Chooses the rows whose cell of a lost role is recovered from its diagonal, for the fewest reads:
/// the best arithmetic progression modulo p.
///
/// Recovery by row reads the row's other cells. Recovery by diagonal reads a diagonal parity and
/// the diagonal's cells that no read row contains; cells in columns that do not exist cost nothing.
fn rows_by_diagonal(layout: &Layout, role: usize) -> Vec<usize> {
    let (prime, columns) = (layout.prime(), layout.diagonal_role());
    let usable =
        |&row: &usize| row < layout.rows() && layout.diagonal_of(layout.cell(role, row)).is_some();
    let has_cell_on_diagonal_of =
        |row: usize, other: usize| (role + other + prime - row) % prime < columns;
    let all_by_row = layout.rows() * (columns - 1);
    let mut fewest = (all_by_row, Vec::new());
    for (start, stride) in
        (0..prime).flat_map(|start| (1..prime).map(move |stride| (start, stride)))
    {
        let (mut reads, mut chosen) = (all_by_row, Vec::new());
        for row in (0..prime)
            .map(|number| (start + number * stride) % prime)
            .filter(usable)
        {
            let cells = |&other: &usize| {
                usize::from(has_cell_on_diagonal_of(row, other))
                    + usize::from(has_cell_on_diagonal_of(other, row))
            };
            reads = reads + 1 + chosen.iter().map(cells).sum::<usize>() - (columns - 1);
            chosen.push(row);
            if reads < fewest.0 {
                fewest = (reads, chosen.clone());
            }
        }
    }
    fewest.1
}
