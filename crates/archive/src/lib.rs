#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod acl;
mod sparse;
mod tar;
mod zip;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use tabane_store::browse::{PathEntry, TreeReader, Walk};
use tabane_store::content::Content;
use tabane_store::entry::{Entry, Piece};
use tabane_store::{Result, Snapshot};

/// Bytes of an archive that are made at a time, or more by one block.
const CHUNK_LEN: usize = 512 << 10;

/// Counts of an [`Archive`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Archived {
    /// Entries in the archive.
    pub entries: u64,
    /// Entries that no archive of the format can hold: sockets; in zip also devices, pipes and
    /// paths of more than 65,535 bytes.
    pub left_out: u64,
}

/// What makes the bytes of an archive around the contents of its entries.
trait Format: Send {
    /// The bytes before the content of an entry, and that content; nothing if the format cannot
    /// hold such an entry.
    fn begin(&mut self, path: &Path, entry: Entry) -> Result<Option<(Vec<u8>, Vec<Piece>)>>;

    /// What stands in the archive for a part of the content.
    fn pass(&mut self, content: Vec<u8>) -> Vec<u8>;

    /// The bytes behind the content of an entry.
    fn end(&mut self) -> Vec<u8>;

    /// The bytes behind all entries.
    fn finish(&mut self) -> Vec<u8>;
}

/// A directory, or anything else of a snapshot, as an archive that is made as it is taken.
pub struct Archive {
    format: Box<dyn Format>,
    /// Found, and not yet in the archive.
    waiting: VecDeque<PathEntry>,
    walk: Walk,
    /// The content of the entry that is being added.
    content: Option<Content>,
    is_finished: bool,
    archived: Archived,
}

impl Archive {
    /// `entry` of `snapshot`, whose path is `path`, and everything below it as a tar archive of
    /// POSIX.1-2001 (PAX).
    ///
    /// Names are paths without the slash at the beginning. Owners have their names, where
    /// `snapshot` has them, and their numbers. Times have nanoseconds. Extended attributes are
    /// those of star (`SCHILY.xattr.…`), which GNU tar restores with `--xattrs`; access control
    /// lists are those of star, too (`SCHILY.acl.…`), which it restores with `--acls`. Files with
    /// holes are sparse members of GNU's format 1.0.
    pub fn tar(snapshot: Arc<Snapshot>, path: &Path, entry: Entry) -> Self {
        Self::new(Box::new(tar::Tar::new(snapshot)), path, entry)
    }

    /// The same as a zip archive, for programs that know no tar: modes, times to the second and
    /// symbolic links are in it, numbers of owners, and each name of a hard link as a file. In
    /// names, backslashes become underscores: some programs take them for slashes.
    pub fn zip(path: &Path, entry: Entry) -> Self {
        Self::new(Box::<zip::Zip>::default(), path, entry)
    }

    fn new(format: Box<dyn Format>, path: &Path, entry: Entry) -> Self {
        let walk = Walk::below(path, &entry);
        // The root of a snapshot has neither name nor attributes.
        let first = (path != Path::new("/")).then(|| PathEntry {
            path: path.to_owned(),
            entry,
        });
        Self {
            format,
            waiting: first.into_iter().collect(),
            walk,
            content: None,
            is_finished: false,
            archived: Archived::default(),
        }
    }

    /// The next bytes of the archive, about half a MiB; nothing at its end.
    ///
    /// # Errors
    /// When something cannot be read; the archive is of no use then.
    pub fn next(&mut self, reader: &mut impl TreeReader) -> Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        while bytes.len() < CHUNK_LEN && !self.is_finished {
            if let Some(content) = &mut self.content {
                let mut part = Vec::new();
                content.append(reader, CHUNK_LEN - bytes.len(), &mut part)?;
                if part.is_empty() {
                    bytes.append(&mut self.format.end());
                    self.content = None;
                } else {
                    bytes.append(&mut self.format.pass(part));
                }
                continue;
            }
            let next = match self.waiting.pop_front() {
                Some(next) => Some(next),
                None => self.walk.next(reader)?,
            };
            let Some(PathEntry { path, entry }) = next else {
                bytes.append(&mut self.format.finish());
                self.is_finished = true;
                break;
            };
            match self.format.begin(&path, entry)? {
                Some((mut head, content)) => {
                    self.archived.entries += 1;
                    bytes.append(&mut head);
                    self.content = Some(Content::new(content));
                }
                None => self.archived.left_out += 1,
            }
        }
        Ok((!bytes.is_empty()).then_some(bytes))
    }

    /// What was added so far.
    pub fn archived(&self) -> Archived {
        self.archived
    }
}
