//! A variable of the environment for every option.

use clap::builder::FalseyValueParser;
use clap::{Arg, ArgAction, Command};

/// Options whose variables are read elsewhere, since a password may come from several places.
const ELSEWHERE: [&str; 4] = [
    "password_file",
    "password_command",
    "from_password_file",
    "from_password_command",
];

/// `command` with a variable for each option that has none: `TABANE_`, the commands that lead to
/// it, and its name. `prefix` is what comes before the name.
pub fn add(command: Command, prefix: &str) -> Command {
    let command = command.mut_args(|arg| with_variable(arg, prefix));
    command.mut_subcommands(|below| {
        let prefix = format!("{prefix}_{}", upper(below.get_name()));
        add(below, &prefix)
    })
}

/// `command` without any variable.
pub fn remove(command: Command) -> Command {
    let command = command.mut_args(|arg| arg.env(None));
    command.mut_subcommands(remove)
}

fn with_variable(arg: Arg, prefix: &str) -> Arg {
    let id = arg.get_id().as_str();
    let is_option = !arg.is_positional() && !arg.is_hide_set() && !ELSEWHERE.contains(&id);
    let takes_values = match arg.get_action() {
        ArgAction::Set | ArgAction::Append | ArgAction::Count => true,
        ArgAction::SetTrue => false,
        // Help and version.
        _ => return arg,
    };
    let Some(long) = arg
        .get_long()
        .filter(|_| is_option && arg.get_env().is_none())
    else {
        return arg;
    };
    let name = format!("{prefix}_{}", upper(long));
    let arg = arg.env(name).hide_env(true);
    if takes_values {
        arg
    } else {
        // 0, false, no and nothing mean that it is not given.
        arg.value_parser(FalseyValueParser::new())
    }
}

fn upper(name: &str) -> String {
    name.replace('-', "_").to_ascii_uppercase()
}
