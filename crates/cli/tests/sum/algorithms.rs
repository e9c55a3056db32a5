//! Algorithms that coreutils does not have, beside programs that have them.

use std::ffi::{OsStr, OsString};
use std::process::Command;

use tabane_sum::{Algorithm, KeyRule};

use crate::beside::Bed;
use crate::listing::odd_names;

/// A key file for an algorithm, as arguments; none if it takes no key.
pub fn key_args(bed: &Bed, algorithm: Algorithm) -> Vec<OsString> {
    let key = match algorithm.key_rule() {
        KeyRule::None => return Vec::new(),
        KeyRule::Exactly(len) => vec![7; len],
        KeyRule::AnyLength => b"a key".to_vec(),
    };
    let name = format!("key of {algorithm}");
    bed.secret(&name, key);
    vec!["--key-file".into(), name.into()]
}

/// Whether a program is there. Says so if it is not.
fn is_there(program: &str, what: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        println!("NOT CHECKED: {what} beside {program}, which is not installed");
    }
    found
}

fn files(bed: &Bed) -> [&'static str; 5] {
    let large: Vec<u8> = (0..3_000_000_u32).map(|i| (i ^ i >> 7) as u8).collect();
    for (name, bytes) in [
        ("empty", &b""[..]),
        ("abc", b"abc"),
        ("240", &large[..240]),
        ("241", &large[..241]),
        ("large", &large),
    ] {
        bed.write(name, bytes);
    }
    ["empty", "abc", "240", "241", "large"]
}

#[test]
fn lines_are_those_of_other_programs() {
    let bed = Bed::new();
    let files = files(&bed);
    for (algorithm, program, option) in [
        ("blake3", "b3sum", "--no-mmap"),
        ("xxh32", "xxhsum", "-H0"),
        ("xxh64", "xxhsum", "-H1"),
        ("xxh128", "xxhsum", "-H2"),
    ] {
        if !is_there(program, algorithm) {
            continue;
        }
        let mut command = Command::new(program);
        command.arg(option).args(files);
        let theirs = bed.run(command, b"");
        let ours = bed.tabane(&[&["-a", algorithm], &files[..]].concat(), b"");
        assert_eq!(ours.stdout, theirs.stdout, "{program} {option}");
    }
}

fn xxhsum(bed: &Bed, args: &[impl AsRef<OsStr>]) -> String {
    let mut command = Command::new("xxhsum");
    command.args(args);
    let said = bed.run(command, b"");
    assert_eq!(said.code, Some(0), "{said:?}");
    said.stdout
}

#[test]
fn tagged_lines_are_those_of_xxhsum_and_each_reads_the_others() {
    if !is_there("xxhsum", "tagged lines") {
        return;
    }
    let bed = Bed::new();
    let files = files(&bed);
    for (algorithm, option) in [
        ("xxh32", "-H0"),
        ("xxh64", "-H1"),
        ("xxh128", "-H2"),
        ("xxh3", "-H3"),
    ] {
        let theirs = xxhsum(&bed, &[&[option, "--tag"], &files[..]].concat());
        let ours = bed.tabane(&[&["-a", algorithm, "--tag"], &files[..]].concat(), b"");
        assert_eq!(ours.stdout, theirs, "{option}");
        // Tagged or not, with or without the algorithm's name.
        for args in [&[option, "--tag"][..], &[option]] {
            let theirs = xxhsum(&bed, &[args, &files[..]].concat());
            bed.write("theirs", &theirs);
            let said = bed.tabane(&["-a", algorithm, "--strict", "-c", "theirs"], b"");
            assert_eq!(said.code, Some(0), "{args:?}: {said:?}");
        }
        let said = bed.tabane(&["--strict", "-c"], theirs.as_bytes());
        assert_eq!(said.code, Some(0), "{said:?}");
        // xxhsum 0.8.1 does not tell tagged lines of XXH3 from those of XXH64.
        if algorithm != "xxh3" {
            bed.write("ours", &ours.stdout);
            let said = xxhsum(&bed, &["-c", "ours"]);
            assert_eq!(said, files.map(|file| format!("{file}: OK\n")).concat());
        }
    }
}

/// As coreutils does it. xxhsum 0.8.1 writes names as they are, and XXH3 always with a tag.
#[test]
fn newer_versions_of_xxhsum_escape_names_as_coreutils_do() {
    if !is_there("xxhsum", "odd names") {
        return;
    }
    let bed = Bed::new();
    bed.write("a\\b", "x");
    let version = xxhsum(&bed, &["-H1", "a\\b"]);
    let mut names = odd_names();
    if !version.starts_with('\\') {
        println!("NOT CHECKED: escapes and XXH3_ beside xxhsum, which is too old for them here");
        names.retain(|name| {
            !name
                .as_encoded_bytes()
                .iter()
                .any(|byte| b"\\\n\r".contains(byte))
        });
    }
    for name in &names {
        bed.write(name, name.as_encoded_bytes());
    }
    let mut algorithms = vec![("xxh32", "-H0"), ("xxh64", "-H1"), ("xxh128", "-H2")];
    if version.starts_with('\\') {
        algorithms.push(("xxh3", "-H3"));
    }
    for (algorithm, option) in algorithms {
        let mut theirs = vec![OsString::from(option)];
        theirs.extend(names.iter().map(|name| {
            // It takes no `--`.
            let mut path = OsString::from("./");
            path.push(name);
            path
        }));
        let mut ours: Vec<OsString> = vec!["-a".into(), algorithm.into()];
        ours.extend_from_slice(&theirs[1..]);
        assert_eq!(
            bed.tabane(&ours, b"").stdout,
            xxhsum(&bed, &theirs),
            "{option}"
        );
    }
}

#[test]
fn every_algorithm_reads_what_it_wrote() {
    let bed = Bed::new();
    let files = files(&bed);
    for algorithm in Algorithm::all() {
        let mut args: Vec<OsString> = vec!["-a".into(), algorithm.name().into()];
        args.extend(key_args(&bed, algorithm));
        for options in [&[][..], &["--tag"], &["--binary"]] {
            let with = |more: &[&str]| -> Vec<OsString> {
                args.iter()
                    .cloned()
                    .chain(more.iter().map(OsString::from))
                    .collect()
            };
            let said = bed.tabane(&with(&[options, &files[..]].concat()), b"");
            assert_eq!(
                (said.code, said.stderr.as_str()),
                (Some(0), ""),
                "{algorithm}"
            );
            bed.write("sums", &said.stdout);
            let said = bed.tabane(&with(&["--strict", "-c", "sums"]), b"");
            assert_eq!(
                said.stdout,
                files.map(|file| format!("{file}: OK\n")).concat()
            );
            // A file that is another is found.
            bed.write(
                "sums",
                std::fs::read_to_string(bed.path().join("sums"))
                    .unwrap()
                    .replace("abc", "240"),
            );
            let said = bed.tabane(&with(&["-c", "sums"]), b"");
            assert_eq!(said.code, Some(1), "{algorithm}");
            assert!(said.stdout.contains("240: FAILED\n"), "{said:?}");
        }
    }
}

#[test]
fn tags_of_any_algorithm_are_checked_together() {
    let bed = Bed::new();
    bed.write("abc", "abc");
    let mut sums = bed.tabane(&["abc"], b"").stdout;
    let mut count = 1;
    for algorithm in Algorithm::all().filter(|one| one.key_rule() == KeyRule::None) {
        sums += &bed
            .tabane(&["-a", algorithm.name(), "--tag", "abc"], b"")
            .stdout;
        count += 1;
    }
    let said = bed.tabane(&["-c", "--strict"], sums.as_bytes());
    assert_eq!(
        (said.code, said.stdout),
        (Some(0), "abc: OK\n".repeat(count))
    );
    // One key for all that take one of its length.
    bed.secret("key", [1; 32]);
    for name in [
        "blake3-keyed",
        "hmac-md5",
        "hmac-sha1",
        "hmac-sha256",
        "highwayhash-256",
    ] {
        let said = bed.tabane(&["-a", name, "--key-file", "key", "--tag", "abc"], b"");
        assert_eq!(said.code, Some(0), "{said:?}");
        sums += &said.stdout;
        count += 1;
    }
    let said = bed.tabane(&["-c", "--strict", "--key-file", "key"], sums.as_bytes());
    assert_eq!(
        (said.code, said.stdout),
        (Some(0), "abc: OK\n".repeat(count))
    );
}

#[test]
fn a_check_file_of_another_algorithm_is_named() {
    let bed = Bed::new();
    bed.write("abc", "abc");
    let stderr = |args: &[&str], sums: &str| {
        bed.write("sums", sums);
        let said = bed.tabane(&[args, &["-c", "sums"]].concat(), b"");
        assert_eq!((said.code, said.stdout.as_str()), (Some(1), ""), "{said:?}");
        said.stderr
    };
    let lines = |args: &[&str]| bed.tabane(&[args, &["abc"]].concat(), b"").stdout;
    let none = "tabane: sums: no properly formatted checksum lines found\n";
    let hint = |names: &str, cure: &str| {
        format!("{none}tabane: sums: its lines look like those of {names}: {cure}\n")
    };
    let which = "say which with --algorithm";
    let md5 = "md5, xxh128, cityhash128, murmur3-128 or hmac-md5";
    assert_eq!(stderr(&[], &lines(&["-a", "md5"])), hint(md5, which));
    let not_sha1 = format!("{md5}, not sha1");
    assert_eq!(
        stderr(&["-a", "sha1"], &lines(&["-a", "md5"])),
        hint(&not_sha1, which)
    );
    assert_eq!(
        stderr(&["-a", "md5"], &lines(&["-a", "sha1"])),
        hint("sha1 or hmac-sha1, not md5", which)
    );
    assert_eq!(
        stderr(&["--etag", "8MiB"], &lines(&["-a", "sha224"])),
        hint("sha224", "use --algorithm sha224")
    );
    assert_eq!(
        stderr(&["-a", "sha1"], &lines(&["-a", "md5", "--tag"])),
        hint("md5, not sha1", "use --algorithm md5")
    );
    assert_eq!(
        stderr(&["-a", "xxh64"], &lines(&["-a", "xxh3"])),
        hint("xxh3, not xxh64", "use --algorithm xxh3")
    );
    assert_eq!(stderr(&[], "nonsense\n"), none);
}

#[test]
fn an_unknown_algorithm_says_which_there_are() {
    let said = Bed::new().tabane(&["-a", "md4"], b"");
    assert_eq!(said.code, Some(2));
    for name in Algorithm::names() {
        assert!(said.stderr.contains(name), "{said:?}");
    }
}

#[test]
fn another_spelling_of_an_algorithm_is_recognised() {
    let said = Bed::new().tabane(&["-a", "b3"], b"");
    assert_eq!(said.code, Some(2));
    assert!(said.stderr.contains("did you mean blake3? "), "{said:?}");
}

#[test]
fn the_version_is_a_line_as_of_coreutils() {
    let version = format!("sum (tabane) {}\n", env!("CARGO_PKG_VERSION"));
    for args in [&["--version"][..], &["-a", "md5", "--version"]] {
        let said = Bed::new().tabane(args, b"");
        assert_eq!((said.code, &said.stdout), (Some(0), &version), "{said:?}");
    }
}

#[test]
fn the_list_has_all_algorithms() {
    let bed = Bed::new();
    let said = bed.tabane(&["--list"], b"");
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
    let lines: Vec<&str> = said.stdout.lines().skip(2).collect();
    for (line, algorithm) in lines.iter().zip(Algorithm::all()) {
        let cells: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(
            cells[..2],
            [algorithm.name(), &algorithm.digest_len().to_string()]
        );
    }
    // An empty line, and two of advice.
    assert_eq!(lines.len(), Algorithm::all().count() + 3);
    let said = bed.tabane(&["--list", "--json"], b"");
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
    for (line, algorithm) in said.stdout.lines().zip(Algorithm::all()) {
        let object: serde_json::Value = serde_json::from_str(line).expect(line);
        assert_eq!(object["message_type"], "algorithm");
        assert_eq!(object["name"], algorithm.name());
        assert_eq!(object["takes_key"], algorithm.key_rule() != KeyRule::None);
        assert!(object["bytes_per_s"].as_f64() > Some(1e6), "{line}");
    }
    assert_eq!(bed.tabane(&["--list", "file"], b"").code, Some(2));
}
