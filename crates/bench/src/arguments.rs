//! Arguments that several commands have.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::tools::{find_in_path, is_executable};

/// How results are told.
#[derive(clap::Args)]
pub struct Report {
    /// Exit with 1 where a bar is missed
    #[arg(long)]
    strict: bool,
    /// Print one flat JSON object a line instead of tables
    #[arg(long)]
    pub json: bool,
}

impl Report {
    /// The exit code where all bars are `met` or not.
    pub fn exit_code(&self, met: bool) -> ExitCode {
        ExitCode::from(u8::from(self.strict && !met))
    }
}

/// Where things are measured.
#[derive(clap::Args)]
pub struct Places {
    /// Work in these directories, one after the other [default: $TMPDIR]
    #[arg(long, value_name = "DIR")]
    work: Vec<PathBuf>,
}

impl Places {
    /// The directories.
    pub fn directories(&self) -> Vec<PathBuf> {
        if self.work.is_empty() {
            vec![std::env::temp_dir()]
        } else {
            self.work.clone()
        }
    }
}

/// Which Tabane is measured.
#[derive(clap::Args, Default)]
pub struct Program {
    /// The tabane executable [default: beside this program, else in PATH]
    #[arg(long, value_name = "PATH")]
    tabane: Option<PathBuf>,
}

impl Program {
    /// Tabane at the path that was given, else beside this program, else in `PATH`.
    ///
    /// # Errors
    /// When it is not there.
    pub fn find(&self) -> Result<PathBuf> {
        if let Some(path) = &self.tabane {
            return path
                .canonicalize()
                .with_context(|| format!("there is no tabane at {}", path.display()));
        }
        let this = std::env::current_exe().ok();
        this.and_then(|this| Some(this.parent()?.join("tabane")))
            .filter(|beside| is_executable(beside))
            .or_else(|| find_in_path("tabane"))
            .context(
                "tabane is neither beside this program nor in PATH; build it with \
                 `cargo build --release`, or give it with --tabane",
            )
    }
}
