//! A gate that limits the number of threads in a section.

use std::num::NonZero;
use std::sync::{Condvar, Mutex};

use tabane_storage::sync::lock;

/// Lets a fixed number of threads in at a time.
pub struct Gate {
    /// Number of threads that may still enter; `None` without a limit.
    free: Option<Mutex<usize>>,
    left: Condvar,
}

/// A thread's turn; dropping it leaves the gate.
pub struct Turn<'a>(&'a Gate);

impl Gate {
    /// A gate for `threads` at a time, or for all.
    pub fn new(threads: Option<NonZero<usize>>) -> Self {
        Self {
            free: threads.map(|threads| Mutex::new(threads.get())),
            left: Condvar::new(),
        }
    }

    /// Waits for a turn. A thread that holds a turn must not wait for a second one.
    pub fn enter(&self) -> Turn<'_> {
        if let Some(free) = &self.free {
            let free = self.left.wait_while(lock(free), |free| *free == 0);
            *free.expect("no panic under this lock") -= 1;
        }
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(free) = &self.0.free {
            *lock(free) += 1;
            self.0.left.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn no_more_than_the_chosen_number_are_in() {
        for most in [1, 2, 5] {
            let gate = Gate::new(NonZero::new(most));
            let inside = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        for _ in 0..100 {
                            let _turn = gate.enter();
                            assert!(inside.fetch_add(1, Ordering::SeqCst) < most);
                            std::thread::yield_now();
                            inside.fetch_sub(1, Ordering::SeqCst);
                        }
                    });
                }
            });
        }
    }
}
