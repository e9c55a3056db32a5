//! The reference of commands is what `--help` prints.

use std::fmt::Write;
use std::fs;
use std::process::Command;

use tabane_testing::documents;

const PAGE: &str = "docs/reference/commands.md";

const HEAD: &str = "\
# Commands

All commands with all their options, as `tabane COMMAND --help` prints them; `-h` prints the
options that are used most. `make documents` makes this page from the program. Options of all
commands stand at the first one only, [below](#options-of-all-commands).
";

#[test]
fn the_reference_of_commands_is_what_the_command_prints() {
    let mut page = HEAD.to_owned();
    let mut global = String::new();
    let top = help(&[]);
    let _ = write!(page, "\n```text\n{top}```\n");
    for command in commands(&top) {
        write_command(&mut page, &mut global, &[&command]);
    }
    let _ = write!(
        page,
        "\n## Options of all commands\n\n```text\n{global}```\n"
    );
    let path = documents::root().join(PAGE);
    if super::updates() {
        fs::write(&path, &page).expect("the page can be written");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    let differs = page
        .lines()
        .zip(found.lines())
        .find(|(now, then)| now != then);
    assert!(
        page == found,
        "{PAGE} is not what the command prints now; run `make documents`: {differs:?}"
    );
}

/// A command and those below it.
fn write_command(page: &mut String, global: &mut String, words: &[&str]) {
    let text = help(words);
    let (own, shared) = text
        .split_once("\nGlobal options:\n")
        .unwrap_or((&text, ""));
    // What follows the options, as examples do.
    let shared_end = shared
        .match_indices("\n\n")
        .find(|(at, _)| !shared[at + 2..].starts_with(' '))
        .map_or(shared.len(), |(at, _)| at + 1);
    let (shared, after) = shared.split_at(shared_end);
    if global.len() < shared.len() {
        shared.clone_into(global);
    }
    let level = "#".repeat(words.len() + 1);
    let name = words.join(" ");
    let _ = write!(
        page,
        "\n{level} tabane {name}\n\n```text\n{own}{after}```\n"
    );
    for below in commands(&text) {
        if below != "help" {
            write_command(page, global, &[words, &[below.as_str()]].concat());
        }
    }
}

/// Names of the commands in a help text.
fn commands(help: &str) -> Vec<String> {
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let list = list.take_while(|line| line.starts_with("  "));
    let name = |line: &str| -> Option<String> {
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        (!name.is_empty() && name != "help").then(|| name.to_owned())
    };
    list.filter_map(name).collect()
}

fn help(words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tabane"));
    command
        .args(words)
        .arg("--help")
        .env_clear()
        .env("HOME", "/home/ada");
    let output = command.output().expect("the command can be started");
    assert!(output.status.success(), "{words:?} --help");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let end = |line: &str| format!("{}\n", line.trim_end());
    text.lines().map(end).collect()
}
