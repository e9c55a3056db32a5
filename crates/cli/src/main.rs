//! The `tabane` command.
//!
//! `main` sets the process up and turns results into exit codes; each command is one file in
//! [`commands`] and one line of the table there. The library is `tabane_store`.

// Only `streams` has some.
#![deny(unsafe_code)]

mod advice;
mod args;
mod colour;
mod commands;
mod config;
mod exit;
mod format;
mod fs_snapshot;
mod help;
mod hooks;
mod key_paper;
mod metrics;
mod ncdu;
mod output;
mod password;
mod process;
mod progress;
mod reporter;
mod retention;
mod schedule;
mod select;
mod self_test;
mod streams;
mod transferred;
mod unknown;
mod variables;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};

use args::Global;
use colour::Colour;
use exit::{Exit, Failure};

/// Encrypted, deduplicated backups of files
#[derive(Parser)]
#[command(name = "tabane", version, about, max_term_width = 100)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = exit::HELP, after_long_help = exit::LONG_HELP)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    streams::keep_closed();
    process::exit_on_panic();
    match run() {
        Ok(exit) => exit.into(),
        Err(failure) => report(&failure),
    }
}

/// Does what the arguments say.
fn run() -> Result<Exit, Failure> {
    process::harden();
    process::exit_on_signals()?;
    // With variables for arguments, clap would not see that there are none.
    if std::env::args_os().len() < 2 {
        write!(io::stderr(), "{}", definition().render_help())?;
        return Ok(Exit::Usage);
    }
    let args: Vec<OsString> = std::env::args_os().collect();
    // Wrong usage is reported in JSON too.
    let variable = std::env::var_os("TABANE_JSON").unwrap_or_default();
    exit::tell_in_json(
        !["", "0", "false"].iter().any(|off| variable == *off)
            || args
                .iter()
                .take_while(|arg| *arg != "--")
                .any(|arg| arg == "--json"),
    );
    let cli = match parse(definition(), &args)? {
        Ok(cli) => cli,
        Err(error) => return explain(&error, &args),
    };
    exit::tell_in_json(cli.global.json);
    tabane_lanes::Backend::forced().map_err(|error| Failure::Other(error.to_string()))?;
    cli.global.repository.gpu.set();
    let exit = cli.command.run(&cli.global);
    if let Some(error) = tabane_engine::gpu::failure() {
        output::warn(format!("{error}; its work was done by the processor"));
    }
    let exit = exit?;
    io::stdout().flush()?;
    Ok(exit)
}

/// What the arguments say, with the profile that they name.
fn parse(
    definition: clap::Command,
    args: &[OsString],
) -> Result<Result<Cli, clap::Error>, Failure> {
    let matches = config::apply_profile(definition, args)?.try_get_matches_from(args);
    Ok(matches.and_then(|matches| Cli::from_arg_matches(&matches)))
}

/// Checks that a command line with these arguments can be started, in any environment.
fn check_arguments<'a>(args: impl Iterator<Item = &'a String>) -> Result<(), String> {
    let program = OsString::from("tabane");
    let args: Vec<OsString> = std::iter::once(program)
        .chain(args.map(OsString::from))
        .collect();
    let parsed = parse(variables::remove(definition()), &args).map_err(|why| why.to_string())?;
    match parsed {
        Err(error) if error.exit_code() == 0 => Err("it only prints a text".to_owned()),
        Err(error) => Err(sentence(&error, &args)),
        Ok(_) => Ok(()),
    }
}

/// Prints the requested help, or the error of the arguments.
fn explain(error: &clap::Error, args: &[OsString]) -> Result<Exit, Failure> {
    use clap::error::ErrorKind;
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            error.print()?;
            Ok(Exit::Success)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            error.print()?;
            Ok(Exit::Usage)
        }
        _ => Err(Failure::Usage(sentence(error, args))),
    }
}

/// What is wrong with the arguments.
fn sentence(error: &clap::Error, args: &[OsString]) -> String {
    if error.kind() == clap::error::ErrorKind::UnknownArgument {
        return unknown::explain(error, &named(args));
    }
    if let Some(text) = unknown::explain_command(error, &named(args)) {
        return text;
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    text.trim_end().to_owned()
}

/// The definition of the command that the arguments name.
fn named(args: &[OsString]) -> clap::Command {
    let mut command = definition();
    command.build();
    let lenient = definition().ignore_errors(true).try_get_matches_from(args);
    let mut given = lenient.as_ref().ok();
    while let Some((name, below)) = given.and_then(ArgMatches::subcommand)
        && let Some(found) = command.find_subcommand(name)
    {
        command = found.clone();
        given = Some(below);
    }
    command
}

/// Says what went wrong, as text or as restic does it in JSON; returns how the process ends.
fn report(failure: &Failure) -> ExitCode {
    if let Failure::Output(error) = failure
        && error.kind() == io::ErrorKind::BrokenPipe
    {
        process::die_of_broken_pipe();
    }
    if let Some(line) = exit::in_json(failure.exit(), &failure.to_string()) {
        let _ = writeln!(io::stderr(), "{line}");
        return failure.exit().into();
    }
    let text = match failure {
        // The lines are clap's own, with the user's words quoted.
        Failure::Usage(text) => text.clone(),
        _ => format::printable(&failure.to_string()),
    };
    let _ = writeln!(io::stderr(), "{} {text}", Colour::Red.on_stderr("tabane:"));
    failure.exit().into()
}

/// The definition of all commands, for completions and manual pages.
fn definition() -> clap::Command {
    let definition = Cli::command().mut_subcommands(|command| {
        let mut without = commands::WITHOUT_REPOSITORY.iter();
        match without.find(|(name, _)| *name == command.get_name()) {
            Some((_, used)) => args::without_repository(command, used),
            None => command,
        }
    });
    variables::add(help::shorten(definition), "TABANE")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_definition_is_consistent() {
        super::definition().debug_assert();
    }
}
