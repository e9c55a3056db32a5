//! Rewrites snapshots without files that were backed up by mistake.

use std::fs;

use crate::bed::{Bed, restored};

fn snapshots(bed: &Bed) -> serde_json::Value {
    bed.run(["snapshots", "--json"]).succeeds().last_json()
}

#[test]
fn what_is_excluded_is_gone_and_the_rest_is_not() {
    let bed = Bed::with_repository();
    bed.backup(&[]).succeeds();
    fs::write(bed.source().join("docs/notes.txt"), "second version").expect("written");
    bed.backup(&[]).succeeds();
    let before = snapshots(&bed);
    let packs = || {
        fs::read_dir(bed.repository().join("packs"))
            .expect("a folder")
            .count()
    };
    let packs_before = packs();

    bed.run(["rewrite", "--exclude", "*.iso"])
        .succeeds()
        .says("0 of 2 snapshots rewritten");
    let dry = bed.run(["rewrite", "-n", "-e", "deep", "--exclude-larger-than", "1M"]);
    dry.succeeds()
        .says("1 entry left out, 585.938 KiB")
        .says("2 of 2 snapshots would be rewritten");
    assert_eq!(snapshots(&bed), before);
    assert_eq!(packs(), packs_before);

    // Beside the old ones, with a tag.
    let rewritten = bed
        .run(["rewrite", "--exclude", "copy.bin", "latest", "--json"])
        .succeeds();
    let rewritten = rewritten.json()[0].clone();
    assert_eq!(rewritten["old_snapshot_id"], before[1]["id"]);
    assert_eq!(rewritten["excluded_bytes"], 300_000);
    let all = snapshots(&bed);
    let new = all.as_array().expect("an array").iter();
    let new = new
        .into_iter()
        .find(|one| one["id"] == rewritten["new_snapshot_id"])
        .expect("there");
    assert_eq!(new["tags"][0], "rewrite");
    assert_eq!(new["original"], before[1]["id"]);
    assert_eq!(new["time"], before[1]["time"]);
    let less = before[1]["total_bytes"].as_u64().expect("a number") - 300_000;
    assert_eq!(new["total_bytes"], less);
    bed.run(["forget", new["id"].as_str().expect("text")])
        .succeeds();

    // In their place.
    let deep = bed.source().join("docs/deep");
    bed.run([
        "rewrite",
        "--exclude",
        &deep.display().to_string(),
        "--forget",
    ])
    .succeeds();
    let after = snapshots(&bed);
    assert_eq!(after.as_array().expect("an array").len(), 2);
    assert_eq!(after[0]["original"], before[0]["id"]);
    let target = bed.path("target");
    bed.run([
        "restore",
        "latest",
        "--target",
        &target.display().to_string(),
    ])
    .succeeds();
    let of = |name: &str| restored(&target, &bed.source().join(name));
    assert!(!of("docs/deep").exists());
    assert_eq!(
        fs::read(of("docs/notes.txt")).expect("restored"),
        b"second version"
    );
    assert!(of("empty").exists() && of("pointer").is_symlink());
    bed.run(["check", "--read-data"]).succeeds();
    // The next backup compares with it, and brings back what is there.
    let next = bed.backup(&["--json"]).succeeds().last_json();
    assert_eq!(next["parent"], after[1]["id"]);
    assert_eq!(next["files_new"], 2);

    // A snapshot of which nothing would stay is left as it is.
    let before = snapshots(&bed);
    for nothing in [["--include", "no-such-name"], ["--exclude", "/*"]] {
        bed.run(["rewrite", "--forget", nothing[0], nothing[1]])
            .succeeds()
            .says("0 of 3 snapshots rewritten");
        assert_eq!(snapshots(&bed), before);
    }

    bed.run(["rewrite"]).fails(2, "required");
    bed.run(["rewrite", "--exclude", "a/[b"]).fails(2, "a/[b");
}
