//! What became of jobs, in files: one a job, for a person and for the next server.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tabane_storage::{Result, write_whole};

use super::job::{Ended, Job, Said};
use super::{Kind, Line};

/// How a job is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    id: u64,
    repository: String,
    kind: String,
    command: String,
    started: Timestamp,
    ended: Ended,
    lines: Vec<Line>,
    left_out_lines: u64,
}

/// The files of jobs.
#[derive(Clone)]
pub struct History {
    directory: Option<PathBuf>,
}

impl History {
    /// Keeps files in `directory`, if there is one.
    pub fn new(directory: Option<PathBuf>) -> Self {
        Self { directory }
    }

    fn path(&self, id: u64) -> Option<PathBuf> {
        Some(self.directory.as_ref()?.join(format!("{id}.json")))
    }

    /// The latest jobs, at most `max`, latest first. Files that cannot be read are passed over.
    pub fn read(&self, max: usize) -> Vec<Arc<Job>> {
        let Some(directory) = &self.directory else {
            return Vec::new();
        };
        let names = fs::read_dir(directory).into_iter().flatten().flatten();
        let number = |file: fs::DirEntry| {
            let name = file.file_name().into_string().ok()?;
            name.strip_suffix(".json")?.parse::<u64>().ok()
        };
        let mut ids: Vec<u64> = names.filter_map(number).collect();
        ids.sort_unstable_by(|a, b| b.cmp(a));
        let kept = ids.into_iter().take(max).filter_map(|id| self.load(id));
        let job = |kept: Kept| {
            let kind = Kind::ALL
                .into_iter()
                .find(|kind| kind.word() == kept.kind)?;
            let Kept {
                id,
                repository,
                command,
                started,
                ended,
                ..
            } = kept;
            Some(Arc::new(Job::of_past(
                id, repository, kind, command, started, ended,
            )))
        };
        kept.filter_map(job).collect()
    }

    fn load(&self, id: u64) -> Option<Kept> {
        let text = fs::read(self.path(id)?).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Writes a job that has ended. What cannot be written is forgotten with the server.
    pub fn write(&self, job: &Job, ended: &Ended) {
        let Some(path) = self.path(job.id) else {
            return;
        };
        let (lines, left_out_lines) =
            job.with_said(|said: &Said| (said.lines_from(0).cloned().collect(), said.dropped));
        let kept = Kept {
            id: job.id,
            repository: job.place.clone(),
            kind: job.kind.word().to_owned(),
            command: job.command.clone(),
            started: job.started,
            ended: ended.clone(),
            lines,
            left_out_lines,
        };
        let json = serde_json::to_vec_pretty(&kept).unwrap_or_default();
        let write = || -> Result<()> {
            let directory = path.parent().unwrap_or(&path);
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(directory)?;
            write_whole(&path, &json, 0o600, true)
        };
        let _ = write();
    }

    /// The lines of a job of an earlier server, and how many were left out.
    pub fn lines(&self, id: u64) -> (Vec<Line>, u64) {
        let kept = self.load(id);
        kept.map(|kept| (kept.lines, kept.left_out_lines))
            .unwrap_or_default()
    }

    /// Removes a job.
    pub fn remove(&self, id: u64) {
        if let Some(path) = self.path(id) {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_come_back_after_a_restart() {
        let place = tempfile::tempdir().expect("a directory");
        let history = History::new(Some(place.path().join("jobs")));
        for id in [3, 1, 2] {
            let ended = Ended {
                at: Timestamp::now(),
                code: Some(0),
                is_cancelled: false,
                summary: serde_json::json!({"files": id}),
            };
            let (repository, command) = ("home".to_owned(), "tabane check".to_owned());
            let started = Timestamp::UNIX_EPOCH;
            let job = Job::of_past(id, repository, Kind::Check, command, started, ended);
            history.write(&job, &job.ended().expect("it has"));
        }
        fs::write(place.path().join("jobs/9.json"), "no JSON").expect("written");
        let ids = |jobs: Vec<Arc<Job>>| jobs.iter().map(|job| job.id).collect::<Vec<_>>();
        assert_eq!(ids(history.read(10)), [3, 2, 1]);
        history.remove(3);
        assert_eq!(ids(history.read(2)), [2]);
        assert_eq!(ids(History::new(None).read(10)), [0; 0]);
    }
}
