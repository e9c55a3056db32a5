//! The program's own threads in orders that a scheduler chooses: it lets one of them go on at a
//! time and picks at each lock and each signal which, so that it finds what waits for ever and what
//! comes out otherwise in a rare order. The sources are those of the program; of the standard
//! library's locks and threads, those of the scheduler take the place.

mod access;
mod backup_orders;
mod cache_orders;
mod offload_orders;
mod offload_steps;
mod pool_orders;
mod ring_orders;
mod words;

use layout::VERSION;
use offload_orders::server;

/// What the ring finds of its crate.
const FRAME_SHARE: usize = 4;

mod sync {
    pub use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard, mpsc};
    pub use shuttle::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

    pub use crate::offload_orders::{sched_getcpu, send};
    pub use crate::words::{Instant, atomic, clock_gettime, futex};

    pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().expect("no panic under this lock")
    }

    pub mod thread {
        pub use shuttle::thread::*;

        pub use crate::words::park;

        /// As on a machine with two processors.
        pub fn available_parallelism() -> std::io::Result<std::num::NonZero<usize>> {
            Ok(std::num::NonZero::new(2).expect("not zero"))
        }
    }
}

#[path = "../../../offload/src/client.rs"]
#[allow(dead_code, reason = "some of it is for others")]
mod client;
#[path = "../../../offload/src/layout.rs"]
#[allow(dead_code, reason = "some of it is for others")]
mod layout;
#[path = "../../../offload/src/memory.rs"]
#[allow(dead_code, reason = "some of it is for others")]
mod memory;
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
#[path = "../../../offload/src/unit.rs"]
#[allow(dead_code, reason = "some of it is for others")]
mod unit;

/// How many orders of each test. Half are chosen at random, half so that few changes of thread are
/// enough to meet a rare order.
const ORDERS: usize = 10_000;

fn in_many_orders(test: impl Fn() + Send + Sync + Copy + 'static) {
    in_orders_with_changes(3, test);
}

/// In half of the orders there are so many changes of thread, but for those of threads that wait.
fn in_orders_with_changes(changes: usize, test: impl Fn() + Send + Sync + Copy + 'static) {
    shuttle::check_random(test, ORDERS / 2);
    shuttle::check_pct(test, ORDERS / 2, changes);
}
