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
use tabane_models::groups::{Action, BACK, Change, Groups, Kind, OVER, State, Way};

use play::{Object, Play};
use walk::{Walk, step, walk};

/// Ways in a usual run.
const SEEDS: u64 = 200;

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
const SIZES: [Groups; 12] = [
    Groups {
        changes: [&[Change::AddGroup(SECOND)], &[]],
        ..SMALL
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

/// The name of a step without who takes it.
fn kind(before: &State, action: Action) -> String {
    match action {
        Action::Step(who, _) => {
            let who_name = format!("{who:?}");
            let who_name = who_name.split('(').next().unwrap_or_default();
            format!("{who_name} {}", step(before, who))
        }
        Action::Kill(_) => "Kill".to_owned(),
        Action::Leave(_) => "Leave".to_owned(),
        Action::Return(_) => "Return".to_owned(),
        Action::TakeForDead => "TakeForDead".to_owned(),
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

/// Each way, of so many as `SEEDS` says, from that of `FIRST` on.
#[test]
fn the_program_can_do_what_the_model_does() {
    let number = |name: &str, usual: u64| {
        std::env::var(name).map_or(usual, |value| value.parse().expect("a number"))
    };
    let (first, seeds) = (number("FIRST", 0), number("SEEDS", SEEDS));
    let mut steps: BTreeMap<String, usize> = BTreeMap::new();
    for seed in first..first + seeds {
        let model = &SIZES[seed as usize % SIZES.len()];
        let begun = std::time::Instant::now();
        let (walk, result) = replay(model, seed);
        if begun.elapsed().as_millis() > 3000 { println!("SLOW {seed} {:?} {}", begun.elapsed(), walk.taken.len()); }
        if let Err((at, why)) = result {
            print_steps(&walk, at);
            if std::env::var("ALL").is_ok() {
                println!("FAIL seed {seed} size {}: step {at} of {}: {why}\n", seed as usize % SIZES.len(), walk.taken.len());
                continue;
            }
            panic!("seed {seed}, step {at} of {}: {why}", walk.taken.len());
        }
        let mut before = &walk.first;
        for taken in &walk.taken {
            *steps.entry(kind(before, taken.action)).or_default() += 1;
            before = &taken.state;
        }
    }
    let total: usize = steps.values().sum();
    println!("{seeds} ways of {total} steps: {steps:#?}");
}

fn print_steps(walk: &Walk, last: usize) {
    let mut before = &walk.first;
    for (number, taken) in walk.taken.iter().enumerate().take(last + 1) {
        println!("{number} {:?} {}", taken.action, kind(before, taken.action));
        before = &taken.state;
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

/// Ways through a model that does something else are not the program's.
#[test]
fn the_program_does_nothing_else() {
    let among_three = Groups {
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
    let two_add = Groups {
        changes: TWO_ADD,
        ..PACK
    };
    let others = [
        (Way::SmallToNewest, GOES_OVER),
        (Way::LargeAnywhere, Groups { kind: Kind::Large, ..GROWS }),
        (Way::ListsUnasked, GROWS),
        (Way::ListsWithReturned, astray.clone()),
        (Way::ListsForgotten, astray.clone()),
        (Way::ListsForgotten, DELETED),
        (Way::ChecksBefore, PACK_GOES_OVER),
        (Way::DeletesAtOnce, PACK_GOES_OVER),
        (Way::LooksOnce, COMES_BACK),
        (Way::LooksOnce, Groups { kind: Kind::Large, movers: 2, ..DELETED }),
        (Way::MovesBack, COMES_BACK),
        (Way::MovesUnnoted, COMES_BACK),
        (Way::MovesUnasked, COMES_BACK),
        (Way::DeletesAnyParts, among_three),
        (Way::KeepsRetired, COMES_BACK),
        (Way::DeletesUnasked, DELETED),
        (Way::MarksUnchecked, DELETED),
        (Way::AppliesUnasked, DELETED),
        (Way::NotesAfterAsking, GOES_OVER),
        (Way::HealsBack, GOES_OVER),
        (Way::ForgetsMarks, astray.clone()),
        (Way::ForgetsMarks, DELETED),
        (Way::ForgetsUnseen, PACK_GOES_OVER),
        (Way::ForgetsOneOfTwo, COMES_BACK),
        (Way::UsesStrangers, astray),
        (Way::UsesStrangers, DELETED),
        (Way::AnnouncesAtOnce, two_add.clone()),
        (Way::AnnouncesUnseen, two_add),
    ];
    let only = std::env::var("ONLY").unwrap_or_default();
    let mut models: Vec<Groups> = Vec::new();
    for (way, model) in others {
        if only.is_empty() || only.contains(&format!("{way:?}")) {
            models.push(Groups { way, ..model });
        }
    }
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| {
                while let Some(model) =
                    models.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    print_first(model);
                }
            });
        }
    });
}

fn print_first(model: &Groups) {
    let way = model.way;
    let found = (0..SEEDS).find_map(|seed| Some((seed, replay(model, seed).1.err()?)));
    match found {
        Some((seed, (at, why))) => println!("{way:?}: way {seed}, step {at}: {why}"),
        None => println!("NONE {way:?}"),
    }
}
