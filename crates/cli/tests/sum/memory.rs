//! Memory is bounded, whatever there is to hash.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use crate::beside::Bed;

const MOST_BYTES: u64 = 128 << 20;

fn sum_of_list(bed: &Bed, args: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_tabane"))
        .args(["sum", "--files0-from", "-"])
        .args(args)
        .current_dir(bed.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("started")
}

/// The most memory that a process had so far.
fn peak_bytes(child: &Child) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? << 10)
}

/// Large and small files and ETags, of hundreds of megabytes.
#[test]
fn many_and_large_files() {
    let bed = Bed::new();
    let mut names = Vec::new();
    for number in 0..2000 {
        let name = number.to_string();
        let len = if number % 40 == 0 { 10_000_000 } else { 5000 };
        let file = fs::File::create(bed.path().join(&name)).expect("created");
        file.set_len(len).expect("grown");
        names.push(name);
    }
    for args in [&["-a", "md5"][..], &["-a", "blake3"], &["--etag", "64KiB"]] {
        let mut child = sum_of_list(&bed, args);
        let mut list = child.stdin.take().expect("piped");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        list.write_all((names.join("\0") + "\0").as_bytes())
            .expect("written");
        // While the list is open the process is there to be asked.
        let extra = "0\0".repeat(100);
        list.write_all(extra.as_bytes()).expect("written");
        let read = lines.by_ref().take(names.len()).count();
        assert_eq!(read, names.len());
        match peak_bytes(&child) {
            Some(peak) => assert!(peak < MOST_BYTES, "{peak}"),
            None => println!("NOT CHECKED: memory, for want of /proc/PID/status"),
        }
        drop(list);
        assert_eq!(lines.count(), 100);
        assert!(child.wait().expect("it ends").success());
    }
}

/// The first file delays the output of all others: only a bounded number of them is hashed
/// meanwhile.
#[test]
fn a_file_that_takes_its_time() {
    let bed = Bed::new();
    let pipe = bed.path().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .expect("mkfifo is there")
            .success()
    );
    let mut child = sum_of_list(&bed, &[]);
    let mut list = child.stdin.take().expect("piped");
    let writer = std::thread::spawn(move || {
        list.write_all(b"pipe\0").expect("written");
        let name =
            "no such file, under a name that is about as long as a path usually is, and then some"
                .repeat(2);
        let names = (name + "\0").repeat(1000);
        for _ in 0..1000 {
            list.write_all(names.as_bytes()).expect("written");
        }
    });
    // Until the list is not read any further.
    let mut before = None;
    loop {
        std::thread::sleep(std::time::Duration::from_millis(500));
        let now = fs::read_to_string(format!("/proc/{}/io", child.id())).ok();
        let read = now.and_then(|now| now.lines().next().map(str::to_owned));
        if read == before {
            break;
        }
        before = read;
    }
    assert!(!writer.is_finished());
    match peak_bytes(&child) {
        Some(peak) => assert!(peak < MOST_BYTES, "{peak}"),
        None => println!("NOT CHECKED: memory, for want of /proc/PID/status"),
    }
    OpenOptions::new()
        .write(true)
        .open(&pipe)
        .expect("opened")
        .write_all(b"now")
        .expect("written");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    assert!(
        lines
            .next()
            .expect("a line")
            .expect("text")
            .ends_with("  pipe")
    );
    assert!(lines.next().is_none());
    writer.join().expect("it does not panic");
    assert_eq!(child.wait().expect("it ends").code(), Some(1));
}
