//! Settings that are read again when their files change.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::stat;

/// Time after which the files are looked at again.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// What tells one state of a file from another.
type Mark = Option<(u64, u64, i64, u64)>;

/// What is read from files. A change that cannot be used is logged, and the former state stays.
pub struct Watched<T> {
    paths: Vec<PathBuf>,
    load: Box<dyn Fn() -> Result<T, String> + Send + Sync>,
    log: Arc<dyn Fn(&str) + Send + Sync>,
    state: Mutex<State<T>>,
}

struct State<T> {
    value: Arc<T>,
    marks: Vec<Mark>,
    looked: Instant,
}

impl<T> Watched<T> {
    /// Reads the files for the first time.
    ///
    /// # Errors
    /// What `load` says.
    pub fn new(
        paths: Vec<PathBuf>,
        log: Arc<dyn Fn(&str) + Send + Sync>,
        load: impl Fn() -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let marks = paths.iter().map(mark).collect();
        let value = Arc::new(load()?);
        let looked = Instant::now();
        Ok(Self {
            paths,
            load: Box::new(load),
            log,
            state: Mutex::new(State {
                value,
                marks,
                looked,
            }),
        })
    }

    /// The present state.
    pub fn get(&self) -> Arc<T> {
        let mut state = self.state.lock().expect("no panic under this lock");
        if state.looked.elapsed() >= LOOK_INTERVAL {
            state.looked = Instant::now();
            let marks: Vec<Mark> = self.paths.iter().map(mark).collect();
            if marks != state.marks {
                state.marks = marks;
                match (self.load)() {
                    Ok(value) => state.value = Arc::new(value),
                    Err(why) => (self.log)(&format!("the former settings stay in use: {why}")),
                }
            }
        }
        Arc::clone(&state.value)
    }
}

fn mark(path: &PathBuf) -> Mark {
    let found = stat(path).ok()?;
    Some((
        found.st_ino,
        found.st_size as u64,
        found.st_mtime as i64,
        found.st_mtime_nsec as u64,
    ))
}

/// Seconds since 1970.
pub fn now_s() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
