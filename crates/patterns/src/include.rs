//! What of a snapshot is restored, or kept of it.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::error::PatternError;
use crate::pattern::{Pattern, Patterns, add_line, build};

/// What of a snapshot is to be restored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IncludeOptions {
    /// Patterns for what is restored, with all below; without any, everything is.
    pub include: Vec<String>,
    /// Such patterns that ignore case. They come after all others.
    pub include_insensitive: Vec<String>,
    /// Files of such patterns, as [`crate::ExcludeOptions::files`].
    pub include_files: Vec<PathBuf>,
    /// Paths, absolute within the snapshot, that are restored besides, with all below; they are no
    /// patterns.
    pub paths: Vec<PathBuf>,
    /// Patterns for what is left out of that, with all below.
    pub exclude: Vec<String>,
    /// Such patterns that ignore case. They come after all others.
    pub exclude_insensitive: Vec<String>,
    /// Files of such patterns, as [`crate::ExcludeOptions::files`].
    pub exclude_files: Vec<PathBuf>,
}

tabane_storage::setters!(IncludeOptions {
    each include_pattern => include: String,
    each include_insensitive_pattern => include_insensitive: String,
    each include_file => include_files: PathBuf,
    each path => paths: PathBuf,
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
    paths: HashSet<OsString>,
    /// Directories above these.
    above: HashSet<OsString>,
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
    pub fn new(options: &IncludeOptions) -> Result<Self, PatternError> {
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
        let everything = include.parsed.is_empty()
            && options.include_files.is_empty()
            && options.paths.is_empty();
        let include = if everything {
            None
        } else {
            // As paths are compared, but by their bytes: every entry of a snapshot is looked up.
            let bytes = |path: &Path| path.components().collect::<PathBuf>().into_os_string();
            let above = options
                .paths
                .iter()
                .flat_map(|path| path.ancestors().skip(1));
            Some(Include {
                patterns: include.build()?,
                above: above.map(bytes).collect(),
                paths: options.paths.iter().map(|path| bytes(path)).collect(),
                on_the_way: on_the_way(&include.parsed, sensitive)?,
            })
        };
        Ok(Self {
            include,
            exclude: exclude.build()?,
        })
    }

    /// What is done with the directory at this path, absolute within the snapshot.
    pub fn select_directory(&self, path: &Path) -> Selection {
        let ancestors: Vec<&Path> = path.ancestors().collect();
        let ancestors = ancestors.into_iter().rev().skip(1);
        ancestors.fold(Selection::Enter, |parent, path| {
            self.select(path, true, parent)
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
            _ if include.paths.contains(path.as_os_str()) => true,
            Match::Ignore(_) => !root,
            Match::Whitelist(_) => false,
            Match::None => parent == Selection::Take,
        };
        let enter = || match &include.on_the_way {
            None => true,
            Some(directories) => {
                root || directories.matched(path, true).is_ignore()
                    || include.above.contains(path.as_os_str())
            }
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

fn on_the_way(patterns: &[Pattern], sensitive: usize) -> Result<Option<Gitignore>, PatternError> {
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
            add_line(&mut builder, &format!("{line}/")).map_err(PatternError::Patterns)?;
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

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
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
    fn paths_are_no_patterns() {
        let options = IncludeOptions {
            include: strings(&["/notes/*.txt"]),
            paths: vec!["/a/[x]".into(), "/a/b c/d".into()],
            ..IncludeOptions::default()
        };
        let includes = Includes::new(&options).unwrap();
        let select =
            |path: &str, is_dir| includes.select(Path::new(path), is_dir, Selection::Enter);
        assert_eq!(select("/a", true), Selection::Enter);
        assert_eq!(select("/a/[x]", true), Selection::Take);
        assert_eq!(select("/a/x", false), Selection::Skip);
        assert_eq!(select("/a/b c", true), Selection::Enter);
        assert_eq!(select("/a/b", true), Selection::Skip);
        assert_eq!(select("/a/b c/d", false), Selection::Take);
        assert_eq!(select("/notes", true), Selection::Enter);
        assert_eq!(select("/notes/one.txt", false), Selection::Take);
        let taken = includes.select(Path::new("/a/[x]/y"), false, Selection::Take);
        assert_eq!(taken, Selection::Take);
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
