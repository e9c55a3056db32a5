//! What is kept on the machine of repositories.

use std::fs;

use crate::bed::{Bed, bare_command, run};

#[test]
fn a_cache_is_made_used_listed_and_removed() {
    let bed = Bed::with_repository();
    let cache = bed.path("cache");
    bed.run(["backup", "--no-cache", &bed.source().display().to_string()])
        .succeeds();
    assert!(!cache.exists());
    bed.run(["cache"]).succeeds().says("0 repositories");

    bed.run(["ls", "latest"]).succeeds();
    let listed = bed.run(["cache", "--json"]).succeeds().last_json();
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    assert!(listed[0]["size_bytes"].as_u64() > Some(1000), "{listed}");
    assert_eq!(
        (&listed[0]["old"], &listed[0]["removed"]),
        (&false.into(), &false.into())
    );
    let folder = listed[0]["path"].as_str().expect("a path");
    let runs = || -> Vec<_> {
        let entries = fs::read_dir(folder).expect("a folder");
        entries
            .map(|entry| entry.expect("an entry").path())
            .collect()
    };
    assert_eq!(runs().len(), 1);
    let tag = fs::read_to_string(cache.join("CACHEDIR.TAG")).expect("a tag");
    assert!(tag.starts_with("Signature: 8a477f597d28d172789f06886806bc55"));

    // The index objects are not read again…
    let index = bed.repository().join("index");
    let objects = fs::read_dir(&index).expect("a folder");
    let object = objects
        .map(|entry| entry.expect("an object").path())
        .next()
        .expect("one");
    let bytes = fs::read(&object).expect("read");
    fs::write(&object, &bytes[..50]).expect("written");
    bed.run(["ls", "latest"]).succeeds();
    bed.run(["ls", "latest", "--no-cache"])
        .fails(1, "is damaged");
    fs::write(&object, bytes).expect("written");
    // …and what is wrong in the cache is noticed.
    let run_path = runs().pop().expect("a run");
    fs::write(&run_path, vec![0; 4096]).expect("written");
    bed.run(["ls", "latest"]).succeeds();
    bed.run(["check", "--read-data"]).succeeds();

    let removed = |args: &[&str]| {
        let all = [&["cache", "--cleanup", "--json"], args].concat();
        bed.run(all).succeeds().last_json()[0]["removed"].clone()
    };
    assert_eq!(removed(&[]), false);
    assert_eq!(removed(&["--max-age", "0"]), true);
    assert!(!std::path::Path::new(folder).exists());
    bed.run(["cache"])
        .succeeds()
        .says("0 repositories with 0 B");
}

#[test]
fn a_place_that_cannot_be_used_is_said_once_and_no_obstacle() {
    let bed = Bed::with_repository();
    let file = bed.path("no-directory");
    fs::write(&file, "").expect("written");
    let file = file.display().to_string();
    let source = bed.source().display().to_string();
    let ran = bed.run(["backup", &source, "--cache-dir", &file]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(
        ran.stderr.starts_with("tabane: cannot use the cache in "),
        "{}",
        ran.stderr
    );
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    bed.run(["cache", "--cache-dir", &file])
        .fails(1, "cannot list");
}

#[test]
fn the_cache_is_where_the_desktop_wants_it() {
    let bed = Bed::with_repository();
    let [xdg, home] = ["xdg", "home"].map(|name| bed.path(name));
    let list = || {
        let mut command = bare_command(["ls", "--json", "latest", "--repo"]);
        command
            .arg(bed.repository())
            .env("TABANE_PASSWORD", crate::bed::PASSWORD);
        command
    };
    bed.backup(&[]).succeeds();
    run(list().env("XDG_CACHE_HOME", &xdg)).succeeds();
    assert!(xdg.join("tabane/CACHEDIR.TAG").exists());
    run(list().env_remove("XDG_CACHE_HOME").env("HOME", &home)).succeeds();
    assert!(home.join(".cache/tabane/CACHEDIR.TAG").exists());
    run(list().env_remove("XDG_CACHE_HOME").env_remove("HOME")).succeeds();
}
