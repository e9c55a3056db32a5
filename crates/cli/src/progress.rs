//! Tells what is going on: a line at the foot of a terminal, or JSON lines.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use crate::args::Global;
use crate::format;
use crate::output::{Object, into_object, put_path, warn};

/// How often the line on a terminal is drawn.
const DRAW_INTERVAL: Duration = Duration::from_millis(100);

/// How often a JSON line is printed.
const JSON_INTERVAL: Duration = Duration::from_secs(1);

/// What is shown; counted up by any thread.
#[derive(Default)]
pub struct Counters {
    /// Entries that are done.
    pub entries: AtomicU64,
    /// Bytes that are done.
    pub bytes: AtomicU64,
    /// Bytes that were done before; not of the speed.
    pub skipped_bytes: AtomicU64,
    /// Bytes that there are to do; 0 if nobody knows.
    pub total_bytes: AtomicU64,
    /// Warnings so far.
    pub warnings: AtomicU64,
    /// The latest path.
    current: Mutex<String>,
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

    /// As [`Progress::start`] for what is mostly quick and prints lines of its own: nothing is
    /// drawn in the first second, and nothing at all among those lines.
    pub fn start_late(global: &Global) -> Arc<Self> {
        let apart = io::stderr().is_terminal() && !io::stdout().is_terminal();
        Self::start_if(global, apart, Duration::from_secs(1))
    }

    fn start_if(global: &Global, can_draw: bool, delay: Duration) -> Arc<Self> {
        let counters = Arc::<Counters>::default();
        let start = Instant::now();
        let draws = !global.json && !global.quiet && can_draw;
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
        let ticker = interval.and_then(|interval| {
            let (sender, receiver) = mpsc::channel();
            let (counters, bar) = (Arc::clone(&counters), bar.clone());
            let tick = move || {
                while receiver.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                    match draws {
                        true if start.elapsed() < delay => {}
                        true => bar.set_message(counters.text(start)),
                        false => print_line(&counters.json(start)),
                    }
                }
            };
            // Without the thread there is no progress to see, and nothing else is missing.
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

    /// What is counted.
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
        if !self.bar.is_hidden()
            && let Ok(mut current) = self.counters.current.try_lock()
        {
            *current = format::path(path);
        }
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

    /// Something is wrong with what was looked at.
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

    fn text(&self, start: Instant) -> String {
        let elapsed = start.elapsed();
        let (entries, bytes, skipped, total) = self.load();
        let mut text = format::duration(Duration::from_secs(elapsed.as_secs().max(10)));
        if elapsed.as_secs() < 10 {
            text = format!("{} s", elapsed.as_secs());
        }
        if entries > 0 {
            text += &format!("  {} entries", format::grouped(entries));
        }
        if total > 0 {
            let percent = fraction(bytes + skipped, total) * 100.0;
            text += &format!("  {percent:.1}% of {}", format::bytes(total));
        } else {
            text += &format!("  {}", format::bytes(bytes + skipped));
        }
        text += &format!("  {}", format::speed(bytes, elapsed));
        if let Ok(current) = self.current.lock() {
            text += "  ";
            text += &current;
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
        }
        object
    }
}

/// How much is done. What is done twice, since it has changed, does not make it more than all.
fn fraction(done: u64, total: u64) -> f64 {
    (done as f64 / total as f64).min(1.0)
}

/// Prints a JSON line now. A reader that is gone is found out when the result is printed.
fn print_line(object: &Object) {
    let line = serde_json::to_string(object).unwrap_or_default() + "\n";
    let _ = io::stdout().lock().write_all(line.as_bytes());
}
