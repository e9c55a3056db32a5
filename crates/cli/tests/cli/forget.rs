//! Snapshots that are removed, and those that stay.

use std::fs;

use crate::bed::Bed;

/// A repository with a snapshot of each of these times, host `ada`; returns their IDs.
fn with_snapshots(times: &[&str]) -> (Bed, Vec<String>) {
    let bed = Bed::with_repository();
    let ids = times.iter().map(|time| {
        let made = bed.backup(&["--json", "--host", "ada", "--time", time]);
        let id = made.succeeds().last_json()["snapshot_id"].clone();
        id.as_str().expect("text").to_owned()
    });
    let ids = ids.collect();
    (bed, ids)
}

fn left(bed: &Bed) -> Vec<String> {
    let listed = bed.run(["snapshots", "--json"]).succeeds().last_json();
    let ids = listed.as_array().expect("an array").iter();
    ids.map(|snapshot| snapshot["id"].as_str().expect("text").to_owned())
        .collect()
}

#[test]
fn a_policy_says_what_stays_and_why() {
    let (bed, ids) = with_snapshots(&[
        "2026-01-01 10:00:00",
        "2026-01-01 12:00:00",
        "2026-01-02 10:00:00",
        "2026-01-02 12:00:00",
    ]);
    let dry = bed.run([
        "forget",
        "--dry-run",
        "--keep-daily",
        "2",
        "--keep-within",
        "1h",
    ]);
    let dry = dry
        .succeeds()
        .says("keep 2 snapshots:")
        .says("remove 2 snapshots:");
    let dry = dry
        .says("dry run: 2 snapshots would be removed")
        .says("host ada");
    let line = |id: &String| {
        let mut lines = dry.stdout.lines();
        lines
            .find(|line| line.starts_with(&id[..8]))
            .expect("a line")
    };
    assert!(line(&ids[1]).contains("daily snapshot"), "{}", dry.stdout);
    assert!(line(&ids[3]).contains("within 1h"), "{}", dry.stdout);
    assert_eq!(left(&bed), ids);

    let made = bed
        .run(["forget", "--json", "--keep-daily", "2"])
        .succeeds()
        .last_json();
    assert_eq!(made[0]["host"], "ada");
    assert_eq!(made[0]["tags"], serde_json::Value::Null);
    assert_eq!(made[0]["keep"][0]["id"], ids[1]);
    assert_eq!(made[0]["remove"][0]["id"], ids[0]);
    assert_eq!(made[0]["reasons"][1]["snapshot"]["id"], ids[3]);
    assert_eq!(made[0]["reasons"][1]["matches"][0], "daily snapshot");
    assert_eq!(left(&bed), [ids[1].as_str(), &ids[3]]);
    // Everything that is left can be restored.
    bed.run(["check", "--read-data"]).succeeds();
    let again = bed.run(["forget", "-d", "2", "-q"]).succeeds();
    assert_eq!(again.stdout, "");
    assert_eq!(left(&bed).len(), 2);
}

#[test]
fn groups_are_judged_by_themselves() {
    let (bed, ids) = with_snapshots(&["2026-01-01 10:00:00", "2026-01-02 10:00:00"]);
    bed.backup(&["--host", "bob", "--time", "2025-01-01 10:00:00"])
        .succeeds();
    bed.run(["forget", "--keep-last", "1"])
        .succeeds()
        .says("1 snapshot removed");
    let both = left(&bed);
    assert!(both.len() == 2 && both[1] == ids[1], "{both:?}");
    // Keeps one snapshot of both hosts together, then one of a single host.
    let together = bed.run(["forget", "-n", "--group-by", "", "--keep-last", "1"]);
    together
        .succeeds()
        .says("For every snapshot:")
        .says("dry run: 1 snapshot would be removed");
    let filtered = bed.run([
        "forget",
        "-n",
        "--host",
        "bob",
        "--group-by",
        "",
        "--keep-last",
        "1",
    ]);
    filtered
        .succeeds()
        .says("dry run: 0 snapshots would be removed");
    bed.run(["forget", "--group-by", "pets", "--keep-last", "1"])
        .fails(2, "pets");
}

#[test]
fn tags_keep_and_the_last_snapshot_is_not_removed_by_accident() {
    let (bed, ids) = with_snapshots(&["2026-01-01 10:00:00", "2026-01-02 10:00:00"]);
    let refused = bed.run(["forget", "--keep-tag", "a,b"]);
    refused.fails(1, "no snapshot with host ada and paths ");
    assert_eq!(left(&bed), ids);
    bed.run(["forget"])
        .fails(2, "nothing says which snapshots stay");
    bed.run(["forget", "--keep-daily", "0"])
        .fails(2, "nothing says which snapshots stay");
    bed.run(["forget", "--unsafe-allow-remove-all"])
        .fails(2, "every snapshot of the repository");
    bed.run(["forget", "latest", "--keep-last", "1"])
        .fails(2, "cannot be used with");
    bed.run(["forget", "--keep-within", "1w"])
        .fails(2, "no length of time");
    bed.run(["forget", "--keep-last", "many"])
        .fails(2, "no number of snapshots");
    assert_eq!(left(&bed), ids);

    bed.backup(&[
        "--tag",
        "a,b,c",
        "--host",
        "ada",
        "--time",
        "2020-01-01 10:00:00",
    ])
    .succeeds();
    bed.run(["forget", "--keep-tag", "a,b"])
        .succeeds()
        .says("has tags [a, b]");
    assert_eq!(left(&bed).len(), 1);
    bed.run(["forget", "--unsafe-allow-remove-all", "--host", "ada"])
        .succeeds();
    assert_eq!(left(&bed).len(), 0);
}

#[test]
fn rules_of_a_profile_do_not_hold_up_what_is_named() {
    let (bed, ids) = with_snapshots(&["2026-01-01 10:00:00", "2026-01-02 10:00:00"]);
    let config = bed.path("config.toml");
    fs::write(&config, "[profiles.home.forget]\nkeep-last = 1\n").expect("written");
    let config = config.display().to_string();
    let profile = ["--config", &config, "--profile", "home"];
    let ran = bed.run(profile.iter().chain(&["forget", "-n", &ids[1][..8]]));
    ran.succeeds().says(&format!("remove {}", &ids[1][..8]));
    bed.run(profile.iter().chain(&["forget", "--lost", "-n"]))
        .succeeds();
    bed.run(profile.iter().chain(&["forget"])).succeeds();
    assert_eq!(left(&bed), ids[1..]);
}

#[test]
fn what_was_to_go_after_a_time_goes_also_if_it_is_the_last_of_its_group() {
    let (bed, ids) = with_snapshots(&["2026-01-01 10:00:00"]);
    let args = ["--host", "old", "--time", "2020-01-01 10:00:00"];
    bed.backup(&[&args[..], &["--delete-after", "1d"]].concat())
        .succeeds();
    bed.run(["forget", "--keep-last", "1"]).succeeds();
    assert_eq!(left(&bed), ids);
}

#[test]
fn snapshots_are_removed_by_name() {
    let (bed, ids) = with_snapshots(&[
        "2026-01-01 10:00:00",
        "2026-01-02 10:00:00",
        "2026-01-03 10:00:00",
    ]);
    bed.run(["forget", "-n", &ids[0][..12]])
        .succeeds()
        .says("1 snapshot would be removed");
    bed.run(["forget", &ids[0][..12], "latest", "--json"])
        .succeeds();
    assert_eq!(left(&bed), [ids[1].as_str()]);
    bed.run(["forget", &ids[0]]).fails(1, "no snapshot matches");
}

/// An unreadable snapshot may be the only one of its group, or the newest.
#[test]
fn a_snapshot_that_cannot_be_read_stays_unless_it_is_named() {
    let (bed, ids) = with_snapshots(&[
        "2026-01-01 10:00:00",
        "2026-01-02 10:00:00",
        "2026-01-03 10:00:00",
    ]);
    let object = bed.repository().join("snapshots").join(&ids[0]);
    let mut bytes = fs::read(&object).expect("it is there");
    bytes[60] ^= 1;
    fs::write(&object, bytes).expect("written");
    let ran = bed.run(["forget", "--keep-last", "1"]);
    assert_eq!(ran.code, Some(3));
    assert!(
        ran.stderr.contains(&ids[0]) && ran.stderr.contains("it stays"),
        "{}",
        ran.stderr
    );
    assert!(object.exists());
    assert!(!bed.repository().join("snapshots").join(&ids[1]).exists());
    bed.run(["forget", &ids[0]])
        .succeeds()
        .says("1 snapshot removed");
    assert!(!object.exists());
}

#[test]
fn what_is_removed_can_be_pruned_at_once() {
    let (bed, ids) = with_snapshots(&["2026-01-01 10:00:00"]);
    fs::remove_dir_all(bed.source().join("docs/deep")).expect("removed");
    bed.backup(&["--host", "ada"]).succeeds();
    let size = |bed: &Bed| {
        let stats = bed.run(["stats", "--json"]).succeeds().last_json();
        stats["repository_pack_bytes"].as_u64().expect("a number")
    };
    let before = size(&bed);
    let dry = bed.run(["forget", "--keep-last", "1", "--prune", "--dry-run"]);
    dry.succeeds()
        .says("would be removed")
        .says("nothing was changed");
    assert_eq!(size(&bed), before);
    let pruned = bed.run([
        "forget",
        "--keep-last",
        "1",
        "--prune",
        "--max-unused",
        "0%",
    ]);
    pruned.succeeds().says("1 snapshot removed");
    assert!(size(&bed) < before - 200_000, "{} of {before}", size(&bed));
    assert_eq!(left(&bed).len(), 1);
    assert!(!left(&bed).contains(&ids[0]));
    bed.run(["check", "--read-data"]).succeeds();
}
