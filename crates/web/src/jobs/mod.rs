//! Commands that run for the page, and those that have run.

mod history;
mod job;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tabane_storage::sync::lock;

use crate::answer::Failure;
use crate::command::Command;
use crate::places::Place;

use history::History;
pub use job::{Ended, Job, Line};

/// Jobs that are remembered, running ones not counted.
const REMEMBERED_MAX: usize = 200;

/// Jobs that run at a time.
const RUNNING_MAX: usize = 8;

/// Time for jobs to end when the server stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Makes a snapshot.
    Backup,
    /// Looks for damage.
    Check,
    /// Removes what no snapshot needs.
    Prune,
    /// Removes snapshots.
    Forget,
    /// Rebuilds what targets lack.
    Heal,
    /// Reads everything, and mends what has changed.
    Scrub,
    /// Brings files back.
    Restore,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Backup,
        Self::Check,
        Self::Prune,
        Self::Forget,
        Self::Heal,
        Self::Scrub,
        Self::Restore,
    ];

    /// Its word, which is that of the command.
    pub fn word(self) -> &'static str {
        match self {
            Self::Backup => "backup",
            Self::Check => "check",
            Self::Prune => "prune",
            Self::Forget => "forget",
            Self::Heal => "heal",
            Self::Scrub => "scrub",
            Self::Restore => "restore",
        }
    }
}

/// A job to start.
#[derive(Clone, Debug)]
pub struct Order {
    /// What it does.
    pub kind: Kind,
    /// The command.
    pub command: Command,
    /// What a person may have done after it: the same without its dry run.
    pub next: Option<Box<Order>>,
}

/// All jobs.
pub struct Jobs {
    program: PathBuf,
    history: History,
    /// Latest first.
    jobs: Mutex<Vec<Arc<Job>>>,
}

impl Jobs {
    /// Runs commands of `program`, and keeps what became of them in `directory`, if there is one.
    pub fn new(program: PathBuf, directory: Option<PathBuf>) -> Self {
        let history = History::new(directory);
        Self {
            jobs: Mutex::new(history.read(REMEMBERED_MAX)),
            history,
            program,
        }
    }

    /// All jobs on a repository, latest first.
    pub fn of(&self, place: &str) -> Vec<Arc<Job>> {
        let jobs = lock(&self.jobs);
        jobs.iter()
            .filter(|job| job.place == place)
            .cloned()
            .collect()
    }

    /// The job of this number on a repository.
    ///
    /// # Errors
    /// 404.
    pub fn get(&self, place: &str, id: u64) -> Result<Arc<Job>, Failure> {
        let jobs = lock(&self.jobs);
        let mut jobs = jobs.iter().filter(|job| job.place == place && job.id == id);
        let job = jobs.next().cloned();
        job.ok_or_else(|| Failure::not_found("there is no such job, or no longer"))
    }

    /// Starts a job.
    ///
    /// # Errors
    /// 409 if the same is running, or too many are; 503 if the program or the password is not to
    /// be had.
    pub fn start(&self, place: &Place, order: Order) -> Result<Arc<Job>, Failure> {
        let mut jobs = lock(&self.jobs);
        let running = || jobs.iter().filter(|job| job.ended().is_none());
        let is_same = |job: &&Arc<Job>| job.place == place.name && job.kind == order.kind;
        if running().any(|job| is_same(&job)) {
            return Err(Failure::conflict(format!(
                "a {} of this repository is running already: wait for its end, or cancel it",
                order.kind.word()
            )));
        }
        if running().count() >= RUNNING_MAX {
            return Err(Failure::conflict(
                "too many jobs are running: wait until one ends",
            ));
        }
        let history = self.history.clone();
        let done = move |job: &Job, ended: &Ended| history.write(job, ended);
        let job = Job::start(&self.program, place, order, done)?;
        jobs.insert(0, Arc::clone(&job));
        // The oldest that have ended are forgotten.
        let mut ended = 0;
        jobs.retain(|job| {
            ended += usize::from(job.ended().is_some());
            let stays = job.ended().is_none() || ended <= REMEMBERED_MAX;
            if !stays {
                self.history.remove(job.id);
            }
            stays
        });
        Ok(job)
    }

    /// The lines of a job of an earlier server, and how many were left out.
    pub fn past_lines(&self, id: u64) -> (Vec<Line>, u64) {
        self.history.lines(id)
    }

    /// Interrupts what is running, and waits a while for its end.
    pub fn stop(&self) {
        let running = || {
            let jobs = lock(&self.jobs);
            jobs.iter()
                .filter(|job| job.ended().is_none())
                .cloned()
                .collect::<Vec<_>>()
        };
        for job in running() {
            job.cancel();
        }
        let start = Instant::now();
        while !running().is_empty() && start.elapsed() < STOP_TIMEOUT {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
