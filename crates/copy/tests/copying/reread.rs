//! Bytes that change between being written and being read again.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use tabane_copy::Verify;
use tabane_testing::compare::assert_same;
use tabane_testing::files;
use tabane_testing::mount::Mount;
use tabane_testing::not_checked;

use crate::bed::{Bed, Recorder, run};

/// Flips a bit of a file, keeping its times.
fn flip(path: &Path, at: u64) {
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    byte[0] ^= 0x10;
    file.write_all_at(&byte, at).unwrap();
    file.set_modified(modified).unwrap();
}

#[test]
fn a_flipped_bit_is_found_and_mended() {
    let bed = Bed::new();
    let mut options = bed.options();
    options.verify = Verify::Reread;
    let copy = bed.copy();
    let recorder = Recorder::on_reread(move || {
        flip(&copy.join("text"), 29_999);
        flip(&copy.join("many/2/2"), 0);
    });
    let (summary, problems) = run(options, recorder);
    assert_eq!((summary.mended, summary.errors), (2, 0));
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(
        problems
            .iter()
            .all(|text| text.starts_with("Differs") && text.contains("mended: true"))
    );
    assert_eq!(summary.reread_bytes, summary.total_bytes);
    // The other name of one of them is still its other name.
    assert_same(&bed.source(), &bed.copy());
}

#[test]
fn a_file_shorter_than_it_says_is_mended() {
    let bed = Bed::new();
    let path = "/sys/kernel/mm/transparent_hugepage/enabled";
    let Ok(wanted) = fs::read(path) else {
        return not_checked("mending files shorter than they say", "there is none");
    };
    let mut options = bed.options();
    options.sources = vec![path.into()];
    options.verify = Verify::Reread;
    let copy = bed.path("to/enabled");
    let recorder = {
        let copy = copy.clone();
        Recorder::on_reread(move || flip(&copy, 3))
    };
    let (summary, problems) = run(options, recorder);
    assert_eq!((summary.mended, summary.errors), (1, 0), "{problems:?}");
    assert_eq!(fs::read(copy).unwrap(), wanted);
}

/// The system's memory of the files has the right bytes, the disk has not.
#[test]
fn the_disk_is_read_and_not_the_memory() {
    let bed = Bed::new();
    let image = bed.path("image");
    let Some(mount) = Mount::image(&bed.path("to"), &image, "ext4", 32) else {
        return;
    };
    let pattern = files::random_bytes(99, 1 << 20);
    files::write(bed.path("source/large"), &pattern);
    let mut options = bed.options();
    options.verify = Verify::Reread;
    let disk = image.clone();
    let recorder = Recorder::on_reread(move || {
        let bytes = fs::read(&disk).unwrap();
        let at = bytes
            .windows(64)
            .position(|window| window == &pattern[8192..8256])
            .unwrap();
        flip(&disk, at as u64 + 5);
    });
    let (summary, problems) = run(options, recorder);
    assert_eq!((summary.mended, summary.errors), (1, 0), "{problems:?}");
    assert_same(&bed.source(), &bed.copy());
    drop(mount);
}
