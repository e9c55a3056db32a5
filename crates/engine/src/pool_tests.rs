//! The pool with the threads of the system; `tests/orders` of the models chooses their order.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Pool;

#[test]
fn runs_every_task_and_the_tasks_of_tasks() {
    let done = Arc::new(AtomicUsize::new(0));
    let pool = Pool::new(vec![0_usize; 3], 2);
    for _ in 0..100 {
        let done = Arc::clone(&done);
        pool.submitter().submit(move |count, submitter| {
            *count += 1;
            for _ in 0..5 {
                let done = Arc::clone(&done);
                submitter.submit_or_run(count, move |count, _| {
                    *count += 1;
                    done.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
    }
    let counts = pool.finish();
    assert_eq!(done.load(Ordering::Relaxed), 500);
    assert_eq!(counts.iter().sum::<usize>(), 600);
}

#[test]
fn the_threads_of_a_dropped_pool_end() {
    struct Gone(std::sync::mpsc::Sender<()>);
    impl Drop for Gone {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    let (sender, ends) = std::sync::mpsc::channel();
    drop(Pool::new(vec![Gone(sender.clone()), Gone(sender)], 1));
    assert_eq!(ends.iter().count(), 2);
}

#[test]
#[should_panic(expected = "told to")]
fn a_panic_reaches_the_caller() {
    let pool = Pool::new(vec![(), ()], 1);
    pool.submitter().submit(|(), _| panic!("told to"));
    for _ in 0..20 {
        pool.submitter().submit(|(), _| {});
    }
    pool.finish();
}
