//! Restoring a random sample.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use crate::bed::Bed;
use crate::mishaps::packs;

#[test]
fn a_sample_is_restored_compared_and_removed() {
    let bed = Bed::with_repository();
    bed.backup(&[]).succeeds();
    let scratch = bed.path("scratch");
    fs::create_dir(&scratch).expect("created");
    let text = scratch.display().to_string();
    let args = ["drill", "--sample", "100%", "--directory", &text];
    let ran = bed.run(args).succeeds();
    // One of them has two names.
    assert!(
        ran.stdout.contains("restored 5 of 5 files")
            && ran
                .stdout
                .contains("5 equal the source, 0 changed since the backup, 0 differ"),
        "{}",
        ran.stdout
    );
    assert_eq!(fs::read_dir(&scratch).expect("listed").count(), 0);
    // At least one file, whatever the share.
    let args = ["drill", "--sample", "0%", "--directory", &text, "--json"];
    bed.run(args).succeeds().says("\"restored_files\":1,");
    let record = bed.path("drill.prom").display().to_string();
    let args = ["drill", "--sample", "100%", "--metrics-file", &record];
    bed.run(args).succeeds();
    let record = fs::read_to_string(&record).expect("written");
    let says = |name: &str, value: &str| {
        let name = format!("tabane_drill_{name}{{");
        let mut lines = record.lines();
        lines.any(|line| line.starts_with(&name) && line.ends_with(value))
    };
    assert!(says("files", " 5") && says("problems", " 0"), "{record}");
    assert!(says("exit_code", " 0"), "{record}");
    let bad = ["drill", "--sample", "120%"];
    bed.run(bad).fails(2, "percentage");
}

#[test]
fn sources_that_changed_since_are_no_problem() {
    let bed = Bed::with_repository();
    let edited = bed.source().join("docs/edited");
    fs::write(&edited, "as it was").expect("written");
    bed.backup(&[]).succeeds();
    let drill = || bed.run(["drill", "--sample", "100%"]);
    fs::write(bed.source().join("empty"), "no longer").expect("written");
    drill()
        .succeeds()
        .says("1 changed since the backup, 0 differ");
    fs::write(&edited, "as it WAS").expect("written");
    drill()
        .succeeds()
        .says("2 changed since the backup, 0 differ");
}

#[test]
fn a_sample_that_cannot_be_restored_fails() {
    let bed = Bed::with_repository();
    bed.backup(&[]).succeeds();
    for pack in packs(&bed) {
        let mut bytes = fs::read(&pack).expect("read");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::remove_file(&pack).expect("removed");
        fs::write(&pack, bytes).expect("written");
    }
    let ran = bed.run(["drill", "--sample", "100%"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
}

#[test]
fn an_interrupted_drill_leaves_nothing() {
    let bed = Bed::with_repository();
    for number in 0..3000 {
        fs::write(bed.source().join(format!("{number}")), "x").expect("written");
    }
    bed.backup(&[]).succeeds();
    let scratch = bed.path("scratch");
    fs::create_dir(&scratch).expect("created");
    let text = scratch.display().to_string();
    let mut command = bed.command(["drill", "--sample", "100%", "--directory", &text]);
    let mut running = command.stderr(Stdio::null()).spawn().expect("started");
    while fs::read_dir(&scratch).expect("listed").count() == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let pid = rustix::process::Pid::from_child(&running);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("sent");
    let code = running.wait().expect("ended").code();
    assert!(matches!(code, Some(130 | 0)), "{code:?}");
    assert_eq!(fs::read_dir(&scratch).expect("listed").count(), 0);
}
