//! Sets of several groups: objects move while others work.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tabane_striped::RebalanceOptions;

use crate::bed::{Bed, Quiet, Random};
use crate::common::{assert_restores, back_up, id};

#[test]
fn backups_checks_and_restores_go_on_while_objects_move() {
    let mut bed = Bed::new(3);
    let first = bed.fill();
    bed.count = 6;
    let places = bed.places();
    let old = crate::common::striped::open(places[..3].to_vec()).unwrap();
    old.add_group(&places[3..]).unwrap();
    crate::bed::heal(&bed.open());
    let is_done = AtomicBool::new(false);
    let moved = std::thread::scope(|scope| {
        let moving = scope.spawn(|| {
            let options = RebalanceOptions::default().listing_time(Duration::from_millis(500));
            let mut moved = 0;
            while !is_done.load(Ordering::Relaxed) {
                // Opened as a command opens it: it learns the secret from the repository.
                let storage = std::sync::Arc::new(bed.open());
                let repository = tabane_store::Repository::open(
                    std::sync::Arc::clone(&storage) as _,
                    &crate::common::password(),
                );
                drop(repository.unwrap());
                moved += storage.rebalance(options, &Quiet).unwrap().moved_objects;
            }
            moved
        });
        let mut random = Random(3);
        let mut last = first;
        for round in 0..8 {
            let bytes = random.bytes(400_000);
            fs::write(bed.source().join(format!("new-{round}")), bytes).unwrap();
            last = id(&back_up(&bed.repository(), &[&bed.source()]));
            bed.assert_restores(last);
            bed.assert_whole();
        }
        is_done.store(true, Ordering::Relaxed);
        let moved = moving.join().unwrap();
        assert_restores(&bed.repository(), last, &bed.source(), &bed.source());
        moved
    });
    assert!(moved > 0);
    bed.assert_whole();
}
