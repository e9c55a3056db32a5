//! State shared by the threads: tasks, parts and streams that wait for a worker.

use std::collections::VecDeque;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use crate::special::Specials;
use crate::stream::{Parted, Stream};
use crate::task::{Done, Job, Numbered, OnBytes, Results, Source, Task};

/// Bytes of tasks that may be begun but not returned. A big file keeps those behind it waiting for
/// their turn; this many may be done meanwhile.
const AHEAD_BYTES_MAX: usize = 32 << 20;

/// Tasks that a worker takes at a time.
const BATCH_TASKS_MAX: usize = 32;

/// Bytes of memory of a task that is begun and not returned, with its result.
pub(crate) fn weight<T: Task>(task: &T) -> usize {
    let name = match task.job().map(|job| job.source) {
        Some(Source::File(path)) => path.as_os_str().as_bytes().len(),
        _ => 0,
    };
    name + size_of::<Option<Done<T>>>() + size_of::<Numbered<Done<T>>>()
}

/// State shared by the threads.
pub(crate) struct Shared<T> {
    state: Mutex<State<T>>,
    /// There may be work for an idle worker.
    work: Condvar,
    /// There may be room for more tasks.
    room: Condvar,
    /// `state.idle`, to look at without the lock.
    idle: AtomicUsize,
    /// The length of `state.parted`, to look at without the lock.
    parted: AtomicUsize,
    stopped: AtomicBool,
    pub(crate) specials: Specials<T>,
    pub(crate) on_bytes: OnBytes,
}

struct State<T> {
    /// Tasks that no worker has begun.
    tasks: VecDeque<Numbered<T>>,
    /// Sum of the weights of all tasks that have come and are not returned.
    ahead: usize,
    /// No more tasks will come.
    ended: bool,
    /// Whether all work is done.
    finished: bool,
    /// Files with parts left to begin, each with the number of the next part.
    parted: VecDeque<(Arc<Parted<T>>, u64)>,
    /// Streams that a worker has given up for idle ones.
    offered: Vec<Stream<T>>,
    idle: usize,
    workers: usize,
}

/// The next step of an idle worker.
pub(crate) enum Next<T> {
    /// Go on with these.
    Streams(Vec<Stream<T>>),
    /// Look for tasks and parts.
    Look,
    /// End the thread.
    End,
}

impl<T: Task> Shared<T> {
    /// An empty queue for this many workers.
    pub(crate) fn new(workers: usize, on_bytes: OnBytes) -> Self {
        Self {
            state: Mutex::new(State {
                tasks: VecDeque::new(),
                ahead: 0,
                ended: false,
                finished: false,
                parted: VecDeque::new(),
                offered: Vec::new(),
                idle: 0,
                workers,
            }),
            work: Condvar::new(),
            room: Condvar::new(),
            idle: AtomicUsize::new(0),
            parted: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            specials: Specials::new(Arc::clone(&on_bytes)),
            on_bytes,
        }
    }

    /// Takes tasks from the caller's iterator, as long as not too many are ahead. Only this
    /// function waits for the iterator.
    pub(crate) fn feed(&self, tasks: impl Iterator<Item = T>, results: &Results<T>) {
        let _stop = StopOnPanic(self);
        for (number, value) in (0..).zip(tasks) {
            let task = Numbered { number, value };
            let mut state = self.lock();
            while state.ahead >= AHEAD_BYTES_MAX && !self.is_stopped() {
                state = wait(&self.room, state);
            }
            if self.is_stopped() {
                break;
            }
            state.ahead += weight(&task.value);
            match task.value.job() {
                // Handled by this thread, so that readers of standard input keep their order.
                Some(Job {
                    source: Source::Stdin,
                    method,
                }) => {
                    let method = method.clone();
                    drop(state);
                    self.specials.stdin(task, method, results);
                }
                _ => {
                    state.tasks.push_back(task);
                    if state.idle > 0 {
                        self.work.notify_one();
                    }
                }
            }
        }
        self.lock().ended = true;
        self.work.notify_all();
    }

    /// Takes tasks that no worker has begun, if any.
    pub(crate) fn take_tasks(&self, tasks: &mut VecDeque<Numbered<T>>) {
        let mut state = self.lock();
        let share = state.tasks.len().div_ceil(state.workers);
        tasks.extend(state.tasks.drain(..share.min(BATCH_TASKS_MAX)));
    }

    /// Takes a part of a file that no worker has begun.
    pub(crate) fn take_part(&self) -> Option<(Arc<Parted<T>>, u64)> {
        if self.parted.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut state = self.lock();
        let (file, part) = state.parted.front_mut()?;
        let taken = (Arc::clone(file), *part);
        *part += 1;
        if *part == file.parts() {
            state.parted.pop_front();
            self.parted.store(state.parted.len(), Ordering::Relaxed);
        }
        Some(taken)
    }

    /// Offers the parts of a file to all workers.
    pub(crate) fn offer_parts(&self, file: Arc<Parted<T>>) {
        let mut state = self.lock();
        state.parted.push_back((file, 0));
        self.parted.store(state.parted.len(), Ordering::Relaxed);
        self.work.notify_all();
    }

    /// Whether a worker has nothing to do.
    pub(crate) fn someone_is_idle(&self) -> bool {
        self.idle.load(Ordering::Relaxed) > 0
    }

    /// Offers streams to idle workers.
    pub(crate) fn offer_streams(&self, streams: impl Iterator<Item = Stream<T>>) {
        self.lock().offered.extend(streams);
        self.work.notify_all();
    }

    /// Waits for work for an idle worker.
    pub(crate) fn wait(&self) -> Next<T> {
        let mut state = self.lock();
        loop {
            if state.finished || self.is_stopped() {
                return Next::End;
            }
            if !state.offered.is_empty() {
                // An equal share for this worker and each waiting one.
                let share = state.offered.len().div_ceil(state.idle + 1);
                return Next::Streams(state.offered.drain(..share).collect());
            }
            if !state.parted.is_empty() || !state.tasks.is_empty() {
                return Next::Look;
            }
            if state.ended && state.idle + 1 == state.workers {
                state.finished = true;
                self.work.notify_all();
                return Next::End;
            }
            state.idle += 1;
            self.idle.store(state.idle, Ordering::Relaxed);
            state = wait(&self.work, state);
            state.idle -= 1;
            self.idle.store(state.idle, Ordering::Relaxed);
        }
    }

    /// Tasks of this weight were returned.
    pub(crate) fn returned(&self, weight: usize) {
        let mut state = self.lock();
        state.ahead -= weight;
        if state.ahead < AHEAD_BYTES_MAX {
            self.room.notify_one();
        }
    }

    /// Makes all threads end soon.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        // With the lock, so that no worker is between its look at the queue and its wait.
        let _state = self.state.lock();
        self.work.notify_all();
        self.room.notify_all();
    }

    /// Whether the results are no longer wanted.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().expect("nothing panics under this lock")
    }
}

fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition
        .wait(guard)
        .expect("nothing panics under this lock")
}

/// Lets all other threads end when one panics, so that the panic reaches the caller.
pub(crate) struct StopOnPanic<'a, T: Task>(pub(crate) &'a Shared<T>);

impl<T: Task> Drop for StopOnPanic<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}
