//! A unit: a thread on a core, which works on the messages of the clients on this core.
//!
//! A bundle is closed when it is full, when it has as many messages as the one before, when none
//! came while others had the core, or when the first has waited long enough. Cards take part as
//! everywhere: [`tabane_engine::gpu`] decides by costs.
#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_setaffinity};
use tabane_lanes::aes::{BLOCK, CbcJob, Key, cbc_encrypt_many};
use tabane_lanes::{Algorithm, Hasher};
use zeroize::Zeroize;

use crate::layout::{MESSAGE_MAX, SLOTS, TASKS, Task, put, state, take};
use crate::memory::ServerRing;
use crate::server::Shared;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Instant, futex, thread};

/// Messages of a bundle at most.
const BUNDLE_MESSAGES_MAX: usize = 64;

/// Yields of a unit without messages before it sleeps: clients come again soon.
const YIELDS_BEFORE_SLEEP: u32 = 8;

/// One in this many bundles waits until it is full or [`BUNDLE_WAIT_MAX`] is over, to see whether
/// more messages come.
const BUNDLES_PER_LONG_WAIT: u64 = 16;

/// The longest wait of a bundle's first message for others.
const BUNDLE_WAIT_MAX: Duration = Duration::from_micros(300);

/// A client as the units see it.
pub(crate) struct Served {
    pub(crate) ring: ServerRing,
    /// Which of its slots a unit has.
    pub(crate) taken: [AtomicBool; SLOTS],
    pub(crate) messages: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) refused: AtomicU64,
}

/// Counts of a unit's work.
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) bundles: AtomicU64,
    pub(crate) messages: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) busy_ns: AtomicU64,
}

/// A message that a unit has taken: what the client said of it, once.
struct Job {
    client: Arc<Served>,
    slot: usize,
    task: Task,
    len: usize,
    chain: [u8; 32],
    key: [u8; 32],
    key_len: usize,
}

impl Drop for Job {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

impl Served {
    pub(crate) fn new(ring: ServerRing) -> Self {
        Self {
            ring,
            taken: Default::default(),
            messages: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Messages that are in the service.
    pub(crate) fn depth(&self) -> usize {
        let slots = self.ring.get().slots.iter();
        slots
            .filter(|slot| is_ready(slot.state.load(Ordering::Relaxed)))
            .count()
    }

    /// Takes a message for this unit, if one waits.
    fn take(self: &Arc<Self>, unit: usize, units: usize) -> Option<Job> {
        let ring = self.ring.get();
        let slot = (0..SLOTS).find(|&slot| {
            let place = &ring.slots[slot];
            // model: offload/unit/look
            is_ready(place.state.load(Ordering::SeqCst))
                // model: offload/unit/look-whom-it-asks
                && place.unit.load(Ordering::Acquire) as usize % units == unit
                && self.hold(slot)
        })?;
        let place = &ring.slots[slot];
        // Each field is read once and then checked: the client may change it meanwhile.
        let task = TASKS.get(place.task.load(Ordering::Relaxed) as usize);
        let len = place.len.load(Ordering::Relaxed) as usize;
        let key_len = place.key_len.load(Ordering::Relaxed) as usize;
        let task = task.copied().filter(|task| {
            (1..=MESSAGE_MAX).contains(&len)
                && len.is_multiple_of(task.block())
                && (*task != Task::Encrypt || matches!(key_len, 16 | 24 | 32))
        });
        let Some(task) = task else {
            self.refuse(slot);
            return None;
        };
        let job = Job {
            client: Arc::clone(self),
            slot,
            task,
            len,
            chain: take(&place.chain),
            key: take(&place.key),
            key_len,
        };
        if task == Task::Encrypt {
            put(&place.key, &[]);
        }
        Some(job)
    }

    /// Takes a slot, unless another unit has it or its message does not wait any more.
    ///
    /// After a unit has seen that a message waits, the unit that the message asks may answer it.
    /// The client then brings its next message, which may ask the first unit, and is not ready yet.
    fn hold(&self, slot: usize) -> bool {
        // model: offload/unit/take
        if self.taken[slot].swap(true, Ordering::Acquire) {
            return false;
        }
        // model: offload/unit/look-again
        let waits = is_ready(self.ring.get().slots[slot].state.load(Ordering::SeqCst));
        if !waits {
            // model: offload/unit/leave
            self.taken[slot].store(false, Ordering::Release);
        }
        waits
    }

    fn refuse(&self, slot: usize) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.give_back(slot, state::REFUSED);
    }

    /// Says to the client what became of a message.
    fn give_back(&self, slot: usize, state: u32) {
        // First this: the client may come again at once, and must not be overlooked.
        // model: offload/unit/release
        self.taken[slot].store(false, Ordering::Release);
        let place = &self.ring.get().slots[slot].state;
        // model: offload/unit/answer
        if place.swap(state, Ordering::AcqRel) == state::ASLEEP {
            // model: offload/unit/wake
            let _ = futex::wake(place, futex::Flags::empty(), 1);
        }
    }
}

fn is_ready(state: u32) -> bool {
    matches!(state, state::READY | state::ASLEEP)
}

/// Serves the clients on the core of a unit, until the server stops.
pub(crate) fn run(shared: &Shared, unit: usize) {
    pin_to(shared.cores[unit]);
    let asleep = &shared.board.get().asleep[unit].0;
    let mut clients = Vec::new();
    let mut version = 0;
    let mut next = 0;
    let mut bundle: Vec<Job> = Vec::new();
    // Returns how many messages came.
    let mut gather = |bundle: &mut Vec<Job>| {
        let now = shared.version.load(Ordering::Acquire);
        if now != version {
            version = now;
            clients.clone_from(&shared.clients());
        }
        let before = bundle.len();
        let count = clients.len();
        for i in 0..count {
            if bundle.len() == BUNDLE_MESSAGES_MAX {
                // The first client left out comes first next time.
                next = (next + i) % count;
                break;
            }
            let client: &Arc<Served> = &clients[(next + i) % count];
            bundle.extend(client.take(unit, shared.cores.len()));
        }
        bundle.len() - before
    };
    let (mut turns, mut expected, mut bundles) = (0, 1, 0_u64);
    while !shared.stopped.load(Ordering::Acquire) {
        if gather(&mut bundle) == 0 {
            if turns < YIELDS_BEFORE_SLEEP {
                turns += 1;
                thread::yield_now();
                continue;
            }
            // model: offload/unit/say-asleep
            asleep.store(1, Ordering::SeqCst);
            if gather(&mut bundle) == 0 && !shared.stopped.load(Ordering::SeqCst) {
                // In memory of this process alone: see `Board::asleep`.
                // model: offload/unit/sleep
                thread::park();
            }
            // model: offload/unit/say-awake
            asleep.store(0, Ordering::SeqCst);
            if bundle.is_empty() {
                continue;
            }
        }
        let first = Instant::now();
        bundles += 1;
        let wanted = match bundles % BUNDLES_PER_LONG_WAIT {
            0 => BUNDLE_MESSAGES_MAX,
            _ => expected,
        };
        while bundle.len() < wanted {
            thread::yield_now();
            if gather(&mut bundle) == 0 || first.elapsed() > BUNDLE_WAIT_MAX {
                break;
            }
        }
        (turns, expected) = (0, bundle.len());
        let start = Instant::now();
        let done = catch_unwind(AssertUnwindSafe(|| work(&mut bundle)));
        let (messages, bytes) = (
            bundle.len() as u64,
            bundle.iter().map(|job| job.len as u64).sum(),
        );
        for job in bundle.drain(..) {
            if done.is_err() {
                job.client.refuse(job.slot);
                continue;
            }
            job.client.messages.fetch_add(1, Ordering::Relaxed);
            job.client
                .bytes
                .fetch_add(job.len as u64, Ordering::Relaxed);
            put(&job.client.ring.get().slots[job.slot].chain, &job.chain);
            job.client.give_back(job.slot, state::DONE);
        }
        let work = &shared.work[unit];
        work.bundles.fetch_add(1, Ordering::Relaxed);
        work.messages.fetch_add(messages, Ordering::Relaxed);
        work.bytes.fetch_add(bytes, Ordering::Relaxed);
        let busy_ns = start.elapsed().as_nanos() as u64;
        work.busy_ns.fetch_add(busy_ns, Ordering::Relaxed);
        shared.took(first.elapsed(), messages);
    }
}

/// Encrypts and hashes the messages of a bundle in place, and updates each job's chain.
fn work(bundle: &mut [Job]) {
    let (mut encrypt, mut hash): (Vec<&mut Job>, Vec<&mut Job>) = (Vec::new(), Vec::new());
    for job in bundle {
        match job.task {
            Task::Encrypt => encrypt.push(job),
            Task::Hash(_) => hash.push(job),
        }
    }
    if !encrypt.is_empty() {
        encrypt_all(&mut encrypt);
    }
    // Bundles of one algorithm each: a card takes no other.
    while let Some(first) = hash.last() {
        let task = first.task;
        let (mut these, others): (Vec<_>, _) = hash.into_iter().partition(|job| job.task == task);
        if let Task::Hash(algorithm) = task {
            hash_all(algorithm, &mut these);
        }
        hash = others;
    }
}

fn encrypt_all(jobs: &mut [&mut Job]) {
    let keys = jobs.iter().map(|job| Key::new(&job.key[..job.key_len]));
    let keys: Vec<Key> = keys.map(|key| key.expect("16, 24 or 32 bytes")).collect();
    let (mut work, mut ivs): (Vec<CbcJob>, Vec<_>) = (Vec::new(), vec![[0; BLOCK]; jobs.len()]);
    for ((job, key), iv) in jobs.iter().zip(&keys).zip(&mut ivs) {
        iv.copy_from_slice(&job.chain[..BLOCK]);
        // SAFETY: the unit that has a job has taken its slot, and this is called once for each.
        let data = unsafe { job.client.ring.message(job.slot, job.len) };
        work.push(CbcJob { key, iv, data });
    }
    cbc_encrypt_many(&mut work).expect("whole blocks");
    drop(work);
    for (job, iv) in jobs.iter_mut().zip(&ivs) {
        job.chain[..BLOCK].copy_from_slice(iv);
    }
}

fn hash_all(algorithm: Algorithm, jobs: &mut [&mut Job]) {
    let mut hashers = vec![Hasher::new(algorithm); jobs.len()];
    let mut parts: Vec<(&mut Hasher, &[u8])> = Vec::with_capacity(jobs.len());
    for (job, hasher) in jobs.iter().zip(&mut hashers) {
        let mut words = [0; 8];
        for (word, bytes) in words.iter_mut().zip(job.chain.as_chunks().0) {
            *word = u32::from_ne_bytes(*bytes);
        }
        hasher.go_on(words, 0);
        // SAFETY: the unit that has a job has taken its slot, and this is called once for each.
        let message = unsafe { job.client.ring.message(job.slot, job.len) };
        parts.push((hasher, message));
    }
    tabane_engine::gpu::update_many(&mut parts);
    drop(parts);
    for (job, hasher) in jobs.iter_mut().zip(&hashers) {
        let words = hasher.state().expect("words of 32 bits");
        for (bytes, word) in job.chain.as_chunks_mut().0.iter_mut().zip(words) {
            *bytes = word.to_ne_bytes();
        }
    }
}

/// Pins this thread to a core. A failure costs speed only.
pub(crate) fn pin_to(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    let _ = sched_setaffinity(None, &set);
}
