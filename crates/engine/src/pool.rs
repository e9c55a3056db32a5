//! Pinned workers with a bounded queue.

use std::collections::VecDeque;

use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Arc, Condvar, Mutex, MutexGuard};

type Task<W> = Box<dyn FnOnce(&mut W, &Submitter<W>) + Send>;

/// Threads, one a core and pinned to it, each with its own state of type `W`.
///
/// The queue is bounded, so that producers of work block instead of filling the memory. A task may
/// submit tasks: if the queue is full it runs one itself (see [`Submitter::submit_or_run`]), so
/// that no deadlock is possible.
pub struct Pool<W> {
    submitter: Submitter<W>,
    threads: Vec<JoinHandle<W>>,
}

/// The side of a [`Pool`] that takes tasks.
pub struct Submitter<W> {
    shared: Arc<Shared<W>>,
}

struct Shared<W> {
    queue: Mutex<Queue<W>>,
    depth: usize,
    /// Work was added or the pool closed.
    wake_worker: Condvar,
    /// Room was made.
    wake_producer: Condvar,
}

struct Queue<W> {
    tasks: VecDeque<Task<W>>,
    running: usize,
    closed: bool,
    /// Whether a task has panicked: later tasks are dropped.
    failed: bool,
}

impl<W: Send + 'static> Pool<W> {
    /// As many workers as `states`, and a queue of `depth` tasks beyond those that run.
    ///
    /// With a worker for every processor that this process may use, each is pinned to one. Fewer
    /// are not: several processes with few workers each would share the first processors.
    pub fn new(states: Vec<W>, depth: usize) -> Self {
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue {
                tasks: VecDeque::new(),
                running: 0,
                closed: false,
                failed: false,
            }),
            depth: depth.max(1),
            wake_worker: Condvar::new(),
            wake_producer: Condvar::new(),
        });
        let submitter = Submitter { shared };
        let processors = usable_processors();
        let pin = processors.len() == states.len();
        let threads = states
            .into_iter()
            .enumerate()
            .map(|(number, state)| {
                let submitter = submitter.clone();
                let processor = pin.then(|| processors[number]);
                thread::Builder::new()
                    .name(format!("worker {number}"))
                    .spawn(move || {
                        if let Some(processor) = processor {
                            pin_to(processor);
                        }
                        submitter.work(state)
                    })
                    .expect("the system can start a thread")
            })
            .collect();
        Self { submitter, threads }
    }

    /// One worker for each processor, whose states `state` makes, and one waiting task for each:
    /// more would only hold memory.
    pub fn for_all_processors(state: impl FnMut() -> W) -> Self {
        let workers = std::thread::available_parallelism().map_or(1, |count| count.get());
        Self::new(
            std::iter::repeat_with(state).take(workers).collect(),
            workers,
        )
    }

    /// The side to submit tasks from.
    pub fn submitter(&self) -> &Submitter<W> {
        &self.submitter
    }

    /// Waits for all tasks, and for the tasks that they submitted, and returns the workers' states.
    ///
    /// # Panics
    /// When a task panicked.
    pub fn finish(mut self) -> Vec<W> {
        self.submitter.close();
        std::mem::take(&mut self.threads)
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    }
}

impl<W> Drop for Pool<W> {
    /// Lets the threads end when nothing is left to do, and does not wait for that.
    fn drop(&mut self) {
        self.submitter.close();
    }
}

impl<W> Submitter<W> {
    /// No more tasks will come, but for those that tasks submit.
    fn close(&self) {
        self.lock().closed = true;
        self.shared.wake_worker.notify_all();
    }

    /// Adds a task; waits while the queue is full. Not for use within a task: see
    /// [`Submitter::submit_or_run`].
    pub fn submit(&self, task: impl FnOnce(&mut W, &Submitter<W>) + Send + 'static) {
        let mut queue = self.lock();
        while queue.tasks.len() >= self.shared.depth && !queue.failed {
            queue = wait(&self.shared.wake_producer, queue);
        }
        if queue.failed {
            return;
        }
        queue.tasks.push_back(Box::new(task));
        drop(queue);
        self.shared.wake_worker.notify_one();
    }

    /// From within a task: adds `task` if a worker is free for it or the queue has room, and
    /// otherwise runs it here and now.
    pub fn submit_or_run(
        &self,
        worker: &mut W,
        task: impl FnOnce(&mut W, &Submitter<W>) + Send + 'static,
    ) {
        {
            let mut queue = self.lock();
            if queue.tasks.len() < self.shared.depth {
                // In front: it belongs to work that has begun, whose memory should be freed first.
                queue.tasks.push_front(Box::new(task));
                drop(queue);
                self.shared.wake_worker.notify_one();
                return;
            }
        }
        task(worker, self);
    }

    fn work(&self, mut state: W) -> W {
        let mut queue = self.lock();
        loop {
            if let Some(task) = queue.tasks.pop_front() {
                queue.running += 1;
                drop(queue);
                self.shared.wake_producer.notify_one();
                let running = Running(self);
                task(&mut state, self);
                drop(running);
                queue = self.lock();
            } else if queue.failed || queue.closed && queue.running == 0 {
                drop(queue);
                self.shared.wake_worker.notify_all();
                return state;
            } else {
                queue = wait(&self.shared.wake_worker, queue);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue<W>> {
        self.shared
            .queue
            .lock()
            .expect("no task runs under this lock")
    }
}

impl<W> Clone for Submitter<W> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

/// Counts a running task down even when it panics, so that the other workers can end.
struct Running<'a, W>(&'a Submitter<W>);

impl<W> Drop for Running<'_, W> {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.running -= 1;
        if std::thread::panicking() {
            // The panic is reported by `finish`; what still waits must not keep a producer waiting.
            queue.tasks.clear();
            queue.failed = true;
            self.0.shared.wake_producer.notify_all();
        }
        drop(queue);
        self.0.shared.wake_worker.notify_all();
    }
}

fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).expect("no task runs under this lock")
}

#[cfg(target_os = "linux")]
fn usable_processors() -> Vec<usize> {
    use rustix::thread::{CpuSet, sched_getaffinity};
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU)
            .filter(|&cpu| set.is_set(cpu))
            .collect(),
        Err(_) => Vec::new(),
    }
}

#[cfg(target_os = "linux")]
fn pin_to(processor: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(processor);
    // A refusal costs speed, not correctness.
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

#[cfg(not(target_os = "linux"))]
fn usable_processors() -> Vec<usize> {
    Vec::new()
}

#[cfg(not(target_os = "linux"))]
fn pin_to(_processor: usize) {}
