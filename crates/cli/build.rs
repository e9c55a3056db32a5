//! What `tabane version` says of the build.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| env::var(name).expect("cargo sets it");
    let rustc = Command::new(variable("RUSTC")).arg("--version").output();
    let rustc = rustc.expect("the compiler that builds this can be run");
    let rustc = String::from_utf8(rustc.stdout).expect("a version is text");
    // rustc 1.95.0 (59807616e 2026-04-14)
    let rustc = rustc.split_whitespace().nth(1).expect("a version");
    // cargo test and cargo run set these variables for the program too, so none may be named as
    // one of its options is: TABANE_PROFILE would choose a profile of the configuration file.
    println!("cargo::rustc-env=BUILD_RUSTC={rustc}");
    println!("cargo::rustc-env=BUILD_TARGET={}", variable("TARGET"));
    println!("cargo::rustc-env=BUILD_PROFILE={}", variable("PROFILE"));
}
