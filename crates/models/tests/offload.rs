//! The offload service against a client that does what it likes.

use std::time::Instant;

use tabane_models::offload::{
    NOBODY_IS_OVERLOOKED, ONE_UNIT_A_MESSAGE, Offload, WORK_ON_WHAT_WAITS, Way,
};
use tabane_models::report::{Traces, explore};

/// Two messages, so that the second may ask another unit.
fn offload(way: Way) -> Offload {
    Offload { way, messages: 2 }
}

#[test]
fn whatever_a_client_does_others_are_served() {
    let since = Instant::now();
    let found = explore(offload(Way::Ours), 2, None, Traces::Any);
    found.print(
        "offload, two units, two clients of which one does what it likes",
        since,
    );
    found.assert_holds();
    assert_eq!(found.never, [""; 0]);
}

#[test]
fn each_other_way_is_refuted() {
    for (way, invariant) in [
        (Way::SleepsOnBoard, NOBODY_IS_OVERLOOKED),
        (Way::SleepsAtOnce, NOBODY_IS_OVERLOOKED),
        (Way::TakesByWord, ONE_UNIT_A_MESSAGE),
        (Way::TakesAtOnce, WORK_ON_WHAT_WAITS),
    ] {
        let since = Instant::now();
        let found = explore(offload(way), 2, None, Traces::Short(invariant));
        found.print(&format!("{way:?}"), since);
        assert!(found.refutes(invariant), "{way:?}: is the rule needed?");
    }
}
