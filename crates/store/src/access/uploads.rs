//! Threads that write packs in the background.

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::mpsc::{SyncSender, sync_channel};
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Arc, Mutex, lock};

/// The first failure of the threads of a run.
pub struct Failure<E> {
    failed: AtomicBool,
    first: Mutex<Option<E>>,
}

impl<E> Default for Failure<E> {
    fn default() -> Self {
        Self {
            failed: AtomicBool::new(false),
            first: Mutex::new(None),
        }
    }
}

impl<E> Failure<E> {
    /// Whether a thread has failed.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Notes a failure, unless there is one.
    pub fn note(&self, error: E) {
        lock(&self.first).get_or_insert(error);
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Does `work`, unless a thread has failed, and notes its failure.
    pub fn attempt(&self, work: impl FnOnce() -> Result<(), E>) {
        if !self.has_failed()
            && let Err(error) = work()
        {
            self.note(error);
        }
    }

    /// The first failure.
    pub fn take(&self) -> Option<E> {
        lock(&self.first).take()
    }
}

/// Threads that write packs of type `P`, and the bounded queue from which they take them.
pub struct Uploads<P> {
    queue: SyncSender<P>,
    threads: Vec<JoinHandle<()>>,
}

impl<P: Send + 'static> Uploads<P> {
    /// Starts as many threads as `at_once`, at least one, which give each pack to `write`. At most
    /// `waiting_max` packs wait in the queue.
    ///
    /// `write` is to take packs after a failure as well, and drop them: see [`Failure::attempt`].
    /// Otherwise those who fill the queue would wait for ever.
    pub fn start(
        at_once: usize,
        waiting_max: usize,
        write: impl Fn(P) + Clone + Send + 'static,
    ) -> Self {
        let (queue, packs) = sync_channel(waiting_max);
        let packs = Arc::new(Mutex::new(packs));
        let threads = (0..at_once.max(1)).map(|number| {
            let (write, packs) = (write.clone(), Arc::clone(&packs));
            thread::Builder::new()
                .name(format!("upload {number}"))
                .spawn(move || {
                    loop {
                        let next = lock(&packs).recv();
                        let Ok(pack) = next else { return };
                        write(pack);
                    }
                })
                .expect("the system can start a thread")
        });
        let threads = threads.collect();
        Self { queue, threads }
    }

    /// A sender into the queue.
    pub fn queue(&self) -> SyncSender<P> {
        self.queue.clone()
    }

    /// Waits until all packs are written. All other senders must have been dropped.
    ///
    /// # Panics
    /// When a write has panicked.
    pub fn finish(self) {
        drop(self.queue);
        for thread in self.threads {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    }
}
