//! Standard input and output that are closed, or not open for what they are for.

use std::process::Command;

use crate::beside::{Bed, Said, coreutils};

const CANNOT_WRITE: &str = "cannot write to standard output: Bad file descriptor";

/// Runs `PROGRAM WORDS` in a shell, which opens and closes its streams as the words say.
fn shell(bed: &Bed, program: &str, words: &str) -> Said {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{program} {words}")]);
    bed.run(command, b"")
}

fn tabane(bed: &Bed, words: &str) -> Said {
    let program = format!("{} sum -a md5", env!("CARGO_BIN_EXE_tabane"));
    shell(bed, &program, words)
}

fn bed() -> Bed {
    let bed = Bed::new();
    bed.write("a", "a");
    bed.write("sums", "0cc175b9c0f1b6a831c399e269772661  a\n");
    bed
}

#[test]
fn a_closed_output_is_an_error_if_something_is_to_be_printed() {
    let bed = bed();
    for words in [
        "a >&-",
        "a 1<a",
        "-c sums >&-",
        "a <&- >&-",
        "--json a >&-",
        "--tag a >&-",
    ] {
        let said = tabane(&bed, words);
        assert_eq!(said.code, Some(1), "{words}: {said:?}");
        assert!(said.stderr.contains(CANNOT_WRITE), "{words}: {said:?}");
    }
    // Another command, and the same one with nothing to print.
    let said = shell(&bed, env!("CARGO_BIN_EXE_tabane"), "sum --list >&-");
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.stderr.contains(CANNOT_WRITE), "{said:?}");
    let said = tabane(&bed, "-c --status sums >&-");
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_closed_input_is_an_error_if_it_is_to_be_read() {
    let bed = bed();
    for (words, stderr) in [
        ("<&-", "tabane: -: Bad file descriptor\n"),
        ("- <&-", "tabane: -: Bad file descriptor\n"),
        ("<&- >&-", "tabane: -: Bad file descriptor\n"),
        ("0>written", "tabane: -: Bad file descriptor\n"),
        ("-c <&-", "tabane: 'standard input': read error\n"),
        (
            "--files0-from - <&-",
            "tabane: -: read error: Bad file descriptor\n",
        ),
    ] {
        let said = tabane(&bed, words);
        assert_eq!((said.code, said.stdout.as_str()), (Some(1), ""), "{words}");
        assert_eq!(said.stderr, stderr, "{words}");
    }
    let said = tabane(&bed, "a <&-");
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{said:?}");
}

#[test]
fn a_closed_stream_ends_as_with_coreutils() {
    if !coreutils() {
        return;
    }
    let bed = bed();
    for words in ["a >&-", "<&-", "-c <&-", "-c sums >&-", "a <&-", "a 1<a"] {
        let theirs = shell(&bed, "md5sum", words);
        assert_eq!(tabane(&bed, words).code, theirs.code, "{words}");
    }
}

/// Python and daemon(3) open it for reading and writing, as Rust's runtime does for closed streams.
#[test]
fn the_null_device_is_no_closed_stream() {
    let bed = bed();
    for words in [
        "</dev/null",
        "<>/dev/null",
        "a >/dev/null",
        "a 1<>/dev/null",
    ] {
        let said = tabane(&bed, words);
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{words}");
    }
    let empty = "d41d8cd98f00b204e9800998ecf8427e  -\n";
    assert_eq!(tabane(&bed, "<>/dev/null").stdout, empty);
}
