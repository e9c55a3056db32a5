//! What the storages on servers share: threads for the network, slots, retries.

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use crate::concurrency::Concurrency;
use crate::error::{Result, StorageErrorKind};
use crate::options::RemoteOptions;
use crate::retry::Outages;

/// Time limits of small requests, the first try's and the last ones': each doubles the one before.
/// A server that serves fewer connections than there are may leave a request unread until another
/// connection closes. Uploads may take longer, as long as they move.
const ANSWER_TIMEOUT_FIRST: Duration = Duration::from_secs(10);
const ANSWER_TIMEOUT_MAX: Duration = Duration::from_secs(120);

/// Runs the operations of a storage on a server, and retries them.
///
/// Its methods that block must not be called from within an asynchronous runtime.
pub struct Remote {
    /// `None` only while the storage is being dropped.
    runtime: Option<Runtime>,
    concurrency: Concurrency,
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
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("network")
            .enable_all()
            .build()?;
        Ok(Self {
            runtime: Some(runtime),
            concurrency: Concurrency::new(options.connections),
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
        self.concurrency.limit()
    }

    /// Waits for a future.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let runtime = self.runtime.as_ref().expect("it is taken at the end");
        runtime.block_on(future)
    }

    /// Notes that it is the right server, though it refuses for now.
    pub fn reached(&self) {
        self.outages.reached();
    }

    /// Waits for an operation, which is retried after retryable failures.
    pub fn run<T>(&self, operation: impl AsyncFnMut(Attempt) -> Result<T>) -> Result<T> {
        self.block_on(self.persist(operation))
    }

    /// As [`Remote::run`], in an asynchronous task.
    pub async fn persist<T>(
        &self,
        mut operation: impl AsyncFnMut(Attempt) -> Result<T>,
    ) -> Result<T> {
        let _slot = self.concurrency.enter().await;
        let mut attempts = self.outages.attempts();
        loop {
            let begin = Instant::now();
            let attempt = Attempt::new(attempts.failures());
            let limit = attempts.time_limit().filter(|_| self.hastens_first_answer);
            let done = match limit {
                Some(limit) => tokio::time::timeout(limit, operation(attempt))
                    .await
                    .unwrap_or_else(|_| Err(StorageErrorKind::Retryable.into())),
                None => operation(attempt).await,
            };
            let failure = match done {
                Err(failure) if failure.kind() == StorageErrorKind::Retryable => failure,
                done => {
                    self.concurrency.answered(begin.elapsed());
                    self.outages.answered();
                    return done;
                }
            };
            let now = Instant::now();
            self.concurrency.refused(now);
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

/// A try of an operation.
#[derive(Clone, Copy)]
pub struct Attempt {
    /// An earlier try failed; the server may have carried it out.
    pub is_again: bool,
    /// Time limit of small requests.
    pub answer_timeout: Duration,
}

impl Attempt {
    /// The try after so many failures.
    fn new(failures: u32) -> Self {
        let timeout = ANSWER_TIMEOUT_FIRST.saturating_mul(1 << failures.min(10));
        Self {
            is_again: failures > 0,
            answer_timeout: timeout.min(ANSWER_TIMEOUT_MAX),
        }
    }
}
