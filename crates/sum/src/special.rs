//! Pipes, terminals, devices and standard input, whose bytes may take their time.
//!
//! Each is read from beginning to end by a thread that may wait for it, while the workers go on. So a pipe whose writer
//! waits for another pipe to be read is no dead end.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;

use crate::method::{Method, Sum};
use crate::pipeline::{Numbered, Results, Shared, Task};
use crate::sequential::sum_reader;

/// Threads that read special files at most.
const MAX_THREADS: usize = 32;

/// What waits for a thread, and how many threads there are.
pub(crate) struct Specials<T>(Mutex<Queue<T>>);

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

impl<T> Default for Specials<T> {
    fn default() -> Self {
        Self(Mutex::new(Queue {
            waiting: BTreeMap::new(),
            threads: 0,
            stdin_is_read: false,
        }))
    }
}

impl<T: Task> Specials<T> {
    /// Reads standard input for this task, after all that were given before.
    pub(crate) fn stdin(
        &self,
        shared: &Arc<Shared<T>>,
        task: Numbered<T>,
        method: Method,
        results: &Results<T>,
    ) {
        let file = None;
        self.add(shared, Special { task, file, method }, results);
    }

    /// Reads this file for this task.
    pub(crate) fn file(
        &self,
        shared: &Arc<Shared<T>>,
        task: Numbered<T>,
        file: OwnedFd,
        method: Method,
        results: &Results<T>,
    ) {
        let file = Some(file);
        self.add(shared, Special { task, file, method }, results);
    }

    fn add(&self, shared: &Arc<Shared<T>>, special: Special<T>, results: &Results<T>) {
        let mut queue = self.lock();
        queue.waiting.insert(special.task.number, special);
        if queue.threads == MAX_THREADS {
            return;
        }
        queue.threads += 1;
        drop(queue);
        let (shared, results) = (Arc::clone(shared), results.clone());
        std::thread::Builder::new()
            .name("special file".to_owned())
            .spawn(move || shared.specials.read(&shared, &results))
            .expect("the system can start a thread");
    }

    /// Reads what waits, one after the other.
    fn read(&self, shared: &Shared<T>, results: &Results<T>) {
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
                Some(file) => sum_special(file, &method, &shared.on_bytes),
                None => sum_reader(io::stdin().lock(), &method, &shared.on_bytes),
            };
            if is_stdin {
                self.lock().stdin_is_read = false;
            }
            let _ = results.send(vec![task.done(Some(sum))]);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue<T>> {
        self.0.lock().expect("nothing panics under this lock")
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
