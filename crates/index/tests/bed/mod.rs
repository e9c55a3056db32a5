//! A repository's index objects in memory, and keys that only detect changes.

use std::collections::{BTreeMap, HashSet};

use tabane_index::{
    Codec, Error, IndexObjects, IndexSegment, PackContents, PackKind, PageKey, PageKeys, Removed,
    Segment, TAG_LEN,
};
use tabane_storage::{Id, object_id};

/// Index objects by name. All packs that they name are there.
#[derive(Default)]
pub struct Objects {
    objects: BTreeMap<Id, IndexSegment>,
    keys: Keys,
}

impl Objects {
    /// Adds an index object.
    pub fn add(&mut self, packs: IndexSegment) {
        let name = id(u8::MAX - self.objects.len() as u8);
        self.objects.insert(name, packs);
    }
}

/// An ID that consists of one byte, over and over.
pub fn id(byte: u8) -> Id {
    Id([byte; 32])
}

/// A pack of segments with the given blocks, each one byte long.
pub fn pack(segments: &[&[u8]]) -> PackContents {
    let segment = |blocks: &&[u8]| Segment {
        stored_len: 100,
        codec: Codec::Stored,
        blocks: blocks.iter().map(|&byte| (id(byte), 1)).collect(),
    };
    PackContents {
        salt: [0; 32],
        kind: PackKind::Data,
        segments: segments.iter().map(segment).collect(),
    }
}

impl IndexObjects for Objects {
    type Error = Error;

    fn repository(&self) -> Id {
        id(0)
    }

    fn keys(&self) -> &dyn PageKeys {
        &self.keys
    }

    fn removals(&self) -> Result<Removed, Error> {
        Ok(Removed::default())
    }

    fn list(&self) -> Result<Vec<Id>, Error> {
        Ok(self.objects.keys().copied().collect())
    }

    fn read<E>(
        &self,
        objects: &[Id],
        mut take: impl FnMut(Id, Result<IndexSegment, Error>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut objects = objects.iter();
        objects.try_for_each(|name| take(*name, Ok(self.objects[name].clone())))
    }

    fn have_packs(&self, packs: &[Id]) -> Result<Vec<bool>, Error> {
        Ok(vec![true; packs.len()])
    }

    fn packs(&self) -> Result<HashSet<Id>, Error> {
        let packs = self.objects.values().flatten();
        Ok(packs.map(|(pack, _)| *pack).collect())
    }

    fn vanished(_: &Error) -> Option<String> {
        None
    }
}

/// Seals nothing: tags are hashes.
#[derive(Default)]
struct Keys;

impl PageKeys for Keys {
    fn page_key(&self, _: &[u8; 32]) -> Box<dyn PageKey> {
        Box::new(Self)
    }
}

impl PageKey for Keys {
    fn seal(&self, number: u64, page: &mut Vec<u8>) {
        page.extend(tag(number, page));
    }

    fn open(&self, number: u64, page: &mut [u8]) -> bool {
        let (bytes, found) = page.split_at(page.len() - TAG_LEN);
        tag(number, bytes) == found
    }
}

fn tag(number: u64, bytes: &[u8]) -> [u8; TAG_LEN] {
    let digest = object_id(&[&number.to_le_bytes(), bytes]);
    *digest
        .0
        .first_chunk()
        .expect("a digest is longer than a tag")
}
