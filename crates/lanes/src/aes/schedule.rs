//! CBC encryption of many messages: unequal lengths on a fixed number of lanes.
//!
//! All lanes advance by as many chunks as the lane with the fewest has left; then that lane gets
//! the next message. Long messages start first, so that the last ones to end are short. When
//! messages become fewer than lanes, the rest goes on with a kernel of fewer lanes. Blocks at the
//! end of a message that are less than a chunk are copied to one and back.

use core::ptr;

use super::block::{BLOCK, Block};
use super::error::Error;
use super::in_out::InOut;
use super::kernels::{CbcKernel, Kernels};
use super::key::Key;
use super::lane_keys::{LANES_MAX, LaneKeys, LaneSet, OneKey, OwnKeys};
use super::lanes::{AHEAD_BYTES, CHUNK_BLOCKS, CHUNK_BYTES};
use crate::prefetch::prefetch;

/// A message for [`cbc_encrypt_many`].
pub struct CbcJob<'a> {
    /// The message's key; others may use the same.
    pub key: &'a Key,
    /// The initialization vector. Afterwards it holds the last block of ciphertext, with which a
    /// next call continues the message.
    pub iv: &'a mut [u8; BLOCK],
    /// Plaintext before, ciphertext after. A multiple of 16 bytes; may be empty.
    pub data: &'a mut [u8],
}

/// Encrypts each job's message in CBC mode, in place.
///
/// Any number of messages of any lengths, on the calling thread. 48 or more of like lengths fill
/// the AES units. It is fastest where all jobs borrow one key.
///
/// # Errors
///
/// [`Error::DataLength`] if a message is not a multiple of 16 bytes long. Then nothing is
/// encrypted.
pub fn cbc_encrypt_many(jobs: &mut [CbcJob]) -> Result<(), Error> {
    for job in jobs.iter_mut() {
        InOut::from(&mut *job.data).whole_blocks()?;
    }
    encrypt_whole_blocks(jobs);
    Ok(())
}

/// Encrypts each job's message, which is whole blocks.
fn encrypt_whole_blocks(jobs: &mut [CbcJob]) {
    let kernels = jobs.iter().map(|job| job.key.kernels());
    let Some(kernels) = kernels.min_by_key(|kernels| kernels.backend) else {
        return;
    };
    if let [job] = jobs {
        // SAFETY: a key's backend is available, and the data are whole blocks.
        return unsafe {
            (kernels.cbc_encrypt)(job.key, job.iv, InOut::from(&mut *job.data).blocks())
        };
    }
    // Lanes go through the same number of rounds.
    for rounds in [10, 12, 14] {
        let group = longest_first(jobs, rounds);
        let Some(&first) = group.first() else {
            continue;
        };
        let key = jobs[first].key;
        if group.iter().all(|&index| ptr::eq(jobs[index].key, key)) {
            run(kernels, &mut OneKey(key), rounds, jobs, &group);
        } else {
            run(kernels, &mut OwnKeys::new(), rounds, jobs, &group);
        }
    }
}

/// The indices of non-empty jobs whose keys have `rounds` rounds, long ones first to within an
/// eighth of their length.
fn longest_first(jobs: &[CbcJob], rounds: usize) -> Vec<usize> {
    // A floating-point number of 6 + 3 bits; larger for shorter messages.
    let bucket = |index: &usize| {
        let blocks = jobs[*index].data.len() / BLOCK;
        let power = blocks.ilog2();
        let fraction = (blocks << 3 >> power) & 7;
        511 - (8 * power as usize + fraction)
    };
    let indices: Vec<usize> = (0..jobs.len())
        .filter(|&index| jobs[index].key.rounds == rounds && !jobs[index].data.is_empty())
        .collect();
    if indices.is_sorted_by_key(bucket) {
        return indices;
    }
    let mut places = [0; 513];
    for index in &indices {
        places[bucket(index) + 1] += 1;
    }
    for i in 0..512 {
        places[i + 1] += places[i];
    }
    let mut order = vec![0; indices.len()];
    for index in indices {
        let place = &mut places[bucket(&index)];
        order[*place] = index;
        *place += 1;
    }
    order
}

/// Messages at work. The first `active` lanes hold one each.
struct Lanes<'k, K> {
    set: LaneSet,
    keys: &'k mut K,
    /// The last blocks of messages, where they are less than a chunk.
    tails: [[Block; CHUNK_BLOCKS]; LANES_MAX],
    /// Chunks left to read at `set.data`: of the message, or of its tail.
    left: [usize; LANES_MAX],
    in_tail: [bool; LANES_MAX],
    job: [usize; LANES_MAX],
    active: usize,
}

impl<'k, K: LaneKeys> Lanes<'k, K> {
    fn new(keys: &'k mut K) -> Self {
        Self {
            set: LaneSet {
                before: [[0; BLOCK]; LANES_MAX],
                data: [ptr::null_mut(); LANES_MAX],
            },
            keys,
            tails: [[[0; BLOCK]; CHUNK_BLOCKS]; LANES_MAX],
            left: [0; LANES_MAX],
            in_tail: [false; LANES_MAX],
            job: [0; LANES_MAX],
            active: 0,
        }
    }

    /// Puts a message in a lane.
    #[inline]
    fn start(&mut self, lane: usize, index: usize, job: &mut CbcJob) {
        self.set.before[lane] = *job.iv;
        self.set.data[lane] = job.data.as_mut_ptr().cast();
        self.keys.set(lane, job.key);
        self.left[lane] = job.data.len() / BLOCK / CHUNK_BLOCKS;
        self.in_tail[lane] = false;
        self.job[lane] = index;
        if self.left[lane] == 0 {
            self.start_tail(lane, job);
        }
    }

    #[inline]
    fn start_tail(&mut self, lane: usize, job: &mut CbcJob) {
        let tail = tail(job);
        self.tails[lane][..tail.len()].copy_from_slice(tail);
        self.left[lane] = 1;
        self.in_tail[lane] = true;
    }

    /// Completes a finished message: copies its tail back and sets its vector.
    #[inline]
    fn finish(&self, lane: usize, job: &mut CbcJob) {
        if self.in_tail[lane] {
            let tail = tail(job);
            tail.copy_from_slice(&self.tails[lane][..tail.len()]);
            *job.iv = self.tails[lane][tail.len() - 1];
        } else {
            *job.iv = self.set.before[lane];
        }
    }

    /// Makes a lane do what another one does.
    #[inline]
    fn copy(&mut self, from: usize, to: usize) {
        self.set.before[to] = self.set.before[from];
        self.set.data[to] = self.set.data[from];
        self.keys.copy(from, to);
    }

    /// Empties a lane; the last active lane takes its place.
    #[inline]
    fn remove(&mut self, lane: usize) {
        self.active -= 1;
        let last = self.active;
        self.copy(last, lane);
        self.tails[lane] = self.tails[last];
        self.left[lane] = self.left[last];
        self.in_tail[lane] = self.in_tail[last];
        self.job[lane] = self.job[last];
    }

    /// Advances all messages by as many chunks as the shortest has left, at most by `most`.
    #[inline]
    fn step(&mut self, kernel: &CbcKernel, rounds: usize, most: usize) {
        let mut chunks = most;
        for lane in 0..self.active {
            chunks = chunks.min(self.left[lane]);
            if self.in_tail[lane] {
                self.set.data[lane] = self.tails[lane].as_mut_ptr();
            }
        }
        for lane in self.active..kernel.lanes {
            self.copy(0, lane);
        }
        // SAFETY: a key's backend, and with it the kernel, is available. Each active lane has
        // `chunks` chunks left, in its tail or in a message that its job borrows mutably and alone;
        // the other lanes agree with lane 0.
        unsafe { K::function(kernel, rounds)(&mut self.set, self.keys, chunks) };
        for lane in 0..self.active {
            self.left[lane] -= chunks;
            self.set.data[lane] = self.set.data[lane].wrapping_add(chunks * CHUNK_BLOCKS);
        }
    }

    /// Finishes the message of lane 0, which is the only one.
    fn finish_alone(&self, kernels: &Kernels, job: &mut CbcJob) {
        let mut blocks = job.data.len() / BLOCK % CHUNK_BLOCKS;
        if !self.in_tail[0] {
            blocks += self.left[0] * CHUNK_BLOCKS;
        }
        let done = job.data.len() - blocks * BLOCK;
        *job.iv = self.set.before[0];
        // SAFETY: a key's backend is available, and the data are whole blocks.
        unsafe {
            let rest = InOut::from(&mut job.data[done..]).blocks();
            (kernels.cbc_encrypt)(job.key, job.iv, rest)
        };
    }
}

/// Has the beginning of the message that will be started next brought into the cache: the lanes
/// would all wait for it. From there on the kernel fetches ahead.
fn fetch_start(data: &[u8]) {
    for line in data[..data.len().min(AHEAD_BYTES)].chunks(CHUNK_BYTES) {
        prefetch(line.as_ptr());
    }
}

/// The last blocks of a message, where they are less than a chunk.
fn tail<'a>(job: &'a mut CbcJob<'_>) -> &'a mut [Block] {
    let (blocks, _) = job.data.as_chunks_mut();
    let whole = blocks.len() / CHUNK_BLOCKS * CHUNK_BLOCKS;
    &mut blocks[whole..]
}

/// Encrypts the jobs of a group, in its order.
fn run<K: LaneKeys>(
    kernels: &Kernels,
    keys: &mut K,
    rounds: usize,
    jobs: &mut [CbcJob],
    group: &[usize],
) {
    let mut queue = group.iter().copied();
    let mut lanes = Lanes::new(keys);
    let widest = kernels.cbc_kernel(usize::MAX).lanes;
    let mut stagger = collide(group.iter().take(widest).map(|&index| &*jobs[index].data));
    loop {
        let mut fill = widest;
        let mut most = usize::MAX;
        if stagger {
            fill = widest.min(lanes.active + STAGGER_LANES);
            stagger = fill < widest.min(lanes.active + queue.len());
            if stagger {
                most = STAGGER_CHUNKS;
            }
        }
        while lanes.active < fill {
            let Some(index) = queue.next() else { break };
            lanes.start(lanes.active, index, &mut jobs[index]);
            lanes.active += 1;
        }
        match lanes.active {
            0 => return,
            1 => return lanes.finish_alone(kernels, &mut jobs[lanes.job[0]]),
            active => lanes.step(kernels.cbc_kernel(active), rounds, most),
        }
        // From the last lane down: what takes the place of a removed lane has been looked at
        // already.
        for lane in (0..lanes.active).rev() {
            if lanes.left[lane] > 0 {
                continue;
            }
            let job = &mut jobs[lanes.job[lane]];
            if !lanes.in_tail[lane] && !tail(job).is_empty() {
                lanes.start_tail(lane, job);
                continue;
            }
            lanes.finish(lane, job);
            match queue.next() {
                Some(index) => {
                    lanes.start(lane, index, &mut jobs[index]);
                    if let Some(after) = queue.clone().next() {
                        fetch_start(jobs[after].data);
                    }
                }
                None => lanes.remove(lane),
            }
        }
    }
}

/// As many lanes as may work on the same set of a cache at once: level 1 has 8 or 12 ways.
const STAGGER_LANES: usize = 8;

/// Chunks by which each further [`STAGGER_LANES`] lanes start later: one more than the three in
/// work, which are read, encrypted and written.
const STAGGER_CHUNKS: usize = 4;

/// Whether messages that start together would throw each other out of the cache.
///
/// Blocks of 64 KiB, one after the other in memory, do: all that lanes read and write at one moment
/// falls into the same set of the caches, which has no room for as many. It takes two thirds of the
/// speed. So lanes then start a few at a time.
fn collide<'a>(messages: impl Iterator<Item = &'a [u8]>) -> bool {
    const CACHE_SETS: usize = 64;
    const LONG_BYTES: usize = 64 * CHUNK_BYTES;
    let mut starts = [0_u8; CACHE_SETS];
    for message in messages.filter(|message| message.len() >= LONG_BYTES) {
        starts[message.as_ptr().addr() / CHUNK_BYTES % CACHE_SETS] += 1;
    }
    (0..CACHE_SETS).any(|set| {
        let near = (0..STAGGER_CHUNKS).map(|after| starts[(set + after) % CACHE_SETS]);
        usize::from(near.sum::<u8>()) > STAGGER_LANES + STAGGER_LANES / 2
    })
}
