//! What commands print with `--json`.

use std::process::Output;

use serde_json::Value;

/// The objects that a command printed, one a line.
///
/// # Panics
/// When it failed.
pub fn json_lines(output: &Output) -> Vec<Value> {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let lines = output.stdout.split(|&byte| byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty());
    lines
        .map(|line| serde_json::from_slice(line).expect("an object"))
        .collect()
}

/// Those of one `kind`.
pub fn of_kind<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["kind"] == kind).collect()
}
