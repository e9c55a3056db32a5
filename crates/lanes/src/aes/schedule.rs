//! Messages of unequal lengths on a fixed number of lanes.
//!
//! All lanes advance by as many blocks as the lane with the fewest has left; then that lane gets the next message. Long
//! messages start first, so that the last ones to end are short. When too few are left for the lanes, those go on,
//! from where they are, with fewer lanes.

use core::cmp::Reverse;
use core::ptr;

use super::arch::Engine;
use super::lanes::{LaneKeys, LaneSet, MAX_LANES, OneKey, OwnKeys};
use super::{BLOCK, CbcJob};

/// Encrypts each job's message, which is whole blocks.
pub(super) fn cbc_encrypt_many(jobs: &mut [CbcJob]) {
    let Some(backend) = jobs.iter().map(|job| job.key.backend()).min() else {
        return;
    };
    let engines = backend.kernels().engines;

    // Lanes go through the same number of rounds.
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    let place = |&index: &usize| {
        let job: &CbcJob = &jobs[index];
        (job.key.rounds, Reverse(job.data.len()))
    };
    if !order.is_sorted_by_key(place) {
        order.sort_unstable_by_key(place);
    }
    let mut rest = &order[..];
    while let Some(&first) = rest.first() {
        let key = jobs[first].key;
        let end = rest.partition_point(|&index| jobs[index].key.rounds == key.rounds);
        let (group, after) = rest.split_at(end);
        rest = after;
        if group.iter().all(|&index| ptr::eq(jobs[index].key, key)) {
            run(engines, OneKey(key), key.rounds, jobs, group);
        } else {
            run(engines, OwnKeys::new(), key.rounds, jobs, group);
        }
    }
}

/// Messages at work. The first `active` lanes hold one each.
struct Lanes<K> {
    set: LaneSet,
    keys: K,
    /// Blocks left.
    left: [usize; MAX_LANES],
    job: [usize; MAX_LANES],
    active: usize,
}

impl<K: LaneKeys> Lanes<K> {
    /// Puts a message in a lane.
    #[inline]
    fn start(&mut self, lane: usize, index: usize, job: &mut CbcJob) {
        self.set.before[lane] = *job.iv;
        self.set.data[lane] = job.data.as_mut_ptr().cast();
        self.keys.set(lane, job.key);
        self.left[lane] = job.data.len() / BLOCK;
        self.job[lane] = index;
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
        self.left[lane] = self.left[last];
        self.job[lane] = self.job[last];
    }

    /// Advances all messages by the fewest blocks that one of them has left.
    #[inline]
    fn step(&mut self, engine: &Engine, rounds: usize) {
        for lane in self.active..engine.lanes {
            self.copy(0, lane);
        }
        let left = &mut self.left[..self.active];
        let blocks = left.iter().fold(usize::MAX, |least, &left| least.min(left));
        // SAFETY: a key's backend, and with it the engine, is available. Each active lane has `blocks` blocks left, which its
        // job borrows mutably and alone; the others agree with lane 0.
        unsafe { K::function(engine)(&mut self.set, &self.keys, rounds, blocks) };
        for (left, data) in left.iter_mut().zip(&mut self.set.data) {
            *left -= blocks;
            *data = data.wrapping_add(blocks);
        }
    }
}

/// Encrypts the jobs of a group, in its order.
fn run<K: LaneKeys>(
    engines: &[Engine],
    keys: K,
    rounds: usize,
    jobs: &mut [CbcJob],
    group: &[usize],
) {
    let mut queue = group
        .iter()
        .filter(|&&index| !jobs[index].data.is_empty())
        .copied()
        .collect::<Vec<_>>()
        .into_iter();
    let mut lanes = Lanes {
        set: LaneSet {
            before: [[0; BLOCK]; MAX_LANES],
            data: [ptr::null_mut(); MAX_LANES],
        },
        keys,
        left: [0; MAX_LANES],
        job: [0; MAX_LANES],
        active: 0,
    };
    loop {
        let messages = lanes.active + queue.len();
        let enough = engines.iter().find(|engine| engine.lanes >= messages);
        let engine = enough.unwrap_or(&engines[engines.len() - 1]);
        while lanes.active < engine.lanes {
            let Some(index) = queue.next() else { break };
            lanes.start(lanes.active, index, &mut jobs[index]);
            lanes.active += 1;
        }
        if lanes.active == 0 {
            return;
        }
        lanes.step(engine, rounds);
        // From the last lane down: what takes the place of a removed lane has been looked at already.
        for lane in (0..lanes.active).rev() {
            if lanes.left[lane] > 0 {
                continue;
            }
            *jobs[lanes.job[lane]].iv = lanes.set.before[lane];
            match queue.next() {
                Some(index) => lanes.start(lane, index, &mut jobs[index]),
                None => lanes.remove(lane),
            }
        }
    }
}
