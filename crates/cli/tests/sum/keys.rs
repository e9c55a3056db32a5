//! Algorithms that take a key: beside OpenSSL, and with keys that do not fit.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use proptest::prelude::*;
use tabane_sum::{Algorithm, KeyRule};

use crate::algorithms::key_args;
use crate::beside::Bed;

/// OpenSSL's name for the hash of an HMAC.
const HMACS: [(&str, &str); 3] = [
    ("hmac-md5", "md5"),
    ("hmac-sha1", "sha1"),
    ("hmac-sha256", "sha256"),
];

/// OpenSSL's lines for files, in our form; `None`, after saying so, if OpenSSL is not installed.
fn openssl(bed: &Bed, hash: &str, key: &[u8], files: &[&str]) -> Option<String> {
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut command = Command::new("openssl");
    if command.arg("version").output().is_err() {
        println!("NOT CHECKED: HMAC beside openssl, which is not installed");
        return None;
    }
    let mut command = Command::new("openssl");
    let hash = format!("-{hash}");
    command.args([
        "dgst",
        &hash,
        "-r",
        "-mac",
        "HMAC",
        "-macopt",
        &format!("hexkey:{hex}"),
    ]);
    let said = bed.run(
        {
            command.args(files);
            command
        },
        b"",
    );
    assert_eq!(said.code, Some(0), "{said:?}");
    Some(said.stdout.replace(" *", "  "))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 12, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn hmac_is_openssls(
        key in prop::collection::vec(any::<u8>(), 1..200),
        lens in prop::collection::vec(0..5000_usize, 1..20),
    ) {
        let bed = Bed::new();
        bed.secret("key", &key);
        let names: Vec<String> = (0..lens.len()).map(|number| number.to_string()).collect();
        for (name, len) in names.iter().zip(lens) {
            bed.write(name, vec![len as u8; len]);
        }
        let files: Vec<&str> = names.iter().map(String::as_str).collect();
        for (algorithm, hash) in HMACS {
            let Some(theirs) = openssl(&bed, hash, &key, &files) else {
                return Ok(());
            };
            let ours = bed.tabane(&[&["-a", algorithm, "--key-file", "key"], &files[..]].concat(),
                b"");
            prop_assert_eq!(&ours.stdout, &theirs);
            prop_assert_eq!(&ours.stderr, "");
            bed.write("sums", theirs);
            let said = bed.tabane(&["-a", algorithm, "--key-file", "key", "-c", "sums"], b"");
            prop_assert_eq!(said.code, Some(0));
        }
    }
}

#[test]
fn keys_of_a_certain_length_are_bytes_or_digits() {
    let bed = Bed::new();
    bed.write("file", "abc");
    let key: Vec<u8> = (0..16).collect();
    bed.secret("raw", &key);
    bed.secret("digits", "000102030405060708090a0b0c0d0e0f\n");
    let sum = |key| bed.tabane(&["-a", "siphash-2-4", "--key-file", key, "file"], b"");
    let (raw, digits) = (sum("raw"), sum("digits"));
    assert_eq!(raw.code, Some(0), "{raw:?}");
    assert_eq!(raw, digits);
}

#[test]
fn every_algorithm_with_a_key_finds_another_key() {
    let bed = Bed::new();
    bed.write("file", "abc");
    for algorithm in Algorithm::all().filter(|one| one.key_rule() != KeyRule::None) {
        let len = match algorithm.key_rule() {
            KeyRule::Exactly(len) => len,
            _ => 1,
        };
        bed.secret("another", vec![9; len]);
        let key = key_args(&bed, algorithm).pop().expect("a name");
        let key = key.to_str().expect("text");
        let with = |key: &str, last: &[&str]| {
            let args = ["-a", algorithm.name(), "--key-file", key];
            bed.tabane(&[&args, last].concat(), b"")
        };
        bed.write("sums", with(key, &["file"]).stdout);
        assert_eq!(
            with(key, &["-c", "sums"]).stdout,
            "file: OK\n",
            "{algorithm}"
        );
        assert_eq!(
            with("another", &["-c", "sums"]).stdout,
            "file: FAILED\n",
            "{algorithm}"
        );
    }
}

#[test]
fn untagged_lines_of_an_algorithm_with_a_key_need_its_name() {
    let bed = Bed::new();
    bed.write("file", "abc");
    bed.secret("key", [1; 32]);
    let key = ["-a", "blake3-keyed", "--key-file", "key"];
    bed.write(
        "sums",
        bed.tabane(&[&key[..], &["file"]].concat(), b"").stdout,
    );
    let said = bed.tabane(&["--key-file", "key", "-c", "sums"], b"");
    assert_eq!(
        (said.code, said.stdout.as_str()),
        (Some(1), "file: FAILED\n")
    );
    assert_eq!(
        said.stderr,
        "tabane: WARNING: 1 computed checksum did NOT match\n\
         tabane: sums: sha256 takes no key: if its lines are of blake3-keyed, hmac-sha256, \
         highwayhash-256 or vmac-128, say which with --algorithm\n"
    );
    // The name or the tag of an algorithm leaves nothing to guess.
    let said = bed.tabane(&[&key[..], &["-c", "sums"]].concat(), b"");
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
    bed.write("file", "other");
    let said = bed.tabane(&[&key[..], &["-c", "sums"]].concat(), b"");
    assert_eq!(
        said.stderr,
        "tabane: WARNING: 1 computed checksum did NOT match\n"
    );
}

/// What `openssl dgst` prints without `-r`, whose names are those of OpenSSL 3 or earlier ones.
#[test]
fn lines_of_openssl_are_read() {
    let bed = Bed::new();
    bed.write("file", "abc");
    bed.secret("key", "Jefe");
    for (hash, key) in [
        ("md5", ""),
        ("sha1", ""),
        ("sha224", ""),
        ("sha256", ""),
        ("sha384", ""),
        ("sha512", ""),
        ("md5", "Jefe"),
        ("sha1", "Jefe"),
        ("sha256", "Jefe"),
    ] {
        let mut command = Command::new("openssl");
        if command.arg("version").output().is_err() {
            println!("NOT CHECKED: lines of openssl, which is not installed");
            return;
        }
        let mut command = Command::new("openssl");
        command.args(["dgst", &format!("-{hash}")]);
        if !key.is_empty() {
            command.args(["-hmac", key]);
        }
        command.arg("file");
        let lines = bed.run(command, b"").stdout;
        bed.write("sums", &lines);
        let said = bed.tabane(&["--key-file", "key", "--check", "--strict", "sums"], b"");
        assert_eq!(
            (said.code, said.stdout.as_str()),
            (Some(0), "file: OK\n"),
            "{lines} {said:?}"
        );
    }
}

#[test]
fn keys_that_are_wrong() {
    let mut bed = Bed::new();
    bed.write("file", "abc");
    bed.secret("short", "0123");
    bed.secret("empty", "");
    bed.secret("right", [1; 16]);
    bed.secret("huge", vec![1; 70_000]);
    bed.write(
        "sums",
        "HMAC-MD5 (file) = d41d8cd98f00b204e9800998ecf8427e\n",
    );
    let open = bed.write("open", [1; 16]);
    fs::set_permissions(open, fs::Permissions::from_mode(0o640)).expect("changed");
    let text = |args: &[&str], code| {
        let said = bed.tabane(args, b"");
        assert_eq!(
            (said.code, said.stdout.as_str()),
            (Some(code), ""),
            "{args:?} {said:?}"
        );
        said.stderr
    };
    for (args, code, expected) in [
        (
            &["-a", "siphash-2-4", "file"][..],
            2,
            "siphash-2-4 takes a key of 16 bytes: name a file that has it with --key-file",
        ),
        (
            &["-a", "siphash-2-4", "-c", "sums"],
            2,
            "siphash-2-4 takes a key of 16 bytes: name a file that has it with --key-file",
        ),
        (
            &["-a", "siphash-2-4", "--key-file", "short", "file"],
            1,
            "siphash-2-4 takes a key of 16 bytes (or 32 hexadecimal digits): the key file has 4",
        ),
        (
            &["-a", "hmac-md5", "--key-file", "empty", "file"],
            1,
            "hmac-md5 takes a key of one byte or more: the key file has 0",
        ),
        (
            &["-a", "hmac-md5", "--key-file", "huge", "file"],
            1,
            "cannot read the key file huge: it is too long for a key",
        ),
        (
            &["-a", "hmac-md5", "--key-file", "missing", "file"],
            1,
            "cannot read the key file missing: No such file or directory",
        ),
        (
            &["-a", "hmac-md5", "--key-file", ".", "file"],
            1,
            "cannot read the key file .: Is a directory",
        ),
        (
            &["--key-file", "right", "file"],
            2,
            "sha256 takes no key: leave --key-file out",
        ),
        (
            &["-a", "md5", "--key-file", "right", "-c", "sums"],
            2,
            "md5 takes no key: leave --key-file out",
        ),
        (
            &["-c", "sums"],
            1,
            "sums: 1: hmac-md5 takes a key of one byte or more: name a file that has it with \
             --key-file",
        ),
    ] {
        let expected = format!("tabane: {expected}\n");
        assert_eq!(text(args, code), expected, "{args:?}");
    }
    assert_eq!(
        bed.tabane(&["--etag", "8M", "--key-file", "right", "file"], b"")
            .code,
        Some(2)
    );
    // Others can read it.
    let said = bed.tabane(&["-a", "siphash-2-4", "--key-file", "open", "file"], b"");
    assert_eq!(said.code, Some(0));
    assert_eq!(
        said.stderr,
        "tabane: others can read the key file open, whose mode is 0640: chmod 600 is better\n"
    );
    // We cannot.
    bed.become_nobody();
    let said = bed.tabane(&["-a", "hmac-md5", "--key-file", "right", "file"], b"");
    assert_eq!(
        said.stderr,
        "tabane: cannot read the key file right: Permission denied\n"
    );
}

#[test]
fn a_key_may_come_through_a_pipe_and_is_never_shown() {
    let bed = Bed::new();
    bed.write("file", "abc");
    let script = "printf 'Jefe' | \"$0\" sum -a hmac-md5 --key-file /dev/stdin --json file";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_tabane")]);
    let said = bed.run(command, b"");
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
    assert!(!said.stdout.contains("Jefe"), "{said:?}");
    assert!(
        said.stdout.contains("\"algorithm\":\"hmac-md5\""),
        "{said:?}"
    );
}
