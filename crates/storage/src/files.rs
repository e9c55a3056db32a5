//! Files that another program wrote, at the places where Tabane keeps objects.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::buffer;
use crate::error::Result;
use crate::storage::OBJECT_LEN_MAX;

/// A place with files of another program, which can be read.
///
/// Paths are relative to the place, with `/` between their parts.
pub trait Files: Send + Sync {
    /// The location, for people.
    fn location(&self) -> String;

    /// Number of operations worth having in flight.
    fn connections(&self) -> usize {
        2
    }

    /// Reads a file, or `range` of it. Files of more than [`OBJECT_LEN_MAX`] bytes are only read
    /// in ranges.
    ///
    /// # Errors
    /// [`NotFound`](crate::StorageErrorKind::NotFound);
    /// [`PastEnd`](crate::StorageErrorKind::PastEnd) when the file ends before the range does.
    fn read(&self, path: &str, range: Option<Range<u64>>) -> Result<Vec<u8>>;

    /// The files at any depth below `folder`, or below all, with their lengths in bytes, sorted by
    /// path. A missing folder is empty.
    ///
    /// # Errors
    /// When the place cannot be read.
    fn list(&self, folder: &str) -> Result<Vec<(String, u64)>>;
}

/// [`Files`] below a directory.
pub(crate) struct LocalFiles(pub PathBuf);

impl Files for LocalFiles {
    fn location(&self) -> String {
        self.0.display().to_string()
    }

    fn read(&self, path: &str, range: Option<Range<u64>>) -> Result<Vec<u8>> {
        Ok(read(&self.0.join(path), range)?)
    }

    fn list(&self, folder: &str) -> Result<Vec<(String, u64)>> {
        let mut found = Vec::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            let entries = match fs::read_dir(self.0.join(&folder)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                entries => entries?,
            };
            for entry in entries {
                let entry = entry?;
                // Neither restic nor borg has a name that is not UTF-8.
                let Ok(name) = entry.file_name().into_string() else {
                    continue;
                };
                let path = match folder.as_str() {
                    "" => name,
                    folder => format!("{folder}/{name}"),
                };
                let metadata = fs::metadata(entry.path())?;
                if metadata.is_dir() {
                    folders.push(path);
                } else if metadata.is_file() {
                    found.push((path, metadata.len()));
                }
            }
        }
        found.sort();
        Ok(found)
    }
}

/// Reads a file, or `range` of it.
pub(crate) fn read(path: &Path, range: Option<Range<u64>>) -> io::Result<Vec<u8>> {
    // Non-blocking: opening a pipe in its place would wait for ever.
    let mut file = File::options()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path)?;
    match range {
        None => {
            let mut bytes = Vec::new();
            (&file).take(OBJECT_LEN_MAX).read_to_end(&mut bytes)?;
            match file.read(&mut [0])? {
                0 => Ok(bytes),
                _ => Err(io::Error::other("it is longer than any object")),
            }
        }
        Some(range) => {
            let len = range.end - range.start;
            file.seek(SeekFrom::Start(range.start))?;
            // Avoids zeroing the buffer, which `read_exact` would need.
            let mut bytes = buffer::with_capacity(len as usize);
            match file.take(len).read_to_end(&mut bytes)? as u64 {
                read if read == len => Ok(bytes),
                _ => Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StorageErrorKind;

    #[test]
    fn files_below_a_directory_are_listed_and_read() {
        let place = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(place.path().join("data/0a")).expect("made");
        fs::write(place.path().join("data/0a/x"), "12345").expect("written");
        fs::write(place.path().join("data/y"), "").expect("written");
        let files = LocalFiles(place.path().to_owned());
        let expected = [("data/0a/x".to_owned(), 5), ("data/y".to_owned(), 0)];
        assert_eq!(files.list("data").expect("listed"), expected);
        assert_eq!(files.list("nothing").expect("listed"), []);
        let read = |range| files.read("data/0a/x", range);
        assert_eq!(read(None).expect("read"), b"12345");
        assert_eq!(read(Some(1..3)).expect("read"), b"23");
        assert_eq!(
            read(Some(3..6)).expect_err("short").kind(),
            StorageErrorKind::PastEnd
        );
        let missing = files.read("data/z", None).expect_err("missing");
        assert_eq!(missing.kind(), StorageErrorKind::NotFound);
    }
}
