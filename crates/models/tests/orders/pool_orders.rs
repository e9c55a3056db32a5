//! The pool of workers.

use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread;

use crate::in_many_orders;
use crate::pool::Pool;

/// A task that counts itself, and submits one more.
fn submit_two(pool: &Pool<usize>, done: &Arc<AtomicUsize>) {
    let done = Arc::clone(done);
    pool.submitter().submit(move |count, submitter| {
        *count += 1;
        submitter.submit_or_run(count, move |count, _| {
            *count += 1;
            done.fetch_add(1, Ordering::SeqCst);
        });
    });
}

/// Nobody waits for ever, neither producers nor workers, and no task is lost.
#[test]
fn every_task_is_run() {
    in_many_orders(|| {
        let done = Arc::new(AtomicUsize::new(0));
        let pool = Arc::new(Pool::new(vec![0; 2], 1));
        let producers: Vec<_> = (0..2)
            .map(|_| {
                let (pool, done) = (Arc::clone(&pool), Arc::clone(&done));
                thread::spawn(move || (0..3).for_each(|_| submit_two(&pool, &done)))
            })
            .collect();
        for producer in producers {
            producer.join().expect("it submits all");
        }
        let pool = Arc::try_unwrap(pool).unwrap_or_else(|_| panic!("no other has it"));
        assert_eq!(pool.finish().iter().sum::<usize>(), 12);
        assert_eq!(done.load(Ordering::SeqCst), 6);
    });
}

/// Threads of a pool that was dropped end: the scheduler would say that they wait for ever.
#[test]
fn the_threads_of_a_dropped_pool_end() {
    in_many_orders(|| {
        let pool = Pool::new(vec![0; 2], 2);
        let done = Arc::new(AtomicUsize::new(0));
        submit_two(&pool, &done);
    });
}
