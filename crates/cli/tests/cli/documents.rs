//! Help, completions and manual pages.

use std::fs;

use crate::bed::{Bed, bare_command, run};

const COMMANDS: &[&str] = &[
    "init",
    "backup",
    "snapshots",
    "ls",
    "restore",
    "dump",
    "mount",
    "find",
    "diff",
    "check",
    "cache",
    "stats",
    "cat",
    "list",
    "forget",
    "prune",
    "unlock",
    "repair",
    "heal",
    "scrub",
    "targets",
    "cluster",
    "node",
    "tag",
    "rewrite",
    "copy",
    "key",
    "sum",
    "openssl",
    "offload",
    "devices",
    "self-test",
    "version",
    "completions",
    "man",
];

#[test]
fn every_command_has_help_with_examples() {
    let help = run(&mut bare_command(["--help"]))
        .succeeds()
        .says("Exit codes:");
    for command in COMMANDS {
        assert!(
            help.stdout.contains(&format!("\n  {command} ")),
            "{command}"
        );
        let of_command = run(&mut bare_command([command, "--help"]))
            .succeeds()
            .says("Usage: tabane");
        if *command != "version" {
            of_command.says("Examples:");
        }
    }
}

#[test]
fn completions_are_made_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        run(&mut bare_command(["completions", shell]))
            .succeeds()
            .says("snapshots");
    }
}

#[test]
fn manual_pages_are_made_for_every_command() {
    let bed = Bed::new();
    let folder = bed.path("man");
    let text = folder.display().to_string();
    run(&mut bare_command(["man", "--dir", &text])).succeeds();
    for command in COMMANDS.iter().chain(&[
        "key-add",
        "key-list",
        "key-remove",
        "key-passwd",
        "openssl-install",
        "openssl-conf",
        "openssl-check",
        "offload-serve",
        "offload-status",
        "targets-add",
        "targets-replace",
    ]) {
        let page = fs::read_to_string(folder.join(format!("tabane-{command}.1"))).expect(command);
        assert!(page.contains(".SH SYNOPSIS"), "{command}");
    }
    assert!(folder.join("tabane.1").exists());
    let file = bed.source().join("empty").display().to_string();
    run(&mut bare_command(["man", "--dir", &file])).fails(1, "cannot write manual pages to");
}
