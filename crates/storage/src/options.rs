//! How a storage behind a network is used.

use std::sync::Arc;
use std::time::Duration;

/// Is told what a person should know while an operation goes on, in one sentence; called from many threads.
pub type Notice = Arc<dyn Fn(&str) + Send + Sync>;

/// How a storage behind a network is used.
#[derive(Clone)]
#[non_exhaustive]
pub struct RemoteOptions {
    /// Requests at a time.
    pub connections: usize,
    /// Limit of what is sent, in KiB a second.
    pub upload_kib_per_s: Option<u64>,
    /// Limit of what is received, in KiB a second.
    pub download_kib_per_s: Option<u64>,
    /// For how long a request is tried again when the server cannot be reached, is overloaded, or breaks off.
    pub patience: Duration,
    /// Is told of outages that last.
    pub notice: Notice,
}

crate::setters!(RemoteOptions {
    set => connections: usize,
    into => upload_kib_per_s: Option<u64>,
    into => download_kib_per_s: Option<u64>,
    set => patience: Duration,
    set => notice: Notice,
});

impl Default for RemoteOptions {
    fn default() -> Self {
        Self {
            connections: 5,
            upload_kib_per_s: None,
            download_kib_per_s: None,
            patience: Duration::from_secs(300),
            notice: Arc::new(|_| {}),
        }
    }
}
