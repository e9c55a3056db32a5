//! The whole of `tabane-bench cp`, with scripts in the place of Tabane and rsync.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Output};

use serde_json::Value;
use tabane_bench::tools::find_in_path;
use tabane_testing::files;
use tabane_testing::output::json_lines;

/// Takes the command lines of Tabane and asks cp.
const TABANE: &str = r#"#!/bin/sh
[ "$1 $2" = "cp --no-sync" ] || exit 64
while [ $# -gt 3 ]; do
    [ "$1" = --manifest ] && echo > "$2"
    shift
done
[ "$1" = -T ] && exec cp -a "$2" "$3"
exit 64
"#;

/// Takes the command lines of rsync and asks cp.
const RSYNC: &str = r#"#!/bin/sh
case "$*" in
    --version) echo a script ;;
    "-a --checksum --dry-run "*) [ -e "$5" ] ;;
    *) [ $# = 3 ] && exec cp "$@" ;;
esac
"#;

/// Runs `tabane-bench cp` with only these programs and cp in PATH; `None` if cp is missing.
fn bench(tabane: &str, rsync: Option<&str>, arguments: &[&str]) -> Option<Output> {
    let dir = tempfile::tempdir().unwrap();
    let programs = dir.path().join("bin");
    fs::create_dir(&programs).unwrap();
    for name in ["cp", "sh", "sleep"] {
        symlink(find_in_path(name)?, programs.join(name)).unwrap();
    }
    let ours = dir.path().join("tabane");
    files::script(&ours, tabane);
    if let Some(rsync) = rsync {
        files::script(&programs.join("rsync"), rsync);
    }
    let work = dir.path().join("work");
    fs::create_dir(&work).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_tabane-bench"))
        .args(["cp", "--large", "1", "--files", "300", "--rounds", "2"])
        .args(arguments)
        .arg("--work")
        .arg(&work)
        .arg("--tabane")
        .arg(&ours)
        .env("PATH", &programs)
        .output()
        .unwrap();
    assert_eq!(fs::read_dir(work).unwrap().count(), 0);
    Some(output)
}

fn not_checked() {
    println!("NOT CHECKED: tabane-bench cp, since cp, sh or sleep is not installed");
}

#[test]
fn json_of_copies() {
    let Some(output) = bench(TABANE, Some(RSYNC), &["--json"]) else {
        return not_checked();
    };
    let lines = json_lines(&output);
    assert!(lines.iter().all(|line| line["bench"] == "cp"));
    assert_eq!(lines[0]["kind"], "host");
    for (what, files) in [("large", 1), ("small", 300)] {
        let of = |kind: &str| -> Vec<&Value> {
            let lines = lines.iter();
            lines
                .filter(|line| line["what"] == what && line["kind"] == kind)
                .collect()
        };
        let programs: Vec<&str> = of("line")
            .iter()
            .map(|line| line["program"].as_str().unwrap())
            .collect();
        let all = [
            "cp",
            "rsync",
            "none",
            "written",
            "written+manifest",
            "reread",
        ];
        assert_eq!(programs, all);
        for line in of("line") {
            assert_eq!(
                (&line["files"], &line["rounds"]),
                (&files.into(), &2.into())
            );
            assert!(line["wall_s"].is_number() && line["cpu_s"].is_number());
        }
        // Four of ours beside two peers, half of them with a bar.
        let ratios = of("ratio");
        assert_eq!(ratios.len(), 8);
        assert!(
            ratios
                .iter()
                .all(|line| line["wall_theirs_by_ours"].is_number())
        );
        assert_eq!(
            ratios.iter().filter(|line| line["bar"].is_number()).count(),
            4
        );
    }
}

#[test]
fn missed_bars_are_failures_and_missing_programs_are_said() {
    let slow = TABANE.replacen('\n', "\nsleep 0.05\n", 1);
    let arguments = ["--strict"];
    let Some(output) = bench(&slow, None, &arguments) else {
        return not_checked();
    };
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains(">= 0.95 MISSED"));
    assert!(String::from_utf8_lossy(&output.stderr).contains("rsync is NOT INSTALLED"));
}

#[test]
fn wrong_copies_are_failures() {
    let wrong = TABANE.replace("exec cp -a \"$2\" \"$3\"", "echo > \"$3\" && exit 0");
    let Some(output) = bench(&wrong, Some(RSYNC), &[]) else {
        return not_checked();
    };
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("the copy by none differs"), "{errors}");
}
