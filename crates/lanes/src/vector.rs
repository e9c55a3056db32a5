//! The one interface between algorithms and instruction sets: a register of `u32` lanes.

/// The most lanes that one [`Engine`](crate::arch::Engine) may have, and so the stride of [`LaneSet`].
pub(crate) const MAX_LANES: usize = 32;

/// How many bytes ahead of their use data is asked for: a few blocks, as long as memory takes to answer.
const AHEAD: usize = 256;

/// The most 32-bit words of state that an algorithm may have.
pub(crate) const MAX_WORDS: usize = 8;

/// What a compression kernel works on: the state of every lane, and where each lane's next block lies.
///
/// Words of all lanes at one position lie side by side (`state[word][lane]`), so that a kernel loads and stores
/// them without strided access.
#[repr(C, align(64))]
pub(crate) struct LaneSet {
    /// `state[word][lane]`.
    pub(crate) state: [[u32; MAX_LANES]; MAX_WORDS],
    /// The next unread byte of each lane.
    pub(crate) data: [*const u8; MAX_LANES],
}

impl LaneSet {
    /// Lanes with no state and no data.
    pub(crate) const fn new() -> Self {
        Self {
            state: [[0; MAX_LANES]; MAX_WORDS],
            data: [core::ptr::null(); MAX_LANES],
        }
    }
}

/// Asks for the data that will be needed soon: as many streams as there are lanes are more than the hardware follows.
pub(crate) struct Ahead<'a> {
    data: &'a [*const u8; MAX_LANES],
    offset: usize,
}

impl<'a> Ahead<'a> {
    /// For lanes that are reading at `offset`.
    #[inline(always)]
    pub(crate) fn new(data: &'a [*const u8; MAX_LANES], offset: usize) -> Self {
        Self {
            data,
            offset: offset.wrapping_add(AHEAD),
        }
    }

    /// Asks for part `part` of `parts`, where each lane's next line is in one of the parts.
    ///
    /// In a loop, that spreads the requests over a block. Within straight code the compiler collects them.
    #[inline(always)]
    pub(crate) fn fetch<V: Vector>(&self, part: usize, parts: usize) {
        for lane in part * V::LANES / parts..(part + 1) * V::LANES / parts {
            // Not in the level 2 cache: there the stream of data would push out this very code.
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a prefetch faults nowhere, also past the end of a message.
            unsafe {
                use core::arch::x86_64::{_MM_HINT_NTA, _mm_prefetch};
                _mm_prefetch::<_MM_HINT_NTA>(
                    self.data[lane % MAX_LANES].wrapping_add(self.offset).cast(),
                );
            }
            let _ = (self.data[lane % MAX_LANES], self.offset);
        }
    }
}

/// A register of `LANES` unsigned 32-bit numbers.
///
/// Only the constructors ([`load`](Vector::load), [`load_blocks`](Vector::load_blocks)) are `unsafe`: they demand
/// that the processor has the instruction set. Whoever holds a value has met that demand, so that the operations
/// on values, and with them the whole of every algorithm, are safe code.
///
/// Every function must be `#[inline(always)]`: the caller at the bottom of the stack is the only one that has the
/// `#[target_feature]`.
pub(crate) trait Vector: Copy {
    /// How many messages are worked on at once.
    const LANES: usize;

    /// Reads `LANES` words.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set, and `words` is readable for `LANES` words.
    unsafe fn load(words: *const u32) -> Self;

    /// Writes `LANES` words.
    ///
    /// # Safety
    ///
    /// `words` is writable for `LANES` words.
    unsafe fn store(self, words: *mut u32);

    /// Reads 64 bytes from `data[lane] + offset` for each lane and transposes them: word `i` of every lane is in
    /// the result's element `i`.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set, `data` is readable for `LANES` pointers, and each of them plus
    /// `offset` is readable for 64 bytes. There need not be anything readable beyond these.
    unsafe fn load_blocks<const BIG_ENDIAN: bool>(
        data: *const *const u8,
        offset: usize,
    ) -> [Self; 16];

    /// Lane by lane, modulo 2³².
    fn add(self, other: Self) -> Self;
    /// Adds one constant to every lane.
    fn add_word(self, word: u32) -> Self;
    /// Bit by bit.
    fn and(self, other: Self) -> Self;
    /// Bit by bit.
    fn or(self, other: Self) -> Self;
    /// Bit by bit.
    fn xor(self, other: Self) -> Self;
    /// Rotates each lane left by `LEFT` bits. `RIGHT` must be `32 - LEFT`.
    fn rotate_left<const LEFT: i32, const RIGHT: i32>(self) -> Self;
    /// Shifts each lane right by `BITS` bits.
    fn shift_right<const BITS: i32>(self) -> Self;

    /// `self ^ b ^ c`.
    #[inline(always)]
    fn xor3(self, b: Self, c: Self) -> Self {
        self.xor(b).xor(c)
    }

    /// Bit by bit: where `self` is set `yes`, else `no`.
    #[inline(always)]
    fn choose(self, yes: Self, no: Self) -> Self {
        yes.xor(no).and(self).xor(no)
    }

    /// Bit by bit: what at least two of the three are.
    #[inline(always)]
    fn majority(self, b: Self, c: Self) -> Self {
        self.and(b).or(self.or(b).and(c))
    }
}

/// Two registers that go through the same steps side by side: hides the latency of one behind the other.
#[derive(Clone, Copy)]
pub(crate) struct Pair<V>(V, V);

impl<V: Vector> Vector for Pair<V> {
    const LANES: usize = 2 * V::LANES;

    #[inline(always)]
    unsafe fn load(words: *const u32) -> Self {
        // SAFETY: twice as many lanes were promised as one half needs.
        unsafe { Self(V::load(words), V::load(words.add(V::LANES))) }
    }

    #[inline(always)]
    unsafe fn store(self, words: *mut u32) {
        // SAFETY: twice as many lanes were promised as one half needs.
        unsafe {
            self.0.store(words);
            self.1.store(words.add(V::LANES));
        }
    }

    #[inline(always)]
    unsafe fn load_blocks<const BIG_ENDIAN: bool>(
        data: *const *const u8,
        offset: usize,
    ) -> [Self; 16] {
        // SAFETY: twice as many lanes were promised as one half needs.
        let (low, high) = unsafe {
            (
                V::load_blocks::<BIG_ENDIAN>(data, offset),
                V::load_blocks::<BIG_ENDIAN>(data.add(V::LANES), offset),
            )
        };
        let mut block = [Self(low[0], high[0]); 16];
        for i in 1..16 {
            block[i] = Self(low[i], high[i]);
        }
        block
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(self.0.add(other.0), self.1.add(other.1))
    }
    #[inline(always)]
    fn add_word(self, word: u32) -> Self {
        Self(self.0.add_word(word), self.1.add_word(word))
    }
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self(self.0.and(other.0), self.1.and(other.1))
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Self(self.0.or(other.0), self.1.or(other.1))
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(self.0.xor(other.0), self.1.xor(other.1))
    }
    #[inline(always)]
    fn rotate_left<const LEFT: i32, const RIGHT: i32>(self) -> Self {
        Self(
            self.0.rotate_left::<LEFT, RIGHT>(),
            self.1.rotate_left::<LEFT, RIGHT>(),
        )
    }
    #[inline(always)]
    fn shift_right<const BITS: i32>(self) -> Self {
        Self(self.0.shift_right::<BITS>(), self.1.shift_right::<BITS>())
    }
    #[inline(always)]
    fn xor3(self, b: Self, c: Self) -> Self {
        Self(self.0.xor3(b.0, c.0), self.1.xor3(b.1, c.1))
    }
    #[inline(always)]
    fn choose(self, yes: Self, no: Self) -> Self {
        Self(self.0.choose(yes.0, no.0), self.1.choose(yes.1, no.1))
    }
    #[inline(always)]
    fn majority(self, b: Self, c: Self) -> Self {
        Self(self.0.majority(b.0, c.0), self.1.majority(b.1, c.1))
    }
}
