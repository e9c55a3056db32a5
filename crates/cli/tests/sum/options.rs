//! Every option alone and with every other.

use crate::beside::{Bed, coreutils};
use crate::listing::ALGORITHMS;

const OPTIONS: [&str; 17] = [
    "-b",
    "--binary",
    "-c",
    "--check",
    "--tag",
    "-t",
    "--text",
    "-z",
    "--zero",
    "--ignore-missing",
    "--quiet",
    "--status",
    "--strict",
    "-w",
    "--warn",
    // GNU programs take any unambiguous beginning.
    "--ign",
    "--che",
];

fn bed() -> Bed {
    let bed = Bed::new();
    bed.write("a", "a");
    bed.write("b\nc\\", "b");
    let md5 = |text: &str, name: &str| {
        format!(
            "{}  {name}\n",
            tabane_sum::Algorithm::Md5.digest(text.as_bytes())
        )
    };
    let sums = [
        md5("a", "a"),
        md5("not a", "a"),
        "\\".to_owned() + &md5("b", "b\\nc\\\\"),
        "no line\n".to_owned(),
        md5("", "missing"),
        "MD5 (a) = 0cc175b9c0f1b6a831c399e269772661\n".to_owned(),
    ];
    bed.write("sums", sums.concat());
    bed.write("good", md5("a", "a"));
    bed
}

#[test]
fn alone() {
    if !coreutils() {
        return;
    }
    let bed = bed();
    for algorithm in ALGORITHMS {
        for option in OPTIONS {
            bed.same(algorithm, &[option, "a", "b\nc\\", "missing"], b"");
            bed.same(algorithm, &[option], b"stdin");
            bed.same(algorithm, &[option, "-c", "sums", "good"], b"");
        }
    }
}

#[test]
fn in_pairs() {
    if !coreutils() {
        return;
    }
    let bed = bed();
    for first in OPTIONS {
        for second in OPTIONS {
            bed.same("md5", &[first, second, "a", "b\nc\\"], b"");
            bed.same("md5", &["-c", first, second, "sums"], b"");
            bed.same("md5", &[first, "good", second], b"");
        }
    }
}

#[test]
fn bundled_and_repeated() {
    if !coreutils() {
        return;
    }
    let bed = bed();
    for args in [
        &["-bz", "a"][..],
        &["-tb", "a"],
        &["-bt", "a"],
        &["-bb", "--tag", "--tag", "a"],
        &["--tag", "--text", "a"],
        &["--text", "--tag", "a"],
        &["-t", "--tag", "-b", "a"],
        &["--tag", "-t", "-b", "a"],
        &["-cw", "sums"],
        &["-wc", "--quiet", "--status", "sums"],
        &["-c", "--status", "--quiet", "--warn", "sums"],
        &["-c", "--warn", "--quiet", "sums"],
        &["-c", "--quiet", "--quiet", "good"],
        &["-c", "good", "sums", "good"],
        &["-c", "missing", "good"],
        &["-c", "missing"],
        &["-c", "."],
        &["-c", "--status", "missing"],
        &["-c", ".", "good"],
    ] {
        bed.same("md5", args, b"");
    }
}

/// The exit code is ours.
#[test]
fn wrong_usage() {
    let bed = bed();
    for args in [
        &["--no-such-option"][..],
        &["-x"],
        &["-a", "md4"],
        &["--etag", "0"],
        &["--etag", "8MiB", "--tag"],
        &["--tag", "--text", "a"],
        &["--check", "--zero", "good"],
        &["--check", "--tag", "good"],
        &["--check", "--text", "good"],
        &["--check", "--recursive", "good"],
        &["--check", "--files0-from", "good"],
        &["--files0-from", "good", "a"],
        &["--ignore-missing", "a"],
        &["--status", "a"],
        &["--warn", "a"],
        &["--quiet", "a"],
        &["--strict", "a"],
        &["--list", "a"],
        &["--list", "--tag"],
        &["--list", "--zero"],
        &["--list", "--quiet"],
    ] {
        let said = bed.tabane(args, b"");
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.stderr.starts_with("tabane: "), "{said:?}");
    }
}
