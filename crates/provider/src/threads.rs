//! Threads of one program that call at the same time, more of them than there are cores: who comes first does the work of
//! those who wait (flat combining: Hendler, Incze, Shavit and Tzafrir, 2010). Nothing is copied, and no thread is ours.
//!
//! Where there are cores enough each thread does its own work. Where there are not, some of them would not run now; so a
//! thread lets those come who can, and then takes what has gathered: no more than its core's share, so that the other cores
//! have something to do too.

use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::OnceLock;

use crate::bundle::{self, Waiting, Work};
use crate::error::Reason;

/// How many threads are within a call that could be shared.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// A stack of what waits, the last comer first. Without a lock, which `fork` could find held.
static WAITING: AtomicPtr<Entry> = AtomicPtr::new(ptr::null_mut());

struct Entry<'a> {
    waiting: Waiting<'a>,
    next: *mut Entry<'static>,
}

/// How often a thread lets others run before it sleeps: when who has its work does not run itself.
const TURNS: u32 = 200;

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
    if inside <= cores() {
        return few(work);
    }
    let mut entry = Entry {
        waiting: Waiting::new(work),
        next: ptr::null_mut(),
    };
    let place: *mut Entry = (&raw mut entry).cast();
    // SAFETY: until it is done nobody but who has taken it off the stack uses it, and it stays here.
    unsafe {
        put(place, place);
        let mut turns = 0;
        loop {
            std::thread::yield_now();
            if let Some(result) = (*place).waiting.result() {
                return result;
            }
            run_waiting();
            if let Some(result) = (*place).waiting.result() {
                return result;
            }
            turns += 1;
            if turns > TURNS {
                (*place).waiting.sleep();
            }
        }
    }
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
    WAITING.store(ptr::null_mut(), Ordering::Relaxed);
}
