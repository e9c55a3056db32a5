//! `tabane backup`, `heal` and `targets replace` over several directories are killed at any moment,
//! and run again.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::bed::{Bed, Ran, run};
use crate::striped::{comes_back, init, lose, tabane};

/// How many moments; more with TABANE_TEST_KILLS.
const KILLS: u64 = 3;

const TARGETS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Numbers that look random and are always the same: SplitMix64.
fn random(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Puts so many new files into the source.
fn add_files(bed: &Bed, round: u64) {
    let folder = bed.source().join(format!("round-{round}"));
    fs::create_dir(&folder).expect("a folder");
    for number in 0..4 {
        let mut state = round * 100 + number;
        let bytes = (0..80_000).flat_map(|_| {
            state = random(state);
            state.to_le_bytes()
        });
        fs::write(folder.join(number.to_string()), bytes.collect::<Vec<_>>()).expect("a file");
    }
}

/// Kills a command after a part of the time that it takes; says whether it was killed.
fn kill(mut command: Command, whole: Duration, seed: u64) -> bool {
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    let part = random(seed) as f64 / u64::MAX as f64;
    thread::sleep(whole.mul_f64(part));
    child.kill().expect("killed");
    !child.wait().expect("ended").success()
}

/// Ended well, whatever it warned of.
#[track_caller]
fn ends_well(ran: Ran) -> Ran {
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    ran
}

fn timed<T>(act: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    (act(), start.elapsed())
}

#[test]
fn killed_at_random_moments() {
    let kills = match std::env::var("TABANE_TEST_KILLS") {
        Ok(text) => text.parse().expect("a number"),
        Err(_) => KILLS,
    };
    let bed = Bed::new();
    let directory = |name: &str| bed.path(name).display().to_string();
    let mut targets: Vec<String> = TARGETS.map(directory).into();
    let (source, mut whole) = (bed.source().display().to_string(), [Duration::ZERO; 3]);
    init(&bed, &targets).succeeds();
    add_files(&bed, 0);
    let backup = ["backup", &source];
    whole[0] = timed(|| tabane(&bed, backup).succeeds()).1;
    let mut killed = 0;
    // The first time, each is let live.
    for round in 1..kills + 3 {
        let work = round as usize % 3;
        let lives = whole[work].is_zero();
        let end = |command: Command| {
            if lives {
                let mut command = command;
                let (ran, took) = timed(|| run(&mut command));
                ends_well(ran);
                (took, false)
            } else {
                (whole[work], kill(command, whole[work], round))
            }
        };
        let one = random(round) as usize % 5;
        let other = (one + 1 + random(round + 1000) as usize % 4) % 5;
        let was_killed = match work {
            0 => {
                add_files(&bed, round);
                let (_, was_killed) = end(crate::striped::command(&bed, backup));
                comes_back(&bed, ends_well);
                was_killed
            }
            1 => {
                let url = &targets[one];
                lose(url.as_ref());
                ends_well(tabane(&bed, ["targets", "replace", url, url]));
                lose(&Path::new(&targets[other]).join("packs"));
                fs::create_dir(Path::new(&targets[other]).join("packs")).expect("a folder");
                let (took, was_killed) = end(crate::striped::command(&bed, ["heal"]));
                whole[work] = took;
                comes_back(&bed, ends_well);
                ends_well(tabane(&bed, ["heal"]));
                was_killed
            }
            _ => {
                let new = directory(&format!("new-{round}"));
                lose(targets[one].as_ref());
                let replace = ["targets", "replace", &targets[one], &new];
                let (took, was_killed) = end(crate::striped::command(&bed, replace));
                whole[work] = took;
                comes_back(&bed, ends_well);
                // What was done is in the file.
                let file = fs::read_to_string(bed.path("set.toml")).expect("the file");
                if file.contains(&format!("{:?}", targets[one])) {
                    ends_well(tabane(&bed, replace));
                }
                targets[one] = new;
                ends_well(tabane(&bed, ["heal"]));
                was_killed
            }
        };
        killed += u64::from(was_killed);
    }
    ends_well(tabane(&bed, ["heal"]));
    tabane(&bed, ["targets"])
        .succeeds()
        .says("any two targets can be lost now");
    for number in [0, 3] {
        lose(targets[number].as_ref());
    }
    comes_back(&bed, ends_well);
    ends_well(tabane(&bed, ["check", "--read-data"]));
    println!("killed {killed} of {kills} runs before their end");
    assert_ne!(killed, 0);
}
