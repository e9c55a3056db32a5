//! Plans, run on bytes.

use std::mem;
use std::ops::Range;

use tabane_lanes::{xor_into, xor_of};

use crate::plan::{Plan, Step, update_plan};
use crate::repair::repair_plan;
use crate::{Error, Layout};

/// How much of all cells together is worked on at a time, so that a cell that is used twice comes
/// from the cache.
const WORKING_SET_BYTES: usize = 768 << 10;

/// The least and the most of one cell that is worked on at a time. Less than a page is read from
/// memory so slowly that reading it twice is faster.
const SPAN_BYTES: Range<usize> = 4 << 10..64 << 10;

/// How many sources are added up in one pass.
pub const SOURCES: usize = 32;

/// Computes the cells of lost roles anew, from those that [`repair_plan`] reads. The buffers of
/// lost cells are overwritten, those of cells that are neither read nor lost may be empty.
///
/// # Errors
///
/// As [`repair_plan`] and [`encode`](crate::encode); then nothing is changed.
pub fn repair<C: Buffer>(layout: &Layout, cells: &mut [C], lost: &[usize]) -> Result<(), Error> {
    count(layout, cells)?;
    repair_plan(layout, lost)?.run(cells)
}

/// The bytes of a cell: `Vec<u8>`, `&mut [u8]`.
pub trait Buffer: AsRef<[u8]> + AsMut<[u8]> + Default {}

impl<T: AsRef<[u8]> + AsMut<[u8]> + Default> Buffer for T {}

/// Replaces a data block, and changes the parities that cover it by what it changes by.
///
/// # Errors
///
/// As [`encode`](crate::encode); `new` counts as a buffer of the block's cell. Then nothing is
/// changed.
///
/// # Panics
///
/// If there is no such block.
pub fn update<C: Buffer>(
    layout: &Layout,
    cells: &mut [C],
    block: usize,
    new: &[u8],
) -> Result<(), Error> {
    count(layout, cells)?;
    let cell = layout.data_cells()[block];
    let parities = update_plan(layout, &[block]).steps;
    let parities: Vec<usize> = parities.into_iter().map(|step| step.into).collect();
    same_length(cells, new.len(), parities.iter().chain([&cell]))?;
    let mut change = mem::take(&mut cells[cell]);
    xor_into(change.as_mut(), &[new]);
    for parity in parities {
        xor_into(cells[parity].as_mut(), &[change.as_ref()]);
    }
    change.as_mut().copy_from_slice(new);
    cells[cell] = change;
    Ok(())
}

impl Plan {
    /// Takes the steps on `cells`, whose indices are the numbers of cells. Those that the plan does
    /// not name are not looked at.
    ///
    /// # Errors
    ///
    /// [`Error::CellLength`] if cells that the plan names differ in length; then nothing is
    /// changed.
    ///
    /// # Panics
    ///
    /// If the plan names a cell that is not there.
    pub fn run<C: Buffer>(&self, cells: &mut [C]) -> Result<(), Error> {
        let len = self.cell_len(cells)?;
        if len == 0 {
            return Ok(());
        }
        let span = (WORKING_SET_BYTES / cells.len()).clamp(SPAN_BYTES.start, SPAN_BYTES.end);
        let span = span - span % SPAN_BYTES.start;
        for start in (0..len).step_by(span) {
            for step in &self.steps {
                step.run(cells, start..len.min(start + span));
            }
        }
        Ok(())
    }

    /// The length of all cells that the plan names; 0 if it names none.
    ///
    /// # Errors
    ///
    /// [`Error::CellLength`].
    pub(crate) fn cell_len<C: Buffer>(&self, cells: &[C]) -> Result<usize, Error> {
        let Some(first) = self.steps.first() else {
            return Ok(0);
        };
        let len = cells[first.into].as_ref().len();
        for step in &self.steps {
            same_length(cells, len, step.from.iter().chain([&step.into]))?;
        }
        Ok(len)
    }
}

impl Step {
    /// Computes this part of its cell.
    fn run<C: Buffer>(&self, cells: &mut [C], span: Range<usize>) {
        let mut into = mem::take(&mut cells[self.into]);
        let sum = &mut into.as_mut()[span.clone()];
        for (number, group) in self.from.chunks(SOURCES).enumerate() {
            let mut sources: [&[u8]; SOURCES] = [&[]; SOURCES];
            for (source, &cell) in sources.iter_mut().zip(group) {
                *source = &cells[cell].as_ref()[span.clone()];
            }
            let sources = &sources[..group.len()];
            match number {
                0 => xor_of(sum, sources),
                _ => xor_into(sum, sources),
            }
        }
        cells[self.into] = into;
    }
}

/// Whether there is a buffer for each cell of a layout.
pub fn count<C>(layout: &Layout, cells: &[C]) -> Result<(), Error> {
    let (given, expected) = (cells.len(), layout.cells());
    if given == expected {
        Ok(())
    } else {
        Err(Error::CellCount { given, expected })
    }
}

fn same_length<'a, C: Buffer>(
    cells: &[C],
    len: usize,
    mut named: impl Iterator<Item = &'a usize>,
) -> Result<(), Error> {
    match named.find(|&&cell| cells[cell].as_ref().len() != len) {
        None => Ok(()),
        Some(&other) => Err(Error::CellLength(other)),
    }
}
