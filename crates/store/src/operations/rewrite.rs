//! Snapshots anew, without some of their entries, or with another host or time.

use std::ffi::OsStr;
use std::ops::AddAssign;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use jiff::Timestamp;

use crate::access::client::{Presence, Purpose};
use crate::access::deep_stack::DEPTH_MAX;
use crate::access::repository::Repository;
use crate::operations::edit::{Edit, Trees, edit};
use tabane_format::entry::{Entry, Kind, Piece};
use tabane_format::snapshot::Snapshot;
use tabane_format::{Error, Result};
use tabane_patterns::{ExcludeOptions, Excludes, IncludeOptions, Includes, Selection};
use tabane_storage::Id;

/// What is left out of a directory and everything below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Excluded {
    /// Entries that match; what is in a directory that matches is not counted.
    pub entries: u64,
    /// Bytes of files that are left out.
    pub bytes: u64,
}

/// How to rewrite.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RewriteOptions {
    /// What to leave out: by patterns and size. What looks into directories of a source has no
    /// meaning here.
    pub excludes: ExcludeOptions,
    /// What to keep; everything without any patterns. Directories are kept only with something in
    /// them that is.
    pub includes: IncludeOptions,
    /// The name of the machine in the new snapshots, instead of their own.
    pub hostname: Option<String>,
    /// The time of the new snapshots, instead of their own.
    pub time: Option<Timestamp>,
    /// Remove the old snapshots.
    pub forget: bool,
    /// Find out what would be left out, and change nothing.
    pub dry_run: bool,
}

tabane_storage::setters!(RewriteOptions {
    set => excludes: ExcludeOptions,
    set => includes: IncludeOptions,
    into => hostname: Option<String>,
    into => time: Option<Timestamp>,
    set => forget: bool,
    set => dry_run: bool,
});

/// A snapshot of which something was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// ID of the snapshot as it was.
    pub old: Id,
    /// The one without; a dry run makes none.
    pub new: Option<Id>,
    /// What it lacks.
    pub excluded: Excluded,
}

impl Repository {
    /// Makes a snapshot without what is excluded of each that has some of it, or has another host
    /// or
    /// time than wanted; with the tag `rewrite` if the old ones stay.
    ///
    /// # Errors
    /// Unusable patterns; when a directory cannot be read, or the storage fails. Every snapshot is
    /// there then, old or new.
    pub fn rewrite(
        &self,
        options: &RewriteOptions,
        snapshots: &[(Id, Snapshot)],
    ) -> Result<Vec<Rewritten>> {
        let mut exclusion = Exclusion {
            excludes: Excludes::new(&options.excludes).map_err(Error::pattern)?,
            includes: Includes::new(&options.includes).map_err(Error::pattern)?,
            options,
            tag: !options.forget,
        };
        let _presence = if options.dry_run {
            None
        } else {
            Some(Presence::announce(self, Purpose::Backup)?)
        };
        let index = self.load_index()?;
        let edited = edit(
            self,
            index,
            snapshots,
            &mut exclusion,
            options.forget,
            options.dry_run,
        )?;
        let rewritten = edited.into_iter().map(|edited| Rewritten {
            old: edited.old,
            new: edited.new,
            excluded: edited.changes,
        });
        Ok(rewritten.collect())
    }
}

impl AddAssign for Excluded {
    fn add_assign(&mut self, other: Self) {
        self.entries += other.entries;
        self.bytes += other.bytes;
    }
}

/// Leaves entries out.
struct Exclusion<'a> {
    excludes: Excludes,
    includes: Includes,
    options: &'a RewriteOptions,
    /// Whether new snapshots get a tag.
    tag: bool,
}

impl Exclusion<'_> {
    /// Whether anything of an entry is kept, if `parent` is chosen of the directory that it is in.
    fn keeps(
        &self,
        trees: &mut Trees<'_>,
        path: &Path,
        entry: &Entry,
        parent: Selection,
    ) -> Result<bool> {
        let selection = self
            .includes
            .select(path, entry.directory().is_some(), parent);
        let content = match (selection, entry.directory()) {
            (Selection::Take, _) => return Ok(true),
            (Selection::Enter, Some(content)) => content,
            _ => return Ok(false),
        };
        if path.components().count() > DEPTH_MAX {
            return Err(Error::damaged("a directory", "it is too deep"));
        }
        for entry in trees.read(content)? {
            let path = path.join(OsStr::from_bytes(&entry.name));
            if self.keeps(trees, &path, &entry, selection)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Edit for Exclusion<'_> {
    type Changes = Excluded;

    fn directory(
        &mut self,
        trees: &mut Trees<'_>,
        path: &Path,
        content: &[Piece],
    ) -> Result<(Vec<Entry>, Excluded)> {
        let mut excluded = Excluded::default();
        let mut kept = Vec::new();
        let selection = self.includes.select_directory(path);
        for entry in trees.read(content)? {
            let path = path.join(OsStr::from_bytes(&entry.name));
            let is_file = matches!(entry.kind, Kind::File { .. });
            if self
                .excludes
                .is_excluded(&path, entry.directory().is_some())
                || (is_file && self.excludes.is_too_large(entry.size()))
                || !self.keeps(trees, &path, &entry, selection)?
            {
                excluded.entries += 1;
                excluded.bytes += bytes(trees, &entry, path.components().count())?;
            } else {
                kept.push(entry);
            }
        }
        if kept.is_empty() && path == Path::new("/") {
            // A snapshot of which nothing would stay is left as it is.
            excluded = Excluded::default();
        }
        Ok((kept, excluded))
    }

    fn is_otherwise(&self, snapshot: &Snapshot) -> bool {
        let hostname = self.options.hostname.as_ref();
        hostname.is_some_and(|hostname| *hostname != snapshot.hostname)
            || self.options.time.is_some_and(|time| time != snapshot.time)
    }

    fn snapshot(&self, snapshot: &mut Snapshot, excluded: &Excluded) {
        if let Some(hostname) = &self.options.hostname {
            snapshot.hostname.clone_from(hostname);
        }
        snapshot.time = self.options.time.unwrap_or(snapshot.time);
        if self.tag {
            snapshot.add_tag("rewrite");
        }
        let total = &mut snapshot.summary.total_bytes;
        *total = total.saturating_sub(excluded.bytes);
    }
}

/// Bytes of a file, or of all files below a directory.
fn bytes(trees: &mut Trees<'_>, entry: &Entry, depth: usize) -> Result<u64> {
    let Some(content) = entry.directory() else {
        return Ok(entry.size());
    };
    if depth > DEPTH_MAX {
        return Err(Error::damaged("a directory", "it is too deep"));
    }
    let mut sum = 0;
    for entry in trees.read(content)? {
        sum += bytes(trees, &entry, depth + 1)?;
    }
    Ok(sum)
}
