//! What coreutils does not have: trees, lists of names, ETags, other algorithms, JSON.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::Value;
use tabane_sum::Algorithm;

use crate::beside::Bed;

fn tree() -> Bed {
    let bed = Bed::new();
    for directory in ["tree/b", "tree/a/deep", "tree/empty", "tree/a-b"] {
        fs::create_dir_all(bed.path().join(directory)).expect("created");
    }
    for file in [
        "tree/z",
        "tree/a/1",
        "tree/a/deep/2",
        "tree/a.txt",
        "tree/a-b/3",
        "tree/b/4",
        "tree/B",
    ] {
        bed.write(file, file);
    }
    symlink("z", bed.path().join("tree/link")).expect("created");
    symlink("..", bed.path().join("tree/up")).expect("created");
    symlink("tree", bed.path().join("to tree")).expect("created");
    bed
}

fn lines(files: &[&str]) -> String {
    let line = |file: &&str| format!("{}  {file}\n", Algorithm::Sha256.digest(file.as_bytes()));
    files.iter().map(line).collect()
}

#[test]
fn trees_are_sorted_and_links_left_out() {
    let bed = tree();
    let files = [
        "tree/B",
        "tree/a-b/3",
        "tree/a.txt",
        "tree/a/1",
        "tree/a/deep/2",
        "tree/b/4",
        "tree/z",
    ];
    let mut sorted = files;
    sorted.sort_unstable();
    assert_eq!(files, sorted);
    let said = bed.tabane(&["-r", "tree"], b"");
    assert_eq!((said.code, said.stdout), (Some(0), lines(&files)));
    // A link that is named is followed; a file is a tree of one.
    let said = bed.tabane(&["-r", "to tree", "tree/link", "tree/z"], b"");
    assert_eq!(said.code, Some(0));
    assert_eq!(
        said.stdout.replace("to tree/", "tree/").lines().count(),
        files.len() + 2
    );
    let said = bed.tabane(&["-r"], b"");
    assert!(said.stdout.ends_with("  ./tree/z\n"), "{}", said.stdout);
    let said = bed.tabane(&["-r", "missing", "tree/empty", "tree/b"], b"");
    assert_eq!(said.code, Some(1));
    assert_eq!(said.stderr, "tabane: missing: No such file or directory\n");
    assert_eq!(said.stdout, lines(&["tree/b/4"]));
}

#[test]
fn lists_of_names() {
    let bed = tree();
    bed.write("list", "tree/z\0tree/B\0\0missing\0tree/a/1");
    let said = bed.tabane(&["--files0-from", "list"], b"");
    assert_eq!(said.code, Some(1));
    assert_eq!(said.stdout, lines(&["tree/z", "tree/B", "tree/a/1"]));
    assert_eq!(
        said.stderr,
        "tabane: list: name 3 in the list is empty\ntabane: missing: No such file or directory\n"
    );
    let said = bed.tabane(&["--files0-from", "-"], b"tree/z\0tree/a/1\0");
    assert_eq!(
        (said.code, said.stdout),
        (Some(0), lines(&["tree/z", "tree/a/1"]))
    );
    let said = bed.tabane(&["--files0-from", "-"], b"-\0tree/z\0");
    assert_eq!((said.code, said.stdout), (Some(1), lines(&["tree/z"])));
    let said = bed.tabane(&["-r", "--files0-from", "-"], b"tree/b\0tree/a\0");
    assert_eq!(
        said.stdout,
        lines(&["tree/b/4", "tree/a/1", "tree/a/deep/2"])
    );
    let said = bed.tabane(&["--files0-from", "no list"], b"");
    assert_eq!(said.code, Some(1));
    assert_eq!(
        said.stderr,
        "tabane: cannot open 'no list' for reading: No such file or directory\n"
    );
    assert_eq!(
        bed.tabane(&["--files0-from", "list", "tree/z"], b"").code,
        Some(2)
    );
}

#[test]
fn etags_are_printed_and_checked() {
    let bed = Bed::new();
    bed.write("large", vec![1; 20_000]);
    bed.write("one part", vec![2; 8192]);
    bed.write("small", "small");
    bed.write("empty", "");
    let files = ["large", "one part", "small", "empty"];
    let said = bed.tabane(&[&["--etag", "8K"], &files[..]].concat(), b"");
    let endings: Vec<_> = said.stdout.lines().map(|line| &line[32..]).collect();
    assert_eq!(endings, ["-3  large", "-1  one part", "  small", "  empty"]);
    bed.write("etags", &said.stdout);
    let said = bed.tabane(&["--etag", "8KiB", "-c", "etags"], b"");
    assert_eq!(
        (said.code, said.stdout.as_str()),
        (Some(0), "large: OK\none part: OK\nsmall: OK\nempty: OK\n")
    );
    // Units of 1024 however they are written, as with the AWS command line.
    for size in ["8192", "8k", "8KB", "8KiB"] {
        let said = bed.tabane(&[&["--etag", size], &files[..]].concat(), b"");
        assert_eq!(
            said.stdout,
            fs::read_to_string(bed.path().join("etags")).expect("written")
        );
    }
    // The form of the line tells how the file was uploaded.
    let whole = Algorithm::Md5.digest(&vec![1; 20_000]);
    let inner = Algorithm::Md5.digest(b"small");
    let small = Algorithm::Md5.digest(inner.as_ref());
    bed.write(
        "etags",
        format!("{whole}  large\n{small}-1  small\n{small}-2  small\n"),
    );
    let said = bed.tabane(&["--etag", "8KiB", "-c", "etags"], b"");
    assert_eq!(
        (said.code, said.stdout.as_str()),
        (Some(1), "large: OK\nsmall: OK\nsmall: FAILED\n")
    );
}

/// The same by other means: every part with dd and md5sum.
#[test]
fn etags_are_what_a_script_computes() {
    let bed = Bed::new();
    let bytes: Vec<u8> = (0..1_234_567_u32)
        .map(|i| (i * 7 + i / 251) as u8)
        .collect();
    bed.write("file", bytes);
    let script = "for i in 0 1 2 3 4; do
        dd if=file bs=262144 skip=$i count=1 2> /dev/null | openssl dgst -md5 -binary
    done | openssl dgst -md5 -r";
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    let theirs = bed.run(command, b"");
    let Some(digest) = theirs.stdout.get(..32).filter(|_| theirs.code == Some(0)) else {
        println!("NOT CHECKED: ETags by other means: {theirs:?}");
        return;
    };
    let ours = bed.tabane(&["--etag", "256KiB", "file"], b"");
    assert_eq!(ours.stdout, format!("{digest}-5  file\n"));
}

/// Fewer than there are lanes.
#[test]
fn few_files_may_be_open() {
    let bed = Bed::new();
    let names: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    for name in &names {
        bed.write(name, name.repeat(50_000));
    }
    for options in ["", "--etag 8K"] {
        let limited = |limit: &str| {
            let script = format!("ulimit -n {limit} && exec \"$0\" sum {options} \"$@\"");
            let mut command = Command::new("sh");
            command
                .args(["-c", &script, env!("CARGO_BIN_EXE_tabane")])
                .args(&names);
            bed.run(command, b"")
        };
        let said = limited("20");
        assert_eq!(said.stderr, "");
        assert_eq!(said, limited("1000"));
    }
}

fn json(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect()
}

#[test]
fn json_lines() {
    let bed = Bed::new();
    bed.write("abc", "abc");
    let said = bed.tabane(&["--json", "-a", "md5", "abc", "missing"], b"");
    assert_eq!(said.code, Some(1));
    assert_eq!(said.stderr, "");
    let objects = json(&said.stdout);
    assert_eq!(objects[0]["message_type"], "sum");
    assert_eq!(objects[0]["path"], "abc");
    assert_eq!(objects[0]["algorithm"], "md5");
    assert_eq!(objects[0]["sum"], "900150983cd24fb0d6963f7d28e17f72");
    assert_eq!(objects[1]["message_type"], "error");
    assert_eq!(objects[1]["what"], "No such file or directory");
    bed.write("sums", "900150983cd24fb0d6963f7d28e17f72  abc\nbad\n");
    let said = bed.tabane(&["--json", "-a", "md5", "-c", "-w", "sums"], b"");
    assert_eq!(said.code, Some(0));
    let objects = json(&said.stdout);
    assert_eq!(objects[0]["message_type"], "check");
    assert_eq!(objects[0]["result"], "OK");
    assert_eq!(
        objects[1]["what"],
        "2: improperly formatted MD5 checksum line"
    );
    let summary = objects.last().expect("a line");
    assert_eq!(summary["message_type"], "summary");
    assert_eq!(summary["matches"], 1);
    assert_eq!(summary["misformatted"], 1);
    assert_eq!(summary["success"], true);
}

#[test]
fn a_full_disk_and_a_closed_pipe_behind_standard_output() {
    use std::os::unix::process::ExitStatusExt;
    let bed = tree();
    let command = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tabane"));
        command.args(["sum", "-r", "tree"]).current_dir(bed.path());
        command
    };
    let full = fs::File::options()
        .write(true)
        .open("/dev/full")
        .expect("there");
    let output = command().stdout(full).output().expect("started");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        text,
        "tabane: cannot write to standard output: No space left on device (os error 28)\n"
    );
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = command()
        .stdout(writer)
        .stderr(std::process::Stdio::piped())
        .output()
        .expect("started");
    assert_eq!(output.status.signal(), Some(13));
    assert!(output.stderr.is_empty());
}
