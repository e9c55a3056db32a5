//! The configuration file.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::bed::{Bed, PASSWORD, Ran, bare_command, run};
use tabane_testing::mutate::Mutator;

/// A bed with a configuration file, in which `{bed}` is the folder of the bed.
struct Configured {
    bed: Bed,
    file: PathBuf,
}

impl Configured {
    fn new(text: &str) -> Self {
        let bed = Bed::new();
        fs::write(bed.path("password"), PASSWORD).expect("written");
        let file = bed.path("config.toml");
        let text = text.replace("{bed}", &bed.path("").display().to_string());
        fs::write(&file, text).expect("written");
        Self { bed, file }
    }

    /// Without repository and password in the environment.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = bare_command(args);
        command.env("TABANE_CONFIG", &self.file);
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        run(&mut self.command(args))
    }
}

const PROFILES: &str = r#"
[repositories.home]
url = "{bed}/repository"
password-file = "{bed}/password"

[profiles.daily]
repo = "@home"

[profiles.daily.backup]
paths = ["{bed}/source"]
exclude = ["copy.bin", "empty"]
tag = ["daily", "x"]
force = true

[profiles.daily.forget]
keep-last = 1
group-by = "host"

[profiles.other]
repo = "{bed}/elsewhere"
password-command = "cat {bed}/password"
quiet = true
"#;

#[test]
fn repositories_have_names() {
    let configured = Configured::new(PROFILES);
    configured.run(&["init", "--repo", "@home"]).succeeds();
    assert!(configured.bed.repository().join("config").exists());
    let mut command = configured.command(&["snapshots"]);
    run(command.env("TABANE_REPOSITORY", "@home"))
        .succeeds()
        .says("0 snapshots");
    // An option for the password goes before the file's, and a variable does not.
    let mut command = configured.command(&["snapshots", "-r", "@home"]);
    run(command.env("TABANE_PASSWORD", "wrong")).succeeds();
    let wrong = configured.run(&[
        "snapshots",
        "-r",
        "@home",
        "--password-command",
        "echo wrong",
    ]);
    wrong.fails(12, "wrong password");
    configured
        .run(&["snapshots", "-r", "@hom"])
        .fails(2, "no repository is called hom in ");
    configured
        .run(&["snapshots", "-r", "@hom"])
        .fails(2, "(did you mean home?)");
    // What needs no repository needs no file.
    let mut command = configured.command(&["version"]);
    run(command.env("TABANE_REPOSITORY", "@nowhere")).succeeds();
}

#[test]
fn a_profile_gives_options_and_the_command_line_goes_before_it() {
    let configured = Configured::new(PROFILES);
    configured.run(&["-P", "daily", "init"]).succeeds();
    let made = configured
        .run(&["backup", "--profile", "daily", "--json"])
        .succeeds()
        .last_json();
    assert_eq!(made["files_new"], 3);
    let files = |args: &[&str]| {
        let args = [&["backup", "-P", "daily", "--json"], args].concat();
        let made = configured.run(&args).succeeds().last_json();
        made["files_new"].as_u64().unwrap() + made["files_unmodified"].as_u64().unwrap()
    };
    // The whole option takes the place of the profile's.
    assert_eq!(files(&["--exclude", "nothing"]), 5);
    let deep = configured
        .bed
        .source()
        .join("docs/deep")
        .display()
        .to_string();
    assert_eq!(files(&[&deep]), 1);
    // --parent excludes --force, so here the parent is used.
    let made = configured.run(&["backup", "-P", "daily", "--json", "--parent", "latest"]);
    assert!(made.succeeds().last_json()["parent"].is_string());

    // A profile precedes the environment.
    let mut command = configured.command(&["snapshots", "--json"]);
    command
        .env("TABANE_PROFILE", "daily")
        .env("TABANE_REPOSITORY", "/nowhere");
    let snapshots = run(&mut command).succeeds().last_json();
    assert_eq!(snapshots.as_array().expect("an array").len(), 4);
    assert_eq!(snapshots[0]["tags"], serde_json::json!(["daily", "x"]));
    configured
        .run(&["-P", "daily", "forget"])
        .succeeds()
        .says("3 snapshots removed");

    // Another repository for once.
    configured.run(&["-P", "other", "init"]).succeeds();
    let other = configured.run(&["-P", "other", "snapshots", "--json"]);
    assert_eq!(other.succeeds().last_json(), serde_json::json!([]));
    let loud = configured.run(&["-P", "other", "snapshots", "-v"]);
    loud.succeeds().says("0 snapshots");
    configured
        .run(&["-P", "dayly", "backup"])
        .fails(2, "(did you mean daily?)");
}

#[test]
fn mistakes_are_reported_with_their_line() {
    for (text, line, what) in [
        ("[profiles.a]\nrepo = ", 2, ""),
        (
            "[profile.a]",
            1,
            "profile means nothing here (did you mean profiles?)",
        ),
        ("profiles = 1", 1, "profiles is no table"),
        (
            "[repositories.a]\nulr = \"x\"",
            2,
            "a repository has no ulr (did you mean url?)",
        ),
        ("\n[repositories.a]\n", 2, "the repository a has no url"),
        (
            "[repositories.a]\nurl = \"x\"\npassword-file = \"x\"\npassword-command = \"x\"",
            1,
            "both a password-file and a password-command",
        ),
        (
            "[profiles.a]\nqiet = true",
            2,
            "no option of all commands, and no command (did you mean quiet?)",
        ),
        ("[profiles.a.bakup]\n", 1, "(did you mean backup?)"),
        (
            "[profiles.a.backup]\nforce = true\nexcludes = []",
            3,
            "excludes is no option of `tabane backup` (did you mean exclude?)",
        ),
        ("[profiles.a]\nconfig = \"x\"", 2, "config is no option"),
        (
            "[profiles.a.backup]\nforce = \"yes\"",
            2,
            "force is true or false",
        ),
        (
            "[profiles.a.backup]\nhost = [\"x\"]",
            2,
            "host takes one value, not a list",
        ),
        (
            "[profiles.a.backup]\nexclude = [\n  \"x\",\n  true]",
            4,
            "exclude takes text or a number",
        ),
        (
            "[profiles.a.forget]\nkeep-daily = -3",
            2,
            "no number of snapshots",
        ),
        (
            "[profiles.a.stats]\nmode = \"some\"",
            2,
            "mode: invalid value",
        ),
        (
            "[profiles.a.check]\nread-data = true\nread-data-subset = \"1/2\"",
            3,
            "read-data-subset and read-data exclude each other",
        ),
    ] {
        let configured = Configured::new(text);
        let ran = configured.run(&["-P", "a", "snapshots"]);
        let ran = ran.fails(2, &format!("config.toml, line {line}: "));
        assert!(
            ran.stderr.contains(what),
            "{what:?} is not in {}",
            ran.stderr
        );
    }
    let mut command = bare_command(["-P", "a", "snapshots"]);
    let bed = Bed::new();
    run(command.env("XDG_CONFIG_HOME", bed.path("")))
        .fails(2, "cannot read the configuration file")
        .fails(2, "tabane/config.toml");
}

/// What people copy from the manual is right.
#[test]
fn the_example_of_the_manual_is_read() {
    let manual = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/configuration.md"
    );
    let manual = fs::read_to_string(manual).expect("it is there");
    let example = manual.split("```toml\n").nth(1).expect("an example");
    let example = example.split("```").next().expect("its end");
    let configured = Configured::new(&example.replace("/mnt/backup", "{bed}/nothing"));
    configured
        .run(&["-P", "daily", "snapshots"])
        .fails(10, "there is no repository at ");
}

#[test]
fn flags_can_be_variables_and_options_switch_off_what_they_exclude() {
    let bed = Bed::with_repository();
    let with = |name: &str, value: &str, args: &[&str]| {
        run(bed.command(args).env(name, value)).succeeds().stdout
    };
    assert_eq!(with("TABANE_QUIET", "1", &["snapshots"]), "");
    assert_eq!(with("TABANE_QUIET", "0", &["snapshots"]), "0 snapshots\n");
    assert_eq!(
        with("TABANE_QUIET", "1", &["snapshots", "-v"]),
        "0 snapshots\n"
    );
    assert_eq!(with("TABANE_JSON", "true", &["snapshots"]), "[]\n");
    assert!(with("TABANE_VERBOSE", "2", &["backup", "--stdin"]).contains("stdin"));
}

#[test]
fn failures_are_json_where_json_is_asked_for() {
    let bed = Bed::new();
    let ran = bed.run(["snapshots", "--json"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(10), ""));
    let error: serde_json::Value = serde_json::from_str(&ran.stderr).expect("JSON");
    assert_eq!(error["message_type"], "exit_error");
    assert_eq!(error["code"], 10);
    assert!(
        error["message"]
            .as_str()
            .expect("text")
            .contains("there is no repository at ")
    );
}

#[test]
fn a_damaged_file_is_told_of_in_a_sentence() {
    let configured = Configured::new(PROFILES);
    let samples = [fs::read(&configured.file).expect("the file")];
    let seed = jiff::Timestamp::now().as_nanosecond() as u64;
    let mut mutator = Mutator::new(seed);
    let (start, mut accepted, mut refused) = (Instant::now(), 0, 0);
    while start.elapsed() < Duration::from_secs(1) {
        let text = mutator.mutate(&samples);
        fs::write(&configured.file, &text).expect("written");
        // Takes the profile, and opens nothing.
        let ran = configured.run(&["--profile", "daily", "version"]);
        let shown = || format!("{}\nfrom {}", ran.stderr, String::from_utf8_lossy(&text));
        match ran.code {
            Some(0) => accepted += 1,
            Some(2) => {
                assert!(ran.stderr.starts_with("tabane: "), "{}", shown());
                refused += 1;
            }
            _ => panic!("{:?}: {}", ran.code, shown()),
        }
    }
    println!("{accepted} accepted, {refused} refused");
    assert!(refused > 0);
}

#[test]
fn every_option_has_a_variable() {
    let bed = Bed::with_repository();
    fs::write(bed.source().join("large"), vec![0; 9000]).expect("written");
    let backup = |variables: &[(&str, &str)], args: &[&str]| {
        let source = bed.source().display().to_string();
        let mut command = bed.command([&["backup", "-n", "--json", &source], args].concat());
        command.envs(variables.iter().copied());
        run(&mut command)
    };
    let larger = ("TABANE_BACKUP_EXCLUDE_LARGER_THAN", "8K");
    let made = backup(&[larger], &[]).succeeds().last_json();
    assert_eq!(made["files_new"], 3);
    // The command line and profiles go before it.
    let made = backup(&[larger], &["--exclude-larger-than", "1M"])
        .succeeds()
        .last_json();
    assert_eq!(made["files_new"], 6);
    let config = bed.path("config.toml");
    fs::write(
        &config,
        "[profiles.p.backup]\nexclude-larger-than = \"1M\"\n",
    )
    .expect("written");
    let profile = ["-P", "p", "--config", config.to_str().expect("UTF-8")];
    let made = backup(&[larger], &profile).succeeds().last_json();
    assert_eq!(made["files_new"], 6);
    let refused = backup(&[("TABANE_BACKUP_EXCLUDE_LARGER_THAN", "much")], &[]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("much"), "{}", refused.stderr);
    for (value, unmodified) in [("1", 0), ("0", 6), ("false", 6), ("", 6)] {
        bed.backup(&["-q"]).succeeds();
        tabane_testing::files::settle();
        bed.backup(&["-q"]).succeeds();
        let made = backup(&[("TABANE_BACKUP_FORCE", value)], &[])
            .succeeds()
            .last_json();
        assert_eq!(made["files_unmodified"], unmodified, "{value}");
    }
    let mut command = bed.command(["snapshots"]);
    run(command.env("TABANE_RETRY_FOR", "soon")).fails(2, "soon");
}
