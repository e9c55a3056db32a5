//! `tabane cat`, `tabane list` and `tabane self-test`

use std::fs;

use serde_json::Value;

use crate::bed::{Bed, bare_command, run, varied};

#[test]
fn every_object_can_be_listed_and_printed_but_for_secrets() {
    let bed = Bed::with_repository();
    bed.backup(&["--host", "ada"]).succeeds();
    let list = |kind: &str| {
        let lines = bed.run(["list", kind]).succeeds().stdout;
        lines.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let cat = |kind: &str, id: &str| bed.run(["cat", kind, id]).succeeds();
    let json = |kind: &str, id: &str| -> Value {
        serde_json::from_str(&cat(kind, id).stdout).expect("JSON")
    };
    let config = bed.run(["cat", "config"]).succeeds().stdout;
    assert!(config.contains("\"hash\": \"sha256\""), "{config}");
    assert!(!config.contains("secret"), "{config}");
    assert_eq!(json("snapshot", "latest")["hostname"], "ada");
    assert_eq!(
        json("snapshot", &list("snapshots")[0][..10])["hostname"],
        "ada"
    );
    assert_eq!(json("key", &list("keys")[0])["kdf"], "argon2id");
    assert_eq!(list("clients").len(), 0);

    let packs = list("packs");
    let index = json("index", &list("index")[0]);
    assert_eq!(index["packs"].as_array().expect("packs").len(), packs.len());
    let pack = cat("pack", &packs[0]);
    let digest = bed.path("pack");
    fs::write(&digest, &pack.bytes).expect("written");
    let sum = run(bare_command(["sum", "-a", "blake3"]).arg(&digest)).succeeds();
    assert_eq!(sum.stdout[..64], packs[0]);

    let blocks = list("blocks");
    let data: Vec<_> = blocks
        .iter()
        .filter_map(|line| line.strip_prefix("data "))
        .collect();
    assert!(blocks.iter().any(|line| line.starts_with("tree ")));
    let bytes: usize = data.iter().map(|id| cat("block", id).bytes.len()).sum();
    // Both files of 300,000 bytes have the same blocks.
    assert_eq!(bytes, 300_000 + "first version\n".len());
    let notes = data
        .iter()
        .find(|id| cat("block", &id[..12]).bytes == b"first version\n");
    assert!(notes.is_some());
    assert!(cat("block", data[0]).bytes.len() < varied(300_000).len());

    // A short prefix would now and then be some pack's.
    let none = "0".repeat(64);
    bed.run(["cat", "pack", &none])
        .fails(1, "tabane list packs");
    bed.run(["cat", "index", ""]).fails(1, "nothing in index");
    bed.run(["cat", "pack"]).fails(2, "ID");
    bed.run(["cat", "config", "1"]).fails(2, "leave the ID out");
    bed.run(["cat", "masterkey"]).fails(2, "masterkey");
}

#[test]
fn this_machine_computes_rightly() {
    let bed = Bed::new();
    let scratch = bed.path("scratch");
    fs::create_dir(&scratch).expect("a directory");
    let ran = run(bare_command(["self-test", "--seconds", "0", "--directory"]).arg(&scratch))
        .succeeds()
        .says("ok      hashes on portable")
        .says("ok      AES-256-GCM")
        .says("this machine computes rightly");
    assert!(!ran.stdout.contains("FAILED"), "{}", ran.stdout);
    assert_eq!(fs::read_dir(&scratch).expect("readable").count(), 0);
    let json = run(&mut bare_command(["self-test", "--seconds", "0", "--json"])).succeeds();
    assert_eq!(json.last_json()["ok"], true);
    let nowhere = bed.path("nowhere").display().to_string();
    let failed = run(&mut bare_command([
        "self-test",
        "--seconds",
        "0",
        "--directory",
        &nowhere,
    ]));
    assert_eq!(failed.code, Some(1));
    failed.says("FAILED  a backup and a restore");
}
