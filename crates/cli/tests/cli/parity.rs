//! `tabane parity explain`.

use serde_json::Value;

use crate::bed::{Ran, bare_command, run};

fn explain(args: &str) -> Ran {
    run(&mut bare_command(
        ["parity", "explain"]
            .into_iter()
            .chain(args.split_whitespace()),
    ))
}

#[test]
fn draws_the_code_and_a_repair() {
    explain("")
        .succeeds()
        .says("5 targets")
        .says("row 1  D/1       E/2       P1        F/4       Q1")
        .says("  Q0 = A + I + K")
        .says("takes 9 of the 16 cells that are left (12 for target 4), two targets 12 of 12");
    explain("-n 5 --lost 1,2")
        .succeeds()
        .says("row 1  D/1       [E/2]     [P1]      F/4       Q1")
        .says("To rebuild targets 1 and 2 takes 12 of the 12 cells that are left (the fewest possible):")
        .says("  B = D + L + Q1");
    explain("-n 9 --lost 3")
        .succeeds()
        .says("takes 50 of the 80 cells that are left (a simple bound is 48)");
}

#[test]
fn lists_what_schedules_cost_and_send() {
    let costs = "coded               12    1.000         16     4        0.500/0.333";
    explain("").succeeds().says(costs);
    let chain = explain("--schedule chain").succeeds();
    assert_eq!(
        chain
            .stdout
            .lines()
            .filter(|line| line.contains("  client  "))
            .count(),
        12
    );
    chain
        .says("What the targets store of them:")
        .says("  A at 0: #0");
}

#[test]
fn prints_an_object_a_line() {
    let ran = explain("-n 7 --lost 6 --schedule coded --json").succeeds();
    let lines: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object"))
        .collect();
    let count = |kind: &str| {
        lines
            .iter()
            .filter(|line| line["message_type"] == kind)
            .count()
    };
    assert_eq!(
        (count("layout"), count("cell"), count("store")),
        (1, 42, 42)
    );
    assert_eq!(
        (count("step"), count("repair"), count("schedule")),
        (12 + 6, 1, 4)
    );
    assert_eq!(count("transfer"), 30 + 36);
}

#[test]
fn nonsense_is_refused() {
    for (args, error) in [
        (
            "-n 2",
            "2 targets are too few: surviving the loss of two takes at least 3",
        ),
        ("-n 65", "64 at most"),
        (
            "-n 5 --lost 5",
            "there is no target 5: 5 targets are numbered 0 to 4",
        ),
        ("-n 5 --lost 1,1", "target 1 is named twice"),
        ("-n 5 --lost 0,1,2", "any two can be rebuilt, no more"),
        (
            "-n 9 --schedule coded",
            "no coded schedule is known for 9 targets",
        ),
        (
            "--schedule star",
            "there are direct, chain, shared and coded",
        ),
        ("--lost one", "invalid digit"),
    ] {
        explain(args).fails(2, error);
    }
}
