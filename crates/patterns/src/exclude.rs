//! What a backup leaves out.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ignore::gitignore::Gitignore;

use crate::error::PatternError;
use crate::marker::{CACHE_SIGNATURE, Marker, file_name};
use crate::pattern::Patterns;

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
    pub(crate) markers: Vec<Marker>,
    pub(crate) ignore_files: Vec<OsString>,
    larger_than: Option<u64>,
}

impl Excludes {
    /// Reads and compiles all patterns.
    pub fn new(options: &ExcludeOptions) -> Result<Self, PatternError> {
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

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

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
}
