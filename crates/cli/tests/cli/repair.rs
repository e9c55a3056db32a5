//! `repair`.

use std::fs;
use std::path::PathBuf;

use crate::bed::Bed;

fn files(bed: &Bed, folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![bed.repository().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push(path),
            }
        }
    }
    found
}

#[test]
fn a_lost_index_is_made_anew() {
    let bed = Bed::with_repository();
    bed.backup(&[]).succeeds();
    for path in files(&bed, "index") {
        fs::remove_file(path).unwrap();
    }
    assert_eq!(bed.run(["check"]).code, Some(1));
    bed.run(["repair", "index", "--dry-run"])
        .succeeds()
        .says("dry run: nothing was changed");
    assert!(files(&bed, "index").is_empty());
    bed.run(["repair", "index"])
        .succeeds()
        .says("added to the index");
    bed.run(["check", "--read-data"]).succeeds();
    bed.run(["repair", "index", "--read-all-packs", "--json"])
        .succeeds()
        .says("\"replaced_objects\":1");
}

#[test]
fn damaged_packs_are_mended_and_copies_kept() {
    let bed = Bed::with_repository();
    bed.backup(&[]).succeeds();
    // The contents of files; directories above the source change from backup to backup.
    let packs = files(&bed, "packs");
    let path = packs
        .iter()
        .max_by_key(|path| path.metadata().unwrap().len());
    let path = path.unwrap();
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, &bytes).unwrap();
    let copies = bed.path("copies");
    let copies_text = copies.to_str().unwrap();
    // Where copies cannot be kept nothing is removed.
    let args = ["repair", "packs", "--copies", copies_text];
    let ran = bed.run(args);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("cannot keep a copy in"),
        "{}",
        ran.stderr
    );
    assert!(path.exists());
    fs::create_dir(&copies).unwrap();
    let ran = bed.run(args);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(
        ran.stdout.contains("1 of 2 packs damaged"),
        "{}",
        ran.stdout
    );
    let name = path.file_name().unwrap().to_str().unwrap();
    let copy = fs::read(copies.join(format!("damaged-pack-{name}"))).unwrap();
    assert_eq!(copy, bytes);
    bed.backup(&["--force"]).succeeds();
    bed.run(["check", "--read-data"]).succeeds();
    bed.run(["repair", "packs", "ffffffffffff"])
        .fails(1, "no pack matches");
}
