//! `key export` and `key import`.

use std::fs;

use crate::bed::{Bed, PASSWORD};

/// The lines that a person would type.
fn exported(bed: &Bed) -> String {
    let ran = bed.run(["key", "export"]).succeeds();
    assert!(ran.stdout.starts_with("Tabane: key "), "{}", ran.stdout);
    // What fits a page.
    assert!(ran.stdout.lines().count() < 50, "{}", ran.stdout);
    assert!(ran.stdout.lines().all(|line| line.len() < 90));
    assert!(!ran.stdout.contains(PASSWORD));
    ran.stdout
}

fn lose_all(bed: &Bed) {
    fs::remove_file(bed.repository().join("config")).unwrap();
    for folder in ["keys", "copies"] {
        fs::remove_dir_all(bed.repository().join(folder)).unwrap();
    }
}

#[test]
fn a_repository_opens_again_with_a_text() {
    let bed = Bed::with_repository();
    bed.backup(&[]).succeeds();
    let text = exported(&bed);
    lose_all(&bed);
    let lost = bed.run(["snapshots"]);
    assert_ne!(lost.code, Some(0));
    assert!(
        lost.stderr.contains("has lost its file `config`"),
        "{}",
        lost.stderr
    );

    let file = bed.path("typed.txt");
    let path = file.to_str().unwrap();
    // A mistake is named, and changes nothing.
    fs::write(&file, text.replacen("03: ", "03: 7", 1)).unwrap();
    let ran = bed.run(["key", "import", path]);
    assert_ne!(ran.code, Some(0));
    assert!(
        ran.stderr.contains("line 03 has a mistake"),
        "{}",
        ran.stderr
    );
    assert!(!bed.repository().join("config").exists());

    fs::write(&file, text.replace('\n', "\r\n").to_uppercase()).unwrap();
    bed.run(["key", "import", path])
        .succeeds()
        .says("is there again; found and put right: key ")
        .says(" is missing; config is damaged or missing");
    bed.run(["check", "--read-data"]).succeeds();
    bed.run(["key", "import", path])
        .succeeds()
        .says("nothing to do");
    let json = bed
        .run(["key", "import", path, "--json"])
        .succeeds()
        .last_json();
    assert_eq!(json["message_type"], "key_imported");
    assert_eq!(json["mended"].as_array().unwrap().len(), 0);
}

#[test]
fn a_text_of_another_repository_is_refused() {
    let (bed, other) = (Bed::with_repository(), Bed::with_repository());
    bed.backup(&[]).succeeds();
    let file = bed.path("typed.txt");
    fs::write(&file, exported(&other)).unwrap();
    let ran = bed.run(["key", "import", file.to_str().unwrap()]);
    assert_ne!(ran.code, Some(0));
    assert!(
        ran.stderr.contains("none or another; nothing was changed"),
        "{}",
        ran.stderr
    );
    bed.run(["check"]).succeeds();
}

#[test]
fn codes_have_all_lines_and_fit_a_terminal() {
    let bed = Bed::with_repository();
    let ran = bed.run(["key", "export", "--qr"]).succeeds();
    let drawn = |line: &&str| line.contains(['▀', '▄', '█']);
    let widths = ran
        .stdout
        .lines()
        .filter(drawn)
        .map(|line| line.chars().count());
    assert_eq!(widths.clone().max(), Some(77), "{}", ran.stdout);
    let json = bed.run(["key", "export", "--json"]).succeeds().last_json();
    let lines = json["lines"].as_array().unwrap();
    assert!(
        lines
            .iter()
            .all(|line| ran.stdout.contains(line.as_str().unwrap()))
    );
    // Eight lines a code, of 35 rows and a blank line each.
    let codes = lines.len().div_ceil(8);
    assert!(widths.count() >= codes * 30, "{}", ran.stdout);
}
