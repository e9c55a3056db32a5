//! Methods of computing a file's sum.

use tabane_engine::{Algorithm, Function};

use crate::etag::Upload;

/// A method of computing a file's sum.
#[derive(Clone, Debug)]
pub enum Method {
    /// The hash of its bytes.
    Digest(Function),
    /// The ETag that S3 gives to an object that was uploaded so.
    Etag(Upload),
}

impl Method {
    /// The hash of its bytes by an algorithm that takes no key.
    ///
    /// # Panics
    ///
    /// If the algorithm takes a key.
    pub fn keyless(algorithm: Algorithm) -> Self {
        Self::Digest(Function::keyless(algorithm))
    }
}
