//! `prune` and `unlock`.

use std::fs;

use crate::bed::Bed;

fn size_of_packs(bed: &Bed) -> u64 {
    let folders = fs::read_dir(bed.repository().join("packs")).unwrap();
    let files = folders.flat_map(|folder| fs::read_dir(folder.unwrap().path()).unwrap());
    files
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum()
}

#[test]
fn what_was_forgotten_is_removed() {
    let bed = Bed::with_repository();
    fs::write(bed.source().join("big"), vec![7; 10]).unwrap();
    let random: Vec<u8> = (0..900_000_u64)
        .map(|number| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect();
    fs::write(bed.source().join("big"), random).unwrap();
    bed.backup(&[]).succeeds();
    fs::remove_file(bed.source().join("big")).unwrap();
    bed.backup(&[]).succeeds();
    let before = size_of_packs(&bed);
    bed.run(["prune"]).succeeds().says("2 snapshots");
    assert_eq!(size_of_packs(&bed), before);
    bed.run(["forget", "--keep-last", "1"]).succeeds();
    bed.run(["prune", "--dry-run"])
        .succeeds()
        .says("remove")
        .says("1 snapshot")
        .says("dry run: nothing was changed");
    assert_eq!(size_of_packs(&bed), before);
    bed.run(["prune", "--quiet"]).succeeds();
    assert!(size_of_packs(&bed) < before);
    bed.run(["check", "--read-data"]).succeeds();
    let target = bed.path("target");
    let target = target.to_str().unwrap();
    bed.run(["restore", "latest", "--target", target])
        .succeeds();
    let ran = bed
        .run(["prune", "--json", "--max-unused", "0%"])
        .succeeds();
    assert_eq!(ran.stdout.lines().count(), 2, "{}", ran.stdout);
    ran.says("\"message_type\":\"plan\"")
        .says("\"message_type\":\"summary\"")
        .says("\"deleted_packs\":");
}

#[test]
fn wrong_limits_are_explained() {
    let bed = Bed::with_repository();
    bed.run(["prune", "--max-unused", "much"]).fails(2, "5%");
    bed.run(["prune", "--grace", "soon"]).fails(2, "36h");
    bed.run(["prune", "--max-repack-size=-1"])
        .fails(2, "max-repack-size");
    bed.run(["prune", "--repack-smaller-than=17M"])
        .fails(2, "a full pack has 16.000 MiB");
    for limit in ["0", "10%", "500M", "unlimited"] {
        bed.run(["prune", "--max-unused", limit, "--grace", "2d"])
            .succeeds();
    }
}

#[test]
fn unlock_finds_nothing_in_a_repository_that_nobody_uses() {
    let bed = Bed::with_repository();
    bed.backup(&[]).succeeds();
    assert_eq!(
        fs::read_dir(bed.repository().join("clients"))
            .unwrap()
            .count(),
        0
    );
    bed.run(["unlock"])
        .succeeds()
        .says("no client that died was found");
    bed.run(["unlock", "--all"]).succeeds();
    // One that was killed.
    let mut command = bed.command(["backup", "--stdin"]);
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let clients = bed.repository().join("clients");
    while fs::read_dir(&clients).unwrap().count() == 0 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    bed.run(["unlock"])
        .succeeds()
        .says("backup by")
        .says("1 client removed");
    assert_eq!(fs::read_dir(&clients).unwrap().count(), 0);
}

#[test]
fn a_dry_run_of_both_plans_as_if_snapshots_were_gone() {
    let bed = Bed::with_repository();
    bed.backup(&[]).succeeds();
    let data = bed.source().join("docs/deep/data.bin");
    fs::write(data, "much less").expect("written");
    fs::remove_file(bed.source().join("docs/deep/copy.bin")).expect("removed");
    bed.backup(&[]).succeeds();
    let forget = [
        "forget",
        "--keep-last",
        "1",
        "--prune",
        "--max-unused",
        "0%",
        "--json",
    ];
    let dry = bed.run(forget.iter().chain(&["--dry-run"])).succeeds();
    let dry = dry.last_json();
    assert_eq!(dry["dry_run"], true);
    assert_eq!(dry["snapshots"], 1);
    let real = bed.run(forget).succeeds().json();
    let plan = real.iter().find(|line| line["message_type"] == "plan");
    let plan = plan.expect("a plan");
    for field in [
        "used_bytes",
        "unused_bytes",
        "repacked_bytes",
        "left_unused_bytes",
    ] {
        assert_eq!(plan[field], dry[field], "{field}");
    }
    let going = |field: &str| dry[field].as_u64().expect("a number");
    assert!(
        going("unused_bytes") + going("repacked_bytes") > 300_000,
        "{dry}"
    );
}

#[test]
fn short_packs_are_combined_on_request() {
    let bed = Bed::with_repository();
    for number in 0..4 {
        fs::write(
            bed.source().join("docs/notes.txt"),
            format!("version {number}"),
        )
        .unwrap();
        bed.backup(&[]).succeeds();
    }
    let packs = || {
        let folders = fs::read_dir(bed.repository().join("packs")).unwrap();
        let files = folders.map(|folder| fs::read_dir(folder.unwrap().path()).unwrap().count());
        files.sum::<usize>()
    };
    let before = packs();
    assert!(before >= 8, "{before}");
    bed.run(["prune", "--max-unused", "unlimited"]).succeeds();
    assert_eq!(packs(), before);
    let combine = |args: &[&str]| {
        bed.run([&["prune", "--max-unused", "unlimited"], args].concat())
            .succeeds();
        bed.run(["check", "--read-data"]).succeeds();
        packs()
    };
    // One of directories, and those of files as they were.
    let trees = combine(&["--repack-small", "--repack-cacheable-only"]);
    assert!(trees < before && trees > 4, "{trees}");
    assert_eq!(combine(&["--repack-smaller-than", "1"]), trees);
    assert_eq!(combine(&["--repack-small"]), 2);
    assert_eq!(combine(&["--repack-small"]), 2);
}
