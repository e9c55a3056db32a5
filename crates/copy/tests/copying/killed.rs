//! What a killed run leaves; see also the tests of the command, which kill it.

use std::fs::{self, File};

use crate::bed::{Bed, Recorder, assert_tidy, fine, run};
use crate::compare::assert_same;
use crate::tree;

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
        tree::write(bed.path("to").join(name), b"");
        tree::write(many.join(format!("{name}.3")), b"half");
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
fn after_a_crash_of_the_machine_contents_are_compared() {
    let bed = Bed::new();
    tree::write(bed.path("to/.tabane-cp.00000000.0123456789abcdef"), b"");
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
    assert_same(&bed.source(), &bed.copy());
}

#[test]
fn a_directory_that_a_killed_run_made_stays_the_name_of_the_copy() {
    let bed = Bed::new();
    let mut options = bed.options();
    options.target = bed.path("new");
    // What a killed run leaves: the claim as it was in the middle of it, now of nobody.
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
    // Without a claim, so does the same.
    fs::remove_file(dead).unwrap();
    fine(options);
    assert_same(&bed.source(), &bed.path("new/source"));
}
