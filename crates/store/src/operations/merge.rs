//! Makes one snapshot of several.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use crate::access::client::{Presence, Purpose};
use crate::access::deep_stack::{DEPTH_MAX, with_deep_stack};
use crate::access::reader::BlockReader;
use crate::access::repository::Repository;
use crate::access::writer::{Encoder, Writer};
use crate::operations::commit::commit;
use jiff::Timestamp;
use tabane_format::compress::Compression;
use tabane_format::entry::{Entry, Kind, Piece};
use tabane_format::host;
use tabane_format::owners::Owners;
use tabane_format::pack::BlockKind;
use tabane_format::snapshot::{Snapshot, Summary};
use tabane_format::tally::Tally;
use tabane_format::{Error, Result};
use tabane_storage::Id;

impl Repository {
    /// Makes a snapshot that has everything of `snapshots`. Of files with the same path, the one
    /// that was changed last is taken, and of two that were changed at the same time the one of the
    /// later snapshot. Directories get the attributes of the one that was changed last. The tags
    /// are those of all, and `tags`. Returns its ID; nothing in a dry run.
    ///
    /// # Errors
    /// [`Error::Invalid`] with fewer than two snapshots; damage; when the storage fails.
    pub fn merge(
        &self,
        snapshots: &[(Id, Snapshot)],
        tags: &[String],
        dry_run: bool,
    ) -> Result<(Option<Id>, Snapshot)> {
        let start = Timestamp::now();
        let different: BTreeSet<&Id> = snapshots.iter().map(|(id, _)| id).collect();
        if different.len() < 2 {
            let text = match different.len() {
                0 => "there is no snapshot to merge",
                _ => "one snapshot alone is nothing to merge",
            };
            return Err(Error::Invalid(text.to_owned()));
        }
        let _presence = if dry_run {
            None
        } else {
            Some(Presence::announce(self, Purpose::Backup)?)
        };
        let index = self.load_index()?;
        let mut sorted: Vec<&(Id, Snapshot)> = snapshots.iter().collect();
        sorted.sort_by_key(|(id, snapshot)| snapshot.order(*id));
        let sorted: Vec<&Snapshot> = sorted.into_iter().map(|(_, snapshot)| snapshot).collect();
        let writer = Writer::new(self, index, dry_run);
        let mut merger = Merger {
            encoder: writer.encoder(BlockKind::Tree, Compression::AUTO),
            reader: BlockReader::new(self),
            writer: &writer,
            done: HashMap::new(),
        };
        let roots = sorted
            .iter()
            .map(|snapshot| snapshot.root.clone())
            .collect();
        let root = with_deep_stack(|| merger.directory(Path::new("/"), roots, 0));
        let Merger { encoder, .. } = merger;
        let flushed = encoder.flush();
        let written = writer.finish()?;
        flushed?;
        let (root, tally) = root?;
        let paths: BTreeSet<&String> = sorted.iter().flat_map(|found| &found.paths).collect();
        let mut all_tags = Vec::new();
        for tag in sorted.iter().flat_map(|found| &found.tags).chain(tags) {
            if !all_tags.contains(tag) {
                all_tags.push(tag.clone());
            }
        }
        let mut owners = Owners::default();
        for found in sorted.iter().filter_map(|found| found.owners.as_ref()) {
            owners.users.extend(found.users.clone());
            owners.groups.extend(found.groups.clone());
        }
        let here = host::describe();
        let same_host = sorted
            .iter()
            .all(|found| found.hostname == sorted[0].hostname);
        let last = sorted[sorted.len() - 1];
        let snapshot = Snapshot {
            // No backup is newer for it.
            time: last.time,
            hostname: if same_host {
                sorted[0].hostname.clone()
            } else {
                here.hostname
            },
            username: here.username,
            paths: paths.into_iter().cloned().collect(),
            tags: all_tags,
            description: None,
            retention: None,
            parent: None,
            original: None,
            // Later than the last one, of the same time.
            changes: last.changes + 1,
            writer: None,
            root,
            owners: (self.format() > 1).then_some(owners),
            program_version: concat!("tabane ", env!("CARGO_PKG_VERSION")).to_owned(),
            summary: Summary {
                start: sorted
                    .iter()
                    .map(|found| found.summary.start)
                    .min()
                    .unwrap_or(start),
                end: Timestamp::now(),
                files_unmodified: tally.files,
                directories: tally.directories,
                others: tally.others,
                total_bytes: tally.bytes,
                errors: sorted.iter().map(|found| found.summary.errors).sum(),
                added_bytes: written.added_bytes,
                stored_bytes: written.stored_bytes,
                blocks_new: written.blocks_new,
                blocks_duplicate: written.blocks_duplicate,
                ..Summary::default()
            },
        };
        if dry_run {
            return Ok((None, snapshot));
        }
        // What it needs was not looked up; with no removal known, all of it is if there is one.
        let id = commit(self, &snapshot, &BTreeSet::new(), None)?;
        Ok((Some(id), snapshot))
    }
}

/// Merges directories.
struct Merger<'a> {
    writer: &'a Writer,
    encoder: Encoder,
    reader: BlockReader,
    /// Merged directories, by what they were merged of.
    done: HashMap<Vec<Vec<Piece>>, (Vec<Piece>, Tally)>,
}

impl Merger<'_> {
    /// Merges directories of these contents, oldest snapshot first.
    fn directory(
        &mut self,
        path: &Path,
        mut contents: Vec<Vec<Piece>>,
        depth: usize,
    ) -> Result<(Vec<Piece>, Tally)> {
        if depth > DEPTH_MAX {
            return Err(Error::damaged("a directory", "it is too deep"));
        }
        // Of equal ones the last is as good as all.
        let mut seen = BTreeSet::new();
        contents.reverse();
        contents.retain(|content| seen.insert(postcard::to_stdvec(content).unwrap_or_default()));
        contents.reverse();
        if let Some(done) = self.done.get(&contents) {
            return Ok(done.clone());
        }
        let mut named: BTreeMap<Vec<u8>, Vec<Entry>> = BTreeMap::new();
        for content in &contents {
            let reader = &mut self.reader;
            let entries = self
                .writer
                .with_index(|index| reader.read_directory(index, content))?;
            for entry in entries {
                named.entry(entry.name.clone()).or_default().push(entry);
            }
        }
        let mut tally = Tally::default();
        let mut merged = Vec::with_capacity(named.len());
        for (_, entries) in named {
            merged.push(self.entry(path, entries, &mut tally, depth)?);
        }
        let content = match &contents[..] {
            [only] => only.clone(),
            _ => self.encoder.store_directory(&merged)?,
        };
        self.done.insert(contents, (content.clone(), tally));
        Ok((content, tally))
    }

    /// Merges entries of one name.
    fn entry(
        &mut self,
        above: &Path,
        entries: Vec<Entry>,
        tally: &mut Tally,
        depth: usize,
    ) -> Result<Entry> {
        // Of several with the highest time, the last.
        let newest = entries.iter().max_by_key(|entry| entry.mtime);
        let mut newest = newest.expect("there is one at least").clone();
        if let Kind::Directory { content } = &mut newest.kind {
            let below = entries
                .iter()
                .filter_map(Entry::directory)
                .cloned()
                .collect();
            let path = above.join(PathBuf::from(
                String::from_utf8_lossy(&newest.name).into_owned(),
            ));
            let counted;
            (*content, counted) = self.directory(&path, below, depth + 1)?;
            *tally += counted;
        }
        tally.add(&newest);
        Ok(newest)
    }
}
