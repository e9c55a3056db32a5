//! What people do every day.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Stdio;

use crate::bed::{Bed, PASSWORD, bare_command, restored, run, varied};

#[test]
fn a_tree_is_stored_listed_compared_and_restored() {
    let bed = Bed::new();
    let source = bed.source();
    let text = source.display().to_string();

    let first = bed
        .backup(&["--init", "--tag", "one,two", "--host", "ada"])
        .succeeds();
    let first = first
        .says("created repository")
        .says("Remember the password");
    let first = first.says("5 new, 0 changed, 0 unmodified");
    let first_id = id_of(&first.stdout);
    let again = bed.backup(&["--host", "ada"]).succeeds();
    again.says("0 new, 0 changed, 5 unmodified");

    fs::write(source.join("docs/notes.txt"), "second version\n").expect("written");
    fs::write(source.join("new"), "new").expect("written");
    fs::remove_file(source.join("empty")).expect("removed");
    fs::set_permissions(
        source.join("docs/deep/copy.bin"),
        PermissionsExt::from_mode(0o600),
    )
    .expect("set");
    let third = bed
        .backup(&["--host", "ada", "--time", "2999-01-02 03:04:05"])
        .succeeds();
    let third_id = id_of(&third.stdout);

    let listed = bed
        .run(["snapshots"])
        .succeeds()
        .says("3 snapshots")
        .says("2999-01-02 03:04:05");
    assert!(listed.stdout.contains(&first_id) && listed.stdout.contains(&third_id));
    bed.run(["snapshots", "--tag", "two,one", "--host", "ada"])
        .succeeds()
        .says("1 snapshot");
    bed.run(["snapshots", "--tag", "three"])
        .succeeds()
        .says("0 snapshots");
    let latest = bed
        .run(["snapshots", "--latest", "1", "--path", &text])
        .succeeds();
    assert!(latest.says("1 snapshot").stdout.contains(&third_id));

    let ls = bed.run(["ls", "latest", &text]).succeeds();
    assert_eq!(
        ls.stdout
            .lines()
            .map(|line| line.strip_prefix(&text).expect(line))
            .collect::<Vec<_>>(),
        [
            "/docs",
            "/docs/deep",
            "/docs/deep/copy.bin",
            "/docs/deep/data.bin",
            "/docs/notes.txt",
            "/linked",
            "/new",
            "/pointer",
        ]
    );
    let long = bed
        .run([
            "ls",
            "-l",
            "--no-recursive",
            &format!("{third_id}:{text}"),
            "docs/deep",
        ])
        .succeeds();
    assert!(
        long.stdout
            .lines()
            .next()
            .expect("a line")
            .starts_with("-rw------- "),
        "{}",
        long.stdout
    );
    bed.run(["ls", "-l", &format!("latest:{text}")])
        .succeeds()
        .says("pointer -> docs/notes.txt");

    let diff = bed.run(["diff", &first_id, &third_id]).succeeds();
    let lines: Vec<&str> = diff
        .stdout
        .lines()
        .take_while(|line| !line.is_empty())
        .collect();
    let expected = [
        format!("M    {text}/docs/notes.txt"),
        format!("-    {text}/empty"),
        format!("M    {text}/linked"),
        format!("+    {text}/new"),
    ];
    assert_eq!(lines, expected);
    diff.says("1 added, 1 removed, 2 changed, ");
    let metadata = bed.run([
        "diff",
        "--metadata",
        &format!("{first_id}:{text}"),
        &format!("{third_id}:{text}"),
    ]);
    metadata
        .succeeds()
        .says("U    /docs/deep/copy.bin")
        .says("2 changed, 1 with other attributes only")
        .says("M    /docs/notes.txt");
    assert!(
        bed.run(["diff", &third_id, &third_id])
            .succeeds()
            .stdout
            .starts_with("\nFiles:    0 added")
    );

    let dumped = bed
        .run(["dump", &first_id, &format!("{text}/docs/notes.txt")])
        .succeeds();
    assert_eq!(dumped.bytes, b"first version\n");
    let dumped = bed
        .run(["dump", &format!("latest:{text}/docs"), "deep/data.bin"])
        .succeeds();
    assert_eq!(dumped.bytes, varied(300_000));

    bed.run(["stats"])
        .succeeds()
        .says("Snapshots:      3")
        .says("smaller by deduplication");
    for (mode, lines) in [
        ("restore-size", &["Snapshots:", "Restore size:"][..]),
        ("files-by-contents", &["Snapshots:", "Unique files:"]),
        ("raw-data", &["Snapshots:", "Unique blocks:", "Stored:"]),
        (
            "blobs-per-file",
            &["Snapshots:", "Unique files:", "Unique blocks:"],
        ),
    ] {
        let ran = bed.run(["stats", "--mode", mode, "latest"]).succeeds();
        let begins = ran.stdout.lines().zip(lines);
        let all = begins.filter(|(line, begin)| line.starts_with(**begin));
        assert_eq!(all.count(), lines.len(), "{mode}: {}", ran.stdout);
        assert_eq!(ran.stdout.lines().count(), lines.len(), "{mode}");
    }
    bed.run(["check", "--read-data"])
        .succeeds()
        .says("no problems were found");

    let target = bed.path("target");
    let arguments = ["restore", "latest", "--verify", "--target"];
    let restore = || {
        bed.run(
            arguments
                .iter()
                .map(AsRef::as_ref)
                .chain([target.as_os_str()]),
        )
        .succeeds()
    };
    restore().says("4 files");
    restore().says("0 B written");
    let came_back = restored(&target, &source);
    assert_eq!(
        fs::read(came_back.join("linked")).expect("restored"),
        b"second version\n"
    );
    let metadata = |path: &str| fs::symlink_metadata(came_back.join(path)).expect(path);
    assert_eq!(metadata("linked").ino(), metadata("docs/notes.txt").ino());
    assert_eq!(metadata("docs/deep/copy.bin").mode() & 0o7777, 0o600);
    let mtime = |metadata: fs::Metadata| (metadata.mtime(), metadata.mtime_nsec());
    let original = fs::symlink_metadata(source.join("pointer")).expect("there");
    assert_eq!(mtime(metadata("pointer")), mtime(original));
}

fn id_of(stdout: &str) -> String {
    let line = stdout
        .lines()
        .find(|line| line.starts_with("snapshot "))
        .expect(stdout);
    line.split(' ').nth(1).expect(stdout).to_owned()
}

#[test]
fn passwords_are_added_changed_and_removed() {
    let bed = Bed::with_repository();
    let second = bed.path("second");
    fs::write(&second, "second password\n").expect("written");
    let third = bed.path("third");
    fs::write(&third, "third password").expect("written");
    let second_text = second.display().to_string();
    let third_text = third.display().to_string();

    bed.run(["key", "add", "--new-password-file", &second_text])
        .succeeds()
        .says("added key");
    let listed = bed.run(["key", "list", "--json"]).succeeds().last_json();
    let keys = listed.as_array().expect("a list");
    assert_eq!(keys.len(), 2);
    let id = |current: bool| {
        let found = keys
            .iter()
            .find(|key| key["current"] == current)
            .expect("one of each");
        found["id"].as_str().expect("text").to_owned()
    };
    let (first_id, second_id) = (id(true), id(false));
    bed.run(["key", "remove", &first_id[..10]])
        .fails(1, "is the one in use");
    bed.run(["key", "remove", "xyz"]).fails(1, "no key matches");
    bed.run(["key", "remove", ""]).fails(1, "no key matches");

    // The second password becomes the third.
    let with_file = |file: &str, args: &[&str]| {
        let mut command = bed.command(args);
        run(command
            .env_remove("TABANE_PASSWORD")
            .args(["--password-file", file]))
    };
    let changed = with_file(
        &second_text,
        &["key", "passwd", "--new-password-file", &third_text],
    );
    changed.succeeds().says("the password is changed");
    with_file(&second_text, &["snapshots"]).fails(
        12,
        "wrong password: it opens none of the 2 key(s) of the repository at",
    );
    bed.run(["key", "remove", &second_id])
        .fails(1, "no key matches");
    with_file(&third_text, &["key", "remove", &first_id[..8]])
        .succeeds()
        .says("removed key");
    bed.run(["snapshots"]).fails(12, "wrong password");
}

#[test]
fn passwords_come_from_variables_files_and_commands() {
    let bed = Bed::with_repository();
    let file = bed.path("password");
    fs::write(&file, format!("{PASSWORD}\n")).expect("written");
    let file = file.display().to_string();
    let repository = bed.repository().display().to_string();
    let works = |variables: &[(&str, &str)], args: &[&str]| {
        let mut command = bare_command(["snapshots", "-q", "--repo", &repository]);
        run(command.args(args).envs(variables.iter().copied())).succeeds();
    };
    works(&[("TABANE_PASSWORD_FILE", &file)], &[]);
    works(
        &[("TABANE_PASSWORD_COMMAND", &format!("cat '{file}'"))],
        &[],
    );
    // Options come before variables.
    works(&[("TABANE_PASSWORD", "wrong")], &["--password-file", &file]);
    works(
        &[("TABANE_PASSWORD", "wrong")],
        &["--password-command", &format!("cat '{file}'")],
    );
}

#[test]
fn standard_input_is_stored_as_a_file() {
    let bed = Bed::with_repository();
    let mut command = bed.command(["backup", "-q", "--stdin", "--stdin-filename", "dump.sql"]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("started");
    let content = varied(3 << 20);
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(&content)
        .expect("read");
    assert!(child.wait().expect("ends").success());
    assert_eq!(
        bed.run(["dump", "latest", "dump.sql"]).succeeds().bytes,
        content
    );
}

#[test]
fn what_is_excluded_stays_out() {
    let bed = Bed::with_repository();
    let source = bed.source();
    fs::create_dir(source.join("cache")).expect("created");
    fs::write(
        source.join("cache/CACHEDIR.TAG"),
        "Signature: 8a477f597d28d172789f06886806bc55",
    )
    .expect("written");
    fs::write(source.join("cache/thing"), "thing").expect("written");
    fs::write(source.join(".gitignore"), "linked\n").expect("written");
    let text = source.display().to_string();
    let options = [
        "--exclude",
        "*.txt",
        "--iexclude",
        "EMPTY",
        "--exclude-caches",
        "--exclude-larger-than",
        "100K",
        "--ignore-file",
        ".gitignore",
    ];
    bed.backup(&options).succeeds();
    let listed = bed.run(["ls", &format!("latest:{text}")]).succeeds().stdout;
    let listed: Vec<&str> = listed
        .lines()
        .map(|line| line.strip_prefix(&text).expect(line))
        .collect();
    assert_eq!(
        listed,
        [
            "/.gitignore",
            "/cache",
            "/cache/CACHEDIR.TAG",
            "/docs",
            "/docs/deep",
            "/pointer"
        ]
    );

    let target = bed.path("target").display().to_string();
    let partly = [
        "restore",
        "latest",
        "-t",
        &target,
        "--include",
        "CACHEDIR.TAG",
    ];
    bed.run(partly).succeeds().says("1 file");
}

#[test]
fn a_dry_run_stores_and_writes_nothing() {
    let bed = Bed::with_repository();
    bed.backup(&["--dry-run"])
        .succeeds()
        .says("nothing was stored")
        .says("would be stored as");
    let estimate = bed.backup(&["--dry-run", "--json"]).last_json();
    let stored = |json: &serde_json::Value| json["stored_bytes"].as_u64().expect("a number");
    assert!(stored(&estimate) > 100_000, "{estimate}");
    bed.run(["snapshots"]).succeeds().says("0 snapshots");
    bed.backup(&[]).succeeds();
    let target = bed.path("target");
    let text = target.display().to_string();
    bed.run(["restore", "latest", "-n", "--target", &text])
        .succeeds()
        .says("nothing was written");
    assert!(!target.exists());
}

#[test]
fn a_repository_within_the_source_is_pointed_out() {
    let bed = Bed::with_repository();
    let ran = bed.run(["backup".as_ref(), bed.path("").as_os_str()]);
    assert_eq!(ran.code, Some(0));
    assert!(
        ran.stderr.contains("the repository itself is below"),
        "{}",
        ran.stderr
    );
    let repository = bed.repository().display().to_string();
    let whole = bed.path("").display().to_string();
    bed.run(["backup", "--exclude", &repository, &whole])
        .succeeds();
    assert!(
        !bed.run(["ls", "latest"])
            .succeeds()
            .stdout
            .contains(&repository)
    );
}

#[test]
fn patterns_from_a_pipe_hold_where_the_repository_is_within_the_source() {
    let bed = Bed::with_repository();
    fs::write(bed.source().join("left-out"), "x").expect("written");
    let whole = bed.path("").display().to_string();
    let args = ["backup", &whole, "--exclude-file", "/dev/stdin"];
    let ran = bed.run_with_input(args, "left-out\n");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let listed = bed.run(["ls", "latest"]).succeeds().stdout;
    assert!(listed.contains("/linked") && !listed.contains("left-out"));
}

#[test]
fn lists_of_paths_are_read() {
    let bed = Bed::with_repository();
    let source = bed.source();
    let list = bed.path("list");
    let lines = format!("# a comment\n\n{0}/empty\n{0}/linked\n", source.display());
    fs::write(&list, lines).expect("written");
    let raw = bed.path("raw");
    fs::write(&raw, format!("{0}/pointer\0", source.display())).expect("written");
    let (list, raw) = (list.display().to_string(), raw.display().to_string());
    let arguments = ["backup", "--files-from", &list, "--files-from-raw", &raw];
    bed.run(arguments).succeeds().says("2 new");
    bed.run(["ls", "latest"]).succeeds().says("/pointer");
}

#[test]
fn hashes_and_block_sizes_are_chosen_at_init() {
    let bed = Bed::new();
    bed.run(["init", "--from-repo", "elsewhere"])
        .fails(2, "--copy-chunker-params");
    bed.run(["init", "--hash", "sha1", "--chunk-size", "fixed:64KiB"])
        .succeeds();
    bed.backup(&[]).succeeds();
    let stats = bed.run(["stats", "--json"]).succeeds().last_json();
    // Five blocks of the file that is there twice, one of the text, one each of the directories.
    assert!(stats["blocks"].as_u64().expect("a number") >= 9, "{stats}");
    assert_eq!(stats["unique_files"], 3, "{stats}");
    bed.run(["check", "--read-data-subset", "1/1"])
        .succeeds()
        .says("no problems were found");
}

#[test]
fn lists_of_files_may_have_the_line_ends_of_other_systems() {
    let bed = Bed::with_repository();
    let list = bed.path("list");
    let docs = bed.source().join("docs").display().to_string();
    let empty = bed.source().join("empty").display().to_string();
    fs::write(&list, format!("# what I need\r\n{docs}\r\n\r\n{empty}\r\n")).expect("written");
    let list = list.display().to_string();
    let made = bed
        .run(["backup", "--files-from", &list, "--json"])
        .succeeds();
    assert_eq!(made.last_json()["files_new"], 4);
    fs::write(&list, format!("{docs}\r\n")).expect("written");
    let made = bed
        .run(["backup", "--files-from-verbatim", &list, "--json"])
        .succeeds();
    assert_eq!(made.last_json()["files_new"], 3);
}

#[test]
fn a_damaged_key_does_not_hide_the_others() {
    let bed = Bed::with_repository();
    fs::write(bed.path("new"), "another password").expect("written");
    let new = bed.path("new").display().to_string();
    let added = bed
        .run(["key", "add", "--new-password-file", &new, "--json"])
        .succeeds();
    let id = added.last_json()["id"].as_str().expect("text").to_owned();
    fs::write(bed.repository().join("keys").join(&id), "{}").expect("written");
    let listed = bed.run(["key", "list"]);
    assert_eq!(listed.code, Some(1));
    assert!(listed.stderr.contains("is damaged"), "{}", listed.stderr);
    assert!(listed.stdout.contains('*'), "{}", listed.stdout);
    assert!(!listed.stdout.contains(&id[..8]), "{}", listed.stdout);
}

/// Only tests make keys whose passwords are cheap to try.
#[test]
fn passwords_of_new_keys_cost_what_rfc_9106_recommends() {
    let bed = Bed::new();
    let new = bed.path("new").display().to_string();
    let commands: [&[&str]; 4] = [
        &["init"],
        &["key", "add", "--new-password-file", &new],
        &["key", "add", "--write-only", "--new-password-file", &new],
        &["key", "passwd", "--new-password-file", &new],
    ];
    for (number, command) in commands.into_iter().enumerate() {
        fs::write(bed.path("new"), format!("password {number}")).expect("a file");
        run(bed.command(command).env_remove("TABANE_WEAK_KEYS")).succeeds();
    }
    let keys = fs::read_dir(bed.repository().join("keys")).expect("keys");
    let costs = keys.map(|entry| {
        let file = fs::read(entry.expect("an entry").path()).expect("a key");
        let key: serde_json::Value = serde_json::from_slice(&file).expect("JSON");
        let of = |name: &str| key["cost"][name].as_u64();
        (of("memory_kib"), of("passes"))
    });
    let costs: Vec<_> = costs.collect();
    assert_eq!(costs, vec![(Some(64 << 10), Some(3)); 3]);
}
