//! What the pages say.

use clap::Parser;
use serde_json::Value;

use super::{Options, explain};

/// The page that these arguments give, or why there is none.
fn run(args: &str) -> Result<String, String> {
    let args = ["explain"].into_iter().chain(args.split_whitespace());
    let options = Options::try_parse_from(args).map_err(|error| error.to_string())?;
    explain(&options)
}

#[track_caller]
fn says(args: &str, wanted: &[&str]) {
    let page = run(args).unwrap();
    for wanted in wanted {
        assert!(page.contains(wanted), "{wanted:?} is not in: {page}");
    }
}

#[test]
fn draws_the_code_and_a_repair() {
    says(
        "",
        &[
            "5 targets",
            "row 1  D/1       E/2       P1        F/4       Q1",
            "  Q0 = A + I + K",
            "takes 9 of the 16 cells that are left (12 for target 4), two targets 12 of 12",
        ],
    );
    says(
        "-n 5 --lost 1,2",
        &[
            "row 1  D/1       [E/2]     [P1]      F/4       Q1",
            "To rebuild targets 1 and 2 takes 12 of the 12 cells that are left \
             (the fewest possible):",
            "  B = D + L + Q1",
        ],
    );
    says(
        "-n 9 --lost 3",
        &["takes 50 of the 80 cells that are left (a simple bound is 48)"],
    );
}

#[test]
fn lists_what_schedules_cost_and_send() {
    let costs = "coded               12    1.000         16     4        0.500/0.333";
    says("", &[costs]);
    let chain = run("--schedule chain").unwrap();
    let of_client = chain.lines().filter(|line| line.contains("  client  "));
    assert_eq!(of_client.count(), 12);
    says(
        "--schedule chain",
        &["What the targets store of them:", "  A at 0: #0"],
    );
}

#[test]
fn prints_an_object_a_line() {
    let page = run("-n 7 --lost 6 --schedule coded --json").unwrap();
    let lines: Vec<Value> = page
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
            "-n 33 --schedule coded",
            "no coded schedule is known for 33 targets",
        ),
        (
            "--schedule star",
            "there are direct, chain, shared and coded",
        ),
        ("--lost one", "invalid digit"),
    ] {
        let why = run(args).unwrap_err();
        assert!(why.contains(error), "{args}: {why}");
    }
}
