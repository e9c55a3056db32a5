//! `tabane cp` is killed at any moment, and run again.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use tabane_testing::compare::assert_same;
use tabane_testing::files;

/// How many moments; more with TABANE_TEST_KILLS.
const KILLS: u32 = 6;

fn command(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tabane"));
    command
        .current_dir(directory)
        .args(["cp", "-T", "--no-sync"])
        .args(["--manifest", "manifest", "source", "copy"])
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

#[test]
fn killed_at_random_moments() {
    let kills = match std::env::var("TABANE_TEST_KILLS") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => KILLS,
    };
    let bed = tempfile::tempdir().unwrap();
    let source = bed.path().join("source");
    fs::create_dir(&source).unwrap();
    files::small_tree(&source, 1);
    for number in 0..300 {
        let bytes = files::random_bytes(number, 3000 * (number as usize % 17));
        files::write(
            source.join(format!("more/{}/{number}", number % 20)),
            &bytes,
        );
    }
    files::write(source.join("large"), &files::random_bytes(4, 20 << 20));
    let copy = bed.path().join("copy");
    let start = Instant::now();
    assert!(command(bed.path()).status().unwrap().success());
    let whole = start.elapsed();
    assert_same(&source, &copy);
    let mut killed = 0;
    for round in 0..kills {
        fs::remove_dir_all(&copy).unwrap();
        fs::remove_file(bed.path().join("manifest")).unwrap();
        let mut child = command(bed.path()).spawn().unwrap();
        let seed = files::random_bytes(u64::from(round), 8);
        let part = u64::from_le_bytes(seed.try_into().unwrap()) as f64 / u64::MAX as f64;
        thread::sleep(whole.mul_f64(part).max(Duration::from_micros(1)));
        child.kill().unwrap();
        killed += u32::from(!child.wait().unwrap().success());
        // Whatever has its name is whole.
        if copy.join("large").exists() {
            let bytes = fs::read(copy.join("large")).unwrap();
            assert!(bytes == fs::read(source.join("large")).unwrap());
        }
        let again = command(bed.path()).output().unwrap();
        assert!(
            again.status.success(),
            "{}",
            String::from_utf8_lossy(&again.stderr)
        );
        assert_same(&source, &copy);
        assert_eq!(own_names(bed.path()), Vec::<String>::new());
        let check = Command::new(env!("CARGO_BIN_EXE_tabane"))
            .current_dir(&copy)
            .args(["sum", "--check", "--strict", "--status", "../manifest"])
            .status();
        assert!(check.unwrap().success());
    }
    println!("killed {killed} of {kills} runs before their end");
    assert!(killed > 0, "every run ended before it was killed");
}

/// Temporary files, claims and what grows of a manifest.
fn own_names(directory: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(".tabane-cp.") || name.ends_with(".partial") {
            names.push(name);
        } else if entry.file_type().unwrap().is_dir() {
            names.append(&mut own_names(&entry.path()));
        }
    }
    names
}

#[test]
fn a_signal_leaves_only_what_lets_it_go_on() {
    let bed = tempfile::tempdir().unwrap();
    let source = bed.path().join("source");
    fs::create_dir(&source).unwrap();
    for number in 0..1000 {
        files::write(
            source.join(format!("{number}{}", "x".repeat(200))),
            b"some bytes",
        );
    }
    for signal in ["INT", "TERM", "HUP"] {
        // It waits when the pipe is full of names, long before the last one.
        let mut child = command(bed.path())
            .arg("--verbose")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let mut lines = vec![0];
        stdout.read_exact(&mut lines).unwrap();
        let id = child.id().to_string();
        let kill = Command::new("kill").args(["-s", signal, &id]).status();
        assert!(kill.unwrap().success());
        // Until the signal is seen, what it is doing is up to the system.
        thread::sleep(Duration::from_millis(100));
        stdout.read_to_end(&mut lines).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        let names = own_names(bed.path());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.starts_with("tabane: interrupted: ") && said.lines().count() == 1,
            "{said}"
        );
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(
            names.iter().all(|name| said.contains(name)),
            "{names:?} {said}"
        );
        let done = fs::read_dir(bed.path().join("copy")).unwrap().count();
        assert!((1..1000).contains(&done), "{done}");
        assert!(command(bed.path()).status().unwrap().success());
        assert_same(&source, &bed.path().join("copy"));
        assert_eq!(own_names(bed.path()), Vec::<String>::new());
        fs::remove_dir_all(bed.path().join("copy")).unwrap();
        fs::remove_file(bed.path().join("manifest")).unwrap();
    }
}
