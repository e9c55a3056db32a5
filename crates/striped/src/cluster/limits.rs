//! Keeps what goes to all nodes of a cluster together, and comes from them, below a rate.

use tabane_storage::{Limiter, RemoteOptions};

/// Bytes that go at a time where there is a limit, so that others on the line get through.
pub const PIECE_LEN: usize = 16 << 10;

/// The rates that all connections share.
#[derive(Default)]
pub struct Limits {
    upload: Option<Limiter>,
    download: Option<Limiter>,
    upload_kib_per_s: Option<u64>,
}

impl Limits {
    /// Those that were asked for.
    pub fn new(options: &RemoteOptions) -> Self {
        Self {
            upload: options.upload_kib_per_s.map(Limiter::new),
            download: options.download_kib_per_s.map(Limiter::new),
            upload_kib_per_s: options.upload_kib_per_s,
        }
    }

    /// Waits until so many bytes may be sent.
    pub fn before_sending(&self, bytes: usize) {
        if let Some(upload) = &self.upload {
            upload.pause(bytes);
        }
    }

    /// Takes in that so many bytes came, and waits if they were too many.
    pub fn after_receiving(&self, bytes: usize) {
        if let Some(download) = &self.download {
            download.pause(bytes);
        }
    }

    /// How long sending so many bytes takes at least, in seconds.
    pub fn least_seconds(&self, bytes: u64) -> f64 {
        self.upload_kib_per_s
            .map_or(0.0, |rate| bytes as f64 / 1024.0 / rate as f64)
    }
}
