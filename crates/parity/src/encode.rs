//! The parities of a stripe, at the speed of memory.

use std::mem;
use std::ops::Range;

use tabane_lanes::{Sum, xor_of_both};

use crate::plan::{Step, encode_plan};
use crate::stripe::{Buffer, SOURCES, count};
use crate::{Error, Layout};

/// Bytes of all cells together that are processed at a time, so that they stay in the cache for the
/// diagonals.
const WORKING_SET_BYTES: usize = 512 << 10;

/// The least and the most of one cell that is added up at a time.
const SPAN_BYTES: Range<usize> = 4 << 10..16 << 10;

/// Computes the parities of a stripe. `cells` are buffers of one length, one for each cell of the
/// layout, in the order of their numbers: `Vec<u8>` or `&mut [u8]`.
///
/// Each cell is used twice, for its row and for its diagonal. Rows are added up one span ahead of
/// the diagonals, the two in turns: while a row waits for memory, a diagonal is added up from the
/// cache.
///
/// # Errors
///
/// [`Error::CellCount`] or [`Error::CellLength`]; then nothing is changed.
pub fn encode<C: Buffer>(layout: &Layout, cells: &mut [C]) -> Result<(), Error> {
    count(layout, cells)?;
    let plan = encode_plan(layout);
    if plan.steps.iter().any(|step| step.from.len() > SOURCES) {
        return plan.run(cells);
    }
    let len = plan.cell_len(cells)?;
    let (rows, diagonals) = plan.steps.split_at(layout.rows());
    let span = (WORKING_SET_BYTES / cells.len()).clamp(SPAN_BYTES.start, SPAN_BYTES.end);
    let span = span - span % SPAN_BYTES.start;
    for number in 0..=len.div_ceil(span) {
        let start = number * span;
        let ahead = len.min(start)..len.min(start + span);
        let behind = start.saturating_sub(span)..ahead.start;
        for (row, diagonal) in rows.iter().zip(diagonals) {
            add_up(cells, row, ahead.clone(), diagonal, behind.clone());
        }
    }
    Ok(())
}

/// Takes a part of each of two steps; that of the row begins where that of the diagonal ends.
fn add_up<C: Buffer>(
    cells: &mut [C],
    row: &Step,
    ahead: Range<usize>,
    diagonal: &Step,
    behind: Range<usize>,
) {
    let mut row_parity = mem::take(&mut cells[row.into]);
    let mut diagonal_parity = mem::take(&mut cells[diagonal.into]);
    // The known part of the row's parity may lie on the diagonal.
    let (known, unknown) = row_parity.as_mut().split_at_mut(ahead.start);
    let (mut of_row, mut of_diagonal): ([&[u8]; SOURCES], [&[u8]; SOURCES]) = Default::default();
    for (source, &cell) in of_row.iter_mut().zip(&row.from) {
        *source = &cells[cell].as_ref()[ahead.clone()];
    }
    for (source, &cell) in of_diagonal.iter_mut().zip(&diagonal.from) {
        *source = if cell == row.into {
            &known[behind.clone()]
        } else {
            &cells[cell].as_ref()[behind.clone()]
        };
    }
    let from_memory = Sum {
        into: &mut unknown[..ahead.len()],
        from: &of_row[..row.from.len()],
    };
    let from_cache = Sum {
        into: &mut diagonal_parity.as_mut()[behind],
        from: &of_diagonal[..diagonal.from.len()],
    };
    xor_of_both(from_memory, from_cache);
    cells[row.into] = row_parity;
    cells[diagonal.into] = diagonal_parity;
}
