//! The one interface between algorithms and instruction sets: a register of lanes of words.

use zeroize::Zeroize;

use crate::prefetch::prefetch_to_level_2;

/// The most lanes that one [`LaneKernel`](crate::compress::LaneKernel) may have.
pub(crate) const LANES_MAX: usize = 64;

/// Distance of prefetching in bytes: a few blocks, as long as memory takes to answer.
const AHEAD_BYTES: usize = 256;

/// The most words of state that an algorithm may have.
pub(crate) const STATE_WORDS_MAX: usize = 8;

/// The word of an algorithm: `u32` or `u64`.
pub(crate) trait Word: Copy + Default + Into<u64> + 'static {
    /// Bytes in a word.
    const BYTES: usize = size_of::<Self>();

    /// The low bits of `word`.
    fn truncate(word: u64) -> Self;
}

impl Word for u32 {
    #[inline(always)]
    fn truncate(word: u64) -> Self {
        word as u32
    }
}

impl Word for u64 {
    #[inline(always)]
    fn truncate(word: u64) -> Self {
        word
    }
}

/// The state of one message: its words side by side.
#[derive(Clone, Copy, Zeroize)]
#[repr(C, align(16))]
pub(crate) struct State([u64; STATE_WORDS_MAX]);

impl State {
    /// These words, then zeros.
    pub(crate) fn new<W: Word>(words: &[W]) -> Self {
        let mut state = Self([0; STATE_WORDS_MAX]);
        state.words_mut()[..words.len()].copy_from_slice(words);
        state
    }

    /// All words.
    #[inline(always)]
    pub(crate) fn words<W: Word>(&self) -> &[W; STATE_WORDS_MAX] {
        // SAFETY: words are plain integers of at most eight bytes.
        unsafe { &*self.0.as_ptr().cast() }
    }

    /// All words.
    #[inline(always)]
    pub(crate) fn words_mut<W: Word>(&mut self) -> &mut [W; STATE_WORDS_MAX] {
        // SAFETY: words are plain integers of at most eight bytes, so any bytes written are valid.
        unsafe { &mut *self.0.as_mut_ptr().cast() }
    }
}

/// One word of state of every lane, side by side: as many `u32` as there may be lanes, or half as
/// many `u64`.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Row([u64; LANES_MAX / 2]);

impl Row {
    /// As words, lane by lane.
    #[inline(always)]
    pub(crate) fn words<W: Word>(&self) -> &[W] {
        // SAFETY: words are plain integers of at most eight bytes; together they are as long as the
        // array.
        unsafe { core::slice::from_raw_parts(self.0.as_ptr().cast(), size_of::<Self>() / W::BYTES) }
    }

    /// As words, lane by lane.
    #[inline(always)]
    pub(crate) fn words_mut<W: Word>(&mut self) -> &mut [W] {
        // SAFETY: words are plain integers, together as long as the array; any bytes written are
        // valid.
        unsafe {
            core::slice::from_raw_parts_mut(
                self.0.as_mut_ptr().cast(),
                size_of::<Self>() / W::BYTES,
            )
        }
    }
}

/// The data of a compression kernel: the state of every lane, and the address of each lane's next
/// block.
///
/// Words of all lanes at one position lie side by side, so that a kernel loads and stores them
/// without strided access.
#[repr(C, align(64))]
pub(crate) struct LaneSet {
    /// `state[word].words()[lane]`.
    pub(crate) state: [Row; STATE_WORDS_MAX],
    /// The next unread byte of each lane.
    pub(crate) data: [*const u8; LANES_MAX],
}

impl LaneSet {
    /// Lanes with no state and no data.
    pub(crate) const fn new() -> Self {
        Self {
            state: [Row([0; LANES_MAX / 2]); STATE_WORDS_MAX],
            data: [core::ptr::null(); LANES_MAX],
        }
    }

    /// The states of the first `N` lanes, for a kernel that has those of a message side by side.
    pub(crate) fn states<W: Word, const N: usize>(&self) -> [State; N] {
        core::array::from_fn(|lane| State::new(&self.state.map(|row| row.words::<W>()[lane])))
    }

    /// Takes back what [`states`](Self::states) gave.
    pub(crate) fn set_states<W: Word, const N: usize>(&mut self, states: &[State; N]) {
        for (lane, state) in states.iter().enumerate() {
            for (row, word) in self.state.iter_mut().zip(state.words::<W>()) {
                row.words_mut()[lane] = *word;
            }
        }
    }
}

/// The next block, loaded piece by piece between the steps of the current one: loads wait for
/// memory while steps wait for one another.
pub(crate) struct Next<'a, V> {
    data: *const *const u8,
    offset: usize,
    block: &'a mut [V; 16],
}

impl<'a, V: Vector> Next<'a, V> {
    /// Loads the 16 words at `offset` from each pointer into `block`.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set. `data` is readable for `V::LANES` pointers during
    /// `'a`, each of which plus `offset` is readable for 16 words.
    #[inline(always)]
    pub(crate) unsafe fn new(
        data: *const *const u8,
        offset: usize,
        block: &'a mut [V; 16],
    ) -> Self {
        Self {
            data,
            offset,
            block,
        }
    }

    /// Loads part `part` of `parts` of the block, words most significant byte first if
    /// `BIG_ENDIAN`. Of fewer registers than parts, each comes with the earliest that it may, so
    /// that memory has time to answer. Nothing happens for vectors that load no block
    /// [ahead](Vector::AHEAD).
    #[inline(always)]
    pub(crate) fn load<const BIG_ENDIAN: bool>(&mut self, part: usize, parts: usize) {
        if !V::AHEAD {
            return;
        }
        let begin = (part * V::REGISTERS).div_ceil(parts);
        let end = ((part + 1) * V::REGISTERS).div_ceil(parts);
        for register in begin..end {
            // SAFETY: promised to `new`.
            unsafe {
                V::load_block::<BIG_ENDIAN>(self.data, self.offset, register, self.block);
            }
        }
    }
}

/// Asks for a line that will be needed in a few blocks: as many streams as there are lanes are more
/// than the hardware follows. In level 1 of the cache, the lines of 64 lanes and the blocks at work
/// would throw each other out.
#[inline(always)]
pub(crate) fn ask_ahead(line: *const u8) {
    prefetch_to_level_2(line.wrapping_add(AHEAD_BYTES));
}

/// A register of `LANES` unsigned numbers.
///
/// Only the constructors ([`load`](Vector::load) and [`load_block`](Vector::load_block) fills in)
/// are `unsafe`: they demand that the processor has the instruction set. A value proves that this
/// demand was met, so that the operations on values, and with them every algorithm as a whole, are
/// safe code.
///
/// Every function must be `#[inline(always)]`: the caller at the bottom of the stack is the only
/// one that has the `#[target_feature]`.
pub(crate) trait Vector: Copy {
    /// The type of a lane.
    type Word: Word;

    /// Number of lanes, each with one message.
    const LANES: usize;

    /// Number of the processor's registers in this vector.
    const REGISTERS: usize = 1;

    /// Whether the next block is loaded while the current one is computed. Plain words are best
    /// read where they are: of a copy, written in wider pieces, they wait for the pieces.
    const AHEAD: bool = true;

    /// Whether logic on three operands is one instruction. If not, an algorithm may use a shorter
    /// formula.
    const TERNARY: bool = false;

    /// Whether [`choose`](Vector::choose) is one instruction.
    const CHOICE: bool = Self::TERNARY;

    /// Reads `LANES` words.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set, and `words` is readable for `LANES` words.
    unsafe fn load(words: *const Self::Word) -> Self;

    /// Writes `LANES` words.
    ///
    /// # Safety
    ///
    /// `words` is writable for `LANES` words.
    unsafe fn store(self, words: *mut Self::Word);

    /// Reads 16 words from `data[lane] + offset` for each lane of register `register` and
    /// transposes them: word `i` of every lane goes to that register of `block[i]`.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set, `data` is readable for `LANES` pointers, and each of
    /// them plus `offset` is readable for 16 words. There need not be anything readable beyond
    /// these. `register` is less than `REGISTERS`.
    unsafe fn load_block<const BIG_ENDIAN: bool>(
        data: *const *const u8,
        offset: usize,
        register: usize,
        block: &mut [Self; 16],
    );

    /// The same value, which the compiler knows nothing of: it cannot change the order of additions
    /// across this.
    ///
    /// A sum is written so that what comes last is added last. The compiler takes all orders for
    /// equal.
    #[inline(always)]
    fn pin(self) -> Self {
        self
    }

    /// `word` in every lane. `self` only proves that the processor has the instruction set.
    fn splat(self, word: Self::Word) -> Self;
    /// Lane by lane, modulo 2 to the number of bits in a word.
    fn add(self, other: Self) -> Self;
    /// Bit by bit.
    fn and(self, other: Self) -> Self;
    /// Bit by bit: `self & !other`.
    fn and_not(self, other: Self) -> Self;
    /// Bit by bit.
    fn or(self, other: Self) -> Self;
    /// Bit by bit.
    fn xor(self, other: Self) -> Self;
    /// Rotates each lane left by `LEFT` bits. `RIGHT` must be the number of bits in a word less
    /// `LEFT`.
    fn rotate_left<const LEFT: i32, const RIGHT: i32>(self) -> Self;
    /// Shifts each lane right by `BITS` bits.
    fn shift_right<const BITS: i32>(self) -> Self;

    /// Adds one constant to every lane.
    #[inline(always)]
    fn add_word(self, word: Self::Word) -> Self {
        self.add(self.splat(word))
    }

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

    /// The majority of the three, bit by bit.
    #[inline(always)]
    fn majority(self, b: Self, c: Self) -> Self {
        self.and(b).or(self.or(b).and(c))
    }

    /// `self ^ (b | !c)`.
    #[inline(always)]
    fn xor_or_not(self, b: Self, c: Self) -> Self {
        let ones = self.splat(Self::Word::truncate(u64::MAX));
        self.xor(b.or(c.xor(ones)))
    }
}

/// `N` registers that go through the same steps side by side: hides the latency of one behind the
/// others.
#[derive(Clone, Copy)]
pub(crate) struct Several<V, const N: usize>([V; N]);

/// The operations of [`Several`], applied to each register in turn. No closures, which would have
/// to be inlined to have the instruction set, and no loops, which took the compiler half of its
/// time.
macro_rules! one_by_one {
    ($(fn $name:ident[$($constant:ident),*]$args:tt;)*) => {
        $(one_by_one!(0 1 2 3: $name ($(const $constant: i32),*) ($($constant),*) $args);)*
    };
    ($($i:literal)*: $name:ident $generics:tt $constants:tt $args:tt) => {
        one_by_one!(@ $name $generics $args: $(($i $constants $args))*);
    };
    (@ $name:ident ($($generics:tt)*) ($($arg:ident),*):
        $(($i:literal ($($constant:ident),*) ($($other:ident),*)))*) => {
        #[inline(always)]
        fn $name<$($generics)*>(self, $($arg: Self),*) -> Self {
            const { assert!(N <= 4) };
            let mut result = self;
            $(if const { $i < N } {
                result.0[$i] = self.0[$i].$name::<$($constant),*>($($other.0[$i]),*);
            })*
            result
        }
    };
}

impl<V: Vector, const N: usize> Vector for Several<V, N> {
    type Word = V::Word;
    const LANES: usize = N * V::LANES;
    const REGISTERS: usize = N;
    const AHEAD: bool = V::AHEAD;
    const TERNARY: bool = V::TERNARY;
    const CHOICE: bool = V::CHOICE;

    #[inline(always)]
    unsafe fn load(words: *const Self::Word) -> Self {
        // SAFETY: N times as many lanes were promised as one register needs.
        unsafe {
            let mut registers = [V::load(words); N];
            for (i, register) in registers.iter_mut().enumerate() {
                *register = V::load(words.add(i * V::LANES));
            }
            Self(registers)
        }
    }

    #[inline(always)]
    unsafe fn store(self, words: *mut Self::Word) {
        for (i, register) in self.0.into_iter().enumerate() {
            // SAFETY: N times as many lanes were promised as one register needs.
            unsafe { register.store(words.add(i * V::LANES)) };
        }
    }

    #[inline(always)]
    unsafe fn load_block<const BIG_ENDIAN: bool>(
        data: *const *const u8,
        offset: usize,
        register: usize,
        block: &mut [Self; 16],
    ) {
        // SAFETY: N times as many lanes were promised as one register needs.
        unsafe {
            let mut words = [block[0].0[0]; 16];
            V::load_block::<BIG_ENDIAN>(data.add(register * V::LANES), offset, 0, &mut words);
            for (to, word) in block.iter_mut().zip(words) {
                to.0[register] = word;
            }
        }
    }

    #[inline(always)]
    fn splat(self, word: Self::Word) -> Self {
        Self([self.0[0].splat(word); N])
    }

    one_by_one! {
        fn pin[]();
        fn add[](other);
        fn and[](other);
        fn and_not[](other);
        fn or[](other);
        fn xor[](other);
        fn rotate_left[LEFT, RIGHT]();
        fn shift_right[BITS]();
        fn xor3[](b, c);
        fn choose[](yes, no);
        fn majority[](b, c);
        fn xor_or_not[](b, c);
    }
}
