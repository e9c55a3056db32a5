//! From tasks to checksums, in order.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tabane_engine::Pool;

use crate::shared::{Shared, weight};
use crate::task::{Done, Numbered, Task};
use crate::worker::Worker;

/// Runs all tasks on all processors. The results come in the order of the tasks, several at a time.
///
/// Any thread takes the next task from `tasks`, only when needed: bytes that are read and not yet
/// returned are bounded, whatever the number of tasks and the lengths of files. Any thread calls
/// `on_bytes` with the number of bytes just read.
///
/// Errors belong to a task and end nothing. A pipe is read while others are hashed, so pipes may
/// depend on each other.
pub fn sum_all<T: Task>(
    tasks: impl Iterator<Item = T> + Send + 'static,
    on_bytes: impl Fn(u64) + Send + Sync + 'static,
) -> Sums<T> {
    let workers = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    sum_all_with(workers, tasks, on_bytes)
}

/// As [`sum_all`], with this number of hashing threads.
pub fn sum_all_with<T: Task>(
    workers: NonZeroUsize,
    tasks: impl Iterator<Item = T> + Send + 'static,
    on_bytes: impl Fn(u64) + Send + Sync + 'static,
) -> Sums<T> {
    let (sender, receiver) = mpsc::channel();
    let workers = workers.get();
    let shared = Arc::new(Shared::new(workers, Arc::new(on_bytes)));
    let states = std::iter::repeat_with(|| Worker::new(Arc::clone(&shared), workers));
    let pool = Pool::new(states.take(workers).collect(), workers);
    for _ in 0..workers {
        let results = sender.clone();
        pool.submitter()
            .submit(move |worker: &mut Worker<T>, _| worker.run(&results));
    }
    let feeder = {
        let shared = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("tasks".to_owned())
            .spawn(move || shared.feed(tasks, &sender))
            .expect("the system can start a thread")
    };
    Sums {
        shared,
        results: receiver,
        next: 0,
        waiting: VecDeque::new(),
        threads: Some((pool, feeder)),
    }
}

/// The results of [`sum_all`]. Dropping it stops the work.
pub struct Sums<T: Task> {
    shared: Arc<Shared<T>>,
    results: Receiver<Vec<Numbered<Done<T>>>>,
    /// The number of the next result to return.
    next: u64,
    /// Results from `next` on, as far as they are there.
    waiting: VecDeque<Option<Done<T>>>,
    threads: Option<(Pool<Worker<T>>, JoinHandle<()>)>,
}

impl<T: Task> Iterator for Sums<T> {
    type Item = Vec<Done<T>>;

    fn next(&mut self) -> Option<Vec<Done<T>>> {
        self.next_before(None)
    }
}

impl<T: Task> Sums<T> {
    /// As [`Iterator::next`], except that the list is empty when nothing is done after `time`.
    pub fn next_within(&mut self, time: Duration) -> Option<Vec<Done<T>>> {
        self.next_before(Some(Instant::now() + time))
    }

    fn next_before(&mut self, deadline: Option<Instant>) -> Option<Vec<Done<T>>> {
        loop {
            let received = match deadline {
                None => self.results.recv().map_err(RecvTimeoutError::from),
                Some(deadline) => self
                    .results
                    .recv_timeout(deadline.saturating_duration_since(Instant::now())),
            };
            let batch = match received {
                Ok(batch) => batch,
                Err(RecvTimeoutError::Timeout) => return Some(Vec::new()),
                Err(RecvTimeoutError::Disconnected) => {
                    // Every thread has ended; a panic of a thread is passed on.
                    if let Some((pool, feeder)) = self.threads.take() {
                        let fed = feeder.join();
                        pool.finish();
                        fed.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                    }
                    return None;
                }
            };
            for Numbered { number, value } in batch {
                let place = (number - self.next) as usize;
                if place >= self.waiting.len() {
                    self.waiting.resize_with(place + 1, || None);
                }
                self.waiting[place] = Some(value);
            }
            let ready = self
                .waiting
                .iter()
                .take_while(|done| done.is_some())
                .count();
            if ready > 0 {
                self.next += ready as u64;
                let ready: Vec<_> = self.waiting.drain(..ready).flatten().collect();
                self.shared
                    .returned(ready.iter().map(|done| weight(&done.task)).sum());
                return Some(ready);
            }
        }
    }
}

impl<T: Task> Drop for Sums<T> {
    fn drop(&mut self) {
        self.shared.stop();
    }
}
