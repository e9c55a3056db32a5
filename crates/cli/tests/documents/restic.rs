//! Every option of restic has a row on the page for those who come from it, and an answer.

use std::path::Path;
use std::process::Command;

use tabane_testing::documents::read;

const PAGE: &str = "docs/reference/coming-from.md";

/// A line for each command of restic 0.19, with its options; the first is of all commands.
const OPTIONS: &str = include_str!("restic-0.19.txt");

#[test]
fn every_option_of_restic_has_a_row() {
    let page = read(Path::new(PAGE));
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with('|')).collect();
    let words = OPTIONS.split_ascii_whitespace();
    for option in words.filter(|word| word.starts_with("--")) {
        let named = format!("`{option}`");
        assert!(rows.iter().any(|row| row.contains(&named)), "{option}");
    }
    for row in rows {
        let cells: Vec<&str> = row.split(" | ").collect();
        let verdict = cells.get(1).copied().unwrap_or_default();
        if ["differs", "will not"].contains(&verdict) {
            let why = cells.get(2).map(|cell| cell.trim_end_matches('|').trim());
            assert!(why.is_some_and(|why| !why.is_empty()), "{row}");
        } else {
            let is_head = verdict == "here" || row.starts_with("|---");
            assert!(is_head || verdict.starts_with("has"), "{row}");
        }
    }
}

#[test]
fn every_option_of_restic_has_an_answer() {
    let mut silent = Vec::new();
    for line in OPTIONS.lines() {
        let words = line.split(' ');
        let (options, command): (Vec<_>, Vec<_>) = words.partition(|word| word.starts_with("--"));
        let command = if command.is_empty() {
            vec!["backup"]
        } else {
            command
        };
        for option in options {
            let mut ours = Command::new(env!("CARGO_BIN_EXE_tabane"));
            ours.args(&command).arg(option).env_clear();
            let output = ours.output().expect("the command can be started");
            let said = String::from_utf8_lossy(&output.stderr);
            if said.contains("unexpected argument") {
                silent.push(format!("{} {option}", command.join(" ")));
            }
        }
    }
    assert!(silent.is_empty(), "{silent:?}");
}
