//! Makes parts of stripes durable, all at once that are waiting.

use std::sync::{Arc, Condvar, Mutex};

use tabane_storage::{Draft, Result};

use crate::counters::Counters;
use crate::home::Home;
use crate::lock;

/// Is told what became of a draft.
pub type Done = Box<dyn FnOnce(Result<()>) + Send>;

/// Drafts that wait to be made durable.
#[derive(Default)]
pub struct Commits {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<(Draft, Done)>,
    is_closed: bool,
}

impl Commits {
    /// Takes a draft that is whole.
    pub fn push(&self, draft: Draft, done: Done) {
        lock(&self.queue).waiting.push((draft, done));
        self.changed.notify_one();
    }

    /// Lets [`Commits::run`] return when all is done.
    pub fn close(&self) {
        lock(&self.queue).is_closed = true;
        self.changed.notify_one();
    }

    /// Makes durable what comes, until it is closed; for a thread of its own.
    pub fn run(&self, home: &Home, counters: &Arc<Counters>) {
        loop {
            let mut queue = lock(&self.queue);
            while queue.waiting.is_empty() {
                if queue.is_closed {
                    return;
                }
                queue = self.changed.wait(queue).expect("no panic under this lock");
            }
            let waiting = std::mem::take(&mut queue.waiting);
            drop(queue);
            let (drafts, done): (Vec<Draft>, Vec<Done>) = waiting.into_iter().unzip();
            counters.commits.add(1);
            let results = home.storage().publish(drafts);
            for (done, result) in done.into_iter().zip(results) {
                done(result);
            }
        }
    }
}
