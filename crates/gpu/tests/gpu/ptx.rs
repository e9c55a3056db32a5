//! The committed PTX is what the pinned compiler makes of the kernels, and stays in registers on
//! all cards.

use std::path::Path;
use std::process::Command;

#[test]
fn is_reproducible_and_spills_nothing() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("ptx/build.py");
    let output = match Command::new("python3").arg(script).arg("--check").output() {
        Ok(output) => output,
        Err(error) => return println!("NOT CHECKED: PTX, since python3 does not run: {error}"),
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => println!("{text}"),
        Some(3) => println!("NOT CHECKED: PTX, since its compilers cannot be fetched: {errors}"),
        _ => panic!("{text}{errors}"),
    }
}
