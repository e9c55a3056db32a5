//! Timers.

use std::fs;
use std::path::Path;
use std::process::Command;

use tabane_testing::files::script;

use crate::bed::{Bed, Ran, run};

/// Runs with a `systemctl` that writes down what it is told, and with folders of the bed.
fn schedule(bed: &Bed, args: &[&str]) -> Ran {
    let programs = bed.path("programs");
    if !programs.exists() {
        fs::create_dir(&programs).expect("made");
        let log = bed.path("systemctl").display().to_string();
        let text = format!("#!/bin/sh\necho \"$@\" >> {log}\n");
        script(&programs.join("systemctl"), &text);
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let password = bed.path("password").display().to_string();
    let mut command = bed.command(["schedule"].iter().chain(args));
    command
        .env_remove("TABANE_PASSWORD")
        .env("TABANE_PASSWORD_FILE", password)
        .env("XDG_CONFIG_HOME", bed.path("config"))
        .env("PATH", format!("{}:{path}", programs.display()));
    run(&mut command)
}

#[test]
fn a_path_from_here_is_refused() {
    let bed = Bed::new();
    // Tests run in the folder of this crate.
    schedule(&bed, &["install", "--user", "backup src"]).fails(
        2,
        "it is not started in this directory, in which src is: write /",
    );
}

#[test]
fn a_job_that_is_replaced_is_named() {
    let bed = Bed::new();
    let install = ["install", "--with", "systemd", "--user", "--name", "daily"];
    let install = |commands: &[&str]| schedule(&bed, &[&install[..], commands].concat());
    install(&["backup", "forget --keep-last 3"]).succeeds();
    install(&["backup", "forget --keep-last 3"]).succeeds();
    let ran = install(&["forget --keep-last 3", "check"]);
    assert_eq!(ran.code, Some(0));
    let told = ran.stderr;
    assert_eq!(told.matches("does not any more").count(), 1, "{told}");
    assert!(told.contains(" backup; give each job"), "{told}");
}

#[test]
fn a_timer_of_systemd_is_installed_listed_and_removed() {
    let bed = Bed::new();
    let install = ["install", "--with", "systemd", "--user", "--at", "sun 2:30"];
    let commands = ["backup", "forget", "check --read-data-subset 8%"];
    let ran = schedule(
        &bed,
        &[&install[..], &["--name", "nightly"], &commands].concat(),
    );
    let ran = ran
        .succeeds()
        .says("nightly starts every week on sun at 02:30");
    let units = bed.path("config/systemd/user");
    let service = fs::read_to_string(units.join("tabane-nightly.service")).expect("written");
    let starts: Vec<&str> = service
        .lines()
        .filter(|line| line.starts_with("ExecStart="))
        .collect();
    assert_eq!(starts.len(), 3, "{service}");
    assert!(
        starts[2].ends_with(" check --read-data-subset 8%%"),
        "{service}"
    );
    let repository = bed.repository().display().to_string();
    assert!(
        starts[0].contains(&format!("--repo {repository} --password-file ")),
        "{service}"
    );
    assert!(ran.stdout.contains("backup"), "{}", ran.stdout);
    let told = fs::read_to_string(bed.path("systemctl")).expect("told");
    assert_eq!(
        told,
        "--user daemon-reload\n--user enable --now tabane-nightly.timer\n"
    );
    let listed = schedule(&bed, &["list"]).succeeds();
    let listed = listed.says("nightly: sun *-*-* 02:30");
    assert!(
        listed.stdout.contains("check --read-data-subset"),
        "{}",
        listed.stdout
    );
    // Again: it is written anew.
    let name = ["--name", "nightly"];
    let ran = schedule(&bed, &[&install[..], &name, &commands[..1]].concat());
    assert_eq!(ran.code, Some(0));
    schedule(&bed, &["remove", "nightly"]).succeeds();
    assert_eq!(fs::read_dir(&units).expect("listed").count(), 0);
    schedule(&bed, &["remove", "nightly"]).fails(1, "schedule list");
    // What somebody else wrote stays.
    fs::write(units.join("tabane-nightly.service"), "[Service]\n").expect("written");
    schedule(&bed, &[&install[..], &name, &commands[..1]].concat())
        .fails(1, "was written by somebody else");
}

#[test]
fn what_cannot_be_scheduled_says_why() {
    let bed = Bed::new();
    let into = bed.path("into").display().to_string();
    let install = |args: &[&str]| schedule(&bed, &[&["install", "--into", &into], args].concat());
    install(&["bakcup"]).fails(2, "unrecognized subcommand 'bakcup'");
    install(&[""]).fails(2, "requires a subcommand");
    install(&["backup", "forget --nosuch"]).fails(2, "unexpected argument '--nosuch'");
    install(&["check --read-data-subset 1/0"]).fails(2, "write a part as N/T");
    install(&["restore --sparse"]).fails(2, "it makes holes of zeros always");
    install(&["backup --help"]).fails(2, "it only prints a text");
    install(&["backup 'x"]).fails(2, "a quote has no end");
    for command in [
        "check --read-data-subset $(date +%m)/12",
        "backup $HOME",
        "backup `pwd`",
    ] {
        install(&[command]).fails(2, "put the command into a script");
    }
    install(&["backup", "--at", "noon"]).fails(2, "is no time");
    install(&["backup", "--name", "a/b"]).fails(2, "is no name");
    let missing = ["install", "--user", "--environment-file", "none", "backup"];
    schedule(&bed, &missing).fails(2, "none: No such file");
    let mut command = bed.command(["schedule", "install", "--into", &into, "backup"]);
    run(command.env_remove("TABANE_PASSWORD")).fails(2, "a timer cannot type a password");
    assert!(!Path::new(&into).exists());
}

/// systemd understands every line, and finds the service well guarded; cron's line is a line.
#[test]
fn the_files_are_valid() {
    let bed = Bed::new();
    let into = bed.path("into");
    let given = into.display().to_string();
    let install = |args: &[&str]| {
        let install = [
            "install",
            "--into",
            &given,
            "--environment-file",
            "/etc/tabane/s3 keys",
        ];
        schedule(&bed, &[&install[..], args].concat()).succeeds()
    };
    install(&["--with", "systemd", "--name", "daily", "backup", "forget"]);
    install(&[
        "--with",
        "systemd",
        "--name",
        "drill",
        "--at",
        "2 12:00",
        "--no-sandbox",
        "drill",
    ]);
    install(&[
        "--with",
        "cron",
        "--name",
        "old",
        "--at",
        "hourly",
        "backup --exclude '*.o files' \"/a b\"",
        "forget --prune",
    ]);
    let table = fs::read_to_string(into.join("tabane-old")).expect("written");
    let line = table.lines().last().expect("a line");
    assert!(
        line.contains(" * * * * root set -a; . '/etc/tabane/s3 keys'; set +a; "),
        "{table}"
    );
    let backup = " backup --exclude '*.o files' '/a b' || [ $? = 3 ] && ";
    assert!(line.contains(backup), "{table}");
    let units = [
        "tabane-daily.service",
        "tabane-daily.timer",
        "tabane-drill.service",
    ];
    let units = units.map(|name| into.join(name));
    let verified = Command::new("systemd-analyze")
        .arg("verify")
        .args(&units)
        .output();
    let Ok(verified) = verified else {
        println!("NOT CHECKED: the units for systemd: there is no systemd-analyze");
        return;
    };
    // It also tells of other units, which these depend on.
    let said = String::from_utf8_lossy(&verified.stderr);
    let about = said.lines().filter(|line| line.contains("tabane"));
    assert_eq!(about.collect::<Vec<_>>(), [""; 0], "{said}");
    let guarded = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--threshold=30"])
        .arg(&units[0])
        .output()
        .expect("it was there just now");
    assert!(
        guarded.status.success(),
        "{}",
        String::from_utf8_lossy(&guarded.stdout)
    );
}
