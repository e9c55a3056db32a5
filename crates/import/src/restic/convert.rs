//! Turns directories of restic into Tabane's.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tabane_storage::Id;
use tabane_store::entry::{Entry, Kind, Piece};
use tabane_store::owners::Owners;
use tabane_store::tally::Tally;

use super::blobs::{Blobs, TreeReader};
use super::node::{Links, Node, Tree};
use crate::Foreign;
use crate::copy::{Copied, Source};
use crate::error::{Result, Sound};
use crate::import::{Program, Root, Target};

/// Stores directories of restic as directories of Tabane, each once.
pub struct Converter {
    blobs: Arc<Blobs>,
    reader: TreeReader,
    done: HashMap<Id, Done>,
    owners: Vec<Owner>,
    owner_numbers: HashMap<Owner, u32>,
}

/// A directory that is stored.
#[derive(Clone, Default)]
struct Done {
    content: Vec<Piece>,
    tally: Tally,
    /// Numbers in [`Converter::owners`] of those who own something in it.
    owners: BTreeSet<u32>,
}

/// A user or a group with a name.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Owner {
    is_group: bool,
    number: u32,
    name: String,
}

/// A directory whose entries are being converted.
struct Open {
    id: Id,
    path: PathBuf,
    /// The directory's own entry; nothing for the root.
    entry: Option<Entry>,
    nodes: std::vec::IntoIter<Node>,
    entries: Vec<Entry>,
    tally: Tally,
    owners: BTreeSet<u32>,
}

impl Program for Converter {
    fn source(&self) -> Arc<dyn Source> {
        Arc::clone(&self.blobs) as _
    }

    fn reach(&mut self, snapshots: &[&Foreign]) -> Result<HashMap<Id, u32>> {
        let (mut blobs, mut seen) = (HashMap::new(), HashSet::new());
        for snapshot in snapshots {
            let mut trees = vec![snapshot.tree];
            while let Some(tree) = trees.pop() {
                if !seen.insert(tree) {
                    continue;
                }
                let Ok(bytes) = self.reader.read(tree)? else {
                    continue;
                };
                let Ok(links) = serde_json::from_slice::<Links>(&bytes) else {
                    continue;
                };
                for node in links.nodes.into_iter().rev() {
                    let places = &self.blobs.index.data;
                    let len = |blob: &Id| places.find(blob).map_or(0, |place| place.raw_len);
                    blobs.extend(node.content.into_iter().map(|blob| (blob, len(&blob))));
                    trees.extend(node.subtree);
                }
            }
        }
        Ok(blobs)
    }

    fn convert(&mut self, snapshot: &Foreign, to: &mut Target<'_>) -> Result<Root> {
        let done = match self.done.get(&snapshot.tree) {
            Some(done) => done.clone(),
            None => self.convert_new(snapshot.tree, to)?,
        };
        done.tally.write_to(to.summary);
        let mut owners = Owners::default();
        for number in done.owners {
            let owner = &self.owners[number as usize];
            let names = if owner.is_group {
                &mut owners.groups
            } else {
                &mut owners.users
            };
            names.insert(owner.number, owner.name.clone());
        }
        Ok(Root {
            content: done.content,
            owners,
            paths: None,
        })
    }
}

impl Converter {
    /// A converter of what is in these blobs.
    pub fn new(blobs: Arc<Blobs>) -> Self {
        Self {
            reader: TreeReader::new(Arc::clone(&blobs)),
            blobs,
            done: HashMap::new(),
            owners: Vec::new(),
            owner_numbers: HashMap::new(),
        }
    }

    /// Works through directories with a stack of its own: there may be very many levels.
    fn convert_new(&mut self, root: Id, to: &mut Target<'_>) -> Result<Done> {
        let mut stack = vec![self.open(root, PathBuf::from("/"), None, to)?];
        loop {
            let open = stack.last_mut().expect("the root is last");
            if let Some(node) = open.nodes.next() {
                if let Some((id, path, entry)) = self.add(node, open, to) {
                    let below = self.open(id, path, Some(entry), to)?;
                    stack.push(below);
                }
                continue;
            }
            let mut complete = stack.pop().expect("it was the last");
            complete.entries.sort_by(|a, b| a.name.cmp(&b.name));
            complete
                .entries
                .dedup_by(|later, earlier| later.name == earlier.name);
            let done = Done {
                content: to.writer.store_directory(&complete.entries)?,
                tally: complete.tally,
                owners: complete.owners,
            };
            self.done.insert(complete.id, done.clone());
            match (stack.last_mut(), complete.entry) {
                (Some(above), Some(entry)) => above.take(entry, &done),
                _ => return Ok(done),
            }
        }
    }

    /// Begins a directory. If it is lost, it is empty.
    fn open(
        &mut self,
        id: Id,
        path: PathBuf,
        entry: Option<Entry>,
        to: &Target<'_>,
    ) -> Result<Open> {
        let mut tally = Tally::default();
        let tree = self.reader.read(id)?.and_then(|bytes| {
            let tree: std::result::Result<Tree, _> = serde_json::from_slice(&bytes);
            tree.map_err(|error| format!("its list of entries cannot be read: {error}"))
        });
        let nodes = tree.map(|tree| tree.nodes).unwrap_or_else(|why| {
            to.progress.warning(&path, &why);
            tally.errors += 1;
            Vec::new()
        });
        Ok(Open {
            id,
            path,
            entry,
            entries: Vec::with_capacity(nodes.len()),
            nodes: nodes.into_iter(),
            tally,
            owners: BTreeSet::new(),
        })
    }

    /// Adds an entry to a directory; returns a directory below that is to be converted first.
    fn add(
        &mut self,
        node: Node,
        above: &mut Open,
        to: &Target<'_>,
    ) -> Option<(Id, PathBuf, Entry)> {
        let lost = |above: &mut Open, path: &Path, why: &str| {
            to.progress.warning(path, why);
            above.tally.errors += 1;
        };
        let name = match node.name() {
            Ok(name) => name,
            Err(why) => {
                lost(above, &above.path.clone(), &why);
                return None;
            }
        };
        let path = above.path.join(OsStr::from_bytes(&name));
        let mut entry = match node.entry(name) {
            Ok(entry) => entry,
            Err(why) => {
                lost(above, &path, &why);
                return None;
            }
        };
        for (is_group, (number, name)) in [false, true].into_iter().zip(node.owners()) {
            if !name.is_empty() {
                let owner = Owner {
                    is_group,
                    number,
                    name: name.to_owned(),
                };
                above.owners.insert(self.number(owner));
            }
        }
        match &mut entry.kind {
            Kind::Directory { .. } => {
                let Some(id) = node.subtree else {
                    lost(above, &path, "it has no list of entries");
                    above.take(entry, &Done::default());
                    return None;
                };
                match self.done.get(&id) {
                    Some(done) => above.take(entry, done),
                    None => return Some((id, path, entry)),
                }
                return None;
            }
            Kind::File { size, content } => {
                match pieces(&self.blobs, to.copied, &node.content, *size) {
                    Ok(pieces) => *content = pieces,
                    Err(why) => {
                        lost(above, &path, &why);
                        return None;
                    }
                }
            }
            _ => {}
        }
        above.tally.add(&entry);
        above.entries.push(entry);
        None
    }

    fn number(&mut self, owner: Owner) -> u32 {
        if let Some(number) = self.owner_numbers.get(&owner) {
            return *number;
        }
        let number = self.owners.len() as u32;
        self.owners.push(owner.clone());
        self.owner_numbers.insert(owner, number);
        number
    }
}

impl Open {
    /// Adds a directory that is stored.
    fn take(&mut self, mut entry: Entry, done: &Done) {
        entry.kind = Kind::Directory {
            content: done.content.clone(),
        };
        self.tally += done.tally;
        self.tally.add(&entry);
        self.owners.extend(&done.owners);
        self.entries.push(entry);
    }
}

/// The content of a file of `size` bytes.
///
/// # Errors
/// Why it is lost.
fn pieces(blobs: &Blobs, copied: &Copied, content: &[Id], size: u64) -> Sound<Vec<Piece>> {
    let mut pieces = Vec::with_capacity(content.len());
    let mut sum = 0;
    for blob in content {
        let place = blobs.index.data.find(blob);
        let place = place.ok_or_else(|| format!("its block {blob} is not in the index"))?;
        sum += u64::from(place.raw_len);
        pieces.push(copied.piece(blob, place.raw_len)?);
    }
    if sum == size {
        Ok(pieces)
    } else {
        Err(format!(
            "its blocks have {sum} bytes in all, and it should have {size}"
        ))
    }
}
