//! Segments: logs of chunks that were put and deleted.

use std::collections::HashMap;

use tabane_storage::{Files, Id, StorageErrorKind};

use crate::copy::Place;
use crate::error::{Error, Result, read_range};

const MAGIC: &[u8] = b"BORG_SEG";
/// Checksum, length and tag of an entry.
const HEADER_LEN: u64 = 9;
/// Bytes of a key.
const KEY_LEN: u64 = 32;

const PUT: u8 = 0;
const DELETE: u8 = 1;
const COMMIT: u8 = 2;

/// Read at once while entries are looked for.
const READ_LEN: u64 = 4 << 20;

/// Where the chunks of a repository are.
#[derive(Default)]
pub struct Segments {
    places: HashMap<Id, Place>,
    /// Paths of segments, by the number in places.
    paths: Vec<String>,
    /// What is damaged or missing: the path, and why.
    damage: Vec<(String, String)>,
}

/// What an entry does.
enum Change {
    Put(Id, Place),
    Delete(Id),
}

impl Segments {
    /// Reads the heads of all entries, up to the last commit. What a damaged segment has behind the
    /// damage is passed over.
    ///
    /// # Errors
    /// When the place fails.
    pub fn read(files: &dyn Files) -> Result<Self> {
        let mut listed: Vec<(u64, String, u64)> = Vec::new();
        // Beside the segments is an index of what the last transaction left, with its number.
        let mut indexes = Vec::new();
        for (path, len) in files.list("").map_err(Error::storage("the repository"))? {
            let number = |text: &str| text.parse::<u64>().ok();
            if let Some(segment) = path.strip_prefix("data/") {
                let number = segment.rsplit('/').next().and_then(number);
                listed.extend(number.map(|number| (number, path.clone(), len)));
            } else if let Some(number) = path.strip_prefix("index.").and_then(number) {
                indexes.push((number, path));
            }
        }
        listed.sort();
        let mut segments = Self::default();
        let mut changes = Vec::new();
        let mut last_commit = 0;
        for (number, path, len) in listed {
            let file = segments.paths.len() as u32;
            let scanned = scan(files, &path, len, file, |tag, id, place| match tag {
                PUT => changes.push(Change::Put(id, place)),
                DELETE => changes.push(Change::Delete(id)),
                // What comes behind the last one was never finished.
                _ => {
                    changes.drain(..).for_each(|change| segments.apply(change));
                    last_commit = number;
                }
            });
            match scanned {
                // A program that was killed leaves an empty one.
                Err(Error::Damaged { .. }) if len == 0 => {}
                Err(Error::Damaged { what, why }) => segments.damage.push((what, why)),
                scanned => scanned?,
            }
            segments.paths.push(path);
        }
        let later = indexes
            .into_iter()
            .filter(|(number, _)| *number > last_commit);
        for (_, path) in later {
            let why = "it says that something was added later, whose segment is not there";
            segments.damage.push((path, why.to_owned()));
        }
        Ok(segments)
    }

    /// What is damaged or missing: the path, and why.
    pub fn damage(&self) -> &[(String, String)] {
        &self.damage
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Put(id, place) => drop(self.places.insert(id, place)),
            Change::Delete(id) => drop(self.places.remove(&id)),
        }
    }

    /// Where a chunk is.
    pub fn find(&self, id: &Id) -> Option<Place> {
        self.places.get(id).copied()
    }

    /// The path of a segment.
    pub fn path(&self, file: u32) -> String {
        self.paths[file as usize].clone()
    }

    /// The sealed bytes of a chunk. `Ok(Err(…))` says why they are lost.
    ///
    /// # Errors
    /// When the place fails.
    pub fn chunk(&self, files: &dyn Files, id: &Id) -> Result<crate::error::Sound> {
        match self.find(id) {
            Some(place) => read_range(files, &self.path(place.file), place.offset..place.end()),
            None => Ok(Err(format!("chunk {id} is not in the repository"))),
        }
    }
}

/// Tells of each entry of a segment: its tag, its key, and where its chunk is.
fn scan(
    files: &dyn Files,
    path: &str,
    len: u64,
    file: u32,
    mut entry: impl FnMut(u8, Id, Place),
) -> Result<()> {
    let mut window = Window {
        files,
        path,
        len,
        start: 0,
        bytes: Vec::new(),
    };
    if window.at(0, MAGIC.len() as u64)? != Some(MAGIC) {
        return Err(Error::damaged(
            path,
            "it does not begin as a segment of borg",
        ));
    }
    let mut at = MAGIC.len() as u64;
    // An entry that is cut short belongs to nothing that was finished.
    while let Some(head) = window.at(at, HEADER_LEN)? {
        let size = u32::from_le_bytes(head[4..8].try_into().expect("four bytes"));
        let (size, tag) = (u64::from(size), head[8]);
        let fixed = match tag {
            PUT | DELETE => HEADER_LEN + KEY_LEN,
            COMMIT => HEADER_LEN,
            _ => {
                return Err(Error::damaged(
                    path,
                    format!("it has an entry of the kind {tag}"),
                ));
            }
        };
        let is_right = size >= fixed && (tag == PUT || size == fixed);
        if !is_right {
            return Err(Error::damaged(path, "an entry of it has a wrong length"));
        }
        if at + size > len {
            break;
        }
        let mut id = Id::default();
        if tag != COMMIT {
            let Some(key) = window.at(at + HEADER_LEN, KEY_LEN)? else {
                break;
            };
            id.0.copy_from_slice(key);
        }
        let place = Place {
            file,
            offset: at + fixed,
            len: (size - fixed) as u32,
            raw_len: 0,
            is_compressed: false,
        };
        entry(tag, id, place);
        at += size;
    }
    Ok(())
}

/// A part of a file that is read ahead.
struct Window<'a> {
    files: &'a dyn Files,
    path: &'a str,
    len: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// Bytes of the file; nothing if it ends before.
    fn at(&mut self, offset: u64, len: u64) -> Result<Option<&[u8]>> {
        if offset + len > self.len {
            return Ok(None);
        }
        let end = self.start + self.bytes.len() as u64;
        if offset < self.start || offset + len > end {
            let range = offset..(offset + READ_LEN).min(self.len);
            let read = self.files.read(self.path, Some(range));
            self.bytes = match read {
                Err(error) if error.kind() == StorageErrorKind::PastEnd => return Ok(None),
                read => read.map_err(Error::storage(self.path))?,
            };
            self.start = offset;
        }
        let from = (offset - self.start) as usize;
        Ok(Some(&self.bytes[from..from + len as usize]))
    }
}
