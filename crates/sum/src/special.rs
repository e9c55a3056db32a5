//! Reads pipes, terminals, devices and standard input, which may be slow.
//!
//! A thread reads each of them from beginning to end, while the workers go on. So a pipe whose
//! writer waits for another pipe to be read causes no deadlock.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;

use crate::input::Stdin;
use crate::method::Method;
use crate::sequential::sum_reader;
use crate::sum::Sum;
use crate::task::{Numbered, OnBytes, Results, Task};

/// Threads that read special files at most.
const SPECIAL_THREADS_MAX: usize = 32;

/// Sources that wait for a thread, and the number of threads.
pub(crate) struct Specials<T> {
    queue: Arc<Mutex<Queue<T>>>,
    on_bytes: OnBytes,
}

struct Queue<T> {
    /// By number: what comes first is read first.
    waiting: BTreeMap<u64, Special<T>>,
    threads: usize,
    /// Someone reads standard input: it has to be alone with it.
    stdin_is_read: bool,
}

struct Special<T> {
    task: Numbered<T>,
    /// `None` is standard input.
    file: Option<OwnedFd>,
    method: Method,
}

impl<T> Clone for Specials<T> {
    fn clone(&self) -> Self {
        Self {
            queue: Arc::clone(&self.queue),
            on_bytes: Arc::clone(&self.on_bytes),
        }
    }
}

impl<T: Task> Specials<T> {
    /// Tells `on_bytes` how many bytes were read.
    pub(crate) fn new(on_bytes: OnBytes) -> Self {
        let queue = Queue {
            waiting: BTreeMap::new(),
            threads: 0,
            stdin_is_read: false,
        };
        Self {
            queue: Arc::new(Mutex::new(queue)),
            on_bytes,
        }
    }

    /// Reads standard input for this task, after all that were given before.
    pub(crate) fn stdin(&self, task: Numbered<T>, method: Method, results: &Results<T>) {
        let file = None;
        self.add(Special { task, file, method }, results);
    }

    /// Reads this file for this task.
    pub(crate) fn file(
        &self,
        task: Numbered<T>,
        file: OwnedFd,
        method: Method,
        results: &Results<T>,
    ) {
        let file = Some(file);
        self.add(Special { task, file, method }, results);
    }

    fn add(&self, special: Special<T>, results: &Results<T>) {
        let mut queue = self.lock();
        queue.waiting.insert(special.task.number, special);
        if queue.threads == SPECIAL_THREADS_MAX {
            return;
        }
        queue.threads += 1;
        drop(queue);
        let (specials, results) = (self.clone(), results.clone());
        std::thread::Builder::new()
            .name("special file".to_owned())
            .spawn(move || specials.read(&results))
            .expect("the system can start a thread");
    }

    /// Reads what waits, one after the other.
    fn read(&self, results: &Results<T>) {
        loop {
            let mut queue = self.lock();
            let may_read = |special: &Special<T>| special.file.is_some() || !queue.stdin_is_read;
            let first = queue.waiting.values().find(|special| may_read(special));
            let number = first.map(|special| special.task.number);
            let special = number.and_then(|number| queue.waiting.remove(&number));
            let Some(Special { task, file, method }) = special else {
                queue.threads -= 1;
                return;
            };
            let is_stdin = file.is_none();
            queue.stdin_is_read |= is_stdin;
            drop(queue);
            let sum = match file {
                Some(file) => sum_special(file, &method, &*self.on_bytes),
                None => sum_reader(Stdin, &method, &*self.on_bytes),
            };
            if is_stdin {
                self.lock().stdin_is_read = false;
            }
            let _ = results.send(vec![task.done(Some(sum))]);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().expect("nothing panics under this lock")
    }
}

/// Reads a special file that was opened without waiting.
fn sum_special(file: OwnedFd, method: &Method, on_bytes: impl Fn(u64)) -> io::Result<Sum> {
    // A named pipe without a writer seems to be at its end; this waits for one.
    rustix::io::retry_on_intr(|| poll(&mut [PollFd::new(&file, PollFlags::IN)], None))?;
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags & !OFlags::NONBLOCK)?;
    sum_reader(File::from(file), method, on_bytes)
}
