//! Limits the rates of bytes to and from all nodes of a cluster together.

use tabane_storage::{Limiter, RemoteOptions};

/// Bytes sent at a time under a limit, so that other traffic gets through.
pub const PIECE_LEN: usize = 16 << 10;

/// The rates that all connections share.
#[derive(Default)]
pub struct Limits {
    upload: Option<Limiter>,
    download: Option<Limiter>,
    upload_kib_per_s: Option<u64>,
}

impl Limits {
    /// The limits of these options.
    pub fn new(options: &RemoteOptions) -> Self {
        Self {
            upload: options.upload_kib_per_s.map(Limiter::new),
            download: options.download_kib_per_s.map(Limiter::new),
            upload_kib_per_s: options.upload_kib_per_s,
        }
    }

    /// Waits until `bytes` bytes may be sent.
    pub fn before_sending(&self, bytes: usize) {
        if let Some(upload) = &self.upload {
            upload.pause(bytes);
        }
    }

    /// Counts received bytes, and waits if they exceed the rate.
    pub fn after_receiving(&self, bytes: usize) {
        if let Some(download) = &self.download {
            download.pause(bytes);
        }
    }

    /// The least time in seconds that sending `bytes` bytes takes.
    pub fn least_seconds(&self, bytes: u64) -> f64 {
        self.upload_kib_per_s
            .map_or(0.0, |rate| bytes as f64 / 1024.0 / rate as f64)
    }
}
