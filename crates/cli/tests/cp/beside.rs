//! What `tabane cp` says and does, beside GNU cp.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tabane_testing::compare::assert_same;
use tabane_testing::files;

fn lay_out(directory: &Path) {
    for name in ["d", "s/sub", "clash/f"] {
        fs::create_dir_all(directory.join(name)).unwrap();
    }
    files::write(directory.join("f"), b"f");
    files::write(directory.join("it's"), b"g");
    files::write(directory.join("clash/s"), b"");
    files::write(directory.join("s/sub/x"), b"x");
    symlink("f", directory.join("link")).unwrap();
    for number in 0..2 {
        files::set_mtime(&directory.join(["f", "it's"][number]), 1_000_000, 5);
    }
}

fn run(program: &[&str], args: &[&str], directory: &Path) -> Output {
    Command::new(program[0])
        .args(&program[1..])
        .args(args)
        .current_dir(directory)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn says_and_does_what_cp_does() {
    let version = Command::new("cp").arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    if !version.is_ok_and(|text| text.contains("GNU coreutils) 9.")) {
        println!("NOT CHECKED: tabane cp beside cp: it is not of GNU coreutils 9");
        return;
    }
    for args in [
        &["-a", "f", "new"][..],
        &["-a", "f", "it's", "d"],
        &["-r", "s", "d"],
        &["-R", "s/.", "d"],
        &["-a", "s", "new"],
        &["-aT", "s", "d"],
        &["-a", "link", "d"],
        &["-a", "-t", "d", "f", "s"],
        &["-a", "f", "it's", "missing"],
        &["-a", "f", "s", "it's"],
        &["-a", "missing", "f", "d"],
        &["-a", "d", "d"],
        &["-a", "d", "d/new"],
        &["-aT", "d", "d"],
        &["-a", "it's", "it's"],
        &["-aT", "f", "d"],
        &["-aT", "d", "f"],
        &["-a", "f", "new/"],
        &["-a", "s", "missing/x"],
        &["-a", "f", "missing/x"],
        &["-a", "f", "clash"],
        &["-a", "s", "clash"],
        &["-a", "f", "s/sub/../../it's", "link", "d"],
        &["-a", "-t", "f", "s"],
        &["-a", "-t", "missing", "s"],
    ] {
        let beds = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        for bed in &beds {
            lay_out(bed.path());
        }
        let ours = run(
            &[env!("CARGO_BIN_EXE_tabane"), "cp", "--quiet"],
            args,
            beds[0].path(),
        );
        let theirs = run(&["cp"], args, beds[1].path());
        assert_eq!(
            ours.status.code(),
            theirs.status.code(),
            "{args:?} {ours:?}"
        );
        let text = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = text(&theirs).replace("cp: ", "tabane: ");
        assert_eq!(text(&ours), expected, "{args:?}");
        assert!(ours.stdout.is_empty());
        let list = |bed: &Path| tabane_testing::compare::contents(bed);
        assert_eq!(list(beds[0].path()), list(beds[1].path()), "{args:?}");
    }
}

#[test]
fn json_and_wrong_usage() {
    let bed = tempfile::tempdir().unwrap();
    lay_out(bed.path());
    let tabane = [env!("CARGO_BIN_EXE_tabane"), "cp"];
    let output = run(
        &tabane,
        &["--json", "--verify=reread", "s", "f", "d"],
        bed.path(),
    );
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let object: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(object["message_type"], "summary");
    assert_eq!(
        (&object["copied_files"], &object["copied_directories"]),
        (&2.into(), &2.into())
    );
    assert_eq!(object["skipped_files"], 0);
    assert_eq!(
        (&object["errors"], &object["reread_bytes"]),
        (&0.into(), &2.into())
    );
    assert_same(&bed.path().join("s"), &bed.path().join("d/s"));
    // What is there counts apart, and not to the speed.
    let output = run(&tabane, &["--json", "s", "f", "d"], bed.path());
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for (name, count) in [
        ("copied_files", 0),
        ("copied_directories", 0),
        ("skipped_files", 2),
        ("skipped_directories", 2),
        ("skipped_bytes", 2),
    ] {
        assert_eq!(object[name], count, "{name}");
    }
    assert_eq!(object["speed_mb_per_s"], 0.0);
    let output = run(&tabane, &["s", "f", "d"], bed.path());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.starts_with("copied 0 files, 0 directories, 0 others: 0 B in "),
        "{text}"
    );
    let there = "\n2 files, 2 directories, 0 others were there already: 2 B\n";
    assert!(text.contains(there), "{text}");
    for (args, what) in [
        (&["f"][..], "missing destination file operand after 'f'"),
        (&["-T", "f", "s", "d"], "extra operand 'd'"),
        (&["--algorithm", "md4", "f", "d"], "xxh3"),
        (&["--verify", "twice", "f", "d"], "written"),
    ] {
        let output = run(&tabane, args, bed.path());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            text.starts_with("tabane: ") && text.contains(what),
            "{text}"
        );
    }
}

#[test]
fn the_summary_says_nothing_of_what_was_not_tried() {
    let bed = tempfile::tempdir().unwrap();
    lay_out(bed.path());
    let tabane = [env!("CARGO_BIN_EXE_tabane"), "cp"];
    let output = run(&tabane, &["missing", "d"], bed.path());
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    // Too few bytes for a rate.
    let output = run(&tabane, &["f", "missing", "d"], bed.path());
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    let beginning = "copied 1 file, 0 directories, 0 others: 1 B in ";
    assert!(
        text.starts_with(beginning) && !text.contains("/s"),
        "{text}"
    );
}

#[test]
fn a_manifest_is_checked_in_the_target_and_at_the_source() {
    for (args, target, source) in [
        (&["s", "f", "d"][..], "d", Some(".")),
        (&["s", "new"], "new", Some("s")),
        (&["-T", "s", "d"], "d", Some("s")),
        (&["s/.", "d"], "d", Some("s")),
        (&["f", "new"], ".", None),
        (&["f", "d"], "d", Some(".")),
    ] {
        let bed = tempfile::tempdir().unwrap();
        lay_out(bed.path());
        let manifest = bed.path().join("manifest");
        let tabane = [
            env!("CARGO_BIN_EXE_tabane"),
            "cp",
            "-q",
            "--manifest",
            "manifest",
        ];
        let output = run(&tabane, args, bed.path());
        assert!(output.status.success(), "{output:?}");
        // Also when the target is elsewhere.
        let elsewhere = tempfile::tempdir().unwrap();
        let moved = elsewhere.path().join("moved");
        fs::rename(bed.path().join("d"), &moved).unwrap();
        let moved_to = if target == "d" {
            moved
        } else {
            bed.path().join(target)
        };
        let source = source.map(|source| bed.path().join(source));
        for place in [Some(moved_to), source].into_iter().flatten() {
            let check = [env!("CARGO_BIN_EXE_tabane"), "sum", "--check", "--strict"];
            let output = run(&check, &[manifest.to_str().unwrap()], &place);
            assert!(output.status.success(), "{args:?} {output:?}");
        }
    }
}

#[test]
fn the_version_is_a_line_as_of_coreutils() {
    let tabane = [env!("CARGO_BIN_EXE_tabane"), "cp"];
    let output = run(&tabane, &["--version"], Path::new("."));
    assert!(output.status.success(), "{output:?}");
    let version = format!("cp (tabane) {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), version);
}
