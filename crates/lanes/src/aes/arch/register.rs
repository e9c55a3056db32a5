//! The common part of registers of one, two and four blocks.

/// Defines a register of blocks: the operations of [`BlockVector`](crate::aes::block::BlockVector)
/// and [`Polynomials`](crate::aes::block::Polynomials) that are one instruction, or the same few,
/// at every width. The two pairs of braces behind it go into the implementations unchanged.
///
/// `everywhere` repeats a register of one block, `first` puts zeros behind it.
macro_rules! register {
    (
        $(#[$attribute:meta])*
        $name:ident($register:ty) = [Block; $blocks:literal];
        load $load:ident, store $store:ident;
        everywhere $everywhere:ident, first $first:ident;
        add $add:ident, multiply $multiply:ident;
        shuffle_bytes $shuffle_bytes:ident, shuffle_words $shuffle_words:ident;
        $(fn $operation:ident($arg:ident) = $intrinsic:ident;)*
        { $($blocks_rest:tt)* }
        { $($polynomials_rest:tt)* }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy)]
        pub(super) struct $name($register);

        impl BlockVector for $name {
            const BLOCKS: usize = $blocks;

            #[inline(always)]
            unsafe fn load(from: *const Block) -> Self {
                // SAFETY: the caller vouches for the instruction set and for the blocks, which need
                // not be aligned.
                unsafe { Self($load(from.cast())) }
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut Block) {
                // SAFETY: the caller vouches for the blocks, which need not be aligned.
                unsafe { $store(to.cast(), self.0) }
            }

            #[inline(always)]
            unsafe fn broadcast(block: &Block) -> Self {
                // SAFETY: the caller vouches for the instruction set; a block need not be aligned.
                unsafe { Self($everywhere(_mm_loadu_si128(block.as_ptr().cast()))) }
            }

            type Keys<'k> = KeyInPlace<'k>;

            #[inline(always)]
            unsafe fn keys(round_keys: &[Block; ROUND_KEYS_MAX]) -> KeyInPlace<'_> {
                KeyInPlace::new(round_keys)
            }

            /// Little-endian blocks.
            type Numbers = Self;

            #[inline(always)]
            fn count_on(numbers: Self, more: u64) -> Self {
                // SAFETY: a value of this type shows that the processor has the instruction set.
                unsafe { Self($add(numbers.0, $everywhere(_mm_set_epi64x(0, more as i64)))) }
            }

            #[inline(always)]
            fn counters(numbers: Self) -> Self {
                // SAFETY: a value of this type shows that the processor has the instruction set.
                unsafe {
                    let reverse = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
                    Self($shuffle_bytes(numbers.0, $everywhere(reverse)))
                }
            }

            $(
                #[inline(always)]
                fn $operation(self, $arg: Self) -> Self {
                    // SAFETY: a value of this type shows that the processor has the instruction
                    // set.
                    unsafe { Self($intrinsic(self.0, $arg.0)) }
                }
            )*

            type Polynomials = Self;

            #[inline(always)]
            fn polynomials(self) -> impl IntoIterator<Item = Self> {
                // The same bytes the other way round.
                [Self::counters(self)]
            }

            $($blocks_rest)*
        }

        impl Polynomials for $name {
            const COUNT: usize = $blocks;

            #[inline(always)]
            unsafe fn read(from: *const u128) -> Self {
                // SAFETY: the caller vouches for the instruction set and for as many numbers as
                // blocks.
                unsafe { Self::load(from.cast()) }
            }

            #[inline(always)]
            unsafe fn single(polynomial: u128) -> Self {
                // SAFETY: the caller vouches for the instruction set; the number is as long as a
                // register of one block.
                unsafe { Self($first(_mm_loadu_si128((&raw const polynomial).cast()))) }
            }

            #[inline(always)]
            unsafe fn everywhere(polynomial: u128) -> Self {
                // SAFETY: the caller vouches for the instruction set.
                unsafe { Self::broadcast(&polynomial.to_le_bytes()) }
            }

            #[inline(always)]
            unsafe fn write(self, to: *mut u128) {
                // SAFETY: the caller vouches for as many numbers as blocks.
                unsafe { self.store(to.cast()) }
            }

            #[inline(always)]
            fn number(self) -> u128 {
                u128::from_le_bytes(self.first())
            }

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.xor(other)
            }

            #[inline(always)]
            fn exchanged(self) -> Self {
                // SAFETY: a value of this type shows that the processor has the instruction set.
                unsafe { Self($shuffle_words::<0x4e>(self.0)) }
            }

            #[inline(always)]
            fn times<const HALF: bool, const OTHER: bool>(self, other: Self) -> Self {
                let (a, b) = (self.0, other.0);
                // SAFETY: a value of this type shows that the processor has the instruction set.
                unsafe {
                    Self(match (HALF, OTHER) {
                        (false, false) => $multiply::<0x00>(a, b),
                        (true, false) => $multiply::<0x01>(a, b),
                        (false, true) => $multiply::<0x10>(a, b),
                        (true, true) => $multiply::<0x11>(a, b),
                    })
                }
            }

            $($polynomials_rest)*
        }
    };
}
pub(super) use register;
