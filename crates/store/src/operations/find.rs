//! Searches snapshots for entries, by name, by kind and time, or by the blocks that they consist
//! of.
//!
//! Snapshots share most of their directories. The hits below each distinct directory are
//! remembered, so that a shared directory is read once.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};

use crate::access::browse::Browser;
use crate::access::deep_stack::{DEPTH_MAX, with_deep_stack};
use crate::error::{Error, Result};
use crate::format::entry::{Entry, Kind, Piece, Time, blocks};
use crate::format::snapshot::Snapshot;
use tabane_storage::Id;

/// The most hits remembered; directories beyond it are read again.
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
    /// [`Error::Invalid`].
    pub fn new(text: &str, ignore_case: bool) -> Result<Self> {
        let unusable = |why: &dyn std::fmt::Display| {
            Error::Invalid(format!("the pattern {text:?} cannot be used: {why}"))
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
pub struct Finder {
    browser: Browser,
    query: Query,
    /// Hits below directories, by content and progress of the patterns.
    known: HashMap<(Vec<Id>, Progress), Arc<Vec<Hit>>>,
    remembered: usize,
}

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

impl Finder {
    /// A finder for this query.
    pub fn new(browser: Browser, query: Query) -> Self {
        Self {
            browser,
            query,
            known: HashMap::new(),
            remembered: 0,
        }
    }

    /// Calls `found` with path and entry of each hit in a snapshot, in order; files come without
    /// their content. Returns each unreadable directory once.
    pub fn search(
        &mut self,
        snapshot: &Snapshot,
        found: &mut (dyn FnMut(&Path, &Entry) + Send),
    ) -> Vec<Unreadable> {
        with_deep_stack(|| {
            let mut unreadable = Vec::new();
            let mut path = PathBuf::from("/");
            let start = self.query.start();
            let hits = self.below(&snapshot.root, start, &mut path, 0, &mut unreadable);
            tell(&hits, &mut path, found);
            unreadable
        })
    }

    fn below(
        &mut self,
        content: &[Piece],
        progress: Progress,
        path: &mut PathBuf,
        depth: usize,
        unreadable: &mut Vec<Unreadable>,
    ) -> Arc<Vec<Hit>> {
        let ids = content.iter().filter_map(|piece| match piece {
            Piece::Block { id, .. } => Some(*id),
            Piece::Hole { .. } => None,
        });
        let key = (ids.collect::<Vec<_>>(), progress);
        if let Some(known) = self.known.get(&key) {
            return Arc::clone(known);
        }
        let read = if depth > DEPTH_MAX {
            Err(Error::damaged(
                "a directory",
                "it is too many directories deep",
            ))
        } else {
            self.browser.directory(content)
        };
        let entries = read.unwrap_or_else(|error| {
            let path = path.clone();
            unreadable.push(Unreadable { path, error });
            Vec::new()
        });
        let mut hits = Vec::new();
        for mut entry in entries {
            let (complete, next) = self.query.step(&key.1, &entry.name);
            let meant = complete && self.query.allows(&entry);
            let mut below = None;
            if let Kind::Directory { content } = &entry.kind
                && (self.query.patterns.is_empty() || !next.is_empty())
            {
                path.push(OsStr::from_bytes(&entry.name));
                let hits = self.below(content, next, path, depth + 1, unreadable);
                path.pop();
                below = (!hits.is_empty()).then_some(hits);
            }
            if meant || below.is_some() {
                if let Kind::File { content, .. } | Kind::Directory { content } = &mut entry.kind {
                    content.clear();
                }
                hits.push(Hit {
                    name: entry.name.clone(),
                    entry: meant.then(|| Box::new(entry)),
                    below,
                });
            }
        }
        let hits = Arc::new(hits);
        if self.remembered + hits.len() <= REMEMBERED_MAX {
            self.remembered += hits.len();
            self.known.insert(key, Arc::clone(&hits));
        }
        hits
    }
}

fn tell(hits: &[Hit], path: &mut PathBuf, found: &mut (dyn FnMut(&Path, &Entry) + Send)) {
    for hit in hits {
        path.push(OsStr::from_bytes(&hit.name));
        if let Some(entry) = &hit.entry {
            found(path, entry);
        }
        if let Some(below) = &hit.below {
            tell(below, path, found);
        }
        path.pop();
    }
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
