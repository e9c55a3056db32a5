//! What registers of lanes have in common, whatever the processor.

/// Defines a register of lanes: its moves and the operations that are one instruction each. The
/// braces behind it go into its [`Vector`](crate::vector::Vector) unchanged.
macro_rules! register {
    (
        $(#[$attribute:meta])*
        $name:ident($register:ty) = [$word:ty; $lanes:literal];
        pin $pin:ident, load $load:ident, store $store:ident, splat $splat:ident as $signed:ty;
        $(fn $operation:ident($($arg:ident),*) = $intrinsic:ident $(::<$constant:literal>)?;)*
        { $($rest:tt)* }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name($register);

        impl Vector for $name {
            type Word = $word;
            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn load(words: *const $word) -> Self {
                // SAFETY: the caller promises the instruction set and the words, which need not be
                // aligned.
                unsafe { Self($load(words.cast())) }
            }

            #[inline(always)]
            unsafe fn store(self, words: *mut $word) {
                // SAFETY: the caller promises the words, which need not be aligned.
                unsafe { $store(words.cast(), self.0) }
            }

            #[inline(always)]
            fn pin(self) -> Self {
                // SAFETY: a value of this type shows that the processor has the instruction set.
                unsafe { Self($pin(self.0)) }
            }

            #[inline(always)]
            fn splat(self, word: $word) -> Self {
                // SAFETY: a value of this type shows that the processor has the instruction set.
                unsafe { Self($splat(word as $signed)) }
            }

            $(
                #[inline(always)]
                fn $operation(self, $($arg: Self),*) -> Self {
                    // SAFETY: a value of this type shows that the processor has the instruction
                    // set.
                    unsafe { Self($intrinsic$(::<$constant>)?(self.0, $($arg.0),*)) }
                }
            )*

            $($rest)*
        }
    };
}

/// The body of [`Vector::pin`](crate::vector::Vector::pin): a function of its own, like every
/// intrinsic, to have the instruction set. The template is a comment that names the register.
macro_rules! pin {
    ($name:ident($register:ty as $class:ident), $feature:literal, $template:literal) => {
        #[inline]
        #[target_feature(enable = $feature)]
        fn $name(mut register: $register) -> $register {
            // SAFETY: there are no instructions.
            unsafe {
                core::arch::asm!(
                    $template,
                    inout($class) register,
                    options(pure, nomem, nostack, preserves_flags)
                );
            }
            register
        }
    };
}
