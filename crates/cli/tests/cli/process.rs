//! Signals, closed pipes and the environment.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use crate::bed::{Bed, bare_command, run, varied};

#[test]
fn a_signal_ends_a_backup_at_once_and_the_next_one_completes() {
    let bed = Bed::with_repository();
    for signal in ["INT", "TERM"] {
        let mut child = bed
            .command(["backup", "--stdin"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        // More than pipes hold: when this returns, the backup has begun.
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(&varied(4 << 20)).expect("read");
        let id = child.id().to_string();
        let kill = Command::new("kill")
            .args(["-s", signal, &id])
            .status()
            .expect("kill is there");
        assert!(kill.success());
        assert_eq!(child.wait().expect("ends").code(), Some(130));
        let mut stderr = String::new();
        child
            .stderr
            .take()
            .expect("piped")
            .read_to_string(&mut stderr)
            .expect("text");
        assert_eq!(
            stderr,
            "tabane: interrupted: nothing is damaged; run the same command again\n"
        );
    }
    bed.run(["snapshots"]).succeeds().says("0 snapshots");
    bed.backup(&[]).succeeds();
    bed.run(["check", "--read-data"]).succeeds();
}

#[test]
fn a_closed_pipe_is_no_error_to_talk_about() {
    let bed = Bed::with_repository();
    bed.backup(&[]).succeeds();
    let data = bed
        .source()
        .join("docs/deep/data.bin")
        .display()
        .to_string();
    for arguments in [
        &["snapshots"][..],
        &["ls", "latest"],
        &["dump", "latest", &data],
        &["--help"],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = bed.command(arguments);
        let output = command
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .expect("started");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
        assert_eq!(output.status.signal(), Some(13), "{arguments:?}");
    }
}

#[test]
fn a_full_disk_behind_standard_output_is_reported() {
    let bed = Bed::with_repository();
    bed.backup(&[]).succeeds();
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .expect("there");
    let mut command = bed.command(["ls", "latest"]);
    let output = command.stdout(full).output().expect("started");
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.starts_with("tabane: cannot write to standard output: "),
        "{stderr}"
    );
}

#[test]
fn an_instruction_set_that_cannot_be_forced_is_named() {
    let mut command = bare_command(["version"]);
    run(command.env("TABANE_SIMD", "abacus")).fails(1, "no SIMD backend is called \"abacus\"");
    let mut command = bare_command(["version"]);
    run(command.env("TABANE_SIMD", "portable"))
        .succeeds()
        .says("TABANE_SIMD forces portable");
}

#[test]
fn without_arguments_there_is_help() {
    let ran = run(&mut bare_command::<&str>([]));
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("Usage: tabane"), "{}", ran.stderr);
}
