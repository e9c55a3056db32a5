//! `make install-from` and `make uninstall`.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Where the Makefile is.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn make(goal: &str, root: &Path, from: &Path) {
    let assignment = |name: &str, path: &Path| format!("{name}={}", path.display());
    let output = Command::new("make")
        .args(["--directory", ROOT, goal, "PREFIX=/usr"])
        .args([assignment("DESTDIR", root), assignment("FROM", from)])
        // Of the make that runs the tests.
        .env_remove("MAKEFLAGS")
        .env_remove("MAKELEVEL")
        .output()
        .expect("make can be started");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "make {goal}: {stderr}");
}

#[test]
fn what_make_install_copies_runs_and_make_uninstall_removes_all_of_it() {
    let built = Path::new(env!("CARGO_BIN_EXE_tabane"));
    let from = built.parent().expect("a folder");
    if Command::new("make").arg("--version").output().is_err() {
        println!("NOT CHECKED: make install: there is no make");
        return;
    }
    if !from.join("deps/libtabane_provider.so").exists() {
        println!("NOT CHECKED: make install: the provider is not built (cargo build --workspace)");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path();
    make("install-from", root, from);
    let installed = Command::new(root.join("usr/bin/tabane"))
        .arg("version")
        .env_remove("TABANE_SIMD")
        .output()
        .expect("the installed command can be started");
    assert!(installed.status.success());
    for copied in [
        "share/man/man1/tabane.1",
        "share/man/man1/tabane-backup.1",
        "share/bash-completion/completions/tabane",
        "share/zsh/site-functions/_tabane",
        "share/fish/vendor_completions.d/tabane.fish",
        "lib/tabane/tabane.so",
    ] {
        let copied = root.join("usr").join(copied);
        let len = fs::metadata(&copied).map_or(0, |found| found.len());
        assert!(len > 0, "{} was not installed", copied.display());
    }
    make("uninstall", root, from);
    let left: Vec<_> = tabane_testing::compare::contents(root)
        .into_keys()
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
