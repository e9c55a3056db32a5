//! Files that only their owner may read, written whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use tabane_storage::{make_directory, random, sync_name};

/// Prefix of the names of files that are being written.
pub const TEMPORARY: &str = "tmp-";

/// A new file beside `path`, and where it is; it becomes `path` when it is renamed. A folder that
/// is missing is made.
///
/// # Errors
/// When it cannot be made.
pub fn create_beside(path: &Path) -> io::Result<(File, PathBuf)> {
    let folder = path.parent().expect("a file is in a folder");
    let temporary = folder.join(format!("{TEMPORARY}{}", hex::encode(random::<16>())));
    let create = || {
        let mut options = OpenOptions::new();
        options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)
    };
    let file = create().or_else(|_| {
        make_directory(folder)?;
        create()
    })?;
    Ok((file, temporary))
}

/// Writes a file; one that `is_durable` survives a crash of the machine.
///
/// # Errors
/// When it cannot be written; what was there stays.
pub fn write(path: &Path, bytes: &[u8], is_durable: bool) -> io::Result<()> {
    let (mut file, temporary) = create_beside(path)?;
    let mut write = || {
        file.write_all(bytes)?;
        if is_durable {
            file.sync_all()?;
        }
        fs::rename(&temporary, path)?;
        if is_durable {
            sync_name(path)?;
        }
        Ok(())
    };
    write().inspect_err(|_| drop(fs::remove_file(&temporary)))
}

/// Reads a file. Whatever else is there, such as a pipe, keeps nobody waiting.
///
/// # Errors
/// When it cannot be read or is no regular file.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut options = OpenOptions::new();
    let never_wait = OFlags::NONBLOCK.bits() as i32;
    let mut file = options.read(true).custom_flags(never_wait).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}
