//! What the model of groups does, the program can do, step by step: ways through the model are
//! replayed by clients that put, list, delete, move and heal an object, and by some that change the
//! set, on places in memory. Each waits before each operation that the model has, until it is its
//! turn. An operation that the model does not expect, one that does not come, a result that
//! differs, or a target that holds something else fails the test.

mod play;
mod stage;
mod walk;

use std::collections::BTreeMap;

use tabane_models::groups::set::{FIRST, SECOND, THIRD};
use tabane_models::groups::{Action, BACK, Change, Groups, Kind, OVER, STEPS, State, Way, Who};

use play::{Object, Play};
use walk::{Walk, step, walk};

/// Ways in a usual run.
const SEEDS: u64 = 100;

/// Steps that one takes before the next one does, about.
const ROWS: [u64; 3] = [2, 4, 12];

/// Sets with a small object, a large one that is no pack, and a pack.
const SMALL: Groups = Groups {
    writes: true,
    lists: true,
    ..Groups::of(Kind::Small)
};

const LARGE: Groups = Groups {
    kind: Kind::Large,
    ..SMALL
};
const PACK: Groups = Groups {
    kind: Kind::Pack,
    ..SMALL
};

/// The first of two groups is emptied, and nobody waits.
const AWAY: &[Change] = &[Change::Retire(FIRST), Change::Forget(FIRST)];
/// A third group is added, the second of three is emptied, and then the first one.
const THREE: &[Change] = &[
    Change::AddGroup(THIRD),
    Change::Retire(SECOND),
    Change::Forget(SECOND),
    Change::Retire(FIRST),
    Change::Forget(FIRST),
];
/// Two clients add a group each.
const TWO_ADD: [&[Change]; 2] = [&[Change::AddGroup(SECOND)], &[Change::AddGroup(THIRD)]];

/// Models of which ways are taken.
const SIZES: [Groups; 13] = [
    GROWS,
    Groups {
        writes: false,
        begins_with_two: true,
        deletes: true,
        changes: [&[], &[]],
        ..GROWS
    },
    Groups {
        heals: true,
        changes: [OVER, &[]],
        ..SMALL
    },
    Groups {
        movers: 1,
        changes: [OVER, &[]],
        ..PACK
    },
    Groups {
        movers: 1,
        begins_with_two: true,
        changes: [BACK, &[]],
        ..PACK
    },
    Groups {
        movers: 1,
        deletes: true,
        heals: true,
        changes: [OVER, &[]],
        ..LARGE
    },
    Groups {
        writes: false,
        deletes: true,
        heals: true,
        changes: [OVER, &[]],
        ..SMALL
    },
    Groups {
        writes: false,
        begins_with_two: true,
        movers: 2,
        changes: [BACK, &[]],
        ..PACK
    },
    Groups {
        writes: false,
        begins_with_two: true,
        is_astray: true,
        deletes: true,
        heals: true,
        changes: [AWAY, &[]],
        faults: 2,
        ..SMALL
    },
    Groups {
        lists: false,
        deletes: true,
        heals: true,
        changes: [OVER, &[]],
        faults: 3,
        ..SMALL
    },
    Groups {
        writes: false,
        begins_with_two: true,
        movers: 2,
        changes: [THREE, &[]],
        ..PACK
    },
    Groups {
        lists: false,
        movers: 1,
        heals: true,
        changes: [OVER, &[]],
        faults: 3,
        ..PACK
    },
    Groups {
        heals: true,
        changes: TWO_ADD,
        faults: 2,
        ..SMALL
    },
];

/// The name of a step.
fn kind(model: &Groups, before: &State, action: Action) -> String {
    match action {
        Action::Step(Who::Admin(admin), _) => before.admins[admin].step(model.changes[admin]),
        Action::Step(who, _) => step(before, who),
        other => format!("{other:?}"),
    }
}

/// Replays the way of this seed; returns it, and where it could not go on and why.
fn replay(model: &Groups, seed: u64) -> (Walk, Result<(), (usize, String)>) {
    let object = Object::new(model.kind, seed);
    let row = ROWS[seed as usize % ROWS.len()];
    let walk = walk(model, seed, row, object.chance());
    let mut play = Play::new(model, object);
    let mut state = &walk.first;
    let mut result = Ok(());
    for (at, taken) in walk.taken.iter().enumerate() {
        if result.is_ok() {
            result = play.take(state, taken).map_err(|why| (at, why));
            state = &taken.state;
        }
    }
    let ended = play.end(state).map_err(|why| (walk.taken.len(), why));
    let result = result.and(ended);
    (walk, result)
}

/// The steps of a way, with their names, up to this one.
fn steps(model: &Groups, walk: &Walk, last: usize) -> Vec<(Action, String)> {
    let states = walk.taken.iter().map(|taken| &taken.state);
    let before = [&walk.first].into_iter().chain(states);
    let steps = before.zip(&walk.taken).take(last + 1);
    let named = steps.map(|(before, taken)| (taken.action, kind(model, before, taken.action)));
    named.collect()
}

/// Each way, of so many as `SEEDS` says, from that of `FIRST` on.
#[test]
fn the_program_can_do_what_the_model_does() {
    let number = |name: &str, usual: u64| {
        std::env::var(name).map_or(usual, |value| value.parse().expect("a number"))
    };
    let (first, seeds) = (number("FIRST", 0), number("SEEDS", SEEDS));
    let mut taken: BTreeMap<String, usize> = BTreeMap::new();
    for seed in first..first + seeds {
        let model = &SIZES[seed as usize % SIZES.len()];
        let (walk, result) = replay(model, seed);
        if let Err((at, why)) = result {
            for (number, (action, name)) in steps(model, &walk, at).into_iter().enumerate() {
                println!("{number} {action:?}: {name}");
            }
            panic!("seed {seed}, step {at} of {}: {why}", walk.taken.len());
        }
        for (action, name) in steps(model, &walk, walk.taken.len()) {
            let who = format!("{action:?}");
            let who = who.split(['(', ',']).nth(1).unwrap_or_default().to_owned();
            *taken.entry(format!("{who}: {name}")).or_default() += 1;
        }
    }
    let total: usize = taken.values().sum();
    println!("{seeds} ways of {total} steps: {taken:?}");
    if (first, seeds) == (0, SEEDS) {
        let is_missing = |step: &&&str| !taken.keys().any(|name| name.contains(**step));
        let missing: Vec<_> = STEPS.iter().filter(is_missing).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}

/// A pack while a group is added.
const GROWS: Groups = Groups {
    movers: 1,
    changes: [&[Change::AddGroup(SECOND)], &[]],
    ..PACK
};
/// All goes to a new group, and the first one is forgotten.
const GOES_OVER: Groups = Groups {
    heals: true,
    changes: [OVER, &[]],
    ..SMALL
};
const PACK_GOES_OVER: Groups = Groups {
    movers: 1,
    changes: [OVER, &[]],
    ..PACK
};
/// All comes back from the second group.
const COMES_BACK: Groups = Groups {
    writes: false,
    begins_with_two: true,
    movers: 2,
    changes: [BACK, &[]],
    ..PACK
};
/// The object is deleted meanwhile.
const DELETED: Groups = Groups {
    writes: false,
    deletes: true,
    ..GOES_OVER
};

/// Ways through a model that does something else are not the program's. Of each model the first one
/// that shows it is near this seed.
#[test]
fn the_program_does_nothing_else() {
    let large_grows = Groups {
        kind: Kind::Large,
        ..GROWS
    };
    let among_three = Groups {
        lists: false,
        changes: [THREE, &[]],
        ..COMES_BACK
    };
    let astray = Groups {
        begins_with_two: true,
        is_astray: true,
        changes: [AWAY, &[]],
        faults: 1,
        ..DELETED
    };
    let strangers = Groups {
        lists: false,
        ..DELETED
    };
    let two_add = Groups {
        changes: TWO_ADD,
        ..PACK
    };
    let others = [
        (Way::SmallToNewest, GOES_OVER, 0),
        (Way::LargeAnywhere, large_grows, 0),
        (Way::ListsUnasked, GROWS, 0),
        (Way::ListsForgotten, DELETED, 160),
        (Way::ChecksBefore, PACK_GOES_OVER, 0),
        (Way::MovesBack, COMES_BACK, 0),
        (Way::MovesUnnoted, COMES_BACK, 0),
        (Way::MovesUnasked, COMES_BACK, 0),
        (Way::DeletesAnyParts, among_three, 0),
        (Way::KeepsRetired, COMES_BACK, 0),
        (Way::DeletesUnasked, DELETED, 0),
        (Way::MarksUnchecked, DELETED, 0),
        (Way::AppliesUnasked, DELETED, 30),
        (Way::NotesAfterAsking, GOES_OVER, 0),
        (Way::HealsBack, GOES_OVER, 0),
        (Way::ForgetsMarks, astray, 0),
        (Way::ForgetsUnseen, PACK_GOES_OVER, 0),
        (Way::ForgetsOneOfTwo, COMES_BACK, 0),
        (Way::UsesStrangers, strangers, 100),
        (Way::AnnouncesAtOnce, two_add.clone(), 0),
        (Way::AnnouncesUnseen, two_add, 0),
    ];
    for (way, model, first) in others {
        let model = Groups { way, ..model };
        let mut seeds = first..first + SEEDS;
        let found = seeds.find_map(|seed| Some((seed, replay(&model, seed).1.err()?)));
        let found = found.unwrap_or_else(|| panic!("{way:?}: all ways are replayed"));
        let (seed, (at, why)) = found;
        println!("{way:?}: way {seed}, step {at}: {why}");
    }
}
