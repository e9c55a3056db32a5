//! The checksum of a file.

use std::fmt;

use tabane_engine::Digest;

/// The checksum of a file. Formats as lower-case hexadecimal, an ETag of parts with `-` and their
/// number behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    /// The hash; of the parts' hashes if there are parts.
    pub digest: Digest,
    /// Number of parts, if the file was hashed in parts.
    pub parts: Option<u64>,
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.digest.fmt(f)?;
        match self.parts {
            Some(parts) => write!(f, "-{parts}"),
            None => Ok(()),
        }
    }
}
