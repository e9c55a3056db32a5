//! Memory that several processes map, and threads that sleep. The scheduler chooses at each access
//! who goes on, and a test may watch what is accessed.
//!
//! All threads of a test are one of the system's, to which what is known of an order is local.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::Range;
use std::time::Duration;

use rustix::time::{ClockId, Timespec};
use shuttle::rand::{RngCore, thread_rng};
use shuttle::thread::{self, Thread};

/// Something that a thread has read or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// A number at this address.
    Number(usize),
    /// How many sleep on the number at this address.
    Sleepers(usize),
    /// Whether a call is on its way to this thread.
    Call(usize),
}

/// Is told what a thread has read or changed, with the values before and afterwards.
type Watch = Box<dyn FnMut(usize, What, u32, u32)>;

#[derive(Default)]
struct Order {
    watch: Option<Watch>,
    /// Addresses, and those of the same memory by which it is known.
    aliases: Vec<(Range<usize>, usize)>,
    /// Those that sleep on a number.
    sleepers: Vec<(usize, Thread)>,
    /// Calls that no thread has heard.
    calls: Vec<usize>,
    /// If any, the only numbers at which the scheduler chooses.
    choices: HashSet<usize>,
    /// Whoever sleeps with a time limit does so until the limit.
    are_sleeps_short: bool,
}

thread_local! {
    static ORDER: RefCell<Order> = RefCell::default();
}

fn with<R>(f: impl FnOnce(&mut Order) -> R) -> R {
    ORDER.with_borrow_mut(f)
}

/// Forgets the order before.
pub fn begin() {
    drop(ORDER.take());
}

/// Tells of all that is read or changed from now on.
pub fn watch(watch: impl FnMut(usize, What, u32, u32) + 'static) {
    with(|order| order.watch = Some(Box::new(watch)));
}

pub fn watch_no_more() {
    with(|order| order.watch = None);
}

/// The same memory is at a second place.
pub fn is_also_at(first: usize, second: usize, len: usize) {
    with(|order| order.aliases.push((second..second + len, first)));
}

/// Lets the scheduler choose at these numbers only, and where threads sleep or yield.
pub fn choose_only_at(numbers: impl IntoIterator<Item = usize>) {
    with(|order| order.choices.extend(numbers));
}

pub fn shorten_sleeps() {
    with(|order| order.are_sleeps_short = true);
}

/// The address by which a number is known.
fn known<T>(number: &T) -> usize {
    let address = std::ptr::from_ref(number).addr();
    let first = |order: &mut Order| {
        let alias = order.aliases.iter().find(|(at, _)| at.contains(&address));
        alias.map_or(address, |(at, first)| address - at.start + first)
    };
    with(first)
}

/// The number of a thread, in the order in which a test has begun them; its own is 0.
fn number(thread: &Thread) -> usize {
    thread.id().into()
}

/// Any number below this one.
pub fn any(below: u32) -> u32 {
    thread_rng().next_u32() % below
}

/// Lets the scheduler choose who goes on.
fn choose() {
    thread::sleep(Duration::ZERO);
}

fn tell(what: What, before: u32, after: u32) {
    // It is away while it is told, and stays away if it panics.
    let Some(mut watch) = with(|order| order.watch.take()) else {
        return;
    };
    watch(number(&thread::current()), what, before, after);
    with(|order| order.watch = Some(watch));
}

macro_rules! number {
    ($name:ident: $value:ty) => {
        #[derive(Default)]
        #[repr(transparent)]
        pub struct $name(std::sync::atomic::$name);

        #[allow(dead_code, reason = "not all sources need all of it")]
        impl $name {
            pub const fn new(value: $value) -> Self {
                Self(std::sync::atomic::$name::new(value))
            }

            /// Changes it, or only reads it: some memory is not for writing.
            fn change(&self, change: impl FnOnce($value) -> Option<$value>) -> $value {
                let address = known(self);
                if with(|order| order.choices.is_empty() || order.choices.contains(&address)) {
                    choose();
                }
                let before = self.0.load(Ordering::Relaxed);
                let after = change(before);
                if let Some(after) = after {
                    self.0.store(after, Ordering::Relaxed);
                }
                let after = after.unwrap_or(before);
                tell(What::Number(address), before.into(), after.into());
                before
            }

            pub fn load(&self, _: Ordering) -> $value {
                self.change(|_| None)
            }

            pub fn store(&self, value: $value, _: Ordering) {
                self.change(|_| Some(value));
            }

            pub fn swap(&self, value: $value, _: Ordering) -> $value {
                self.change(|_| Some(value))
            }

            pub fn compare_exchange(
                &self,
                expected: $value,
                new: $value,
                _: Ordering,
                _: Ordering,
            ) -> Result<$value, $value> {
                let before = self.change(|value| (value == expected).then_some(new));
                if before == expected {
                    Ok(before)
                } else {
                    Err(before)
                }
            }
        }
    };
}

number!(AtomicBool: bool);
number!(AtomicU32: u32);

impl AtomicU32 {
    pub fn fetch_add(&self, value: u32, _: Ordering) -> u32 {
        self.change(|before| Some(before.wrapping_add(value)))
    }
}

/// Those of the scheduler, but for what processes share, or a test watches.
pub mod atomic {
    pub use shuttle::sync::atomic::*;

    pub use super::{AtomicBool, AtomicU32};
}

use atomic::Ordering;

/// Sleeps until [`call`], or not at all if that was before.
pub fn park() {
    choose();
    let me = number(&thread::current());
    let mut is_called = take_call(me);
    tell(What::Call(me), is_called.into(), 0);
    if is_called {
        return;
    }
    while !is_called {
        thread::park();
        is_called = take_call(me);
    }
    tell(What::Call(me), 1, 0);
}

fn take_call(thread: usize) -> bool {
    with(|order| {
        let before = order.calls.len();
        order.calls.retain(|&called| called != thread);
        order.calls.len() < before
    })
}

/// Wakes a thread.
pub fn call(thread: &Thread) {
    choose();
    let was_called = take_call(number(thread));
    with(|order| order.calls.push(number(thread)));
    tell(What::Call(number(thread)), was_called.into(), 1);
    thread.unpark();
}

/// The system's call of this name.
pub mod futex {
    pub use rustix::thread::futex::Flags;

    use super::*;
    use rustix::io::Errno;

    pub fn wait(
        number: &AtomicU32,
        _: Flags,
        expected: u32,
        limit: Option<&Timespec>,
    ) -> Result<(), Errno> {
        choose();
        let address = known(number);
        let sleepers = sleepers(address);
        if number.0.load(Ordering::Relaxed) != expected {
            tell(What::Sleepers(address), sleepers, sleepers);
            return Err(Errno::AGAIN);
        }
        if limit.is_some() && with(|order| order.are_sleeps_short) {
            return Err(Errno::TIMEDOUT);
        }
        let me = thread::current();
        with(|order| order.sleepers.push((address, me.clone())));
        tell(What::Sleepers(address), sleepers, sleepers + 1);
        let sleeps = |order: &mut Order| order.sleepers.iter().any(|(_, it)| it.id() == me.id());
        while with(sleeps) {
            thread::park();
        }
        Ok(())
    }

    pub fn wake(number: &AtomicU32, _: Flags, count: u32) -> Result<usize, Errno> {
        choose();
        let address = known(number);
        let before = sleepers(address);
        let woken = with(|order| {
            let mut left = count;
            let is_woken = |(at, _): &mut (usize, Thread)| {
                let is_woken = *at == address && left > 0;
                left -= u32::from(is_woken);
                is_woken
            };
            let woken = order.sleepers.extract_if(.., is_woken);
            woken.collect::<Vec<_>>()
        });
        tell(What::Sleepers(address), before, before - woken.len() as u32);
        for (_, thread) in &woken {
            thread.unpark();
        }
        Ok(woken.len())
    }

    /// Moves all that sleep in this memory to where nobody wakes them (`FUTEX_REQUEUE`).
    pub fn lose(memory: Range<usize>) {
        choose();
        with(|order| {
            for (at, _) in &mut order.sleepers {
                if memory.contains(at) {
                    *at = 0;
                }
            }
        });
    }

    fn sleepers(address: usize) -> u32 {
        with(|order| {
            let sleepers = order.sleepers.iter().filter(|(at, _)| *at == address);
            sleepers.count() as u32
        })
    }
}

/// A clock that stands, so that whoever wants to try again later does not.
pub fn clock_gettime(_: ClockId) -> Timespec {
    Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    }
}

/// A clock by which either no time passes or a long one.
#[derive(Clone, Copy)]
pub struct Instant;

impl Instant {
    pub fn now() -> Self {
        Self
    }

    pub fn elapsed(self) -> Duration {
        Duration::from_secs(any(2).into())
    }
}
