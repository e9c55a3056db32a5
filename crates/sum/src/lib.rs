//! Checksums of many files at once.
//!
//! [`sum_all`] takes any number of files and returns their checksums in the same order:
//!
//! ```
//! use std::path::PathBuf;
//! use tabane_sum::{Algorithm, FileTask, Method, sum_all};
//!
//! let files = [PathBuf::from("Cargo.toml"), PathBuf::from("no such file")];
//! let method = Method::keyless(Algorithm::Sha256);
//! let tasks = files.map(|path| FileTask { path, method: method.clone() }).into_iter();
//! for done in sum_all(tasks, |_bytes| {}).flatten() {
//!     match done.outcome.expect("every FileTask has a file") {
//!         Ok(sum) => println!("{sum}  {}", done.task.path.display()),
//!         Err(error) => println!("{}: {error}", done.task.path.display()),
//!     }
//! }
//! ```
//!
//! * [`Line`] is a line of a check file, [`Parser`] reads and [`Format`] writes it as GNU coreutils do;
//! * [`CheckTasks`] makes tasks of check files;
//! * [`KeyFile`] has the key of algorithms that take one;
//! * [`Tree`] finds the files below a directory;
//! * [`Upload`] says how a file was uploaded to S3, which decides what its ETag is.
//!
//! # How files are read
//!
//! One worker a processor. In each *round* a worker reads a chunk of each of many files, small ones whole, into one
//! buffer that stays in its cache, and hashes all chunks in one call, one file a SIMD lane. So small files need no
//! company of the same size, large ones none that end with them, and the parts of an upload are hashed like files of
//! their own. What is not in the page cache is asked for, and read in a later round.

#![forbid(unsafe_code)]

mod check;
mod etag;
mod input;
mod key;
mod line;
mod method;
mod names;
mod pipeline;
mod sequential;
mod special;
mod tree;
mod worker;

pub use check::{CheckFileError, CheckTask, CheckTasks, Tally, Verdict};
pub use etag::Upload;
pub use key::KeyFile;
pub use line::{Accept, Format, Line, Parser, Style, escape_name, tag};
pub use method::{Method, Sum};
pub use names::{Names, NamesError};
pub use pipeline::{Done, FileTask, Job, Source, Sums, Task, sum_all};
pub use sequential::sum_reader;
pub use tabane_engine::{Algorithm, Digest, Function, KeyError, KeyRule, Withstands};
pub use tree::{Tree, TreeError};
