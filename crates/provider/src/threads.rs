//! Threads of one program that call at the same time, more of them than there are cores: who comes
//! first does the work of those who wait (flat combining: Hendler, Incze, Shavit and Tzafrir,
//! 2010). Nothing is copied, and no thread is ours.
//!
//! Where there are cores enough each thread does its own work. Where there are not, some of them
//! would not run now; so a thread lets those come who can, and then takes what has gathered: no
//! more than its core's share, so that the other cores have something to do too. When other
//! programs want the cores, those whom it lets run are not the ones who would come: so both ways
//! are tried now and then, and what gets more done goes on.

use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

use tabane_offload::{Situation, Trials};

use crate::bundle::{self, Waiting};
use crate::error::Reason;
use crate::work::Work;

/// How many threads are within a call that could be shared.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// A stack of what waits, the last comer first. Without a lock, which `fork` could find held.
static WAITING: AtomicPtr<Entry> = AtomicPtr::new(ptr::null_mut());

struct Entry<'a> {
    waiting: Waiting<'a>,
    next: *mut Entry<'static>,
}

/// How often a thread lets others run before it sleeps: when the thread that has its work does not
/// run itself.
const YIELDS_BEFORE_SLEEP: u32 = 200;

/// Does work with that of other threads if there are too many of them; otherwise `few` does it.
pub(crate) fn within(
    work: Work,
    few: impl FnOnce(Work) -> Result<(), Reason>,
) -> Result<(), Reason> {
    struct Inside;
    impl Drop for Inside {
        fn drop(&mut self) {
            // After a fork there may be fewer.
            let _ = INSIDE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |inside| {
                inside.checked_sub(1)
            });
        }
    }
    let inside = INSIDE.fetch_add(1, Ordering::Relaxed) + 1;
    let _inside = Inside;
    if inside <= cores() || !pays(&work) {
        return few(work);
    }
    let mut entry = Entry {
        waiting: Waiting::new(work),
        next: ptr::null_mut(),
    };
    let place: *mut Entry = (&raw mut entry).cast();
    // SAFETY: until it is done nobody but who has taken it off the stack uses it, and it stays
    // here.
    unsafe {
        put(place, place);
        let mut yields = 0;
        loop {
            std::thread::yield_now();
            if let Some(result) = (*place).waiting.result() {
                return result;
            }
            run_waiting();
            if let Some(result) = (*place).waiting.result() {
                return result;
            }
            yields += 1;
            if yields > YIELDS_BEFORE_SLEEP {
                (*place).waiting.sleep();
            }
        }
    }
}

/// Nanoseconds of a tick, after which [`Trials`] learn what was done in it.
const TICK_NS: u64 = 10_000_000;

/// Whether threads do each other's work now.
static SHARED: AtomicBool = AtomicBool::new(false);

/// Bytes since the last tick.
static BYTES: AtomicU64 = AtomicU64::new(0);

/// When that was, in nanoseconds since the first call.
static TICKED: AtomicU64 = AtomicU64::new(0);

/// Whether it pays to wait for others with this.
fn pays(work: &Work) -> bool {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    static TRIALS: Mutex<Option<Trials>> = Mutex::new(None);
    BYTES.fetch_add(work.len() as u64, Ordering::Relaxed);
    let now = FIRST.get_or_init(Instant::now).elapsed().as_nanos() as u64;
    let ticked = TICKED.load(Ordering::Relaxed);
    let since = now.saturating_sub(ticked);
    let mine = since >= TICK_NS
        && TICKED
            .compare_exchange(ticked, now, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok();
    if mine {
        let bytes = BYTES.swap(0, Ordering::Relaxed);
        // After a pause nothing is known. Nobody waits here: a fork may have come while it was
        // held.
        if since < 4 * TICK_NS
            && let Ok(mut trials) = TRIALS.try_lock()
        {
            let trials = trials.get_or_insert_default();
            let rate = bytes as f64 / since as f64;
            trials.tick(Situation::of(&mut [work.kind()]), rate);
            SHARED.store(trials.asks(), Ordering::Relaxed);
        }
    }
    SHARED.load(Ordering::Relaxed)
}

/// Puts entries on the stack, of which each names the next one up to the last.
///
/// # Safety
///
/// Nobody else has them, and they are valid until they are done.
unsafe fn put(first: *mut Entry<'static>, last: *mut Entry<'static>) {
    let mut below = WAITING.load(Ordering::Relaxed);
    loop {
        // SAFETY: the caller's promise.
        unsafe { (*last).next = below };
        match WAITING.compare_exchange_weak(below, first, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => break,
            Err(now) => below = now,
        }
    }
}

/// Does this core's share of what waits, of what has come first.
///
/// # Safety
///
/// What is on the stack is valid until it is done.
unsafe fn run_waiting() {
    let mut next = WAITING.swap(ptr::null_mut(), Ordering::Acquire);
    let mut waiting = Vec::new();
    while !next.is_null() {
        waiting.push(next);
        // SAFETY: the caller's promise; now it is ours alone.
        next = unsafe { (*next).next };
    }
    let share = INSIDE.load(Ordering::Relaxed).div_ceil(cores()).max(1);
    let others = waiting.len().saturating_sub(share);
    let bundle = waiting.split_off(others);
    if let (Some(&first), Some(&last)) = (waiting.first(), waiting.last()) {
        // SAFETY: as above; nobody else has them before they are back, still in their order.
        unsafe { put(first, last) };
    }
    if bundle.is_empty() {
        return;
    }
    // SAFETY: as above.
    unsafe {
        let bundle = bundle.iter().map(|&entry| &raw mut (*entry).waiting);
        bundle::run(&bundle.map(|waiting| waiting.cast()).collect::<Vec<_>>());
    }
}

fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| {
        // SAFETY: a function that does nothing but to store.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
        std::thread::available_parallelism().map_or(1, usize::from)
    })
}

/// In a child there is one thread, which is in no call, and nobody waits.
unsafe extern "C" fn forked() {
    INSIDE.store(0, Ordering::Relaxed);
    SHARED.store(false, Ordering::Relaxed);
    WAITING.store(ptr::null_mut(), Ordering::Relaxed);
}
