//! Tests that start themselves, since what they test is read once a process.

use std::process::Command;

/// The test of this name in a process of its own, which prints what it has to say; these words,
/// those of [`runner`] at least, come before the program.
pub fn test(name: &str, words: impl IntoIterator<Item = String>) -> Command {
    let program = std::env::current_exe().expect("the test program has a path");
    let mut words = words
        .into_iter()
        .map(Into::into)
        .chain([program.into_os_string()]);
    let mut command = Command::new(words.next().expect("the program at least"));
    command.args(words).args(["--exact", name, "--nocapture"]);
    command
}

/// The words of `TABANE_TEST_RUNNER`, with which a machine runs programs that it cannot run by
/// itself.
pub fn runner() -> Vec<String> {
    let runner = std::env::var("TABANE_TEST_RUNNER").unwrap_or_default();
    runner.split_whitespace().map(str::to_owned).collect()
}
