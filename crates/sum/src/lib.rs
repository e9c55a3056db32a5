#![doc = include_str!("../README.md")]
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
mod shared;
mod special;
mod stream;
mod sum;
mod task;
mod tree;
mod worker;

pub use check::{CheckFileError, CheckTask, CheckTasks, Tally, Verdict};
pub use etag::Upload;
pub use input::Stdin;
pub use key::KeyFile;
pub use line::{Accept, Format, Line, Parser, Style, escape_name, tag};
pub use method::Method;
pub use names::{Names, NamesError};
pub use pipeline::{Sums, sum_all, sum_all_with};
pub use sequential::sum_reader;
pub use sum::Sum;
pub use tabane_engine::{Algorithm, Digest, Function, KeyError, KeyRule, Withstands};
pub use task::{Done, FileTask, Job, Source, Task};
pub use tree::{Tree, TreeError};
