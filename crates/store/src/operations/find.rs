//! Searches snapshots for entries, by name, by kind and time, or by the blocks that they consist
//! of.
//!
//! Snapshots share most of their directories. The hits below each distinct directory are
//! remembered, so that a shared directory is read once.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};

use crate::access::browse::{Browser, TreeReader};
use crate::access::deep_stack::{DEPTH_MAX, with_deep_stack};
use tabane_format::entry::{Entry, Kind, Piece, Time, blocks, content_id};
use tabane_format::snapshot::Snapshot;
use tabane_format::{Error, Result};
use tabane_storage::Id;

/// The most directories and hits remembered; directories beyond it are read again.
const REMEMBERED_MAX: usize = 1 << 20;

/// A pattern of paths.
///
/// It is a path of globs (`*`, `?`, `[a-z]`, `{a,b}`), each for one name; `**` stands for any
/// number of names. A pattern that begins with `/` matches from the root on, any other anywhere.
pub struct Pattern {
    parts: Vec<Part>,
    from_root: bool,
}

enum Part {
    /// One name.
    Name(GlobMatcher),
    /// Any number of names.
    Any,
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// [`Error::Pattern`].
    pub fn new(text: &str, ignore_case: bool) -> Result<Self> {
        let unusable = |why: &dyn std::fmt::Display| {
            Error::Pattern(format!("the pattern {text:?} cannot be used: {why}"))
        };
        let part = |part: &str| match part {
            "**" => Ok(Part::Any),
            _ => GlobBuilder::new(part)
                .case_insensitive(ignore_case)
                .build()
                .map(|glob| Part::Name(glob.compile_matcher()))
                .map_err(|error| unusable(error.kind())),
        };
        let parts = text.split('/').filter(|part| !part.is_empty());
        let parts = parts.map(part).collect::<Result<Vec<_>>>()?;
        if parts.is_empty() {
            Err(unusable(&"it names nothing"))
        } else {
            Ok(Self {
                parts,
                from_root: text.starts_with('/'),
            })
        }
    }
}

/// A search: it finds entries that meet all of these conditions.
#[derive(Default)]
pub struct Query {
    /// Match any of these paths; empty for all.
    pub patterns: Vec<Pattern>,
    /// Any of these kinds (see [`kind_name`](crate::access::browse::kind_name)); empty for all.
    pub kinds: Vec<&'static str>,
    /// Last changed at this time or later.
    pub oldest: Option<Time>,
    /// Last changed at this time or earlier.
    pub newest: Option<Time>,
    /// Files of at least this many bytes.
    pub size_min: Option<u64>,
    /// Files of at most this many bytes.
    pub size_max: Option<u64>,
    /// Containing any of these blocks.
    pub blocks: Option<Blocks>,
}

/// A choice of blocks.
#[derive(Default)]
pub struct Blocks {
    /// Whole IDs of blocks.
    pub ids: HashSet<Id>,
    /// Beginnings of IDs: all blocks whose IDs begin with any of these hexadecimal digits.
    pub prefixes: Vec<String>,
}

impl Blocks {
    fn contain(&self, id: &Id) -> bool {
        self.ids.contains(id) || self.prefixes.iter().any(|prefix| id.has_prefix(prefix))
    }
}

/// The progress of each pattern by the names above: pairs of pattern and part, sorted.
type Progress = Vec<(usize, usize)>;

impl Query {
    fn start(&self) -> Progress {
        (0..self.patterns.len())
            .map(|pattern| (pattern, 0))
            .collect()
    }

    /// Whether a name completes a pattern, and the progress behind it.
    fn step(&self, progress: &Progress, name: &[u8]) -> (bool, Progress) {
        let name = Path::new(OsStr::from_bytes(name));
        let mut complete = self.patterns.is_empty();
        let mut next = Progress::new();
        for &(number, at) in progress {
            let pattern = &self.patterns[number];
            if at == 0 && !pattern.from_root {
                next.push((number, 0));
            }
            // `**` may stand for nothing.
            for at in at..pattern.parts.len() {
                let is_last = at + 1 == pattern.parts.len();
                match &pattern.parts[at] {
                    Part::Any => {
                        complete |= is_last;
                        next.push((number, at));
                    }
                    Part::Name(glob) => {
                        if glob.is_match(name) {
                            complete |= is_last;
                            if !is_last {
                                next.push((number, at + 1));
                            }
                        }
                        break;
                    }
                }
            }
        }
        next.sort_unstable();
        next.dedup();
        (complete, next)
    }

    /// Whether an entry meets all conditions but that of its path.
    fn allows(&self, entry: &Entry) -> bool {
        let kind = crate::access::browse::kind_name(&entry.kind);
        (self.kinds.is_empty() || self.kinds.contains(&kind))
            && self.oldest.is_none_or(|oldest| entry.mtime >= oldest)
            && self.newest.is_none_or(|newest| entry.mtime <= newest)
            && (self.size_min.is_none() && self.size_max.is_none()
                || matches!(entry.kind, Kind::File { .. }))
            && self.size_min.is_none_or(|size| entry.size() >= size)
            && self.size_max.is_none_or(|size| entry.size() <= size)
            && self
                .blocks
                .as_ref()
                .is_none_or(|wanted| blocks(entry).any(|(id, _)| wanted.contain(&id)))
    }
}

/// Searches snapshots, one after another.
pub struct Finder<R = Browser> {
    reader: R,
    query: Query,
    /// Hits below directories.
    known: HashMap<Key, Arc<Vec<Hit>>>,
    /// Numbers of the different states of the patterns.
    progresses: HashMap<Progress, u32>,
    /// Directories and hits among `known`.
    remembered: usize,
    /// Shared by all directories without hits.
    nothing: Arc<Vec<Hit>>,
}

/// A directory by its content, that of the directory whose entries do not count, and the number of
/// the progress above it.
type Key = (Id, Option<Id>, u32);

/// A hit below a directory, or a directory that leads to one.
struct Hit {
    name: Vec<u8>,
    /// The entry, if it is a hit itself.
    entry: Option<Box<Entry>>,
    below: Option<Arc<Vec<Hit>>>,
}

/// A directory that cannot be read.
pub struct Unreadable {
    /// The directory's path.
    pub path: PathBuf,
    /// The error of reading it.
    pub error: Error,
}

/// Hears of each hit, and says whether to go on.
pub type Found<'a> = &'a mut (dyn FnMut(&Path, &Entry) -> ControlFlow<()> + Send);

/// A search through one snapshot.
struct Search<'a> {
    path: PathBuf,
    found: Found<'a>,
    unreadable: Vec<Unreadable>,
}

impl<R: TreeReader + Send> Finder<R> {
    /// A finder for this query.
    pub fn new(reader: R, query: Query) -> Self {
        Self {
            reader,
            query,
            known: HashMap::new(),
            progresses: HashMap::new(),
            remembered: 0,
            nothing: Arc::default(),
        }
    }

    /// Calls `found` with path and entry of each hit in a snapshot as it is found, in order; files
    /// come without their content. Returns each unreadable directory once. A reader that fails with
    /// [`Error::Cancelled`] ends the search.
    pub fn search(&mut self, snapshot: &Snapshot, found: Found<'_>) -> Vec<Unreadable> {
        self.search_from(&snapshot.root, None, found)
    }

    /// As [`Finder::search`], for what `later`, another snapshot, has nothing at the same path of.
    /// Directories that both have with the same content are not read.
    pub fn search_gone(
        &mut self,
        snapshot: &Snapshot,
        later: &Snapshot,
        found: Found<'_>,
    ) -> Vec<Unreadable> {
        if snapshot.root == later.root {
            return Vec::new();
        }
        self.search_from(&snapshot.root, Some(&later.root), found)
    }

    fn search_from(
        &mut self,
        root: &[Piece],
        later: Option<&[Piece]>,
        found: Found<'_>,
    ) -> Vec<Unreadable> {
        with_deep_stack(|| {
            let mut search = Search {
                path: PathBuf::from("/"),
                found,
                unreadable: Vec::new(),
            };
            let start = self.query.start();
            // A search that was ended is over, too.
            let _ = self.below(root, later, start, 0, &mut search);
            search.unreadable
        })
    }

    /// Searches a directory. What the directory `later` has a name of is no hit.
    fn below(
        &mut self,
        content: &[Piece],
        later: Option<&[Piece]>,
        progress: Progress,
        depth: usize,
        search: &mut Search<'_>,
    ) -> ControlFlow<(), Arc<Vec<Hit>>> {
        let next_number = self.progresses.len() as u32;
        let number = *self
            .progresses
            .entry(progress.clone())
            .or_insert(next_number);
        let key = (content_id(content), later.map(content_id), number);
        if let Some(known) = self.known.get(&key) {
            let known = Arc::clone(known);
            tell(&known, search)?;
            return ControlFlow::Continue(known);
        }
        let entries = self.read(content, depth, search)?;
        let later = match later {
            Some(later) => Some(self.read(later, depth, search)?),
            None => None,
        };
        let mut hits = Vec::new();
        for mut entry in entries {
            let there = later
                .as_ref()
                .and_then(|later| find_entry(later, &entry.name));
            let (complete, next) = self.query.step(&progress, &entry.name);
            let meant = there.is_none() && complete && self.query.allows(&entry);
            let content = match &mut entry.kind {
                Kind::File { content, .. } | Kind::Directory { content } => std::mem::take(content),
                _ => Vec::new(),
            };
            search.path.push(OsStr::from_bytes(&entry.name));
            if meant {
                (search.found)(&search.path, &entry)?;
            }
            let mut below = None;
            let there = there.and_then(Entry::directory);
            if matches!(entry.kind, Kind::Directory { .. })
                && there != Some(&content)
                && (self.query.patterns.is_empty() || !next.is_empty())
            {
                let there = there.map(Vec::as_slice);
                let hits = self.below(&content, there, next, depth + 1, search)?;
                below = (!hits.is_empty()).then_some(hits);
            }
            search.path.pop();
            if meant || below.is_some() {
                hits.push(Hit {
                    name: entry.name.clone(),
                    entry: meant.then(|| Box::new(entry)),
                    below,
                });
            }
        }
        let hits = if hits.is_empty() {
            Arc::clone(&self.nothing)
        } else {
            Arc::new(hits)
        };
        if self.remembered + hits.len() < REMEMBERED_MAX {
            self.remembered += 1 + hits.len();
            self.known.insert(key, Arc::clone(&hits));
        }
        ControlFlow::Continue(hits)
    }

    /// The entries of a directory; none if it cannot be read.
    fn read(
        &mut self,
        content: &[Piece],
        depth: usize,
        search: &mut Search<'_>,
    ) -> ControlFlow<(), Vec<Entry>> {
        let read = if depth > DEPTH_MAX {
            Err(Error::damaged(
                "a directory",
                "it is too many directories deep",
            ))
        } else {
            self.reader.directory(content)
        };
        match read {
            Ok(entries) => ControlFlow::Continue(entries),
            Err(Error::Cancelled) => ControlFlow::Break(()),
            Err(error) => {
                let path = search.path.clone();
                search.unreadable.push(Unreadable { path, error });
                ControlFlow::Continue(Vec::new())
            }
        }
    }
}

/// The entry of this name among those of a directory.
fn find_entry<'a>(entries: &'a [Entry], name: &[u8]) -> Option<&'a Entry> {
    let place = entries.binary_search_by(|entry| entry.name.as_slice().cmp(name));
    place.ok().map(|place| &entries[place])
}

fn tell(hits: &[Hit], search: &mut Search<'_>) -> ControlFlow<()> {
    for hit in hits {
        search.path.push(OsStr::from_bytes(&hit.name));
        if let Some(entry) = &hit.entry {
            (search.found)(&search.path, entry)?;
        }
        if let Some(below) = &hit.below {
            tell(below, search)?;
        }
        search.path.pop();
    }
    ControlFlow::Continue(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        let query = Query {
            patterns: vec![Pattern::new(pattern, false).expect("a pattern")],
            ..Query::default()
        };
        let (mut complete, mut progress) = (false, query.start());
        for name in path.split('/').skip(1) {
            (complete, progress) = query.step(&progress, name.as_bytes());
        }
        complete
    }

    #[test]
    fn patterns_are_matched_name_by_name() {
        for (pattern, yes, no) in [
            ("a", &["/a", "/b/a", "/a/a"][..], &["/a/b", "/A", "/aa"][..]),
            ("*.tx?", &["/x.txt", "/d/.tx1"], &["/x.txt/y", "/x.tx"]),
            ("a/b", &["/a/b", "/x/a/b", "/a/a/b"], &["/a/x/b", "/b"]),
            ("/a/*", &["/a/b"], &["/a", "/x/a/b", "/a/b/c"]),
            (
                "a/**/b",
                &["/a/b", "/a/x/b", "/y/a/x/y/b"],
                &["/a", "/b", "/a/b/c"],
            ),
            ("a/**", &["/a/b", "/a/b/c"], &["/a", "/b"]),
            ("/**/b", &["/b", "/a/b", "/a/c/b"], &["/b/c"]),
            ("{a,b}[0-9]", &["/a1", "/b9"], &["/c1", "/ab"]),
        ] {
            for path in yes {
                assert!(matches(pattern, path), "{pattern} {path}");
            }
            for path in no {
                assert!(!matches(pattern, path), "{pattern} {path}");
            }
        }
        assert!(Pattern::new("[", false).is_err());
        assert!(Pattern::new("//", false).is_err());
    }
}
