//! Messages of unequal lengths on a fixed number of lanes.
//!
//! All lanes advance by as many blocks as the lane with the fewest has left; then that lane gets its padding or
//! the next message. Long messages start first, so that the last ones to end are short. When too few are left for
//! the lanes, those go on, from the state that they have reached, with a narrower engine.

use crate::algorithm::Kernel;
use crate::arch::Engine;
use crate::digest::Digest;
use crate::plan::Plan;
use crate::vector::{LaneSet, MAX_LANES};

const BLOCK: usize = 64;

/// The end of a message and its padding: one or two blocks.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Tail([u8; 2 * BLOCK]);

impl Tail {
    /// Writes the bytes after the last whole block of `message`, its padding and its length; returns the number of
    /// blocks.
    #[inline]
    fn fill<K: Kernel>(&mut self, message: &[u8]) -> usize {
        let rest = &message[message.len() / BLOCK * BLOCK..];
        let blocks = if rest.len() < BLOCK - 8 { 1 } else { 2 };
        // The standards count bits modulo 2⁶⁴.
        let bits = (message.len() as u64).wrapping_mul(8);
        self.0[..BLOCK].fill(0);
        self.0[BLOCK..].fill(0);
        self.0[..rest.len()].copy_from_slice(rest);
        self.0[rest.len()] = 0x80;
        let length = if K::BIG_ENDIAN {
            bits.to_be_bytes()
        } else {
            bits.to_le_bytes()
        };
        self.0[blocks * BLOCK - 8..blocks * BLOCK].copy_from_slice(&length);
        blocks
    }
}

/// Messages at work. The first `active` lanes hold one each.
struct Lanes<'a> {
    set: LaneSet,
    tails: [Tail; MAX_LANES],
    /// Blocks left to read at `set.data`: of the message, or of its tail.
    left: [usize; MAX_LANES],
    in_tail: [bool; MAX_LANES],
    message: [(usize, &'a [u8]); MAX_LANES],
    active: usize,
}

impl<'a> Lanes<'a> {
    fn new() -> Self {
        Self {
            set: LaneSet::new(),
            tails: [Tail([0; 2 * BLOCK]); MAX_LANES],
            left: [0; MAX_LANES],
            in_tail: [false; MAX_LANES],
            message: [(0, &[]); MAX_LANES],
            active: 0,
        }
    }

    /// Puts a message in a lane.
    #[inline]
    fn start<K: Kernel>(&mut self, lane: usize, index: usize, message: &'a [u8]) {
        for (row, &word) in self.set.state.iter_mut().zip(K::INITIAL) {
            row[lane] = word;
        }
        self.message[lane] = (index, message);
        self.set.data[lane] = message.as_ptr();
        self.left[lane] = message.len() / BLOCK;
        self.in_tail[lane] = false;
        if self.left[lane] == 0 {
            self.start_tail::<K>(lane);
        }
    }

    #[inline]
    fn start_tail<K: Kernel>(&mut self, lane: usize) {
        self.left[lane] = self.tails[lane].fill::<K>(self.message[lane].1);
        self.set.data[lane] = self.tails[lane].0.as_ptr();
        self.in_tail[lane] = true;
    }

    #[inline]
    fn digest<K: Kernel>(&self, lane: usize) -> Digest {
        Digest::from_words(
            self.set.state[..K::WORDS].iter().map(|row| row[lane]),
            K::BIG_ENDIAN,
        )
    }

    /// Empties a lane; the last active lane takes its place.
    #[inline]
    fn remove(&mut self, lane: usize) {
        self.active -= 1;
        let last = self.active;
        if lane == last {
            return;
        }
        for row in &mut self.set.state {
            row[lane] = row[last];
        }
        self.left[lane] = self.left[last];
        self.in_tail[lane] = self.in_tail[last];
        self.message[lane] = self.message[last];
        self.set.data[lane] = self.set.data[last];
        if self.in_tail[last] {
            self.tails[lane] = self.tails[last];
            let read = self.set.data[last].addr() - self.tails[last].0.as_ptr().addr();
            self.set.data[lane] = self.tails[lane].0[read..].as_ptr();
        }
    }

    /// Advances the first `engine.lanes` lanes by the fewest blocks that one of them has left, and by no more than
    /// `most`; returns the number of them that hold messages.
    #[inline]
    fn step(&mut self, engine: &Engine, most: usize) -> usize {
        let used = engine.lanes.min(self.active);
        let blocks = self.left[..used]
            .iter()
            .fold(most, |least, &left| least.min(left));
        // Lanes without a message read what lane 0 reads, and nobody looks at what becomes of their state.
        for lane in used..engine.lanes {
            self.set.data[lane] = self.set.data[0];
        }
        // SAFETY: plans hold only engines that the processor can run. Each of the engine's lanes has `blocks` blocks
        // left to read at `data`, of a message that is borrowed for 'a or of its own tail, or it reads with lane 0.
        unsafe { (engine.compress)(&mut self.set, blocks) };
        for lane in 0..used {
            self.left[lane] -= blocks;
            self.set.data[lane] = self.set.data[lane].wrapping_add(BLOCK * blocks);
        }
        used
    }
}

/// Hashes each of `inputs` into the same place of `digests`.
pub(crate) fn hash_many<K: Kernel>(plan: &Plan, inputs: &[&[u8]], digests: &mut [Digest]) {
    assert_eq!(inputs.len(), digests.len());
    let order = longest_first(inputs);
    let mut queue = (0..inputs.len()).map(|i| order.as_ref().map_or(i, |order| order[i]));
    let mut lanes = Lanes::new();
    let widest = plan.engine(inputs.len()).lanes;
    let mut stagger = collide(queue.clone().take(widest).map(|index| inputs[index]));
    loop {
        let mut engine = plan.engine(lanes.active + queue.len());
        let mut fill = engine.lanes;
        let mut most = usize::MAX;
        if stagger {
            fill = fill.min(lanes.active + STAGGER_LANES);
            stagger = fill < engine.lanes && fill < lanes.active + queue.len();
            if stagger {
                most = STAGGER_BLOCKS;
            }
        }
        while lanes.active < fill {
            let Some(index) = queue.next() else { break };
            lanes.start::<K>(lanes.active, index, inputs[index]);
            lanes.active += 1;
        }
        if lanes.active == 0 {
            return;
        }
        if stagger {
            engine = plan.engine(lanes.active);
        }
        let used = lanes.step(engine, most);
        // From the last lane down: what takes the place of a removed lane has been looked at already.
        for lane in (0..used).rev() {
            if lanes.left[lane] > 0 {
                continue;
            }
            if !lanes.in_tail[lane] {
                lanes.start_tail::<K>(lane);
                continue;
            }
            digests[lanes.message[lane].0] = lanes.digest::<K>(lane);
            match queue.next() {
                Some(index) => lanes.start::<K>(lane, index, inputs[index]),
                None => lanes.remove(lane),
            }
        }
    }
}

/// As many lanes as may read from the same set of a cache at once: level 1 has 8 or 12 ways, level 2 mostly 16.
const STAGGER_LANES: usize = 8;

/// By how many blocks each further [`STAGGER_LANES`] follow: more than are fetched ahead.
const STAGGER_BLOCKS: usize = 6;

/// Whether messages that start together would throw each other out of the cache.
///
/// Blocks of 64 KiB, one after the other in memory, do: what 16 lanes read at one moment all falls into the same set
/// of the caches, which has no room for as many. It costs half of the speed. So lanes then start a few at a time.
fn collide<'a>(messages: impl Iterator<Item = &'a [u8]> + Clone) -> bool {
    const SETS: usize = 64;
    const LONG: usize = 128 * BLOCK;
    let mut starts = [0_u8; SETS];
    for message in messages.filter(|message| message.len() >= LONG) {
        starts[message.as_ptr().addr() / BLOCK % SETS] += 1;
    }
    (0..SETS).any(|set| {
        let near = (0..STAGGER_BLOCKS).map(|after| starts[(set + after) % SETS]);
        usize::from(near.sum::<u8>()) > STAGGER_LANES + STAGGER_LANES / 2
    })
}

/// Hashes one message.
pub(crate) fn hash_one<K: Kernel>(plan: &Plan, message: &[u8]) -> Digest {
    let engine = plan.engine(1);
    let mut set = LaneSet::new();
    for (row, &word) in set.state.iter_mut().zip(K::INITIAL) {
        row[..engine.lanes].fill(word);
    }
    let mut tail = Tail([0; 2 * BLOCK]);
    let tail_blocks = tail.fill::<K>(message);
    for (data, blocks) in [
        (message.as_ptr(), message.len() / BLOCK),
        (tail.0.as_ptr(), tail_blocks),
    ] {
        set.data[..engine.lanes].fill(data);
        // SAFETY: plans hold only engines that the processor can run; every lane reads the same, which has `blocks`
        // blocks.
        unsafe { (engine.compress)(&mut set, blocks) };
    }
    Digest::from_words(
        set.state[..K::WORDS].iter().map(|row| row[0]),
        K::BIG_ENDIAN,
    )
}

/// The indices of `inputs`, long ones first to within an eighth of their length; `None` if they already are.
fn longest_first(inputs: &[&[u8]]) -> Option<Vec<usize>> {
    // A floating-point number of 6 + 3 bits; larger for shorter messages.
    let bucket = |message: &&[u8]| {
        let blocks = message.len() / BLOCK + 1;
        let power = blocks.ilog2();
        let fraction = if power >= 3 {
            blocks >> (power - 3)
        } else {
            blocks << (3 - power)
        } & 7;
        511 - (8 * power as usize + fraction)
    };
    if inputs.is_sorted_by_key(bucket) {
        return None;
    }
    let mut place = [0; 513];
    for message in inputs {
        place[bucket(message) + 1] += 1;
    }
    for i in 0..512 {
        place[i + 1] += place[i];
    }
    let mut order = vec![0; inputs.len()];
    for (index, message) in inputs.iter().enumerate() {
        let place = &mut place[bucket(message)];
        order[*place] = index;
        *place += 1;
    }
    Some(order)
}
