//! Messages of unequal lengths on a fixed number of lanes.
//!
//! All lanes advance by as many blocks as the lane with the fewest has left; then that lane gets
//! its padding or the next message. Long messages start first, so that the last ones to end are
//! short. When too few are left for the lanes, those go on, from the state that they have reached,
//! with a narrower kernel.
//!
//! What goes through a lane is a *stretch* of a message, from any state: a whole message, or what
//! one call adds to it.

use crate::compress::LaneKernel;
use crate::digest::Digest;
use crate::hasher::{End, Hasher, Update};
use crate::kernel::{BLOCK_BYTES_MAX, Kernel};
use crate::plan::Plan;
use crate::vector::{LANES_MAX, LaneSet, STATE_WORDS_MAX, Word};

/// The words of one lane's state, of which the first `INITIAL.len()` count.
type State<K> = [<K as Kernel>::Word; STATE_WORDS_MAX];

/// The start of a stretch, and whether its message ends with it.
struct Start<'s, K: Kernel> {
    state: State<K>,
    /// Bytes that come before the data: less than a block.
    head: &'s [u8],
    /// If the message ends with the data: how many bytes of it come before them, the head included.
    end: Option<u64>,
}

/// The stretches of a call, by number.
trait Stretches<'a, K: Kernel> {
    fn len(&self) -> usize;
    fn data(&self, index: usize) -> &'a [u8];
    fn start(&self, index: usize) -> Start<'_, K>;
    /// Takes the state behind the last whole block, or behind the padding if the message has ended.
    fn done(&mut self, index: usize, state: State<K>);
}

/// The state before the first block.
#[inline]
fn initial_state<K: Kernel>() -> State<K> {
    let mut state = [K::Word::default(); STATE_WORDS_MAX];
    state[..K::INITIAL.len()].copy_from_slice(K::INITIAL);
    state
}

#[inline]
pub(crate) fn digest<K: Kernel>(state: &State<K>) -> Digest {
    Digest::from_words(state, K::BIG_ENDIAN, K::DIGEST_LEN)
}

/// Blocks that are put together from the bytes before the data and their beginning, or from their
/// end and the padding.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Scratch([u8; 2 * BLOCK_BYTES_MAX]);

impl Scratch {
    const EMPTY: Self = Self([0; 2 * BLOCK_BYTES_MAX]);

    /// Writes the last bytes of a message, less than a block after the first `filled` that are here
    /// already, its padding and its length; returns the number of blocks.
    #[inline]
    fn end<K: Kernel>(&mut self, filled: usize, rest: &[u8], message_len: u64) -> usize {
        let length_bytes = 2 * K::Word::BYTES;
        let used = filled + rest.len();
        let blocks = if used < K::BLOCK - length_bytes { 1 } else { 2 };
        let end = blocks * K::BLOCK;
        self.0[filled..used].copy_from_slice(rest);
        self.0[used..end].fill(0);
        self.0[used] = 0x80;
        // The standards count bits, modulo 2⁶⁴ where the length has as many.
        let bits = u128::from(message_len) * 8;
        let length = &mut self.0[end - length_bytes..end];
        if K::BIG_ENDIAN {
            length.copy_from_slice(&bits.to_be_bytes()[16 - length_bytes..]);
        } else {
            length.copy_from_slice(&bits.to_le_bytes()[..length_bytes]);
        }
        blocks
    }
}

/// The part of a lane's message after the blocks that are being read.
#[derive(Clone, Copy)]
struct Rest<'a> {
    index: usize,
    data: &'a [u8],
    /// As in [`Start`], counted to the beginning of `data`.
    end: Option<u64>,
}

impl<'a> Rest<'a> {
    /// The next blocks to read: `head` with the data's first bytes, the data's whole blocks, or the
    /// remaining bytes with the padding. `None` at the end.
    ///
    /// `head`, which is not empty only the first time, is less than a block.
    #[inline]
    fn next<K: Kernel>(
        &mut self,
        head: &[u8],
        scratch: &mut Scratch,
    ) -> Option<(*const u8, usize)> {
        if !head.is_empty() {
            scratch.0[..head.len()].copy_from_slice(head);
            if let Some((first, rest)) = self.data.split_at_checked(K::BLOCK - head.len()) {
                scratch.0[head.len()..K::BLOCK].copy_from_slice(first);
                self.pass(first.len());
                self.data = rest;
                return Some((scratch.0.as_ptr(), 1));
            }
        } else if self.data.len() >= K::BLOCK {
            let blocks = self.data.len() / K::BLOCK;
            let (whole, rest) = self.data.split_at(blocks * K::BLOCK);
            self.pass(whole.len());
            self.data = rest;
            return Some((whole.as_ptr(), blocks));
        }
        let before = self.end.take()?;
        let blocks = scratch.end::<K>(head.len(), self.data, before + self.data.len() as u64);
        self.data = &[];
        Some((scratch.0.as_ptr(), blocks))
    }

    #[inline]
    fn pass(&mut self, bytes: usize) {
        if let Some(end) = &mut self.end {
            *end += bytes as u64;
        }
    }
}

/// Stretches at work. The first `active` lanes hold one each.
struct Lanes<'a> {
    set: LaneSet,
    scratch: Vec<Scratch>,
    /// Blocks left to read at `set.data`.
    left: [usize; LANES_MAX],
    rest: [Rest<'a>; LANES_MAX],
    active: usize,
}

impl<'a> Lanes<'a> {
    /// Lanes of which at most `most` become active.
    fn new(most: usize) -> Self {
        let rest = Rest {
            index: 0,
            data: &[],
            end: None,
        };
        Self {
            set: LaneSet::new(),
            scratch: vec![Scratch::EMPTY; most],
            left: [0; LANES_MAX],
            rest: [rest; LANES_MAX],
            active: 0,
        }
    }

    /// Puts a stretch in a lane. False if it is not long enough for a block.
    #[inline]
    fn start<K: Kernel>(
        &mut self,
        lane: usize,
        index: usize,
        start: &Start<'_, K>,
        data: &'a [u8],
    ) -> bool {
        for (row, &word) in self
            .set
            .state
            .iter_mut()
            .zip(&start.state[..K::INITIAL.len()])
        {
            row.words_mut()[lane] = word;
        }
        self.rest[lane] = Rest {
            index,
            data,
            end: start.end,
        };
        self.go_on::<K>(lane, start.head)
    }

    /// Gives a lane its next blocks. False if there are none left.
    #[inline]
    fn go_on<K: Kernel>(&mut self, lane: usize, head: &[u8]) -> bool {
        let next = self.rest[lane].next::<K>(head, &mut self.scratch[lane]);
        if let Some((data, blocks)) = next {
            self.set.data[lane] = data;
            self.left[lane] = blocks;
        }
        next.is_some()
    }

    #[inline]
    fn state<K: Kernel>(&self, lane: usize) -> State<K> {
        let mut state = [K::Word::default(); STATE_WORDS_MAX];
        for (word, row) in state.iter_mut().zip(&self.set.state).take(K::INITIAL.len()) {
            *word = row.words()[lane];
        }
        state
    }

    /// Empties a lane; the last active lane takes its place.
    #[inline]
    fn remove<K: Kernel>(&mut self, lane: usize) {
        self.active -= 1;
        let last = self.active;
        if lane == last {
            return;
        }
        for row in &mut self.set.state[..K::INITIAL.len()] {
            let words = row.words_mut::<K::Word>();
            words[lane] = words[last];
        }
        self.left[lane] = self.left[last];
        self.rest[lane] = self.rest[last];
        self.set.data[lane] = self.set.data[last];
        let scratch = self.scratch[last].0.as_ptr();
        if self.set.data[last].addr().wrapping_sub(scratch.addr()) < size_of::<Scratch>() {
            let offset = self.set.data[last].addr() - scratch.addr();
            self.scratch[lane] = self.scratch[last];
            self.set.data[lane] = self.scratch[lane].0[offset..].as_ptr();
        }
    }

    /// Moves the lanes in use on by as many blocks as all of them have left, at most `most`;
    /// returns the number of lanes.
    #[inline]
    fn step<K: Kernel>(&mut self, kernel: &LaneKernel, most: usize) -> usize {
        let used = kernel.lanes.min(self.active);
        let blocks = self.left[..used]
            .iter()
            .fold(most, |least, &left| least.min(left));
        // Lanes without a stretch read the blocks of lane 0, and their state is ignored.
        for lane in used..kernel.lanes {
            self.set.data[lane] = self.set.data[0];
        }
        // SAFETY: plans hold only kernels that the processor can run. Each of the kernel's lanes
        // has `blocks` blocks left to read at `data`, of data borrowed for 'a or of its own
        // scratch, or it reads with lane 0.
        unsafe { (kernel.compress)(&mut self.set, blocks) };
        for lane in 0..used {
            self.left[lane] -= blocks;
            self.set.data[lane] = self.set.data[lane].wrapping_add(K::BLOCK * blocks);
        }
        used
    }
}

/// Sends every stretch through the lanes.
fn run<'a, K: Kernel>(plan: &Plan, stretches: &mut impl Stretches<'a, K>) {
    let count = stretches.len();
    let order = longest_first((0..count).map(|index| stretches.data(index).len()));
    let place = |i: usize| order.as_ref().map_or(i, |order| order[i]);
    let widest = plan.kernel(count).lanes;
    let mut stagger = collide((0..count.min(widest)).map(|i| stretches.data(place(i))));
    let mut queue = (0..count).map(place);
    let mut lanes = Lanes::new(plan.widest().min(count));
    loop {
        let mut kernel = plan.kernel(lanes.active + queue.len());
        let mut fill = kernel.lanes;
        let mut most = usize::MAX;
        if stagger {
            fill = fill.min(lanes.active + STAGGER_LANES);
            stagger = fill < kernel.lanes && fill < lanes.active + queue.len();
            if stagger {
                most = STAGGER_BLOCKS;
            }
        }
        while lanes.active < fill {
            let Some(index) = queue.next() else { break };
            let (lane, data) = (lanes.active, stretches.data(index));
            if lanes.start(lane, index, &stretches.start(index), data) {
                lanes.active += 1;
            }
        }
        if lanes.active == 0 {
            return;
        }
        if stagger {
            kernel = plan.kernel(lanes.active);
        }
        let used = lanes.step::<K>(kernel, most);
        // From the last lane down: what takes the place of a removed lane has been looked at
        // already.
        for lane in (0..used).rev() {
            if lanes.left[lane] > 0 || lanes.go_on::<K>(lane, &[]) {
                continue;
            }
            stretches.done(lanes.rest[lane].index, lanes.state::<K>(lane));
            let next = queue.find(|&index| {
                lanes.start(lane, index, &stretches.start(index), stretches.data(index))
            });
            if next.is_none() {
                lanes.remove::<K>(lane);
            }
        }
    }
}

/// As many lanes as may read from the same set of a cache at once: level 1 has 8 or 12 ways, level
/// 2 mostly 16.
const STAGGER_LANES: usize = 8;

/// By how many blocks each further [`STAGGER_LANES`] follow: more than are fetched ahead.
const STAGGER_BLOCKS: usize = 6;

/// Whether messages that start together would throw each other out of the cache.
///
/// Blocks of 64 KiB, one after the other in memory, do: what 16 lanes read at one moment all falls
/// into the same set of the caches, which has no room for as many. It costs half of the speed. So
/// lanes then start a few at a time.
fn collide<'a>(messages: impl Iterator<Item = &'a [u8]> + Clone) -> bool {
    const LINE_BYTES: usize = 64;
    const CACHE_SETS: usize = 64;
    const LONG_BYTES: usize = 128 * LINE_BYTES;
    let mut starts = [0_u8; CACHE_SETS];
    for message in messages.filter(|message| message.len() >= LONG_BYTES) {
        starts[message.as_ptr().addr() / LINE_BYTES % CACHE_SETS] += 1;
    }
    (0..CACHE_SETS).any(|set| {
        let near = (0..STAGGER_BLOCKS).map(|after| starts[(set + after) % CACHE_SETS]);
        usize::from(near.sum::<u8>()) > STAGGER_LANES + STAGGER_LANES / 2
    })
}

/// Whole messages.
struct Messages<'a, 'd> {
    inputs: &'a [&'a [u8]],
    digests: &'d mut [Digest],
}

impl<'a, K: Kernel> Stretches<'a, K> for Messages<'a, '_> {
    fn len(&self) -> usize {
        self.inputs.len()
    }
    fn data(&self, index: usize) -> &'a [u8] {
        self.inputs[index]
    }
    fn start(&self, _: usize) -> Start<'_, K> {
        Start {
            state: initial_state::<K>(),
            head: &[],
            end: Some(0),
        }
    }
    fn done(&mut self, index: usize, state: State<K>) {
        self.digests[index] = digest::<K>(&state);
    }
}

/// Hashes each of `inputs` into the same place of `digests`.
pub(crate) fn hash_many<K: Kernel>(plan: &Plan, inputs: &[&[u8]], digests: &mut [Digest]) {
    assert_eq!(inputs.len(), digests.len());
    run::<K>(plan, &mut Messages { inputs, digests });
}

impl Hasher {
    fn start<K: Kernel>(&self, end: bool) -> Start<'_, K> {
        Start {
            state: *self.state.words(),
            head: self.pending(),
            end: end.then_some(self.length),
        }
    }
}

/// Parts appended to unfinished messages.
struct Updates<'p, 'h, 'a>(&'p mut [Update<'h, 'a>]);

impl<'a, K: Kernel> Stretches<'a, K> for Updates<'_, '_, 'a> {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn data(&self, index: usize) -> &'a [u8] {
        self.0[index].1
    }
    fn start(&self, index: usize) -> Start<'_, K> {
        self.0[index].0.start(false)
    }
    fn done(&mut self, index: usize, state: State<K>) {
        *self.0[index].0.state.words_mut() = state;
    }
}

/// Adds to each hasher, all of this algorithm.
pub(crate) fn update_many<K: Kernel>(plan: &Plan, parts: &mut [Update]) {
    run::<K>(plan, &mut Updates(parts));
    for (hasher, data) in parts {
        hasher.keep_rest(data);
    }
}

/// The ends of messages.
struct Ends<'p, 'h, 'a, 'd> {
    parts: &'p [End<'h, 'a>],
    digests: &'d mut [Digest],
}

impl<'a, K: Kernel> Stretches<'a, K> for Ends<'_, '_, 'a, '_> {
    fn len(&self) -> usize {
        self.parts.len()
    }
    fn data(&self, index: usize) -> &'a [u8] {
        self.parts[index].1
    }
    fn start(&self, index: usize) -> Start<'_, K> {
        self.parts[index].0.start(true)
    }
    fn done(&mut self, index: usize, state: State<K>) {
        self.digests[index] = digest::<K>(&state);
    }
}

/// Digests of what each hasher, all of this algorithm, has seen and the data behind it.
pub(crate) fn finish_many<K: Kernel>(plan: &Plan, parts: &[End], digests: &mut [Digest]) {
    assert_eq!(parts.len(), digests.len());
    run::<K>(plan, &mut Ends { parts, digests });
}

/// The indices of `lengths`, long ones first to within an eighth; `None` if they already are.
fn longest_first(lengths: impl Iterator<Item = usize> + Clone) -> Option<Vec<usize>> {
    // A floating-point number of 6 + 3 bits; larger for shorter messages.
    let bucket = |length: usize| {
        let blocks = length / 64 + 1;
        let power = blocks.ilog2();
        let fraction = if power >= 3 {
            blocks >> (power - 3)
        } else {
            blocks << (3 - power)
        } & 7;
        511 - (8 * power as usize + fraction)
    };
    if lengths.clone().is_sorted_by_key(bucket) {
        return None;
    }
    let mut place = [0; 513];
    let mut count = 0;
    for length in lengths.clone() {
        place[bucket(length) + 1] += 1;
        count += 1;
    }
    for i in 0..512 {
        place[i + 1] += place[i];
    }
    let mut order = vec![0; count];
    for (index, length) in lengths.enumerate() {
        let place = &mut place[bucket(length)];
        order[*place] = index;
        *place += 1;
    }
    Some(order)
}
