//! Tasks of hashing, and their results.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use crate::method::Method;
use crate::sum::Sum;

/// Something that is done in its turn: mostly a file to hash.
pub trait Task: Send + 'static {
    /// The job; `None` if the task only keeps its place in the order.
    fn job(&self) -> Option<Job<'_>>;
}

/// A source to hash, and the method.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The source of the bytes.
    pub source: Source<'a>,
    /// The method.
    pub method: &'a Method,
}

/// Sources of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// In this file.
    File(&'a Path),
    /// In standard input, to its end. Several tasks that name it take turns, in their order.
    Stdin,
}

/// A file to hash.
#[derive(Clone, Debug)]
pub struct FileTask {
    /// Which one.
    pub path: PathBuf,
    /// The method.
    pub method: Method,
}

impl Task for FileTask {
    fn job(&self) -> Option<Job<'_>> {
        Some(Job {
            source: Source::File(&self.path),
            method: &self.method,
        })
    }
}

/// A task that is done.
#[derive(Debug)]
pub struct Done<T> {
    /// The task.
    pub task: T,
    /// The checksum, or why there is none; `None` if the task has no job.
    pub outcome: Option<io::Result<Sum>>,
}

/// The channel of results, in any order.
pub(crate) type Results<T> = Sender<Vec<Numbered<Done<T>>>>;

/// Is told by any thread how many bytes were just read.
pub(crate) type OnBytes = Arc<dyn Fn(u64) + Send + Sync>;

/// Something with its place in the order.
pub(crate) struct Numbered<V> {
    pub(crate) number: u64,
    pub(crate) value: V,
}

impl<T> Numbered<T> {
    /// The result of this task.
    pub(crate) fn done(self, outcome: Option<io::Result<Sum>>) -> Numbered<Done<T>> {
        Numbered {
            number: self.number,
            value: Done {
                task: self.value,
                outcome,
            },
        }
    }
}
