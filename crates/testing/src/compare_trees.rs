//! `tabane-bench compare-trees`: two trees, byte for byte and attribute for attribute.
//!
//! Both trees are listed first; then workers take *tasks* from a common list: the attributes of a
//! pair of entries, or one segment of the content of a pair of files, so that one large file keeps
//! all workers busy too. Where both files of a pair have a hole, neither is read. Access times and
//! inode change times are not compared, nor are the lengths and link counts of directories.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, Result};
use rustix::fs::{OFlags, SeekFrom};

use crate::disk::show;

/// Content is compared in segments of this length.
const SEGMENT_BYTES: u64 = 32 << 20;
/// Read at once from each file.
const BUFFER_BYTES: usize = 256 << 10;
/// A file counts as sparse when this much of its length is not allocated.
const SPARSE_FROM_BYTES: u64 = 64 << 10;

/// Compare two trees byte for byte and attribute for attribute.
///
/// Compared are type, mode, owner, group, modification time in nanoseconds, size, content, extended
/// attributes (ACLs and capabilities among them), targets of symlinks, hard-link groups, device
/// numbers, and that sparse files of A are sparse in B. Each difference is one line of output. Exit
/// codes: 0 equal, 1 different, 2 a tree could not be read at all.
#[derive(clap::Args)]
pub struct Args {
    /// The tree as it should be
    a: PathBuf,
    /// The tree as it is
    b: PathBuf,
    /// Do not compare owners and groups (for restores by other users than root)
    #[arg(long)]
    ignore_owner: bool,
    /// Do not compare the attributes of the two roots themselves
    #[arg(long)]
    ignore_root: bool,
    /// Do not compare extended attributes whose names begin so
    #[arg(long, value_name = "PREFIX")]
    ignore_xattr: Vec<String>,
    /// Bytes that a sparse file of B may be allocated beyond that of A
    #[arg(long, value_name = "N", default_value_t = Options::default().sparse_slack_bytes)]
    sparse_slack: u64,
    /// How many threads read [default: one a processor]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Print no more differences than this
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

/// What to compare, and how.
pub struct Options {
    /// Leave out owners and groups.
    pub ignore_owner: bool,
    /// Leave out the attributes of the roots.
    pub ignore_root: bool,
    /// Leave out extended attributes whose names begin with one of these.
    pub ignore_xattr: Vec<String>,
    /// What a sparse file may be allocated beyond its original.
    pub sparse_slack_bytes: u64,
    /// How many threads read; 0: one a processor.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            ignore_owner: false,
            ignore_root: false,
            ignore_xattr: Vec::new(),
            sparse_slack_bytes: 256 << 10,
            threads: 0,
        }
    }
}

/// What came of a comparison.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Each difference, for people, by path.
    pub differences: Vec<String>,
    /// Entries that both trees have.
    pub entries: u64,
    /// Regular files whose contents were compared.
    pub files: u64,
    /// Bytes of content that were compared, without holes common to both.
    pub bytes: u64,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    let start = Instant::now();
    let options = Options {
        ignore_owner: args.ignore_owner,
        ignore_root: args.ignore_root,
        ignore_xattr: args.ignore_xattr.clone(),
        sparse_slack_bytes: args.sparse_slack,
        threads: args.threads.unwrap_or(0),
    };
    let outcome = compare(&args.a, &args.b, &options)?;
    let limit = args.limit.unwrap_or(usize::MAX);
    for difference in outcome.differences.iter().take(limit) {
        println!("{difference}");
    }
    let count = outcome.differences.len();
    if count > limit {
        println!("... and {} more", count - limit);
    }
    println!(
        "{}: {} entries, {} files, {:.1} MB compared in {:.1} s",
        match count {
            0 => "equal".to_owned(),
            1 => "1 difference".to_owned(),
            _ => format!("{count} differences"),
        },
        outcome.entries,
        outcome.files,
        outcome.bytes as f64 / 1e6,
        start.elapsed().as_secs_f64()
    );
    Ok(ExitCode::from(u8::from(count > 0)))
}

/// Compares the trees `a` and `b`. An error means that one of the roots cannot be read; whatever
/// cannot be read below them is a difference.
pub fn compare(a: &Path, b: &Path, options: &Options) -> Result<Outcome> {
    // A root may be a symlink; nothing below it is followed.
    let resolve = |root: &Path| {
        root.canonicalize()
            .with_context(|| format!("cannot read {}", root.display()))
    };
    let (a, b) = (&*resolve(a)?, &*resolve(b)?);
    let (listed_a, listed_b) = std::thread::scope(|scope| {
        let other = scope.spawn(|| list(b));
        let mine = list(a);
        (mine, other.join().expect("a listing does not panic"))
    });
    let (listed_a, listed_b) = (listed_a?, listed_b?);

    let mut found: Vec<Found> = Vec::new();
    for (side, listed) in [("A", &listed_a), ("B", &listed_b)] {
        for (path, error) in &listed.errors {
            found.push(Found::at(
                path,
                format!("cannot be read in {side}: {error}"),
            ));
        }
    }
    let pairs = pair(&listed_a.entries, &listed_b.entries, &mut found);
    compare_links(&pairs, &mut found);

    let mut tasks = Vec::new();
    for (index, pair) in pairs.iter().enumerate() {
        tasks.push(Task::Attributes(index));
        if pair.a.is_file() && pair.b.is_file() && pair.a.len() == pair.b.len() {
            let mut offset = 0;
            while offset < pair.a.len() {
                tasks.push(Task::Content(index, offset));
                offset += SEGMENT_BYTES;
            }
        }
    }
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let shared = Shared {
        roots: [a, b],
        pairs: &pairs,
        options,
        found: Mutex::new(found),
        bytes: AtomicU64::new(0),
    };
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads.min(tasks.len()).max(1) {
            scope.spawn(|| {
                let mut worker = Worker::new(&shared);
                while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
                    worker.work(task);
                }
                worker.finish();
            });
        }
    });

    let bytes = shared.bytes.load(Ordering::Relaxed);
    let found = shared.found.into_inner().expect("no worker panicked");
    Ok(Outcome {
        differences: lines(found),
        entries: pairs.len() as u64,
        files: pairs
            .iter()
            .filter(|pair| pair.a.is_file() && pair.b.is_file() && pair.a.len() == pair.b.len())
            .count() as u64,
        bytes,
    })
}

/// One difference.
struct Found {
    path: PathBuf,
    /// The first byte that differs, for contents.
    offset: Option<u64>,
    text: String,
}

impl Found {
    fn at(path: &Path, text: String) -> Found {
        Found {
            path: path.to_path_buf(),
            offset: None,
            text,
        }
    }
}

/// Sorts differences by path, with only the first differing byte of each file.
fn lines(found: Vec<Found>) -> Vec<String> {
    let mut contents: BTreeMap<PathBuf, u64> = BTreeMap::new();
    let mut sorted: Vec<(PathBuf, String)> = Vec::new();
    for Found { path, offset, text } in found {
        match offset {
            Some(offset) => {
                let least = contents.entry(path).or_insert(offset);
                *least = offset.min(*least);
            }
            None => sorted.push((path, text)),
        }
    }
    sorted.extend(
        contents
            .into_iter()
            .map(|(path, offset)| (path, format!("content differs from byte {offset}"))),
    );
    sorted.sort();
    sorted.dedup();
    sorted
        .into_iter()
        .map(|(path, text)| {
            let name = if path.as_os_str().is_empty() {
                ".".to_owned()
            } else {
                show(&path)
            };
            format!("{name}: {text}")
        })
        .collect()
}

/// A tree's entries by relative path, the root's being empty, and what could not be listed.
struct Listing {
    entries: Vec<(PathBuf, Metadata)>,
    errors: Vec<(PathBuf, io::Error)>,
}

/// Lists a tree without following symlinks.
fn list(root: &Path) -> Result<Listing> {
    let metadata =
        fs::symlink_metadata(root).with_context(|| format!("cannot read {}", root.display()))?;
    let mut listing = Listing {
        entries: Vec::new(),
        errors: Vec::new(),
    };
    let mut pending = Vec::new();
    if metadata.is_dir() {
        fs::read_dir(root).with_context(|| format!("cannot list {}", root.display()))?;
        pending.push(PathBuf::new());
    }
    listing.entries.push((PathBuf::new(), metadata));
    while let Some(directory) = pending.pop() {
        let entries = match fs::read_dir(join(root, &directory)) {
            Ok(entries) => entries,
            Err(error) => {
                listing.errors.push((directory, error));
                continue;
            }
        };
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    listing.errors.push((directory.clone(), error));
                    break;
                }
            };
            let path = directory.join(entry.file_name());
            match entry.metadata() {
                Ok(metadata) => {
                    if metadata.is_dir() {
                        pending.push(path.clone());
                    }
                    listing.entries.push((path, metadata));
                }
                Err(error) => listing.errors.push((path, error)),
            }
        }
    }
    // By bytes: the order of paths by components costs more, and any order will do.
    listing
        .entries
        .sort_unstable_by(|a, b| a.0.as_os_str().as_bytes().cmp(b.0.as_os_str().as_bytes()));
    Ok(listing)
}

/// `root/relative`, or `root` itself without a slash after it where the tree is one file.
fn join(root: &Path, relative: &Path) -> PathBuf {
    if relative.as_os_str().is_empty() {
        root.to_path_buf()
    } else {
        root.join(relative)
    }
}

/// An entry that both trees have.
struct Pair<'a> {
    path: &'a Path,
    a: &'a Metadata,
    b: &'a Metadata,
}

/// Brings the two sorted lists together; what only one has is a difference.
fn pair<'a>(
    a: &'a [(PathBuf, Metadata)],
    b: &'a [(PathBuf, Metadata)],
    found: &mut Vec<Found>,
) -> Vec<Pair<'a>> {
    let mut pairs = Vec::with_capacity(a.len().min(b.len()));
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    loop {
        let order = match (a.peek(), b.peek()) {
            (None, None) => break,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some((a, _)), Some((b, _))) => a.as_os_str().as_bytes().cmp(b.as_os_str().as_bytes()),
        };
        if order.is_lt() {
            let (path, metadata) = a.next().expect("it was peeked at");
            found.push(Found::at(path, format!("only in A ({})", kind(metadata))));
        } else if order.is_gt() {
            let (path, metadata) = b.next().expect("it was peeked at");
            found.push(Found::at(path, format!("only in B ({})", kind(metadata))));
        } else {
            let (path, metadata_a) = a.next().expect("it was peeked at");
            let (_, metadata_b) = b.next().expect("it was peeked at");
            pairs.push(Pair {
                path,
                a: metadata_a,
                b: metadata_b,
            });
        }
    }
    pairs
}

/// The type of an entry in words.
fn kind(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    if kind.is_file() {
        "file"
    } else if kind.is_dir() {
        "directory"
    } else if kind.is_symlink() {
        "symlink"
    } else if kind.is_fifo() {
        "fifo"
    } else if kind.is_socket() {
        "socket"
    } else if kind.is_char_device() {
        "character device"
    } else if kind.is_block_device() {
        "block device"
    } else {
        "unknown type"
    }
}

/// Compares which paths are links to one inode. Links from outside the trees, and to entries that
/// only one tree has or has with another type, do not count.
fn compare_links(pairs: &[Pair<'_>], found: &mut Vec<Found>) {
    let mut groups: [HashMap<(u64, u64), Vec<usize>>; 2] = Default::default();
    let linked = |pair: &Pair<'_>| {
        !pair.a.is_dir()
            && kind(pair.a) == kind(pair.b)
            && (pair.a.nlink() > 1 || pair.b.nlink() > 1)
    };
    for (index, pair) in pairs.iter().enumerate().filter(|(_, pair)| linked(pair)) {
        for (groups, metadata) in groups.iter_mut().zip([pair.a, pair.b]) {
            let group = groups.entry((metadata.dev(), metadata.ino())).or_default();
            group.push(index);
        }
    }
    // Groups are known by their first members; each combination is looked at once.
    let mut seen = HashSet::new();
    for pair in pairs.iter().filter(|pair| linked(pair)) {
        let a = &groups[0][&(pair.a.dev(), pair.a.ino())];
        let b = &groups[1][&(pair.b.dev(), pair.b.ino())];
        if seen.insert((a[0], b[0])) && a != b {
            let names = |group: &[usize]| {
                let names: Vec<String> =
                    group.iter().map(|&index| show(pairs[index].path)).collect();
                format!("[{}]", names.join(", "))
            };
            let text = format!("hard links differ: A {}, B {}", names(a), names(b));
            found.push(Found::at(pair.path, text));
        }
    }
}

/// Work for one worker.
enum Task {
    /// The attributes of the pair of this index.
    Attributes(usize),
    /// A segment of the contents of the pair, from this offset.
    Content(usize, u64),
}

/// What all workers share.
struct Shared<'a> {
    roots: [&'a Path; 2],
    pairs: &'a [Pair<'a>],
    options: &'a Options,
    found: Mutex<Vec<Found>>,
    bytes: AtomicU64,
}

/// One thread's things.
struct Worker<'a> {
    shared: &'a Shared<'a>,
    buffers: [Vec<u8>; 2],
    found: Vec<Found>,
    bytes: u64,
}

impl<'a> Worker<'a> {
    fn new(shared: &'a Shared<'a>) -> Worker<'a> {
        Worker {
            shared,
            buffers: [vec![0; BUFFER_BYTES], vec![0; BUFFER_BYTES]],
            found: Vec::new(),
            bytes: 0,
        }
    }

    fn finish(self) {
        self.shared.bytes.fetch_add(self.bytes, Ordering::Relaxed);
        self.shared
            .found
            .lock()
            .expect("no worker panicked")
            .extend(self.found);
    }

    fn work(&mut self, task: &Task) {
        match *task {
            Task::Attributes(index) => self.attributes(&self.shared.pairs[index]),
            Task::Content(index, offset) => {
                let pair = &self.shared.pairs[index];
                match self.content(pair, offset) {
                    Ok(None) => {}
                    Ok(Some(offset)) => self.found.push(Found {
                        path: pair.path.to_path_buf(),
                        offset: Some(offset),
                        text: String::new(),
                    }),
                    Err((side, error)) => self.tell(
                        pair,
                        format!("content cannot be read in {}: {error}", ["A", "B"][side]),
                    ),
                }
            }
        }
    }

    fn tell(&mut self, pair: &Pair<'_>, text: String) {
        self.found.push(Found::at(pair.path, text));
    }

    fn attributes(&mut self, pair: &Pair<'_>) {
        let Pair { path, a, b } = *pair;
        if kind(a) != kind(b) {
            self.tell(pair, format!("type: A {}, B {}", kind(a), kind(b)));
            return;
        }
        if a.is_file() && a.len() != b.len() {
            self.tell(pair, format!("size: A {}, B {}", a.len(), b.len()));
        }
        if a.is_file() {
            self.sparseness(pair);
        }
        if a.is_symlink() {
            self.target(pair);
        }
        let kind = a.file_type();
        if (kind.is_char_device() || kind.is_block_device()) && a.rdev() != b.rdev() {
            let numbers = |device| {
                format!(
                    "{}:{}",
                    rustix::fs::major(device),
                    rustix::fs::minor(device)
                )
            };
            let text = format!("device: A {}, B {}", numbers(a.rdev()), numbers(b.rdev()));
            self.tell(pair, text);
        }
        if path.as_os_str().is_empty() && self.shared.options.ignore_root {
            return;
        }
        // Symlinks have no modes of their own on Linux.
        let modes = (a.mode() & 0o7777, b.mode() & 0o7777);
        if !a.is_symlink() && modes.0 != modes.1 {
            self.tell(pair, format!("mode: A {:04o}, B {:04o}", modes.0, modes.1));
        }
        if !self.shared.options.ignore_owner {
            if a.uid() != b.uid() {
                self.tell(pair, format!("owner: A {}, B {}", a.uid(), b.uid()));
            }
            if a.gid() != b.gid() {
                self.tell(pair, format!("group: A {}, B {}", a.gid(), b.gid()));
            }
        }
        let times = [a, b].map(|metadata| (metadata.mtime(), metadata.mtime_nsec()));
        if times[0] != times[1] {
            let [a, b] = times.map(|(seconds, nanoseconds)| format!("{seconds}.{nanoseconds:09}"));
            self.tell(pair, format!("modification time: A {a}, B {b}"));
        }
        self.xattrs(pair);
    }

    fn sparseness(&mut self, pair: &Pair<'_>) {
        let allocated = [pair.a, pair.b].map(|metadata| metadata.blocks() * 512);
        let slack = self.shared.options.sparse_slack_bytes;
        if allocated[0] + SPARSE_FROM_BYTES <= pair.a.len() && allocated[1] > allocated[0] + slack {
            self.tell(
                pair,
                format!(
                    "sparse in A ({} of {} bytes allocated), not so in B ({})",
                    allocated[0],
                    pair.a.len(),
                    allocated[1]
                ),
            );
        }
    }

    fn target(&mut self, pair: &Pair<'_>) {
        let [a, b] = self
            .shared
            .roots
            .map(|root| fs::read_link(join(root, pair.path)));
        match (a, b) {
            (Ok(a), Ok(b)) if a.as_os_str() == b.as_os_str() => {}
            (Ok(a), Ok(b)) => self.tell(pair, format!("target: A {}, B {}", show(&a), show(&b))),
            (Err(error), _) => self.tell(pair, format!("target cannot be read in A: {error}")),
            (_, Err(error)) => self.tell(pair, format!("target cannot be read in B: {error}")),
        }
    }

    fn xattrs(&mut self, pair: &Pair<'_>) {
        let [a, b] = self
            .shared
            .roots
            .map(|root| xattrs(&join(root, pair.path), &self.shared.options.ignore_xattr));
        let (a, b) = match (a, b) {
            (Ok(a), Ok(b)) => (a, b),
            (Err(error), _) => {
                return self.tell(pair, format!("xattrs cannot be read in A: {error}"));
            }
            (_, Err(error)) => {
                return self.tell(pair, format!("xattrs cannot be read in B: {error}"));
            }
        };
        if a == b {
            return;
        }
        for (name, value) in &a {
            let name_shown = show(Path::new(name));
            match b.get(name) {
                None => self.tell(pair, format!("xattr {name_shown}: only in A")),
                Some(other) if other != value => self.tell(
                    pair,
                    format!(
                        "xattr {name_shown}: A {}, B {}",
                        show_value(value),
                        show_value(other)
                    ),
                ),
                Some(_) => {}
            }
        }
        for name in b.keys().filter(|name| !a.contains_key(*name)) {
            self.tell(pair, format!("xattr {}: only in B", show(Path::new(name))));
        }
    }

    /// The first byte of the segment from `start` that differs. An error tells whose it is.
    fn content(&mut self, pair: &Pair<'_>, start: u64) -> Result<Option<u64>, (usize, io::Error)> {
        let open = |side: usize| {
            OpenOptions::new()
                .read(true)
                .custom_flags((OFlags::NONBLOCK | OFlags::NOFOLLOW).bits() as i32)
                .open(join(self.shared.roots[side], pair.path))
                .map_err(|error| (side, error))
        };
        let files = [open(0)?, open(1)?];
        let end = pair.a.len().min(start + SEGMENT_BYTES);
        let holes = [pair.a, pair.b].map(|metadata| metadata.blocks() * 512 < metadata.len());
        let mut offset = start;
        while offset < end {
            if holes[0] && holes[1] {
                // Zeros on both sides need no reading.
                let data = next_data(&files[0], offset).min(next_data(&files[1], offset));
                if data >= end {
                    break;
                }
                offset = offset.max(data);
            }
            let length = BUFFER_BYTES.min((end - offset) as usize);
            for (side, file) in files.iter().enumerate() {
                file.read_exact_at(&mut self.buffers[side][..length], offset)
                    .map_err(|error| (side, error))?;
            }
            let [a, b] = &self.buffers;
            let (a, b) = (&a[..length], &b[..length]);
            if a != b {
                let equal = a.iter().zip(b).take_while(|(a, b)| a == b).count();
                return Ok(Some(offset + equal as u64));
            }
            self.bytes += length as u64;
            offset += length as u64;
        }
        Ok(None)
    }
}

/// The next offset from `offset` on that may hold data; without support for the question, `offset`.
fn next_data(file: &File, offset: u64) -> u64 {
    match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Ok(data) => data,
        Err(rustix::io::Errno::NXIO) => u64::MAX,
        Err(_) => offset,
    }
}

/// All extended attributes of `path` itself; none where the file system has none.
fn xattrs(path: &Path, ignored: &[String]) -> io::Result<BTreeMap<OsString, Vec<u8>>> {
    let names = match xattr::list(path) {
        Ok(names) => names,
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::OPNOTSUPP.raw_os_error()) => {
            return Ok(BTreeMap::new());
        }
        Err(error) => return Err(error),
    };
    let mut found = BTreeMap::new();
    for name in names {
        let ignore = |prefix: &String| name.as_bytes().starts_with(prefix.as_bytes());
        if !ignored.iter().any(ignore)
            && let Some(value) = xattr::get(path, &name)?
        {
            found.insert(name, value);
        }
    }
    Ok(found)
}

/// A short attribute value as text or hex.
fn show_value(value: &[u8]) -> String {
    let shown = &value[..value.len().min(32)];
    let text = match std::str::from_utf8(shown) {
        Ok(text) if !text.contains(char::is_control) => format!("{text:?}"),
        _ => shown.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    if value.len() > 32 {
        format!("{text}... ({} bytes)", value.len())
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::Command;

    use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps};

    /// Two equal trees with something of everything.
    fn twins() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        fs::create_dir_all(a.join("sub/deep")).unwrap();
        fs::write(a.join("file"), vec![b'x'; 700_000]).unwrap();
        fs::write(a.join("sub/other"), b"other").unwrap();
        fs::write(a.join("sub/third"), b"third").unwrap();
        fs::hard_link(a.join("sub/other"), a.join("sub/deep/linked")).unwrap();
        symlink("sub/other", a.join("link")).unwrap();
        fs::write(a.join(std::ffi::OsStr::from_bytes(b"\xff")), b"bytes").unwrap();
        let fifo = rustix::fs::mknodat(
            CWD,
            a.join("fifo"),
            FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        );
        fifo.unwrap();
        let sparse = File::create(a.join("sparse")).unwrap();
        sparse.set_len(64 << 20).unwrap();
        sparse.write_all_at(b"island", 40 << 20).unwrap();
        let copied = Command::new("cp")
            .arg("-a")
            .args([&a, &b])
            .status()
            .unwrap();
        assert!(copied.success());
        (dir, a, b)
    }

    fn differences(a: &Path, b: &Path) -> Vec<String> {
        compare(a, b, &Options::default()).unwrap().differences
    }

    /// What `change` does to a path of B must be found, and nothing else; parents' times are put
    /// back first.
    fn finds(change: impl Fn(&Path), expected: &[&str]) {
        let (_dir, a, b) = twins();
        change(&b);
        for directory in ["", "sub", "sub/deep"] {
            if join(&b, Path::new(directory)).is_dir() {
                put_back_time(&a, &b, directory);
            }
        }
        let found = differences(&a, &b);
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(expected), "{found} is not {expected}");
        }
    }

    fn set_time(path: &Path, seconds: i64, nanoseconds: i64) {
        let time = Timespec {
            tv_sec: seconds,
            tv_nsec: nanoseconds,
        };
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }

    fn put_back_time(a: &Path, b: &Path, path: &str) {
        let metadata = fs::symlink_metadata(join(a, Path::new(path))).unwrap();
        let path = join(b, Path::new(path));
        set_time(&path, metadata.mtime(), metadata.mtime_nsec());
    }

    /// Changes the file `name` of B, and puts its time back as it was.
    fn quietly(b: &Path, name: &str, change: impl Fn(&Path)) {
        let path = b.join(name);
        let metadata = fs::symlink_metadata(&path).unwrap();
        change(&path);
        set_time(&path, metadata.mtime(), metadata.mtime_nsec());
    }

    #[test]
    fn equal_trees() {
        let (_dir, a, b) = twins();
        let outcome = compare(&a, &b, &Options::default()).unwrap();
        assert_eq!(outcome.differences, Vec::<String>::new());
        assert_eq!((outcome.entries, outcome.files), (11, 6));
        assert!(outcome.bytes < 2 << 20, "holes are not read");
        assert!(outcome.bytes >= 700_000);
        // A symlink as a root stands for the tree; files can be compared as well.
        let link = a.with_file_name("link-to-a");
        symlink(&a, &link).unwrap();
        assert_eq!(differences(&link, &b), Vec::<String>::new());
        assert_eq!(
            differences(&a.join("file"), &b.join("file")),
            Vec::<String>::new()
        );
    }

    #[test]
    fn one_byte() {
        let flip = |at: u64| {
            move |b: &Path| {
                quietly(b, "file", |path| {
                    let file = OpenOptions::new().write(true).open(path).unwrap();
                    file.write_all_at(b"y", at).unwrap();
                });
            }
        };
        for at in [0, 262_143, 262_144, 699_999] {
            finds(
                flip(at),
                &[&format!("file: content differs from byte {at}")],
            );
        }
    }

    #[test]
    fn sparse_contents() {
        let write = |at: u64| {
            move |b: &Path| {
                quietly(b, "sparse", |path| {
                    let file = OpenOptions::new().write(true).open(path).unwrap();
                    file.write_all_at(b"I", at).unwrap();
                });
            }
        };
        for at in [40 << 20, 3, 50 << 20, (64 << 20) - 1] {
            finds(
                write(at),
                &[&format!("sparse: content differs from byte {at}")],
            );
        }
    }

    #[test]
    fn filled_holes() {
        finds(
            |b| {
                quietly(b, "sparse", |path| {
                    let file = OpenOptions::new().write(true).open(path).unwrap();
                    file.write_all_at(&vec![0; 8 << 20], 0).unwrap();
                });
            },
            &["sparse: sparse in A"],
        );
    }

    #[test]
    fn modes_times_and_sizes() {
        finds(
            |b| fs::set_permissions(b.join("file"), fs::Permissions::from_mode(0o4640)).unwrap(),
            &["file: mode: A 0644, B 4640"],
        );
        finds(
            |b| set_time(&b.join("sub/third"), 1, 1),
            &["sub/third: modification time"],
        );
        finds(
            |b| set_time(&b.join("link"), 5, 5),
            &["link: modification time"],
        );
        finds(
            |b| {
                let path = b.join("file");
                let metadata = fs::symlink_metadata(&path).unwrap();
                set_time(
                    &path,
                    metadata.mtime(),
                    (metadata.mtime_nsec() + 1) % 1_000_000_000,
                );
            },
            &["file: modification time"],
        );
        finds(
            |b| {
                quietly(b, "file", |path| {
                    let file = OpenOptions::new().write(true).open(path).unwrap();
                    file.set_len(700_001).unwrap();
                });
            },
            &["file: size: A 700000, B 700001"],
        );
    }

    #[test]
    fn missing_and_more() {
        finds(
            |b| fs::remove_file(b.join("fifo")).unwrap(),
            &["fifo: only in A (fifo)"],
        );
        finds(
            |b| fs::create_dir(b.join("sub/new")).unwrap(),
            &["sub/new: only in B (directory)"],
        );
        finds(
            |b| {
                fs::remove_dir_all(b.join("sub/deep")).unwrap();
                fs::write(b.join("sub/deep"), b"").unwrap();
            },
            &[
                "sub/deep: type: A directory, B file",
                "sub/deep/linked: only in A",
            ],
        );
    }

    #[test]
    fn symlink_targets() {
        finds(
            |b| {
                quietly(b, "link", |path| {
                    fs::remove_file(path).unwrap();
                    symlink("sub/third", path).unwrap();
                });
            },
            &["link: target: A sub/other, B sub/third"],
        );
    }

    #[test]
    fn hard_link_groups() {
        // A copy in place of a link.
        finds(
            |b| {
                quietly(b, "sub/deep/linked", |path| {
                    fs::remove_file(path).unwrap();
                    fs::write(path, b"other").unwrap();
                });
            },
            &[
                "sub/deep/linked: hard links differ: A [sub/deep/linked, sub/other], B \
                [sub/deep/linked]",
                "sub/other: hard links differ",
            ],
        );
        // A link in place of a copy.
        let (_dir, a, b) = twins();
        for tree in [&a, &b] {
            fs::write(tree.join("sub/same"), b"same").unwrap();
        }
        fs::write(a.join("sub/same-2"), b"same").unwrap();
        fs::hard_link(b.join("sub/same"), b.join("sub/same-2")).unwrap();
        for (tree, name) in [
            (&a, "sub/same"),
            (&a, "sub/same-2"),
            (&b, "sub/same"),
            (&a, "sub"),
            (&b, "sub"),
        ] {
            set_time(&tree.join(name), 7, 7);
        }
        let found = differences(&a, &b);
        assert_eq!(found.len(), 2, "{found:#?}");
        assert!(
            found[0].contains("A [sub/same], B [sub/same, sub/same-2]"),
            "{found:#?}"
        );
        // A link whose other name is outside of the tree makes no group.
        let (dir, a, b) = twins();
        fs::hard_link(b.join("sub/third"), dir.path().join("outside")).unwrap();
        assert_eq!(differences(&a, &b), Vec::<String>::new());
    }

    #[test]
    fn extended_attributes() {
        let (_dir, a, b) = twins();
        if xattr::set(a.join("file"), "user.a", b"1").is_err() {
            return; // not on this file system
        }
        xattr::set(b.join("file"), "user.a", b"2").unwrap();
        xattr::set(a.join("sub"), "user.only-a", b"").unwrap();
        xattr::set(b.join("sub"), "user.only-b", b"\0").unwrap();
        let found = differences(&a, &b);
        assert_eq!(
            found,
            [
                "file: xattr user.a: A \"1\", B \"2\"",
                "sub: xattr user.only-a: only in A",
                "sub: xattr user.only-b: only in B",
            ]
        );
        let options = Options {
            ignore_xattr: vec!["user.only".to_owned()],
            ..Options::default()
        };
        assert_eq!(compare(&a, &b, &options).unwrap().differences.len(), 1);
    }

    #[test]
    fn owners_and_devices() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let (_dir, a, b) = twins();
        std::os::unix::fs::lchown(b.join("link"), Some(77), Some(78)).unwrap();
        let device = |tree: &Path, minor| {
            let number = rustix::fs::makedev(1, minor);
            let mode = Mode::from_raw_mode(0o600);
            let path = tree.join("device");
            let made = rustix::fs::mknodat(CWD, &path, FileType::CharacterDevice, mode, number);
            if made.is_ok() {
                set_time(&path, 1, 1);
                set_time(tree, 1, 1);
            }
            made.is_ok()
        };
        let devices = device(&a, 3) && device(&b, 5);
        let found = differences(&a, &b);
        let mut expected = vec!["link: owner: A 0, B 77", "link: group: A 0, B 78"];
        if devices {
            expected.push("device: device: A 1:3, B 1:5");
        }
        expected.sort_unstable();
        assert_eq!(found, expected);
        let options = Options {
            ignore_owner: true,
            ..Options::default()
        };
        let without = compare(&a, &b, &options).unwrap().differences;
        assert_eq!(without.len(), usize::from(devices));
    }

    #[test]
    fn roots_count_unless_told_otherwise() {
        let (_dir, a, b) = twins();
        set_time(&b, 9, 9);
        let found = differences(&a, &b);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with(".: modification time"));
        let options = Options {
            ignore_root: true,
            ..Options::default()
        };
        assert!(compare(&a, &b, &options).unwrap().differences.is_empty());
    }

    #[test]
    fn no_tree_there() {
        let (_dir, a, b) = twins();
        let error = compare(&a, &b.join("not-there"), &Options::default()).unwrap_err();
        assert!(format!("{error:#}").contains("not-there"));
    }
}
