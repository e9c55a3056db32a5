//! Printing checksums.

use std::fs::File;
use std::io::{BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use tabane_sum::{
    Algorithm, FileTask, Format, Job, KeyFile, Method, Names, NamesError, Source, Stdin, Style,
    Task, Tree, Upload, sum_all,
};

use super::report::Report;
use super::{Sum, key};
use crate::exit::{Failure, Result};
use crate::format::reason;
use crate::output::into_object;
use tabane_text::quote::quote;

/// A list of sums of files, and the format of its lines.
pub struct List<'a> {
    args: &'a Sum,
    algorithm: Algorithm,
    method: Method,
}

/// A file, or the error in its place.
enum ListTask {
    File(FileTask),
    Error(PathBuf, String),
}

impl Task for ListTask {
    fn job(&self) -> Option<Job<'_>> {
        match self {
            Self::File(file) if file.path.as_os_str() == "-" => Some(Job {
                source: Source::Stdin,
                method: &file.method,
            }),
            Self::File(file) => file.job(),
            Self::Error(..) => None,
        }
    }
}

type Tasks = Box<dyn Iterator<Item = ListTask> + Send>;

impl<'a> List<'a> {
    /// A list as the arguments say.
    pub fn new(args: &'a Sum, key: Option<&KeyFile>) -> Result<Self> {
        let algorithm = args.algorithm.unwrap_or(Algorithm::Sha256);
        let method = match args.etag {
            Some(part_len) => Method::Etag(Upload::new(part_len)),
            None => Method::Digest(key::function(algorithm, key)?),
        };
        Ok(Self {
            args,
            algorithm,
            method,
        })
    }

    /// Prints; returns whether all went well.
    pub fn run(&self, report: &mut Report) -> Result<bool> {
        let style = if self.args.tag {
            Style::Tagged(self.algorithm)
        } else {
            Style::Untagged {
                algorithm: match self.args.etag {
                    Some(_) => Algorithm::Md5,
                    None => self.algorithm,
                },
                binary: self.args.binary,
            }
        };
        let format = Format::new(style).zero(self.args.zero);
        let name = match self.args.etag {
            Some(_) => "etag",
            None => self.algorithm.name(),
        };
        let counted = Arc::clone(&report.progress);
        let mut success = true;
        for batch in sum_all(self.tasks()?, move |bytes| counted.bytes(bytes)) {
            for done in batch {
                report.count();
                let (path, what) = match (done.task, done.outcome) {
                    (ListTask::File(file), Some(Ok(sum))) => {
                        if report.json {
                            let rest = json!({"algorithm": name, "sum": sum.to_string()});
                            report.object("sum", &file.path, into_object(rest));
                        } else {
                            let path = file.path.as_os_str().as_bytes();
                            format.write(&sum, path, &mut report.lines);
                        }
                        continue;
                    }
                    (ListTask::File(file), Some(Err(error))) => (file.path, reason(&error)),
                    (ListTask::File(_), None) => continue,
                    (ListTask::Error(path, what), _) => (path, what),
                };
                report.error(&path, &what)?;
                success = false;
            }
            report.print()?;
        }
        Ok(success)
    }

    fn tasks(&self) -> Result<Tasks> {
        let method = self.method.clone();
        let tasks: Tasks = match &self.args.files0_from {
            Some(list) => {
                let list: Arc<Path> = list.as_path().into();
                let names = Names::new(open_list(&list)?);
                Box::new(names.map(move |name| listed(name, &list, &method)))
            }
            None => {
                let files = match (self.args.files.is_empty(), self.args.recursive) {
                    (true, true) => vec![".".into()],
                    (true, false) => vec!["-".into()],
                    (false, _) => self.args.files.clone(),
                };
                let file = move |path| {
                    let method = method.clone();
                    ListTask::File(FileTask { path, method })
                };
                Box::new(files.into_iter().map(file))
            }
        };
        Ok(if self.args.recursive {
            Box::new(tasks.flat_map(below))
        } else {
            tasks
        })
    }
}

fn open_list(list: &Path) -> Result<BufReader<Box<dyn Read + Send>>> {
    let reader: Box<dyn Read + Send> = if list.as_os_str() == "-" {
        Box::new(Stdin)
    } else {
        Box::new(File::open(list).map_err(|error| {
            let name = quote(list.as_os_str().as_bytes());
            Failure::Other(format!(
                "cannot open {name} for reading: {}",
                reason(&error)
            ))
        })?)
    };
    Ok(BufReader::with_capacity(64 << 10, reader))
}

/// The task that a name of a list makes.
fn listed(
    name: std::result::Result<PathBuf, NamesError>,
    list: &Path,
    method: &Method,
) -> ListTask {
    match name {
        Ok(path) if path.as_os_str() == "-" && list.as_os_str() == "-" => ListTask::Error(
            path,
            "the list of names comes from standard input, so it cannot be a file too".to_owned(),
        ),
        Ok(path) => ListTask::File(FileTask {
            path,
            method: method.clone(),
        }),
        Err(NamesError::Empty(number)) => {
            let what = format!("name {number} in the list is empty");
            ListTask::Error(list.to_owned(), what)
        }
        Err(NamesError::Read(error)) => {
            let what = format!("read error: {}", reason(&error));
            ListTask::Error(list.to_owned(), what)
        }
    }
}

/// The files below a directory; of anything else, that itself.
fn below(task: ListTask) -> Tasks {
    match task {
        ListTask::File(FileTask { path, method }) if path.as_os_str() != "-" => {
            Box::new(Tree::new(path).map(move |found| match found {
                Ok(path) => ListTask::File(FileTask {
                    path,
                    method: method.clone(),
                }),
                Err(failed) => ListTask::Error(failed.path, reason(&failed.error)),
            }))
        }
        other => Box::new(std::iter::once(other)),
    }
}
