//! Pipes, and lists that come slowly.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tabane_sum::Algorithm;

use crate::beside::Bed;

fn fifo(bed: &Bed, name: &str) -> PathBuf {
    let path = bed.path().join(name);
    let made = Command::new("mkfifo")
        .arg(&path)
        .status()
        .expect("mkfifo is there");
    assert!(made.success());
    path
}

fn writer(path: PathBuf, bytes: Vec<u8>) -> impl FnOnce() {
    move || {
        let mut file = OpenOptions::new().write(true).open(path).expect("opened");
        file.write_all(&bytes).expect("written");
    }
}

/// One thread fills one pipe after the other, in either order: none may wait for another to end.
#[test]
fn named_pipes_in_any_order() {
    let bed = Bed::new();
    let names = ["one", "two", "three"];
    let paths = names.map(|name| fifo(&bed, name));
    let bytes = names.map(|name| name.repeat(200_000).into_bytes());
    let expected: String = names
        .iter()
        .zip(&bytes)
        .map(|(name, bytes)| format!("{}  {name}\n", Algorithm::Sha256.digest(bytes)))
        .collect();
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let writers = order.map(|i| writer(paths[i].clone(), bytes[i].clone()));
        let thread = std::thread::spawn(|| writers.into_iter().for_each(|write| write()));
        let said = bed.tabane(&names, b"");
        assert_eq!(
            (said.code, said.stdout.as_str()),
            (Some(0), expected.as_str()),
            "{}",
            said.stderr
        );
        thread.join().expect("it does not panic");
    }
}

/// More pipes than threads, with files between them.
#[test]
fn many_pipes() {
    let bed = Bed::new();
    bed.write("file", "file");
    let names: Vec<String> = (0..100).map(|i| format!("pipe{i}")).collect();
    let paths: Vec<PathBuf> = names.iter().map(|name| fifo(&bed, name)).collect();
    let thread = std::thread::spawn(move || {
        for path in paths {
            writer(path.clone(), path.into_os_string().into_encoded_bytes())();
        }
    });
    let args: Vec<String> = names
        .iter()
        .flat_map(|name| [name.clone(), "file".to_owned()])
        .collect();
    let said = bed.tabane(&args, b"");
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    thread.join().expect("it does not panic");
    assert_eq!(said.stdout.lines().count(), 200);
    for (name, line) in names.iter().zip(said.stdout.lines().step_by(2)) {
        let bytes = bed.path().join(name).into_os_string().into_encoded_bytes();
        assert_eq!(
            line,
            format!("{}  {name}", Algorithm::Sha256.digest(&bytes))
        );
    }
}

/// ETags of what has no length.
#[test]
fn an_etag_of_a_pipe() {
    let bed = Bed::new();
    let bytes = b"0123456789".repeat(100_000);
    bed.write("file", &bytes);
    for part in ["100K", "1000000", "1000001", "3", "1M"] {
        let file = bed
            .tabane(&["--etag", part, "file"], b"")
            .stdout
            .replace("  file", "");
        let pipe = bed
            .tabane(&["--etag", part], &bytes)
            .stdout
            .replace("  -", "");
        assert_eq!(pipe, file, "{part}");
    }
}

/// A line is printed as soon as its file is hashed, if the writer of the names waits for it.
#[test]
fn a_name_at_a_time() {
    let bed = Bed::new();
    bed.write("file", "file");
    let mut child = Command::new(env!("CARGO_BIN_EXE_tabane"))
        .args(["sum", "--files0-from", "-"])
        .current_dir(bed.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut names = child.stdin.take().expect("piped");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    for _ in 0..3 {
        names.write_all(b"file\0").expect("written");
        let line = lines.next().expect("a line").expect("text");
        assert_eq!(line, format!("{}  file", Algorithm::Sha256.digest(b"file")));
    }
    drop(names);
    assert!(lines.next().is_none());
    assert!(child.wait().expect("it ends").success());
}
