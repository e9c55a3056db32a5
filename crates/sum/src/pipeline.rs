//! From tasks to checksums, in order.

use std::collections::VecDeque;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, TryLockError};

use tabane_engine::Pool;

use crate::method::{Method, Sum};
use crate::special::Specials;
use crate::worker::{Parted, Stream, Worker};

/// Something that is done in its turn: mostly a file to hash.
pub trait Task: Send + 'static {
    /// What to hash; `None` if the task only keeps its place in the order.
    fn job(&self) -> Option<Job<'_>>;
}

/// What to hash, and how.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// Where the bytes are.
    pub source: Source<'a>,
    /// What to compute of them.
    pub method: Method,
}

/// Where bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// In this file.
    File(&'a Path),
    /// In standard input, to its end. Several tasks that name it take turns, in their order.
    Stdin,
}

/// A file to hash.
#[derive(Clone, Debug)]
pub struct FileTask {
    /// Which one.
    pub path: PathBuf,
    /// What to compute.
    pub method: Method,
}

impl Task for FileTask {
    fn job(&self) -> Option<Job<'_>> {
        Some(Job {
            source: Source::File(&self.path),
            method: self.method,
        })
    }
}

/// A task that is done.
#[derive(Debug)]
pub struct Done<T> {
    /// The task.
    pub task: T,
    /// The checksum, or why there is none; `None` if the task has no job.
    pub outcome: Option<io::Result<Sum>>,
}

/// Does all tasks on all processors. The results come in the order of the tasks, several at a time.
///
/// `tasks` is asked for more by any thread, and not before there is need: what is read but not yet returned is bounded,
/// whatever the number of tasks and the lengths of files. `on_bytes` is called by any thread with the number of bytes
/// that were just read.
///
/// Errors belong to a task and end nothing. A pipe is read while others are hashed, so pipes may depend on each other.
pub fn sum_all<T: Task>(
    tasks: impl Iterator<Item = T> + Send + 'static,
    on_bytes: impl Fn(u64) + Send + Sync + 'static,
) -> Sums<T> {
    let (sender, receiver) = mpsc::channel();
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get());
    let shared = Arc::new(Shared {
        feed: Mutex::new(Feed {
            tasks: Some(Box::new(tasks)),
            next: 0,
        }),
        state: Mutex::new(State {
            ahead: 0,
            ended: false,
            finished: false,
            parted: VecDeque::new(),
            offered: Vec::new(),
            idle: 0,
            workers,
        }),
        changed: Condvar::new(),
        idle: AtomicUsize::new(0),
        parted: AtomicUsize::new(0),
        stopped: AtomicBool::new(false),
        specials: Specials::default(),
        on_bytes: Box::new(on_bytes),
    });
    let pool = Pool::for_all_processors(|| Worker::new(Arc::clone(&shared)));
    for _ in 0..workers {
        let results = sender.clone();
        pool.submitter()
            .submit(move |worker: &mut Worker<T>, _| worker.run(&results));
    }
    Sums {
        shared,
        results: receiver,
        next: 0,
        waiting: VecDeque::new(),
        pool: Some(pool),
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
    pool: Option<Pool<Worker<T>>>,
}

impl<T: Task> Iterator for Sums<T> {
    type Item = Vec<Done<T>>;

    fn next(&mut self) -> Option<Vec<Done<T>>> {
        loop {
            let Ok(batch) = self.results.recv() else {
                // Every worker is done, or has panicked, which this passes on.
                if let Some(pool) = self.pool.take() {
                    pool.finish();
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

/// Bytes of tasks that may be begun but not returned. A big file keeps those behind it waiting for their turn; this
/// many may be done meanwhile.
const MAX_AHEAD: usize = 32 << 20;

/// Tasks that a worker takes at a time.
const BATCH: usize = 32;

/// What a task that is begun but not returned weighs, in bytes, with its result.
fn weight<T: Task>(task: &T) -> usize {
    let name = match task.job().map(|job| job.source) {
        Some(Source::File(path)) => path.as_os_str().as_bytes().len(),
        _ => 0,
    };
    name + size_of::<Option<Done<T>>>() + size_of::<Numbered<Done<T>>>()
}

/// Where results go, in any order.
pub(crate) type Results<T> = Sender<Vec<Numbered<Done<T>>>>;

/// Something with its place in the order.
pub(crate) struct Numbered<V> {
    pub(crate) number: u64,
    pub(crate) value: V,
}

/// What the workers share.
pub(crate) struct Shared<T> {
    feed: Mutex<Feed<T>>,
    state: Mutex<State<T>>,
    /// Something in `state` has changed that a waiting worker wants to know.
    changed: Condvar,
    /// `state.idle`, to look at without the lock.
    idle: AtomicUsize,
    /// The length of `state.parted`, to look at without the lock.
    parted: AtomicUsize,
    stopped: AtomicBool,
    pub(crate) specials: Specials<T>,
    pub(crate) on_bytes: Box<dyn Fn(u64) + Send + Sync>,
}

struct Feed<T> {
    tasks: Option<Box<dyn Iterator<Item = T> + Send>>,
    next: u64,
}

struct State<T> {
    /// Sum of the weights of all tasks that are begun but not returned.
    ahead: usize,
    /// There are no more tasks to begin.
    ended: bool,
    /// Nothing is left to do.
    finished: bool,
    /// Files with parts that nobody has begun, each with the number of the first of them.
    parted: VecDeque<(Arc<Parted<T>>, u64)>,
    /// Streams that a worker has given up for idle ones.
    offered: Vec<Stream<T>>,
    idle: usize,
    workers: usize,
}

/// What a worker without work is to do.
pub(crate) enum Next<T> {
    /// Go on with these.
    Streams(Vec<Stream<T>>),
    /// Look for tasks and parts.
    Look,
    /// Go home.
    End,
}

impl<T: Task> Shared<T> {
    /// Takes the next tasks; none if there are no more, or enough are ahead, or, unless `wait`, somebody else is taking some.
    pub(crate) fn take_tasks(
        self: &Arc<Self>,
        wait: bool,
        tasks: &mut VecDeque<Numbered<T>>,
        results: &Results<T>,
    ) {
        let feed = match self.feed.try_lock() {
            Err(TryLockError::WouldBlock) if wait => self.feed.lock().ok(),
            feed => feed.ok(),
        };
        // If it has panicked, that is about to stop everybody.
        let Some(mut feed) = feed else { return };
        let Feed {
            tasks: source,
            next,
        } = &mut *feed;
        let Some(iterator) = source else { return };
        if self.lock().ahead >= MAX_AHEAD || self.is_stopped() {
            return;
        }
        let mut taken = 0;
        for _ in 0..BATCH {
            let Some(task) = iterator.next() else {
                *source = None;
                break;
            };
            taken += weight(&task);
            let number = *next;
            *next += 1;
            let task = Numbered {
                number,
                value: task,
            };
            match task.value.job() {
                Some(Job {
                    source: Source::Stdin,
                    method,
                }) => {
                    // Here, since two of them must not overtake each other.
                    self.specials.stdin(self, task, method, results);
                }
                _ => tasks.push_back(task),
            }
        }
        let ended = source.is_none();
        let mut state = self.lock();
        state.ahead += taken;
        if ended {
            state.ended = true;
            self.changed.notify_all();
        }
    }

    /// Takes a part of a file that nobody has begun.
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
        self.changed.notify_all();
    }

    /// Whether a worker has nothing to do.
    pub(crate) fn someone_is_idle(&self) -> bool {
        self.idle.load(Ordering::Relaxed) > 0
    }

    /// Gives streams to whoever is idle.
    pub(crate) fn offer_streams(&self, streams: impl Iterator<Item = Stream<T>>) {
        self.lock().offered.extend(streams);
        self.changed.notify_all();
    }

    /// Waits until there is something to do for a worker who has nothing.
    pub(crate) fn wait(&self) -> Next<T> {
        let mut state = self.lock();
        loop {
            if state.finished || self.is_stopped() {
                return Next::End;
            }
            if !state.offered.is_empty() {
                // As much for this one as for each other who waits.
                let share = state.offered.len().div_ceil(state.idle + 1);
                return Next::Streams(state.offered.drain(..share).collect());
            }
            if !state.parted.is_empty() || !state.ended && state.ahead < MAX_AHEAD {
                return Next::Look;
            }
            if state.ended && state.idle + 1 == state.workers {
                state.finished = true;
                self.changed.notify_all();
                return Next::End;
            }
            state.idle += 1;
            self.idle.store(state.idle, Ordering::Relaxed);
            state = self
                .changed
                .wait(state)
                .expect("nothing panics under this lock");
            state.idle -= 1;
            self.idle.store(state.idle, Ordering::Relaxed);
        }
    }

    /// Tasks of this weight were returned.
    fn returned(&self, weight: usize) {
        let mut state = self.lock();
        let was_full = state.ahead >= MAX_AHEAD;
        state.ahead -= weight;
        if was_full && state.ahead < MAX_AHEAD {
            self.changed.notify_all();
        }
    }

    /// Makes all workers end soon.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        // With the lock, so that nobody is between looking and waiting.
        let _state = self.lock();
        self.changed.notify_all();
    }

    /// Whether nobody wants the results any more.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().expect("nothing panics under this lock")
    }
}
