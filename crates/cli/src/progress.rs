//! Shows progress: a line at the foot of a terminal, or JSON lines.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use crate::args::Global;
use crate::colour::is_dumb;
use crate::format;
use crate::output::{Object, into_object, put_path, warn};

/// Interval at which the line on a terminal is drawn.
const DRAW_INTERVAL: Duration = Duration::from_millis(100);

/// Interval at which a JSON line is printed.
const JSON_INTERVAL: Duration = Duration::from_secs(1);

/// The fewest columns in which a path is shown.
const PATH_COLUMNS_MIN: usize = 12;

/// The counts that are shown; any thread adds to them.
#[derive(Default)]
pub struct Counters {
    /// Entries that are done.
    pub entries: AtomicU64,
    /// Bytes that are done.
    pub bytes: AtomicU64,
    /// Bytes that were done before; not of the speed.
    pub skipped_bytes: AtomicU64,
    /// Bytes to do in all; 0 if that is not known.
    pub total_bytes: AtomicU64,
    /// Warnings so far.
    pub warnings: AtomicU64,
    /// Whether the path is about to be shown: it is noted a few times a second, not for each entry.
    wants_path: AtomicBool,
    /// The latest path.
    current: Mutex<PathBuf>,
}

/// Progress of one long operation. Stops when dropped.
pub struct Progress {
    counters: Arc<Counters>,
    bar: ProgressBar,
    json: bool,
    verbose: u8,
    start: Instant,
    /// Dropping the sender stops the thread.
    ticker: Mutex<Option<(mpsc::Sender<()>, JoinHandle<()>)>>,
}

impl Progress {
    /// Starts to tell of what `global` wants to hear.
    pub fn start(global: &Global) -> Arc<Self> {
        Self::start_if(global, io::stderr().is_terminal(), Duration::ZERO)
    }

    /// As [`Progress::start`] for commands that are mostly quick and print lines: progress is not
    /// drawn in the first second, nor among these lines.
    pub fn start_late(global: &Global) -> Arc<Self> {
        let apart = io::stderr().is_terminal() && !io::stdout().is_terminal();
        Self::start_if(global, apart, Duration::from_secs(1))
    }

    fn start_if(global: &Global, can_draw: bool, delay: Duration) -> Arc<Self> {
        let counters = Arc::<Counters>::default();
        let start = Instant::now();
        let draws = !global.json && !global.quiet && can_draw && !is_dumb();
        let bar = if draws {
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr())
        } else {
            ProgressBar::hidden()
        };
        let style = ProgressStyle::with_template("{wide_msg}").expect("it is well-formed");
        bar.set_style(style);
        let interval = match (draws, global.json && !global.quiet) {
            (true, _) => Some(DRAW_INTERVAL),
            (false, true) => Some(JSON_INTERVAL),
            (false, false) => None,
        };
        counters
            .wants_path
            .store(interval.is_some(), Ordering::Relaxed);
        let ticker = interval.and_then(|interval| {
            let (sender, receiver) = mpsc::channel();
            let (counters, bar) = (Arc::clone(&counters), bar.clone());
            let tick = move || {
                while receiver.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                    match draws {
                        true if start.elapsed() < delay => {}
                        true => bar.set_message(counters.text(start, columns())),
                        false => print_line(&counters.json(start)),
                    }
                    counters.wants_path.store(true, Ordering::Relaxed);
                }
            };
            // Without the thread only the display is missing.
            let thread = std::thread::Builder::new()
                .name("progress".to_owned())
                .spawn(tick);
            thread.ok().map(|thread| (sender, thread))
        });
        Arc::new(Self {
            counters,
            bar,
            json: global.json,
            verbose: global.verbose,
            start,
            ticker: Mutex::new(ticker),
        })
    }

    /// The counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// An entry is done.
    pub fn entry(&self, path: &Path) {
        self.counters.entries.fetch_add(1, Ordering::Relaxed);
        self.current(path);
    }

    /// This is worked on.
    pub fn current(&self, path: &Path) {
        let wants = &self.counters.wants_path;
        if wants.load(Ordering::Relaxed)
            && let Ok(mut current) = self.counters.current.try_lock()
        {
            wants.store(false, Ordering::Relaxed);
            path.clone_into(&mut current);
        }
    }

    /// Whether progress is shown.
    pub fn is_shown(&self) -> bool {
        self.ticker.lock().is_ok_and(|ticker| ticker.is_some())
    }

    /// Bytes are done.
    pub fn bytes(&self, count: u64) {
        self.counters.bytes.fetch_add(count, Ordering::Relaxed);
    }

    /// Does something that prints, apart from the line of progress.
    pub fn suspend(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }

    /// Something went wrong with a path.
    pub fn path_warning(&self, path: &Path, what: &str) {
        self.counters.warnings.fetch_add(1, Ordering::Relaxed);
        if self.json {
            let mut object = into_object(json!({"message_type": "warning"}));
            put_path(
                &mut object,
                "path",
                std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()),
            );
            object.insert("what".to_owned(), what.into());
            print_line(&object);
        } else {
            self.bar
                .suspend(|| warn(format!("{}: {what}", path.display())));
        }
    }

    /// Reports a problem.
    pub fn problem(&self, what: &str) {
        self.counters.warnings.fetch_add(1, Ordering::Relaxed);
        if self.json {
            print_line(&into_object(
                json!({"message_type": "problem", "what": what}),
            ))
        } else {
            self.bar.suspend(|| warn(what))
        }
    }

    /// Something is worth knowing.
    pub fn note(&self, what: &str) {
        if self.json {
            print_line(&into_object(json!({"message_type": "note", "what": what})))
        } else {
            self.bar.suspend(|| warn(what))
        }
    }

    /// Says what happened to a path, if as much as `level` is wanted.
    pub fn verbose(&self, level: u8, action: &str, path: &Path) {
        if self.verbose < level {
            return;
        }
        if self.json {
            let mut object = into_object(json!({"message_type": "verbose", "action": action}));
            put_path(
                &mut object,
                "path",
                std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()),
            );
            print_line(&object);
        } else {
            let text = format!("{action:<11}{}", format::path(path));
            self.bar.suspend(|| {
                let _ = writeln!(io::stdout(), "{text}");
            });
        }
    }

    /// Shows nothing more.
    pub fn stop(&self) {
        let ticker = self.ticker.lock().ok().and_then(|mut ticker| ticker.take());
        if let Some((sender, thread)) = ticker {
            drop(sender);
            let _ = thread.join();
        }
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Counters {
    fn load(&self) -> (u64, u64, u64, u64) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (
            load(&self.entries),
            load(&self.bytes),
            load(&self.skipped_bytes),
            load(&self.total_bytes),
        )
    }

    /// A line of at most `columns` characters. The end of the path tells more than its beginning.
    fn text(&self, start: Instant, columns: usize) -> String {
        let elapsed = start.elapsed();
        let (entries, bytes, skipped, total) = self.load();
        let done = bytes + skipped;
        let mut parts = vec![clock(elapsed)];
        if total > 0 {
            let percent = fraction(done, total) * 100.0;
            parts.push(format!("{percent:.1}% of {}", format::bytes(total)));
            if let Some(rest) = self.remaining(elapsed) {
                parts.push(format!("{} left", clock(rest)));
            }
        } else {
            parts.push(format::bytes(done));
        }
        match self.warnings.load(Ordering::Relaxed) {
            0 => {}
            errors => parts.push(format::count(errors, "error")),
        }
        if entries > 0 {
            parts.push(format!("{} entries", format::grouped(entries)));
        }
        parts.push(format::speed(bytes, elapsed));
        let mut text = String::new();
        for part in parts {
            let len = text.chars().count();
            if len == 0 {
                text = part;
            } else if len + 2 + part.chars().count() <= columns {
                text = format!("{text}  {part}");
            }
        }
        let room = columns.saturating_sub(text.chars().count() + 2);
        if let Ok(current) = self.current.lock()
            && !current.as_os_str().is_empty()
            && room >= PATH_COLUMNS_MIN
        {
            text = format!(
                "{text}  {}",
                format::end_of(&format::path_on_terminal(&current), room)
            );
        }
        text
    }

    fn json(&self, start: Instant) -> Object {
        let elapsed = start.elapsed();
        let (entries, bytes, skipped, total) = self.load();
        let mut object = into_object(json!({
            "message_type": "status",
            "entries": entries,
            "done_bytes": bytes + skipped,
            "warnings": self.warnings.load(Ordering::Relaxed),
            "elapsed_s": elapsed.as_secs_f64(),
        }));
        if total > 0 {
            object.insert("total_bytes".to_owned(), total.into());
            let done = fraction(bytes + skipped, total);
            object.insert("done_fraction".to_owned(), done.into());
            object.insert("percent".to_owned(), (done * 100.0).into());
            if let Some(rest) = self.remaining(elapsed) {
                object.insert("seconds_remaining".to_owned(), rest.as_secs().into());
            }
        }
        if let Ok(current) = self.current.lock()
            && !current.as_os_str().is_empty()
        {
            let files = json!([current.to_string_lossy()]);
            object.insert("current_files".to_owned(), files);
        }
        object
    }

    /// Estimated time left at the average speed so far; `None` in the first two seconds.
    fn remaining(&self, elapsed: Duration) -> Option<Duration> {
        let (_, bytes, skipped, total) = self.load();
        if elapsed < Duration::from_secs(2) || bytes == 0 || total == 0 {
            return None;
        }
        let rest = total.saturating_sub(bytes + skipped);
        let seconds = elapsed.as_secs_f64() * rest as f64 / bytes as f64;
        Duration::try_from_secs_f64(seconds).ok()
    }
}

/// Whole seconds: `7 s`, `3:07`.
fn clock(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds => format::duration(Duration::from_secs(seconds)),
    }
}

/// Columns of the terminal that standard error is.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stderr());
    match size.map(|size| usize::from(size.ws_col)) {
        Ok(columns) if columns > 0 => columns,
        _ => 80,
    }
}

/// Share of the work that is done: at most 1, even if changed files were read twice.
fn fraction(done: u64, total: u64) -> f64 {
    (done as f64 / total as f64).min(1.0)
}

/// Prints a JSON line now. A reader that is gone is found out when the result is printed.
fn print_line(object: &Object) {
    let line = serde_json::to_string(object).unwrap_or_default() + "\n";
    let _ = io::stdout().lock().write_all(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters() -> Counters {
        let counters = Counters::default();
        counters.entries.store(12_345, Ordering::Relaxed);
        counters.bytes.store(250 << 20, Ordering::Relaxed);
        counters.total_bytes.store(1 << 30, Ordering::Relaxed);
        counters.warnings.store(2, Ordering::Relaxed);
        let path = "/home/ada/a\x1b[31m folder/with/many/parts/that-tells.txt";
        *counters.current.lock().expect("no panic") = PathBuf::from(path);
        counters
    }

    #[test]
    fn the_line_fits_and_keeps_the_end_of_the_path() {
        let start = Instant::now() - Duration::from_secs(10);
        let text = counters().text(start, 120);
        assert!(text.starts_with("10 s  24.4% of 1.000 GiB  30 s left  2 errors  12,345 "));
        assert!(text.ends_with("that-tells.txt"), "{text}");
        for columns in [1, 20, 40, 60, 80, 200] {
            let text = counters().text(start, columns);
            assert!(text.chars().count() <= columns.max(4), "{columns}: {text}");
            assert!(!text.contains('\x1b'), "{text}");
        }
        assert!(counters().text(start, 40).contains("30 s left"));
    }

    #[test]
    fn json_has_what_scripts_ask_for() {
        let start = Instant::now() - Duration::from_secs(10);
        let object = counters().json(start);
        assert_eq!(object["total_bytes"], 1_u64 << 30);
        assert_eq!(object["seconds_remaining"], 30);
        assert!(
            object["percent"]
                .as_f64()
                .is_some_and(|percent| (percent - 24.4).abs() < 0.1)
        );
        assert_eq!(object["current_files"].as_array().map(Vec::len), Some(1));
        let unknown = Counters::default().json(start);
        assert!(unknown.get("percent").is_none() && unknown.get("current_files").is_none());
    }
}
