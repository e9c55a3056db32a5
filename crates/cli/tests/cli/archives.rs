//! Archives that `tabane dump` writes, unpacked by other programs.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::bed::{Bed, restored, varied};

/// Unpacks `archive`, which the program reads from its standard input, below `out`.
fn extract(program: &[&str], archive: &[u8], out: &Path) {
    fs::create_dir(out).expect("created");
    let mut child = Command::new(program[0])
        .args(&program[1..])
        .current_dir(out)
        .stdin(Stdio::piped())
        .spawn()
        .expect("it is installed");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(archive).expect("it reads");
    drop(stdin);
    assert!(child.wait().expect("it ends").success(), "{program:?}");
}

/// Runs a program; `None` if it is not installed or fails.
fn output(program: &str, args: &[&str], path: &Path) -> Option<String> {
    let output = Command::new(program).args(args).arg(path).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(text)
}

/// The programs that unpack tar archives with everything in them, but those that are not installed.
fn tar_programs() -> Vec<&'static [&'static str]> {
    let programs: [&[&str]; 2] = [
        &["tar", "--acls", "--xattrs", "-xp", "-f", "-"],
        &["bsdtar", "--acls", "--xattrs", "-xp", "-f", "-"],
    ];
    let is_there = |program: &&[&str]| {
        let found = Command::new(program[0]).arg("--version").output().is_ok();
        if !found {
            println!("NOT CHECKED: dump beside {}: not installed", program[0]);
        }
        found
    };
    programs.into_iter().filter(is_there).collect()
}

#[test]
fn a_directory_is_dumped_as_an_archive_that_tar_can_read() {
    let bed = Bed::with_repository();
    let source = bed.source();
    let long = "n".repeat(200);
    fs::write(source.join("docs").join(&long), "long").expect("written");
    bed.backup(&[]).succeeds();
    let archive = bed
        .run(["dump".as_ref(), "latest".as_ref(), source.as_os_str()])
        .succeeds()
        .bytes;

    let out = bed.path("out");
    extract(&["tar", "-x"], &archive, &out);

    let unpacked = restored(&out, &source);
    assert_eq!(
        fs::read(unpacked.join("docs").join(&long)).expect("unpacked"),
        b"long"
    );
    assert_eq!(
        fs::read(unpacked.join("docs/deep/data.bin")).expect("unpacked"),
        varied(300_000)
    );
    for path in ["docs/deep", "docs/notes.txt", "linked", "empty", "pointer"] {
        let of = |root: &std::path::Path| {
            let metadata = fs::symlink_metadata(root.join(path)).expect(path);
            (
                metadata.mode(),
                metadata.uid(),
                metadata.len(),
                metadata.mtime(),
                metadata.mtime_nsec(),
            )
        };
        if path == "docs/deep" {
            assert_eq!(of(&unpacked).3, of(&source).3);
        } else {
            assert_eq!(of(&unpacked), of(&source), "{path}");
        }
    }
    let inode = |path: &str| fs::metadata(unpacked.join(path)).expect(path).ino();
    assert_eq!(inode("linked"), inode("docs/notes.txt"));
}

#[test]
fn access_control_lists_come_out_of_an_archive() {
    let bed = Bed::with_repository();
    let source = bed.source();
    let is_set = [
        (vec!["-m", "u:1234:rwx,g:4321:r,m::rwx"], "docs/notes.txt"),
        (vec!["-d", "-m", "u:1234:rx,g::x"], "docs/deep"),
    ]
    .iter()
    .all(|(args, path)| output("setfacl", args, &source.join(path)).is_some());
    if !is_set {
        println!("NOT CHECKED: access control lists in archives: setfacl does not work here");
        return;
    }
    bed.backup(&[]).succeeds();
    let archive = bed
        .run(["dump".as_ref(), "latest".as_ref(), source.as_os_str()])
        .succeeds()
        .bytes;
    for program in tar_programs() {
        let out = bed.path(program[0]);
        extract(program, &archive, &out);
        let unpacked = restored(&out, &source);
        for path in ["docs/notes.txt", "docs/deep", "docs"] {
            let list = |root: &Path| output("getfacl", &["-n", "-c"], &root.join(path));
            assert_eq!(list(&unpacked), list(&source), "{program:?} {path}");
        }
    }
}

#[test]
fn sparse_files_come_out_of_an_archive_with_their_holes() {
    let bed = Bed::with_repository();
    let source = bed.source();
    let long = "n".repeat(120);
    for (name, data, size) in [
        ("begins", &[(1 << 20, 70_000)][..], (1 << 20) + 70_000),
        ("ends", &[(0, 5000)][..], 200 << 20),
        (
            "between",
            &[(0, 10), (9 << 30, 100_000)][..],
            (9 << 30) + 100_000,
        ),
        ("empty", &[][..], 64 << 20),
        (&long, &[(4 << 20, 4096), (6 << 20, 1)][..], 8 << 20),
    ] {
        let file = fs::File::create(source.join("docs").join(name)).expect("created");
        file.set_len(size).expect("extended");
        for &(at, len) in data {
            file.write_all_at(&varied(len), at).expect("written");
        }
    }
    bed.backup(&[]).succeeds();
    let archive = bed
        .run(["dump".as_ref(), "latest".as_ref(), source.as_os_str()])
        .succeeds()
        .bytes;
    assert!(archive.len() < 2 << 20, "{}", archive.len());
    for program in tar_programs() {
        let out = bed.path(program[0]);
        extract(program, &archive, &out);
        let unpacked = restored(&out, &source);
        for name in ["begins", "ends", "between", "empty", &long] {
            let [from, to] = [&source, &unpacked].map(|root| root.join("docs").join(name));
            let [there, here] = [&from, &to].map(|path| fs::metadata(path).expect(name));
            assert_eq!(here.len(), there.len(), "{program:?} {name}");
            // In units of 512 bytes; a file system may spend some blocks more on either.
            let allocated = here.blocks().abs_diff(there.blocks());
            assert!(allocated <= 256, "{program:?} {name}: {allocated}");
            if here.len() < 1 << 30 {
                assert!(fs::read(from).unwrap() == fs::read(to).unwrap(), "{name}");
            } else {
                let tail = |path| {
                    let mut tail = vec![0; 100_010];
                    let file = fs::File::open(path).expect(name);
                    file.read_exact_at(&mut tail, here.len() - 100_010)
                        .expect(name);
                    tail
                };
                assert!(tail(from) == tail(to), "{name}");
            }
        }
    }
}
