//! The rules of files in the tree, on the way from the root of a walk to a directory.

use std::ffi::OsString;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::exclude::Excludes;
use crate::marker::read_at;
use crate::pattern::{PATTERNS_LEN_MAX, escape, lines};

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
    /// Its names, or those that are not left out with the rest of it: of the files which say so.
    pub names: Vec<OsString>,
    /// What could not be read or understood, and therefore leaves out nothing.
    pub problems: Vec<Problem>,
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

    /// Looks into a directory, of which `names` are the entries, for files that say what of it is
    /// left out. `self` is the scope that the directory is in.
    pub fn enter(
        &self,
        excludes: &Excludes,
        dir: BorrowedFd<'_>,
        dir_path: &Path,
        names: Vec<OsString>,
    ) -> Entered {
        let mut entered = Entered {
            scope: self.clone(),
            names,
            problems: Vec::new(),
        };
        if excludes.markers.is_empty() && excludes.ignore_files.is_empty() {
            return entered;
        }
        let has = |name: &OsString| entered.names.contains(name);
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
            entered.names = keep;
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

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs::{self, File};
    use std::os::fd::AsFd;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::exclude::ExcludeOptions;
    use crate::marker::CACHE_SIGNATURE;

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    /// Enters a directory as a walk would.
    fn enter(scope: &Scope, excludes: &Excludes, path: &Path) -> Entered {
        let dir = File::open(path).unwrap();
        let names: Vec<OsString> = fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        scope.enter(excludes, dir.as_fd(), path, names)
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
            if entered.names.iter().any(|name| name == "other") {
                vec![]
            } else {
                entered.names
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
        assert_eq!(top.names.len(), 2);
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
}
