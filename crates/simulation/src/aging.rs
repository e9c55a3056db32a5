//! Time that passes for files.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// Makes all files below a folder so much older.
pub fn make_older(folder: &Path, time: Duration) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            make_older(&path, time);
        } else {
            let file = fs::File::options().write(true).open(path).expect("a file");
            let modified = file.metadata().and_then(|metadata| metadata.modified());
            let older = modified.expect("a time") - time;
            file.set_modified(older).expect("another time");
        }
    }
}
