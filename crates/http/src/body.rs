//! Bodies of requests, of bounded length and time.

use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};

/// Why a body could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// It has more bytes than are allowed.
    TooLong,
    /// It did not come in time.
    TooSlow,
    /// The connection ended in it.
    Broken,
}

/// The bytes of a body, at most `len_max`, which must come within `time`.
///
/// # Errors
/// [`BodyError`].
pub async fn collect<B>(body: B, len_max: usize, time: Duration) -> Result<Bytes, BodyError>
where
    B: Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let limited = Limited::new(body, len_max);
    match tokio::time::timeout(time, limited.collect()).await {
        Err(_) => Err(BodyError::TooSlow),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(BodyError::TooLong),
        Ok(Err(_)) => Err(BodyError::Broken),
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
    }
}
