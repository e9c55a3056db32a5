//! Files that are empty by what the system says, and are not: those in `/proc`.

use std::fs;
use std::path::Path;

use crate::common::{Place, back_up, not_checked, restore_options, restore_with, scratch};

#[test]
fn what_the_kernel_tells_in_files_is_stored() {
    let place = Place::new();
    let files = ["/proc/version", "/proc/filesystems", "/proc/kallsyms"].map(Path::new);
    let (there, absent): (Vec<&Path>, Vec<&Path>) =
        files.into_iter().partition(|path| fs::read(path).is_ok());
    if !absent.is_empty() {
        not_checked(
            "files of the kernel in a backup",
            format!("no {absent:?} here"),
        );
    }
    let made = back_up(&place.repository, &there);
    let target = scratch();
    restore_with(
        &place.repository,
        crate::common::id(&made),
        restore_options(target.path()),
    );
    for path in there {
        let restored = fs::read(target.path().join(path.strip_prefix("/").unwrap())).unwrap();
        assert!(!restored.is_empty());
        assert!(restored == fs::read(path).unwrap(), "{}", path.display());
    }
    // They look as they did, and say something else the next time.
    let again = back_up(&place.repository, &[Path::new("/proc/version")]);
    assert_eq!(again.snapshot.summary.files_unmodified, 0);
}

#[test]
fn a_log_of_the_kernel_does_not_stop_a_backup() {
    let path = Path::new("/proc/kmsg");
    if fs::File::open(path).is_err() {
        return not_checked("reading a log of the kernel", "it cannot be opened");
    }
    back_up(&Place::new().repository, &[path]);
}
