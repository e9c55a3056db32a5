//! Models when asking the service pays: the cost of a message alone, and with the service.
//!
//! Where there are as many cores as processes, each does its own work, and nothing is sooner. With
//! more processes than cores, what counts is how long a message occupies a core. Alone, that is a
//! chain of steps. With the service it is two copies at most, two switches from one thread to
//! another, and a share of a bundle. All of that is measured when the service starts.

use std::hint::black_box;
use std::time::Instant;

use tabane_lanes::aes::{CbcJob, Key, cbc_encrypt, cbc_encrypt_many};
use tabane_lanes::{Hasher, update_many};

use crate::layout::{MESSAGE_MAX, TASKS, Task};
use crate::unit::pin_to;

/// The part of the time alone that a message may take with the service, or it is not asked:
/// estimates err.
const ASKED_TIME_MAX: f64 = 0.85;

/// Bytes of a message from which on a client may be told to ask.
const THRESHOLDS_BYTES: [usize; 6] = [4 << 10, 8 << 10, 16 << 10, 24 << 10, 32 << 10, MESSAGE_MAX];

/// Messages in the bundles that are measured.
const BUNDLE_MESSAGES: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// Bytes of the messages that are measured.
const MESSAGE_BYTES: usize = 4 << 10;

/// Measured costs of the parts of a message.
pub struct Model {
    /// Seconds that a message costs besides copies and work.
    handover_s: f64,
    /// Seconds a byte of a copy.
    copy_s: f64,
    /// For each of [`TASKS`]: seconds a byte alone, and in bundles of each of [`BUNDLE_MESSAGES`]
    /// messages.
    tasks: [TaskCost; TASKS.len()],
}

#[derive(Clone, Copy)]
struct TaskCost {
    alone_s: f64,
    share_s: [f64; BUNDLE_MESSAGES.len()],
}

/// For how long a message occupies a core, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Without the service, all in all.
    pub alone_s: f64,
    /// With it: the copies of the message.
    pub copies_s: f64,
    /// The switches from one thread to another.
    pub handover_s: f64,
    /// Seconds of the message's share of a bundle.
    pub share_s: f64,
}

impl Budget {
    /// With the service, all in all.
    pub fn asked_s(&self) -> f64 {
        self.copies_s + self.handover_s + self.share_s
    }
}

impl Model {
    /// Measures this machine, on a core that this process may use.
    pub fn measure(core: usize) -> Self {
        Self {
            handover_s: handover_s(core),
            copy_s: copy_s(),
            tasks: TASKS.map(TaskCost::measure),
        }
    }

    /// For each of [`TASKS`] the length in bytes from which asking is faster with `messages`
    /// messages in a bundle, 0 if it never is.
    pub(crate) fn from(&self, messages: f64) -> [u32; TASKS.len()] {
        let mut from = [0; TASKS.len()];
        if messages <= 1.0 {
            return from;
        }
        for (from, task) in from.iter_mut().zip(TASKS) {
            let sooner = THRESHOLDS_BYTES.iter().find(|&&len| {
                let budget = self.budget(task, len, messages);
                budget.is_some_and(|budget| budget.asked_s() < ASKED_TIME_MAX * budget.alone_s)
            });
            *from = sooner.map_or(0, |&len| len as u32);
        }
        from
    }

    /// The costs of a message of `len` bytes with `messages` messages in a bundle; `None` for a
    /// task that the service lacks.
    pub fn budget(&self, task: Task, len: usize, messages: f64) -> Option<Budget> {
        let cost = &self.tasks[task.number()?];
        let copies = match task {
            Task::Encrypt => 2.0,
            Task::Hash(_) => 1.0,
        };
        let len = len as f64;
        Some(Budget {
            alone_s: len * cost.alone_s,
            copies_s: copies * len * self.copy_s,
            handover_s: self.handover_s,
            share_s: len * cost.share_s(messages),
        })
    }
}

impl TaskCost {
    fn measure(task: Task) -> Self {
        Self {
            alone_s: bundle_s(task, 1),
            share_s: BUNDLE_MESSAGES.map(|messages| bundle_s(task, messages)),
        }
    }

    /// Seconds a byte in a bundle of `messages` messages: those of the largest measured bundle up
    /// to this size.
    fn share_s(&self, messages: f64) -> f64 {
        let shorter = BUNDLE_MESSAGES
            .iter()
            .rposition(|&known| known as f64 <= messages);
        self.share_s[shorter.unwrap_or(0)]
    }
}

/// The best of a few.
fn best_s(mut f: impl FnMut()) -> f64 {
    let seconds = (0..5).map(|_| {
        let start = Instant::now();
        f();
        start.elapsed().as_secs_f64()
    });
    seconds.fold(f64::INFINITY, f64::min)
}

/// Measures the seconds a byte in a bundle of `messages` messages.
fn bundle_s(task: Task, messages: usize) -> f64 {
    let mut bytes = vec![0; messages * MESSAGE_BYTES];
    let seconds = match task {
        Task::Encrypt => {
            let key = Key::new(&[0; 16]).expect("16 bytes");
            let mut ivs = vec![[0; 16]; messages];
            if messages == 1 {
                best_s(|| cbc_encrypt(&key, &mut ivs[0], &mut bytes[..]).expect("whole blocks"))
            } else {
                best_s(|| {
                    let pieces = bytes.chunks_exact_mut(MESSAGE_BYTES).zip(&mut ivs);
                    let mut jobs: Vec<CbcJob> = pieces
                        .map(|(data, iv)| CbcJob {
                            key: &key,
                            iv,
                            data,
                        })
                        .collect();
                    cbc_encrypt_many(&mut jobs).expect("whole blocks");
                })
            }
        }
        Task::Hash(algorithm) => {
            let mut hashers = vec![Hasher::new(algorithm); messages];
            best_s(|| {
                let pieces = hashers.iter_mut().zip(bytes.chunks_exact(MESSAGE_BYTES));
                update_many(&mut pieces.collect::<Vec<_>>());
            })
        }
    };
    seconds / (messages * MESSAGE_BYTES) as f64
}

/// Seconds a byte of a copy from and to caches.
fn copy_s() -> f64 {
    let (from, mut to) = (vec![1_u8; MESSAGE_MAX], vec![0_u8; MESSAGE_MAX]);
    best_s(|| black_box(&mut to).copy_from_slice(black_box(&from))) / MESSAGE_MAX as f64
}

/// Seconds from a client's question to its answer, without the work: three switches between
/// threads, to the other clients of the core, to the unit, and back to this client.
fn handover_s(core: usize) -> f64 {
    const YIELDS: u32 = 200;
    let play = || {
        pin_to(core);
        (0..YIELDS).for_each(|_| std::thread::yield_now());
    };
    // The best, since others may have a turn on this core.
    let switch_s = best_s(|| {
        std::thread::scope(|scope| {
            scope.spawn(play);
            scope.spawn(play);
        });
    }) / f64::from(2 * YIELDS);
    3.0 * switch_s
}
