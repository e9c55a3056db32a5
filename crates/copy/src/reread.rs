//! Reads all copies again from the disk, and rewrites damaged ones.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{Advice, AtFlags, Mode, OFlags};
use tabane_engine::Submitter;
use tabane_files::beneath::{in_directory, open_beneath};
use tabane_files::read;

use crate::content::{Failure, transfer};
use crate::file::{Source, settle};
use crate::problem::{Action, Problem};
use crate::record::Record;
use crate::run::{Run, Worker, pool};

/// Records that a worker takes at a time at most.
const BATCH_RECORDS_MAX: usize = 32;

/// Reads all files again. Everything must be synced: unwritten pages cannot be dropped from memory.
pub(crate) fn check_all(run: &Arc<Run>, mut records: Vec<Record>) {
    run.rereading(records.iter().map(|record| record.size).sum());
    let pool = pool();
    while !records.is_empty() && !run.is_cancelled() {
        let batch = records.split_off(records.len().saturating_sub(BATCH_RECORDS_MAX));
        let run = Arc::clone(run);
        pool.submitter().submit(move |worker, submitter| {
            for record in batch {
                match check(&run, worker, submitter, &record) {
                    Ok(()) => drop(run.counters.reread_bytes.add(record.size)),
                    Err(problem) => run.problem(&problem),
                }
            }
        });
    }
    pool.finish();
}

fn check(
    run: &Arc<Run>,
    worker: &mut Worker,
    submitter: &Submitter<Worker>,
    record: &Record,
) -> Result<(), Problem> {
    if is_right(run, worker, record)? {
        return Ok(());
    }
    let mended = match mend(run, worker, submitter, record) {
        Ok(()) => is_right(run, worker, record)?,
        Err(Failure::Problem(problem)) => return Err(problem),
        Err(Failure::Changed | Failure::Short | Failure::Differs) => false,
    };
    let problem = Problem::Differs {
        path: record.show_target(),
        mended,
    };
    if mended {
        // Reported, although the copy is right now.
        run.counters.mended.add(1);
        run.progress.problem(&problem);
        return Ok(());
    }
    Err(problem)
}

/// Whether the disk has the right bytes.
fn is_right(run: &Run, worker: &mut Worker, record: &Record) -> Result<bool, Problem> {
    in_directory(&record.place.target, &record.target, read::open_file)
        .and_then(|file| {
            // Without effect in file systems that are in memory.
            let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
            let _ = rustix::fs::fadvise(&file, 0, None, Advice::Sequential);
            let (file, buffer) = (File::from(file), &mut worker.buffer);
            record.hash.is_of(run, &file, buffer, |len| run.bytes(len))
        })
        .map_err(|error| Problem::System {
            action: Action::Read,
            path: record.show_target(),
            error,
        })
}

/// Writes a file once more, in its place, since it may have other names.
fn mend(
    run: &Arc<Run>,
    worker: &mut Worker,
    submitter: &Submitter<Worker>,
    record: &Record,
) -> Result<(), Failure> {
    let failed = |action, path| {
        move |error| {
            Failure::Problem(Problem::System {
                action,
                path,
                error,
            })
        }
    };
    let source = in_directory(&record.place.source, &record.source, |directory, name| {
        Source::open(&directory.try_clone_to_owned()?, name)
    })
    .map_err(failed(Action::Open, record.show_source()))?;
    let target = open_to_write(record).map_err(failed(Action::CreateFile, record.show_target()))?;
    let (pair, found) = source.with_target(target, record.show_source(), record.show_target())?;
    match transfer(run, worker, submitter, &pair, &found) {
        // Files of /sys have fewer bytes than they say.
        Err(Failure::Short) => {
            pair.target
                .set_len(0)
                .map_err(failed(Action::Write, record.show_target()))?;
            pair.transfer_to_end(run, worker)?;
        }
        result => {
            result?;
        }
    }
    settle(run, &pair, &found)?;
    pair.target
        .sync_all()
        .map_err(failed(Action::Write, record.show_target()))
}

fn open_to_write(record: &Record) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::TRUNC | OFlags::NONBLOCK;
    let open = || open_beneath(&record.place.target, &record.target, flags, Mode::empty());
    match open() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            in_directory(&record.place.target, &record.target, |directory, name| {
                let owner = Mode::RUSR | Mode::WUSR;
                Ok(rustix::fs::chmodat(
                    directory,
                    name,
                    owner,
                    AtFlags::empty(),
                )?)
            })?;
            open()
        }
        result => result,
    }
}
