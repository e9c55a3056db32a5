//! Runs of a few seeds, and again those that have failed once.

use std::fs;
use std::path::Path;

use tabane_simulation::plan::{Fault, PlaceKind, Plan};
use tabane_simulation::run::{Shared, run};
use tabane_simulation::shrink;

/// Runs so many seeds; wants that somebody was told to try again.
fn try_seeds(place: PlaceKind, count: u64) {
    let shared = Shared::default();
    let (mut refused, mut new_targets) = (0, 0);
    for seed in 0..count {
        let plan = Plan::from_seed(seed, place);
        match run(&plan, &shared, true) {
            Ok(tally) => {
                refused += tally.refused;
                new_targets += tally.new_targets;
            }
            Err(failed) => panic!(
                "{}\n{place:?}, seed {seed}: {}\n{}",
                failed.operations,
                failed.why,
                serde_json::to_string(&plan).unwrap()
            ),
        }
    }
    eprintln!("{count} seeds; {refused} times somebody was told to try again");
    assert!(count < 100 || refused > 0, "clients never met");
    assert!(place != PlaceKind::Set || new_targets > 0);
}

#[test]
fn nothing_is_lost_in_any_order_of_operations() {
    try_seeds(PlaceKind::Memory, 200);
}

/// Two targets of each set fail in all ways.
#[test]
fn nothing_is_lost_over_a_set() {
    try_seeds(PlaceKind::Set, 40);
}

/// Clients that only back up may delete nothing but what they have put.
#[test]
fn nothing_is_lost_through_a_server() {
    try_seeds(PlaceKind::Server, 12);
}

/// Two nodes of each cluster end, start again, are cut off and lose what they have.
#[test]
fn nothing_is_lost_over_a_cluster() {
    try_seeds(PlaceKind::Cluster, 6);
}

/// Plans that failed before the program was mended, each in a file. Names of objects are random, so
/// that each is run several times.
#[test]
fn what_failed_once_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/failed");
    let shared = Shared::default();
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let plan: Plan = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{path:?} is of another version: {error}"));
        for _ in 0..20 {
            if let Err(failed) = run(&plan, &shared, true) {
                panic!("{}\n{path:?}: {}", failed.operations, failed.why);
            }
        }
    }
}

#[test]
fn what_fails_is_made_as_small_as_can_be() {
    let has = |plan: &Plan, client: usize| !plan.clients[client].commands.is_empty();
    let is_day = |fault: &Fault| matches!(fault, Fault::Day { .. });
    let fails = |plan: &Plan| has(plan, 1) && plan.faults.iter().any(is_day);
    let mut plans = (0..).map(|seed| Plan::from_seed(seed, PlaceKind::Set));
    let plan = plans
        .find(|plan| plan.faults.len() > 5 && fails(plan))
        .unwrap();
    let small = shrink(plan, fails);
    assert_eq!(small.faults.len(), 1, "{small:?}");
    assert_eq!(small.clients[1].commands.len(), 1, "{small:?}");
    assert!(!has(&small, 0) && small.before.is_empty(), "{small:?}");
}

/// The plan of another version is told apart from one that fails.
#[test]
fn a_plan_is_read_as_it_was_written() {
    let plan = Plan::from_seed(7, PlaceKind::Set);
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
    let other = text.replacen("\"row\"", "\"column\"", 1);
    assert!(serde_json::from_str::<Plan>(&other).is_err());
}
