//! What is listed, searched, checked and rewritten, and how that is chosen.

use std::fs;

use serde_json::Value;

use crate::bed::{Bed, Ran, varied};

/// Names without the directory that the source is in.
fn names(bed: &Bed, ran: &Ran) -> Vec<String> {
    let above = format!("{}/", bed.source().display());
    let lines = ran
        .stdout
        .lines()
        .filter_map(|line| line.strip_prefix(&above));
    lines.map(str::to_owned).collect()
}

fn backed_up() -> Bed {
    let bed = Bed::with_repository();
    bed.backup(&["--host", "ada", "--tag", "one"]).succeeds();
    bed
}

#[test]
fn entries_are_listed_in_the_order_wanted() {
    let bed = backed_up();
    let list = |args: &[&str]| {
        let all = ["ls", "latest"].into_iter().chain(args.iter().copied());
        bed.run(all).succeeds()
    };
    let by_size = names(&bed, &list(&["--sort", "size"]));
    assert_eq!(by_size[6..], ["docs/deep/copy.bin", "docs/deep/data.bin"]);
    let largest = names(&bed, &list(&["--sort", "size", "--reverse"]));
    assert_eq!(largest[0], "docs/deep/data.bin");
    let back = names(&bed, &list(&["--reverse"]));
    assert_eq!(back[0], "pointer");
    let by_extension = names(&bed, &list(&["--sort", "extension"]));
    assert_eq!(by_extension.last(), Some(&"docs/notes.txt".to_owned()));
    list(&["-l", "--human-readable"]).says("292.969 KiB");
    for by in ["name", "time", "mtime", "atime", "ctime"] {
        assert_eq!(names(&bed, &list(&["--sort", by])).len(), 8, "{by}");
    }
}

#[test]
fn ncdu_reads_a_list() {
    let bed = backed_up();
    let source = bed.source().display().to_string();
    let ran = bed
        .run(["ls", "--ncdu", &format!("latest:{source}")])
        .succeeds();
    let whole: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(
        (&whole[0], &whole[1], &whole[2]["progname"]),
        (&1.into(), &2.into(), &"tabane".into())
    );
    let root = whole[3].as_array().expect("a directory");
    assert_eq!(root[0]["name"], source.as_str());
    let name = |entry: &Value| {
        let info = entry.get(0).unwrap_or(entry);
        info["name"].as_str().expect("a name").to_owned()
    };
    let below: Vec<String> = root[1..].iter().map(name).collect();
    assert_eq!(below, ["docs", "empty", "linked", "pointer"]);
    let deep: Vec<String> = root[1][1]
        .as_array()
        .expect("deep")
        .iter()
        .map(name)
        .collect();
    assert_eq!(deep, ["deep", "copy.bin", "data.bin"]);
    assert_eq!(root[1][1][1]["asize"], 300_000);
    assert_eq!(
        (&root[3]["hlnkc"], &root[4]["notreg"]),
        (&true.into(), &true.into())
    );
    bed.run(["ls", "--ncdu", "latest", "/a", "/b"])
        .fails(1, "/a is not in snapshot");
    let both = [format!("{source}/docs"), format!("{source}/empty")];
    bed.run(["ls", "--ncdu", "latest", &both[0], &both[1]])
        .fails(2, "one directory");
}

#[test]
fn snapshots_are_listed_in_groups() {
    let bed = backed_up();
    bed.backup(&["--host", "bob"]).succeeds();
    bed.backup(&["--host", "bob"]).succeeds();
    let listed = bed.run(["snapshots", "--group-by", "host"]).succeeds();
    let listed = listed
        .says("For every snapshot with host ada:")
        .says("with host bob:");
    listed.says("Stored").says("3 snapshots");
    let listed = bed
        .run(["snapshots", "--group-by", "host,tags", "--json"])
        .succeeds();
    let groups = listed.last_json();
    assert_eq!(groups[0]["group_key"]["tags"][0], "one");
    assert_eq!(groups[0]["snapshots"].as_array().map(Vec::len), Some(1));
    assert_eq!(groups[1]["snapshots"].as_array().map(Vec::len), Some(2));
}

#[test]
fn files_are_found_by_size() {
    let bed = backed_up();
    let find = |args: &[&str]| {
        let all = ["find", "-q", "*"].into_iter().chain(args.iter().copied());
        names(&bed, &bed.run(all).succeeds())
    };
    assert_eq!(
        find(&["--larger-than", "100K"]),
        ["docs/deep/copy.bin", "docs/deep/data.bin"]
    );
    assert_eq!(find(&["--smaller-than", "0"]), ["empty"]);
    let middle = find(&["--larger-than", "1", "--smaller-than", "100"]);
    assert_eq!(middle, ["docs/notes.txt", "linked"]);
}

#[test]
fn snapshots_get_another_host_and_time() {
    let bed = backed_up();
    let args = [
        "rewrite",
        "--new-host",
        "bob",
        "--new-time",
        "2020-01-02T03:04:05Z",
        "--forget",
    ];
    bed.run(args).succeeds().says("1 of 1 snapshot rewritten");
    let listed = bed.run(["snapshots", "--json"]).succeeds().last_json();
    assert_eq!(listed.as_array().map(Vec::len), Some(1));
    assert_eq!(
        (&listed[0]["hostname"], &listed[0]["time"]),
        (&"bob".into(), &"2020-01-02T03:04:05Z".into())
    );
    bed.run(["rewrite", "--new-host", "bob"])
        .succeeds()
        .says("0 of 1");
    bed.run(["check", "--read-data"]).succeeds();
}

#[test]
fn snapshots_keep_only_what_is_included() {
    let bed = backed_up();
    bed.run([
        "rewrite",
        "--include",
        "*.bin",
        "--exclude",
        "copy.*",
        "--forget",
    ])
    .succeeds();
    let listed = bed.run(["ls", "latest"]).succeeds();
    assert_eq!(
        names(&bed, &listed),
        ["docs", "docs/deep", "docs/deep/data.bin"]
    );
    bed.run(["rewrite", "--include", "*.none", "--forget"])
        .succeeds()
        .says("0 of 1 snapshot rewritten");
    assert_eq!(bed.run(["ls", "latest"]).succeeds().stdout, listed.stdout);
}

#[test]
fn chosen_snapshots_are_checked() {
    let bed = backed_up();
    fs::write(bed.source().join("docs/deep/data.bin"), varied(2 << 20)).expect("written");
    bed.backup(&["--host", "bob"]).succeeds();
    let all = bed
        .run(["check", "--read-data", "--json"])
        .succeeds()
        .last_json();
    let ada = ["check", "--read-data", "--json", "--host", "ada"];
    let some = bed.run(ada).succeeds().last_json();
    let number = |report: &Value, key: &str| report[key].as_u64().expect("a number");
    assert_eq!(
        (number(&all, "snapshots"), number(&some, "snapshots")),
        (2, 1)
    );
    assert!(
        number(&some, "read_packs") < number(&all, "read_packs"),
        "{all} {some}"
    );
    bed.run(["check", "latest"]).succeeds().says("1 snapshot");
    bed.run(["check", "--host", "nobody"])
        .fails(1, "no snapshot matches");
}

#[test]
fn backups_that_do_not_run_are_found() {
    let bed = backed_up();
    bed.run(["check", "--expect-every", "1h"]).succeeds();
    bed.backup(&["--host", "old", "--time", "2020-01-02 03:04:05"])
        .succeeds();
    let ran = bed.run(["check", "--expect-every", "1d"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr
            .contains("the latest snapshot of old is of 2020-01-0"),
        "{}",
        ran.stderr
    );
    // Nothing is damaged: no advice for that.
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    bed.run(["check", "--expect-every", "1d", "--host", "ada"])
        .succeeds();
    // One of the future does not count.
    bed.backup(&["--host", "old", "--time", "2100-01-02 03:04:05"])
        .succeeds();
    let ran = bed.run(["check", "--expect-every", "1d", "--host", "old"]);
    assert_eq!(ran.code, Some(1));
    let said = &ran.stderr;
    assert!(
        said.contains("of old is of 2100-01-02 03:04:05, which is still to come"),
        "{said}"
    );
    assert!(
        said.contains("the latest snapshot of old is of 2020-01-0"),
        "{said}"
    );
    bed.backup(&["--host", "new", "--time", "2100-01-02 03:04:05"])
        .succeeds();
    let ran = bed.run(["check", "--expect-every", "1d", "--host", "new"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("new has no snapshot that counts"),
        "{}",
        ran.stderr
    );
    // One that is named and has none is missed.
    let hosts = ["--host", "ada", "--host", "lost"];
    let ran = bed.run(["check", "--expect-every", "1d"].iter().chain(&hosts));
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("lost has no snapshot"),
        "{}",
        ran.stderr
    );
    let empty = Bed::with_repository();
    let ran = empty.run(["check", "--expect-every", "1d"]);
    assert!(ran.stderr.contains("one was expected"), "{}", ran.stderr);
}
