//! The output of `tabane sum`: lines in the order of the files, with messages between them.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::json;

use crate::args::Global;
use crate::exit::Result;
use crate::output::{Object, into_object, put_path};
use crate::progress::Progress;
use tabane_text::quote::quote;
use crate::streams::Stdout;

/// Standard output and standard error, in step.
pub struct Report {
    /// Lines to print next.
    pub lines: Vec<u8>,
    /// Whether to print JSON.
    pub json: bool,
    /// Progress to report to.
    pub progress: Arc<Progress>,
}

impl Report {
    /// In the manner that `global` wants.
    pub fn new(global: &Global, progress: &Arc<Progress>) -> Self {
        Self {
            lines: Vec::new(),
            json: global.json,
            progress: Arc::clone(progress),
        }
    }

    /// A file is done.
    pub fn count(&self) {
        self.progress
            .counters()
            .entries
            .fetch_add(1, Ordering::Relaxed);
    }

    /// Adds an object with a path to the lines.
    pub fn object(&mut self, message_type: &str, path: &Path, mut rest: Object) {
        let mut object = into_object(json!({"message_type": message_type}));
        put_path(&mut object, "path", path.as_os_str().as_bytes());
        object.append(&mut rest);
        let line = serde_json::to_string(&object).unwrap_or_default() + "\n";
        self.lines.extend_from_slice(line.as_bytes());
    }

    /// Reports an error of a file.
    pub fn error(&mut self, path: &Path, what: &str) -> Result<()> {
        if self.json {
            self.object("error", path, into_object(json!({"what": what})));
            return Ok(());
        }
        self.message(&format!("{}: {what}", quote(path.as_os_str().as_bytes())))
    }

    /// Says something on standard error, after all that was printed before.
    pub fn message(&mut self, text: &str) -> Result<()> {
        self.print()?;
        self.progress.suspend(|| {
            let _ = writeln!(io::stderr(), "tabane: {text}");
        });
        Ok(())
    }

    /// Prints the lines so far.
    pub fn print(&mut self) -> Result<()> {
        // Whole lines at once, so that lines of progress come between them.
        Stdout::lock().write_all(&self.lines)?;
        self.lines.clear();
        Ok(())
    }
}
