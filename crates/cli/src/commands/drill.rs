//! `tabane drill`

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::Args;
use rustix::fs::{Mode, OFlags};
use serde_json::json;
use tabane_storage::random;
use tabane_store::browse::{Browser, PathEntry, Walk, root};
use tabane_store::entry::{Entry, Kind, Time};
use tabane_store::restore::RestoreOptions;
use tabane_store::{IncludeOptions, host};

use crate::args::Global;
use crate::exit::{Exit, Failure, Result};
use crate::format;
use crate::metrics::{Metrics, MetricsFile};
use crate::output::{Output, print_json, warn};
use crate::process;
use crate::progress::Progress;
use crate::reporter::Reporter;
use crate::select::Selection;

/// Bytes of two files that are compared at a time.
const COMPARED_LEN: usize = 1 << 16;

/// Restore a random sample to a scratch place and compare it
#[derive(Args)]
#[command(after_help = "\
Picks files of the snapshot at random, restores them below a scratch directory, reads them again \
and compares them with the snapshot. Files of this host that have kept size and time since the \
backup are compared with the source, too: if their bytes differ, the source or the backup has \
changed without a trace. In the end the scratch directory is removed.

`tabane check --read-data` reads everything, but never writes a file. A drill goes the whole way \
that a restore goes, with your password, on this machine.

Exit code 1 means that a file could not be restored, or that its bytes are not those of the \
source. Run it by a timer, with --ping or --metrics-file to hear of that.

Examples:
  tabane drill -r /mnt/backup
  tabane drill -r /mnt/backup --sample 0.1% --directory /var/tmp
  tabane drill -r /mnt/backup --host web1 --ping https://hc-ping.com/UUID")]
pub struct Drill {
    /// Which snapshot: an ID, its beginning, or latest
    #[arg(value_name = "SNAPSHOT", default_value = "latest")]
    snapshot: String,
    /// Share of the files; at least one is restored
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = parse_sample)]
    sample: f64,
    /// Where the scratch directory is made [default: the system's place for temporary files]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    metrics: MetricsFile,
}

/// `1%` as a share of 1.
fn parse_sample(text: &str) -> std::result::Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|text| text.parse().ok());
    number
        .filter(|percent| (0.0..=100.0).contains(percent))
        .map(|percent: f64| percent / 100.0)
        .ok_or_else(|| "write a percentage from 0% to 100%, as 1% or 0.5%".to_owned())
}

/// The comparison of a restored file with its source.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    /// The bytes are equal.
    Equal,
    /// The source is gone, or has another size or time.
    Changed,
    /// The source has the same size and time, and other bytes.
    Differs,
}

impl Drill {
    /// Runs `tabane drill`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let file = self.metrics.clone();
        file.record(global, "drill", false, |metrics| self.drill(global, metrics))
    }

    fn drill(&self, global: &Global, metrics: &mut Metrics) -> Result<Exit> {
        let repository = global.open()?;
        let (id, snapshot) =
            repository.find_snapshot(&self.snapshot, &self.selection.filter())?;
        let mut browser = Browser::new(&repository)?;
        let (sample, files) = choose(&mut browser, &root(&snapshot), self.sample)?;
        if sample.is_empty() {
            return Err(Failure::Other(format!(
                "snapshot {} has no files, so nothing can be tried",
                id.short()
            )));
        }
        // What is restored goes, also after a signal.
        process::end_after_signals();
        let scratch = Scratch::new(self.directory.as_deref())?;
        let path = scratch.0.clone();
        process::owe_last_words(move || drop(Scratch(path)));
        let paths = sample.iter().map(|file| file.path.clone());
        let options = RestoreOptions::new(&scratch.0)
            .includes(IncludeOptions::default().paths(paths))
            .verify(true)
            .file_flags(false);
        let progress = Progress::start(global);
        let reporting = repository.with_progress(Reporter::new(&progress));
        let summary = reporting.restore(options, id, &snapshot);
        progress.stop();
        let summary = summary?;
        let mut compared = BTreeMap::<Source, u64>::new();
        if snapshot.hostname == host::describe().hostname {
            for file in &sample {
                if process::is_interrupted() {
                    return Err(Failure::Store(tabane_store::Error::Cancelled));
                }
                let Ok(source) = compare(&scratch.0, file) else {
                    continue;
                };
                *compared.entry(source).or_default() += 1;
                if source == Source::Differs {
                    warn(format!(
                        "{} has the size and time that it had at the backup, and other bytes: \
                         compare the two before you trust either",
                        format::path(&file.path)
                    ));
                }
            }
        }
        let count = |source| compared.get(&source).copied().unwrap_or(0);
        let problems = summary.errors + count(Source::Differs);
        // Each name of a file with several counts.
        let restored = (sample.len() as u64).saturating_sub(summary.errors);
        metrics.gauge("files", "Files that were restored.", restored);
        metrics.gauge("bytes", "Bytes of these.", summary.total_bytes);
        metrics.gauge("problems", "Files that were not as they should be.", problems);
        if global.json {
            print_json(&json!({
                "message_type": "summary",
                "snapshot_id": id.to_string(),
                "files": files,
                "restored_files": restored,
                "restored_bytes": summary.total_bytes,
                "equal_to_source": count(Source::Equal),
                "changed_since": count(Source::Changed),
                "differ_from_source": count(Source::Differs),
                "errors": summary.errors,
                "elapsed_s": progress.elapsed().as_secs_f64(),
            }))?;
        } else if !global.quiet {
            let mut output = Output::new();
            output.line(format!(
                "restored {} of {} of snapshot {}, {}, and read them again",
                format::grouped(restored),
                format::count(files, "file"),
                id.short(),
                format::bytes(summary.total_bytes),
            ))?;
            if !compared.is_empty() {
                output.line(format!(
                    "{} equal the source, {} changed since the backup, {} differ",
                    format::grouped(count(Source::Equal)),
                    format::grouped(count(Source::Changed)),
                    format::grouped(count(Source::Differs)),
                ))?;
            }
            output.finish()?;
        }
        if problems == 0 {
            return Ok(Exit::Success);
        }
        metrics.explain(format!(
            "{} could not be restored, or had other bytes than the source",
            format::count(problems, "file")
        ));
        Ok(Exit::Failure)
    }
}

/// Chooses a random sample of the files below `top`, at least one if any exist; returns it with the
/// number of all files.
fn choose(browser: &mut Browser, top: &Entry, share: f64) -> Result<(Vec<PathEntry>, u64)> {
    let mut sample = Vec::new();
    // The file taken if no other one is: each file seen has the same chance.
    let mut reserve = None;
    let mut files = 0_u64;
    // With random keys, of its own for each run.
    let keys = RandomState::new();
    let chance = |what: (u64, &str)| {
        let bits = keys.hash_one(what) >> 11;
        bits as f64 / (1_u64 << 53) as f64
    };
    let mut walk = Walk::below(Path::new("/"), top);
    while let Some(found) = walk.next(browser)? {
        if !matches!(found.entry.kind, Kind::File { .. }) {
            continue;
        }
        files += 1;
        if chance((files, "sample")) < share {
            sample.push(found);
        } else if sample.is_empty() && chance((files, "reserve")) * (files as f64) < 1.0 {
            reserve = Some(found);
        }
    }
    if sample.is_empty() {
        sample.extend(reserve);
    }
    Ok((sample, files))
}

/// A directory that is removed with all below it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(above: Option<&Path>) -> Result<Self> {
        let above = above.map_or_else(std::env::temp_dir, Path::to_owned);
        let path = above.join(format!("tabane-drill-{:016x}", u64::from_le_bytes(random())));
        let make = rustix::fs::mkdir(&path, Mode::RWXU);
        make.map_err(|error| {
            tabane_store::Error::path("make", &path)(error.into())
        })?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0)
            && error.kind() != io::ErrorKind::NotFound
        {
            warn(format!(
                "cannot remove {}: {error}: remove it yourself",
                format::path(&self.0)
            ));
        }
    }
}

/// Compares a file that was restored below `scratch` with the one at its path.
fn compare(scratch: &Path, file: &PathEntry) -> io::Result<Source> {
    let is_as_backed_up = |file_now: &File| -> io::Result<bool> {
        let now = file_now.metadata()?;
        let time = |s, ns: i64| Time { s, ns: ns as u32 };
        Ok(now.is_file()
            && now.size() == file.entry.size()
            && time(now.mtime(), now.mtime_nsec()) == file.entry.mtime
            && time(now.ctime(), now.ctime_nsec()) == file.entry.ctime)
    };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(now) = rustix::fs::open(&file.path, flags, Mode::empty()) else {
        return Ok(Source::Changed);
    };
    let mut now = File::from(now);
    if !is_as_backed_up(&now)? {
        return Ok(Source::Changed);
    }
    let below = file.path.strip_prefix("/").unwrap_or(&file.path);
    let mut restored = File::open(scratch.join(below))?;
    let equal = are_equal(&mut now, &mut restored)?;
    Ok(match (equal, is_as_backed_up(&now)?) {
        (true, _) => Source::Equal,
        (false, true) => Source::Differs,
        // The source changed while it was read.
        (false, false) => Source::Changed,
    })
}

/// Whether two files have the same bytes, from where they stand.
fn are_equal(one: &mut File, other: &mut File) -> io::Result<bool> {
    let (mut left, mut right) = (vec![0; COMPARED_LEN], vec![0; COMPARED_LEN]);
    loop {
        let len = read_full(one, &mut left)?;
        if len != read_full(other, &mut right)? || left[..len] != right[..len] {
            return Ok(false);
        }
        if len == 0 {
            return Ok(true);
        }
    }
}

/// Reads until the buffer is full or the file ends; returns the length.
fn read_full(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match file.read(&mut buffer[len..]) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tabane_store::entry::Flags;

    #[test]
    fn bytes_that_change_without_a_trace_are_found() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        fs::write(&path, "as it is").expect("written");
        let now = fs::metadata(&path).expect("there");
        let time = |s, ns: i64| Time { s, ns: ns as u32 };
        let mut file = PathEntry {
            path: path.clone(),
            entry: Entry {
                name: b"file".to_vec(),
                mode: now.mode(),
                uid: now.uid(),
                gid: now.gid(),
                mtime: time(now.mtime(), now.mtime_nsec()),
                ctime: time(now.ctime(), now.ctime_nsec()),
                atime: None,
                inode: now.ino(),
                hard_link: None,
                xattrs: Vec::new(),
                flags: Flags::default(),
                kind: Kind::File {
                    size: now.len(),
                    content: Vec::new(),
                },
            },
        };
        let scratch = directory.path().join("scratch");
        let restored = scratch.join(path.strip_prefix("/").expect("absolute"));
        fs::create_dir_all(restored.parent().expect("a folder")).expect("made");
        for (bytes, expected) in [
            ("as it is", Source::Equal),
            ("as it WAS", Source::Differs),
            ("as it wa", Source::Differs),
        ] {
            fs::write(&restored, bytes).expect("written");
            let found = compare(&scratch, &file).expect("compared");
            assert!(found == expected, "{bytes}");
        }
        file.entry.mtime.s -= 1;
        assert!(compare(&scratch, &file).expect("compared") == Source::Changed);
        fs::remove_file(&path).expect("removed");
        assert!(compare(&scratch, &file).expect("compared") == Source::Changed);
    }

    #[test]
    fn shares_are_percentages() {
        assert_eq!(parse_sample("0.5%"), Ok(0.005));
        assert_eq!(parse_sample("100%"), Ok(1.0));
        for bad in ["1", "101%", "-1%", "x%", "%"] {
            assert!(parse_sample(bad).is_err(), "{bad}");
        }
    }
}
