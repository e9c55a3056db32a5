//! `tabane devices` and `--gpu`, with a driver that needs no card.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::bed::{Bed, bare_command, run, varied};

/// A folder with a driver that has these faults: see `driver.cpp`. `None`, after saying so, where
/// there is no compiler.
pub fn driver(faults: &str) -> Option<TempDir> {
    static BUILT: OnceLock<Option<TempDir>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gpu/tests/shim/driver.cpp");
        let compiler = Command::new("c++")
            .args(["-std=c++17", "-O1", "-shared", "-fPIC", "-o"])
            .arg(folder.path().join("libcuda.so.1"))
            .arg(source)
            .args(["-ldl", "-lpthread"])
            .status();
        match compiler {
            Ok(status) => assert!(status.success()),
            Err(error) => {
                println!("NOT CHECKED: graphics cards, since c++ does not run: {error}");
                return None;
            }
        }
        Some(folder)
    });
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(
        built.as_ref()?.path().join("libcuda.so.1"),
        folder.path().join("libcuda.so.1"),
    )
    .unwrap();
    std::fs::write(folder.path().join("faults"), faults).unwrap();
    Some(folder)
}

fn with(driver: &TempDir, mut command: Command) -> Command {
    command.env("LD_LIBRARY_PATH", driver.path());
    command
}

#[test]
fn lists_cores_and_the_card() {
    let Some(driver) = driver("") else { return };
    let ran = run(&mut with(&driver, bare_command(["devices"]))).succeeds();
    assert!(ran.stdout.contains("one core of "), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("No card, but its shim"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("The card's bus: "), "{}", ran.stdout);
    let ran = run(&mut with(&driver, bare_command(["devices", "--json"]))).succeeds();
    let card: serde_json::Value = serde_json::from_str(ran.stdout.lines().nth(1).unwrap()).unwrap();
    assert_eq!(card["name"], "No card, but its shim");
    assert!(card["bytes_per_s"]["sha1"].as_f64() > Some(0.0));
    assert!(card["bus_to_card_bytes_per_s"].as_f64() > Some(0.0));
}

#[test]
fn no_card_is_no_error_unless_it_is_all_that_is_to_hash() {
    let Some(driver) = driver("cards 0") else {
        return;
    };
    let ran = run(&mut with(&driver, bare_command(["devices"]))).succeeds();
    let none = "there is an NVIDIA driver, but no card that it can use";
    assert!(ran.stdout.contains(none), "{}", ran.stdout);
    let bed = Bed::with_repository();
    let file = bed.source().join("docs/notes.txt");
    let sum = |mode: &str| {
        with(
            &driver,
            bare_command(["sum".as_ref(), mode.as_ref(), file.as_os_str()]),
        )
    };
    run(&mut sum("--gpu=auto")).succeeds();
    run(&mut sum("--gpu=only")).fails(1, none);
    let only = bed.command([
        "backup".as_ref(),
        "--gpu=only".as_ref(),
        bed.source().as_os_str(),
    ]);
    run(&mut with(&driver, only)).fails(1, none);
    let test = bare_command(["self-test", "--seconds=0", "--gpu=only"]);
    run(&mut with(&driver, test)).fails(1, none);
    let mut off = sum("--gpu=only");
    run(off.env("TABANE_GPU", "off")).fails(1, none);
    run(&mut sum("--gpu=sometimes")).fails(2, "auto, off, only");
}

/// Runs with a card that works, and with cards that fail in the middle.
#[test]
fn sums_and_backups_are_right_whatever_the_card_does() {
    for (faults, warns) in [
        ("", None),
        ("error 214\nafter 22", Some("ECC")),
        ("wrong 1\nafter 22", Some("computes wrongly")),
    ] {
        let Some(driver) = driver(faults) else { return };
        let bed = Bed::with_repository();
        for len in [3_000_001, 70_000, 60_001, 50_002, 9000] {
            std::fs::write(bed.source().join(format!("of {len}")), varied(len)).unwrap();
        }
        let source = bed.source();
        let listed = |mode: &str| {
            let args = [
                "sum".as_ref(),
                "-r".as_ref(),
                mode.as_ref(),
                source.as_os_str(),
            ];
            let ran = run(&mut with(&driver, bare_command(args)));
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
            ran
        };
        let by_card = listed("--gpu=only");
        assert_eq!(by_card.stdout, listed("--gpu=off").stdout);
        let backup = bed.command([
            "backup".as_ref(),
            "--gpu=only".as_ref(),
            bed.source().as_os_str(),
        ]);
        let made = run(&mut with(&driver, backup));
        assert_eq!(made.code, Some(0), "{}", made.stderr);
        for ran in [&by_card, &made] {
            match warns {
                Some(text) => assert!(ran.stderr.contains(text), "{}", ran.stderr),
                None => assert_eq!(ran.stderr, ""),
            }
        }
        bed.run(["check", "--read-data"]).succeeds();
    }
}
