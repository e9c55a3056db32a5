//! Files that are being read.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock};

use fuser::Notifier;
use tabane_store::entry::{Kind, blocks};
use tabane_store::file_reader::FileReader;
use tabane_store::segment_cache::SegmentCache;

use crate::pages::Pages;
use crate::trees::Directory;

/// Files whose reader is kept.
const KEPT_FILES: usize = 128;

/// Directories whose progress of reading is kept.
const KNOWN_DIRECTORIES: usize = 16;

/// Files that a reader may skip and still count as reading in order.
const LEFT_OUT: usize = 16;

/// Contents of the next files that are read ahead, in bytes.
const AHEAD_LEN: u64 = 4 << 20;

/// Readers of files; those that were used last are kept.
pub struct Files {
    cache: Arc<SegmentCache>,
    pages: Pages,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    readers: HashMap<u64, (Arc<FileReader>, u64)>,
    clock: u64,
    /// Progress by directory, the most recently used at the back.
    progress: VecDeque<Progress>,
}

/// Progress of reading through a directory's files.
#[derive(Clone, Copy)]
struct Progress {
    directory: u64,
    /// The last file.
    at: usize,
    /// Files before this one were asked for.
    asked: usize,
}

impl Files {
    /// An empty set of readers.
    pub fn new(cache: Arc<SegmentCache>) -> Self {
        Self {
            pages: Pages::new(Arc::clone(&cache)),
            cache,
            state: Mutex::default(),
        }
    }

    /// The slot for the kernel's notifier.
    pub fn notifier(&self) -> Arc<OnceLock<Notifier>> {
        self.pages.notifier()
    }

    /// The reader of the file with this number, if it is kept.
    pub fn kept(&self, inode: u64) -> Option<Arc<FileReader>> {
        let mut state = self.state.lock().expect("no panic under this lock");
        state.clock += 1;
        let now = state.clock;
        let (reader, used) = state.readers.get_mut(&inode)?;
        *used = now;
        Some(Arc::clone(reader))
    }

    /// Makes a reader of a regular file, which begins to be read; nothing for anything else. When
    /// the files of its directory are read one after another, the next of them are read ahead.
    pub fn begin(
        &self,
        inode: u64,
        directory: &Arc<Directory>,
        at: usize,
    ) -> Option<Arc<FileReader>> {
        let Kind::File { content, .. } = &directory.entries[at].kind else {
            return None;
        };
        let reader = Arc::new(FileReader::new(&self.cache, content.clone()));
        let mut state = self.state.lock().expect("no panic under this lock");
        state.clock += 1;
        let entry = (Arc::clone(&reader), state.clock);
        state.readers.insert(inode, entry);
        if state.readers.len() > KEPT_FILES {
            let oldest = state.readers.iter().min_by_key(|(_, (_, used))| *used);
            if let Some(oldest) = oldest.map(|(inode, _)| *inode) {
                state.readers.remove(&oldest);
            }
        }
        let from = state.go_on(directory, at);
        drop(state);
        if let Some(from) = from {
            let mut len = 0;
            let next = directory.entries[from..].iter().take_while(|entry| {
                len += entry.size();
                len <= AHEAD_LEN
            });
            let next: Vec<_> = next.collect();
            let asked = from + next.len();
            self.cache
                .read_ahead(next.into_iter().flat_map(|entry| match entry.kind {
                    Kind::File { .. } => blocks(entry).collect(),
                    _ => Vec::new(),
                }));
            // Leaves one file out: when the kernel asks for it, the reader has come this far, and
            // reading ahead goes on.
            let middle = from + (asked - from) / 2;
            self.pages.put(directory, from..middle);
            self.pages.put(directory, middle + 1..asked);
            let mut state = self.state.lock().expect("no panic under this lock");
            if let Some(progress) = state
                .progress
                .iter_mut()
                .find(|progress| progress.directory == directory.inode)
            {
                progress.asked = progress.asked.max(asked);
            }
        }
        Some(reader)
    }
}

impl State {
    /// Notes that a file is read; says from which file on of its directory to read ahead.
    fn go_on(&mut self, directory: &Directory, at: usize) -> Option<usize> {
        let known = self
            .progress
            .iter()
            .position(|progress| progress.directory == directory.inode);
        let before = known.and_then(|place| self.progress.remove(place));
        let in_order = |before: &Progress| at > before.at && at <= before.asked + LEFT_OUT;
        let before = before.filter(in_order);
        if self.progress.len() == KNOWN_DIRECTORIES {
            self.progress.pop_front();
        }
        let asked = before.map_or(0, |before| before.asked).max(at + 1);
        self.progress.push_back(Progress {
            directory: directory.inode,
            at,
            asked,
        });
        let unread: u64 = directory.entries[at + 1..asked]
            .iter()
            .map(tabane_store::entry::Entry::size)
            .sum();
        let more = asked < directory.entries.len() && unread < AHEAD_LEN / 2;
        (before.is_some() && more).then_some(asked)
    }
}
