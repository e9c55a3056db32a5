//! Compiles a C program against the header, links it with both kinds of library, and runs it.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder in which cargo has put the libraries for this test.
fn libraries() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.parent().unwrap().to_owned()
}

fn compile(into: &Path, libraries: &[&str]) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let status = Command::new(std::env::var_os("CC").unwrap_or("cc".into()))
        .args([
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-I",
        ])
        .arg(here.join("include"))
        .arg(here.join("tests/header.c"))
        .arg("-o")
        .arg(into)
        .args(libraries)
        .status()
        .expect("a C compiler is needed, as to build everything else: install cc or set CC");
    assert!(status.success());
}

fn run(program: &Path, simd: &str) -> std::process::Output {
    Command::new(program)
        .env("LD_LIBRARY_PATH", program.parent().unwrap())
        .env("TABANE_SIMD", simd)
        .output()
        .unwrap()
}

fn check(name: &str, link: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join(name);
    // The name that the library has for programs that were linked with it.
    let library = libraries().join("libtabane.so");
    symlink(library, folder.path().join("libtabane.so.0")).unwrap();
    compile(&program, link);
    for simd in ["", "portable"] {
        let output = run(&program, simd);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "TABANE_SIMD={simd:?}: {errors}");
    }
    // The first check of a digest fails, with an error code and not with a crash.
    let output = run(&program, "altivec");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

#[test]
fn shared_library() {
    let folder = libraries();
    check("shared", &["-L", folder.to_str().unwrap(), "-ltabane"]);
}

#[test]
fn static_library() {
    let library = libraries().join("libtabane.a");
    check(
        "static",
        &[library.to_str().unwrap(), "-lpthread", "-ldl", "-lm"],
    );
}
