//! CBC encryption of many messages at once: one message a lane of 128 bits.

use super::block::{BLOCK, Block, BlockVector};
use super::lane_keys::{LANES_MAX, LaneSet};
use super::round_keys::RoundKeys;
use crate::prefetch::prefetch;

/// Blocks that are read and written together: a cache line.
pub(super) const CHUNK_BLOCKS: usize = 4;

/// The same in bytes.
pub(super) const CHUNK_BYTES: usize = CHUNK_BLOCKS * BLOCK;

/// By how many bytes cache lines are fetched before they are read. There are more lanes than
/// streams that processors notice, and from memory it is ten times as fast as without.
pub(super) const AHEAD_BYTES: usize = 4 * CHUNK_BYTES;

/// Repeats a block with a constant for the number. The compiler would not unroll a loop of this
/// size, and does not know then which register is meant.
macro_rules! unrolled {
    ($number:ident in $($value:literal)+ $body:block) => {
        $({
            const $number: usize = $value;
            $body
        })+
    };
}

/// The body of every [`EncryptLanes`](super::lane_keys::EncryptLanes), with `N * V::BLOCKS` lanes.
///
/// A chunk of each lane is turned into columns, registers that hold one block of each of several
/// lanes, and back. That takes shuffles, which on many processors share a port with the AES
/// instructions. They go unnoticed where a few of them lie between many rounds. So the rounds of
/// one chunk are interleaved with the write of the chunk before and the read of the next one.
///
/// # Safety
///
/// As [`EncryptLanes`](super::lane_keys::EncryptLanes).
#[inline(always)]
pub(super) unsafe fn encrypt_lanes<V: BlockVector, const N: usize, const ROUNDS: usize>(
    set: &mut LaneSet,
    keys: &impl RoundKeys<V>,
    chunks: usize,
) {
    const { assert!(N * V::BLOCKS <= LANES_MAX) };
    let before = set.before.as_mut_ptr();
    let data = set.data.as_ptr();
    // SAFETY: the caller promises the instruction set; there are N * BLOCKS lanes.
    let mut state = unsafe { [V::load(before); N] };
    for (i, state) in state.iter_mut().enumerate() {
        // SAFETY: the instruction set as before; index `i * BLOCKS` is below the number of lanes.
        *state = unsafe { V::load(before.add(i * V::BLOCKS)) };
    }

    let mut buffers = [[[state[0]; 4]; N]; 2];
    let [now, other] = &mut buffers;
    let (mut now, mut other) = (now, other);
    for (i, columns) in now.iter_mut().enumerate() {
        for half in 0..2 {
            // SAFETY: the caller promises a chunk.
            unsafe { V::load_columns(data.add(i * V::BLOCKS), 0, half, columns) };
        }
    }
    // The ends take no branches, around which the compiler would move the rounds together: the
    // first chunk is written back as it is, and the last one is read twice.
    *other = *now;
    for chunk in 0..chunks {
        let previous = chunk.saturating_sub(1) * CHUNK_BYTES;
        let next = (chunk + 1).min(chunks - 1) * CHUNK_BYTES;
        for column in 0..4 {
            for (state, columns) in state.iter_mut().zip(&*now) {
                *state = state.xor(columns[column]);
            }
            let keys = keys.again();
            for (i, state) in state.iter_mut().enumerate() {
                *state = state.xor(keys.get(0, i));
            }
            macro_rules! round {
                ($round:expr) => {
                    let halves = [(0, N / 2), (N / 2, N)];
                    for (half, (from, to)) in halves.into_iter().enumerate() {
                        for (i, state) in state[from..to].iter_mut().enumerate() {
                            if $round < ROUNDS {
                                *state = state.encrypt_round(keys.get($round, from + i));
                            } else if $round == ROUNDS {
                                *state = state.encrypt_last(keys.get($round, from + i));
                            }
                        }
                        // A quarter of the pieces, evenly.
                        let place = 2 * ($round - 1) + half;
                        let end = ((place + 1) * N / (2 * ROUNDS)).min(N);
                        for piece in place * N / (2 * ROUNDS)..end {
                            let piece = column * N + piece;
                            // SAFETY: the caller promises that `data` has `chunks` chunks in each
                            // lane.
                            unsafe { move_piece(other, piece, data, previous, next) };
                        }
                    }
                };
            }
            if V::SHORT_ROUNDS {
                unrolled!(ROUND in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 { round!(ROUND); });
            } else {
                for round in 1..=ROUNDS {
                    round!(round);
                }
            }
            for (state, columns) in state.iter().zip(&mut *now) {
                columns[column] = *state;
            }
        }
        core::mem::swap(&mut now, &mut other);
    }
    for (i, columns) in other.iter().enumerate() {
        for half in 0..2 {
            // SAFETY: the caller promises that `data` has `chunks` chunks in each lane.
            unsafe {
                V::store_columns(
                    columns,
                    data.add(i * V::BLOCKS),
                    (chunks - 1) * CHUNK_BYTES,
                    half,
                )
            };
        }
    }
    for (i, state) in state.iter().enumerate() {
        // SAFETY: there are N * BLOCKS lanes.
        unsafe { state.store(before.add(i * V::BLOCKS)) };
    }
}

/// Writes or reads half of a register's columns: one of four pieces a register.
///
/// # Safety
///
/// The processor has the instruction set. For each lane of `N * V::BLOCKS`, `data` is readable, and
/// what it points to is writable for a chunk at `previous` and readable for one at `next`.
#[inline(always)]
unsafe fn move_piece<V: BlockVector, const N: usize>(
    buffer: &mut [[V; 4]; N],
    piece: usize,
    data: *const *mut Block,
    previous: usize,
    next: usize,
) {
    let register = piece / 4;
    let half = piece % 2;
    // SAFETY: the caller's promise.
    unsafe {
        let lanes = data.add(register * V::BLOCKS);
        if piece % 4 < 2 {
            V::store_columns(&buffer[register], lanes, previous, half);
        } else {
            if half == 0 {
                for lane in 0..V::BLOCKS {
                    prefetch(
                        (*lanes.add(lane))
                            .cast::<u8>()
                            .wrapping_add(next + AHEAD_BYTES),
                    );
                }
            }
            V::load_columns(lanes, next, half, &mut buffer[register]);
        }
    }
}
