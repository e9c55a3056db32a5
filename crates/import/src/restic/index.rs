//! Where each blob of a restic repository is.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use serde::Deserialize;
use tabane_storage::Id;

use super::key::OVERHEAD_LEN;
use crate::copy::Place;

/// The places of all blobs of one type.
#[derive(Default)]
pub struct Places {
    first: HashMap<Id, Place>,
    /// Further places of blobs that have several.
    others: HashMap<Id, Vec<Place>>,
}

impl Places {
    /// A place of the blob.
    pub fn find(&self, id: &Id) -> Option<Place> {
        self.first.get(id).copied()
    }

    /// The place of number `attempt`, from 0.
    pub fn find_other(&self, id: &Id, attempt: usize) -> Option<Place> {
        match attempt {
            0 => self.find(id),
            _ => self.others.get(id)?.get(attempt - 1).copied(),
        }
    }

    fn add(&mut self, id: Id, place: Place) {
        match self.first.entry(id) {
            Slot::Vacant(slot) => drop(slot.insert(place)),
            Slot::Occupied(known) => {
                let others = self.others.entry(id).or_default();
                if *known.get() != place && !others.contains(&place) {
                    others.push(place);
                }
            }
        }
    }
}

/// The index of a repository.
#[derive(Default)]
pub struct Index {
    /// Blobs of files.
    pub data: Places,
    /// Blobs of directories.
    pub trees: Places,
    packs: Vec<Pack>,
    numbers: HashMap<Id, u32>,
}

struct Pack {
    id: Id,
    /// Bytes up to the end of the last blob.
    len: u64,
}

/// A file in `index/`.
#[derive(Deserialize)]
struct IndexFile {
    #[serde(default)]
    packs: Vec<IndexedPack>,
}

#[derive(Deserialize)]
struct IndexedPack {
    id: Id,
    #[serde(default)]
    blobs: Vec<IndexedBlob>,
}

#[derive(Deserialize)]
struct IndexedBlob {
    id: Id,
    #[serde(rename = "type")]
    kind: String,
    offset: u32,
    length: u32,
    #[serde(default)]
    uncompressed_length: u32,
}

impl Index {
    /// Adds what a file of the index says.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn add(&mut self, json: &[u8]) -> Result<(), String> {
        let file: IndexFile = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        for pack in file.packs {
            let number = *self.numbers.entry(pack.id).or_insert_with(|| {
                self.packs.push(Pack {
                    id: pack.id,
                    len: 0,
                });
                (self.packs.len() - 1) as u32
            });
            for blob in pack.blobs {
                let Some(plain_len) = blob.length.checked_sub(OVERHEAD_LEN as u32) else {
                    return Err(format!("blob {} of it is too short", blob.id));
                };
                let is_compressed = blob.uncompressed_length > 0;
                let place = Place {
                    file: number,
                    offset: blob.offset.into(),
                    len: blob.length,
                    raw_len: if is_compressed {
                        blob.uncompressed_length
                    } else {
                        plain_len
                    },
                    is_compressed,
                };
                let len = &mut self.packs[number as usize].len;
                *len = place.end().max(*len);
                match blob.kind.as_str() {
                    "data" => self.data.add(blob.id, place),
                    "tree" => self.trees.add(blob.id, place),
                    kind => return Err(format!("it has a blob of the unknown type {kind:?}")),
                }
            }
        }
        Ok(())
    }

    /// Whether it names no pack.
    pub fn is_empty(&self) -> bool {
        self.packs.is_empty()
    }

    /// The path of a pack.
    pub fn pack_path(&self, number: u32) -> String {
        let id = self.packs[number as usize].id.to_string();
        format!("data/{}/{id}", &id[..2])
    }

    /// Bytes of a pack up to the end of its last blob.
    pub fn pack_len(&self, number: u32) -> u64 {
        self.packs[number as usize].len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_in_two_packs_has_two_places() {
        let id = |digit: &str| digit.repeat(64);
        let text = format!(
            r#"{{"packs":[
            {{"id":"{a}","blobs":[{{"id":"{blob}","type":"data","offset":7,"length":40}}]}},
            {{"id":"{b}","blobs":[{{"id":"{blob}","type":"data","offset":0,"length":52,
              "uncompressed_length":900}}]}}]}}"#,
            a = id("a"),
            b = id("b"),
            blob = id("0")
        );
        let mut index = Index::default();
        index.add(text.as_bytes()).expect("an index");
        index.add(text.as_bytes()).expect("an index");
        let blob: Id = id("0").parse().expect("an ID");
        let first = index.data.find(&blob).expect("indexed");
        assert_eq!(
            (first.raw_len, first.end(), first.is_compressed),
            (8, 47, false)
        );
        let other = index.data.find_other(&blob, 1).expect("two places");
        assert_eq!((other.raw_len, other.is_compressed), (900, true));
        assert!(index.data.find_other(&blob, 2).is_none());
        assert!(index.trees.find(&blob).is_none());
        let path = format!("data/bb/{}", id("b"));
        assert_eq!(index.pack_path(other.file), path);
        assert_eq!(index.pack_len(first.file), 47);
    }
}
