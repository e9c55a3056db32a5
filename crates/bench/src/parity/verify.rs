//! The whole code, checked for many numbers of targets: what tests check for fewer.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tabane_bench::data::noise;
use tabane_parity::schedule::Kind;
use tabane_parity::{Layout, encode, fewest_reads, repair, repair_plan};
use tabane_testing::progress;

/// Bytes of a cell.
const CELL_LEN: usize = 9;

/// Checks 3 to `most` targets, and prints a line for each.
pub fn run(most: usize, json: bool) -> Result<()> {
    for targets in 3..=most {
        let layout = Layout::new(targets)?;
        let losses = rebuild_all(&layout)?;
        let kinds = verify_schedules(&layout)?;
        let reads = fewest(&layout)?;
        let (least, greatest) = (reads.iter().min(), reads.iter().max());
        let (least, greatest) = least.zip(greatest).context("no row roles")?;
        progress::show("");
        if json {
            let object = json!({
                "bench": "parity", "kind": "verify", "targets": targets, "prime": layout.prime(),
                "losses_rebuilt": losses, "schedules_verified": kinds.len(), "reads_least": least,
                "reads_greatest": greatest, "data_blocks": layout.data_cells().len(),
            });
            println!("{object}");
            continue;
        }
        println!(
            "{targets} targets: {losses} losses rebuilt; {} verified; one target takes {least} to \
            {greatest} cells of {} at least, \
             and no more",
            kinds.join(", "),
            layout.data_cells().len()
        );
    }
    Ok(())
}

/// Rebuilds every one and two lost targets, from what the plan says it reads alone.
fn rebuild_all(layout: &Layout) -> Result<usize> {
    let bytes = noise(layout.cells() * CELL_LEN);
    let mut whole: Vec<Vec<u8>> = bytes.chunks_exact(CELL_LEN).map(<[u8]>::to_vec).collect();
    encode(layout, &mut whole)?;
    let mut losses = 0;
    for one in 0..layout.roles() {
        for other in 0..=one {
            let lost = if one == other {
                vec![one]
            } else {
                vec![one, other]
            };
            let plan = repair_plan(layout, &lost)?;
            let (reads, writes) = (plan.reads(), plan.writes());
            let mut cells = whole.clone();
            for (number, cell) in cells.iter_mut().enumerate() {
                if writes.contains(&number) {
                    cell.fill(0xee);
                } else if !reads.contains(&number) {
                    cell.clear();
                }
            }
            repair(layout, &mut cells, &lost)?;
            let mut lost_cells = lost.iter().flat_map(|&role| layout.cells_of_role(role));
            ensure!(
                lost_cells.all(|cell| cells[cell] == whole[cell]),
                "{} targets: {lost:?} come back wrong",
                layout.roles()
            );
            ensure!(
                reads.len() >= fewest_reads(layout, &lost)?,
                "a bound that is none: {lost:?}"
            );
            losses += 1;
        }
    }
    Ok(losses)
}

/// The names of the schedules that there are.
fn verify_schedules(layout: &Layout) -> Result<Vec<&'static str>> {
    let mut names = Vec::new();
    for kind in Kind::ALL {
        if let Some(schedule) = kind.schedule(layout) {
            let what = || format!("{kind}, {} targets", layout.roles());
            schedule.verify(layout).with_context(what)?;
            names.push(kind.name());
        }
    }
    Ok(names)
}

/// How many cells the plan for each row role reads, after all other choices of rows have been
/// tried.
fn fewest(layout: &Layout) -> Result<Vec<usize>> {
    let mut all = Vec::new();
    for role in 0..layout.diagonal_role() {
        progress::show(&format!(
            "{} targets, every way to rebuild {role}",
            layout.roles()
        ));
        let reads = repair_plan(layout, &[role])?.reads().len();
        let best = best_choice(layout, role);
        ensure!(
            reads == best,
            "{} targets: {reads} cells are read to rebuild {role}, {best} would do",
            layout.roles()
        );
        all.push(reads);
    }
    Ok(all)
}

/// The fewest cells to read for a lost role, of all sets of rows whose cells are left to their
/// diagonals. Goes through the sets in the order of a Gray code, where each differs from the one
/// before by a row.
fn best_choice(layout: &Layout, role: usize) -> usize {
    let lost = |row: usize| layout.cell(role, row);
    let rows: Vec<usize> = (0..layout.rows())
        .filter(|&row| layout.diagonal_of(lost(row)).is_some())
        .collect();
    let on_diagonal_of = |row: usize| layout.diagonal_of(lost(row)).expect("it has one");
    // Of each row, whose diagonals its cells lie on; and who has cells on its diagonal.
    let mut meets = vec![0_u32; rows.len()];
    let mut met_by = vec![0_u32; rows.len()];
    for (number, &row) in rows.iter().enumerate() {
        for (other_number, &other) in rows.iter().enumerate() {
            let diagonal = on_diagonal_of(other);
            let mut cells = layout.diagonal(diagonal);
            if number != other_number && cells.any(|cell| layout.row_of(cell) == row) {
                meets[number] |= 1 << other_number;
                met_by[other_number] |= 1 << number;
            }
        }
    }
    let of_a_row = layout.diagonal_role() - 1;
    let mut chosen = 0_u32;
    let mut reads = layout.rows() * of_a_row;
    let mut fewest = reads;
    for number in 1_u64..1 << rows.len() {
        let row = number.trailing_zeros() as usize;
        let by_diagonal =
            1 + ((chosen & meets[row]).count_ones() + (chosen & met_by[row]).count_ones()) as usize;
        let bit = 1 << row;
        reads = match chosen & bit {
            0 => reads + by_diagonal - of_a_row,
            _ => reads + of_a_row - by_diagonal,
        };
        chosen ^= bit;
        fewest = fewest.min(reads);
    }
    fewest
}
