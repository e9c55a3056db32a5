//! Why patterns cannot be used.

use std::io;
use std::path::PathBuf;

/// Why patterns cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
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
