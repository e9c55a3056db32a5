//! Combines the calls of more threads than cores: one calling thread does the work of others that
//! wait (flat combining: Hendler, Incze, Shavit and Tzafrir, 2010). No data is copied, and the
//! provider starts no thread.
//!
//! With enough cores each thread does its own work. With too few, some callers would have no core
//! anyway: so a thread yields, and then takes its core's share of the work that has gathered
//! meanwhile, which leaves work for the other cores. When other programs want the cores, a yield
//! lets these run and not the callers: so both ways are tried now and then, and the one with more
//! work done stays.

use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

use tabane_offload::{Situation, Trials};

use crate::bundle::{self, Waiting};
use crate::error::Reason;
use crate::work::Work;

/// Number of threads within a call that could be shared.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// A stack of waiting entries, the latest first. Without a lock, which a `fork` could find held.
static WAITING: AtomicPtr<Entry> = AtomicPtr::new(ptr::null_mut());

struct Entry<'a> {
    waiting: Waiting<'a>,
    next: *mut Entry<'static>,
}

/// Yields of a waiting thread before it sleeps, as when the thread with its work gets no core.
const YIELDS_BEFORE_SLEEP: u32 = 200;

/// Combines work with that of other threads if these outnumber the cores and combining pays;
/// otherwise calls `few`.
pub(crate) fn within(
    work: Work,
    few: impl FnOnce(Work) -> Result<(), Reason>,
) -> Result<(), Reason> {
    struct Inside;
    impl Drop for Inside {
        fn drop(&mut self) {
            // `forked` may have reset the counter.
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
    // SAFETY: `entry` stays in place until it is done; until then, only the thread that took it off
    // the stack uses it.
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

/// Nanoseconds of a tick, at whose end [`Trials`] learn its rate.
const TICK_NS: u64 = 10_000_000;

/// Whether threads do each other's work now.
static SHARED: AtomicBool = AtomicBool::new(false);

/// Bytes since the last tick.
static BYTES: AtomicU64 = AtomicU64::new(0);

/// Time of the last tick, in nanoseconds since the first call.
static TICKED: AtomicU64 = AtomicU64::new(0);

/// Whether waiting for other threads pays for this work.
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
        // After a pause, the tick says nothing. Never waits for the lock: a fork may have come
        // while it was held.
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

/// Pushes a linked list of entries, `first` to `last`, onto the stack.
///
/// # Safety
///
/// The caller alone holds the entries, and each stays valid until it is done.
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

/// Does this core's share of the waiting work, the oldest entries.
///
/// # Safety
///
/// Each entry on the stack stays valid until it is done.
unsafe fn run_waiting() {
    let mut next = WAITING.swap(ptr::null_mut(), Ordering::Acquire);
    let mut waiting = Vec::new();
    while !next.is_null() {
        waiting.push(next);
        // SAFETY: the caller's promise; the swap made this thread the only holder.
        next = unsafe { (*next).next };
    }
    let share = INSIDE.load(Ordering::Relaxed).div_ceil(cores()).max(1);
    let others = waiting.len().saturating_sub(share);
    let bundle = waiting.split_off(others);
    if let (Some(&first), Some(&last)) = (waiting.first(), waiting.last()) {
        // SAFETY: the entries are valid, this thread alone holds them until they are back, and they
        // are still linked in this order.
        unsafe { put(first, last) };
    }
    if bundle.is_empty() {
        return;
    }
    // SAFETY: the entries are valid and this thread alone holds them.
    unsafe {
        let bundle = bundle.iter().map(|&entry| &raw mut (*entry).waiting);
        bundle::run(&bundle.map(|waiting| waiting.cast()).collect::<Vec<_>>());
    }
}

fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| {
        // SAFETY: `forked` only stores to atomics, which is safe in a forked child.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
        std::thread::available_parallelism().map_or(1, usize::from)
    })
}

/// Resets the counters in a forked child: its only thread is in no call, and no entry waits.
unsafe extern "C" fn forked() {
    INSIDE.store(0, Ordering::Relaxed);
    SHARED.store(false, Ordering::Relaxed);
    WAITING.store(ptr::null_mut(), Ordering::Relaxed);
}
