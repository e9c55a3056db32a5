//! The program's own threads in orders that a scheduler chooses: it lets one of them go on at a
//! time and picks at each lock and each signal which, so that it finds what waits for ever and what
//! comes out otherwise in a rare order. The sources are those of the program; of the standard
//! library's locks and threads, those of the scheduler take the place.

mod access;
mod backup_orders;
mod cache_orders;
mod pool_orders;
mod ring_orders;

/// What the ring finds of its crate.
const FRAME_SHARE: usize = 4;

mod sync {
    pub use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard, atomic, mpsc};
    pub use shuttle::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

    pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().expect("no panic under this lock")
    }

    pub mod thread {
        pub use shuttle::thread::*;

        /// As on a machine with two processors.
        pub fn available_parallelism() -> std::io::Result<std::num::NonZero<usize>> {
            Ok(std::num::NonZero::new(2).expect("not zero"))
        }
    }
}

#[path = "../../../store/src/operations/backup/pieces.rs"]
mod pieces;
#[path = "../../../engine/src/pool.rs"]
#[allow(dead_code, reason = "some of it is for others")]
mod pool;
#[path = "../../../fabric/src/ring.rs"]
#[allow(
    dead_code,
    unexpected_cfgs,
    reason = "some of it is for others, and for features"
)]
mod ring;

/// How many orders of each test. Half are chosen at random, half so that few changes of thread are
/// enough to meet a rare order.
const ORDERS: usize = 10_000;

fn in_many_orders(test: impl Fn() + Send + Sync + Copy + 'static) {
    shuttle::check_random(test, ORDERS / 2);
    shuttle::check_pct(test, ORDERS / 2, 3);
}
