//! The short help of `-h`, which fits a screen. `--help` and the manual pages are complete.

use clap::Command;

/// Examples that `-h` shows of a command.
const EXAMPLES_SHOWN: usize = 2;

/// `command`, and those below it, with a few examples after `-h`, and the rest only after `--help`.
pub fn shorten(command: Command) -> Command {
    let command = command.mut_subcommands(shorten);
    let Some(text) = command.get_after_help().map(ToString::to_string) else {
        return command;
    };
    if command.get_after_long_help().is_some() {
        return command;
    }
    let mut short: Vec<&str> = text
        .lines()
        .skip_while(|line| !is_heading(line))
        .take(1 + EXAMPLES_SHOWN)
        .collect();
    let more = "Explanations and all options: --help";
    short.extend((!short.is_empty()).then_some(""));
    short.push(more);
    let short = short.join("\n");
    command.after_help(short).after_long_help(text)
}

fn is_heading(line: &str) -> bool {
    line == "Example:" || line == "Examples:"
}
