//! Backups with each instruction set that the processor has, into one repository.

use std::fs;
use std::process::Command;

use crate::bed::{Bed, Ran, run};
use crate::source;

/// What TABANE_SIMD takes.
const SETS: &[&str] = if cfg!(target_arch = "aarch64") {
    &["portable", "neon", "armce", "armsha512"]
} else {
    &["portable", "sse41", "avx2", "avx512", "shani"]
};

/// The most blocks that are new in a backup of what is stored already: those of the directories
/// above the source, which change meanwhile.
const BLOCKS_NEW_MAX: u64 = 9;

fn with_set(mut command: Command, set: &str) -> Ran {
    run(command.env("TABANE_SIMD", set))
}

/// Whether the processor has it; says so if not.
fn has(bed: &Bed, set: &str) -> bool {
    let ran = with_set(bed.command(["version"]), set);
    if ran.code == Some(0) {
        return true;
    }
    assert!(
        ran.stderr.contains(&format!("lacks {set}")),
        "{}",
        ran.stderr
    );
    println!("NOT RUN: TABANE_SIMD={set}: this processor lacks it");
    false
}

#[test]
fn each_instruction_set_finds_the_blocks_of_the_others_and_restores_them() {
    let bed = Bed::new();
    source::build(&bed.source());
    bed.run(["snapshots"]).fails(10, "repository");
    let mut backups = 0;
    for set in SETS.iter().copied().filter(|set| has(&bed, set)) {
        let source = bed.source();
        let source = source.to_str().expect("UTF-8");
        let backup = ["backup", "--init", "--force", "--json", source];
        let backup = with_set(bed.command(backup), set);
        assert_eq!(backup.code, Some(0), "{set}: {}", backup.stderr);
        let new = backup.last_json()["blocks_new"].as_u64().expect("a number");
        if backups == 0 {
            assert!(new > 300, "{set}: {new} blocks are new in the first backup");
        } else {
            assert!(new <= BLOCKS_NEW_MAX, "{set}: {new} blocks are new");
        }
        backups += 1;

        let target = bed.path(&format!("restored with {set}"));
        let place = format!("latest:{source}");
        let restore = [
            "restore",
            &place,
            "--target",
            target.to_str().expect("UTF-8"),
        ];
        with_set(bed.command(restore), set).succeeds();
        tabane_testing::compare::assert_same_contents(&bed.source(), &target);
        fs::remove_dir_all(&target).expect("remove what was restored");

        with_set(bed.command(["check", "--read-data"]), set).succeeds();
    }
    let snapshots = bed.run(["snapshots", "--json"]).succeeds().last_json();
    assert_eq!(snapshots.as_array().map(Vec::len), Some(backups));
    bed.run(["snapshots"]).succeeds();
    bed.run(["ls", "latest"]).succeeds().says("/names/-rf");
    let mut wrong = bed.command(["snapshots"]);
    run(wrong.env("TABANE_PASSWORD", "wrong")).fails(12, "password");
    bed.run(["restore", "--no-such-option"])
        .fails(2, "--no-such-option");
}

#[test]
fn an_instruction_set_that_there_is_not_is_refused() {
    with_set(Bed::new().command(["version"]), "altivec").fails(1, "altivec");
}
