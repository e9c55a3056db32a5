//! Sets of several groups: objects move while others work.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tabane_store::Repository;
use tabane_striped::RebalanceOptions;

use crate::bed::{Bed, Quiet, Random, heal};
use crate::common::{self, assert_restores, back_up, id, password};

/// Ends the other thread, also when this one panics.
struct EndsWithThis<'a>(&'a AtomicBool);

impl Drop for EndsWithThis<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn backups_checks_and_restores_go_on_while_objects_move() {
    let mut bed = Bed::new(3);
    bed.fill();
    let mut random = Random(3);
    let back_up_more = |bed: &Bed, random: &mut Random| {
        let name = format!("new-{}", random.next());
        fs::write(bed.source().join(name), random.bytes(400_000)).unwrap();
        id(&back_up(&bed.repository(), &[&bed.source()]))
    };
    let mut last = id(&back_up(&bed.repository(), &[&bed.source()]));
    for _ in 0..12 {
        last = back_up_more(&bed, &mut random);
    }
    bed.count = 6;
    let places = bed.places();
    let old = common::striped::open(places[..3].to_vec()).unwrap();
    old.add_group(&places[3..]).unwrap();
    heal(&bed.open());
    let is_done = AtomicBool::new(false);
    let moved = std::thread::scope(|scope| {
        let moving = scope.spawn(|| {
            let options = RebalanceOptions::default().listing_time(Duration::from_millis(500));
            let mut moved = 0;
            while !is_done.load(Ordering::Relaxed) {
                // Opened as a command opens it: it learns the secret from the repository.
                let storage = Arc::new(bed.open());
                drop(Repository::open(Arc::clone(&storage) as _, &password()).unwrap());
                moved += storage.rebalance(options, &Quiet).unwrap().moved_objects;
            }
            moved
        });
        let ends = EndsWithThis(&is_done);
        for _ in 0..4 {
            last = back_up_more(&bed, &mut random);
            bed.assert_restores(last);
            bed.assert_whole();
        }
        drop(ends);
        let moved = moving.join().unwrap();
        assert_restores(&bed.repository(), last, &bed.source(), &bed.source());
        moved
    });
    assert!(moved > 0);
    bed.assert_whole();
}
