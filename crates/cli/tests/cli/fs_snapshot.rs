//! Backups of snapshots of file systems.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tabane_testing::files::script;
use tabane_testing::mount::Mount;
use tabane_testing::{is_root, not_checked};

use crate::bed::{Bed, Ran, restored, run};

const LIST_CHANGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/list-changes.py");

/// Files that are written in turns, again and again, with the same number.
const FILES: usize = 40;

fn btrfs(args: &[&str]) -> String {
    let ran = Command::new("btrfs")
        .args(args)
        .output()
        .expect("it is installed");
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    String::from_utf8(ran.stdout).expect("text")
}

/// A bed with a file system of this kind, mounted at `source`.
fn mounted(kind: &str, mib: u64) -> Option<(Bed, Mount)> {
    let bed = Bed::with_repository();
    fs::remove_dir_all(bed.source()).expect("removed");
    fs::create_dir(bed.source()).expect("made");
    let mount = Mount::image(&bed.source(), &bed.path("image"), kind, mib)?;
    Some((bed, mount))
}

/// Writes a number into each file, one file after the other; no file is ever empty.
fn write_all(folder: &Path, number: u64) {
    let new = folder.join("new");
    for file in 0..FILES {
        fs::write(&new, number.to_string()).expect("written");
        fs::rename(&new, folder.join(format!("{file}"))).expect("renamed");
    }
}

/// Restores the latest snapshot; returns where the path is then.
fn restore(bed: &Bed, path: &Path) -> PathBuf {
    let target = bed.path("target");
    let _ = fs::remove_dir_all(&target);
    bed.run(["restore", "latest", "-t", target.to_str().expect("UTF-8")])
        .succeeds();
    restored(&target, path)
}

fn number(path: &Path) -> u64 {
    fs::read_to_string(path)
        .expect("read")
        .parse()
        .expect("a number")
}

#[test]
fn files_of_a_snapshot_of_btrfs_are_of_one_moment() {
    let Some((bed, _mount)) = mounted("btrfs", 200) else {
        return;
    };
    let source = bed.source();
    let files = source.join("files");
    let nested = source.join("nested");
    btrfs(&["subvolume", "create", nested.to_str().expect("UTF-8")]);
    fs::write(nested.join("inner"), "inner").expect("written");
    fs::create_dir(&files).expect("made");
    fs::hard_link(nested.join("inner"), nested.join("linked")).expect("linked");
    fs::create_dir(source.join("memory")).expect("made");
    let _memory = Mount::tmpfs(&source.join("memory"), "1m").expect("mounted");
    fs::write(source.join("memory/other"), "of another file system").expect("written");
    // What a run that was killed has left.
    let left = source.join(".tabane-snapshot-4194999-0");
    btrfs(&[
        "subvolume",
        "snapshot",
        "-r",
        source.to_str().expect("UTF-8"),
        left.to_str().expect("UTF-8"),
    ]);

    write_all(&files, 0);
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (stop, files) = (Arc::clone(&stop), files.clone());
        std::thread::spawn(move || {
            let mut number = 0;
            while !stop.load(Ordering::Relaxed) {
                number += 1;
                write_all(&files, number);
            }
        })
    };
    // Hooks see the file system itself.
    let hook = format!("echo done > {}", source.join("hook").display());
    let ran = bed.backup(&["--use-fs-snapshot", "--run-after", &hook]);
    stop.store(true, Ordering::Relaxed);
    writer.join().expect("it goes on writing");
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stderr.contains("memory (tmpfs) has no snapshots"),
        "{}",
        ran.stderr
    );
    assert!(source.join("hook").exists());
    let there = restore(&bed, &source);
    let first = number(&there.join("files/0"));
    for file in 1..FILES {
        let number = number(&there.join(format!("files/{file}")));
        // They are written in turns.
        assert!(
            [first, first - 1].contains(&number),
            "{file}: {number}, {first}"
        );
    }
    assert_eq!(
        fs::read_to_string(there.join("nested/inner")).expect("there"),
        "inner"
    );
    assert!(there.join("memory/other").exists());
    assert!(!left.exists());
    let list = btrfs(&["subvolume", "list", source.to_str().expect("UTF-8")]);
    assert!(!list.contains("tabane"), "{list}");

    // The next one finds all files unchanged. The time of the subvolume's directory is another
    // one, since the snapshot was made in it.
    tabane_testing::files::settle();
    bed.backup(&["--use-fs-snapshot", "-q"]);
    tabane_testing::files::settle();
    let made = bed.backup(&["--use-fs-snapshot", "--json"]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    assert_eq!(made.stderr.lines().count(), 1, "{}", made.stderr);
    assert!(made.stderr.contains("memory (tmpfs)"), "{}", made.stderr);
    let made = made.last_json();
    assert_eq!(
        (&made["files_changed"], &made["read_bytes"]),
        (&0.into(), &0.into())
    );
    // As it is without a snapshot, but for the numbers of devices.
    let made = bed.backup(&["--json"]).succeeds().last_json();
    assert_eq!(
        (&made["read_bytes"], &made["files_new"]),
        (&0.into(), &0.into())
    );
}

#[test]
fn changes_between_snapshots_of_btrfs_are_listed() {
    let Some((bed, _mount)) = mounted("btrfs", 200) else {
        return;
    };
    let source = bed.source();
    let top = source.to_str().expect("UTF-8").to_owned();
    let [data, old, new] = ["data", "old", "new"].map(|name| format!("{top}/{name}"));
    btrfs(&["subvolume", "create", &data]);
    let data = Path::new(&data);
    for folder in ["kept", "with space", "renamed"] {
        fs::create_dir(data.join(folder)).expect("made");
        fs::write(data.join(folder).join("file"), folder).expect("written");
    }
    fs::write(data.join("kept/line\nbreak"), "first").expect("written");
    let snapshot = |name: &str| {
        btrfs(&[
            "subvolume",
            "snapshot",
            "-r",
            data.to_str().expect("UTF-8"),
            name,
        ]);
    };
    snapshot(&old);
    tabane_testing::files::settle();
    let as_path = ["--as-path", "/data"];
    let back_up = |from: &str, more: &[&str]| {
        bed.run([&["backup", from, "--json"], &as_path[..], more].concat())
    };
    back_up(&old, &[]).succeeds();
    fs::write(data.join("kept/line\nbreak"), "second").expect("written");
    fs::rename(data.join("renamed"), data.join("new name")).expect("renamed");
    fs::remove_file(data.join("with space/file")).expect("removed");
    snapshot(&new);
    let listed = Command::new("python3")
        .arg(LIST_CHANGES)
        .args(["btrfs", &old, &new, "/data"])
        .output()
        .expect("python3 is installed");
    assert!(
        listed.status.success(),
        "{}",
        String::from_utf8_lossy(&listed.stderr)
    );
    let list = bed.path("list");
    fs::write(&list, listed.stdout).expect("written");
    let list = list.to_str().expect("UTF-8");
    let made = back_up(&new, &["--changed-from", list])
        .succeeds()
        .last_json();
    assert_eq!(
        (&made["files_changed"], &made["files_new"]),
        (&1.into(), &1.into())
    );
    let there = restore(&bed, Path::new("/data"));
    let compared = Command::new("diff").args(["-r", &new]).arg(&there).output();
    let compared = compared.expect("it is installed");
    assert!(
        compared.status.success(),
        "{}",
        String::from_utf8_lossy(&compared.stdout)
    );
}

/// With a program in the place of `zfs`.
#[test]
fn changes_between_snapshots_of_zfs_are_listed() {
    let bed = Bed::new();
    let lines =
        r"M\t/tank/kept\t(+1)\n-\t/tank/a\\0040b\nR\t/tank/old\t/tank/new\n+\t/tank/\\0303\\0244\n";
    let list = |end: &str| {
        let text = format!(
            "#!/bin/sh\n[ \"$*\" = \"diff -H tank@1 tank@2\" ] && printf '{lines}'\n{end}\n"
        );
        script(&bed.path("zfs"), &text);
        let path = std::env::var("PATH").unwrap_or_default();
        let listed = Command::new("python3")
            .arg(LIST_CHANGES)
            .args(["zfs", "tank@1", "tank@2"])
            .env("PATH", format!("{}:{path}", bed.path("").display()))
            .output();
        listed.expect("python3 is installed")
    };
    let listed = list("exit 0");
    assert!(listed.status.success(), "{listed:?}");
    let found = String::from_utf8(listed.stdout).expect("UTF-8");
    let paths = [
        "/tank/a b",
        "/tank/kept",
        "/tank/new",
        "/tank/old",
        "/tank/ä",
    ];
    assert_eq!(found.split_terminator('\0').collect::<Vec<_>>(), paths);
    // Half a list is none.
    let listed = list("exit 1");
    assert_eq!(listed.status.code(), Some(1), "{listed:?}");
}

#[test]
fn file_systems_without_snapshots_are_named() {
    if !is_root() {
        not_checked("snapshots of file systems", "this needs root");
        return;
    }
    let bed = Bed::with_repository();
    let Some(_mount) = Mount::tmpfs(&bed.source(), "1m") else {
        return;
    };
    bed.backup(&["--use-fs-snapshot"])
        .fails(1, "is neither btrfs nor ZFS, nor on LVM");
}

/// A bed on ext4, with programs that act as LVM would: a snapshot is a copy of the image.
fn with_lvm() -> Option<(Bed, Mount, String)> {
    let (bed, mount) = mounted("ext4", 16)?;
    let programs = bed.path("programs");
    fs::create_dir(&programs).expect("made");
    let state = bed.path("lvm");
    fs::create_dir(&state).expect("made");
    let group = format!("tabane{}", std::process::id());
    let (state, image) = (
        state.display().to_string(),
        bed.path("image").display().to_string(),
    );
    let lvs = format!(
        "case \"$*\" in\n\
         *vg_name*/dev/loop*) echo '  {group}/data/' ;;\n\
         *lv_snapshot_invalid*) cat {state}/invalid 2> /dev/null ;;\n\
         *lv_name*) ls {state}/snapshots 2> /dev/null ;;\n\
         *) exit 5 ;;\nesac\ntrue"
    );
    let create = format!(
        "while [ \"$1\" != --name ]; do shift; done\nname=$2\necho \"$@\" >> {state}/created\n\
         sync -f {source}\nmkdir -p {state}/snapshots /dev/{group}\n\
         cp {image} {state}/snapshots/$name\n\
         ln -s $(losetup --find --show {state}/snapshots/$name) /dev/{group}/$name",
        source = bed.source().display()
    );
    let remove = format!(
        "for name; do :; done\nname=${{name#*/}}\nlosetup -d $(readlink /dev/{group}/$name)\n\
         rm /dev/{group}/$name {state}/snapshots/$name && rmdir /dev/{group}"
    );
    for (name, text) in [("lvs", lvs), ("lvcreate", create), ("lvremove", remove)] {
        script(&programs.join(name), &format!("#!/bin/sh\n{text}\n"));
    }
    let path = std::env::var("PATH").unwrap_or_default();
    Some((bed, mount, format!("{}:{path}", programs.display())))
}

fn back_up_with(bed: &Bed, path: &str, args: &[&str]) -> Ran {
    let source = bed.source().display().to_string();
    let mut command = bed.command([&["backup", &source, "--use-fs-snapshot"], args].concat());
    run(command.env("PATH", path))
}

#[test]
fn logical_volumes_are_read_as_snapshots() {
    let Some((bed, _mount, path)) = with_lvm() else {
        return;
    };
    fs::write(bed.source().join("file"), "of the volume").expect("written");
    back_up_with(&bed, &path, &["--fs-snapshot-size", "5%"]).succeeds();
    let created = fs::read_to_string(bed.path("lvm/created")).expect("created");
    assert!(created.contains("--extents 5%ORIGIN"), "{created}");
    let there = restore(&bed, &bed.source());
    assert_eq!(
        fs::read_to_string(there.join("file")).expect("there"),
        "of the volume"
    );
    let left = fs::read_dir(bed.path("lvm/snapshots"))
        .expect("listed")
        .count();
    assert_eq!(left, 0);
    // One that ran full while it was read is not what it should be.
    fs::write(bed.path("lvm/invalid"), "snapshot invalid\n").expect("written");
    back_up_with(&bed, &path, &["-q"]).fails(1, "had no room left for what changed meanwhile");
    let left = fs::read_dir(bed.path("lvm/snapshots"))
        .expect("listed")
        .count();
    assert_eq!(left, 0);
}
