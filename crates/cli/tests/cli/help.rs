//! What `-h` and `--help` show, and what is said of options that there are not.

use crate::bed::{Bed, bare_command, run};

/// Lines of `-h`, for terminals that have no more.
const LINES_MAX: usize = 40;
/// Columns of the same.
const COLUMNS_MAX: usize = 100;

/// The commands that open no repository, and the options of repositories that they use.
const WITHOUT_REPOSITORY: [(&str, &[&str]); 13] = [
    ("node", &[]),
    ("cache", &["--cache-dir"]),
    ("sum", &["--gpu"]),
    ("cp", &["--gpu"]),
    ("openssl", &[]),
    ("offload", &["--gpu"]),
    ("devices", &[]),
    ("self-test", &["--gpu"]),
    (
        "schedule",
        &["--repo", "--password-file", "--password-command"],
    ),
    ("serve", &[]),
    ("version", &[]),
    ("completions", &[]),
    ("man", &[]),
];

const REPOSITORY_OPTIONS: [&str; 11] = [
    "--repo",
    "--password-file",
    "--password-command",
    "--cache-dir",
    "--no-cache",
    "--gpu",
    "--connections",
    "--limit-upload",
    "--limit-download",
    "--retry-for",
    "--plan",
];

fn help(command: &[String], option: &str) -> String {
    let args = command.iter().map(String::as_str).chain([option]);
    run(bare_command(args).env("COLUMNS", "100"))
        .succeeds()
        .stdout
}

/// The commands that the help of a command lists, and those below them.
fn below(command: &[String]) -> Vec<Vec<String>> {
    let text = help(command, "-h");
    let listed = text.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = listed
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|name| !["", "help"].contains(name));
    let mut all = Vec::new();
    for name in names {
        let command = [command, &[name.to_owned()]].concat();
        all.extend(below(&command));
        all.push(command);
    }
    all
}

/// Whether a help text defines an option.
fn defines(text: &str, option: &str) -> bool {
    let indented = text.lines().filter(|line| line.starts_with("  "));
    indented.map(str::trim_start).any(|line| {
        let names = line.split("  ").next().unwrap_or_default();
        let mut words = names.split([' ', ',', '=', '[']);
        line.starts_with('-') && words.any(|word| word == option)
    })
}

#[test]
fn the_short_help_of_every_command_fits_a_screen() {
    let commands = below(&[]);
    assert!(commands.len() > 40, "{commands:?}");
    let mut too_long = Vec::new();
    for command in &commands {
        let text = help(command, "-h");
        let (lines, name) = (text.lines().count(), command.join(" "));
        if lines > LINES_MAX {
            too_long.push(format!("{name}: {lines} lines"));
        }
        // clap does not wrap how a command is used.
        let wide = text
            .lines()
            .filter(|line| !line.starts_with("Usage: "))
            .find(|line| line.chars().count() > COLUMNS_MAX);
        assert_eq!(wide, None, "{name}");
    }
    assert!(too_long.is_empty(), "{too_long:#?}");
}

#[test]
fn the_long_help_has_the_options_of_repositories_where_they_are_used() {
    for command in below(&[]) {
        let text = help(&command, "--help");
        let without = WITHOUT_REPOSITORY
            .iter()
            .find(|(name, _)| *name == command[0]);
        for option in REPOSITORY_OPTIONS {
            let wanted = without.is_none_or(|(_, used)| used.contains(&option));
            let name = command.join(" ");
            assert_eq!(defines(&text, option), wanted, "{name} {option}: {text}");
        }
    }
}

#[test]
fn the_long_help_and_the_manual_have_what_the_short_help_hides() {
    let command = ["backup".to_owned()];
    let (short, long) = (help(&command, "-h"), help(&command, "--help"));
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("UTF-8");
    run(&mut bare_command(["man", "--quiet", "--dir", path])).succeeds();
    let manual = directory.path().join("tabane-backup.1");
    let manual = std::fs::read_to_string(manual).expect("a page");
    assert!(!defines(&short, "--connections"), "{short}");
    assert!(defines(&long, "--connections"), "{long}");
    assert!(manual.contains("connections"), "{manual}");
    assert!(manual.contains("Examples:"), "{manual}");
    assert!(short.contains("Examples:\n"), "{short}");
    assert!(long.contains("Examples:\n"), "{long}");
}

#[test]
fn global_options_stand_before_or_behind_the_command() {
    let bed = Bed::with_repository();
    let repository = bed.repository().display().to_string();
    for args in [
        ["--repo", &repository, "snapshots", "--json"],
        ["snapshots", "--json", "--repo", &repository],
        ["-r", &repository, "--json", "snapshots"],
    ] {
        let mut command = bed.command(args);
        run(command.env_remove("TABANE_REPOSITORY"))
            .succeeds()
            .says("[]");
    }
    // What is for all commands does not disturb one that opens no repository.
    run(&mut bare_command([
        "--repo",
        &repository,
        "--no-cache",
        "version",
    ]))
    .succeeds();
    bed.run(["version"]).succeeds();
}

#[test]
fn commands_that_open_no_repository_refuse_its_options() {
    for args in [
        ["version", "--repo", "x"],
        ["sum", "--repo", "x"],
        ["cp", "--connections", "3"],
        ["devices", "--no-cache", "--quiet"],
        ["completions", "-r", "x"],
    ] {
        let sentence = format!("`tabane {}` opens no repository", args[0]);
        run(&mut bare_command(args)).fails(2, &sentence);
    }
}

#[test]
fn options_of_restic_that_are_absent_get_a_sentence() {
    for (args, sentence) in [
        (
            "restore --sparse x",
            "`tabane restore` has no --sparse: it makes holes of zeros always",
        ),
        (
            "prune --repack-uncompressed",
            "has no --repack-uncompressed: ",
        ),
        ("snapshots --pack-size 4", "has no --pack-size: "),
        ("--no-lock snapshots", "`tabane` has no --no-lock: "),
        (
            "backup --exclude-cloud-files x",
            "has no --exclude-cloud-files: it is for Windows",
        ),
        ("snapshots -c", "`tabane snapshots` has no --compact: "),
        ("-o s3.x=1 snapshots", "`tabane` has no --option: "),
        ("backup -o s3.x=1 x", "`tabane backup` has no --option: "),
    ] {
        let ran = run(&mut bare_command(args.split(' '))).fails(2, sentence);
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    }
}

#[test]
fn commands_of_restic_and_borg_that_are_absent_get_a_sentence() {
    for (args, sentence) in [
        ("features", "`tabane` has no features: there are none"),
        ("options", "`tabane help COMMAND`"),
        ("debug examine", "`tabane list`"),
        ("generate --man x", "`tabane man`"),
        ("self-update", "in the way that installed it"),
        ("-r /repo create ::archive /home", "`tabane backup`"),
        ("extract ::archive", "`tabane restore`"),
        ("delete ::archive", "`tabane forget SNAPSHOT`"),
        ("info", "`tabane stats`"),
        ("compact", "`tabane prune`"),
        ("with-lock /repo true", "nothing is locked"),
        ("break-lock", "`tabane unlock`"),
        ("export-tar ::archive x", "`tabane dump --archive tar`"),
    ] {
        let ran = run(&mut bare_command(args.split(' '))).fails(2, sentence);
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    }
    let ran = run(&mut bare_command(["key", "generate"])).fails(2, "unrecognized subcommand");
    assert!(!ran.stderr.contains("tabane man"), "{}", ran.stderr);
}

#[test]
fn a_misspelt_option_is_not_taken_for_the_name_of_a_file() {
    for args in [["sum", "--nosuch"], ["restore", "--nosuch"], ["cp", "-y"]] {
        let ran = run(&mut bare_command(args)).fails(2, "unexpected argument '-");
        assert!(!ran.stderr.contains("as a value"), "{}", ran.stderr);
    }
    let ran = run(&mut bare_command(["backup", "--exclud", "x"]));
    ran.fails(2, "a similar argument exists: '--exclude'");
}
