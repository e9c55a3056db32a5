//! The algorithms: one file each, and which there are.

/// Calls `$f::<T, V>(args)` for each `T` in the list: an unrolled loop whose counter is a constant.
macro_rules! repeat {
    ($f:ident $args:tt : $($t:literal)*) => { $( repeat!(@ $f $t $args); )* };
    (@ $f:ident $t:literal ($($arg:expr),*)) => { $f::<$t, V>($($arg),*) };
}

pub(crate) mod md5;
pub(crate) mod sha1;
pub(crate) mod sha2;

/// A hash algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// MD5 (RFC 1321): 16 bytes. Broken: anyone can make two messages that have the same. It guards
    /// against accidents.
    Md5,
    /// SHA-1 (FIPS 180-4): 20 bytes. Collisions are known, so it identifies only data that no
    /// attacker wants to forge.
    Sha1,
    /// SHA-224 (FIPS 180-4): 28 bytes.
    Sha224,
    /// SHA-256 (FIPS 180-4): 32 bytes.
    Sha256,
    /// SHA-384 (FIPS 180-4): 48 bytes.
    Sha384,
    /// SHA-512 (FIPS 180-4): 64 bytes.
    Sha512,
}

impl Algorithm {
    /// Every algorithm of this crate.
    pub const ALL: &[Algorithm] = &[
        Self::Md5,
        Self::Sha1,
        Self::Sha224,
        Self::Sha256,
        Self::Sha384,
        Self::Sha512,
    ];
}
