//! Entries of snapshots, as Python sees them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use jiff::Timestamp;
use pyo3::prelude::*;
use tabane_store::Id;
use tabane_store::browse::kind_name;
use tabane_store::entry::Kind;

/// A file, directory, link or device of a snapshot.
#[pyclass(frozen, module = "tabane")]
pub struct Entry {
    pub snapshot: Id,
    pub path: PathBuf,
    pub entry: tabane_store::entry::Entry,
}

#[pymethods]
impl Entry {
    /// The snapshot's name.
    #[getter]
    fn snapshot(&self) -> String {
        self.snapshot.to_string()
    }

    /// The path in the snapshot, from `/` on.
    #[getter]
    fn path(&self) -> OsString {
        self.path.clone().into()
    }

    /// The name in its directory.
    #[getter]
    fn name(&self) -> OsString {
        self.path.file_name().unwrap_or_default().to_owned()
    }

    /// file, dir, symlink, chardev, dev, fifo or socket.
    #[getter]
    fn kind(&self) -> &'static str {
        kind_name(&self.entry.kind)
    }

    /// Length in bytes; 0 for what is no regular file.
    #[getter]
    fn size(&self) -> u64 {
        self.entry.size()
    }

    /// Permission bits.
    #[getter]
    fn mode(&self) -> u32 {
        self.entry.mode
    }

    /// Number of the owner.
    #[getter]
    fn uid(&self) -> u32 {
        self.entry.uid
    }

    /// Number of the group.
    #[getter]
    fn gid(&self) -> u32 {
        self.entry.gid
    }

    /// When the content was last changed.
    #[getter]
    fn mtime(&self) -> Timestamp {
        let time = self.entry.mtime;
        Timestamp::new(time.s, time.ns as i32).unwrap_or_default()
    }

    /// When the content was last changed, in nanoseconds since 1970.
    #[getter]
    fn mtime_ns(&self) -> i128 {
        i128::from(self.entry.mtime.s) * 1_000_000_000 + i128::from(self.entry.mtime.ns)
    }

    /// Where a symbolic link points.
    #[getter]
    fn target(&self) -> Option<OsString> {
        match &self.entry.kind {
            Kind::Symlink { target } => Some(OsString::from_vec(target.clone())),
            _ => None,
        }
    }

    /// Pairs of an extended attribute's name and its value.
    #[getter]
    fn xattrs(&self) -> Vec<(OsString, Vec<u8>)> {
        let xattrs = self.entry.xattrs.iter();
        xattrs
            .map(|xattr| (OsString::from_vec(xattr.name.clone()), xattr.value.clone()))
            .collect()
    }

    fn __fspath__(&self) -> OsString {
        self.path()
    }

    fn __repr__(&self) -> String {
        format!("<Entry {} {}>", self.kind(), self.path.display())
    }
}
