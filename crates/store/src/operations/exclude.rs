//! What of a tree is left out: of a backup ([`Excludes`], [`Scope`]), of a restore
//! ([`Includes`]).
//!
//! Patterns work as in restic:
//!
//! - `*.o` has no slash and matches that name at any depth; `/srv/*.o` starts with a slash and
//!   matches the whole absolute path; `src/*.o` matches the end of a path, at any depth.
//! - `*` and `?` match anything but a slash, `[a-z]` and `[!a-z]` one character (of) a range, `**`
//!   any number of directories. A backslash takes the meaning from what follows it. Braces have
//!   none.
//! - A directory that matches is left out with all below. `dir/` matches directories only,
//!   `dir/**` everything below `dir` but not itself.
//! - `!pattern` takes back what earlier patterns matched: the last one that matches decides. But
//!   nothing comes back of a directory that is left out.
//!
//! Bytes that are not UTF-8 are no obstacle in paths, but cannot be written in patterns other
//! than as `?`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use tabane_files::read::open_file;

/// What the first bytes of a `CACHEDIR.TAG` have to be.
const CACHE_SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// Longest file of patterns that is read.
const PATTERNS_LEN_MAX: u64 = 16 << 20;

/// Why patterns cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ExcludeError {
    /// A pattern that means nothing.
    #[error("bad pattern {pattern:?}: {why}")]
    Pattern {
        /// The pattern as given.
        pattern: String,
        /// What is wrong with it.
        why: String,
    },
    /// A line of a file of patterns that means nothing.
    #[error("{}, line {line}: {why}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// A file of patterns that cannot be read.
    #[error("cannot read patterns from {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// A name for files in the tree that cannot be one.
    #[error("bad name of a file {name:?}: {why}")]
    Name {
        /// The name as given.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Patterns which are fine each, but not together.
    #[error("cannot use these patterns: {0}")]
    Patterns(String),
}

/// What a backup is to leave out.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ExcludeOptions {
    /// Patterns.
    pub patterns: Vec<String>,
    /// Patterns that ignore case. They come after all others.
    pub insensitive: Vec<String>,
    /// Files with a pattern on each line. Lines starting with `#` and blank lines do not count,
    /// nor does space around a pattern (but a last one after a backslash).
    pub files: Vec<PathBuf>,
    /// Whether to leave out what is in directories tagged as caches (see
    /// <https://bford.info/cachedir/>); directory and tag are kept.
    pub caches: bool,
    /// `NAME` or `NAME:HEADER`: leaves out what is in directories that have such a file, with
    /// such a beginning; directory and file are kept. With a header, it has to be a regular file.
    pub if_present: Vec<String>,
    /// Names of files in the tree, as `.gitignore`: in the format of that, they rule their
    /// directory and what is below it.
    pub ignore_files: Vec<String>,
    /// Leaves out regular files with more bytes than this.
    pub larger_than: Option<u64>,
}

tabane_storage::setters!(ExcludeOptions {
    each pattern => patterns: String,
    each insensitive_pattern => insensitive: String,
    each file => files: PathBuf,
    set => caches: bool,
    each if_file_present => if_present: String,
    each ignore_file => ignore_files: String,
    into => larger_than: Option<u64>,
});

/// Decides what a backup leaves out. Cheap to share, not to clone.
#[derive(Clone, Debug)]
pub struct Excludes {
    patterns: Gitignore,
    markers: Vec<Marker>,
    ignore_files: Vec<OsString>,
    larger_than: Option<u64>,
}

/// A file whose presence leaves out the rest of its directory.
#[derive(Clone, Debug)]
struct Marker {
    name: OsString,
    header: Vec<u8>,
}

impl Excludes {
    /// Reads and compiles all patterns.
    pub fn new(options: &ExcludeOptions) -> Result<Self, ExcludeError> {
        let mut patterns = Patterns::new();
        patterns.add_all(&options.patterns)?;
        patterns.add_files(&options.files)?;
        patterns.ignore_case();
        patterns.add_all(&options.insensitive)?;
        let mut markers = Vec::new();
        if options.caches {
            markers.push(Marker {
                name: "CACHEDIR.TAG".into(),
                header: CACHE_SIGNATURE.to_vec(),
            });
        }
        for text in &options.if_present {
            let (name, header) = text.split_once(':').unwrap_or((text, ""));
            markers.push(Marker {
                name: file_name(name)?,
                header: header.into(),
            });
        }
        let ignore_files = options.ignore_files.iter();
        Ok(Self {
            patterns: patterns.build()?,
            markers,
            ignore_files: ignore_files
                .map(|name| file_name(name))
                .collect::<Result<_, _>>()?,
            larger_than: options.larger_than,
        })
    }

    /// Whether the patterns leave out the entry with this absolute path, itself: it is for the
    /// caller not to enter a directory that is left out.
    pub fn is_excluded(&self, path: &Path, is_dir: bool) -> bool {
        self.patterns.matched(path, is_dir).is_ignore()
    }

    /// Whether a regular file of this size is left out.
    pub fn is_too_large(&self, size: u64) -> bool {
        self.larger_than.is_some_and(|most| size > most)
    }
}

fn file_name(name: &str) -> Result<OsString, ExcludeError> {
    let why = match name {
        "" => "it is empty",
        "." | ".." => "it is a directory",
        _ if name.contains(['/', '\0']) => "it is a path",
        _ => return Ok(name.into()),
    };
    let name = name.to_owned();
    Err(ExcludeError::Name { name, why })
}

/// The rules found on the way from the root of a walk to a directory. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    rules: Option<Arc<Rules>>,
}

#[derive(Debug)]
struct Rules {
    matcher: Gitignore,
    parent: Option<Arc<Rules>>,
}

/// What is known of a directory once its names have been read.
#[derive(Debug)]
pub struct Entered {
    /// For the directory's entries.
    pub scope: Scope,
    /// Whether they are to be looked at.
    pub decision: Decision,
    /// What could not be read or understood, and therefore leaves out nothing.
    pub problems: Vec<Problem>,
}

/// What is done with the content of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is backed up, as far as patterns allow.
    Walk,
    /// It is left out.
    SkipContents {
        /// The names that are not left out: those of the files which say so.
        keep: Vec<OsString>,
    },
}

/// A file in the tree that says what is left out, but could not be read or understood.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", path.display())]
pub struct Problem {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    #[source]
    pub error: io::Error,
}

impl Scope {
    /// For what is backed up by name: no rules yet.
    pub fn root() -> Self {
        Self::default()
    }

    /// Looks into a directory, of which `entries` are the names, for files that say what of it is
    /// left out. `self` is the scope that the directory is in.
    pub fn enter<N: AsRef<OsStr>>(
        &self,
        excludes: &Excludes,
        dir: BorrowedFd<'_>,
        dir_path: &Path,
        entries: &[N],
    ) -> Entered {
        let mut entered = Entered {
            scope: self.clone(),
            decision: Decision::Walk,
            problems: Vec::new(),
        };
        if excludes.markers.is_empty() && excludes.ignore_files.is_empty() {
            return entered;
        }
        let has = |name: &OsStr| entries.iter().any(|entry| entry.as_ref() == name);
        let mut keep = Vec::new();
        for marker in &excludes.markers {
            if !has(&marker.name) || keep.contains(&marker.name) {
                continue;
            }
            match marker.is_in(dir) {
                Ok(true) => keep.push(marker.name.clone()),
                Ok(false) => {}
                Err(error) => entered.problems.push(Problem {
                    path: dir_path.join(&marker.name),
                    error,
                }),
            }
        }
        if !keep.is_empty() {
            entered.decision = Decision::SkipContents { keep };
            return entered;
        }
        let mut builder = GitignoreBuilder::new(dir_path);
        let mut any = false;
        for name in &excludes.ignore_files {
            if !has(name) {
                continue;
            }
            any = true;
            let mut problem = |error| {
                let path = dir_path.join(name);
                entered.problems.push(Problem { path, error });
            };
            match read_at(dir, name, PATTERNS_LEN_MAX + 1) {
                Ok(Some(text)) if text.len() as u64 > PATTERNS_LEN_MAX => {
                    problem(io::Error::new(io::ErrorKind::FileTooLarge, "too long"));
                }
                Ok(Some(text)) => add_gitignore(&mut builder, &text, problem),
                // Something of that name, but no file.
                Ok(None) => {}
                Err(error) => problem(error),
            }
        }
        if any {
            match builder.build() {
                Ok(matcher) if matcher.is_empty() => {}
                Ok(matcher) => {
                    let parent = self.rules.clone();
                    entered.scope.rules = Some(Arc::new(Rules { matcher, parent }));
                }
                Err(error) => entered.problems.push(Problem {
                    path: dir_path.to_owned(),
                    error: io::Error::new(io::ErrorKind::InvalidData, error.to_string()),
                }),
            }
        }
        entered
    }

    /// Whether files found in the tree leave out the entry with this absolute path, which is in
    /// the directory of this scope. The nearest file that has a pattern for it decides.
    pub fn is_excluded(&self, path: &Path, is_dir: bool) -> bool {
        let mut next = self.rules.as_deref();
        while let Some(rules) = next {
            match rules.matcher.matched(path, is_dir) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => next = rules.parent.as_deref(),
            }
        }
        false
    }
}

impl Marker {
    fn is_in(&self, dir: BorrowedFd<'_>) -> io::Result<bool> {
        if self.header.is_empty() {
            return Ok(true);
        }
        let head = read_at(dir, &self.name, self.header.len() as u64)?;
        Ok(head.as_deref() == Some(&self.header))
    }
}

/// Reads the beginning of a regular file; `None` if it is something else.
fn read_at(dir: BorrowedFd<'_>, name: &OsStr, at_most: u64) -> io::Result<Option<Vec<u8>>> {
    use rustix::io::Errno;
    let file = match open_file(dir, name) {
        Ok(file) => File::from(file),
        // A link, a socket or a device without driver, and nothing (any more).
        Err(error)
            if [Errno::LOOP, Errno::NXIO, Errno::NODEV, Errno::NOENT]
                .map(|errno| Some(errno.raw_os_error()))
                .contains(&error.raw_os_error()) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let mut text = Vec::new();
    file.take(at_most).read_to_end(&mut text)?;
    Ok(Some(text))
}

/// The lines of a text, without what ends them and without a byte order mark.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    text.split(|&byte| byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

fn add_gitignore(builder: &mut GitignoreBuilder, text: &[u8], mut problem: impl FnMut(io::Error)) {
    for (number, line) in lines(text).enumerate() {
        let mut bad = |why: String| {
            let text = format!("line {}: {why}", number + 1);
            problem(io::Error::new(io::ErrorKind::InvalidData, text));
        };
        match std::str::from_utf8(line) {
            Ok(line) => {
                // Braces are nothing special to git, but to the matcher.
                let line = escape(line).unwrap_or_else(|_| line.to_owned());
                if let Err(error) = builder.add_line(None, &line) {
                    bad(error.to_string());
                }
            }
            Err(_) if line.starts_with(b"#") => {}
            Err(_) => bad("not UTF-8".to_owned()),
        }
    }
}

/// Makes a glob that means to the matcher what it means to the shell without braces.
fn escape(glob: &str) -> Result<String, &'static str> {
    let mut escaped = String::with_capacity(glob.len() + 8);
    let mut rest = glob.chars();
    while let Some(char) = rest.next() {
        match char {
            '\\' => {
                escaped.push('\\');
                escaped.push(rest.next().ok_or("it ends in a backslash")?);
            }
            '{' | '}' => {
                escaped.push('\\');
                escaped.push(char);
            }
            '[' => {
                let class = rest.as_str();
                // A bracket that comes first does not close.
                let negated = class.starts_with(['!', '^']);
                let start = usize::from(negated);
                let first = class[start..].chars().next().map_or(0, char::len_utf8);
                let Some(len) = class[start + first..].find(']') else {
                    return Err("a [ is not closed");
                };
                let end = start + first + len + 1;
                if class[..end].contains('\\') {
                    return Err("a backslash has no meaning between [ and ]");
                }
                escaped.push('[');
                // "Anything but" is to the matcher also a slash, unless that is named. A bracket
                // or a dash that comes first has to stay there.
                let named = &class[start..end];
                let fixed = usize::from(named.starts_with([']', '-']));
                if negated && !named[fixed..].starts_with('-') {
                    escaped.push('!');
                    escaped.push_str(&named[..fixed]);
                    escaped.push('/');
                    escaped.push_str(&named[fixed..]);
                } else {
                    escaped.push_str(&class[..end]);
                }
                rest = class[end..].chars();
            }
            char => escaped.push(char),
        }
    }
    Ok(escaped)
}

/// A pattern taken apart.
struct Pattern {
    negated: bool,
    anchored: bool,
    only_dir: bool,
    components: Vec<String>,
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let (negated, text) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        if text.is_empty() {
            return Err("it is empty");
        }
        if text.contains('\0') {
            return Err("no name contains NUL");
        }
        let mut components = Vec::new();
        for component in text.split('/') {
            match component {
                "" | "." => {}
                ".." => return Err("no path contains `..`"),
                _ => components.push(escape(component)?),
            }
        }
        if components.is_empty() {
            return Err("it names nothing");
        }
        Ok(Self {
            negated,
            anchored: text.starts_with('/'),
            only_dir: text.ends_with('/'),
            components,
        })
    }

    /// As a line of a `.gitignore` in the root directory.
    fn line(&self) -> String {
        let mut line = String::new();
        if self.negated {
            line.push('!');
        }
        line.push_str(if self.anchored { "/" } else { "**/" });
        let components: &[String] = match self.components.as_slice() {
            // To match something, and not only to have something below.
            [all] if all == "**" && !self.anchored => &["*".to_owned()],
            components => components,
        };
        line.push_str(&components.join("/"));
        if self.only_dir {
            line.push('/');
        } else if !line.ends_with("\\ ")
            && let Some(space) = line.chars().next_back().filter(|char| char.is_whitespace())
        {
            line.pop();
            // Space at the end of a line would not count, but here it does.
            line.push('[');
            line.push(space);
            line.push(']');
        }
        line
    }
}

/// Patterns of one matcher, in order.
struct Patterns {
    builder: GitignoreBuilder,
    parsed: Vec<Pattern>,
}

impl Patterns {
    fn new() -> Self {
        let mut builder = GitignoreBuilder::new("/");
        builder.allow_unclosed_class(false);
        Self {
            builder,
            parsed: Vec::new(),
        }
    }

    fn ignore_case(&mut self) {
        // Cannot fail, whatever its type.
        let _ = self.builder.case_insensitive(true);
    }

    fn add(&mut self, text: &str) -> Result<(), String> {
        let pattern = Pattern::parse(text)?;
        add_line(&mut self.builder, &pattern.line())?;
        self.parsed.push(pattern);
        Ok(())
    }

    fn add_all(&mut self, patterns: &[String]) -> Result<(), ExcludeError> {
        for pattern in patterns {
            self.add(pattern).map_err(|why| ExcludeError::Pattern {
                pattern: pattern.clone(),
                why,
            })?;
        }
        Ok(())
    }

    fn add_files(&mut self, files: &[PathBuf]) -> Result<(), ExcludeError> {
        for path in files {
            self.add_file(path)?;
        }
        Ok(())
    }

    fn add_file(&mut self, path: &Path) -> Result<(), ExcludeError> {
        let error = |error| ExcludeError::File {
            path: path.to_owned(),
            error,
        };
        let mut text = Vec::new();
        let file = File::open(path).map_err(error)?;
        let file = &mut file.take(PATTERNS_LEN_MAX + 1);
        let len = file.read_to_end(&mut text).map_err(error)?;
        if len as u64 > PATTERNS_LEN_MAX {
            return Err(error(io::Error::new(
                io::ErrorKind::FileTooLarge,
                "too long",
            )));
        }
        for (number, line) in lines(&text).enumerate() {
            let line = line.trim_ascii_start();
            if line.starts_with(b"#") {
                continue;
            }
            let result = match std::str::from_utf8(line) {
                Err(_) => Err("not UTF-8; write ? for a byte which is not".to_owned()),
                Ok(line) => match trim_end(line) {
                    "" => Ok(()),
                    line => self
                        .add(line)
                        .map_err(|why| format!("bad pattern {line:?}: {why}")),
                },
            };
            result.map_err(|why| ExcludeError::Line {
                path: path.to_owned(),
                line: number + 1,
                why,
            })?;
        }
        Ok(())
    }

    fn build(&self) -> Result<Gitignore, ExcludeError> {
        build(&self.builder)
    }
}

/// Without the space at the end, but with one after a backslash.
fn trim_end(line: &str) -> &str {
    let trimmed = line.trim_end();
    let backslashes = trimmed.len() - trimmed.trim_end_matches('\\').len();
    if backslashes % 2 == 1 && line.len() > trimmed.len() {
        &line[..trimmed.len() + 1]
    } else {
        trimmed
    }
}

fn add_line(builder: &mut GitignoreBuilder, line: &str) -> Result<(), String> {
    match builder.add_line(None, line) {
        Ok(_) => Ok(()),
        Err(ignore::Error::Glob { err, .. }) => Err(err),
        Err(error) => Err(error.to_string()),
    }
}

fn build(builder: &GitignoreBuilder) -> Result<Gitignore, ExcludeError> {
    let error = |error: ignore::Error| ExcludeError::Patterns(error.to_string());
    builder.build().map_err(error)
}

/// What of a snapshot is to be restored.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct IncludeOptions {
    /// Patterns for what is restored, with all below; without any, everything is.
    pub include: Vec<String>,
    /// Such patterns that ignore case. They come after all others.
    pub include_insensitive: Vec<String>,
    /// Files of such patterns, as [`ExcludeOptions::files`].
    pub include_files: Vec<PathBuf>,
    /// Patterns for what is left out of that, with all below.
    pub exclude: Vec<String>,
    /// Such patterns that ignore case. They come after all others.
    pub exclude_insensitive: Vec<String>,
    /// Files of such patterns, as [`ExcludeOptions::files`].
    pub exclude_files: Vec<PathBuf>,
}

tabane_storage::setters!(IncludeOptions {
    each include_pattern => include: String,
    each include_insensitive_pattern => include_insensitive: String,
    each include_file => include_files: PathBuf,
    each exclude_pattern => exclude: String,
    each exclude_insensitive_pattern => exclude_insensitive: String,
    each exclude_file => exclude_files: PathBuf,
});

/// Decides what of a snapshot is restored, by the paths in it.
#[derive(Clone, Debug)]
pub struct Includes {
    /// `None` to include everything.
    include: Option<Include>,
    exclude: Gitignore,
}

#[derive(Clone, Debug)]
struct Include {
    patterns: Gitignore,
    /// Directories on the way to where a pattern may match; `None` for all.
    on_the_way: Option<Gitignore>,
}

/// What is done with an entry of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Selection {
    /// Neither it nor anything below is restored.
    Skip,
    /// It is a directory, and something below may be restored, but not it for its own sake.
    Enter,
    /// It is restored, and what is below unless left out.
    Take,
}

impl Includes {
    /// Reads and compiles all patterns.
    pub fn new(options: &IncludeOptions) -> Result<Self, ExcludeError> {
        let mut include = Patterns::new();
        include.add_all(&options.include)?;
        include.add_files(&options.include_files)?;
        let sensitive = include.parsed.len();
        include.ignore_case();
        include.add_all(&options.include_insensitive)?;
        let mut exclude = Patterns::new();
        exclude.add_all(&options.exclude)?;
        exclude.add_files(&options.exclude_files)?;
        exclude.ignore_case();
        exclude.add_all(&options.exclude_insensitive)?;
        // An empty file of patterns is no reason to restore everything.
        let everything = include.parsed.is_empty() && options.include_files.is_empty();
        let include = if everything {
            None
        } else {
            Some(Include {
                patterns: include.build()?,
                on_the_way: on_the_way(&include.parsed, sensitive)?,
            })
        };
        Ok(Self {
            include,
            exclude: exclude.build()?,
        })
    }

    /// What is done with the entry at this path, absolute within the snapshot, in a directory
    /// for which the answer was `parent` ([`Selection::Enter`] to begin with).
    pub fn select(&self, path: &Path, is_dir: bool, parent: Selection) -> Selection {
        if parent == Selection::Skip || self.exclude.matched(path, is_dir).is_ignore() {
            return Selection::Skip;
        }
        let Some(include) = &self.include else {
            return Selection::Take;
        };
        let root = path.as_os_str().as_bytes() == b"/";
        let taken = match include.patterns.matched(path, is_dir) {
            Match::Ignore(_) => !root,
            Match::Whitelist(_) => false,
            Match::None => parent == Selection::Take,
        };
        let enter = || match &include.on_the_way {
            None => true,
            Some(directories) => root || directories.matched(path, true).is_ignore(),
        };
        if taken {
            Selection::Take
        } else if is_dir && enter() {
            Selection::Enter
        } else {
            Selection::Skip
        }
    }
}

fn on_the_way(patterns: &[Pattern], sensitive: usize) -> Result<Option<Gitignore>, ExcludeError> {
    let mut builder = GitignoreBuilder::new("/");
    builder.allow_unclosed_class(false);
    for (number, pattern) in patterns.iter().enumerate() {
        if pattern.negated {
            continue;
        }
        if !pattern.anchored || pattern.components[0] == "**" {
            return Ok(None);
        }
        // Cannot fail, whatever its type.
        let _ = builder.case_insensitive(number >= sensitive);
        let mut line = String::new();
        for component in &pattern.components[..pattern.components.len() - 1] {
            line.push('/');
            line.push_str(component);
            add_line(&mut builder, &format!("{line}/")).map_err(ExcludeError::Patterns)?;
            if component == "**" {
                break;
            }
        }
    }
    build(&builder).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::fd::AsFd;
    use std::os::unix::fs::symlink;

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    fn excludes(patterns: &[&str]) -> Excludes {
        let patterns = strings(patterns);
        Excludes::new(&ExcludeOptions {
            patterns,
            ..ExcludeOptions::default()
        })
        .unwrap()
    }

    /// The paths of `paths` that match; those that end in a slash are directories.
    fn matching<'a>(excludes: &Excludes, paths: &[&'a str]) -> Vec<&'a str> {
        let excluded = |path: &str| match path.strip_suffix('/') {
            Some(dir) => excludes.is_excluded(Path::new(dir), true),
            None => excludes.is_excluded(Path::new(path), false),
        };
        paths
            .iter()
            .copied()
            .filter(|path| excluded(path))
            .collect()
    }

    #[test]
    fn patterns() {
        // Pattern, what it matches, what it does not.
        let table: &[(&str, &[&str], &[&str])] = &[
            (
                "foo",
                &["/foo", "/a/foo", "/a/b/foo/"],
                &["/foox", "/a/xfoo", "/foo/x"],
            ),
            ("*.o", &["/a.o", "/x/y/.o", "/x/a.o/"], &["/a.oo", "/a.o/x"]),
            ("/foo", &["/foo", "/foo/"], &["/a/foo", "/foo/x"]),
            (
                "/home/*/x",
                &["/home/a/x"],
                &["/home/x", "/home/a/b/x", "/y/home/a/x"],
            ),
            (
                "foo/bar",
                &["/foo/bar", "/a/foo/bar", "/a/b/foo/bar/"],
                &["/foo/x/bar", "/bar", "/xfoo/bar"],
            ),
            ("foo/*.c", &["/foo/a.c", "/a/foo/a.c"], &["/foo/a/a.c"]),
            (
                "foo/**/bar",
                &["/foo/bar", "/x/foo/a/b/bar"],
                &["/foobar", "/foo/x"],
            ),
            ("/a/**/z", &["/a/z", "/a/b/c/z"], &["/x/a/z"]),
            ("/a/**", &["/a/b", "/a/b/c/"], &["/a", "/a/", "/b"]),
            ("dir/**", &["/dir/b", "/x/dir/b/c"], &["/dir/"]),
            ("**/x", &["/x", "/a/b/x"], &["/ax"]),
            ("**", &["/x", "/a/b/"], &[]),
            ("/**", &["/x", "/a/b/"], &[]),
            ("dir/", &["/dir/", "/a/dir/"], &["/dir", "/a/dir"]),
            ("/a//./b/", &["/a/b/"], &["/a/b"]),
            ("./foo", &["/foo", "/a/foo"], &[]),
            ("f?o", &["/fao", "/x/f o"], &["/fo", "/f/o", "/fooo"]),
            ("[a-c]x", &["/ax", "/y/cx"], &["/dx", "/x"]),
            ("[!a-c]x", &["/dx"], &["/ax", "/x"]),
            ("a[!b]c", &["/axc", "/a]c"], &["/a/c", "/abc"]),
            ("a[!]]c", &["/axc"], &["/a/c", "/a]c"]),
            ("a[^]b-d]c", &["/axc"], &["/a/c", "/a]c", "/acc"]),
            ("a[!-b]c", &["/axc"], &["/a/c", "/a-c", "/abc"]),
            ("a[!b-]c", &["/axc"], &["/a/c", "/a-c", "/abc"]),
            ("[]x]", &["/]", "/x"], &["/y"]),
            ("{a,b}", &["/{a,b}"], &["/a", "/b"]),
            ("a{b", &["/a{b"], &["/ab"]),
            ("\\*", &["/*", "/a/*"], &["/a"]),
            ("\\!x", &["/!x"], &["/x"]),
            ("#x", &["/#x", "/a/#x"], &["/x"]),
            ("x ", &["/x "], &["/x"]),
            ("x\t", &["/x\t"], &["/x"]),
            ("x\\ ", &["/x "], &["/x"]),
            (" x", &["/ x"], &["/x"]),
            ("é*", &["/état", "/é"], &["/e"]),
            ("Foo", &["/Foo"], &["/foo"]),
            (".*", &["/.x", "/a/.x"], &["/x", "/a.x"]),
        ];
        for (pattern, yes, no) in table {
            let excludes = excludes(&[pattern]);
            assert_eq!(matching(&excludes, yes), *yes, "{pattern}");
            assert!(matching(&excludes, no).is_empty(), "{pattern}");
        }
    }

    #[test]
    fn the_last_match_decides() {
        let some = excludes(&["*.o", "!keep.o", "/x/keep.o"]);
        let paths = ["/a.o", "/keep.o", "/y/keep.o", "/x/keep.o"];
        assert_eq!(matching(&some, &paths), ["/a.o", "/x/keep.o"]);
        let some = excludes(&["/home/*", "!/home/me"]);
        assert_eq!(
            matching(&some, &["/home/you/", "/home/me/"]),
            ["/home/you/"]
        );
    }

    #[test]
    fn case() {
        let options = ExcludeOptions {
            patterns: strings(&["*.Tmp"]),
            insensitive: strings(&["/A/*.Jpg"]),
            ..ExcludeOptions::default()
        };
        let excludes = Excludes::new(&options).unwrap();
        let paths = ["/x.tmp", "/x.Tmp", "/a/X.JPG", "/A/x.jpg", "/b/x.jpg"];
        assert_eq!(
            matching(&excludes, &paths),
            ["/x.Tmp", "/a/X.JPG", "/A/x.jpg"]
        );
    }

    #[test]
    fn names_that_are_not_utf8() {
        let path = Path::new(OsStr::from_bytes(b"/a\xff/b\xfe\n.o"));
        assert!(excludes(&["*.o"]).is_excluded(path, false));
        assert!(excludes(&["/a?/b*"]).is_excluded(path, false));
        assert!(!excludes(&["/a/b*"]).is_excluded(path, false));
        assert!(!excludes(&[]).is_excluded(path, false));
    }

    #[test]
    fn bad_patterns_are_named() {
        for pattern in [
            "", "!", "/", "//", ".", "a/../b", "[a", "x/[b/c]", "a\\", "[z-a]", "[\\]]",
        ] {
            let options = ExcludeOptions {
                patterns: strings(&["fine", pattern]),
                ..ExcludeOptions::default()
            };
            let error = Excludes::new(&options).unwrap_err().to_string();
            let start = format!("bad pattern {pattern:?}: ");
            assert!(
                error.starts_with(&start) && error.len() > start.len(),
                "{error}"
            );
        }
        for name in ["", ":header", "a/b", ".."] {
            let options = ExcludeOptions {
                if_present: strings(&[name]),
                ..ExcludeOptions::default()
            };
            assert!(Excludes::new(&options).is_err(), "{name}");
        }
    }

    #[test]
    fn files_of_patterns() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("patterns");
        let options = ExcludeOptions {
            files: vec![path.clone()],
            ..ExcludeOptions::default()
        };
        let text =
            b"\xef\xbb\xbf# comment\n\n  \r\n*.o\r\n  /tmp  \nspace\\ \n\\#x\n# \xff\n!keep.o";
        fs::write(&path, text).unwrap();
        let excludes = Excludes::new(&options).unwrap();
        let paths = [
            "/a.o",
            "/tmp",
            "/space ",
            "/space",
            "/#x",
            "/keep.o",
            "/# comment",
        ];
        assert_eq!(
            matching(&excludes, &paths),
            ["/a.o", "/tmp", "/space ", "/#x"]
        );

        fs::write(&path, b"fine\n\n[x\n").unwrap();
        let error = Excludes::new(&options).unwrap_err().to_string();
        assert!(
            error.ends_with("patterns, line 3: bad pattern \"[x\": a [ is not closed"),
            "{error}"
        );
        fs::write(&path, b"fine\nx\xff\n").unwrap();
        let error = Excludes::new(&options).unwrap_err().to_string();
        assert!(error.contains("patterns, line 2: not UTF-8"), "{error}");
        fs::remove_file(&path).unwrap();
        let error = Excludes::new(&options).unwrap_err().to_string();
        assert!(error.contains("cannot read patterns from /"), "{error}");
    }

    #[test]
    fn large_files() {
        let mut excludes = excludes(&[]);
        assert!(!excludes.is_too_large(u64::MAX));
        excludes.larger_than = Some(10);
        assert!(!excludes.is_too_large(10));
        assert!(excludes.is_too_large(11));
    }

    /// Enters a directory as a walk would.
    fn enter(scope: &Scope, excludes: &Excludes, path: &Path) -> Entered {
        let dir = File::open(path).unwrap();
        let names: Vec<OsString> = fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        scope.enter(excludes, dir.as_fd(), path, &names)
    }

    #[test]
    fn markers() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let options = ExcludeOptions {
            caches: true,
            if_present: strings(&[".nobackup", ".maybe:yes: do"]),
            ..ExcludeOptions::default()
        };
        let excludes = Excludes::new(&options).unwrap();
        let decide = || {
            let entered = enter(&Scope::root(), &excludes, dir.path());
            assert!(entered.problems.is_empty());
            match entered.decision {
                Decision::Walk => vec![],
                Decision::SkipContents { keep } => keep,
            }
        };
        fs::write(at("other"), b"").unwrap();
        assert!(decide().is_empty());
        fs::write(
            at("CACHEDIR.TAG"),
            b"Signature: 8a477f597d28d172789f06886806bc5",
        )
        .unwrap();
        assert!(decide().is_empty());
        fs::write(at("CACHEDIR.TAG"), [CACHE_SIGNATURE, b"\n# more"].concat()).unwrap();
        assert_eq!(decide(), ["CACHEDIR.TAG"]);
        fs::rename(at("CACHEDIR.TAG"), at("tag")).unwrap();
        symlink("tag", at("CACHEDIR.TAG")).unwrap();
        assert!(decide().is_empty());
        fs::write(at(".maybe"), b"yes: d").unwrap();
        assert!(decide().is_empty());
        fs::write(at(".maybe"), b"yes: do").unwrap();
        assert_eq!(decide(), [".maybe"]);
        symlink("nowhere", at(".nobackup")).unwrap();
        assert_eq!(decide(), [".nobackup", ".maybe"]);
        // Something else of that name neither blocks nor counts.
        fs::remove_file(at(".nobackup")).unwrap();
        fs::remove_file(at(".maybe")).unwrap();
        fs::create_dir(at(".maybe")).unwrap();
        assert!(decide().is_empty());
        fs::remove_dir(at(".maybe")).unwrap();
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, at(".maybe"), mode).unwrap();
        assert!(decide().is_empty());
    }

    #[test]
    fn ignore_files() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("sub/deep")).unwrap();
        fs::write(
            at(".gitignore"),
            b"# c\n*.o\n/top\nbuild/\n!keep.o\na/b\n{x}\n\\#y\nz\xff\n[\r\n",
        )
        .unwrap();
        fs::write(at("sub/.gitignore"), b"!a.o\n/top2\n").unwrap();
        fs::write(at("sub/.ignore"), b"top3\n").unwrap();
        let options = ExcludeOptions {
            ignore_files: strings(&[".gitignore", ".ignore"]),
            ..ExcludeOptions::default()
        };
        let excludes = Excludes::new(&options).unwrap();
        let top = enter(&Scope::root(), &excludes, dir.path());
        assert_eq!(top.decision, Decision::Walk);
        assert_eq!(top.problems.len(), 1, "{:?}", top.problems);
        let problem = top.problems[0].to_string();
        assert!(
            problem.ends_with("/.gitignore: line 9: not UTF-8"),
            "{problem}"
        );
        let is = |scope: &Scope, path: &str| match path.strip_suffix('/') {
            Some(path) => scope.is_excluded(&at(path), true),
            None => scope.is_excluded(&at(path), false),
        };
        for path in ["a.o", "top", "build/", "a/b", "{x}", "#y", "["] {
            assert!(is(&top.scope, path), "{path}");
        }
        for path in ["keep.o", "build", "x", "b", "y", "# c"] {
            assert!(!is(&top.scope, path), "{path}");
        }
        let sub = enter(&top.scope, &excludes, &at("sub"));
        let deep = enter(&sub.scope, &excludes, &at("sub/deep"));
        for path in ["sub/b.o", "sub/top2", "sub/top3", "sub/build/"] {
            assert!(is(&sub.scope, path), "{path}");
        }
        for path in ["sub/a.o", "sub/top", "sub/keep.o", "sub/a/c"] {
            assert!(!is(&sub.scope, path), "{path}");
        }
        assert!(is(&deep.scope, "sub/deep/b.o"));
        assert!(is(&deep.scope, "sub/deep/top3"));
        assert!(!is(&deep.scope, "sub/deep/a.o"));
        assert!(!is(&deep.scope, "sub/deep/top2"));
        assert!(!is(&Scope::root(), "a.o"));
        // An unreadable one says so: a directory is none, too long is a problem.
        fs::remove_file(at("sub/.ignore")).unwrap();
        fs::create_dir(at("sub/.ignore")).unwrap();
        let sub = enter(&top.scope, &excludes, &at("sub"));
        assert!(sub.problems.is_empty());
        let long = File::create(at("sub/deep/.ignore")).unwrap();
        long.set_len(PATTERNS_LEN_MAX + 1).unwrap();
        let deep = enter(&sub.scope, &excludes, &at("sub/deep"));
        assert_eq!(deep.problems.len(), 1);
    }

    #[test]
    fn ignore_files_below_odd_names() {
        let dir = tempfile::tempdir().unwrap();
        let odd = dir.path().join(OsStr::from_bytes(b"[a]*\xff {"));
        fs::create_dir(&odd).unwrap();
        fs::write(odd.join("ignored"), b"/x\n").unwrap();
        let options = ExcludeOptions {
            ignore_files: strings(&["ignored"]),
            ..ExcludeOptions::default()
        };
        let excludes = Excludes::new(&options).unwrap();
        let scope = enter(&Scope::root(), &excludes, &odd).scope;
        assert!(scope.is_excluded(&odd.join("x"), false));
        assert!(!scope.is_excluded(&odd.join("y"), false));
        assert!(!scope.is_excluded(&odd.join("y/x"), false));
    }

    #[test]
    fn selecting() {
        use Selection::{Enter, Skip, Take};
        // Includes, excludes, and a way down with what is said at each step.
        type Way<'a> = &'a [(&'a str, Selection)];
        let table: &[(&[&str], &[&str], Way<'_>)] = &[
            (&[], &[], &[("/", Take), ("/a/", Take), ("/a/b", Take)]),
            (
                &[],
                &["b"],
                &[("/a/", Take), ("/a/b/", Skip), ("/a/b/c", Skip)],
            ),
            (
                &["/a/b"],
                &[],
                &[
                    ("/", Enter),
                    ("/a/", Enter),
                    ("/a/b/", Take),
                    ("/a/b/c/", Take),
                ],
            ),
            (&["/a/b"], &[], &[("/a/", Enter), ("/a/c", Skip)]),
            (&["/a/b"], &[], &[("/c/", Skip)]),
            (&["/a/b"], &[], &[("/a", Skip)]),
            (&["/a/b/"], &[], &[("/a/", Enter), ("/a/b", Skip)]),
            (&["/a*/b"], &[], &[("/ax/", Enter), ("/ax/b", Take)]),
            (&["/a*/b"], &[], &[("/b/", Skip)]),
            (
                &["/a/**/z"],
                &[],
                &[
                    ("/a/", Enter),
                    ("/a/b/", Enter),
                    ("/a/b/c/", Enter),
                    ("/a/b/c/z", Take),
                ],
            ),
            (&["/a/**/z"], &[], &[("/b/", Skip)]),
            (
                &["/a/**"],
                &[],
                &[("/a/", Enter), ("/a/b/", Take), ("/a/b/c", Take)],
            ),
            (
                &["b"],
                &[],
                &[("/a/", Enter), ("/a/b/", Take), ("/a/b/c", Take)],
            ),
            (&["b"], &[], &[("/a/", Enter), ("/a/c", Skip)]),
            (&["**/b"], &[], &[("/a/", Enter), ("/a/b", Take)]),
            (&["/**/b"], &[], &[("/a/", Enter), ("/a/b", Take)]),
            (&["/**"], &[], &[("/", Enter), ("/a/", Take)]),
            (
                &["a/b"],
                &[],
                &[("/x/", Enter), ("/x/a/", Enter), ("/x/a/b", Take)],
            ),
            (&["/a"], &["*.o"], &[("/a/", Take), ("/a/x.o", Skip)]),
            (
                &["/a"],
                &["*.o", "!x.o"],
                &[("/a/", Take), ("/a/x.o", Take)],
            ),
            (&["/a", "!/a/b"], &[], &[("/a/", Take), ("/a/b/", Skip)]),
            (
                &["/a", "!/a/b", "/a/b/c"],
                &[],
                &[("/a/", Take), ("/a/b/", Enter), ("/a/b/c", Take)],
            ),
        ];
        for (include, exclude, way) in table {
            let includes = Includes::new(&IncludeOptions {
                include: strings(include),
                exclude: strings(exclude),
                ..IncludeOptions::default()
            })
            .unwrap();
            let mut selection = Enter;
            for (path, expected) in *way {
                let (path, is_dir) = match path.strip_suffix('/') {
                    Some("") => ("/", true),
                    Some(dir) => (dir, true),
                    None => (*path, false),
                };
                selection = includes.select(Path::new(path), is_dir, selection);
                assert_eq!(selection, *expected, "{include:?} {exclude:?} {path}");
            }
        }
    }

    #[test]
    fn selecting_whatever_case() {
        let includes = Includes::new(&IncludeOptions {
            include: strings(&["/A/x"]),
            include_insensitive: strings(&["/B/x"]),
            exclude_insensitive: strings(&["*.O"]),
            ..IncludeOptions::default()
        })
        .unwrap();
        let select = |path: &str| includes.select(Path::new(path), true, Selection::Enter);
        assert_eq!(select("/a"), Selection::Skip);
        assert_eq!(select("/b"), Selection::Enter);
        assert_eq!(select("/b/X"), Selection::Take);
        assert_eq!(select("/b/x.o"), Selection::Skip);
    }

    #[test]
    fn an_empty_file_of_includes_includes_nothing() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let includes = Includes::new(&IncludeOptions {
            include_files: vec![file.path().to_owned()],
            ..IncludeOptions::default()
        })
        .unwrap();
        let selection = includes.select(Path::new("/a"), true, Selection::Enter);
        assert_eq!(selection, Selection::Skip);
    }
}
