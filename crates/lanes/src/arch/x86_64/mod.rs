//! Instruction sets of x86-64.

/// The operations of a [`Vector`](crate::vector::Vector) that are one instruction each.
macro_rules! operations {
    ($($(#[$attribute:meta])* fn $name:ident($($arg:ident),*) = $intrinsic:ident $(::<$constant:literal>)?;)*) => {$(
        $(#[$attribute])*
        #[inline(always)]
        fn $name(self, $($arg: Self),*) -> Self {
            // SAFETY: a value of this type shows that the processor has the instruction set.
            unsafe { Self($intrinsic$(::<$constant>)?(self.0, $($arg.0),*)) }
        }
    )*};
}

pub(crate) mod avx2;
pub(crate) mod avx512;
pub(crate) mod shani;
pub(crate) mod sse41;
