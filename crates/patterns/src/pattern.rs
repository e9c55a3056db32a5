//! Patterns of paths, as lines of a `.gitignore` in the root directory.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::error::PatternError;

/// Longest file of patterns that is read.
pub(crate) const PATTERNS_LEN_MAX: u64 = 16 << 20;

/// The lines of a text, without what ends them and without a byte order mark.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    text.split(|&byte| byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// Makes a glob that means to the matcher what it means to the shell without braces.
pub(crate) fn escape(glob: &str) -> Result<String, &'static str> {
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
pub(crate) struct Pattern {
    pub(crate) negated: bool,
    pub(crate) anchored: bool,
    only_dir: bool,
    pub(crate) components: Vec<String>,
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
pub(crate) struct Patterns {
    builder: GitignoreBuilder,
    pub(crate) parsed: Vec<Pattern>,
}

impl Patterns {
    pub(crate) fn new() -> Self {
        let mut builder = GitignoreBuilder::new("/");
        builder.allow_unclosed_class(false);
        Self {
            builder,
            parsed: Vec::new(),
        }
    }

    pub(crate) fn ignore_case(&mut self) {
        // Cannot fail, whatever its type.
        let _ = self.builder.case_insensitive(true);
    }

    fn add(&mut self, text: &str) -> Result<(), String> {
        let pattern = Pattern::parse(text)?;
        add_line(&mut self.builder, &pattern.line())?;
        self.parsed.push(pattern);
        Ok(())
    }

    pub(crate) fn add_all(&mut self, patterns: &[String]) -> Result<(), PatternError> {
        for pattern in patterns {
            self.add(pattern).map_err(|why| PatternError::Pattern {
                pattern: pattern.clone(),
                why,
            })?;
        }
        Ok(())
    }

    pub(crate) fn add_files(&mut self, files: &[PathBuf]) -> Result<(), PatternError> {
        for path in files {
            self.add_file(path)?;
        }
        Ok(())
    }

    fn add_file(&mut self, path: &Path) -> Result<(), PatternError> {
        let error = |error| PatternError::File {
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
            result.map_err(|why| PatternError::Line {
                path: path.to_owned(),
                line: number + 1,
                why,
            })?;
        }
        Ok(())
    }

    pub(crate) fn build(&self) -> Result<Gitignore, PatternError> {
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

pub(crate) fn add_line(builder: &mut GitignoreBuilder, line: &str) -> Result<(), String> {
    match builder.add_line(None, line) {
        Ok(_) => Ok(()),
        Err(ignore::Error::Glob { err, .. }) => Err(err),
        Err(error) => Err(error.to_string()),
    }
}

pub(crate) fn build(builder: &GitignoreBuilder) -> Result<Gitignore, PatternError> {
    let error = |error: ignore::Error| PatternError::Patterns(error.to_string());
    builder.build().map_err(error)
}
