//! What a killed run leaves; see also the tests of the command, which kill it.

use std::fs::{self, File};

use crate::bed::{Bed, Recorder, assert_tidy, fine, run, run_and_keep};
use tabane_testing::compare::assert_same;
use tabane_testing::files;

fn machine_start() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap()[..8].to_owned()
}

#[test]
fn leftovers_are_removed_and_those_of_the_living_are_not() {
    let bed = Bed::new();
    fine(bed.options());
    let dead = format!(".tabane-cp.{}.0123456789abcdef", machine_start());
    let alive = format!(".tabane-cp.{}.fedcba9876543210", machine_start());
    let many = bed.copy().join("many");
    for name in [&dead, &alive] {
        files::write(bed.path("to").join(name), b"");
        files::write(many.join(format!("{name}.3")), b"half");
    }
    let lock = File::open(bed.path("to").join(&alive)).unwrap();
    lock.lock().unwrap();
    fine(bed.options());
    assert!(many.join(format!("{alive}.3")).exists());
    assert!(!many.join(format!("{dead}.3")).exists());
    drop(lock);
    fine(bed.options());
    assert_tidy(&bed.path("to"));
    assert_same(&bed.source(), &bed.copy());
}

#[test]
fn leftovers_are_removed_after_another_copy_came_between() {
    let bed = Bed::new();
    fine(bed.options());
    let dead = format!(".tabane-cp.{}.0123456789abcdef", machine_start());
    let many = bed.copy().join("many");
    files::write(bed.path("to").join(&dead), b"");
    files::write(many.join(format!("{dead}.3")), b"half");
    // Files of the user with similar names.
    let own = [
        ".tabane-cp.notes.of.3",
        ".tabane-cp.01234567.0123456789abcdef.txt",
    ];
    for name in own {
        files::write(many.join(name), b"mine");
    }
    let mut other = bed.options();
    other.sources = vec![bed.path("source/text")];
    fine(other);
    assert!(!bed.path("to").join(&dead).exists());
    // A copy into the directory that holds the leftover.
    let mut options = bed.options();
    options.sources = vec![bed.path("source/many")];
    options.target = bed.copy();
    fine(options);
    assert!(!many.join(format!("{dead}.3")).exists());
    for name in own {
        fs::remove_file(many.join(name)).unwrap();
    }
    assert_tidy(&bed.path("to"));
}

/// Between being made and being locked, the claim of a living run looks like that of a dead one.
#[test]
fn a_claim_that_turns_out_to_be_alive_stays() {
    let bed = Bed::new();
    let name = format!(".tabane-cp.{}.fedcba9876543210", machine_start());
    let claim = bed.path("to").join(&name);
    files::write(&claim, b"");
    let lock = File::open(&claim).unwrap();
    let temporary = bed.path("to/source/many").join(format!("{name}.0"));
    files::write(&temporary, b"half");
    let lock_it = move || {
        let _ = lock.lock();
    };
    let recorder = std::sync::Arc::new(Recorder::on_bytes(lock_it));
    let mut options = bed.options();
    options.sources = vec![bed.path("source/random"), bed.source()];
    let (_, problems) = run_and_keep(options, &recorder);
    assert!(problems.is_empty(), "{problems:?}");
    assert!(claim.exists());
    drop(recorder);
    fine(bed.options());
    assert_tidy(&bed.path("to"));
}

#[test]
fn a_cancelled_copy_leaves_only_what_lets_it_go_on() {
    for (name, sync, stays) in [
        ("new", false, true),
        ("to", true, true),
        ("to", false, false),
    ] {
        let bed = Bed::new();
        // Large enough to be unfinished when its first bytes are reported.
        files::write(
            bed.path("source/a large one"),
            &files::random_bytes(1, 9 << 20),
        );
        let mut options = bed.options();
        options.target = bed.path(name);
        options.sync = sync;
        options.manifest = Some(bed.path("manifest"));
        let recorder = std::sync::Arc::new(Recorder::cancelling(|| {}));
        let (summary, problems) = run_and_keep(options.clone(), &recorder);
        assert!(problems.is_empty(), "{problems:?}");
        assert!(summary.interrupted && summary.errors == 0);
        assert!(summary.copied_files < 40, "{summary:?}");
        let kept = recorder.kept.lock().unwrap().clone();
        assert!(kept.iter().all(|path| path.exists()), "{kept:?}");
        let claims: Vec<_> = own_files(&bed.path(""));
        let kept_claims = kept
            .iter()
            .filter(|path| !path.ends_with("manifest.partial"));
        assert_eq!(claims, kept_claims.cloned().collect::<Vec<_>>());
        assert_eq!(claims.len(), usize::from(stays), "{name} {sync}");
        assert_eq!(
            bed.path("manifest.partial").exists(),
            summary.copied_files > 0
        );
        assert!(!bed.path("manifest").exists());
        let again = fine(options);
        assert_eq!(again.skipped_files, summary.copied_files);
        assert!(!again.interrupted);
        let copy = match name {
            "new" => bed.path("new"),
            _ => bed.copy(),
        };
        assert_same(&bed.source(), &copy);
        assert_tidy(&bed.path(""));
        assert!(bed.path("manifest").exists() && !bed.path("manifest.partial").exists());
    }
}

/// Claims and temporary files at and below a directory.
fn own_files(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with(".tabane-cp.") {
            found.push(path);
        } else if path.is_dir() {
            found.append(&mut own_files(&path));
        }
    }
    found
}

#[test]
fn after_a_crash_of_the_machine_contents_are_compared() {
    let bed = Bed::new();
    files::write(bed.path("to/.tabane-cp.00000000.0123456789abcdef"), b"");
    std::thread::sleep(std::time::Duration::from_millis(20));
    let dead = bed.path("to/.tabane-cp.00000000.0123456789abcdef");
    let saved = bed.path("claim");
    fs::hard_link(&dead, &saved).unwrap();
    fine(bed.options());
    assert!(!dead.exists());
    // Times that say it is the same.
    let path = bed.copy().join("random");
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, vec![0; 70_000]).unwrap();
    File::open(&path).unwrap().set_modified(time).unwrap();
    assert_eq!(fine(bed.options()).copied_bytes, 0);
    fs::rename(saved, dead).unwrap();
    assert_eq!(fine(bed.options()).copied_bytes, 70_000);
    // That of another command stays, since only that one looks at all that it copied.
    let other = bed.path("to/.tabane-cp.00000000.0123456789abcdef");
    files::write(&other, b"0123456789abcdef ");
    fine(bed.options());
    fs::remove_file(other).unwrap();
    assert_same(&bed.source(), &bed.copy());
}

#[test]
fn a_directory_that_a_killed_run_made_stays_the_name_of_the_copy() {
    let bed = Bed::new();
    let mut options = bed.options();
    options.target = bed.path("new");
    // The remains of a killed run: its claim in the middle of the copy, with no process that holds
    // the lock.
    let (saved, directory) = (bed.path("saved"), bed.path(""));
    let hook = {
        let saved = saved.clone();
        move || {
            let claim = fs::read_dir(&directory).unwrap().map(Result::unwrap);
            let claim = claim.map(|entry| entry.file_name().into_string().unwrap());
            let claim = { claim }.find(|name| name.starts_with(".tabane-cp."));
            fs::write(&saved, fs::read(directory.join(claim.unwrap())).unwrap()).unwrap();
        }
    };
    let (summary, _) = run(options.clone(), Recorder::on_bytes(hook));
    assert_eq!(summary.errors, 0);
    let dead = bed.path(&format!(".tabane-cp.{}.0123456789abcdef", machine_start()));
    fs::copy(&saved, &dead).unwrap();
    fine(options.clone());
    assert_same(&bed.source(), &bed.path("new"));
    // Another command copies into it, as without the claim.
    fs::copy(&saved, &dead).unwrap();
    let mut other = options.clone();
    other.sources = vec![bed.path("source/many")];
    fine(other);
    assert_same(&bed.path("source/many"), &bed.path("new/many"));
    assert!(dead.exists());
    // So does one that copies beside it.
    other = options.clone();
    other.sources = vec![bed.path("source/text")];
    other.target = bed.path("");
    fine(other);
    assert!(dead.exists());
    // Without a claim, so does the same.
    fs::remove_file(dead).unwrap();
    fine(options);
    assert_same(&bed.source(), &bed.path("new/source"));
}
