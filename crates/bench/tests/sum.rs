//! The whole of `tabane-bench sum`, with a script in Tabane's place.

use std::fs;
use std::process::{Command, Output};

use tabane_testing::files;
use tabane_testing::output::json_lines;
use tempfile::TempDir;

/// Takes the command lines of Tabane and asks coreutils.
const STAND_IN: &str = r#"#!/bin/sh
case "$1 $2" in
    "sum -a") [ "$4" = --files0-from ] && exec xargs -0 -a "$5" "$3sum" ;;
    "sum --etag") [ "$3" = 8MiB ] && exec md5sum "$4" ;;
esac
exit 64
"#;

fn bench(stand_in: &str, arguments: &[&str]) -> (TempDir, Output) {
    let dir = tempfile::tempdir().unwrap();
    let tabane = dir.path().join("tabane");
    files::script(&tabane, stand_in);
    let tree = dir.path().join("tree");
    fs::create_dir(&tree).unwrap();
    for number in 0..30 {
        fs::write(tree.join(number.to_string()), vec![7; number * 1000]).unwrap();
    }
    let work = dir.path().join("work");
    fs::create_dir(&work).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_tabane-bench"))
        .args(["sum", "--etag", "1", "--rounds", "2"])
        .args(arguments)
        .arg("--tree")
        .arg(&tree)
        .arg("--work")
        .arg(&work)
        .arg("--tabane")
        .arg(&tabane)
        .output()
        .unwrap();
    assert_eq!(fs::read_dir(work).unwrap().count(), 0);
    (dir, output)
}

fn coreutils() -> bool {
    let found = Command::new("md5sum").arg("--version").output().is_ok();
    if !found {
        println!("NOT CHECKED: tabane-bench sum, since md5sum is not installed");
    }
    found
}

#[test]
fn json_of_sums() {
    if !coreutils() {
        return;
    }
    let arguments = [
        "--json",
        "--algorithms",
        "md5,sha1",
        "--min-size",
        "1",
        "--count",
        "10",
        "--largest",
    ];
    let (_dir, output) = bench(STAND_IN, &arguments);
    let lines = json_lines(&output);
    assert!(lines.iter().all(|line| line["bench"] == "sum"));
    assert_eq!(lines[0]["kind"], "host");
    assert_eq!(lines[0]["files"], 10);
    assert_eq!(lines[0]["total_bytes"], (20..30).sum::<u64>() * 1000);
    for what in ["md5", "sha1", "etag"] {
        let line = |program: &str| {
            let mut of = lines
                .iter()
                .filter(|line| line["what"] == what && line["program"] == program);
            of.next()
                .unwrap_or_else(|| panic!("{what} {program}: {lines:?}"))
        };
        assert_eq!(line("tabane")["wall_theirs_by_ours"], 1.0);
        assert_eq!(line("coreutils")["rounds"], 2);
        assert!(line("coreutils")["bar"].is_number());
        assert!(line("tabane")["bar"].is_null());
    }
}

#[test]
fn missed_bars_and_wrong_sums_are_failures() {
    if !coreutils() {
        return;
    }
    let (_dir, output) = bench(STAND_IN, &["--strict", "--algorithms", "md5"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("MISSED"));
    let wrong = STAND_IN.replace("\"$3sum\"", "sha1sum");
    let (_dir, output) = bench(&wrong, &["--algorithms", "md5"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("different lines"));
}
