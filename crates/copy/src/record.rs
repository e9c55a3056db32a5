//! Records of copied files.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use tabane_engine::Digest;

use crate::directory::Place;

/// The hash of a file.
#[derive(Clone)]
pub(crate) struct FileHash {
    /// The hash of all bytes, or of the data.
    pub(crate) digest: Digest,
    /// The bytes that the hash covers.
    pub(crate) scope: Scope,
}

/// The bytes that a hash covers.
#[derive(Clone)]
pub(crate) enum Scope {
    /// All bytes to the end of the file.
    Whole,
    /// The bytes in these ranges of a file of this length; all others are zeros.
    Data(u64, Arc<[Range<u64>]>),
}

impl FileHash {
    /// A hash of all bytes.
    pub(crate) fn whole(digest: Digest) -> Self {
        let scope = Scope::Whole;
        Self { digest, scope }
    }

    /// A hash of the bytes in `data`, which are all but zeros of a file of `len` bytes.
    pub(crate) fn data(digest: Digest, len: u64, data: Arc<[Range<u64>]>) -> Self {
        let scope = Scope::Data(len, data);
        Self { digest, scope }
    }
}

/// A regular file that is to be read again.
pub(crate) struct Record {
    /// The place of the operand.
    pub(crate) place: Arc<Place>,
    /// Below the source of the place.
    pub(crate) source: PathBuf,
    /// Below the target of the place.
    pub(crate) target: PathBuf,
    /// Bytes.
    pub(crate) size: u64,
    /// The hash of the bytes read from the source.
    pub(crate) hash: FileHash,
}

impl Record {
    /// The source's path, for messages.
    pub(crate) fn show_source(&self) -> PathBuf {
        self.place.source_prefix.join(&self.source)
    }

    /// The copy's path, for messages.
    pub(crate) fn show_target(&self) -> PathBuf {
        self.place.target_prefix.join(&self.target)
    }
}
