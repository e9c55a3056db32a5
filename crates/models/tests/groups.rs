//! A set that grows and shrinks: what was put stays, what was deleted stays away.

use std::time::Instant;

use tabane_models::groups::set::{FIRST, SECOND, THIRD};
use tabane_models::groups::{
    BACK, Change, DELETED_STAYS_AWAY, Groups, Kind, LISTS_MISS_NOTHING, LISTS_REVIVE_NOTHING,
    ONE_IS_FOLLOWED, OVER, STORED_IS_FOUND, Way,
};
use tabane_models::report::{Found, Traces, assert_all_hold, explore};

/// A set of one group with a small object, a pack, or a large object that is no pack.
const SET: Groups = Groups::of(Kind::Small);
const PACKS: Groups = Groups::of(Kind::Pack);
const LARGE: Groups = Groups::of(Kind::Large);

/// A second group is added.
const ADD: [&[Change]; 2] = [&[Change::AddGroup(SECOND)], &[]];
/// A second group is added, the first one is emptied, and a third one takes its place.
const ROUND: [&[Change]; 2] = [
    &[
        Change::AddGroup(SECOND),
        Change::Retire(FIRST),
        Change::Forget(FIRST),
        Change::AddGroup(THIRD),
    ],
    &[],
];
/// The first of two groups is emptied, and nobody waits.
const AWAY: [&[Change]; 2] = [&[Change::Retire(FIRST), Change::Forget(FIRST)], &[]];
/// The group gets one more target, or two.
const LARGER: [&[Change]; 2] = [&[Change::Add(4)], &[]];
const LARGER_TWICE: [&[Change]; 2] = [&[Change::Add(4), Change::Add(5)], &[]];
/// A target is replaced, or both are.
const REPLACED: [&[Change]; 2] = [&[Change::Replace(0, 4)], &[]];
const REPLACED_BOTH: [&[Change]; 2] = [&[Change::Replace(0, 4), Change::Replace(1, 5)], &[]];
/// Two clients add a group each.
const TWO_ADD: [&[Change]; 2] = [&[Change::AddGroup(SECOND)], &[Change::AddGroup(THIRD)]];

/// Backups and lists while a group is added and another emptied.
const GROWS: Groups = Groups {
    writes: true,
    lists: true,
    movers: 1,
    changes: ADD,
    ..PACKS
};
const SMALL_GO_OVER: Groups = Groups {
    writes: true,
    lists: true,
    heals: true,
    changes: [OVER, &[]],
    ..SET
};
const PACKS_GO_OVER: Groups = Groups {
    writes: true,
    movers: 1,
    changes: [OVER, &[]],
    ..PACKS
};
const LISTS_WHILE_PACKS_GO_OVER: Groups = Groups {
    lists: true,
    movers: 1,
    changes: [OVER, &[]],
    ..PACKS
};
const PACKS_GO_BACK: Groups = Groups {
    begins_with_two: true,
    movers: 1,
    writes: true,
    changes: [BACK, &[]],
    ..PACKS
};
const TWO_MOVE_PACKS_BACK: Groups = Groups {
    writes: false,
    movers: 2,
    ..PACKS_GO_BACK
};
/// A third group is added, the second of three is emptied, and then the first one.
const THREE: [&[Change]; 2] = [
    &[
        Change::AddGroup(THIRD),
        Change::Retire(SECOND),
        Change::Forget(SECOND),
        Change::Retire(FIRST),
        Change::Forget(FIRST),
    ],
    &[],
];
const TWO_MOVE_AMONG_THREE: Groups = Groups {
    begins_with_two: true,
    movers: 2,
    changes: THREE,
    ..PACKS
};
/// Deletions.
const DELETED_AND_GOES_OVER: Groups = Groups {
    deletes: true,
    heals: true,
    changes: [OVER, &[]],
    ..SET
};
const LARGE_IS_DELETED_AND_GOES_OVER: Groups = Groups {
    deletes: true,
    movers: 1,
    changes: [OVER, &[]],
    ..LARGE
};
const DELETED_AND_GOES_ROUND: Groups = Groups {
    changes: ROUND,
    ..DELETED_AND_GOES_OVER
};
const ASTRAY_IS_DELETED: Groups = Groups {
    begins_with_two: true,
    is_astray: true,
    deletes: true,
    changes: AWAY,
    faults: 1,
    ..SET
};
/// Groups that get larger, and targets that are replaced.
const LARGER_AND_DELETED: Groups = Groups {
    writes: true,
    deletes: true,
    heals: true,
    changes: LARGER,
    ..SET
};
const LARGER_AND_ONE_LEAVES: Groups = Groups {
    writes: true,
    lists: true,
    changes: LARGER_TWICE,
    faults: 1,
    ..SET
};
const REPLACED_AND_DELETED: Groups = Groups {
    deletes: true,
    lists: true,
    heals: true,
    changes: REPLACED,
    ..SET
};
const BOTH_ARE_REPLACED: Groups = Groups {
    writes: true,
    lists: true,
    heals: true,
    changes: REPLACED_BOTH,
    ..SET
};
const TWO_CHANGE_THE_SET: Groups = Groups {
    writes: true,
    changes: TWO_ADD,
    ..PACKS
};

fn run(what: &str, model: Groups, traces: Traces) -> Found {
    let since = Instant::now();
    let found = explore(model.clone(), 2, None, traces);
    found.print(&format!("groups: {what}, {:?}", model.way), since);
    found
}

#[test]
fn whoever_opened_the_set_at_whatever_time_loses_nothing_and_revives_nothing() {
    let sizes = [
        ("a group is added", GROWS),
        ("small objects go over", SMALL_GO_OVER),
        ("packs go over", PACKS_GO_OVER),
        ("packs go over beside lists", LISTS_WHILE_PACKS_GO_OVER),
        ("packs go back", PACKS_GO_BACK),
        ("two move packs back", TWO_MOVE_PACKS_BACK),
        ("two move packs among three groups", TWO_MOVE_AMONG_THREE),
        (
            "a small object is deleted and goes over",
            DELETED_AND_GOES_OVER,
        ),
        (
            "a large one is deleted and goes over",
            LARGE_IS_DELETED_AND_GOES_OVER,
        ),
        ("a former target is taken", DELETED_AND_GOES_ROUND),
        ("an object astray is deleted", ASTRAY_IS_DELETED),
        ("a group gets larger beside deletions", LARGER_AND_DELETED),
        (
            "a group gets larger, a target leaves",
            LARGER_AND_ONE_LEAVES,
        ),
        (
            "a target is replaced beside deletions",
            REPLACED_AND_DELETED,
        ),
        ("both targets are replaced", BOTH_ARE_REPLACED),
        ("two change the set", TWO_CHANGE_THE_SET),
    ];
    let found = sizes.map(|(what, model)| run(what, model, Traces::Any));
    assert_all_hold(&found);
}

#[test]
fn each_other_way_is_refuted() {
    let large_grows = Groups {
        kind: Kind::Large,
        ..GROWS
    };
    for (way, model, invariant) in [
        (Way::SmallToNewest, SMALL_GO_OVER, LISTS_MISS_NOTHING),
        (Way::LargeAnywhere, large_grows, LISTS_MISS_NOTHING),
        (Way::ListsUnasked, GROWS, LISTS_MISS_NOTHING),
        (
            Way::ListsWithReturned,
            LARGER_AND_ONE_LEAVES,
            LISTS_MISS_NOTHING,
        ),
        (
            Way::ListsForgotten,
            REPLACED_AND_DELETED,
            LISTS_REVIVE_NOTHING,
        ),
        (Way::ChecksBefore, PACKS_GO_OVER, STORED_IS_FOUND),
        (
            Way::DeletesAtOnce,
            LISTS_WHILE_PACKS_GO_OVER,
            LISTS_MISS_NOTHING,
        ),
        (Way::LooksOnce, TWO_MOVE_PACKS_BACK, STORED_IS_FOUND),
        (Way::MovesBack, TWO_MOVE_PACKS_BACK, STORED_IS_FOUND),
        (
            Way::MovesUnnoted,
            LARGE_IS_DELETED_AND_GOES_OVER,
            DELETED_STAYS_AWAY,
        ),
        (Way::MovesUnasked, PACKS_GO_BACK, STORED_IS_FOUND),
        (Way::DeletesAnyParts, TWO_MOVE_AMONG_THREE, STORED_IS_FOUND),
        (Way::KeepsRetired, PACKS_GO_BACK, STORED_IS_FOUND),
        (
            Way::DeletesUnasked,
            DELETED_AND_GOES_OVER,
            DELETED_STAYS_AWAY,
        ),
        (
            Way::MarksUnchecked,
            DELETED_AND_GOES_OVER,
            DELETED_STAYS_AWAY,
        ),
        (Way::AppliesUnasked, LARGER_AND_DELETED, DELETED_STAYS_AWAY),
        (
            Way::NotesAfterAsking,
            REPLACED_AND_DELETED,
            DELETED_STAYS_AWAY,
        ),
        (Way::HealsBack, SMALL_GO_OVER, LISTS_MISS_NOTHING),
        (Way::ForgetsMarks, ASTRAY_IS_DELETED, DELETED_STAYS_AWAY),
        (Way::ForgetsUnseen, PACKS_GO_OVER, STORED_IS_FOUND),
        (Way::ForgetsOneOfTwo, PACKS_GO_BACK, STORED_IS_FOUND),
        (Way::TakesFormer, DELETED_AND_GOES_ROUND, DELETED_STAYS_AWAY),
        (Way::ReplacesUntold, BOTH_ARE_REPLACED, LISTS_MISS_NOTHING),
        (Way::AnnouncesAtOnce, TWO_CHANGE_THE_SET, ONE_IS_FOLLOWED),
        (Way::AnnouncesUnseen, TWO_CHANGE_THE_SET, STORED_IS_FOUND),
        (Way::UsesStrangers, REPLACED_AND_DELETED, DELETED_STAYS_AWAY),
    ] {
        let model = Groups { way, ..model };
        let found = run("refuted", model, Traces::Short(invariant));
        assert!(found.refutes(invariant), "{way:?}: is the rule needed?");
    }
}
