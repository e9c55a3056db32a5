//! Object lock, on a real S3 server.

use std::fs;

use jiff::{SignedDuration, Timestamp};
use tabane_testing::gateway::{BUCKET, Gateway, LOCKED};

use crate::bed::{Bed, Ran, restored, run, varied};

fn tabane(bed: &Bed, url: &str, args: &[&str]) -> Ran {
    let mut command = bed.command(args);
    run(Gateway::credentials(&mut command).env("TABANE_REPOSITORY", url))
}

/// A version of an object, or a mark that it was deleted.
#[derive(Debug)]
struct Version {
    key: String,
    id: String,
}

impl Version {
    fn path(&self) -> String {
        format!("/{LOCKED}/{}?versionId={}", self.key, self.id)
    }
}

/// All versions of all objects.
fn versions(gateway: &Gateway) -> Vec<Version> {
    let (status, answer) = gateway.request("GET", &format!("/{LOCKED}?versions="), &[], "");
    assert_eq!(status, 200, "{answer}");
    assert!(answer.contains("<IsTruncated>false"), "{answer}");
    let mut found = Vec::new();
    for tag in ["Version", "DeleteMarker"] {
        let begin = format!("<{tag}>");
        let parts = answer.split(&begin[..]).skip(1);
        found.extend(parts.map(|part| {
            let field = |name: &str| {
                let (_, rest) = part.split_once(&format!("<{name}>")).expect(name);
                rest.split_once("</").expect("it ends").0.to_owned()
            };
            Version {
                key: field("Key"),
                id: field("VersionId"),
            }
        }));
    }
    found
}

/// Until when each object with this prefix is locked.
fn locks(gateway: &Gateway, prefix: &str) -> Vec<Timestamp> {
    let versions = versions(gateway);
    let of_prefix = versions
        .iter()
        .filter(|version| version.key.starts_with(prefix));
    let until = of_prefix.map(|version| {
        let path = format!("/{LOCKED}/{}?retention=", version.key);
        let (status, answer) = gateway.request("GET", &path, &[], "");
        assert_eq!(status, 200, "{answer}");
        let (_, rest) = answer.split_once("<RetainUntilDate>").expect("a date");
        rest.split_once("</")
            .expect("it ends")
            .0
            .parse()
            .expect("a time")
    });
    until.collect()
}

#[test]
fn an_intruder_with_all_rights_removes_nothing_for_good() {
    let Some(gateway) = Gateway::start_with_lock("object lock against an intruder") else {
        return;
    };
    let bed = Bed::new();
    let url = gateway.url(LOCKED, "r");
    let source = bed.source().display().to_string();
    let lock = ["--lock-for", "1h", "--lock-mode", "compliance"];
    let with_lock = |args: &[&str]| tabane(&bed, &url, &[args, &lock[..]].concat());
    with_lock(&["init"]).succeeds();
    with_lock(&["backup", &source]).succeeds();

    let before = versions(&gateway);
    let transient = ["r/clients/", "r/pending/"];
    let (mut attempts, mut refused) = (0, 0);
    let bypass = "x-amz-bypass-governance-retention: true";
    let soon = Timestamp::now() + SignedDuration::from_secs(2);
    let shorter = format!(
        "<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>{}</RetainUntilDate></Retention>",
        soon.strftime("%Y-%m-%dT%H:%M:%SZ")
    );
    let of_value = |version: &&Version| {
        !transient
            .iter()
            .any(|prefix| version.key.starts_with(prefix))
    };
    for version in before.iter().filter(of_value) {
        let path = version.path();
        let retention = format!("/{LOCKED}/{}?retention=", version.key);
        for (method, path, headers, body) in [
            ("DELETE", &path, &[][..], ""),
            ("DELETE", &path, &[bypass], ""),
            ("PUT", &retention, &[], &shorter),
            ("PUT", &retention, &[bypass], &shorter),
        ] {
            let (status, _) = gateway.request(method, path, headers, body);
            attempts += 1;
            refused += u32::from(status >= 400);
        }
        // These succeed, and put something before what is locked.
        let object = format!("/{LOCKED}/{}", version.key);
        gateway.request("PUT", &object, &[], "something else");
        gateway.request("DELETE", &object, &[], "");
        attempts += 2;
    }
    eprintln!("{attempts} attempts on locked objects, {refused} refused");
    assert_eq!(refused, attempts / 6 * 4);
    assert_ne!(tabane(&bed, &url, &["check"]).code, Some(0));

    // Whoever has the right to look behind what is in front has all of it again.
    let known: Vec<&str> = before.iter().map(|version| &version.id[..]).collect();
    for version in versions(&gateway) {
        if !known.contains(&&version.id[..]) {
            let (status, why) = gateway.request("DELETE", &version.path(), &[], "");
            assert!(status < 300, "{why}");
        }
    }
    tabane(&bed, &url, &["check", "--read-data"]).succeeds();
    let target = bed.path("target");
    let text = target.display().to_string();
    tabane(&bed, &url, &["restore", "latest", "--target", &text]).succeeds();
    let file = bed.source().join("docs/deep/data.bin");
    assert!(fs::read(restored(&target, &file)).unwrap() == fs::read(file).unwrap());
}

#[test]
fn locks_are_extended_for_what_snapshots_need_and_prune_says_when_the_rest_is_free() {
    let Some(gateway) = Gateway::start_with_lock("object lock in everyday work") else {
        return;
    };
    let bed = Bed::new();
    let url = gateway.url(LOCKED, "r");
    let source = bed.source().display().to_string();
    tabane(&bed, &url, &["init", "--lock-for", "1d"]).succeeds();
    let file = bed.source().join("only-here");
    fs::write(&file, varied(700_000)).expect("a file");
    tabane(&bed, &url, &["backup", "--lock-for", "1d", &source]).succeeds();
    let now = Timestamp::now();
    let days = |time: &Timestamp| time.duration_since(now).as_hours() / 24;
    let packs = locks(&gateway, "r/packs/");
    assert!(
        packs.len() >= 2 && packs.iter().all(|until| days(until) == 1),
        "{packs:?}"
    );

    // What the next snapshot needs is locked for as long as it is.
    fs::remove_file(&file).expect("it was there");
    fs::write(&file, &varied(1_400_000)[700_000..]).expect("a file");
    tabane(&bed, &url, &["backup", "--lock-for", "9d", &source]).succeeds();
    let packs = locks(&gateway, "r/packs/");
    assert!(packs.iter().any(|until| days(until) >= 9), "{packs:?}");
    for folder in ["r/config", "r/keys/", "r/index/", "r/snapshots/"] {
        let locked = locks(&gateway, folder);
        assert!(
            !locked.is_empty() && locked.iter().all(|until| days(until) >= 9),
            "{folder}"
        );
    }

    // A prune without the option leaves what is locked, too.
    tabane(
        &bed,
        &url,
        &["forget", "--keep-last", "1", "--unsafe-allow-remove-all"],
    )
    .succeeds();
    let before = locks(&gateway, "r/packs/").len();
    let pruned = tabane(&bed, &url, &["prune", "--max-unused", "0%"]).succeeds();
    assert!(
        pruned.stdout.contains("removed 0 B in 0 packs"),
        "{}",
        pruned.stdout
    );
    assert!(
        pruned.stdout.contains("locked until 20"),
        "{}",
        pruned.stdout
    );
    let json = tabane(&bed, &url, &["prune", "--max-unused", "0%", "--json"])
        .succeeds()
        .last_json();
    assert!(
        json["locked"]["until"]
            .as_object()
            .is_some_and(|days| !days.is_empty()),
        "{json}"
    );
    assert_eq!(locks(&gateway, "r/packs/").len(), before);
    let pruned = tabane(&bed, &url, &["prune", "--lock-for", "30d"]).succeeds();
    pruned.says("extended the locks of ");
    tabane(&bed, &url, &["check", "--read-data"]).succeeds();
}

#[test]
fn where_nothing_can_be_locked() {
    let bed = Bed::new();
    bed.run(["init", "--lock-for", "30d"]).fails(2, "lock");
    bed.run(["init", "--lock-for", "1s"])
        .fails(2, "a minute to ten years");
    bed.run(["init", "--lock-for", "20y"])
        .fails(2, "--lock-for");
    let Some(gateway) = Gateway::start("object lock in a bucket without it") else {
        return;
    };
    let url = gateway.url(BUCKET, "r");
    tabane(&bed, &url, &["init", "--lock-for", "30d"]).fails(1, "does not lock new objects");
    tabane(&bed, &url, &["init"]).succeeds();
    tabane(&bed, &url, &["prune"]).succeeds();
}
