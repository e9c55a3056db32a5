//! Runs one test of this test program in a process of its own.

use std::path::PathBuf;
use std::process::Command;

/// Says in a child process what it is to do; not set in any other.
const TASK: &str = "TABANE_TEST_TASK";

/// What this process was started for by [`child`]; nothing in the test run itself.
pub fn task() -> Option<Vec<PathBuf>> {
    let task = std::env::var_os(TASK)?;
    Some(std::env::split_paths(&task).collect())
}

/// A command that runs one test alone, with a task: words and paths without colons.
pub fn child<Test: Fn()>(_test: Test, task: &[PathBuf]) -> Command {
    // The path of the function, of which the harness knows all but the name of the crate.
    let path = std::any::type_name::<Test>();
    let (_, name) = path.split_once("::").expect("a path within a crate");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(TASK, std::env::join_paths(task).unwrap());
    command
}
