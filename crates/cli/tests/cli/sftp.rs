//! A repository behind a real SSH server, and servers that say no.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::bed::{Bed, Ran, outlives, restored, run, varied};
use tabane_testing::sshd::Sshd;

fn command<A: AsRef<OsStr>>(bed: &Bed, sshd: &Sshd, args: impl IntoIterator<Item = A>) -> Command {
    let mut command = bed.command(args);
    command
        .env("PATH", sshd.search_path())
        .env("TABANE_REPOSITORY", sshd.url("sftp", &bed.repository()));
    command
}

fn tabane<A: AsRef<OsStr>>(bed: &Bed, sshd: &Sshd, args: impl IntoIterator<Item = A>) -> Ran {
    run(&mut command(bed, sshd, args))
}

/// Restores the latest snapshot, and compares the file with what it was.
fn comes_back(bed: &Bed, sshd: &Sshd, file: &Path) {
    let target = bed.path("target");
    let text = target.display().to_string();
    tabane(bed, sshd, ["restore", "latest", "--target", &text]).succeeds();
    let back = fs::read(restored(&target, file)).expect("it was restored");
    assert!(back == fs::read(file).expect("it is there"));
}

#[test]
fn everyday_work_behind_sftp() {
    let Some(sshd) = Sshd::start("the command with a repository behind SFTP") else {
        return;
    };
    let bed = Bed::new();
    let source = bed.source().display().to_string();
    tabane(&bed, &sshd, ["snapshots"]).fails(10, "there is no repository at sftp://");
    tabane(&bed, &sshd, ["init"]).succeeds();
    tabane(&bed, &sshd, ["init"]).fails(1, "there is already a repository at");
    tabane(&bed, &sshd, ["backup", &source]).succeeds();
    fs::write(bed.source().join("more"), varied(3 << 20)).expect("a file");
    tabane(&bed, &sshd, ["backup", &source]).succeeds();
    let policy = ["forget", "--keep-last", "1", "--prune", "--grace", "0s"];
    tabane(&bed, &sshd, policy).succeeds();
    tabane(&bed, &sshd, ["check", "--read-data"]).succeeds();
    comes_back(&bed, &sshd, &bed.source().join("docs/deep/data.bin"));
    // The same objects as a directory.
    bed.run(["check", "--read-data"]).succeeds();
    fs::write(bed.repository().join("foreign"), "").expect("a file");
    fs::remove_file(bed.repository().join("config")).expect("it was there");
    let copies = bed.repository().join("copies");
    fs::remove_dir_all(copies).expect("they were there");
    tabane(&bed, &sshd, ["init"]).fails(1, "is not empty");
}

/// The server dies again and again while a backup writes to it: the backup takes its time and
/// nothing is lost.
#[test]
fn an_ssh_server_that_is_killed_and_restarted_during_a_backup() {
    let Some(mut sshd) = Sshd::start("a real SSH server that dies during a backup") else {
        return;
    };
    let bed = Bed::new();
    tabane(&bed, &sshd, ["init"]).succeeds();
    let file = bed.source().join("large");
    fs::write(&file, varied(60 << 20)).expect("a file");
    let source = bed.source().display().to_string();
    // Slow enough that there is time for it.
    let slow = ["--limit-upload", "40000", "--connections", "1"];
    let arguments = ["backup", "--quiet", &source].into_iter().chain(slow);
    let mut backup = command(&bed, &sshd, arguments);
    outlives(&mut backup, || {
        sshd.kill();
        thread::sleep(Duration::from_millis(50));
        sshd.restart();
    });
    tabane(&bed, &sshd, ["check", "--read-data"]).succeeds();
    comes_back(&bed, &sshd, &file);
}

#[test]
fn ssh_servers_that_say_no() {
    let Some(mut sshd) = Sshd::start("SSH servers that refuse") else {
        return;
    };
    let bed = Bed::new();
    let snapshots = |sshd: &Sshd| tabane(&bed, sshd, ["snapshots", "--retry-for", "1s"]);
    sshd.authorize("command=\"echo welcome to our server\"");
    snapshots(&sshd).fails(1, "does a login there print something, or is another");
    sshd.authorize("command=\"exit 127\"");
    snapshots(&sshd).fails(1, "cannot start what is asked for");
    sshd.authorize("from=\"192.0.2.1\"");
    snapshots(&sshd).fails(1, "Permission denied (publickey");
    sshd.kill();
    let start = Instant::now();
    snapshots(&sshd).fails(1, "Connection refused");
    assert!(start.elapsed() >= Duration::from_secs(1), "it tried again");
    // A PATH without ssh.
    let mut bare = command(&bed, &sshd, ["snapshots"]);
    run(bare.env("PATH", bed.path("nowhere"))).fails(1, "there is no program ssh in the path");
    // Another host key than the one that is known.
    let known = bed.path("known");
    fs::write(&known, "").expect("a file");
    let script = bed.path("ssh");
    let text = format!(
        "#!/bin/sh\nexec /usr/bin/ssh -F none -oBatchMode=yes -oUserKnownHostsFile={} \"$@\"\n",
        known.display()
    );
    fs::write(&script, text).expect("a program");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("made executable");
    sshd.restart();
    let mut unknown = command(&bed, &sshd, ["snapshots"]);
    let folder = script.parent().expect("it is in a folder").to_owned();
    let path = [folder, "/usr/bin".into(), "/bin".into()];
    unknown.env("PATH", std::env::join_paths(path).expect("folders"));
    run(&mut unknown).fails(1, "Host key verification failed");
}

#[test]
fn places_as_ssh_has_them_are_refused_with_the_url() {
    let bed = Bed::new();
    for (place, says) in [
        ("ada@nas:/backup", "write sftp://ada@nas/backup"),
        ("ada@nas:backup", "write sftp://ada@nas/~/backup"),
        (
            "sftp://ada:hunter2@nas/x",
            "use a key, which ssh-agent holds",
        ),
        ("sftp://nas", "names no folder"),
    ] {
        let ran = bed.run(["--repo", place, "snapshots"]).fails(2, says);
        assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
    }
}
