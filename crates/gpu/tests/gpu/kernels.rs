//! The text of the kernels, compiled for the processor, beside OpenSSL, under sanitizers.

use std::process::Command;

use crate::bed::build;

/// Builds `check.cpp` with a sanitizer, and runs it.
fn check(sanitizer: &str) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("check");
    let sanitize = format!("-fsanitize={sanitizer}");
    let options = [
        "-g1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-unused-parameter",
        "-Wno-unknown-pragmas",
    ];
    let options = [&options[..], &["-fno-sanitize-recover=all", &sanitize]].concat();
    if build("check.cpp", &program, &options).is_none() {
        return;
    }
    let output = Command::new(&program).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => {
            let compared = text
                .trim()
                .strip_prefix("compared ")
                .and_then(|count| count.parse().ok());
            assert!(compared > Some(30_000), "{text}");
        }
        Some(3) => println!("NOT CHECKED: kernels of the card beside OpenSSL: {text}"),
        // The kernel of the system gives addresses that it does not know.
        _ if errors.contains("unexpected memory mapping") => {
            println!("NOT CHECKED: kernels of the card under {sanitizer}: {errors}");
        }
        _ => panic!("{text}{errors}"),
    }
}

#[test]
fn equal_openssl_with_no_bad_access() {
    check("address,undefined");
}

#[test]
fn equal_openssl_with_no_race() {
    check("thread");
}
