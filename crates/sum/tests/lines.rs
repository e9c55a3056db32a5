//! Lines of check files: what is written is read back, and what is not a line is refused.

#![forbid(unsafe_code)]

use std::num::NonZeroU64;

use proptest::prelude::*;
use tabane_sum::{Accept, Algorithm, Digest, Format, Line, Parser, Style, Sum, Upload};

fn algorithm() -> impl Strategy<Value = Algorithm> {
    prop::sample::select(Algorithm::all().collect::<Vec<_>>())
}

/// Names as files have them, with more of what is special than chance gives.
fn name() -> impl Strategy<Value = Vec<u8>> {
    let special = prop::sample::select(b"\\\n\r *()=#\t-".to_vec());
    let byte = prop_oneof![special, 1..=255_u8];
    prop::collection::vec(byte, 1..40)
}

fn sum(algorithm: Algorithm, seed: u64) -> Sum {
    let digest = Algorithm::Sha512.digest(&seed.to_le_bytes());
    let digest = Digest::from_bytes(&digest.as_ref()[..algorithm.digest_len()]);
    Sum {
        digest: digest.expect("short"),
        parts: None,
    }
}

fn written(format: Format, sum: &Sum, name: &[u8]) -> Vec<u8> {
    let mut line = Vec::new();
    format.write(sum, name, &mut line);
    assert_eq!(line.pop(), Some(b'\n'));
    assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
    line
}

proptest! {
    #[test]
    fn lines_are_read_back(algorithm in algorithm(), seed: u64, name in name(), tagged: bool,
        binary: bool) {
        let sum = sum(algorithm, seed);
        let style = if tagged { Style::Tagged(algorithm) } else { Style::Untagged { algorithm,
            binary } };
        let line = written(Format::new(style), &sum, &name);
        let expected = Some(Line { algorithm, sum, name });
        prop_assert_eq!(Parser::new(Accept::Only(algorithm)).parse(&line), expected.clone());
        let accept = if tagged { Accept::AnyTagged(Algorithm::Md5) } else {
            Accept::AnyTagged(algorithm) };
        prop_assert_eq!(Parser::new(accept).parse(&line), expected);
    }

    #[test]
    fn etags_are_read_back(seed: u64, parts in prop::option::of(1..u64::MAX), name in name(),
        part_len in 1..u64::MAX) {
        let part_len = NonZeroU64::new(part_len).expect("it is");
        let sum = Sum { parts, ..sum(Algorithm::Md5, seed) };
        let style = Style::Untagged { algorithm: Algorithm::Md5, binary: false };
        let format = Format::new(style);
        let line = written(format, &sum, &name);
        let read = Parser::new(Accept::Etags(Upload::new(part_len))).parse(&line);
        prop_assert_eq!(read, Some(Line { algorithm: Algorithm::Md5, sum, name }));
    }

    #[test]
    fn any_bytes_are_a_line_or_none(
        lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..10),
    ) {
        for accept in [Accept::Only(Algorithm::Md5), Accept::AnyTagged(Algorithm::Xxh3),
            Accept::Etags(Upload::new(NonZeroU64::MIN))] {
            let mut parser = Parser::new(accept);
            for line in &lines {
                parser.parse(line);
            }
        }
    }
}

const EMPTY: &str = "d41d8cd98f00b204e9800998ecf8427e";

/// Reads lines one after the other; the names of those that are lines.
fn names(accept: Accept, lines: &[String]) -> Vec<Option<String>> {
    let mut parser = Parser::new(accept);
    let read = |line: &String| {
        let line = parser.parse(line.as_bytes())?;
        Some(String::from_utf8_lossy(&line.name).into_owned())
    };
    lines.iter().map(read).collect()
}

#[test]
fn lines_of_all_kinds() {
    let md5 = Accept::Only(Algorithm::Md5);
    for (line, name) in [
        (format!("{EMPTY}  a"), Some("a")),
        (format!("{EMPTY} *a"), Some("a")),
        (format!("{EMPTY} a"), Some("a")),
        (format!("{EMPTY}\t a"), Some("a")),
        (format!(" \t{}   a ", EMPTY.to_uppercase()), Some(" a ")),
        (format!("{EMPTY} *"), Some("*")),
        (format!("\\{EMPTY}  a\\n\\r\\\\"), Some("a\n\r\\")),
        (format!("{EMPTY}  a\\n"), Some("a\\n")),
        (format!("MD5 (a) = {EMPTY}"), Some("a")),
        (format!("MD5(a)= {EMPTY}"), Some("a")),
        (format!("MD5 (a) (b)=\t{EMPTY}"), Some("a) (b")),
        (format!("\\MD5 (a\\n) = {EMPTY}"), Some("a\n")),
        (format!("MD5 () = {EMPTY}"), Some("")),
        (EMPTY.to_owned(), None),
        (format!("{EMPTY} "), None),
        (format!("{EMPTY}x  a"), None),
        (format!("{}  a", &EMPTY[1..]), None),
        (format!("g{}  a", &EMPTY[1..]), None),
        (format!("\\{EMPTY}  a\\t"), None),
        (format!("\\{EMPTY}  a\\"), None),
        (format!("MD5  (a) = {EMPTY}"), None),
        (format!("MD5 (a) {EMPTY}"), None),
        (format!("MD5 (a) = {EMPTY}0"), None),
        (format!("MD5 (a = {EMPTY}"), None),
        (format!("SHA1 (a) = {EMPTY}"), None),
        (String::new(), None),
        ("\\".to_owned(), None),
    ] {
        let expected = name.map(str::to_owned);
        assert_eq!(
            names(md5, std::slice::from_ref(&line)),
            [expected],
            "{line:?}"
        );
    }
}

#[test]
fn the_two_untagged_forms_do_not_mix() {
    let md5 = Accept::Only(Algorithm::Md5);
    let some = |name: &str| Some(name.to_owned());
    let [one, two] = [format!("{EMPTY} a"), format!("{EMPTY}  b")];
    assert_eq!(
        names(md5, &[two.clone(), one.clone(), two.clone()]),
        [some("b"), None, some("b")]
    );
    assert_eq!(
        names(md5, &[one.clone(), two, one]),
        [some("a"), some(" b"), some("a")]
    );
}

#[test]
fn tags_tell_the_algorithm_unless_one_is_given() {
    let sha1 = Algorithm::Sha1.digest(b"");
    let tagged = format!("SHA1 (a) = {sha1}");
    let untagged = format!("{EMPTY}  b");
    let read = |accept| names(accept, &[tagged.clone(), untagged.clone()]);
    let some = |name: &str| Some(name.to_owned());
    assert_eq!(
        read(Accept::AnyTagged(Algorithm::Md5)),
        [some("a"), some("b")]
    );
    assert_eq!(read(Accept::Only(Algorithm::Md5)), [None, some("b")]);
    assert_eq!(read(Accept::Only(Algorithm::Sha1)), [some("a"), None]);
}

#[test]
fn xxh3_is_read_as_xxhsum_writes_it() {
    let xxh3 = Accept::Only(Algorithm::Xxh3);
    let line = |text: &str| Parser::new(xxh3).parse(text.as_bytes());
    let expected = line("XXH3 (a) = 78af5f94892f3950").expect("a line");
    assert_eq!(expected.sum.digest, Algorithm::Xxh3.digest(b"abc"));
    assert_eq!(line("XXH3_78af5f94892f3950  a"), Some(expected.clone()));
    assert_eq!(line("78af5f94892f3950  a"), Some(expected.clone()));
    let style = Style::Untagged {
        algorithm: Algorithm::Xxh3,
        binary: false,
    };
    let written = written(Format::new(style), &expected.sum, b"a");
    assert_eq!(written, b"XXH3_78af5f94892f3950  a");
}

#[test]
fn bad_etags_are_no_lines() {
    let upload = Upload::new(NonZeroU64::new(8 << 20).expect("it is"));
    let read = |line: String| names(Accept::Etags(upload), &[line]).remove(0);
    assert_eq!(read(format!("{EMPTY}-12  a")).as_deref(), Some("a"));
    assert_eq!(read(format!("{EMPTY}  a")).as_deref(), Some("a"));
    for bad in ["-", "-x", "-1x", "--1", "-99999999999999999999"] {
        assert_eq!(read(format!("{EMPTY}{bad}  a")), None, "{bad}");
    }
    assert_eq!(read(format!("MD5 (a) = {EMPTY}")), None);
}

#[test]
fn zero_ends_lines_and_escapes_nothing() {
    let digest = Digest::from_bytes(&[0xab]).expect("short");
    let mut out = Vec::new();
    let style = Style::Untagged {
        algorithm: Algorithm::Md5,
        binary: true,
    };
    let format = Format::new(style).zero(true);
    format.write(
        &Sum {
            digest,
            parts: Some(3),
        },
        b"a\nb\\",
        &mut out,
    );
    assert_eq!(out, b"ab-3 *a\nb\\\0");
}
