//! Check files, good and bad.

use proptest::prelude::*;
use tabane_sum::Algorithm;

use crate::beside::{Bed, coreutils};

fn bed() -> Bed {
    let bed = Bed::new();
    for (name, text) in [
        ("a", "a"),
        ("b c", "b"),
        (" d", "d"),
        ("*e", "e"),
        ("n\nl", "f"),
        ("b\\s", "g"),
        ("c\rr", "h"),
        ("empty", ""),
    ] {
        bed.write(name, text);
    }
    std::fs::create_dir(bed.path().join("directory")).expect("created");
    bed
}

fn md5(text: &str) -> String {
    Algorithm::Md5.digest(text.as_bytes()).to_string()
}

const FLAGS: [&[&str]; 10] = [
    &[],
    &["--ignore-missing"],
    &["--quiet"],
    &["--status"],
    &["--strict"],
    &["--warn"],
    &["--ignore-missing", "--strict"],
    &["--ignore-missing", "--quiet"],
    &["--strict", "--warn"],
    &["--ignore-missing", "--status"],
];

#[test]
fn check_files_of_all_kinds() {
    if !coreutils() {
        return;
    }
    let bed = bed();
    let a = md5("a");
    let files: Vec<Vec<u8>> = vec![
        format!("{a}  a\n").into(),
        format!("{a} *a\n").into(),
        format!("{a} a\n").into(),
        format!("{a}\ta\n").into(),
        format!("{a}  a").into(),
        format!("  {a}  a\n").into(),
        format!("{}  a\n", a.to_uppercase()).into(),
        format!("{a}  a\r\n{}  b c\r\n", md5("b")).into(),
        format!("{a}  a\r\r\n").into(),
        format!("{a}  a\n\n\r\n# comment\n #no comment\n").into(),
        "# only\n# comments\n".into(),
        b"".to_vec(),
        b"\n".to_vec(),
        b"\r\n".to_vec(),
        b"\r".to_vec(),
        b"nonsense\n".to_vec(),
        b"\0\0\0".to_vec(),
        (0..=255_u8).cycle().take(70_000).collect(),
        format!("{a}  a\0b\n").into(),
        format!("{a}\0  a\n").into(),
        format!("{a}  a\n{}  a\n", md5("b")).into(),
        format!("{}  a\n", md5("b")).into(),
        format!("{a}  missing\n").into(),
        format!("{a}  missing\n{a}  also missing\n{a}  n\\nl\n").into(),
        format!("{a}  directory\n").into(),
        format!("{a}  a/below\n").into(),
        format!("{a}  a\n{a}  missing\n{}  a\nbad\n", md5("b")).into(),
        format!("bad\n{a}  a\nbad\n").into(),
        format!("\\{}  n\\nl\n", md5("f")).into(),
        format!("\\{}  b\\\\s\n", md5("g")).into(),
        format!("{}  b\\s\n", md5("g")).into(),
        format!("\\{}  c\\rr\n", md5("h")).into(),
        format!("\\{}  n\\nm\n", md5("f")).into(),
        format!("\\{a}  a\\x\n").into(),
        format!("\\{a}  a\\\n").into(),
        format!("\\\\{a}  a\n").into(),
        format!("\\{a}  a\n").into(),
        format!("MD5 (a) = {a}\n").into(),
        format!("MD5(a)={a}\n").into(),
        format!("MD5(a)=\t {a}\n").into(),
        format!("MD5  (a) = {a}\n").into(),
        format!("MD5 (a) = {a} \n").into(),
        format!("MD5 (a) {a}\n").into(),
        "MD5 (a)\n".into(),
        "MD5 (\n".into(),
        "MD5\n".into(),
        format!("MD5 () = {a}\n").into(),
        format!("MD5 (a\0) = {a}\n").into(),
        format!("MD5 (a) = {a}\0x\n").into(),
        format!("\\MD5 (n\\nl) = {}\n", md5("f")).into(),
        format!("MD5 (missing) = {a}\n").into(),
        format!("SHA1 (a) = {}\n", Algorithm::Sha1.digest(b"a")).into(),
        format!("{}  a\n", Algorithm::Sha1.digest(b"a")).into(),
        format!("md5 (a) = {a}\n").into(),
        // The two untagged forms.
        format!("{a}  a\n{a} a\n").into(),
        format!("{a} a\n{a}  a\n{} *e\n{}  d\n", md5("e"), md5("d")).into(),
        format!("{a}  \n").into(),
        format!("{a} *\n").into(),
        format!("{a}  \n{a}  a\n").into(),
        format!("{a} \n").into(),
        format!("{a}\n").into(),
        format!("{a}a  a\n").into(),
        format!("{}  a\n", &a[1..]).into(),
        format!("{a}  -\n").into(),
        format!("MD5 (-) = {a}\n").into(),
        format!("{a}  ./a\n{}   d\n{}  *e\n", md5("d"), md5("e")).into(),
    ];
    for file in &files {
        bed.write("sums", file);
        for flags in FLAGS {
            let args: Vec<&str> = ["-c"]
                .iter()
                .chain(flags)
                .copied()
                .chain(["sums"])
                .collect();
            bed.same("md5", &args, b"a");
        }
        // From standard input, and after another, which decides the form for all.
        bed.same("md5", &["-c", "-w"], file);
        bed.write("first", format!("{a} a\n"));
        bed.same("md5", &["-c", "-w", "first", "sums"], b"a");
        bed.same("md5", &["-c", "-w", "sums", "-"], file);
    }
}

#[test]
fn a_line_longer_than_memory_should_be_is_no_line() {
    let bed = bed();
    let long = format!("{0}  {1}\n{0}  a\n", md5("a"), "x".repeat(3 << 20));
    bed.write("sums", long);
    let said = bed.tabane(&["-a", "md5", "-c", "sums"], b"");
    assert_eq!(said.stdout, "a: OK\n");
    assert_eq!(
        said.stderr,
        "tabane: WARNING: 1 line is improperly formatted\n"
    );
}

/// Pieces of which lines are made, in any order.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let fixed: Vec<Vec<u8>> = [
        "0cc175b9c0f1b6a831c399e269772661",
        "0CC175B9C0F1B6A831C399E269772661",
        "MD5",
        "MD5 (",
        ") = ",
        "  ",
        " *",
        " ",
        "\t",
        "\\",
        "\\n",
        "a",
        "b c",
        "#",
        "\r",
        "(",
        ")",
        "=",
        "-",
        "\0",
        "missing",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into();
    prop_oneof![9 => prop::sample::select(fixed), 1 => prop::collection::vec(any::<u8>(), 1..3)]
}

fn line() -> impl Strategy<Value = Vec<u8>> {
    let digest = "0cc175b9c0f1b6a831c399e269772661";
    let whole = prop::sample::select(vec![
        format!("{digest}  a"),
        format!("{digest} a"),
        format!("MD5 (a) = {digest}"),
    ]);
    let made = prop::collection::vec(piece(), 1..7).prop_map(|pieces| pieces.concat());
    let changed = (whole, any::<prop::sample::Index>(), piece(), any::<bool>()).prop_map(
        |(line, at, piece, cut)| {
            let mut line = line.into_bytes();
            let at = at.index(line.len());
            let end = if cut { at + 1 } else { at };
            line.splice(at..end, piece);
            line
        },
    );
    prop_oneof![made, changed]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn random_check_files(lines in prop::collection::vec(line(), 1..12)) {
        if !coreutils() {
            return Ok(());
        }
        let bed = bed();
        bed.write("sums", lines.join(&b'\n'));
        bed.same("md5", &["-c", "-w", "sums"], b"a");
    }
}
