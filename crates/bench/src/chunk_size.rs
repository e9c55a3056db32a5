//! `tabane-bench chunk-size`: what the length of blocks costs and saves, on real trees.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use tabane_storage::{LocalStorage, ObjectKind, Storage};
use tabane_store::backup::{BackupOptions, Parent};
use tabane_store::chunker::Chunking;
use tabane_store::compress::Compression;
use tabane_store::key::{KdfCost, Password};
use tabane_store::{InitOptions, Progress, Repository};

/// Back up generations of a tree with blocks of different lengths, and compare sizes and speed.
///
/// Every line is a repository of its own, which takes one generation after the other.
#[derive(clap::Args)]
pub struct Args {
    /// A generation of the data: a directory or a file; give it again for the next one
    #[arg(long = "generation", value_name = "PATH", required = true)]
    generations: Vec<PathBuf>,
    /// Average lengths of content-defined blocks, in KiB
    #[arg(long, value_name = "KIB,…", value_delimiter = ',',
        default_values_t = [32, 64, 128, 256, 512, 1024])]
    averages: Vec<u32>,
    /// Lengths of fixed blocks, in KiB
    #[arg(long, value_name = "KIB,…", value_delimiter = ',', default_values_t = [64, 512])]
    fixed: Vec<u32>,
    /// Compression, as of `tabane backup`
    #[arg(long, default_value = "auto",
        value_parser = |text: &str| text.parse::<Compression>().map_err(|error| error.to_string()))]
    compression: Compression,
    /// Where the repositories are made
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    work: PathBuf,
    /// Print one flat JSON object a line instead of a table
    #[arg(long)]
    json: bool,
}

/// Reports only unreadable files.
struct Quiet;

impl Progress for Quiet {
    fn warning(&self, path: &Path, what: &str) {
        eprintln!("{}: {what}", path.display());
    }
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<ExitCode> {
    if !args.json {
        println!(
            "{:>16} {:>4} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8}",
            "blocks of",
            "gen",
            "data MB",
            "added MB",
            "repo MB",
            "blocks",
            "index MB",
            "cpu s",
            "wall s"
        );
    }
    let content = args
        .averages
        .iter()
        .map(|kib| (format!("content {kib} KiB"), Chunking::content(kib << 10)));
    let fixed = args.fixed.iter().map(|kib| {
        (
            format!("fixed {kib} KiB"),
            Chunking::Fixed { len: kib << 10 },
        )
    });
    for (name, chunking) in content.chain(fixed) {
        generations(args, &name, chunking).with_context(|| name.clone())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn generations(args: &Args, name: &str, chunking: Chunking) -> Result<()> {
    let work = tempfile::tempdir_in(&args.work)?;
    let storage = Arc::new(LocalStorage::new(work.path().join("repository")));
    let password: Password = b"benchmark".to_vec().into();
    let options = InitOptions::default()
        .chunking(chunking)
        .kdf_cost(KdfCost::WEAKEST);
    let repository = Repository::init(storage.clone(), &password, options)?.with_progress(Quiet);
    let mb = |bytes: u64| bytes as f64 / 1e6;
    for (number, generation) in args.generations.iter().enumerate() {
        let (wall, cpu) = (Instant::now(), cpu_s());
        let options = BackupOptions::default()
            .parent(Parent::None)
            .compression(args.compression);
        let summary = repository.backup(options, &[generation])?.snapshot.summary;
        let (wall_s, cpu_s) = (wall.elapsed().as_secs_f64(), cpu_s() - cpu);
        let size =
            |kind| -> Result<u64> { Ok(storage.list(kind)?.iter().map(|object| object.len).sum()) };
        let index_mb = mb(size(ObjectKind::Index)?);
        let repository_mb = ObjectKind::ALL
            .iter()
            .try_fold(0.0, |sum, kind| anyhow::Ok(sum + mb(size(*kind)?)))?;
        let blocks = repository.load_index()?.len();
        let (data_mb, added_mb) = (mb(summary.total_bytes), mb(summary.added_bytes));
        if args.json {
            let line = json!({
                "chunking": name, "generation": number + 1, "data_mb": data_mb,
                "added_mb": added_mb, "repository_mb": repository_mb, "blocks": blocks,
                "index_mb": index_mb, "cpu_s": cpu_s, "wall_s": wall_s,
            });
            println!("{line}");
        } else {
            println!(
                "{name:>16} {:>4} {data_mb:>9.1} {added_mb:>9.1} {repository_mb:>9.1} {blocks:>9} \
                {index_mb:>8.1} {cpu_s:>8.2} {wall_s:>8.2}",
                number + 1
            );
        }
    }
    Ok(())
}

/// CPU time of this process, all threads.
fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
