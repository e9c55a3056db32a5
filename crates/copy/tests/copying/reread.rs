//! Bytes that change between being written and being read again.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use tabane_copy::Verify;
use tabane_testing::compare::assert_same;
use tabane_testing::files;
use tabane_testing::mount::Mount;
use tabane_testing::not_checked;

use crate::bed::{Bed, Recorder, fine, run};

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
    // The hard links of a rewritten file are still links of it.
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

/// A file of which nearly all is holes, with data at places that suit every file system.
fn sparse(bed: &Bed, len: u64) {
    let path = bed.path("source/sparse");
    let data = [(1 << 20, &[1; 70_000][..]), (3 << 20, b"data")];
    files::sparse(&path, len, &data);
}

/// Bytes that this process has read until now.
fn read_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("rchar: "));
    line?.parse().ok()
}

#[test]
fn holes_are_not_read_again() {
    const LEN: u64 = 4 << 30;
    for manifest in [false, true] {
        let bed = Bed::new();
        sparse(&bed, LEN);
        let mut options = bed.options().verify(Verify::Reread);
        options.manifest = manifest.then(|| bed.path("manifest"));
        let Some(before) = read_bytes() else {
            return not_checked("that holes are not read again", "/proc/self/io is missing");
        };
        // The second run compares what is there.
        for _ in 0..2 {
            let summary = fine(options.clone());
            assert_eq!(summary.reread_bytes, summary.total_bytes);
        }
        // Other tests read much less meanwhile.
        let read = read_bytes().unwrap() - before;
        assert!(read < LEN / 4, "{read} bytes were read");
        let copy = bed.copy().join("sparse");
        assert_eq!(fs::metadata(&copy).unwrap().len(), LEN);
    }
}

#[test]
fn bytes_in_holes_are_found_and_mended() {
    for manifest in [false, true] {
        // Between the data, and behind them.
        for at in [2 << 20, (5 << 20) - 1] {
            let bed = Bed::new();
            sparse(&bed, 5 << 20);
            let mut options = bed.options().verify(Verify::Reread);
            options.manifest = manifest.then(|| bed.path("manifest"));
            let copy = bed.copy().join("sparse");
            let recorder = Recorder::on_reread(move || flip(&copy, at));
            let (summary, problems) = run(options.clone(), recorder);
            assert_eq!((summary.mended, summary.errors), (1, 0), "{problems:?}");
            assert_same(&bed.source(), &bed.copy());
            // Damage in an existing copy is repaired as well.
            flip(&bed.copy().join("sparse"), at);
            let summary = fine(options);
            assert_eq!(summary.copied_files, 1);
            assert_same(&bed.source(), &bed.copy());
        }
    }
}

#[test]
fn zeros_are_as_good_as_holes() {
    let bed = Bed::new();
    sparse(&bed, 5 << 20);
    let options = bed.options().verify(Verify::Reread);
    let copy = bed.copy().join("sparse");
    let fill = {
        let copy = copy.clone();
        move || {
            let modified = fs::metadata(&copy).unwrap().modified().unwrap();
            let file = OpenOptions::new().write(true).open(&copy).unwrap();
            file.write_all_at(&vec![0; 1 << 20], 2 << 20).unwrap();
            file.set_modified(modified).unwrap();
        }
    };
    let (summary, problems) = run(options.clone(), Recorder::on_reread(fill));
    assert_eq!((summary.mended, summary.errors), (0, 0), "{problems:?}");
    let summary = fine(options.clone());
    assert_eq!(summary.copied_files, 0);
    // A shorter file is another one.
    let shorten = move || {
        let file = OpenOptions::new().write(true).open(&copy).unwrap();
        file.set_len((5 << 20) - 1).unwrap();
    };
    let (summary, problems) = run(options, Recorder::on_reread(shorten));
    assert_eq!((summary.mended, summary.errors), (1, 0), "{problems:?}");
    assert_same(&bed.source(), &bed.copy());
}
