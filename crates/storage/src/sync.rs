//! Helpers for threads: locks, and parallel work.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Locks a mutex under which nothing panics.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic under this lock")
}

/// Does `work` for each item, at most `at_once` at a time; the results are in the order of the
/// items.
///
/// # Errors
/// The first error of `work`, after which no further item is begun.
pub fn try_each<T: Sync, R: Send, E: Send>(
    items: &[T],
    at_once: usize,
    work: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    if at_once.min(items.len()) <= 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    let failure = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..at_once.min(items.len()) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(number) else {
                        return;
                    };
                    match work(item) {
                        Ok(result) => lock(&done).push((number, result)),
                        Err(error) => {
                            lock(&failure).get_or_insert(error);
                            next.store(items.len(), Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    let finished = "no panic under this lock";
    if let Some(error) = failure.into_inner().expect(finished) {
        return Err(error);
    }
    let mut done = done.into_inner().expect(finished);
    done.sort_unstable_by_key(|(number, _)| *number);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

/// Does two pieces of work, the first one in a thread of its own if they are to go on `at_once`.
pub fn both<A: Send, B>(
    at_once: bool,
    first: impl FnOnce() -> A + Send,
    second: impl FnOnce() -> B,
) -> (A, B) {
    if !at_once {
        return (first(), second());
    }
    std::thread::scope(|scope| {
        let first = scope.spawn(first);
        let second = second();
        let first = first.join();
        let first = first.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (first, second)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_done_at_once_or_in_order() {
        let barrier = std::sync::Barrier::new(2);
        let wait = || barrier.wait().is_leader();
        let (a, b) = both(true, wait, wait);
        assert!(a != b);
        let done = Mutex::new(Vec::new());
        both(false, || lock(&done).push(1), || lock(&done).push(2));
        assert_eq!(*lock(&done), [1, 2]);
    }

    #[test]
    fn results_are_in_order_and_the_first_error_ends_it() {
        let items: Vec<usize> = (0..100).collect();
        let double = |&item: &usize| Ok::<_, ()>(2 * item);
        let doubled: Vec<usize> = items.iter().map(|item| 2 * item).collect();
        for at_once in [1, 3, 200] {
            assert_eq!(try_each(&items, at_once, double), Ok(doubled.clone()));
        }
        let tried = AtomicUsize::new(0);
        let fail = |&item: &usize| {
            tried.fetch_add(1, Ordering::Relaxed);
            if item == 5 { Err("five") } else { Ok(()) }
        };
        assert_eq!(try_each(&items, 2, fail), Err("five"));
        assert!(tried.into_inner() < 50);
    }
}
