//! The blobs of a restic repository.

use std::collections::VecDeque;
use std::sync::Arc;

use tabane_storage::{Files, Id};
use tabane_store::Algorithm;

use super::index::Index;
use super::key::Key;
use crate::copy::{Place, Source};
use crate::error::{Result, Sound, read_range};

/// Bytes of packs with directories that are kept in memory.
const KEPT_LEN: usize = 128 << 20;

/// Bytes of the blob of a directory at most.
const TREE_LEN_MAX: u32 = 1 << 30;

/// What is needed to read blobs.
pub struct Blobs {
    pub files: Arc<dyn Files>,
    pub key: Key,
    pub index: Index,
}

impl Blobs {
    /// Opens a blob that was read, and appends its bytes to `out`.
    fn open_at(&self, place: &Place, sealed: &mut [u8], out: &mut Vec<u8>) -> Sound<()> {
        let plain = self.key.open(sealed).ok_or("it is not as it was written")?;
        if !place.is_compressed {
            out.extend_from_slice(plain);
            return Ok(());
        }
        let (start, len) = (out.len(), place.raw_len as usize);
        out.resize(start + len, 0);
        match zstd::bulk::decompress_to_buffer(plain, &mut out[start..]) {
            Ok(done) if done == len => Ok(()),
            Ok(_) => Err("it is shorter than the index says".to_owned()),
            Err(error) => Err(format!("it cannot be decompressed: {error}")),
        }
    }
}

impl Source for Blobs {
    fn files(&self) -> &dyn Files {
        &*self.files
    }

    fn place(&self, id: &Id, attempt: usize) -> Option<Place> {
        self.index.data.find_other(id, attempt)
    }

    fn path(&self, file: u32) -> String {
        self.index.pack_path(file)
    }

    fn open(&self, _: &Id, place: &Place, sealed: &mut [u8], out: &mut Vec<u8>) -> Sound<()> {
        self.open_at(place, sealed, out)
    }

    fn ids(&self, blocks: &[&[u8]]) -> Vec<Id> {
        let digests = Algorithm::Sha256.digest_many(blocks).into_iter();
        digests.map(Id::from).collect()
    }

    fn hash(&self) -> Option<Algorithm> {
        Some(Algorithm::Sha256)
    }
}

/// Reads directories. Packs are read whole, since what is near in time is near in a pack.
pub struct TreeReader {
    blobs: Arc<Blobs>,
    /// Packs read last, the newest in front.
    kept: VecDeque<(u32, Arc<Vec<u8>>)>,
}

impl TreeReader {
    /// A reader of directories.
    pub fn new(blobs: Arc<Blobs>) -> Self {
        Self {
            blobs,
            kept: VecDeque::new(),
        }
    }

    /// The blob of a directory. `Ok(Err(…))` says why it is lost.
    ///
    /// # Errors
    /// When the place fails.
    pub fn read(&mut self, id: Id) -> Result<Sound> {
        let mut why = format!("its list of entries, {id}, is not in the index");
        for attempt in 0.. {
            let Some(place) = self.blobs.index.trees.find_other(&id, attempt) else {
                break;
            };
            match self.read_at(id, &place)? {
                Ok(bytes) => return Ok(Ok(bytes)),
                Err(error) => why = error,
            }
        }
        Ok(Err(why))
    }

    fn read_at(&mut self, id: Id, place: &Place) -> Result<Sound> {
        if place.raw_len > TREE_LEN_MAX {
            return Ok(Err(format!("its list of entries, {id}, is too long")));
        }
        if let Some(pack) = self.pack(place.file)? {
            let range = place.offset as usize..place.end() as usize;
            return Ok(self.open(id, place, &mut pack[range].to_vec()));
        }
        // Perhaps only the end of the pack is missing.
        let path = self.blobs.index.pack_path(place.file);
        let read = read_range(&*self.blobs.files, &path, place.offset..place.end())?;
        Ok(read.and_then(|mut sealed| self.open(id, place, &mut sealed)))
    }

    fn open(&self, id: Id, place: &Place, sealed: &mut [u8]) -> Sound {
        let mut bytes = Vec::new();
        let opened = self.blobs.open_at(place, sealed, &mut bytes);
        opened.map_err(|why| format!("its list of entries, {id}: {why}"))?;
        if self.blobs.ids(&[&bytes]) == [id] {
            Ok(bytes)
        } else {
            Err(format!(
                "its list of entries, {id}, does not match its hash"
            ))
        }
    }

    /// A pack; nothing if it cannot be read whole.
    fn pack(&mut self, number: u32) -> Result<Option<Arc<Vec<u8>>>> {
        if let Some(at) = self.kept.iter().position(|(kept, _)| *kept == number) {
            let found = self.kept.remove(at).expect("it was found there");
            self.kept.push_front(found.clone());
            return Ok(Some(found.1));
        }
        let index = &self.blobs.index;
        let (path, len) = (index.pack_path(number), index.pack_len(number));
        let Ok(bytes) = read_range(&*self.blobs.files, &path, 0..len)? else {
            return Ok(None);
        };
        let pack = Arc::new(bytes);
        self.kept.push_front((number, Arc::clone(&pack)));
        let mut sum = 0;
        let mut fits = 0;
        for (_, pack) in &self.kept {
            sum += pack.len();
            fits += usize::from(sum <= KEPT_LEN);
        }
        self.kept.truncate(fits.max(1));
        Ok(Some(pack))
    }
}
