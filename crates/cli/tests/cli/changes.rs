//! Backups with lists of changes.

use std::fs;

use crate::bed::Bed;

#[test]
fn a_list_of_changes_saves_the_walk() {
    let bed = Bed::with_repository();
    let list = bed.path("changes");
    let listed = list.display().to_string();
    tabane_testing::files::settle();
    fs::write(&list, "").expect("written");
    // Without a snapshot to compare with, everything is looked at.
    let ran = bed.backup(&["--changed-from", &listed]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("everything is looked at"),
        "{}",
        ran.stderr
    );
    let notes = bed.source().join("docs/notes.txt");
    fs::write(&notes, "changed").expect("written");
    fs::write(bed.source().join("docs/deep/new"), "not listed").expect("written");
    fs::write(&list, format!("{}\n", notes.display())).expect("written");
    let made = bed
        .backup(&["--changed-from", &listed, "--json"])
        .succeeds()
        .last_json();
    assert_eq!(
        (&made["files_new"], &made["files_changed"]),
        (&0.into(), &2.into()),
        "the file has two names"
    );
    assert_eq!(made["files_unmodified"], 3);
    let mut text = notes.into_os_string().into_encoded_bytes();
    text.push(0);
    fs::write(&list, text).expect("written");
    bed.backup(&["--changed-from", &listed]).succeeds();
    fs::write(&list, "relative\n").expect("written");
    bed.backup(&["--changed-from", &listed])
        .fails(2, "no absolute path");
}
