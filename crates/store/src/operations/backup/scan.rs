//! Counts the bytes of the source beside a backup, so that whoever waits sees how much is left.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tabane_files::read;

use super::run::Run;
use super::walk::Targets;
use crate::access::deep_stack::{DEPTH_MAX, with_deep_stack};
use tabane_format::Result;
use tabane_format::entry::{Found, Kind};
use tabane_patterns::Scope;

/// Age of a backup from which on its source is counted: a shorter one is over before anybody
/// wonders, and is not slowed.
const COUNTING_DELAY: Duration = Duration::from_secs(5);

/// A count that goes on until it is done or dropped.
pub struct Scan {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Scan {
    /// Counts what is at and below `paths` after a while, and puts the bytes into the
    /// counters.
    pub fn start(run: &Arc<Run>, paths: &[PathBuf]) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let (paths, run) = (paths.to_vec(), Arc::clone(run));
        let ends = Arc::clone(&stop);
        let scan = move || {
            let begin = Instant::now() + COUNTING_DELAY;
            while let Some(rest) = begin.checked_duration_since(Instant::now()) {
                std::thread::park_timeout(rest);
                if ends.load(Ordering::Relaxed) {
                    return;
                }
            }
            // Of this thread alone: the backup goes before.
            let _ = rustix::process::nice(19);
            // What cannot be counted is not, and the backup says why.
            if let Ok(Some(bytes)) = with_deep_stack(|| count(&run, &paths, &ends)) {
                let expected = &run.counters.expected_bytes;
                expected.store(bytes, Ordering::Relaxed);
            }
        };
        // Without the thread nobody knows how much there is, and nothing else is missing.
        let thread = std::thread::Builder::new()
            .name("scan".to_owned())
            .spawn(scan);
        Self {
            stop,
            thread: thread.ok(),
        }
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// Bytes of the files that a backup stores; nothing if it was stopped.
fn count(run: &Run, paths: &[PathBuf], stop: &AtomicBool) -> Result<Option<u64>> {
    let mut counter = Counter {
        run,
        stop,
        bytes: 0,
    };
    let targets = Targets::new(paths);
    let root = Path::new("/");
    let fd = run.open_directory(root)?;
    let here = Here {
        fd: &fd,
        device: rustix::fs::fstat(&fd).map_or(0, |stat| stat.st_dev),
        path: root,
        scope: &Scope::root(),
        whole: targets.named,
        depth: 0,
    };
    counter.directory(&here, &targets);
    Ok((!stop.load(Ordering::Relaxed)).then_some(counter.bytes))
}

struct Counter<'a> {
    run: &'a Run,
    stop: &'a AtomicBool,
    bytes: u64,
}

/// A directory; its fields are those of the walker's level.
struct Here<'a> {
    fd: &'a OwnedFd,
    device: u64,
    path: &'a Path,
    scope: &'a Scope,
    whole: bool,
    depth: usize,
}

impl Counter<'_> {
    /// Adds up a directory and everything below it, by the rules of the walker.
    fn directory(&mut self, here: &Here<'_>, targets: &Targets) {
        let mut names = targets.names();
        let mut scope = here.scope.clone();
        if here.whole {
            let listed = read::list(here.fd).unwrap_or_default();
            let entered = scope.enter(&self.run.excludes, here.fd.as_fd(), here.path, listed);
            scope = entered.scope;
            names.extend(entered.names);
            names.sort();
            names.dedup();
        }
        let none = Targets::default();
        for name in &names {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let found: io::Result<Found> = read::stat(here.fd.as_fd(), name, false);
            let Ok(found) = found else {
                continue;
            };
            let target = targets.children.get(name).unwrap_or(&none);
            let path = here.path.join(name);
            let is_directory = found.entry.directory().is_some();
            let excluded = here.whole
                && !target.named
                && (self.run.excludes.is_excluded(&path, is_directory)
                    || scope.is_excluded(&path, is_directory)
                    || self.run.excludes.is_too_large(found.entry.size()));
            if excluded && target.children.is_empty() {
                continue;
            }
            if let Kind::File { size, .. } = found.entry.kind {
                self.bytes = self.bytes.saturating_add(size);
            }
            if !is_directory || here.depth == DEPTH_MAX {
                continue;
            }
            let foreign = self.run.options.one_file_system && found.device != here.device;
            if let Ok(fd) = read::open_directory(here.fd.as_fd(), name) {
                let below = Here {
                    fd: &fd,
                    device: found.device,
                    path: &path,
                    scope: &scope,
                    whole: target.named || here.whole && !excluded && !foreign,
                    depth: here.depth + 1,
                };
                self.directory(&below, target);
            }
        }
    }
}
