//! Messages for options that a command lacks.
//!
//! Many users know restic. An option of restic that is absent here gets a sentence that names the
//! alternative, in place of "unexpected argument".

use clap::Command;
use clap::error::{ContextKind, ContextValue};

/// Options of restic that are absent here: the commands that have it in restic (none if all of them
/// have it), the option, and what to do instead, after "tabane COMMAND has no OPTION".
const ABSENT: &[(&[&str], &str, &str)] = &[
    (
        &["backup"],
        "--no-scan",
        ": it scans nothing beforehand, and with --quiet it counts nothing meanwhile either",
    ),
    (
        &["backup", "restore", "rewrite"],
        "--iexclude-file",
        ": give each pattern with --iexclude",
    ),
    (
        &["restore", "rewrite"],
        "--iinclude-file",
        ": give each pattern with --iinclude",
    ),
    (&["restore"], "--sparse", ": it makes holes of zeros always"),
    (
        &["restore"],
        "--ownership-by-name",
        ": owners always come back by their names, unless told --numeric-ids",
    ),
    (
        &["snapshots", "forget"],
        "--compact",
        ": for other tables print --json",
    ),
    (
        &["dump"],
        "--target",
        ": it writes to standard output; add > FILE",
    ),
    (
        &["prune", "forget"],
        "--repack-uncompressed",
        ": every block is compressed when it is stored, if that makes it smaller",
    ),
    (
        &["prune"],
        "--unsafe-recover-no-free-space",
        ": free some space by hand; what is left in the repository's folder tmp can go",
    ),
    (
        &["check"],
        "--with-cache",
        ": it never takes from the cache what is in the repository",
    ),
    (
        &["rewrite"],
        "--snapshot-summary",
        ": every snapshot has a summary",
    ),
    (&["cache"], "--no-size", ": it always shows the sizes"),
    (
        &["migrate"],
        "--force",
        ": after an interruption, run it again; when all is migrated it does nothing",
    ),
    (
        &["init"],
        "--repository-version",
        ": new repositories have the latest format",
    ),
    (
        &["add", "passwd"],
        "--host",
        ": a key names the machine that made it",
    ),
    (
        &["add", "passwd"],
        "--user",
        ": a key names the user who made it",
    ),
    (
        &[],
        "--retry-lock",
        ": only prune excludes others, and then the exit code is 11; run the command again later",
    ),
    (
        &[],
        "--no-lock",
        ": nothing is locked, and a repository that cannot be written can be read",
    ),
    (&[], "--key-hint", ": it tries every key with the password"),
    (
        &[],
        "--from-key-hint",
        ": it tries every key with the password",
    ),
    (
        &[],
        "--repository-file",
        ": name the repository in the configuration file, and use --repo @NAME",
    ),
    (
        &[],
        "--from-repository-file",
        ": name the repository in the configuration file, and use --from-repo @NAME",
    ),
    (
        &[],
        "--insecure-no-password",
        ": every repository has a password",
    ),
    (
        &[],
        "--from-insecure-no-password",
        ": every repository has a password",
    ),
    (
        &[],
        "--new-insecure-no-password",
        ": every repository has a password",
    ),
    (&[], "--cleanup-cache", ": run `tabane cache --cleanup`"),
    (
        &[],
        "--http-user-agent",
        ": requests name Tabane and its version",
    ),
    (
        &[],
        "--stuck-request-timeout",
        ": --retry-for bounds all tries of a request together",
    ),
    (&[], "--pack-size", ": the size of packs is fixed"),
    (
        &[],
        "--option",
        ": --connections and --limit-upload are options of their own",
    ),
];

/// The text for clap's error about an argument that `command` does not have.
pub fn explain(error: &clap::Error, command: &Command) -> String {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    if let Some(given) = context(ContextKind::InvalidArg) {
        let option = given.split(['=', ' ']).next().unwrap_or(given);
        let absent = ABSENT.iter().find(|(commands, absent, _)| {
            *absent == option && (commands.is_empty() || commands.contains(&command.get_name()))
        });
        if let Some((_, _, instead)) = absent {
            let name = command.get_bin_name().unwrap_or(command.get_name());
            return format!("`{name}` has no {option}{instead}");
        }
    }
    // clap offers what the command hides, too.
    let suggested = context(ContextKind::SuggestedArg);
    let is_hidden = suggested.is_some_and(|suggested| {
        let mut hidden = command.get_arguments().filter(|arg| arg.is_hide_set());
        hidden.any(|arg| arg.get_long() == suggested.strip_prefix("--"))
    });
    let is_useless = |line: &str| {
        // clap takes every misspelt option for the name of a file.
        line.starts_with("  tip: to pass '")
            || is_hidden && line.starts_with("  tip: a similar argument")
    };
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let lines: Vec<&str> = text.lines().filter(|line| !is_useless(line)).collect();
    let text = lines.join("\n").replace("\n\n\n", "\n\n");
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::ABSENT;

    /// A command, also one that stands below another.
    fn find<'a>(command: &'a Command, name: &str) -> Option<&'a Command> {
        let mut below = command.get_subcommands();
        command
            .find_subcommand(name)
            .or_else(|| below.find_map(|command| command.find_subcommand(name)))
    }

    #[test]
    fn options_that_are_called_absent_are_absent() {
        let mut definition = crate::definition();
        definition.build();
        for (commands, option, _) in ABSENT {
            let named: Vec<_> = match commands {
                [] => definition.get_subcommands().collect(),
                names => names
                    .iter()
                    .map(|name| find(&definition, name).expect(name))
                    .collect(),
            };
            for command in named {
                let has = command
                    .get_arguments()
                    .any(|arg| arg.get_long() == option.strip_prefix("--"));
                let name = command.get_name();
                assert!(!has, "{name} has {option}: take it out of the table");
            }
        }
    }
}
