//! What is stored, and when a snapshot is made.

use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tabane_testing::{is_root, not_checked};

use crate::bed::{Bed, Ran, varied};

fn snapshots(bed: &Bed) -> usize {
    let listed = bed.run(["snapshots", "--json"]).succeeds().last_json();
    listed.as_array().expect("an array").len()
}

/// Stores what a shell prints.
fn from_command(bed: &Bed, script: &str) -> Ran {
    let args = [
        "backup",
        "--stdin-filename",
        "dump.sql",
        "--stdin-from-command",
        "--",
    ];
    bed.run(args.into_iter().chain(["sh", "-c", script]))
}

#[test]
fn the_output_of_a_command_is_stored_if_it_succeeds() {
    let bed = Bed::with_repository();
    let data = bed.path("data");
    fs::write(&data, varied(3 << 20)).expect("written");
    let script = format!("cat {}; echo end >&2", data.display());
    let ran = from_command(&bed, &script);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), "end\n"));
    let dumped = bed.run(["dump", "latest", "dump.sql"]).succeeds();
    assert_eq!(dumped.bytes, varied(3 << 20));

    for (script, why) in [
        (
            "echo part; exit 3",
            "the command sh failed, so no snapshot was saved: exit status: 3",
        ),
        ("echo part; kill -9 $$", "signal: 9"),
        ("exit 1", "exit status: 1"),
    ] {
        from_command(&bed, script).fails(1, why);
    }
    let missing = ["backup", "--stdin-from-command", "--", "/no/such/program"];
    bed.run(missing).fails(
        1,
        "/no/such/program failed, so no snapshot was saved: No such file",
    );
    bed.run(["backup", "--stdin-from-command"]).fails(2, "PATH");
    assert_eq!(snapshots(&bed), 1);
    bed.run(["check", "--read-data"]).succeeds();
}

#[test]
fn an_unchanged_tree_makes_no_snapshot_if_wanted() {
    let bed = Bed::with_repository();
    bed.run(["backup", "--stdin", "--skip-if-unchanged"])
        .fails(2, "cannot be used with");
    let command = [
        "backup",
        "--skip-if-unchanged",
        "--stdin-from-command",
        "--",
        "date",
    ];
    bed.run(command).fails(2, "cannot be used with");
    bed.backup(&["--skip-if-unchanged"]).succeeds();
    let again = bed.backup(&["--skip-if-unchanged"]).succeeds();
    again.says("nothing has changed: no snapshot saved");
    let again = bed.backup(&["--skip-if-unchanged", "--json"]).succeeds();
    let summary = again.last_json();
    assert_eq!(
        (&summary["unchanged"], &summary["dry_run"]),
        (&true.into(), &false.into())
    );
    assert!(summary.get("snapshot_id").is_none());
    assert_eq!(snapshots(&bed), 1);
    bed.backup(&[]).succeeds().says("saved");
    fs::write(bed.source().join("new"), "new").expect("written");
    bed.backup(&["--skip-if-unchanged"])
        .succeeds()
        .says("saved");
    assert_eq!(snapshots(&bed), 3);
}

#[test]
fn inodes_and_ctimes_are_ignored_if_wanted() {
    let bed = Bed::with_repository();
    let notes = bed.source().join("docs/notes.txt");
    bed.backup(&[]).succeeds();
    // The same content and time, but another inode or another ctime.
    let touch = || {
        let modified = fs::metadata(&notes)
            .and_then(|notes| notes.modified())
            .expect("there");
        let copy = bed.source().join("docs/copy");
        fs::copy(&notes, &copy).expect("copied");
        let file = fs::File::options().write(true).open(&copy).expect("there");
        file.set_modified(modified).expect("set");
        fs::rename(&copy, &notes).expect("renamed");
    };
    // What was changed while the parent snapshot was made is read again in any case.
    std::thread::sleep(std::time::Duration::from_millis(50));
    for (args, changed) in [
        (&["--ignore-inode"][..], 0),
        (&["--ignore-ctime"], 1),
        (&[], 1),
    ] {
        bed.backup(&[]).succeeds();
        touch();
        let made = bed
            .backup(&[args, &["--json"]].concat())
            .succeeds()
            .last_json();
        assert_eq!(made["files_changed"], changed, "{args:?}");
    }
    // Attributes have no other sign than the ctime.
    let Ok(()) = xattr::set(&notes, "user.mark", b"new") else {
        println!("NOT CHECKED: --ignore-ctime and extended attributes: there are none here");
        return;
    };
    let made = bed
        .backup(&["--ignore-ctime", "--json"])
        .succeeds()
        .last_json();
    assert_eq!(made["files_changed"], 0);
    let target = bed.path("target");
    let place = format!("latest:{}", bed.source().display());
    bed.run([
        "restore".as_ref(),
        place.as_ref(),
        "-t".as_ref(),
        target.as_os_str(),
    ])
    .succeeds();
    let mark = xattr::get(target.join("docs/notes.txt"), "user.mark").expect("readable");
    assert_eq!(mark.as_deref(), Some(&b"new"[..]));
}

#[test]
fn a_directory_is_stored_under_another_path() {
    let bed = Bed::with_repository();
    let source = bed.source().display().to_string();
    bed.backup(&["--as-path", "/srv/data"]).succeeds();
    let listed = bed.run(["ls", "latest"]).succeeds();
    let paths: Vec<&str> = listed.stdout.lines().collect();
    assert!(paths.contains(&"/srv/data/docs/deep/data.bin"), "{paths:?}");
    assert_eq!(paths[0], "/srv");
    assert!(!listed.stdout.contains(&source));
    let again = bed
        .backup(&["--set-path", "/srv/data", "--json"])
        .succeeds()
        .last_json();
    assert_eq!(again["files_unmodified"], 5);
    assert_eq!(again["unchanged"], true);
    bed.backup(&["--as-path", "/srv/data", "--exclude", "notes.txt"])
        .succeeds();
    assert!(
        !bed.run(["ls", "latest"])
            .succeeds()
            .stdout
            .contains("notes.txt")
    );
    bed.run(["check", "--read-data"]).succeeds();
    for (path, why) in [("/", "is no path for a directory"), ("srv", "is no path")] {
        bed.backup(&["--as-path", path]).fails(1, why);
    }
    let file = format!("{source}/empty");
    bed.run(["backup", &file, "--as-path", "/x"])
        .fails(1, "a single directory");
    bed.run(["backup", &source, "/dev", "--as-path", "/x"])
        .fails(1, "a single directory");
}

#[test]
fn lists_of_files_take_patterns() {
    let bed = Bed::with_repository();
    let source = bed.source();
    fs::write(source.join("docs/a*b"), "a star").expect("written");
    fs::write(source.join("docs/axb"), "no star").expect("written");
    let list = bed.path("list");
    let lines = ["docs/*.txt", "doc?/deep/[a-d]*.bin", r"docs/a\*b", "none*"];
    let lines = lines.map(|line| source.join(line).as_os_str().as_bytes().to_vec());
    fs::write(&list, lines.join(&b'\n')).expect("written");
    let args = ["backup".as_ref(), "--files-from".as_ref(), list.as_os_str()];
    let ran = bed.run(args);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("nothing matches") && ran.stderr.contains("none*"));
    let listed = bed.run(["ls", "latest"]).succeeds().stdout;
    let is_stored = |name: &str| listed.contains(&source.join(name).display().to_string());
    for name in [
        "docs/notes.txt",
        "docs/deep/copy.bin",
        "docs/deep/data.bin",
        "docs/a*b",
    ] {
        assert!(is_stored(name), "{name}: {listed}");
    }
    assert!(!is_stored("docs/axb") && !is_stored("empty"), "{listed}");
    // Paths are no patterns.
    let args = [
        "backup".as_ref(),
        "--files-from-verbatim".as_ref(),
        list.as_os_str(),
    ];
    bed.run(args).fails(1, "cannot read");
    assert!(Path::new(&source).is_dir());
}

#[test]
fn defaults_come_from_the_environment() {
    let bed = Bed::with_repository();
    let source = bed.source();
    let mut command = bed.command(["backup".as_ref(), source.as_os_str()]);
    command
        .env("TABANE_HOST", "ada")
        .env("TABANE_COMPRESSION", "max")
        .env("TABANE_READ_CONCURRENCY", "1");
    crate::bed::run(&mut command).succeeds();
    let listed = bed.run(["snapshots", "--json"]).succeeds().last_json();
    assert_eq!(listed[0]["hostname"], "ada");
    let mut command = bed.command(["backup".as_ref(), source.as_os_str()]);
    let ran = crate::bed::run(command.env("TABANE_COMPRESSION", "hard"));
    ran.fails(2, "compression");
    bed.backup(&["--read-concurrency", "0"]).fails(2, "zero");
}

/// As on a machine whose `/home` lets others pass and not look.
#[test]
fn directories_above_a_source_need_not_be_listed() {
    if !is_root() {
        return not_checked("directories that cannot be listed", "needs root");
    }
    let bed = Bed::new();
    let (home, ada) = (bed.path("home"), bed.path("home/ada"));
    fs::create_dir_all(&ada).expect("made");
    fs::write(ada.join("letter"), "dear").expect("written");
    let nobody = 65534;
    for path in [&ada, &ada.join("letter")] {
        std::os::unix::fs::chown(path, Some(nobody), Some(nobody)).expect("given away");
    }
    for path in [&bed.path(""), &home] {
        fs::set_permissions(path, Permissions::from_mode(0o711)).expect("changed");
    }
    let repository = ada.join("repository").display().to_string();
    // Others may not be let to where the program was built. Another process copies it: what this
    // one has open to write, its other threads could pass on to what they start, and it cannot be
    // run.
    let program = bed.path("program");
    let mut copy = std::process::Command::new("cp");
    copy.args([env!("CARGO_BIN_EXE_tabane").as_ref(), program.as_os_str()]);
    assert!(copy.status().expect("started").success());
    let run = |args: &[&str]| {
        let mut command = bed.shell("exec \"$0\" \"$@\"");
        command.arg(&program).args(args);
        command.args(["--repo", &repository, "--no-cache"]);
        command.uid(nobody).gid(nobody).env("HOME", &ada);
        let output = command.output().expect("started");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    run(&["init"]);
    let letter = ada.join("letter").display().to_string();
    run(&["backup", &letter]);
    assert_eq!(run(&["dump", "latest", &letter]), "dear");
}

#[test]
fn a_signal_ends_the_command_whose_output_is_stored() {
    let bed = Bed::with_repository();
    let (begun, ended) = (bed.path("begun"), bed.path("ended"));
    let script = format!(
        "trap 'touch {}; exit 1' TERM; touch {}; sleep 60 & wait",
        ended.display(),
        begun.display()
    );
    let mut command = bed.command(["backup", "--stdin-from-command", "--", "sh", "-c", &script]);
    let mut running = command.stderr(Stdio::null()).spawn().expect("started");
    let wait_for = |path: &Path| {
        while !path.exists() {
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    wait_for(&begun);
    let pid = rustix::process::Pid::from_child(&running);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("sent");
    assert_eq!(running.wait().expect("ended").code(), Some(130));
    wait_for(&ended);
    // A prune on another machine would take it for alive until tomorrow.
    let clients = bed.repository().join("clients");
    assert_eq!(fs::read_dir(clients).expect("listed").count(), 0);
}
