//! Metrics of a command, for hooks and for the textfile collector of Prometheus' node exporter.
//!
//! <https://prometheus.io/docs/instrumenting/exposition_formats/> is the format.

use std::fmt::{Display, Write};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use jiff::Timestamp;

use crate::args::Global;
use crate::exit::{Exit, Failure, Result};
use crate::format;
use crate::hooks::Hooks;
use crate::process;

/// The options for it.
#[derive(Args, Clone, Debug)]
pub struct MetricsFile {
    #[command(flatten)]
    hooks: Hooks,
    /// Write what was done to this file, in the format of Prometheus' textfile collector
    #[arg(long, value_name = "FILE", env = "TABANE_METRICS_FILE")]
    #[arg(hide_env_values = true, hide_short_help = true)]
    metrics_file: Option<PathBuf>,
}

/// The metric that outlives runs that fail.
const LAST_SUCCESS: &str = "last_success_time_seconds";

/// Metrics of one run of a command, as text.
#[derive(Clone)]
pub struct Metrics {
    /// The command, which is in the metrics' names.
    command: &'static str,
    /// The labels of all metrics, between `{` and `}`.
    labels: String,
    text: String,
    /// Why the exit code is not 0, for hooks.
    sentence: String,
}

impl MetricsFile {
    /// Runs a command between its hooks, and writes its metrics with its result and time of end,
    /// even if it fails. Of a dry run no file and no monitor hears.
    ///
    /// # Errors
    /// The command's error; if it succeeded, that of writing the file.
    pub fn record(
        &self,
        global: &Global,
        command: &'static str,
        dry_run: bool,
        run: impl FnOnce(&mut Metrics) -> Result<Exit>,
    ) -> Result<Exit> {
        let mut metrics = Metrics::new(global, command);
        let start = Instant::now();
        let hooks = if dry_run {
            self.hooks.without_monitors()
        } else {
            self.hooks.clone()
        };
        if self.metrics_file.is_some() {
            process::end_after_signals();
        }
        let path = self.metrics_file.as_ref().filter(|_| !dry_run);
        let before = path.and_then(|path| metrics.before(path, LAST_SUCCESS));
        let mut written = None;
        let result = hooks.around(command, || {
            let mut result = run(&mut metrics);
            if let Some(path) = path {
                // Before the last hooks, which hear of it if it fails.
                written = Some(exit_of(&result));
                let done = metrics.write(path, exit_of(&result), start, before);
                // The command's own error takes precedence.
                result = result.and_then(|exit| done.map(|()| exit));
            }
            (result, std::mem::take(&mut metrics.sentence))
        });
        let Some(path) = path.filter(|_| written != Some(exit_of(&result))) else {
            return result;
        };
        // A hook failed, or the file cannot be written.
        let done = metrics.write(path, exit_of(&result), start, before);
        result.and_then(|exit| done.map(|()| exit))
    }
}

fn exit_of(result: &Result<Exit>) -> Exit {
    result.as_ref().map_or_else(Failure::exit, |&exit| exit)
}

impl Metrics {
    fn new(global: &Global, command: &'static str) -> Self {
        let mut labels = String::new();
        let repository = global
            .repository
            .repo
            .as_ref()
            .map(|repo| repo.to_string_lossy());
        for (name, value) in [
            ("repository", repository),
            ("profile", global.profile.as_deref().map(Into::into)),
        ] {
            if let Some(value) = value {
                let value = value
                    .replace('\\', r"\\")
                    .replace('"', r#"\""#)
                    .replace('\n', r"\n");
                let _ = write!(labels, "{name}=\"{value}\",");
            }
        }
        labels.truncate(labels.trim_end_matches(',').len());
        Self {
            command,
            labels,
            text: String::new(),
            sentence: String::new(),
        }
    }

    /// Writes the file, with the exit code and the times of the run, and of the last one before
    /// that succeeded.
    fn write(&self, path: &Path, exit: Exit, start: Instant, before: Option<i64>) -> Result<()> {
        let mut all = self.clone();
        let now = Timestamp::now().as_second();
        all.gauge("exit_code", "Exit code of the latest run.", exit as u8);
        all.gauge("end_time_seconds", "When the latest run ended.", now);
        let seconds = start.elapsed().as_secs_f64();
        all.gauge("duration_seconds", "How long the latest run took.", seconds);
        let succeeded = match exit {
            Exit::Success => Some(now),
            _ => before,
        };
        if let Some(time) = succeeded {
            all.gauge(
                LAST_SUCCESS,
                "When a run last ended with exit code 0.",
                time,
            );
        }
        replace(path, &all.text).map_err(|error| {
            let path = format::path(path);
            Failure::Other(format!("cannot write metrics to {path}: {error}"))
        })
    }

    /// Says why the exit code is not 0 although the command did its work.
    pub fn explain(&mut self, sentence: impl AsRef<str>) {
        if !self.sentence.is_empty() {
            self.sentence += "; ";
        }
        self.sentence += sentence.as_ref();
    }

    /// Adds a metric with one value.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.begin(name, help);
        let (command, labels) = (self.command, &self.labels);
        let _ = writeln!(self.text, "tabane_{command}_{name}{{{labels}}} {value}");
    }

    /// Adds a metric with a value for each of some states.
    pub fn gauges(&mut self, name: &str, help: &str, states: &[(&str, u64)]) {
        self.begin(name, help);
        let (command, labels) = (self.command, &self.labels);
        let comma = if labels.is_empty() { "" } else { "," };
        for (state, value) in states {
            let _ = writeln!(
                self.text,
                "tabane_{command}_{name}{{{labels}{comma}state=\"{state}\"}} {value}"
            );
        }
    }

    fn begin(&mut self, name: &str, help: &str) {
        let command = self.command;
        let _ = writeln!(self.text, "# HELP tabane_{command}_{name} {help}");
        let _ = writeln!(self.text, "# TYPE tabane_{command}_{name} gauge");
    }

    /// The present value of a single-valued metric in the file.
    fn before(&self, path: &Path, name: &str) -> Option<i64> {
        // To read from a pipe would be to wait.
        let is_file = std::fs::metadata(path).is_ok_and(|there| there.is_file());
        let text = is_file.then(|| std::fs::read_to_string(path).ok())??;
        // With the same labels: those of another repository say nothing of this one.
        let start = format!("tabane_{}_{name}{{{}}} ", self.command, self.labels);
        let line = text.lines().find(|line| line.starts_with(&start))?;
        line.rsplit_once(' ')?.1.parse().ok()
    }
}

/// Replaces a file atomically: a reader finds the old text or the new one.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    // What a link names, and no device.
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return Err(std::io::Error::other("it is no regular file"));
    }
    // Not .prom: the collector reads all files of that suffix.
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".{}.tmp", std::process::id()));
    // The collector runs as another user, so the umask must not keep it out.
    let for_all = Permissions::from_mode(0o644);
    std::fs::write(&new, text)
        .and_then(|()| std::fs::set_permissions(&new, for_all))
        .and_then(|()| std::fs::rename(&new, path))
        .inspect_err(|_| {
            let _ = std::fs::remove_file(&new);
        })
}
