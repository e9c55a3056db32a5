//! One command that runs, and what it says.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tabane_storage::sync::lock;
use tokio::sync::watch;

use super::{Kind, Order};
use crate::answer::Failure;
use crate::places::Place;

/// Lines of a job that are kept; the ones between its beginning and its end go first.
const LINES_MAX: usize = 2000;

/// Lines of the beginning.
const FIRST_LINES: usize = 1000;

/// Bytes of a line.
const LINE_LEN_MAX: u64 = 64 << 10;

/// How long what a command has said is read after its end.
const LAST_WORDS_MAX: Duration = Duration::from_secs(5);

/// A line of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// What kind of line it is: `note`, `warning`, `problem`, `error`, or what happened to a path.
    pub class: String,
    /// The text.
    pub text: String,
}

/// How far a job is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Entries or packs that are done.
    pub entries: u64,
    /// Bytes that are done.
    pub done_bytes: u64,
    /// Bytes to do; 0 if that is not known.
    pub total_bytes: u64,
    /// Seconds left, by the speed so far.
    pub seconds_remaining: Option<u64>,
    /// What is worked on.
    pub current: String,
}

/// How a job has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// When.
    pub at: Timestamp,
    /// The exit code; nothing if a signal ended it.
    pub code: Option<i32>,
    /// Whether a person has cancelled it.
    pub is_cancelled: bool,
    /// The fields of its summary.
    pub summary: Value,
}

/// What a job has said so far.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Said {
    /// The first lines.
    pub first: Vec<Line>,
    /// The last lines.
    pub last: VecDeque<Line>,
    /// Lines between them that were dropped.
    pub dropped: u64,
    /// Warnings and problems among all lines.
    pub warnings: u64,
    /// How far it is.
    pub progress: Progress,
    summary: Value,
}

impl Said {
    fn add(&mut self, line: Line) {
        if matches!(&line.class[..], "warning" | "problem") {
            self.warnings += 1;
        }
        if self.first.len() < FIRST_LINES {
            self.first.push(line);
            return;
        }
        if self.last.len() == LINES_MAX - FIRST_LINES {
            self.last.pop_front();
            self.dropped += 1;
        }
        self.last.push_back(line);
    }

    /// Number of all lines.
    pub fn count(&self) -> u64 {
        self.first.len() as u64 + self.dropped + self.last.len() as u64
    }

    /// The kept lines from number `start` on.
    pub fn lines_from(&self, start: u64) -> impl Iterator<Item = &Line> {
        let first = self.first.len() as u64;
        let in_first = start.min(first) as usize;
        let in_last = start.saturating_sub(first + self.dropped) as usize;
        self.first[in_first..]
            .iter()
            .chain(self.last.iter().skip(in_last))
    }

    /// Hears a line of standard output: an object of JSON, mostly.
    fn hear(&mut self, line: &str) {
        let Ok(Value::Object(object)) = serde_json::from_str::<Value>(line) else {
            return self.add(Line {
                class: "note".to_owned(),
                text: line.to_owned(),
            });
        };
        let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
        let number = |key: &str| object.get(key).and_then(Value::as_u64);
        let line = |class: &str, text: String| Line {
            class: class.to_owned(),
            text,
        };
        match text("message_type") {
            "status" => {
                let current = object.get("current_files").and_then(|files| files.get(0));
                self.progress = Progress {
                    entries: number("entries").unwrap_or_default(),
                    done_bytes: number("done_bytes").unwrap_or_default(),
                    total_bytes: number("total_bytes").unwrap_or_default(),
                    seconds_remaining: number("seconds_remaining"),
                    current: current
                        .and_then(Value::as_str)
                        .unwrap_or_default()
                        .to_owned(),
                };
            }
            "verbose" => self.add(line(text("action"), text("path").to_owned())),
            "warning" => self.add(line(
                "warning",
                format!("{}: {}", text("path"), text("what")),
            )),
            class @ ("problem" | "note") => self.add(line(class, text("what").to_owned())),
            "exit_error" => self.add(line("error", text("message").to_owned())),
            "summary" => self.summary = Value::Object(object),
            _ => self.add(line("note", Value::Object(object).to_string())),
        }
    }
}

/// A job.
pub struct Job {
    /// Its number, by the time of its start.
    pub id: u64,
    /// The name of the repository.
    pub place: String,
    /// What it does.
    pub kind: Kind,
    /// The command line, as one types it.
    pub command: String,
    /// When it began.
    pub started: Timestamp,
    /// What may be done after it.
    pub next: Option<Box<Order>>,
    said: Mutex<Said>,
    end: Mutex<Option<Ended>>,
    /// The process, while it runs, and whether it was told to end.
    process: Mutex<(Option<Pid>, bool)>,
    changed: watch::Sender<()>,
}

impl Job {
    /// A job that has ended.
    pub(super) fn of_past(
        id: u64,
        place: String,
        kind: Kind,
        command: String,
        started: Timestamp,
        ended: Ended,
    ) -> Self {
        Self {
            id,
            place,
            kind,
            command,
            started,
            next: None,
            said: Mutex::default(),
            end: Mutex::new(Some(ended)),
            process: Mutex::default(),
            changed: watch::Sender::new(()),
        }
    }

    /// Starts the command; `done` is called when it has ended, and before anybody is told so.
    pub(super) fn start(
        program: &Path,
        place: &Place,
        order: Order,
        done: impl FnOnce(&Self, &Ended) + Send + 'static,
    ) -> Result<Arc<Self>, Failure> {
        let password = (place.password)().map_err(Failure::unavailable)?;
        let mut command = std::process::Command::new(program);
        command
            .args(order.command.arguments())
            // Only the pipe has the password.
            .args(["--password-file", "/dev/stdin", "--json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // What a terminal sends to the server is not meant for its jobs.
            .process_group(0);
        let spawned = command.spawn();
        let mut child = spawned.map_err(|error| {
            Failure::unavailable(format!("the command cannot be started: {error}"))
        })?;
        let started = Timestamp::now();
        let job = Arc::new(Self {
            id: started.as_microsecond().unsigned_abs(),
            place: place.name.clone(),
            kind: order.kind,
            command: order.command.text(),
            started,
            next: order.next,
            said: Mutex::default(),
            end: Mutex::default(),
            process: Mutex::new((Some(Pid::from_child(&child)), false)),
            changed: watch::Sender::new(()),
        });
        let stdin = child.stdin.take();
        let watched = Arc::clone(&job);
        thread::spawn(move || {
            if let Some(mut stdin) = stdin {
                // A command that needs no password may have ended without reading it.
                let _ = stdin.write_all(&password);
            }
            let ended = watched.watch(child);
            done(&watched, &ended);
            *lock(&watched.end) = Some(ended);
            watched.changed.send_replace(());
        });
        Ok(job)
    }

    /// Hears the command to its end.
    fn watch(self: &Arc<Self>, mut child: Child) -> Ended {
        let (done, heard) = mpsc::channel::<()>();
        if let Some(stdout) = child.stdout.take() {
            let (job, done) = (Arc::clone(self), done.clone());
            thread::spawn(move || {
                each_line(stdout, |line| job.hear(line, false));
                drop(done);
            });
        }
        if let Some(stderr) = child.stderr.take() {
            let job = Arc::clone(self);
            thread::spawn(move || {
                each_line(stderr, |line| job.hear(line, true));
                drop(done);
            });
        }
        let status = child.wait();
        // A hook that outlives a killed command keeps the pipes open.
        let _ = heard.recv_timeout(LAST_WORDS_MAX);
        let is_cancelled = {
            let mut process = lock(&self.process);
            process.0 = None;
            process.1
        };
        let summary = lock(&self.said).summary.clone();
        Ended {
            at: Timestamp::now(),
            code: status.ok().and_then(|status| status.code()),
            is_cancelled,
            summary,
        }
    }

    fn hear(&self, line: &str, is_error: bool) {
        let mut said = lock(&self.said);
        if is_error && !line.starts_with('{') {
            said.add(Line {
                class: "warning".to_owned(),
                text: line.strip_prefix("tabane: ").unwrap_or(line).to_owned(),
            });
        } else {
            said.hear(line);
        }
        drop(said);
        self.changed.send_replace(());
    }

    /// Tells the command to end: at once if it was told before.
    pub fn cancel(&self) {
        let mut process = lock(&self.process);
        if let (Some(pid), told) = *process {
            let signal = if told { Signal::KILL } else { Signal::INT };
            // It may have ended just now.
            let _ = kill_process(pid, signal);
            process.1 = true;
        }
    }

    /// How it has ended, if it has.
    pub fn ended(&self) -> Option<Ended> {
        lock(&self.end).clone()
    }

    /// Looks at what it has said so far.
    pub fn with_said<T>(&self, look: impl FnOnce(&Said) -> T) -> T {
        look(&lock(&self.said))
    }

    /// Hears of changes.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}

/// Calls `hear` with each line; very long ones are cut into several.
fn each_line(stream: impl Read, mut hear: impl FnMut(&str)) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        let mut limited = Read::by_ref(&mut stream).take(LINE_LEN_MAX);
        match limited.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let line = String::from_utf8_lossy(&line);
                let line = line.trim_end_matches(['\n', '\r']);
                if !line.is_empty() {
                    hear(line);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_a_command_are_understood() {
        let mut said = Said::default();
        for line in [
            r#"{"message_type":"status","entries":3,"done_bytes":5,"total_bytes":10,"current_files":["/a"]}"#,
            r#"{"message_type":"verbose","action":"created","path":"/a"}"#,
            r#"{"message_type":"warning","path":"/b","what":"cannot read it"}"#,
            r#"{"message_type":"summary","files":1}"#,
            "plain text",
        ] {
            said.hear(line);
        }
        assert_eq!(said.progress.total_bytes, 10);
        assert_eq!(said.progress.current, "/a");
        assert_eq!(said.summary["files"], 1);
        let lines: Vec<(&str, &str)> = said
            .first
            .iter()
            .map(|line| (&line.class[..], &line.text[..]))
            .collect();
        assert_eq!(
            lines,
            [
                ("created", "/a"),
                ("warning", "/b: cannot read it"),
                ("note", "plain text")
            ]
        );
        assert_eq!(said.warnings, 1);
    }

    #[test]
    fn of_many_lines_the_first_and_the_last_stay() {
        let mut said = Said::default();
        for number in 0..5000 {
            said.hear(&number.to_string());
        }
        let texts = |from| {
            let lines: Vec<&str> = said.lines_from(from).map(|line| &line.text[..]).collect();
            (
                lines.len(),
                lines[0].to_owned(),
                lines[lines.len() - 1].to_owned(),
            )
        };
        assert_eq!(said.count(), 5000);
        assert_eq!(texts(0), (LINES_MAX, "0".to_owned(), "4999".to_owned()));
        assert_eq!(texts(4990), (10, "4990".to_owned(), "4999".to_owned()));
        assert_eq!(texts(500), (1500, "500".to_owned(), "4999".to_owned()));
    }
}
