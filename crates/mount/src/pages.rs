//! Contents that are given to the kernel before it asks for them.
//!
//! A small file costs the kernel one request to read, and that costs two changes of threads: with
//! small files it is most of the time. The pages of those that will be read next it takes without
//! asking.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::thread::JoinHandle;

use fuser::{INodeNo, Notifier};
use tabane_store::entry::Kind;
use tabane_store::file_reader::FileReader;
use tabane_store::segment_cache::SegmentCache;

use crate::trees::Directory;

/// Longer files are asked for, in bytes: what the kernel reads of them ahead is long enough.
const LEN_MAX: u64 = 128 << 10;

/// Ranges that may wait; beyond this number the oldest requests are dropped.
const WAITING_READS_MAX: usize = 16;

/// Hands contents of files to the kernel from a separate thread: the kernel may block this thread
/// until a request for a page is answered.
pub struct Pages {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    cache: Arc<SegmentCache>,
    notifier: Arc<OnceLock<Notifier>>,
    state: Mutex<State>,
    /// Something waits, or this is being dropped.
    asked: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(Arc<Directory>, Range<usize>)>,
    closed: bool,
}

impl Pages {
    /// An empty queue. No page is sent before the notifier is set.
    pub fn new(cache: Arc<SegmentCache>) -> Self {
        let shared = Arc::new(Shared {
            cache,
            notifier: Arc::default(),
            state: Mutex::default(),
            asked: Condvar::new(),
        });
        let giver = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("pages".to_owned())
            .spawn(move || giver.give())
            .expect("the system can start a thread");
        Self {
            shared,
            thread: Some(thread),
        }
    }

    /// The slot for the kernel's notifier.
    pub fn notifier(&self) -> Arc<OnceLock<Notifier>> {
        Arc::clone(&self.shared.notifier)
    }

    /// Says that these files of a directory will be read soon; returns at once.
    pub fn put(&self, directory: &Arc<Directory>, files: Range<usize>) {
        let mut state = self.shared.lock();
        if state.waiting.len() == WAITING_READS_MAX {
            state.waiting.pop_front();
        }
        state.waiting.push_back((Arc::clone(directory), files));
        self.shared.asked.notify_one();
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.asked.notify_one();
        // A panic was reported when it happened.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic under this lock")
    }

    fn give(&self) {
        loop {
            let mut state = self.lock();
            let (directory, files) = loop {
                if state.closed {
                    return;
                }
                match state.waiting.pop_front() {
                    Some(next) => break next,
                    None => state = self.asked.wait(state).expect("no panic under this lock"),
                }
            };
            drop(state);
            for at in files {
                if self.lock().closed {
                    return;
                }
                self.give_file(&directory, at);
            }
        }
    }

    /// Hands one file to the kernel. Errors are ignored: the kernel meets them when it asks for the
    /// file.
    fn give_file(&self, directory: &Directory, at: usize) {
        let entry = &directory.entries[at];
        let (Kind::File { content, .. }, Some(notifier)) = (&entry.kind, self.notifier.get())
        else {
            return;
        };
        let len = entry.size();
        if !(1..=LEN_MAX).contains(&len) {
            return;
        }
        let reader = FileReader::new(&self.cache, content.clone());
        if let Ok(bytes) = reader.read_at(0, len as usize) {
            // The kernel refuses inodes that it does not know.
            let _ = notifier.store(INodeNo(directory.inode_of(at)), 0, &bytes);
        }
    }
}
