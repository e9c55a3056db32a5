//! Check files, and what comes of checking them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tabane_engine::{Algorithm, Function, KeyError, KeyRule};

use crate::etag::Upload;
use crate::input::Stdin;
use crate::key::KeyFile;
use crate::line::{Accept, Line, Parser};
use crate::method::Method;
use crate::sum::Sum;
use crate::task::{Job, Source, Task};

/// A line longer than this, in bytes, is improperly formatted whatever it says: no path is half as
/// long.
const LINE_LEN_MAX: u64 = 1 << 20;

/// Tasks of a check file, in the order of its lines.
#[derive(Debug)]
pub enum CheckTask {
    /// Compare a file with its checksum.
    Compare {
        /// The file and the checksum.
        line: Line,
        /// The method of computing the checksum.
        method: Method,
    },
    /// No work: a line is improperly formatted.
    Misformatted {
        /// Name of the check file; `-` is standard input.
        file: Arc<Path>,
        /// Which line, counted from 1.
        line: u64,
    },
    /// No work: the check file has ended.
    End {
        /// Name of the check file; `-` is standard input.
        file: Arc<Path>,
        /// The error that ended the reading, if any.
        error: Option<CheckFileError>,
        /// If no line was properly formatted: the algorithms whose format the first line has.
        fits: Vec<Algorithm>,
    },
}

/// Why a check file could not be read to its end.
#[derive(Debug)]
pub enum CheckFileError {
    /// The file could not be opened.
    Open(io::Error),
    /// The file could not be read.
    Read(io::Error),
    /// The line of this number, counted from 1, is of an algorithm whose key is not there.
    Key(u64, KeyError),
}

impl Task for CheckTask {
    fn job(&self) -> Option<Job<'_>> {
        let Self::Compare { line, method } = self else {
            return None;
        };
        Some(Job {
            source: match line.name.as_slice() {
                b"-" => Source::Stdin,
                name => Source::File(Path::new(OsStr::from_bytes(name))),
            },
            method,
        })
    }
}

/// The tasks of check files.
pub struct CheckTasks {
    parser: Parser,
    key: Option<KeyFile>,
    /// Functions of the algorithms met so far.
    functions: HashMap<Algorithm, Function>,
    /// Check files left to read, in reverse order.
    files: Vec<PathBuf>,
    open: Option<CheckFile>,
    /// Whether a line has named standard input, which a later check file then finds at its end.
    stdin_is_read: bool,
}

struct CheckFile {
    name: Arc<Path>,
    reader: Box<dyn BufRead + Send>,
    line: u64,
    /// Algorithms whose format the first line has, as long as no line is properly formatted.
    fits: Option<Vec<Algorithm>>,
}

impl CheckFile {
    /// The task after the last line.
    fn end(self, error: Option<CheckFileError>) -> CheckTask {
        CheckTask::End {
            file: self.name,
            error,
            fits: self.fits.unwrap_or_default(),
        }
    }
}

impl CheckTasks {
    /// The tasks of these check files, `-` being standard input. The key is for lines whose
    /// algorithm takes one.
    pub fn new(files: Vec<PathBuf>, parser: Parser, key: Option<KeyFile>) -> Self {
        Self {
            parser,
            key,
            functions: HashMap::new(),
            files: files.into_iter().rev().collect(),
            open: None,
            stdin_is_read: false,
        }
    }

    /// The method of computing a line's checksum.
    fn method(&mut self, line: &Line) -> Result<Method, KeyError> {
        if let (Accept::Etags(upload), Some(_)) = (self.parser.accept(), line.sum.parts) {
            return Ok(Method::Etag(Upload::always_in_parts(upload.part_len)));
        }
        let function = match self.functions.entry(line.algorithm) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(match &self.key {
                Some(key) if line.algorithm.key_rule() != KeyRule::None => {
                    key.function(line.algorithm)?
                }
                _ => Function::new(line.algorithm, None)?,
            }),
        };
        Ok(Method::Digest(function.to_check(&line.sum.digest)))
    }
}

impl Iterator for CheckTasks {
    type Item = CheckTask;

    fn next(&mut self) -> Option<CheckTask> {
        let mut file = match self.open.take() {
            Some(file) => file,
            None => {
                let name: Arc<Path> = self.files.pop()?.into();
                let reader: Box<dyn BufRead + Send> = if !is_stdin(&name) {
                    match File::open(&name) {
                        Ok(file) => Box::new(BufReader::new(file)),
                        Err(error) => {
                            return Some(CheckTask::End {
                                file: name,
                                error: Some(CheckFileError::Open(error)),
                                fits: Vec::new(),
                            });
                        }
                    }
                } else if self.stdin_is_read {
                    Box::new(io::empty())
                } else {
                    Box::new(BufReader::new(Stdin))
                };
                CheckFile {
                    name,
                    reader,
                    line: 0,
                    fits: None,
                }
            }
        };
        let mut line = Vec::new();
        loop {
            line.clear();
            file.line += 1;
            match read_line(&mut file.reader, &mut line) {
                Ok(0) => return Some(file.end(None)),
                Ok(_) => {}
                Err(error) => return Some(file.end(Some(CheckFileError::Read(error)))),
            }
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            if text.is_empty() || line[0] == b'#' {
                continue;
            }
            // Standard input cannot be both.
            let parsed = self
                .parser
                .parse(text)
                .filter(|parsed| !(parsed.name == b"-" && is_stdin(&file.name)));
            let task = match parsed {
                Some(line) => {
                    let method = match self.method(&line) {
                        Ok(method) => method,
                        Err(error) => {
                            let error = CheckFileError::Key(file.line, error);
                            return Some(file.end(Some(error)));
                        }
                    };
                    file.fits = Some(Vec::new());
                    self.stdin_is_read |= line.name == b"-";
                    CheckTask::Compare { line, method }
                }
                None => {
                    file.fits.get_or_insert_with(|| fits(text));
                    CheckTask::Misformatted {
                        file: Arc::clone(&file.name),
                        line: file.line,
                    }
                }
            };
            self.open = Some(file);
            return Some(task);
        }
    }
}

/// The algorithms whose check files may have this line.
fn fits(line: &[u8]) -> Vec<Algorithm> {
    let fits = |algorithm| Parser::new(Accept::Only(algorithm)).parse(line).is_some();
    Algorithm::all()
        .filter(|algorithm| fits(*algorithm))
        .collect()
}

/// Reads a line with its newline, if any. A line beyond [`LINE_LEN_MAX`] becomes an invalid one.
fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    let len = reader.take(LINE_LEN_MAX).read_until(b'\n', line)?;
    if len as u64 == LINE_LEN_MAX && !line.ends_with(b"\n") {
        reader.skip_until(b'\n')?;
        // No properly formatted line looks like this.
        line.truncate(1);
        line[0] = b'?';
    }
    Ok(len)
}

fn is_stdin(name: &Path) -> bool {
    name.as_os_str() == "-"
}

/// The result of comparing a file with its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The checksums are equal.
    Match,
    /// The checksums differ.
    Mismatch,
    /// The file does not exist, and missing files are ignored.
    Missing,
    /// The file could not be read.
    Unreadable,
}

/// Counts of the verdicts on one check file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Files with the right checksum.
    pub matches: u64,
    /// Files with another checksum.
    pub mismatches: u64,
    /// Files that do not exist and were ignored.
    pub missing: u64,
    /// Files that could not be read.
    pub unreadable: u64,
    /// Lines that are improperly formatted.
    pub misformatted: u64,
}

impl Tally {
    /// Counts what came of a line. Files that are not there are passed over if `ignore_missing`.
    pub fn count(
        &mut self,
        line: &Line,
        outcome: &io::Result<Sum>,
        ignore_missing: bool,
    ) -> Verdict {
        let (verdict, counter) = match outcome {
            Ok(sum) if *sum == line.sum => (Verdict::Match, &mut self.matches),
            Ok(_) => (Verdict::Mismatch, &mut self.mismatches),
            Err(error) if ignore_missing && error.kind() == io::ErrorKind::NotFound => {
                (Verdict::Missing, &mut self.missing)
            }
            Err(_) => (Verdict::Unreadable, &mut self.unreadable),
        };
        *counter += 1;
        verdict
    }

    /// Properly formatted lines.
    pub fn lines(&self) -> u64 {
        self.matches + self.mismatches + self.missing + self.unreadable
    }

    /// Whether at least one file is as it should be and nothing is amiss; misformatted lines are if
    /// `strict`.
    pub fn is_success(&self, strict: bool) -> bool {
        let wrong = self.mismatches + self.unreadable + if strict { self.misformatted } else { 0 };
        self.matches > 0 && wrong == 0
    }
}
