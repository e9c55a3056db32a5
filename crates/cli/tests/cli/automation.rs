//! Metrics, and the units for systemd.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::bed::{Bed, run};

/// The values of the samples, without their labels.
fn value(text: &str, name: &str) -> f64 {
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let line = lines.find(|line| line.starts_with(name));
    let line = line.unwrap_or_else(|| panic!("{name} is not in {text}"));
    line.rsplit_once(' ')
        .expect("a value")
        .1
        .parse()
        .expect("a number")
}

#[test]
fn metrics_are_written_whatever_happens() {
    let bed = Bed::with_repository();
    let file = bed.path("tabane.prom");
    let file_text = file.display().to_string();
    bed.backup(&["--metrics-file", &file_text]).succeeds();
    let text = fs::read_to_string(&file).expect("written");
    for line in text.lines() {
        let sample = line.strip_prefix("tabane_backup_").map(|line| {
            let (_, rest) = line.split_once('{').expect("labels");
            let (labels, value) = rest.split_once("} ").expect("a value");
            labels.starts_with("repository=\"") && value.parse::<f64>().is_ok()
        });
        assert!(sample.unwrap_or(line.starts_with("# ")), "{line}");
    }
    assert!(text.contains(r#",state="new"} 5"#), "{text}");
    assert_eq!(value(&text, "tabane_backup_exit_code"), 0.0);
    let succeeded = value(&text, "tabane_backup_last_success_time_seconds");
    assert!(succeeded > 1.7e9);
    let mode = fs::metadata(&file).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o644);

    bed.backup(&["-n", "--metrics-file", &file_text]).succeeds();
    assert_eq!(fs::read_to_string(&file).expect("written"), text);

    // A failure says so, and keeps the time of the success.
    let mut command = bed.command(["backup", "/nowhere/at/all", "--metrics-file", &file_text]);
    run(&mut command).fails(1, "/nowhere/at/all");
    let text = fs::read_to_string(&file).expect("written");
    assert_eq!(value(&text, "tabane_backup_exit_code"), 1.0);
    assert_eq!(
        value(&text, "tabane_backup_last_success_time_seconds"),
        succeeded
    );
    assert!(!text.contains("tabane_backup_files"));
    // That of another repository is not this one's.
    let other = bed.path("other");
    let mut command = bed.command(["check", "--metrics-file", &file_text]);
    run(&mut command).succeeds();
    let mut command = bed.command(["check", "--metrics-file", &file_text]);
    run(command.env("TABANE_REPOSITORY", &other)).fails(10, "other");
    let text = fs::read_to_string(&file).expect("written");
    assert!(!text.contains("last_success"), "{text}");

    let mut command = bed.command(["check"]);
    run(command.env("TABANE_METRICS_FILE", &file)).succeeds();
    let text = fs::read_to_string(&file).expect("written");
    assert_eq!(value(&text, "tabane_check_problems"), 0.0);
    bed.run(["forget", "--keep-last", "1", "--metrics-file", &file_text])
        .succeeds();
    let text = fs::read_to_string(&file).expect("written");
    assert!(text.contains(r#",state="kept"} 1"#), "{text}");
    let none = fs::read_dir(bed.path("")).expect("a folder").flatten();
    let none = none.filter(|entry| entry.file_name().to_string_lossy().ends_with(".tmp"));
    assert_eq!(none.count(), 0);

    let pipe = bed.path("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).expect("made");
    bed.run(["check", "--metrics-file", &pipe.display().to_string()])
        .fails(1, "it is no regular file");
    bed.run(["check", "--metrics-file", "/nowhere/at/all"])
        .fails(1, "cannot write metrics to /nowhere/at/all");
}
