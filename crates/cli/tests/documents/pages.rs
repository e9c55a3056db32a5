//! Every block of README and of the tutorial, run in a shell as a reader would.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use tabane_testing::documents::console::{self, Shell};
use tabane_testing::documents::{self, code_blocks};

#[test]
fn what_readme_shows_happens() {
    run("README.md");
}

#[test]
fn what_the_tutorial_shows_happens() {
    run("docs/tutorial.md");
}

/// Runs all console blocks of a page, in order, in one shell.
fn run(page: &str) {
    let tabane = Path::new(env!("CARGO_BIN_EXE_tabane"));
    let home = console::home(tabane);
    let mut shell = Shell::start(home.path(), &home.path().join(".local/bin"), None);
    let text = documents::read(Path::new(page));
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut wrong = String::new();
    for block in code_blocks(&text) {
        assert_eq!(block.language, "console", "{page}, line {}", block.line);
        // A block may go to another directory, as a reader in a new terminal would not.
        shell.run("cd");
        for step in console::steps(&block.text) {
            let ran = shell.run(&step.command);
            let expected = console::normal(&step.expected, home.path());
            let printed = console::normal(&ran.output, home.path());
            if console::agree(&expected, &printed) {
                continue;
            }
            let line = block.line + step.line;
            let _ = writeln!(
                wrong,
                "{page}, line {line}: {}prints (exit code {}):\n{}instead of:\n{}",
                step.command, ran.code, ran.output, step.expected
            );
            // Lines keep their numbers: what is new is put behind the command's last line, and
            // what is old is taken away later.
            let end = line - 1 + step.command.lines().count();
            for old in &mut lines[end..end + step.expected.lines().count()] {
                "\0".clone_into(old);
            }
            let shown = ran
                .output
                .replace(&home.path().display().to_string(), "/home/ada");
            lines[end - 1] += "\n";
            lines[end - 1] += &shown;
        }
    }
    if wrong.is_empty() {
        return;
    }
    assert!(super::updates(), "{wrong}");
    lines.retain(|line| line != "\0");
    let text: String = lines
        .iter()
        .map(|line| format!("{}\n", line.trim_end_matches('\n')))
        .collect();
    fs::write(documents::root().join(page), text).expect("the page can be written");
    println!("{page} is written anew:\n{wrong}");
}
