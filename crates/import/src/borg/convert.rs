//! Turns borg's archives, which are lists of entries, into directories.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tabane_storage::Id;
use tabane_store::entry::{Entry, Kind, Piece};
use tabane_store::owners::Owners;
use tabane_store::snapshot_writer::SnapshotWriter;
use tabane_store::tally::Tally;
use tabane_store::with_deep_stack;

use super::Chunks;
use super::item::{self, Item};
use super::msgpack::Value;
use crate::Foreign;
use crate::copy::{Copied, Source};
use crate::error::{Result, Sound};
use crate::import::{Program, Root, Target};

/// Levels of directories at most: no system has paths of more.
const DEPTH_MAX: usize = 4096;

/// Converts archives.
pub struct Converter {
    chunks: Arc<Chunks>,
}

impl Program for Converter {
    fn source(&self) -> Arc<dyn Source> {
        Arc::clone(&self.chunks) as _
    }

    fn reach(&mut self, snapshots: &[&Foreign]) -> Result<HashMap<Id, u32>> {
        let mut blocks = HashMap::new();
        for snapshot in snapshots {
            let lost = |_: &str| {};
            self.items(&snapshot.tree, lost, |value| {
                blocks.extend(item::chunks(&value).unwrap_or_default());
            })?;
        }
        Ok(blocks)
    }

    fn convert(&mut self, snapshot: &Foreign, to: &mut Target<'_>) -> Result<Root> {
        // Directories are stored, and forgotten, by recursion.
        with_deep_stack(|| self.convert_here(snapshot, to))
    }
}

impl Converter {
    /// A converter of what is in these chunks.
    pub fn new(chunks: Arc<Chunks>) -> Self {
        Self { chunks }
    }

    /// As [`Program::convert`], on the stack of the caller.
    fn convert_here(&self, snapshot: &Foreign, to: &mut Target<'_>) -> Result<Root> {
        let mut archive = Archive {
            copied: to.copied,
            top: Directory::default(),
            first_names: HashMap::new(),
            owners: Owners::default(),
        };
        let mut errors = 0;
        let mut lost = |path: &Path, why: &str| {
            to.progress.warning(path, why);
            errors += 1;
        };
        let mut parts = Vec::new();
        let whole = |why: &str| parts.push(why.to_owned());
        self.items(&snapshot.tree, whole, |value| {
            let (path, read) = Item::read(&value);
            let is_healed = value.get("chunks_healthy").is_some();
            let added = read.and_then(|item| {
                if is_healed {
                    Err("a part of it was lost there, and replaced by zeros".to_owned())
                } else {
                    archive.add(item)
                }
            });
            if let Err(why) = added {
                lost(&path, &why);
            }
        })?;
        parts.iter().for_each(|why| lost(Path::new("/"), why));
        let paths = archive.top.roots(Path::new("/"));
        let mut tally = Tally::default();
        let content = archive.top.store(to.writer, &mut tally)?;
        tally.errors += errors;
        tally.write_to(to.summary);
        Ok(Root {
            content,
            owners: archive.owners,
            paths: Some(paths),
        })
    }

    /// Hands over the items of an archive; `lost` hears of parts of the list that are lost.
    fn items(
        &self,
        archive: &Id,
        mut lost: impl FnMut(&str),
        mut item: impl FnMut(Value),
    ) -> Result<()> {
        let archive = match self.chunks.value(archive)? {
            Ok(archive) => archive,
            Err(why) => {
                lost(&why);
                return Ok(());
            }
        };
        let (mut bytes, mut is_torn) = (Vec::new(), false);
        for id in archive.list("items") {
            let id = match id {
                Value::Bytes(id) => id[..].try_into().ok().map(Id),
                _ => None,
            };
            let read = match id {
                Some(id) => self.chunks.bytes(&id)?,
                None => Err("a chunk of its list of entries has no ID".to_owned()),
            };
            match read {
                Ok(more) => bytes.extend(more),
                Err(why) => {
                    lost(&format!("a part of the list of entries is lost: {why}"));
                    (bytes, is_torn) = (Vec::new(), true);
                    continue;
                }
            }
            let mut at = 0;
            loop {
                let rest = &bytes[at..];
                match Value::read(rest) {
                    Ok(Some((value, behind))) if is_item(&value) => {
                        at = bytes.len() - behind.len();
                        is_torn = false;
                        item(value);
                    }
                    Ok(None) if !is_torn => break,
                    // Behind a loss, the first bytes are of an item that began before it.
                    _ if is_torn && !rest.is_empty() => at += 1,
                    _ if rest.is_empty() => break,
                    _ => {
                        lost("a part of the list of entries cannot be understood");
                        is_torn = true;
                    }
                }
            }
            bytes.drain(..at);
        }
        if !bytes.is_empty() && !is_torn {
            lost("the list of entries is cut short");
        }
        Ok(())
    }
}

/// Whether a value describes an entry.
fn is_item(value: &Value) -> bool {
    value.bytes("path").is_some() && value.int("mode").is_some()
}

/// An archive that is being put together.
struct Archive<'a> {
    copied: &'a Copied,
    top: Directory,
    /// The contents of files that may have further names.
    first_names: HashMap<PathBuf, Kind>,
    owners: Owners,
}

/// A directory that is not stored yet.
#[derive(Default)]
struct Directory {
    /// Its own entry; nothing for the root, and for directories of which the archive has none.
    entry: Option<Entry>,
    directories: BTreeMap<Vec<u8>, Directory>,
    others: BTreeMap<Vec<u8>, Entry>,
}

impl Archive<'_> {
    fn add(&mut self, item: Item) -> Sound<()> {
        let Item {
            path,
            mut entry,
            chunks,
            link,
            names: [user, group],
        } = item;
        if let Some(user) = user.filter(|name| !name.is_empty()) {
            self.owners.users.insert(entry.uid, user);
        }
        if let Some(group) = group.filter(|name| !name.is_empty()) {
            self.owners.groups.insert(entry.gid, group);
        }
        if let Kind::File { content, .. } = &mut entry.kind {
            match (&chunks, &link) {
                (Some(chunks), _) => *content = pieces(self.copied, chunks)?,
                (None, Some(first)) => {
                    let first = self.first_names.get(first);
                    let lost = || "the first name of this file is not in the archive".to_owned();
                    entry.kind = first.cloned().ok_or_else(lost)?;
                }
                (None, None) => {}
            }
        }
        if entry.hard_link.is_some() && link.is_none() {
            self.first_names.insert(path.clone(), entry.kind.clone());
        }
        let above = path.parent().unwrap_or(Path::new("/"));
        let names = above.components().skip(1);
        if names.clone().count() > DEPTH_MAX {
            return Err("it is too deep".to_owned());
        }
        let mut directory = &mut self.top;
        for name in names {
            let name = name.as_os_str().as_encoded_bytes().to_vec();
            directory = directory.directories.entry(name).or_default();
        }
        if entry.name.is_empty() {
            // The root itself has no attributes.
            return Ok(());
        }
        let name = entry.name.clone();
        match entry.kind {
            Kind::Directory { .. } => {
                directory.directories.entry(name).or_default().entry = Some(entry);
            }
            _ => drop(directory.others.insert(name, entry)),
        }
        Ok(())
    }
}

impl Directory {
    /// The paths that were archived: the highest ones with an entry.
    fn roots(&self, path: &Path) -> Vec<String> {
        let mut roots = Vec::new();
        let name = |name: &Vec<u8>| path.join(String::from_utf8_lossy(name).as_ref());
        for (below, directory) in &self.directories {
            match directory.entry {
                Some(_) => roots.push(name(below).display().to_string()),
                None => roots.extend(directory.roots(&name(below))),
            }
        }
        roots.extend(
            self.others
                .keys()
                .map(|other| name(other).display().to_string()),
        );
        roots.sort();
        roots
    }

    /// Stores it and all below; returns its content.
    fn store(self, writer: &mut SnapshotWriter, tally: &mut Tally) -> Result<Vec<Piece>> {
        let mut entries = self.others;
        for (name, below) in self.directories {
            let mut entry = below.attributes();
            let content = below.store(writer, tally)?;
            entry.name.clone_from(&name);
            entry.kind = Kind::Directory { content };
            entries.insert(name, entry);
        }
        let entries: Vec<Entry> = entries.into_values().collect();
        entries.iter().for_each(|entry| tally.add(entry));
        Ok(writer.store_directory(&entries)?)
    }

    /// The directory's entry; if the archive has none, as of a directory above what was archived,
    /// one with the attributes of the first directory below it.
    fn attributes(&self) -> Entry {
        let below = || {
            let found = self.directories.values().next().map(Self::attributes);
            let mut found = found.or_else(|| self.others.values().next().cloned());
            if let Some(entry) = &mut found {
                entry.mode = 0o755;
                entry.xattrs.clear();
                entry.hard_link = None;
                entry.flags = Default::default();
            }
            found
        };
        let entry = self.entry.clone().or_else(below);
        entry.expect("a directory has an entry, or something in it")
    }
}

/// The content of a file.
///
/// # Errors
/// Why it is lost.
fn pieces(copied: &Copied, chunks: &[(Id, u32)]) -> Sound<Vec<Piece>> {
    chunks
        .iter()
        .map(|(chunk, len)| copied.piece(chunk, *len))
        .collect()
}
