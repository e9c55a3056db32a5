//! What the storages on servers share: threads for the network, slots, retries.

use std::time::Instant;

use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use crate::error::{Result, StorageErrorKind};
use crate::options::RemoteOptions;
use crate::retry::Outages;

/// Runs the operations of a storage on a server, and retries them.
///
/// Its methods that block must not be called from within an asynchronous runtime.
pub struct Remote {
    /// `None` only while the storage is being dropped.
    runtime: Option<Runtime>,
    connections: usize,
    slots: Semaphore,
    outages: Outages,
    /// A server that has never answered is soon given up.
    hastens_first_answer: bool,
}

impl Remote {
    /// Starts threads for a storage.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn new(options: &RemoteOptions) -> Result<Self> {
        let connections = options.connections.max(1);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("network")
            .enable_all()
            .build()?;
        Ok(Self {
            runtime: Some(runtime),
            connections,
            slots: Semaphore::new(connections),
            outages: Outages::new(options),
            hastens_first_answer: true,
        })
    }

    /// Lets the first answer take its time: a person may have to type a passphrase before it.
    #[must_use]
    pub fn leisurely(mut self) -> Self {
        self.hastens_first_answer = false;
        self
    }

    /// Operations at a time.
    pub fn connections(&self) -> usize {
        self.connections
    }

    /// Waits for a future.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let runtime = self.runtime.as_ref().expect("it is taken at the end");
        runtime.block_on(future)
    }

    /// Waits for an operation, which is retried after retryable failures.
    pub fn run<T>(&self, operation: impl AsyncFnMut(bool) -> Result<T>) -> Result<T> {
        self.block_on(self.persist(operation))
    }

    /// As [`Remote::run`], in an asynchronous task; `operation` gets whether it was tried before.
    pub async fn persist<T>(&self, mut operation: impl AsyncFnMut(bool) -> Result<T>) -> Result<T> {
        let _slot = self.slots.acquire().await;
        let mut attempts = self.outages.attempts();
        loop {
            let limit = attempts.time_limit().filter(|_| self.hastens_first_answer);
            let done = match limit {
                Some(limit) => tokio::time::timeout(limit, operation(attempts.is_again()))
                    .await
                    .unwrap_or_else(|_| Err(StorageErrorKind::Retryable.into())),
                None => operation(attempts.is_again()).await,
            };
            let failure = match done {
                Err(failure) if failure.kind() == StorageErrorKind::Retryable => failure,
                done => {
                    self.outages.answered();
                    return done;
                }
            };
            let now = Instant::now();
            let Some(delay) = attempts.failed(&failure, now) else {
                let tried = attempts.tried_for(now).as_secs();
                return Err(failure.and(&format!(", for {tried} s")));
            };
            tokio::time::sleep(delay).await;
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A lookup of a host name can take long and cannot be stopped.
            runtime.shutdown_background();
        }
    }
}
