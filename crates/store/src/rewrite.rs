//! Snapshots anew, without some of their entries.
//!
//! Only directories that lose something, and those above them, are stored again; all others, and all files, stay where
//! they are.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use crate::client::{Presence, Purpose};
use crate::commit::commit;
use crate::compress::Compression;
use crate::crypto::object_id;
use crate::error::{Error, Result};
use crate::forget;
use crate::id::Id;
use crate::node::{Kind, Node, Piece};
use crate::pack::BlockKind;
use crate::reader::BlockReader;
use crate::repository::Repository;
use crate::snapshot::Snapshot;
use crate::source::exclude::{ExcludeOptions, Excludes};
use crate::sync::{DEPTH_MAX, with_deep_stack};
use crate::tree;
use crate::writer::{Encoder, Writer};

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
pub struct RewriteOptions {
    /// What to leave out: by patterns and size. What looks into directories of a source has no meaning here.
    pub excludes: ExcludeOptions,
    /// Remove the old snapshots.
    pub forget: bool,
    /// Find out what would be left out, and change nothing.
    pub dry_run: bool,
}

/// A snapshot that has something which is excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// It.
    pub old: Id,
    /// The one without; a dry run makes none.
    pub new: Option<Id>,
    /// What it lacks.
    pub excluded: Excluded,
}

/// Makes a snapshot without what is excluded of each that has some of it; with the tag `rewrite` if the old ones stay.
///
/// # Errors
/// Unusable patterns; when a directory cannot be read, or the storage fails. Every snapshot is there then, old or new.
pub fn rewrite(
    repository: &Arc<Repository>,
    snapshots: &[(Id, Snapshot)],
    options: &RewriteOptions,
) -> Result<Vec<Rewritten>> {
    let excludes = Excludes::new(&options.excludes)?;
    let _presence = match options.dry_run {
        true => None,
        false => Some(Presence::announce(repository, Purpose::Backup)?),
    };
    let writer = Writer::new(repository, repository.load_index()?, options.dry_run);
    let mut rewriter = Rewriter {
        repository,
        encoder: writer.encoder(BlockKind::Tree, Compression::AUTO),
        writer: &writer,
        reader: BlockReader::new(repository),
        excludes,
        done: HashMap::new(),
    };
    let rewritten: Result<Vec<_>> = snapshots
        .iter()
        .filter_map(|(id, snapshot)| {
            let rewritten = rewriter.snapshot(*id, snapshot).transpose()?;
            Some(rewritten.map(|(snapshot, excluded)| (*id, snapshot, excluded)))
        })
        .collect();
    let flushed = rewriter.encoder.flush();
    writer.finish()?;
    flushed?;
    let mut done = Vec::new();
    for (old, mut snapshot, excluded) in rewritten? {
        let tag = "rewrite".to_owned();
        if !options.forget && !snapshot.tags.contains(&tag) {
            snapshot.tags.push(tag);
        }
        let new = match options.dry_run {
            true => None,
            // As if nothing were known of removals: what it shares with the old one may have been condemned before.
            false => Some(commit(repository, &snapshot, &BTreeSet::new())?),
        };
        if new.is_some() && options.forget {
            forget::remove(repository, old)?;
        }
        done.push(Rewritten { old, new, excluded });
    }
    Ok(done)
}

/// Writes new directories.
struct Rewriter<'a> {
    repository: &'a Arc<Repository>,
    writer: &'a Writer,
    encoder: Encoder,
    reader: BlockReader,
    excludes: Excludes,
    /// What became of a directory, by its content and its path.
    done: HashMap<Id, (Vec<Piece>, Excluded)>,
}

impl Rewriter<'_> {
    /// The snapshot without what is excluded, and how much that is; nothing if it stays as it is.
    fn snapshot(&mut self, id: Id, snapshot: &Snapshot) -> Result<Option<(Snapshot, Excluded)>> {
        let (root, excluded) =
            with_deep_stack(|| self.directory(Path::new("/"), &snapshot.root, 0))?;
        if excluded == Excluded::default() {
            return Ok(None);
        }
        let mut rewritten = snapshot.clone();
        rewritten.root = root;
        rewritten.original = Some(snapshot.original.unwrap_or(id));
        let total = &mut rewritten.summary.total_bytes;
        *total = total.saturating_sub(excluded.bytes);
        Ok(Some((rewritten, excluded)))
    }

    fn read(&mut self, content: &[Piece]) -> Result<Vec<Node>> {
        let reader = &mut self.reader;
        self.writer
            .with_index(|index| tree::read(reader, index, content))
    }

    fn directory(
        &mut self,
        path: &Path,
        content: &[Piece],
        depth: usize,
    ) -> Result<(Vec<Piece>, Excluded)> {
        let identity = postcard::to_stdvec(content).expect("a content is plain data");
        let identity = object_id(&[&identity, path.as_os_str().as_bytes()]);
        if let Some(done) = self.done.get(&identity) {
            return Ok(done.clone());
        }
        if depth > DEPTH_MAX {
            return Err(Error::damaged("a directory", "it is too deep"));
        }
        let mut excluded = Excluded::default();
        let mut kept = Vec::new();
        for mut node in self.read(content)? {
            let path = path.join(OsStr::from_bytes(&node.name));
            let below = node.directory().cloned();
            let is_file = matches!(node.kind, Kind::File { .. });
            if self.excludes.is_excluded(&path, below.is_some())
                || (is_file && self.excludes.is_too_large(node.size()))
            {
                excluded.entries += 1;
                excluded.bytes += match &below {
                    Some(content) => self.bytes(content, depth + 1)?,
                    None => node.size(),
                };
                continue;
            }
            if let Some(content) = below {
                let (content, below) = self.directory(&path, &content, depth + 1)?;
                excluded.entries += below.entries;
                excluded.bytes += below.bytes;
                node.kind = Kind::Directory { content };
            }
            kept.push(node);
        }
        let content = match excluded == Excluded::default() {
            true => content.to_vec(),
            false => tree::store(self.repository, &mut self.encoder, &kept)?,
        };
        self.done.insert(identity, (content.clone(), excluded));
        Ok((content, excluded))
    }

    /// Bytes of all files below a directory.
    fn bytes(&mut self, content: &[Piece], depth: usize) -> Result<u64> {
        if depth > DEPTH_MAX {
            return Err(Error::damaged("a directory", "it is too deep"));
        }
        let mut bytes = 0;
        for node in self.read(content)? {
            bytes += match node.directory() {
                Some(content) => self.bytes(content, depth + 1)?,
                None => node.size(),
            };
        }
        Ok(bytes)
    }
}
