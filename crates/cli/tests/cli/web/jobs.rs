//! Jobs that the page starts.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::thread;
use std::time::{Duration, Instant};

use tabane_testing::mount::Mount;

use super::pages::two_snapshots;
use super::served::Served;
use crate::bed::{Bed, restored};

const PAGE: &str = "/repository/repository";

/// Waits until a job says one of these words.
#[track_caller]
fn wait(served: &Served, job: &str, words: &[&str]) -> String {
    let start = Instant::now();
    loop {
        let text = served.page(job);
        if words.iter().any(|word| text.contains(word)) {
            return text;
        }
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "never {words:?}: {text}"
        );
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_job_runs_is_shown_and_remembered() {
    let bed = two_snapshots();
    let served = Served::start(&bed, &["--allow-jobs"]);
    let jobs = format!("{PAGE}/jobs");
    let started = served.post(&jobs, &jobs, "offer=check-data");
    assert_eq!(started.status, 303, "{}", started.text());
    let job = started.header("location").to_owned();
    let text = wait(&served, &job, &["badge good"]);
    assert!(
        text.contains("check --read-data") && text.contains("snapshots"),
        "{text}"
    );
    assert!(served.page(&jobs).contains(&job));
    let events = served.get(&format!("{job}/events")).text();
    assert!(events.contains("data: put job-head\n") && events.ends_with("data: end\n\n"));
    // The next server knows it, too.
    drop(served);
    let served = Served::start(&bed, &[]);
    assert!(served.page(&jobs).contains(&job));
    assert!(served.page(&job).contains("badge good"));
    assert_eq!(served.post(&jobs, &jobs, "offer=check").status, 403);
}

/// A dry run comes first and changes nothing; what it listed is done after it.
#[test]
fn files_are_restored_after_a_dry_run() {
    let bed = two_snapshots();
    let allowed = bed.path("allowed");
    fs::create_dir_all(allowed.join("back/docs")).expect("made");
    fs::write(allowed.join("back/notes.txt"), "newer").expect("written");
    fs::write(allowed.join("back/stray"), "stray").expect("written");
    let folder = allowed.display().to_string();
    let served = Served::start(&bed, &["--allow-restore", &folder]);
    let docs = bed.source().join("docs").display().to_string();
    let form = format!("{PAGE}/restore?snapshot=latest&path={docs}");
    let target = format!("{PAGE}/restore");
    let fields = |folder: &str| {
        format!("snapshot=latest&path={docs}&root=0&folder={folder}&overwrite=always&delete=yes")
    };
    for outside in ["..", "../x", "/etc", "a/../../x"] {
        let answer = served.post(&form, &target, &fields(outside));
        assert_eq!(answer.status, 400, "{outside}");
    }
    let started = served.post(&form, &target, &fields("back"));
    let job = started.header("location").to_owned();
    let text = wait(&served, &job, &["Do it", "badge bad"]);
    for says in [
        "--dry-run",
        "created",
        "updated",
        "deleted",
        "stray",
        "notes.txt",
    ] {
        assert!(text.contains(says), "no {says} in {text}");
    }
    assert_eq!(
        fs::read_to_string(allowed.join("back/notes.txt")).expect("there"),
        "newer"
    );
    let started = served.post(&job, &format!("{job}/next"), "");
    let job = started.header("location").to_owned();
    let text = wait(&served, &job, &["badge good", "badge bad"]);
    assert!(
        text.contains("badge good") && !text.contains("Do it"),
        "{text}"
    );
    let notes = fs::read_to_string(allowed.join("back/notes.txt")).expect("there");
    assert_eq!(notes, "first version\n");
    assert!(!allowed.join("back/stray").exists());
    assert!(!restored(&allowed, &bed.source()).exists());
}

/// A link in the allowed folder leads no restore out of it, also if it comes after the dry run.
#[test]
fn no_link_leads_a_restore_out_of_its_folder() {
    let bed = two_snapshots();
    let (allowed, outside) = (bed.path("allowed"), bed.path("outside"));
    fs::create_dir_all(&allowed).expect("made");
    fs::create_dir_all(&outside).expect("made");
    let folder = allowed.display().to_string();
    let served = Served::start(&bed, &["--allow-restore", &folder]);
    let docs = bed.source().join("docs").display().to_string();
    let form = format!("{PAGE}/restore?snapshot=latest&path={docs}");
    let dry_run = |folder: &str| {
        let fields = format!("snapshot=latest&path={docs}&root=0&folder={folder}&overwrite=always");
        let started = served.post(&form, &format!("{PAGE}/restore"), &fields);
        started.header("location").to_owned()
    };
    for (folder, link) in [("last", "last"), ("first/last", "first")] {
        let job = dry_run(folder);
        wait(&served, &job, &["Do it"]);
        symlink(&outside, allowed.join(link)).expect("made");
        let started = served.post(&job, &format!("{job}/next"), "");
        let text = wait(&served, started.header("location"), &["badge bad"]);
        assert!(text.contains("leads over a link"), "{text}");
        let text = wait(&served, &dry_run(folder), &["badge bad"]);
        assert!(text.contains("leads over a link"), "{text}");
        let mut left = fs::read_dir(&outside).expect("there");
        assert!(left.next().is_none(), "{folder}");
    }
}

/// Removal by rules, after its dry run.
#[test]
fn snapshots_are_forgotten_after_a_dry_run() {
    let bed = two_snapshots();
    let served = Served::start(&bed, &["--allow-jobs"]);
    let rules = "keep-last=1&group-by=host";
    let form = format!("{PAGE}/retention?{rules}");
    let started = served.post(&form, &format!("{PAGE}/retention"), rules);
    let job = started.header("location").to_owned();
    wait(&served, &job, &["Do it"]);
    let count = || {
        bed.run(["snapshots", "--json"]).json()[0]
            .as_array()
            .map(Vec::len)
    };
    assert_eq!(count(), Some(2));
    let started = served.post(&job, &format!("{job}/next"), "");
    wait(&served, started.header("location"), &["badge good"]);
    assert_eq!(count(), Some(1));
}

/// A job that takes long is cancelled; a second one of its kind waits for it.
#[test]
fn a_job_is_cancelled() {
    let bed = Bed::with_repository();
    let fifo = bed.source().join("big");
    fs::write(&fifo, crate::bed::varied(1 << 20)).expect("written");
    let config = bed.path("config.toml");
    let text = format!(
        "[profiles.slow]\nrepo = {:?}\n[profiles.slow.backup]\npaths = [{:?}]\n\
         run-before = [\"sleep 600\"]\n",
        bed.repository(),
        bed.source()
    );
    fs::write(&config, text).expect("written");
    let config = config.display().to_string();
    let served = Served::start(&bed, &["--allow-jobs", "--config", &config]);
    let jobs = format!("{PAGE}/jobs");
    let job = served
        .post(&jobs, &jobs, "offer=backup-0")
        .header("location")
        .to_owned();
    wait(&served, &job, &["running"]);
    assert_eq!(served.post(&jobs, &jobs, "offer=backup-0").status, 409);
    served.post(&job, &format!("{job}/cancel"), "");
    served.post(&job, &format!("{job}/cancel"), "");
    wait(&served, &job, &["cancelled"]);
}

/// A disk that is too small ends the restore, says so, and hurts nothing.
#[test]
fn a_full_disk_is_said_to_be_full() {
    let bed = two_snapshots();
    let disk = bed.path("disk");
    fs::create_dir(&disk).expect("made");
    let Some(_mount) = Mount::tmpfs(&disk, "200k") else {
        tabane_testing::not_checked(
            "a restore by the page into a full disk",
            "only root can mount",
        );
        return;
    };
    let folder = disk.display().to_string();
    let served = Served::start(&bed, &["--allow-restore", &folder]);
    let docs = bed.source().join("docs").display().to_string();
    let form = format!("{PAGE}/restore?snapshot=latest&path={docs}");
    let fields = format!("snapshot=latest&path={docs}&root=0&folder=back&overwrite=always");
    let started = served.post(&form, &format!("{PAGE}/restore"), &fields);
    let job = started.header("location").to_owned();
    wait(&served, &job, &["Do it"]);
    let started = served.post(&job, &format!("{job}/next"), "");
    let text = wait(&served, started.header("location"), &["badge bad"]);
    assert!(
        text.contains("o space left") && text.contains("free some space"),
        "{text}"
    );
    served.page(PAGE);
}

/// Whoever closes the browser in the middle of a download leaves nothing behind.
#[test]
fn a_download_that_is_broken_off_leaves_nothing_behind() {
    let bed = two_snapshots();
    fs::write(bed.source().join("large"), crate::bed::varied(90 << 20)).expect("written");
    bed.backup(&[]).succeeds();
    let served = Served::start(&bed, &[]);
    let target = served.of("raw", &bed.source().join("large"));
    for _ in 0..3 {
        let mut stream = TcpStream::connect(served.address).expect("it listens");
        let head = format!(
            "GET {target} HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\n\r\n",
            served.address, served.cookie
        );
        stream.write_all(head.as_bytes()).expect("it reads");
        stream.read_exact(&mut [0; 100_000]).expect("it comes");
    }
    served.page(PAGE);
    // Readers of long files are announced, so that no prune takes them away; now none is left.
    let start = Instant::now();
    while fs::read_dir(bed.repository().join("clients")).is_ok_and(|mut left| left.next().is_some())
    {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "a reader is still announced"
        );
        thread::sleep(Duration::from_millis(50));
    }
}
