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
