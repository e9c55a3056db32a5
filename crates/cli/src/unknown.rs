//! Messages for options and commands that there are not.
//!
//! Many users know restic or borg. An option of restic, or a command of either, that is absent here
//! gets a sentence that names the alternative, in place of "unexpected argument".

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
    (
        &["backup"],
        "--exclude-cloud-files",
        ": it is for Windows, and Tabane is not; other files are left out by --exclude",
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

/// Short names of options of restic that are absent here.
const SHORT: &[(&str, &str)] = &[("-c", "--compact"), ("-o", "--option")];

/// Commands of restic, borg and kopia that are absent here, and what to do instead, after "tabane
/// has no COMMAND".
const ABSENT_COMMANDS: &[(&str, &str)] = &[
    ("features", ": there are none to switch"),
    (
        "options",
        ": `tabane help COMMAND` lists the options of each command",
    ),
    (
        "debug",
        ": `tabane list` and `tabane cat` show what is stored",
    ),
    (
        "generate",
        ": `tabane completions` and `tabane man` do that",
    ),
    ("self-update", ": update it in the way that installed it"),
    ("rebuild-index", ": `tabane repair index` does that"),
    (
        "create",
        ": `tabane backup` makes snapshots, `tabane init` repositories",
    ),
    (
        "extract",
        ": `tabane restore` brings files back, `tabane dump` prints one",
    ),
    (
        "delete",
        ": `tabane forget SNAPSHOT` removes a snapshot, and `tabane prune` what it needed",
    ),
    (
        "info",
        ": `tabane snapshots` lists snapshots, `tabane stats` measures them",
    ),
    ("compact", ": `tabane prune` frees the space"),
    (
        "recreate",
        ": `tabane rewrite` makes snapshots anew without some files",
    ),
    (
        "rename",
        ": `tabane tag` changes tags and descriptions of snapshots",
    ),
    (
        "comment",
        ": `tabane tag --description` changes the description of a snapshot",
    ),
    (
        "export-tar",
        ": `tabane dump --archive tar` makes an archive",
    ),
    (
        "import-tar",
        ": unpack the archive, and store it with `tabane backup --as-path`",
    ),
    (
        "with-lock",
        ": nothing is locked, so run the program as it is",
    ),
    (
        "break-lock",
        ": nothing is locked; `tabane unlock` removes the records of crashed clients",
    ),
    (
        "change-passphrase",
        ": `tabane key passwd` changes the password",
    ),
    ("umount", ": end `tabane mount` with Ctrl-C, or run umount"),
    (
        "upgrade",
        ": `tabane migrate` brings a repository to the latest format",
    ),
    (
        "config",
        ": `tabane cat config` shows the repository's settings",
    ),
    (
        "transfer",
        ": `tabane copy` copies snapshots, `tabane import` those of restic and borg",
    ),
    ("rcreate", ": `tabane init` makes a repository"),
    ("rlist", ": `tabane snapshots` lists the snapshots"),
    (
        "rinfo",
        ": `tabane stats` and `tabane cat config` show what is known of it",
    ),
    (
        "policy",
        ": options can stand in the configuration file, rules among those of forget",
    ),
    (
        "maintenance",
        ": `tabane forget --prune` removes what is not needed, `tabane check` checks the rest",
    ),
    ("repo-create", ": `tabane init` makes a repository"),
    ("repo-list", ": `tabane snapshots` lists the snapshots"),
    (
        "repo-info",
        ": `tabane stats` and `tabane cat config` show what is known of it",
    ),
];

/// The sentence for clap's error about a command that there is not, if it is one of restic or borg.
pub fn explain_command(error: &clap::Error, command: &Command) -> Option<String> {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let is_below = command.get_name() != "tabane";
    let mut absent = ABSENT_COMMANDS.iter().filter(|_| !is_below);
    let (_, instead) = absent.find(|(absent, _)| absent == given)?;
    Some(format!("`tabane` has no {given}{instead}"))
}

/// The text for clap's error about an argument that `command` does not have.
pub fn explain(error: &clap::Error, command: &Command) -> String {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    if let Some(given) = context(ContextKind::InvalidArg) {
        let option = given.split(['=', ' ']).next().unwrap_or(given);
        let long = SHORT.iter().find(|(short, _)| *short == option);
        let option = long.map_or(option, |(_, long)| *long);
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

    use super::{ABSENT, ABSENT_COMMANDS};

    /// A command, also one that stands below another.
    fn find<'a>(command: &'a Command, name: &str) -> Option<&'a Command> {
        let mut below = command.get_subcommands();
        command
            .find_subcommand(name)
            .or_else(|| below.find_map(|command| command.find_subcommand(name)))
    }

    #[test]
    fn commands_that_are_called_absent_are_absent() {
        let definition = crate::definition();
        for (name, _) in ABSENT_COMMANDS {
            let found = definition.find_subcommand(name);
            assert!(
                found.is_none(),
                "there is a command {name}: take it out of the table"
            );
        }
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
