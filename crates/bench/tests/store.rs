//! The whole of `tabane-bench store` with a script in Tabane's place.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};

use tabane_testing::files;
use tabane_testing::output::{json_lines, of_kind};

/// Takes the command lines of Tabane and stores with `cp`.
const STAND_IN: &str = r#"#!/bin/sh
set -e
command=$1
shift
case $command in
    --version) echo "tabane 9.8.7" ;;
    init) [ "$1" = --repo ]; mkdir "$2" ;;
    backup)
        [ "$1" = --repo ] && [ -n "$TABANE_PASSWORD" ] && [ -d "$TABANE_CACHE_DIR" ]
        rm -rf "$2/data"
        cp -a "$3" "$2/data"
        ;;
    restore) [ "$1 $2 $4" = "latest --repo --target" ]; cp -a "$3/data" "$5/tree" ;;
    check) [ "$1 $2" = "--read-data --repo" ]; [ -d "$3/data" ] ;;
    *) exit 64 ;;
esac
"#;

fn set_up(script: &str) -> (tempfile::TempDir, PathBuf, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let stand_in = dir.path().join("tabane");
    files::script(&stand_in, script);
    let tree = dir.path().join("source");
    fs::create_dir_all(tree.join("inner")).unwrap();
    fs::write(tree.join("inner/file"), vec![7; 100_000]).unwrap();
    fs::write(tree.join("other"), b"other").unwrap();
    (dir, stand_in, tree)
}

fn bench(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tabane-bench"))
        .arg("store")
        .args(arguments)
        .arg("--work")
        .arg(dir.join("work"))
        .output()
        .unwrap()
}

fn is_tidy(dir: &Path) -> bool {
    fs::read_dir(dir.join("work")).is_ok_and(|mut entries| entries.next().is_none())
}

#[test]
fn json_of_all_scenarios() {
    let (dir, stand_in, tree) = set_up(STAND_IN);
    let before = fs::metadata(tree.join("other")).unwrap();
    let output = bench(
        dir.path(),
        &[
            "--tree",
            tree.to_str().unwrap(),
            "--tabane",
            stand_in.to_str().unwrap(),
            "--peers",
            "none",
            "--runs",
            "2",
            "--compare",
            "--strict",
            "--json",
        ],
    );
    let errors = String::from_utf8_lossy(&output.stderr);
    // How long the stand-in takes beside the floor is chance; the exit code says what came of it.
    let is_met = output.status.success();
    let lines = json_lines(&Output {
        status: ExitStatus::default(),
        ..output.clone()
    });
    let of = |kind: &str| of_kind(&lines, kind);
    assert_eq!(of("host")[0]["files"], 2);
    assert_eq!(of("tool")[0]["version"], "9.8.7");
    let mut runs = of("run");
    runs.retain(|run| run["tool"] == "tabane");
    assert_eq!(runs.len(), 12);
    for scenario in [
        "first",
        "unchanged",
        "rescan",
        "changes",
        "restore",
        "check",
    ] {
        assert_eq!(
            runs.iter()
                .filter(|run| run["scenario"] == scenario)
                .count(),
            2
        );
    }
    for run in runs {
        assert!(run["wall_s"].as_f64().unwrap() > 0.0);
        assert!(run["peak_rss_mb"].as_f64().unwrap() > 0.1);
        assert!(run["repository_mb"].as_f64().unwrap() >= 0.1);
        if run["scenario"] == "restore" {
            assert_eq!(run["restored_whole"], true, "{errors}");
        }
    }
    // Memory, and two against the floor; the others are set against restic.
    let bars = of("bar");
    assert_eq!(bars.len(), 3);
    assert_eq!(bars.iter().all(|bar| bar["ok"] == true), is_met, "{errors}");
    // The user's own tree was not touched, and nothing is left.
    let after = fs::metadata(tree.join("other")).unwrap();
    assert_eq!(before.modified().unwrap(), after.modified().unwrap());
    assert!(is_tidy(dir.path()));
}

#[test]
fn a_restore_that_loses_a_file_is_found() {
    let script = STAND_IN.replace(
        r#"cp -a "$3/data" "$5/tree" ;;"#,
        r#"cp -a "$3/data" "$5/tree"; rm "$5/tree/other" ;;"#,
    );
    let (dir, stand_in, tree) = set_up(&script);
    let output = bench(
        dir.path(),
        &[
            "--tree",
            tree.to_str().unwrap(),
            "--tabane",
            stand_in.to_str().unwrap(),
            "--peers",
            "none",
            "--runs",
            "1",
            "--scenarios",
            "restore",
            "--strict",
        ],
    );
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("restored 1 of 2 files"), "{errors}");
}

#[test]
fn failures_are_quoted_and_nothing_is_left() {
    let script = STAND_IN.replace("check) ", "check) echo 'pack 17 is damaged' >&2; exit 4;");
    let (dir, stand_in, tree) = set_up(&script);
    let arguments = [
        "--tree",
        tree.to_str().unwrap(),
        "--tabane",
        stand_in.to_str().unwrap(),
        "--peers",
        "none",
    ];
    let output = bench(dir.path(), &arguments);
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("pack 17 is damaged"), "{errors}");
    assert!(is_tidy(dir.path()));

    let missing = dir.path().join("missing");
    let arguments = [
        "--tree",
        missing.to_str().unwrap(),
        "--tabane",
        stand_in.to_str().unwrap(),
    ];
    let output = bench(dir.path(), &arguments);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no directory"));
}
