//! Objects of a far repository that are kept on this machine: snapshots, removals, records of
//! removed snapshots, and the parts of packs that hold directories.
//!
//! They are kept as they are stored, sealed, in the folder that the repository has in the local
//! cache. Whoever reads them checks them as if they came from the storage, and what is damaged is
//! removed and read from there. Objects never change, so nothing here is ever outdated.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, SystemTime};

use tabane_storage::sync::lock;
use tabane_storage::{Id, Name, ObjectKind};

use crate::access::private_file;
use tabane_format::Result;
use tabane_format::crypto::HEADER_LEN;
use tabane_format::pack::PackContents;

/// Length of the parts in which packs of directories are read. A directory is seldom wanted alone,
/// and a request for a few KiB takes as long as one for this much.
const WINDOW_LEN: u32 = 1 << 20;

/// Windows that are kept in memory: a pack has about 16.
const WINDOWS_IN_MEMORY: usize = 24;

/// Windows that are read at a time at most.
const READ_AT_ONCE_MAX: usize = 32;

/// Windows that nobody has read for so long are removed from the disk.
const WINDOW_AGE_MAX: Duration = Duration::from_secs(60 * 24 * 3600);

/// A window's time of use is noted when the one on the disk is this old.
const USE_NOTED_AFTER: Duration = Duration::from_secs(24 * 3600);

/// What is kept of one repository.
#[derive(Default)]
pub struct Nearby {
    /// Nothing is kept on the disk without one.
    folder: Option<PathBuf>,
    windows: Mutex<Windows>,
    /// Signalled when a window was read, or could not be.
    read: Condvar,
}

/// Windows in memory, the last used at the back.
#[derive(Default)]
struct Windows {
    held: VecDeque<(Window, Arc<[u8]>)>,
    being_read: HashSet<Window>,
    /// For each pack the only window that was wanted, or none if all are read ahead.
    wanted: HashMap<Id, Option<Window>>,
}

/// A part of a pack: the segments that begin in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window {
    /// The pack.
    pub pack: Id,
    number: u32,
}

impl Window {
    /// The window in which a segment is that begins at `offset` of the pack.
    pub fn of(pack: Id, offset: u32) -> Self {
        Self {
            pack,
            number: offset / WINDOW_LEN,
        }
    }

    fn file_name(&self) -> String {
        format!("{}-{}", self.pack, self.number)
    }
}

impl Nearby {
    /// Keeps what is worth it below `folder`, the repository's in the local cache.
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder: Some(folder),
            ..Self::default()
        }
    }

    /// The bytes of an object, if they are kept.
    pub fn object(&self, name: Name) -> Option<Vec<u8>> {
        private_file::read(&self.path_of(name)?).ok()
    }

    /// Keeps the bytes of an object.
    pub fn keep_object(&self, name: Name, bytes: &[u8]) {
        self.write(self.path_of(name), bytes);
    }

    /// Removes the objects of a kind that are not `there` any more.
    pub fn retain_objects(&self, kind: ObjectKind, there: impl Fn(&Id) -> bool) {
        let Some(folder) = self.folder_of(kind) else {
            return;
        };
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.parse().ok());
            if id.is_some_and(|id| !there(&id)) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// The bytes of a window: those in memory or on the disk, else those that `fetch` gets. If
    /// another thread is getting it, waits for that.
    ///
    /// # Errors
    /// That of `fetch`.
    pub fn window(
        &self,
        window: Window,
        fetch: impl FnOnce() -> Result<Vec<u8>>,
    ) -> Result<Arc<[u8]>> {
        let mut windows = lock(&self.windows);
        loop {
            if let Some(at) = windows.held.iter().position(|(held, _)| *held == window) {
                let found = windows.held.remove(at).expect("it was found there");
                let bytes = Arc::clone(&found.1);
                windows.held.push_back(found);
                return Ok(bytes);
            }
            if windows.being_read.insert(window) {
                break;
            }
            windows = self.read.wait(windows).expect("no panic under this lock");
        }
        drop(windows);
        let got: Result<Arc<[u8]>> = match self.window_on_disk(window) {
            Some(bytes) => Ok(bytes.into()),
            None => fetch().map(|bytes| {
                self.keep_window(window, &bytes);
                bytes.into()
            }),
        };
        let mut windows = lock(&self.windows);
        windows.being_read.remove(&window);
        if let Ok(bytes) = &got {
            windows.held.push_back((window, Arc::clone(bytes)));
            if windows.held.len() > WINDOWS_IN_MEMORY {
                windows.held.pop_front();
            }
        }
        drop(windows);
        self.read.notify_all();
        got
    }

    /// Whether the other windows of the pack are to be read ahead now that this one is wanted: when
    /// it is the second one, or the first one of a whole tree.
    pub fn begins_ahead(&self, window: Window, is_tree: bool) -> bool {
        match lock(&self.windows).wanted.entry(window.pack) {
            Entry::Vacant(entry) => {
                entry.insert((!is_tree).then_some(window));
                is_tree
            }
            Entry::Occupied(mut entry) => {
                let is_second = entry.get().is_some_and(|first| first != window);
                if is_second {
                    entry.insert(None);
                }
                is_second
            }
        }
    }

    /// Whether nobody has to read this window ahead.
    pub fn is_at_hand(&self, window: Window) -> bool {
        let windows = lock(&self.windows);
        windows.being_read.len() >= READ_AT_ONCE_MAX
            || windows.being_read.contains(&window)
            || windows.held.iter().any(|(held, _)| *held == window)
            || self
                .folder_of(ObjectKind::Pack)
                .is_some_and(|folder| folder.join(window.file_name()).exists())
    }

    fn window_on_disk(&self, window: Window) -> Option<Vec<u8>> {
        let path = self.folder_of(ObjectKind::Pack)?.join(window.file_name());
        let bytes = private_file::read(&path).ok()?;
        note_use(&path);
        Some(bytes)
    }

    fn keep_window(&self, window: Window, bytes: &[u8]) {
        let folder = self.folder_of(ObjectKind::Pack);
        self.write(folder.map(|folder| folder.join(window.file_name())), bytes);
    }

    /// Keeps the windows of a pack that was just written.
    pub fn keep_pack(&self, pack: Id, bytes: &[u8], contents: &PackContents) {
        if self.folder.is_none() {
            return;
        }
        let mut start = HEADER_LEN;
        let segments = contents.segments.iter().map(|segment| {
            let range = start..start + segment.stored_len as usize;
            start = range.end;
            range
        });
        let segments: Vec<Range<usize>> = segments.collect();
        let window = |range: &Range<usize>| Window::of(pack, range.start as u32);
        for part in segments.chunk_by(|a, b| window(a) == window(b)) {
            let range = part[0].start..part[part.len() - 1].end;
            self.keep_window(window(&part[0]), &bytes[range]);
        }
    }

    /// Removes a window that proved damaged.
    pub fn drop_window(&self, window: Window) {
        lock(&self.windows).held.retain(|(held, _)| *held != window);
        if let Some(folder) = self.folder_of(ObjectKind::Pack) {
            let _ = fs::remove_file(folder.join(window.file_name()));
        }
    }

    /// Removes what has not been used for long, and what dead processes left.
    pub fn tidy(&self) {
        let Some(folder) = self.folder_of(ObjectKind::Pack) else {
            return;
        };
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let age = age(&entry.path());
            if age.is_some_and(|age| age > WINDOW_AGE_MAX) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn folder_of(&self, kind: ObjectKind) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(kind.name()))
    }

    fn path_of(&self, name: Name) -> Option<PathBuf> {
        let kept = matches!(
            name.kind,
            ObjectKind::Snapshot | ObjectKind::Removal | ObjectKind::Forgotten
        );
        let folder = self.folder_of(name.kind).filter(|_| kept)?;
        Some(folder.join(name.id.to_string()))
    }

    /// Writes a file, whole or not at all. Where that fails, nothing is kept.
    fn write(&self, path: Option<PathBuf>, bytes: &[u8]) {
        if let Some(path) = path {
            let _ = private_file::write(&path, bytes, false);
        }
    }
}

/// Time since a file was last used.
fn age(path: &Path) -> Option<Duration> {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
    SystemTime::now().duration_since(modified.ok()?).ok()
}

fn note_use(path: &Path) {
    if age(path).is_some_and(|age| age > USE_NOTED_AFTER)
        && let Ok(file) = fs::File::open(path)
    {
        let _ = file.set_modified(SystemTime::now());
    }
}
