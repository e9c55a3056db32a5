//! From tasks to checksums, in order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;

use tabane_engine::Pool;

use crate::shared::{Shared, weight};
use crate::task::{Done, Numbered, Task};
use crate::worker::Worker;

/// Does all tasks on all processors. The results come in the order of the tasks, several at a time.
///
/// `tasks` is asked for more by any thread, and not before there is need: what is read but not yet
/// returned is bounded, whatever the number of tasks and the lengths of files. `on_bytes` is called
/// by any thread with the number of bytes that were just read.
///
/// Errors belong to a task and end nothing. A pipe is read while others are hashed, so pipes may
/// depend on each other.
pub fn sum_all<T: Task>(
    tasks: impl Iterator<Item = T> + Send + 'static,
    on_bytes: impl Fn(u64) + Send + Sync + 'static,
) -> Sums<T> {
    let (sender, receiver) = mpsc::channel();
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get());
    let shared = Arc::new(Shared::new(workers, Arc::new(on_bytes)));
    let pool = Pool::for_all_processors(|| Worker::new(Arc::clone(&shared), workers));
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
        loop {
            let Ok(batch) = self.results.recv() else {
                // Every thread is done, or has panicked, which this passes on.
                if let Some((pool, feeder)) = self.threads.take() {
                    let fed = feeder.join();
                    pool.finish();
                    fed.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                }
                return None;
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
