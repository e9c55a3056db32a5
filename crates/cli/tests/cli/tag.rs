//! Tags of snapshots that are there.

use serde_json::json;

use crate::bed::Bed;

#[test]
fn tags_are_set_added_and_removed() {
    let bed = Bed::with_repository();
    let first = bed.backup(&["--json", "--tag", "a"]).succeeds().last_json();
    let first = first["snapshot_id"].as_str().expect("text").to_owned();
    bed.backup(&["--host", "other"]).succeeds();
    let of = |number: usize| {
        let all = bed.run(["snapshots", "--json"]).succeeds().last_json();
        assert_eq!(all.as_array().expect("an array").len(), 2);
        all[number].clone()
    };
    let changed = bed
        .run(["tag", "--add", "b,c", "--remove", "a", "--json", &first])
        .succeeds();
    let lines = changed.json();
    assert_eq!(lines[0]["message_type"], "changed");
    assert_eq!(lines[0]["old_snapshot_id"], first);
    assert_eq!(
        lines[1],
        json!({"message_type": "summary", "changed_snapshots": 1})
    );
    assert_eq!(of(0)["id"], lines[0]["new_snapshot_id"]);
    assert_eq!(of(0)["tags"], json!(["b", "c"]));
    assert_eq!(of(0)["original"], first);
    assert_eq!(of(1)["tags"], json!([]));
    // What was there first stays known, and what needs no change gets none.
    bed.run(["tag", "--set", "x", "--tag", "b"])
        .succeeds()
        .says("1 snapshot");
    assert_eq!(of(0)["original"], first);
    assert_eq!(of(0)["tags"], json!(["x"]));
    let id = of(0)["id"].clone();
    bed.run(["tag", "--add", "x", "--tag", "x"])
        .succeeds()
        .says("0 snapshots");
    assert_eq!(of(0)["id"], id);
    bed.run([
        "tag",
        "--set",
        "",
        "latest",
        &id.as_str().expect("text")[..8],
    ])
    .succeeds();
    assert_eq!(of(0)["tags"], json!([]));

    bed.run(["tag"]).fails(2, "required");
    bed.run(["tag", "--set", "a", "--add", "b"])
        .fails(2, "cannot be used with");
    bed.run(["check", "--read-data"]).succeeds();
}

#[test]
fn spaces_around_tags_are_no_part_of_them() {
    let bed = Bed::with_repository();
    bed.backup(&["--tag", "daily, laptop ", "--tag", " x"])
        .succeeds();
    let tags = || bed.run(["snapshots", "--json"]).succeeds().last_json()[0]["tags"].clone();
    assert_eq!(tags(), json!(["daily", "laptop", "x"]));
    for tag in ["laptop", " laptop", "daily,laptop", "x , daily"] {
        let found = bed
            .run(["snapshots", "--json", "--tag", tag])
            .succeeds()
            .last_json();
        assert_eq!(found.as_array().expect("an array").len(), 1, "{tag}");
    }
    bed.backup(&[]).succeeds();
    // An empty list means snapshots without tags, and not all.
    for none in ["", " ,"] {
        let found = bed
            .run(["snapshots", "--json", "--tag", none])
            .succeeds()
            .last_json();
        let found = found.as_array().expect("an array");
        assert_eq!(found.len(), 1, "{none:?}");
        assert!(found[0]["tags"].as_array().is_none_or(Vec::is_empty));
    }
    let kept = bed.run([
        "forget",
        "--keep-last",
        "1",
        "--keep-tag",
        "laptop",
        "--group-by",
        "host",
    ]);
    kept.succeeds();
    assert_eq!(tags(), json!(["daily", "laptop", "x"]));
    bed.run(["tag", "--remove", " laptop", "--tag", "daily"])
        .succeeds();
    assert_eq!(tags(), json!(["daily", "x"]));
    // One snapshot alone is nothing to merge.
    bed.run(["merge", "latest", "latest"])
        .fails(1, "nothing to merge");
    bed.run([
        "merge",
        "--host",
        &hostname(&bed),
        "--add-tag",
        "all, of it",
    ])
    .succeeds();
    let found = bed
        .run(["snapshots", "--json", "--tag", "all,of it"])
        .succeeds()
        .last_json();
    assert_eq!(found.as_array().expect("an array").len(), 1);
}

fn hostname(bed: &Bed) -> String {
    let all = bed.run(["snapshots", "--json"]).succeeds().last_json();
    all[0]["hostname"].as_str().expect("text").to_owned()
}
