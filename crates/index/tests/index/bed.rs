//! A repository's index objects in memory, and keys that only detect changes.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tabane_index::{
    Cache, Codec, Error, IndexObjects, IndexSegment, PackContents, PackKind, PageKey, PageKeys,
    Removed, Segment, TAG_LEN,
};
use tabane_storage::{Id, object_id};

/// Index objects by name. All packs that they name are there, except for lost ones.
#[derive(Default)]
pub struct Objects {
    objects: BTreeMap<Id, IndexSegment>,
    /// Number of objects that were ever added.
    added: u64,
    pub removals: BTreeSet<Id>,
    pub condemned: HashSet<Id>,
    /// Packs that are not there.
    pub lost: HashSet<Id>,
    /// Objects that are listed and cannot be read, with the reason.
    pub unreadable: RefCell<BTreeMap<Id, &'static str>>,
    /// Whether an object that cannot be read can be so the next time.
    pub is_unreadable_once: bool,
    pub keys: Keys,
    pub calls: Calls,
    /// Happens at each list of objects.
    pub at_list: Option<Box<dyn Fn()>>,
    /// Happens behind each object that is read.
    pub at_read: Option<Box<dyn Fn()>>,
}

/// What a cache asked for.
#[derive(Default)]
pub struct Calls {
    /// Lists of index objects.
    pub lists: Cell<usize>,
    /// Index objects in the order of reading.
    pub read: RefCell<Vec<Id>>,
    /// Packs that were asked for one by one.
    pub asked: Cell<usize>,
    /// Lists of packs.
    pub pack_lists: Cell<usize>,
}

/// The reason of an error that says that an object is gone.
pub const GONE: &str = "it is gone";

impl Objects {
    /// Adds an index object, and returns its name.
    pub fn add(&mut self, packs: IndexSegment) -> Id {
        self.added += 1;
        let name = mixed(1 << 60 | self.added);
        self.objects.insert(name, packs);
        name
    }

    /// Removes an index object.
    pub fn remove(&mut self, name: &Id) -> IndexSegment {
        self.objects.remove(name).expect("the object is there")
    }

    /// Index objects by name.
    pub fn all(&self) -> &BTreeMap<Id, IndexSegment> {
        &self.objects
    }

    /// Names of the index objects that were read since the last call.
    pub fn take_read(&self) -> Vec<Id> {
        self.calls.read.take()
    }
}

/// A cache that must not warn.
pub fn cache(root: &Path) -> Cache {
    Cache::new(root, |warning| panic!("{warning}"))
}

/// A cache, and where it notes its warnings.
pub fn warning_cache(root: &Path) -> (Cache, Arc<Mutex<Vec<String>>>) {
    let warnings = Arc::<Mutex<Vec<String>>>::default();
    let noted = Arc::clone(&warnings);
    let warn = move |warning: &str| noted.lock().unwrap().push(warning.to_owned());
    (Cache::new(root, warn), warnings)
}

/// The names in a folder, sorted.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// The runs in a folder, sorted; nothing else may be there.
pub fn runs(folder: &Path) -> Vec<PathBuf> {
    let names = names(folder);
    let is_run = |name: &String| name.starts_with("index2-");
    assert!(names.iter().all(is_run), "{names:?}");
    names.into_iter().map(|name| folder.join(name)).collect()
}

/// The only run in a folder.
pub fn only_run(folder: &Path) -> PathBuf {
    let runs = runs(folder);
    assert_eq!(runs.len(), 1, "{runs:?}");
    runs.into_iter().next().unwrap()
}

/// An ID that consists of one byte, over and over.
pub fn id(byte: u8) -> Id {
    Id([byte; 32])
}

/// An ID that looks random.
pub fn mixed(number: u64) -> Id {
    object_id(&[&number.to_le_bytes()])
}

/// A pack of segments with the given blocks, each one byte long.
pub fn pack(segments: &[&[u8]]) -> PackContents {
    let segment = |blocks: &&[u8]| of_blocks(blocks.iter().map(|&byte| (id(byte), 1)));
    PackContents {
        salt: [0; 32],
        kind: PackKind::Data,
        segments: segments.iter().map(segment).collect(),
    }
}

/// A pack with one segment, of as many blocks with IDs from this number on.
pub fn pack_of(first: u64, blocks: u64) -> PackContents {
    let blocks = first..first + blocks;
    PackContents {
        segments: vec![of_blocks(blocks.map(|number| (mixed(number), 1)))],
        ..pack(&[])
    }
}

fn of_blocks(blocks: impl Iterator<Item = (Id, u32)>) -> Segment {
    Segment {
        stored_len: 100,
        codec: Codec::Stored,
        blocks: blocks.collect(),
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
        Ok((self.removals.clone(), self.condemned.clone()))
    }

    fn list(&self) -> Result<Vec<Id>, Error> {
        self.calls.lists.set(self.calls.lists.get() + 1);
        if let Some(at_list) = &self.at_list {
            at_list();
        }
        Ok(self.objects.keys().copied().collect())
    }

    fn read<E>(
        &self,
        objects: &[Id],
        mut take: impl FnMut(Id, Result<IndexSegment, Error>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut objects = objects.iter();
        objects.try_for_each(|name| {
            self.calls.read.borrow_mut().push(*name);
            let why = self.unreadable.borrow().get(name).copied();
            if self.is_unreadable_once {
                self.unreadable.borrow_mut().remove(name);
            }
            let packs = || Ok(self.objects[name].clone());
            take(
                *name,
                why.map_or_else(packs, |why| Err(Error::damaged(name.short(), why))),
            )?;
            if let Some(at_read) = &self.at_read {
                at_read();
            }
            Ok(())
        })
    }

    fn have_packs(&self, packs: &[Id]) -> Result<Vec<bool>, Error> {
        self.calls.asked.set(self.calls.asked.get() + packs.len());
        Ok(packs.iter().map(|pack| !self.lost.contains(pack)).collect())
    }

    fn packs(&self) -> Result<HashSet<Id>, Error> {
        self.calls.pack_lists.set(self.calls.pack_lists.get() + 1);
        let packs = self.objects.values().flatten().map(|(pack, _)| *pack);
        Ok(packs.filter(|pack| !self.lost.contains(pack)).collect())
    }

    fn vanished(error: &Error) -> Option<String> {
        match error {
            Error::Damaged { what, why } if why == GONE => Some(what.clone()),
            _ => None,
        }
    }
}

/// The same objects, as a part of the repository's index.
pub struct Part(pub &'static str, pub Objects);

impl IndexObjects for Part {
    type Error = Error;

    fn repository(&self) -> Id {
        self.1.repository()
    }

    fn part(&self) -> Option<String> {
        Some(self.0.to_owned())
    }

    fn keys(&self) -> &dyn PageKeys {
        self.1.keys()
    }

    fn removals(&self) -> Result<Removed, Error> {
        self.1.removals()
    }

    fn list(&self) -> Result<Vec<Id>, Error> {
        self.1.list()
    }

    fn read<E>(
        &self,
        objects: &[Id],
        take: impl FnMut(Id, Result<IndexSegment, Error>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.1.read(objects, take)
    }

    fn have_packs(&self, packs: &[Id]) -> Result<Vec<bool>, Error> {
        self.1.have_packs(packs)
    }

    fn packs(&self) -> Result<HashSet<Id>, Error> {
        self.1.packs()
    }

    fn vanished(error: &Error) -> Option<String> {
        Objects::vanished(error)
    }
}

/// Seals nothing: tags are hashes, which depend on the secret, the salt and the number of the page.
#[derive(Clone, Default)]
pub struct Keys {
    pub secret: u8,
    /// Number of files whose keys were asked for.
    pub files: Arc<AtomicUsize>,
    /// Number of pages that were opened.
    pub opened: Arc<AtomicUsize>,
}

impl Keys {
    /// Number of pages that were opened since the last call.
    pub fn take_opened(&self) -> usize {
        self.opened.swap(0, Ordering::Relaxed)
    }
}

impl PageKeys for Keys {
    fn page_key(&self, salt: &[u8; 32]) -> Box<dyn PageKey> {
        self.files.fetch_add(1, Ordering::Relaxed);
        Box::new(FileKey {
            secret: self.secret,
            salt: *salt,
            opened: Arc::clone(&self.opened),
        })
    }
}

struct FileKey {
    secret: u8,
    salt: [u8; 32],
    opened: Arc<AtomicUsize>,
}

impl FileKey {
    fn tag(&self, number: u64, bytes: &[u8]) -> [u8; TAG_LEN] {
        let digest = object_id(&[&[self.secret], &self.salt, &number.to_le_bytes(), bytes]);
        *digest
            .0
            .first_chunk()
            .expect("a digest is longer than a tag")
    }
}

impl PageKey for FileKey {
    fn seal(&self, number: u64, page: &mut Vec<u8>) {
        page.extend(self.tag(number, page));
    }

    fn open(&self, number: u64, page: &mut [u8]) -> bool {
        self.opened.fetch_add(1, Ordering::Relaxed);
        let (bytes, found) = page.split_at(page.len() - TAG_LEN);
        self.tag(number, bytes) == found
    }
}
