//! From tasks to checksums, in order.

use std::collections::VecDeque;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

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
    pub method: &'a Method,
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
            method: &self.method,
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
        specials: Specials::default(),
        on_bytes: Box::new(on_bytes),
    });
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

/// What the threads share.
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
    pub(crate) on_bytes: Box<dyn Fn(u64) + Send + Sync>,
}

struct State<T> {
    /// Those that nobody has begun.
    tasks: VecDeque<Numbered<T>>,
    /// Sum of the weights of all tasks that have come and are not returned.
    ahead: usize,
    /// No more tasks will come.
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
    /// Takes tasks from whoever makes them, as long as not too many are ahead. This may wait, and nobody else does.
    fn feed(self: &Arc<Self>, tasks: impl Iterator<Item = T>, results: &Results<T>) {
        let _stop = StopOnPanic(self);
        for (number, value) in (0..).zip(tasks) {
            let task = Numbered { number, value };
            let mut state = self.lock();
            while state.ahead >= MAX_AHEAD && !self.is_stopped() {
                state = wait(&self.room, state);
            }
            if self.is_stopped() {
                break;
            }
            state.ahead += weight(&task.value);
            match task.value.job() {
                // Here, since two of them must not overtake each other.
                Some(Job {
                    source: Source::Stdin,
                    method,
                }) => {
                    let method = method.clone();
                    drop(state);
                    self.specials.stdin(self, task, method, results);
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

    /// Takes tasks that nobody has begun, if there are some.
    pub(crate) fn take_tasks(&self, tasks: &mut VecDeque<Numbered<T>>) {
        let mut state = self.lock();
        let share = state.tasks.len().div_ceil(state.workers);
        tasks.extend(state.tasks.drain(..share.min(BATCH)));
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
        self.work.notify_all();
    }

    /// Whether a worker has nothing to do.
    pub(crate) fn someone_is_idle(&self) -> bool {
        self.idle.load(Ordering::Relaxed) > 0
    }

    /// Gives streams to whoever is idle.
    pub(crate) fn offer_streams(&self, streams: impl Iterator<Item = Stream<T>>) {
        self.lock().offered.extend(streams);
        self.work.notify_all();
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
    fn returned(&self, weight: usize) {
        let mut state = self.lock();
        state.ahead -= weight;
        if state.ahead < MAX_AHEAD {
            self.room.notify_one();
        }
    }

    /// Makes all threads end soon.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        // With the lock, so that nobody is between looking and waiting.
        let _state = self.state.lock();
        self.work.notify_all();
        self.room.notify_all();
    }

    /// Whether nobody wants the results any more.
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
