//! Paths of what to back up, as patterns.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use crate::error::PatternError;

/// The paths that there are of a pattern, sorted: `*`, `?` and `[a-z]` stand for characters within
/// a name, and a backslash takes the meaning of the character behind it. A pattern with none of
/// these is a path, whether or not there is one.
///
/// # Errors
/// [`PatternError::Pattern`] for a pattern that is none.
pub fn expand(pattern: &OsStr) -> Result<Vec<PathBuf>, PatternError> {
    if !has_magic(pattern) {
        return Ok(vec![PathBuf::from(pattern)]);
    }
    let mut found = vec![PathBuf::new()];
    for component in Path::new(pattern).components() {
        let name = component.as_os_str();
        if !matches!(component, Component::Normal(_)) || !has_magic(name) {
            found.iter_mut().for_each(|path| path.push(name));
            continue;
        }
        let Some(literal) = without_backslashes(name) else {
            let matcher = matcher(name)?;
            found = found
                .iter()
                .flat_map(|path| children(path, &matcher))
                .collect();
            continue;
        };
        found.iter_mut().for_each(|path| path.push(&literal));
    }
    found.retain(|path| path.symlink_metadata().is_ok());
    found.sort();
    Ok(found)
}

fn has_magic(name: &OsStr) -> bool {
    name.as_bytes().iter().any(|byte| b"*?[\\".contains(byte))
}

/// A name that only has backslashes, without them; nothing if it is a pattern.
fn without_backslashes(name: &OsStr) -> Option<OsString> {
    let mut bytes = name.as_bytes().iter();
    let mut literal = Vec::new();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'*' | b'?' | b'[' => return None,
            b'\\' => literal.push(*bytes.next().unwrap_or(&byte)),
            _ => literal.push(byte),
        }
    }
    Some(OsString::from_vec(literal))
}

fn matcher(name: &OsStr) -> Result<GlobMatcher, PatternError> {
    let invalid = |why: &str| PatternError::Pattern {
        pattern: name.display().to_string(),
        why: why.to_owned(),
    };
    let text = name.to_str().ok_or_else(|| invalid("it is not UTF-8"))?;
    // Alternatives in braces are no part of these patterns.
    let text = text.replace('{', "[{]").replace('}', "[}]");
    let glob = GlobBuilder::new(&text).backslash_escape(true).build();
    let glob = glob.map_err(|error| invalid(&error.kind().to_string()))?;
    Ok(glob.compile_matcher())
}

/// What there is in a directory that matches. Of one that cannot be read there is nothing.
fn children(directory: &Path, matcher: &GlobMatcher) -> Vec<PathBuf> {
    let here = Path::new(".");
    let list = if directory.as_os_str().is_empty() {
        here
    } else {
        directory
    };
    let entries = std::fs::read_dir(list).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name());
    let names = names.filter(|name| matcher.is_match(Path::new(name)));
    names.map(|name| directory.join(name)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn patterns_are_those_of_a_shell() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        for name in [
            "a/x.txt",
            "a/y.txt",
            "b/x.txt",
            "b/.z.txt",
            "b/{q}.txt",
            "b/w*",
        ] {
            let path = root.join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("created");
            fs::write(path, "").expect("written");
        }
        let expand = |pattern: &str| {
            let found = expand(root.join(pattern).as_os_str()).expect(pattern);
            let names = found
                .iter()
                .map(|path| path.strip_prefix(root).expect("below"));
            names
                .map(|name| name.display().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(expand("*/x.txt"), ["a/x.txt", "b/x.txt"]);
        assert_eq!(expand("a/[x-y].t?t"), ["a/x.txt", "a/y.txt"]);
        assert_eq!(expand("?/y*"), ["a/y.txt"]);
        assert_eq!(expand("b/{*}.txt"), ["b/{q}.txt"]);
        assert_eq!(expand("b/w\\*"), ["b/w*"]);
        assert_eq!(expand("b/\\w\\*"), ["b/w*"]);
        assert_eq!(expand("*/none*"), Vec::<String>::new());
        assert_eq!(expand("gone/x.txt"), ["gone/x.txt"]);
        assert_eq!(expand("gone/x*"), Vec::<String>::new());
        assert!(super::expand(OsStr::new("a/[x")).is_err());
    }
}
