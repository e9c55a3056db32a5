//! The gear hash of content-defined chunking, at every position of data that are on a card.

use std::ops::Range;
use std::sync::Arc;

use zeroize::Zeroizing;

use crate::card::Card;
use crate::error::Error;
use crate::kernel::Kernel;
use crate::memory::DeviceBuffer;

/// Bytes that a hash covers, and positions that a mark has a bit for: `WINDOW` of `gear.cu`.
const WINDOW: usize = 32;

/// Bytes that a thread goes over: `STRETCH` of `gear.cu`.
const STRETCH: usize = 512;

/// Threads of a block.
const THREADS: u32 = 256;

/// Bytes of data in a launch at most: positions there have 31 bits.
const PIECE_MAX: usize = 1 << 31;

/// Marks that a launch has room for. Of data with more it goes over shorter pieces, down to those
/// that cannot have more.
const ROOM: usize = 1 << 20;

/// Bytes of a mark: `Below` of `gear.cu`.
const MARK_LEN: usize = 12;

/// The gear hash with its table on a card; wiped there when it is dropped.
///
/// Over the 32 bytes `b` that end at a position the hash is `Σ table[b[31-k]] << k (mod 2³²)`.
pub struct Gear<'c> {
    card: &'c Card,
    kernel: Kernel,
    table: DeviceBuffer,
    count: DeviceBuffer,
    found: DeviceBuffer,
}

/// Where the gear hash of data is below two limits.
pub struct Marks(Vec<Mark>);

/// Of the 32 positions from `32 * number` on those at which the hash is below the limits, the first
/// in the lowest bit.
struct Mark {
    number: usize,
    lax: u32,
    strict: u32,
}

impl<'c> Gear<'c> {
    /// Brings the table, which has a number for each byte, to the card, and has it hash known data.
    ///
    /// # Errors
    /// The card fails, or computes wrongly.
    pub fn new(card: &'c Card, table: &[u32; 256]) -> Result<Self, Error> {
        let module = card.core.load_module(include_str!("../ptx/gear.ptx"))?;
        let mut gear = Self {
            card,
            kernel: module.kernel("gear_below", THREADS)?,
            table: card.allocate(1024)?,
            count: card.allocate(4)?,
            found: card.allocate(ROOM * MARK_LEN)?,
        };
        let bytes = table.iter().flat_map(|number| number.to_le_bytes());
        gear.table
            .write(&Zeroizing::new(bytes.collect::<Vec<u8>>()))?;
        gear.check(table)
            .inspect_err(|error| card.core.give_up(error))?;
        Ok(gear)
    }

    /// Compares with the definition.
    fn check(&mut self, table: &[u32; 256]) -> Result<(), Error> {
        const LIMITS: [u32; 2] = [1 << 26, 1 << 28];
        let bytes: Vec<u8> = (0..1000_u32).map(|i| (i * i / 7) as u8).collect();
        let mut data = self.card.allocate(bytes.len())?;
        data.write(&bytes)?;
        let marks = self.marks(&data, LIMITS[0], LIMITS[1])?;
        let (mut hash, mut expected) = (0_u32, [Vec::new(), Vec::new()]);
        for (position, &byte) in bytes.iter().enumerate() {
            hash = (hash << 1).wrapping_add(table[usize::from(byte)]);
            for (positions, limit) in expected.iter_mut().zip(LIMITS) {
                if position >= WINDOW && hash < limit {
                    positions.push(position);
                }
            }
        }
        let all = |strict| {
            let mut from = 0;
            std::iter::from_fn(|| {
                let position = marks.first_below(from..bytes.len(), strict)?;
                from = position + 1;
                Some(position)
            })
            .collect::<Vec<_>>()
        };
        if [all(true), all(false)] != expected {
            return Err(Error::WrongAnswer("the gear hash"));
        }
        Ok(())
    }

    /// The positions of `data`, from 32 on, at which the hash is below `lax`, and those of them at
    /// which it is below `strict`. Nothing but they leaves the card.
    ///
    /// # Errors
    /// The data are of another card, or the card fails.
    pub fn marks(&mut self, data: &DeviceBuffer, strict: u32, lax: u32) -> Result<Marks, Error> {
        if !Arc::ptr_eq(data.core(), &self.card.core) {
            return Err(Error::Misuse("a buffer is of another card"));
        }
        let (mut marks, mut bytes) = (Vec::new(), Vec::new());
        let (mut start, mut piece) = (WINDOW, PIECE_MAX);
        while start < data.len() {
            // With the window before it.
            let begin = start - WINDOW;
            let len = piece.min(data.len() - begin);
            let count = self.launch(data.address() + begin as u64, len as u32, strict, lax)?;
            if count > ROOM {
                piece = len / 2 / WINDOW * WINDOW;
                continue;
            }
            bytes.resize(count * MARK_LEN, 0);
            self.found.read(&mut bytes)?;
            let first = marks.len();
            marks.extend(bytes.chunks_exact(MARK_LEN).map(|mark| {
                let word =
                    |i: usize| u32::from_le_bytes(mark[4 * i..][..4].try_into().expect("4 bytes"));
                Mark {
                    number: begin / WINDOW + word(0) as usize,
                    lax: word(1),
                    strict: word(2),
                }
            }));
            marks[first..].sort_unstable_by_key(|mark| mark.number);
            start = begin + len;
        }
        Ok(Marks(marks))
    }

    /// Starts the kernel on `len` bytes; returns how many marks there are.
    fn launch(&mut self, data: u64, len: u32, strict: u32, lax: u32) -> Result<usize, Error> {
        let (table, room) = (self.table.address(), ROOM as u32);
        let (count, found) = (self.count.address(), self.found.address());
        let blocks = len.div_ceil(THREADS * STRETCH as u32);
        let mut counted = [0; 4];
        self.card.core.on_stream(|core, stream| {
            // SAFETY: the 4 bytes of the count; the arguments of the kernel, of which so many bytes
            // are there, rounded up to a multiple of 16, and so many marks have room; and 4 bytes
            // of ours. `on_stream` waits.
            unsafe {
                let code = (core.driver.fill)(count, 0, counted.len(), stream);
                core.driver.check("cuMemsetD8Async", code)?;
                self.kernel.launch(
                    core,
                    stream,
                    blocks,
                    [&data, &len, &table, &strict, &lax, &room, &count, &found],
                )?;
                let to = counted.as_mut_ptr().cast();
                let code = (core.driver.copy_out)(to, count, counted.len(), stream);
                core.driver.check("cuMemcpyDtoHAsync", code)
            }
        })?;
        Ok(u32::from_le_bytes(counted) as usize)
    }
}

impl Drop for Gear<'_> {
    fn drop(&mut self) {
        // A card that was given up takes no calls; its memory goes with the process.
        let _ = self.table.fill(0);
    }
}

impl Marks {
    /// The first of these positions at which the hash is below the strict or the lax limit.
    pub fn first_below(&self, positions: Range<usize>, strict: bool) -> Option<usize> {
        let first = self
            .0
            .partition_point(|mark| (mark.number + 1) * WINDOW <= positions.start);
        let (mark, bits) = self.0[first..]
            .iter()
            .map(|mark| {
                let bits = if strict { mark.strict } else { mark.lax };
                let before = positions.start.saturating_sub(mark.number * WINDOW);
                (mark, bits & u32::MAX << before)
            })
            .take_while(|(mark, _)| mark.number * WINDOW < positions.end)
            .find(|&(_, bits)| bits != 0)?;
        let position = mark.number * WINDOW + bits.trailing_zeros() as usize;
        (position < positions.end).then_some(position)
    }
}
