//! `tabane cp` is killed at any moment, and run again.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::compare::assert_same;
use crate::tree;

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

fn own_files(directory: &Path) -> usize {
    let mut count = 0;
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let name = entry.file_name().to_string_lossy().into_owned();
        count += usize::from(name.starts_with(".tabane-cp.") || name.ends_with(".partial"));
        if entry.file_type().unwrap().is_dir() {
            count += own_files(&entry.path());
        }
    }
    count
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
    tree::small_tree(&source, 1);
    for number in 0..300 {
        let bytes = tree::random_bytes(number, 3000 * (number as usize % 17));
        tree::write(
            source.join(format!("more/{}/{number}", number % 20)),
            &bytes,
        );
    }
    tree::write(source.join("large"), &tree::random_bytes(4, 20 << 20));
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
        let seed = tree::random_bytes(u64::from(round), 8);
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
        assert_eq!(own_files(bed.path()), 0);
        let check = Command::new(env!("CARGO_BIN_EXE_tabane"))
            .current_dir(bed.path())
            .args(["sum", "--check", "--strict", "--status", "manifest"])
            .status();
        assert!(check.unwrap().success());
    }
    println!("killed {killed} of {kills} runs before their end");
    assert!(killed > 0, "every run ended before it was killed");
}
