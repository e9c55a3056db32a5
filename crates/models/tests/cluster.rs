//! A stripe over four nodes, of which two may fail.

use std::time::Instant;

use tabane_models::cluster::{Cluster, DELETED_STAYS_AWAY, STORED_STAYS, Way};
use tabane_models::report::{Found, Traces, assert_all_hold, explore};

fn run(way: Way, faults: u8, heals: usize, traces: Traces) -> Found {
    let since = Instant::now();
    let model = Cluster { way, faults, heals };
    let found = explore(model, 2, None, traces);
    found.print(
        &format!("cluster, four nodes, {faults} faults, {heals} heals, {way:?}"),
        since,
    );
    found
}

#[test]
fn faults_lose_nothing_and_revive_nothing() {
    let sizes = [(2, 0), (1, 1), (0, 2)];
    let found = sizes.map(|(faults, heals)| run(Way::Ours, faults, heals, Traces::Any));
    assert_all_hold(&found);
}

#[test]
fn each_other_way_is_refuted() {
    for (way, faults, heals, invariant) in [
        (Way::AnswersEarly, 2, 0, STORED_STAYS),
        (Way::LeavesOutThree, 3, 0, STORED_STAYS),
        (Way::MarksNothing, 2, 0, DELETED_STAYS_AWAY),
        (Way::LooksForNoHeals, 0, 1, DELETED_STAYS_AWAY),
        (Way::LooksForNoParts, 0, 1, DELETED_STAYS_AWAY),
        (Way::LooksBeforeDeleting, 0, 1, DELETED_STAYS_AWAY),
        (Way::NotesLate, 0, 1, DELETED_STAYS_AWAY),
        (Way::AppliesBesideHeals, 0, 2, DELETED_STAYS_AWAY),
        (Way::LooksOnce, 0, 2, DELETED_STAYS_AWAY),
    ] {
        let found = run(way, faults, heals, Traces::Short(invariant));
        assert!(found.refutes(invariant), "{way:?}: is the rule needed?");
    }
}
