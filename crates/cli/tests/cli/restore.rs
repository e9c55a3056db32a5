//! Restores over existing files.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::bed::{Bed, Ran};

/// A repository with a snapshot of the source; restores over it.
fn backed_up() -> Bed {
    let bed = Bed::with_repository();
    bed.backup(&[]).succeeds();
    bed
}

/// Restores over the source, with these arguments more.
fn restore_over(bed: &Bed, args: &[&str]) -> Ran {
    let source = bed.source().display().to_string();
    let place = format!("latest:{source}");
    let all = ["restore", &place, "--target", &source].into_iter();
    bed.run(all.chain(args.iter().copied()))
}

/// Writes a file whose last change is so many seconds from now.
fn write_at(path: &Path, text: &str, seconds: i64) {
    fs::write(path, text).expect("written");
    let distance = Duration::from_secs(seconds.unsigned_abs());
    let time = match seconds {
        ..0 => SystemTime::now() - distance,
        _ => SystemTime::now() + distance,
    };
    let file = fs::File::options().write(true).open(path).expect("there");
    file.set_modified(time).expect("set");
}

fn text(bed: &Bed, name: &str) -> String {
    fs::read_to_string(bed.source().join(name)).expect(name)
}

/// What `-vv` says of each path below the source.
fn actions(bed: &Bed, ran: &Ran) -> Vec<String> {
    let lines = ran
        .stdout
        .lines()
        .take_while(|line| !line.contains("snapshot "));
    let source = bed.source().display().to_string();
    let mut actions: Vec<String> = lines.map(|line| line.replace(&source, "")).collect();
    actions.sort();
    actions
}

#[test]
fn newer_files_stay_if_wanted() {
    let bed = backed_up();
    let notes = bed.source().join("docs/notes.txt");
    for (when, newer, older) in [
        ("always", "first version\n", "first version\n"),
        ("if-changed", "first version\n", "first version\n"),
        ("if-newer", "mine", "first version\n"),
        ("never", "mine", "mine"),
    ] {
        for (seconds, expected) in [(100, newer), (-1000, older)] {
            write_at(&notes, "mine", seconds);
            fs::remove_file(bed.source().join("empty")).expect("removed");
            restore_over(&bed, &["--overwrite", when]).succeeds();
            assert_eq!(text(&bed, "docs/notes.txt"), expected, "{when} {seconds}");
            // What is missing comes back in any case.
            assert_eq!(text(&bed, "empty"), "", "{when}");
        }
    }
    restore_over(&bed, &["--overwrite", "maybe"]).fails(2, "if-newer");
}

#[test]
fn links_and_directories_stay_too() {
    let bed = backed_up();
    let source = bed.source();
    fs::remove_file(source.join("pointer")).expect("removed");
    symlink("elsewhere", source.join("pointer")).expect("linked");
    fs::remove_file(source.join("empty")).expect("removed");
    fs::create_dir(source.join("empty")).expect("created");
    fs::write(source.join("empty/mine"), "mine").expect("written");
    fs::remove_dir_all(source.join("docs/deep")).expect("removed");
    write_at(&source.join("docs/deep"), "no directory", 100);
    let ran = restore_over(&bed, &["--overwrite", "never"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(
        ran.stderr
            .contains("cannot make it: something else is there, and is to stay"),
        "{}",
        ran.stderr
    );
    let target = fs::read_link(source.join("pointer")).expect("a link");
    assert_eq!(target, Path::new("elsewhere"));
    assert_eq!(text(&bed, "empty/mine"), "mine");
    assert_eq!(text(&bed, "docs/deep"), "no directory");
    // A restore with --delete replaces all of these.
    restore_over(&bed, &["--delete", "--verify"]).succeeds();
    assert_eq!(text(&bed, "empty"), "");
    assert!(source.join("docs/deep/data.bin").is_file());
}

#[test]
fn files_of_the_same_size_and_time_are_not_read() {
    let bed = backed_up();
    let data = bed.source().join("docs/deep/data.bin");
    let modified = fs::metadata(&data)
        .and_then(|data| data.modified())
        .expect("there");
    let mut bytes = fs::read(&data).expect("there");
    bytes[1000] ^= 1;
    fs::write(&data, &bytes).expect("written");
    let file = fs::File::options().write(true).open(&data).expect("there");
    file.set_modified(modified).expect("set");
    let stays = restore_over(&bed, &["--overwrite", "if-changed"]).succeeds();
    stays.says("0 B written");
    assert_eq!(fs::read(&data).expect("there"), bytes);
    restore_over(&bed, &[]).succeeds();
    assert_ne!(fs::read(&data).expect("there"), bytes);
}

#[test]
fn a_dry_run_lists_every_change_and_changes_nothing() {
    let bed = backed_up();
    let source = bed.source();
    write_at(&source.join("docs/notes.txt"), "mine", 100);
    fs::remove_file(source.join("pointer")).expect("removed");
    fs::create_dir_all(source.join("more/deep")).expect("created");
    fs::write(source.join("more/deep/file"), "more").expect("written");
    let before = fs::metadata(source.join("docs"))
        .expect("there")
        .ctime_nsec();
    let dry = restore_over(&bed, &["-n", "-vv", "--delete"]).succeeds();
    let listed = actions(&bed, &dry);
    assert_eq!(
        listed,
        [
            "created    pointer",
            "deleted    more",
            "deleted    more/deep",
            "deleted    more/deep/file",
            "unchanged  docs",
            "unchanged  docs/deep",
            "unchanged  docs/deep/copy.bin",
            "unchanged  docs/deep/data.bin",
            "unchanged  empty",
            "updated    docs/notes.txt",
            "updated    linked",
        ]
    );
    let dry = dry.says("1 created, 2 updated, 5 unchanged, 3 deleted");
    dry.says("nothing was written");
    assert_eq!(text(&bed, "docs/notes.txt"), "mine");
    assert!(source.join("more/deep/file").is_file() && !source.join("pointer").exists());
    let after = fs::metadata(source.join("docs"))
        .expect("there")
        .ctime_nsec();
    assert_eq!(before, after);

    let dry = restore_over(&bed, &["-n", "-vv", "--delete", "--json"]).succeeds();
    let summary = dry.last_json();
    for (name, count) in [
        ("created", 1),
        ("updated", 2),
        ("unchanged", 5),
        ("deleted", 3),
    ] {
        assert_eq!(summary[name], count, "{name}");
        let actions = dry.json().into_iter().filter(|line| line["action"] == name);
        assert_eq!(actions.count(), count, "{name}");
    }
    let real = restore_over(&bed, &["-vv", "--delete"]).succeeds();
    assert_eq!(actions(&bed, &real), listed);
    assert!(!source.join("more").exists());
    let again = restore_over(&bed, &["-n", "--delete"]).succeeds();
    again.says("8 unchanged");
}

#[test]
fn only_what_is_chosen_is_deleted() {
    let bed = backed_up();
    let source = bed.source();
    for name in ["a.tmp", "b.txt", "docs/c.tmp", "docs/d.txt"] {
        fs::write(source.join(name), "more").expect("written");
    }
    fs::create_dir(source.join("new")).expect("created");
    fs::write(source.join("new/e.tmp"), "more").expect("written");
    fs::write(source.join("new/f.txt"), "more").expect("written");
    let there = |names: [&str; 6]| names.map(|name| source.join(name).exists());
    let names = [
        "a.tmp",
        "b.txt",
        "docs/c.tmp",
        "docs/d.txt",
        "new/e.tmp",
        "new/f.txt",
    ];
    restore_over(&bed, &["--delete", "--include", "*.tmp"]).succeeds();
    assert_eq!(there(names), [false, true, false, true, false, true]);
    restore_over(
        &bed,
        &["--delete", "--exclude", "new/f.txt", "--exclude", "d.txt"],
    )
    .succeeds();
    assert_eq!(there(names), [false, false, false, true, false, true]);
    restore_over(&bed, &["--delete"]).succeeds();
    assert_eq!(there(names), [false; 6]);
}

#[test]
fn patterns_from_a_pipe_hold_for_what_is_deleted() {
    let bed = backed_up();
    let kept = bed.source().join("kept.txt");
    fs::write(&kept, "more").expect("written");
    fs::write(bed.source().join("gone.txt"), "more").expect("written");
    let source = bed.source().display().to_string();
    let place = format!("latest:{source}");
    let args = ["restore", &place, "-t", &source, "--delete"];
    let args = args.into_iter().chain(["--exclude-file", "/dev/stdin"]);
    bed.run_with_input(args, "kept.txt\n").succeeds();
    assert!(kept.exists());
    assert!(!bed.source().join("gone.txt").exists());
}

#[test]
fn what_was_never_backed_up_is_not_deleted() {
    let bed = backed_up();
    let target = bed.path("target");
    let restore = |args: &[&str]| {
        let all = [
            "restore".as_ref(),
            "latest".as_ref(),
            "-t".as_ref(),
            target.as_os_str(),
        ];
        bed.run(all.into_iter().chain(args.iter().map(AsRef::as_ref)))
    };
    restore(&[]).succeeds();
    fs::write(target.join("beside"), "mine").expect("written");
    let above = bed.source().parent().expect("a parent").to_owned();
    let above = target.join(above.strip_prefix("/").expect("absolute"));
    fs::write(above.join("beside"), "mine").expect("written");
    fs::write(above.join("source/more"), "mine").expect("written");
    restore(&["--delete"]).succeeds();
    assert!(target.join("beside").exists() && above.join("beside").exists());
    assert!(!above.join("source/more").exists());
    // A single file has no neighbours.
    let place = format!("latest:{}", bed.source().join("empty").display());
    let source = bed.source().display().to_string();
    bed.run(["restore", &place, "-t", &source, "--delete"])
        .succeeds();
    assert!(bed.source().join("linked").exists());
}

#[test]
fn nothing_is_deleted_if_something_could_not_be_restored() {
    let bed = backed_up();
    let source = bed.source();
    let packs = fs::read_dir(bed.repository().join("packs")).expect("packs");
    fs::write(source.join("more"), "mine").expect("written");
    fs::remove_dir_all(source.join("docs")).expect("removed");
    // Only data: directories are in a pack of their own.
    let mut biggest: Vec<_> = packs
        .flat_map(|folder| fs::read_dir(folder.expect("read").path()).expect("a folder"))
        .map(|pack| pack.expect("read").path())
        .collect();
    biggest.sort_by_key(|pack| fs::metadata(pack).expect("there").len());
    fs::remove_file(biggest.pop().expect("a pack")).expect("removed");
    let ran = restore_over(&bed, &["--delete"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("were not deleted"), "{}", ran.stderr);
    assert_eq!(text(&bed, "more"), "mine");
}
