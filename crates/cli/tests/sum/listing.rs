//! Checksums of files with odd names, and of what is no file.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use crate::beside::{Bed, coreutils};

pub const ALGORITHMS: [&str; 6] = ["md5", "sha1", "sha224", "sha256", "sha384", "sha512"];

/// Names that somebody has, somewhere.
pub fn odd_names() -> Vec<OsString> {
    let long = [b'x'; 255];
    let names: &[&[u8]] = &[
        b"plain",
        b"with space",
        b" leading space",
        b"trailing space ",
        b"*star",
        b"two  spaces",
        b"tab\there",
        b"new\nline",
        b"\n",
        b"car\rriage",
        b"back\\slash",
        b"\\",
        b"\\\\n",
        b"literal\\n",
        b"\xff\xfe not utf-8",
        b"cut \xe2\x82",
        "b\u{fc}cher".as_bytes(),
        "\u{675f}\u{306d}".as_bytes(),
        b"quote'",
        b"double\"quote",
        b"both'\"quotes",
        b"it's plain",
        b"$dollar `tick`",
        b"\x1b[31mred",
        b"\x7f",
        b"bell\x07\x08\x0b\x0c",
        b"a:b",
        b"#hash",
        b"in#hash's",
        b"~tilde",
        b"{",
        b"{}",
        b"=",
        b"a=b",
        b"(paren)",
        b"MD5 (x) = y",
        b"d41d8cd98f00b204e9800998ecf8427e  x",
        b"?",
        b"[a]",
        b"^!&;<>|",
        b"@%+,-._",
        &long,
    ];
    names
        .iter()
        .map(|name| OsStr::from_bytes(name).to_owned())
        .collect()
}

#[test]
fn odd_names_make_the_same_lines() {
    if !coreutils() {
        return;
    }
    let bed = Bed::new();
    let names = odd_names();
    for name in &names {
        bed.write(name, name.as_bytes());
    }
    for algorithm in ALGORITHMS {
        for options in [
            &[][..],
            &["-b"],
            &["--tag"],
            &["-z"],
            &["--tag", "-z"],
            &["-bz"],
        ] {
            let mut args: Vec<OsString> = options.iter().map(OsString::from).collect();
            args.push("--".into());
            args.extend(names.iter().cloned());
            let said = bed.same(algorithm, &args, b"");
            assert_eq!(said.code, Some(0));
        }
    }
    // Leading dashes.
    bed.write("-dash", "dash");
    bed.write("--tag", "tag");
    bed.same("md5", &["--", "-dash", "--tag"], b"");
    bed.same("md5", &["./-dash", "./--tag"], b"");
}

#[test]
fn what_was_printed_is_read_back() {
    if !coreutils() {
        return;
    }
    let bed = Bed::new();
    let names = odd_names();
    for name in &names {
        bed.write(name, name.as_bytes());
    }
    for algorithm in ALGORITHMS {
        for option in ["--text", "--binary", "--tag"] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_tabane"));
            command
                .args(["sum", "-a", algorithm, option, "--"])
                .args(&names);
            let lines = command
                .current_dir(bed.path())
                .output()
                .expect("started")
                .stdout;
            fs::write(bed.path().join("sums"), &lines).expect("written");
            let said = bed.same(algorithm, &["-c", "sums"], b"");
            assert_eq!(said.code, Some(0), "{said:?}");
            fs::write(bed.path().join(&names[3]), "changed").expect("written");
            assert_eq!(bed.same(algorithm, &["-c", "sums"], b"").code, Some(1));
            fs::write(bed.path().join(&names[3]), names[3].as_bytes()).expect("written");
        }
    }
}

#[test]
fn odd_names_of_nothing_make_the_same_messages() {
    if !coreutils() {
        return;
    }
    let bed = Bed::new();
    let mut args = vec![OsString::from("--")];
    args.extend(odd_names());
    args.push("".into());
    assert_eq!(bed.same("md5", &args, b"").code, Some(1));
    // Every byte, between letters, at the beginning and at the end.
    for byte in (1..=255_u8).filter(|&byte| byte != b'/') {
        let names = [
            &[b'a', byte, b'b'][..],
            &[byte, b'c'],
            &[b'd', byte],
            &[byte, b' ', byte, b'e'],
        ];
        let below = |name: &&[u8]| Path::new(".").join(OsStr::from_bytes(name));
        let args: Vec<_> = names.iter().map(below).collect();
        bed.same("md5", &args, b"");
    }
}

#[test]
fn what_is_no_file_or_cannot_be_read() {
    if !coreutils() {
        return;
    }
    let mut bed = Bed::new();
    bed.write("good", "good");
    bed.write("empty", "");
    bed.write("secret", "secret");
    fs::set_permissions(bed.path().join("secret"), fs::Permissions::from_mode(0o000))
        .expect("changed");
    fs::create_dir(bed.path().join("directory")).expect("created");
    symlink("good", bed.path().join("link")).expect("created");
    symlink("nowhere", bed.path().join("dangling")).expect("created");
    symlink("loop", bed.path().join("loop")).expect("created");
    symlink("directory", bed.path().join("to directory")).expect("created");
    let _socket = UnixListener::bind(bed.path().join("socket")).expect("created");
    let too_long = "y".repeat(256);
    let args = [
        "good",
        "missing",
        "directory",
        "empty",
        "link",
        "dangling",
        "loop",
        "to directory",
        "socket",
        "good/below",
        &too_long,
        "/proc/self/mem",
        "/proc/version",
        "/dev/null",
        "secret",
        "good",
        "good",
    ];
    for algorithm in ALGORITHMS {
        assert_eq!(bed.same(algorithm, &args, b"").code, Some(1));
    }
    // As somebody who may not read everything, which a superuser may.
    if fs::read(bed.path().join("secret")).is_err() {
        return;
    }
    bed.become_nobody();
    let mut theirs = Command::new("md5sum");
    theirs.args(["secret", "good"]);
    let theirs = bed.run(theirs, b"");
    let ours = bed.tabane(&["-a", "md5", "secret", "good"], b"");
    assert_eq!(theirs.stderr, "md5sum: secret: Permission denied\n");
    assert_eq!(ours.stderr, "tabane: secret: Permission denied\n");
    assert_eq!((ours.code, ours.stdout), (theirs.code, theirs.stdout));
}

#[test]
fn standard_input() {
    if !coreutils() {
        return;
    }
    let bed = Bed::new();
    bed.write("file", "file");
    let large = vec![7; 3_000_000];
    for stdin in [&b""[..], b"some bytes", &large] {
        for algorithm in ALGORITHMS {
            bed.same::<&str>(algorithm, &[], stdin);
            bed.same(algorithm, &["-"], stdin);
            bed.same(algorithm, &["file", "-", "file"], stdin);
            bed.same(algorithm, &["-", "-", "missing", "-"], stdin);
            bed.same(algorithm, &["--tag", "-z", "-"], stdin);
        }
    }
}

/// Lengths beyond 4 GiB, without the disk space. What is expected is
/// `head -c 4294967301 /dev/zero | sha1sum`.
#[test]
fn a_file_of_more_than_4_gib() {
    let bed = Bed::new();
    let path = bed.write("sparse", "");
    let file = fs::File::options().write(true).open(path).expect("opened");
    file.set_len((4 << 30) + 5).expect("grown");
    let said = bed.tabane(&["-a", "sha1", "sparse"], b"");
    assert_eq!(
        said.stdout,
        "7ce9d83c5eacca17b354408ce637473229a7d5e2  sparse\n"
    );
}
