//! `tabane-papers regimes`: where the time of a backup goes, from data that are all new to data
//! that are all known.
//!
//! The paper that Tabane comes from tells two regimes apart: with few duplicates, storing is what
//! takes time; with many, hashing. Here each stage of a backup is timed by itself, on one core:
//! what the encoder of the store and its neighbours do, one stage after the other with a clock in
//! between, from files in memory to a repository in memory.

use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::mem;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use serde_json::json;
use tabane_index::Index;
use tabane_storage::{LocalStorage, Name, ObjectKind, Storage};
use tabane_store::chunker::Chunking;
use tabane_store::compress::{Compression, Compressor};
use tabane_store::key::{KdfCost, Password};
use tabane_store::parts::examine::Examiner;
use tabane_store::parts::pack::{
    BlockKind, Codec, PACK_LEN, PackContents, PackWriter, SEGMENT_LEN,
};
use tabane_store::parts::reader::BlockReader;
use tabane_store::{Algorithm, Id, InitOptions, Repository};

use tabane_bench::arguments::Report;
use tabane_bench::data::words;
use tabane_bench::measure::median;
use tabane_bench::timing::thread_cpu_seconds;
use tabane_testing::progress;

mod plot;

/// What is read and hashed in one go, as in a backup.
const BUNDLE_LEN: usize = 8 << 20;

/// The data are so many runs, each all new or all known.
const RUNS: usize = 20;

/// Time the stages of a backup on one core, by the share of the data that is known
///
/// Data are words, which compress as text does; what is known comes in twenty runs. With SHA-1,
/// which anybody can make collide, blocks that are known are read from the repository and compared
/// (*confirm*). Times are CPU time, medians over the rounds; GB are 10^9 bytes.
#[derive(clap::Args)]
pub struct Args {
    /// How much of the data is known, in percent
    #[arg(long, value_name = "PERCENT,…", value_delimiter = ',',
        default_values_t = [0, 50, 95, 100],
        value_parser = clap::value_parser!(u32).range(0..=100))]
    duplicates: Vec<u32>,
    /// Lengths of fixed blocks, in KiB
    #[arg(long, value_name = "KIB,…", value_delimiter = ',', default_values_t = [4, 64, 512])]
    fixed: Vec<u32>,
    /// Average lengths of content-defined blocks, in KiB
    #[arg(long, value_name = "KIB,…", value_delimiter = ',', default_values_t = [128])]
    averages: Vec<u32>,
    /// Hashes
    #[arg(long, value_name = "HASH,…", value_delimiter = ',',
        default_values_t = [Algorithm::Sha1, Algorithm::Sha256])]
    hashes: Vec<Algorithm>,
    /// How much data, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 160,
        value_parser = clap::value_parser!(u32).range(20..65536))]
    data: u32,
    /// How many times to time everything
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Where the data and the repositories are made
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    work: PathBuf,
    /// Draw a figure for each hash into this folder
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    #[command(flatten)]
    report: Report,
}

/// What a backup does with data, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Read,
    Cut,
    Hash,
    LookUp,
    Confirm,
    Compress,
    Seal,
    ReadBack,
    Write,
}

impl Stage {
    const ALL: [Stage; 9] = [
        Self::Read,
        Self::Cut,
        Self::Hash,
        Self::LookUp,
        Self::Confirm,
        Self::Compress,
        Self::Seal,
        Self::ReadBack,
        Self::Write,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Cut => "cut",
            Self::Hash => "hash",
            Self::LookUp => "look up",
            Self::Confirm => "confirm",
            Self::Compress => "compress",
            Self::Seal => "seal",
            Self::ReadBack => "read back",
            Self::Write => "write",
        }
    }
}

/// CPU time of each stage in seconds.
type Times = [f64; Stage::ALL.len()];

/// A line of the table: medians over the rounds.
struct Case {
    duplicates: u32,
    chunking: String,
    hash: Algorithm,
    /// Part of the bytes in blocks that are known.
    known: f64,
    seconds_per_gb: Times,
}

impl Case {
    fn total(&self) -> f64 {
        self.seconds_per_gb.iter().sum()
    }

    fn share(&self, stage: Stage) -> f64 {
        self.seconds_per_gb[stage as usize] / self.total()
    }

    /// The stage that takes the most time.
    fn bottleneck(&self) -> Stage {
        let shares = Stage::ALL.into_iter();
        shares
            .max_by(|&one, &other| self.share(one).total_cmp(&self.share(other)))
            .expect("there are stages")
    }
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<ExitCode> {
    let work = tempfile::tempdir_in(&args.work)?;
    let base = work.path().join("known");
    make_data(&base, args, None)?;
    let mut files = Vec::new();
    for &percent in &args.duplicates {
        let path = work.path().join(format!("{percent} percent"));
        make_data(&path, args, Some(percent))?;
        files.push((percent, path));
    }
    let fixed = args.fixed.iter().map(|kib| {
        let len = kib << 10;
        (format!("fixed {kib} KiB"), Chunking::Fixed { len })
    });
    let content = args
        .averages
        .iter()
        .map(|kib| (format!("content {kib} KiB"), Chunking::content(kib << 10)));
    let mut cases = Vec::new();
    for (chunking_name, chunking) in fixed.chain(content) {
        for &hash in &args.hashes {
            progress::show(&format!("{chunking_name}, {hash}"));
            let folder = work.path().join("repository");
            let mut bench = Bench::new(&folder, chunking, hash)?;
            bench.run(&base, true)?;
            for (percent, path) in &files {
                cases.push(Case {
                    duplicates: *percent,
                    chunking: chunking_name.clone(),
                    hash,
                    known: 0.0,
                    seconds_per_gb: [0.0; _],
                });
                let case = cases.last_mut().expect("just pushed");
                let rounds: Vec<Times> = (0..args.rounds)
                    .map(|_| {
                        let (times, known) = bench.run(path, false)?;
                        case.known = known;
                        Ok(times)
                    })
                    .collect::<Result<_>>()?;
                for stage in Stage::ALL {
                    let times = rounds.iter().map(|times| times[stage as usize]);
                    case.seconds_per_gb[stage as usize] = median(times).unwrap_or_default();
                }
            }
            drop(bench);
            fs::remove_dir_all(&folder)?;
        }
    }
    progress::show("");
    cases.sort_by_key(|case| (case.hash.name(), case.duplicates));
    if let Some(folder) = &args.plots {
        for &hash in &args.hashes {
            let of_hash: Vec<&Case> = cases.iter().filter(|case| case.hash == hash).collect();
            plot::draw(&folder.join(format!("regimes_{hash}.svg")), hash, &of_hash)?;
        }
    }
    let met = report(args, &cases);
    Ok(args.report.exit_code(met))
}

/// Writes runs of words: all known, or so many percent of them, spread evenly.
fn make_data(path: &Path, args: &Args, percent: Option<u32>) -> Result<()> {
    // So that blocks of fixed length begin where runs do.
    let run_len = ((args.data as usize) << 20) / RUNS / (1 << 20) * (1 << 20);
    let cannot = || format!("cannot write {}", path.display());
    let mut file = BufWriter::new(File::create(path).with_context(cannot)?);
    for run in 0..RUNS {
        let below = |run: usize| run * percent.unwrap_or(100) as usize / 100;
        let known = below(run + 1) > below(run);
        let seed = if known { 0 } else { 1 + percent.unwrap_or(0) };
        let text = words(run_len, (u64::from(seed) << 32) + run as u64);
        file.write_all(&text).with_context(cannot)?;
    }
    file.flush().with_context(cannot)
}

/// The stages, with what they keep between bundles.
struct Bench {
    repository: Arc<Repository>,
    storage: Arc<LocalStorage>,
    index: Index,
    reader: BlockReader,
    compressor: Compressor,
    examiner: Examiner,
    /// The open segments: of blocks stored uncompressed, and of blocks to compress.
    segments: [OpenSegment; 2],
    pack: Option<PackWriter>,
    pack_buffer: Vec<u8>,
    clock: Clock,
}

#[derive(Default)]
struct OpenSegment {
    raw: Vec<u8>,
    blocks: Vec<(Id, u32)>,
}

/// Adds the time since it was last asked to a stage.
struct Clock {
    last: f64,
    times: Times,
}

impl Clock {
    fn end(&mut self, stage: Stage) {
        let now = thread_cpu_seconds();
        self.times[stage as usize] += now - mem::replace(&mut self.last, now);
    }
}

impl Bench {
    fn new(folder: &Path, chunking: Chunking, hash: Algorithm) -> Result<Self> {
        let storage = Arc::new(LocalStorage::new(folder));
        let password: Password = b"benchmark".to_vec().into();
        let options = InitOptions::default()
            .chunking(chunking)
            .hash(hash)
            .kdf_cost(KdfCost::WEAKEST);
        let repository = Arc::new(Repository::init(storage.clone(), &password, options)?);
        Ok(Self {
            reader: BlockReader::new(&repository),
            repository,
            storage,
            index: Index::default(),
            compressor: Compressor::new(Compression::AUTO),
            examiner: Examiner::default(),
            segments: Default::default(),
            pack: None,
            pack_buffer: Vec::new(),
            clock: Clock {
                last: 0.0,
                times: [0.0; _],
            },
        })
    }

    /// Goes through a file; with `keep`, what it stores is there and known from then on. Returns
    /// the seconds for a GB, and the part that was known.
    fn run(&mut self, path: &Path, keep: bool) -> Result<(Times, f64)> {
        let file = File::open(path)?;
        let hash = self.repository.config().hash;
        let (mut arena, mut rest) = (Vec::with_capacity(2 * BUNDLE_LEN), Vec::new());
        let (mut total, mut known_bytes) = (0, 0);
        self.clock = Clock {
            last: thread_cpu_seconds(),
            times: [0.0; _],
        };
        loop {
            arena.clear();
            arena.append(&mut rest);
            let wanted = (BUNDLE_LEN - arena.len().min(BUNDLE_LEN / 2)) as u64;
            let count = (&file).take(wanted).read_to_end(&mut arena)? as u64;
            total += count;
            let end = count < wanted;
            self.clock.end(Stage::Read);

            let lens: Vec<usize> = self.repository.chunker().blocks(&arena, end).collect();
            let mut data = arena.as_slice();
            let cut = lens
                .iter()
                .map(|&len| data.split_off(..len).expect("cut from it"));
            let blocks: Vec<&[u8]> = cut.collect();
            rest.extend_from_slice(data);
            self.clock.end(Stage::Cut);

            let digests = hash.digest_many(&blocks);
            self.clock.end(Stage::Hash);

            let ids: Vec<Id> = digests.into_iter().map(Id::from).collect();
            let found = ids.iter().map(|id| Ok(self.index.find(id)?.is_some()));
            let found: Vec<bool> = found.collect::<Result<_>>()?;
            self.clock.end(Stage::LookUp);

            if hash == Algorithm::Sha1 {
                let mut known = Vec::new();
                for ((id, block), _) in ids
                    .iter()
                    .zip(&blocks)
                    .zip(&found)
                    .filter(|(_, found)| **found)
                {
                    known.clear();
                    self.reader.append_block(&self.index, *id, &mut known)?;
                    assert!(known == *block, "a collision");
                }
                self.clock.end(Stage::Confirm);
            }

            for ((id, block), found) in ids.into_iter().zip(blocks).zip(found) {
                if found {
                    known_bytes += block.len() as u64
                } else {
                    self.store(id, block, keep)?
                }
            }
            if end {
                break;
            }
        }
        for compress in [true, false] {
            self.close_segment(compress)?;
        }
        self.write_pack(keep)?;
        let gb = total as f64 / 1e9;
        let times = self.clock.times.map(|seconds| seconds / gb);
        Ok((times, known_bytes as f64 / total as f64))
    }

    fn store(&mut self, id: Id, block: &[u8], keep: bool) -> Result<()> {
        let compress = self.compressor.wants(block);
        let segment = &mut self.segments[usize::from(compress)];
        segment.raw.extend_from_slice(block);
        segment.blocks.push((id, block.len() as u32));
        let full = segment.raw.len() >= SEGMENT_LEN;
        self.clock.end(Stage::Compress);
        if full {
            self.close_segment(compress)?;
        }
        if self
            .pack
            .as_ref()
            .is_some_and(|pack| pack.len() >= PACK_LEN)
        {
            self.write_pack(keep)?;
        }
        Ok(())
    }

    fn close_segment(&mut self, compress: bool) -> Result<()> {
        let segment = &mut self.segments[usize::from(compress)];
        if segment.blocks.is_empty() {
            return Ok(());
        }
        let (codec, encoded) = if compress {
            self.compressor.encode(&segment.raw)
        } else {
            (Codec::Stored, segment.raw.as_slice())
        };
        self.clock.end(Stage::Compress);
        let pack = self.pack.get_or_insert_with(|| {
            let buffer = mem::take(&mut self.pack_buffer);
            PackWriter::new(
                tabane_store::parts::keys(&self.repository),
                BlockKind::Data,
                buffer,
            )
        });
        pack.push(codec, encoded, mem::take(&mut segment.blocks));
        segment.raw.clear();
        self.clock.end(Stage::Seal);
        Ok(())
    }

    fn write_pack(&mut self, keep: bool) -> Result<()> {
        let Some(pack) = self.pack.take() else {
            return Ok(());
        };
        let (bytes, contents): (Vec<u8>, PackContents) = pack.finish();
        self.clock.end(Stage::Seal);
        let mut wrong = None;
        self.examiner
            .examine(&self.repository, &bytes, &contents, "it", |error, _| {
                wrong.get_or_insert(error);
            })?;
        wrong.map_or(Ok(()), Err)?;
        self.clock.end(Stage::ReadBack);
        let id = Id::from(Algorithm::Sha256.digest(&bytes));
        let name = Name::new(ObjectKind::Pack, id);
        self.storage.put(name, &[&bytes])?;
        self.clock.end(Stage::Write);
        if keep {
            self.index.add(id, &contents)?
        } else {
            self.storage.delete(name)?
        }
        self.pack_buffer = bytes;
        self.clock.last = thread_cpu_seconds();
        Ok(())
    }
}

/// Prints everything; returns whether the bar is met: at 95% duplicates with SHA-1, hashing is not
/// what takes longest.
fn report(args: &Args, cases: &[Case]) -> bool {
    let mut barred = cases
        .iter()
        .filter(|case| case.duplicates == 95 && case.hash == Algorithm::Sha1);
    let met = barred.all(|case| case.bottleneck() != Stage::Hash);
    const BAR: &str = "SHA-1 at 95% duplicates: hashing is not what takes longest";
    if args.report.json {
        for case in cases {
            for stage in Stage::ALL {
                let line = json!({
                    "bench": "regimes", "kind": "stage", "hash": case.hash.name(),
                    "duplicates_percent": case.duplicates, "known_fraction": case.known,
                    "chunking": case.chunking, "rounds": args.rounds, "stage": stage.name(),
                    "cpu_s_per_gb": case.seconds_per_gb[stage as usize], "share": case.share(stage),
                    "longest": stage == case.bottleneck(),
                });
                println!("{line}");
            }
        }
        let line = json!({"bench": "regimes", "kind": "bar", "what": BAR, "ok": met});
        println!("{line}");
        return met;
    }
    for (number, case) in cases.iter().enumerate() {
        if number == 0 || cases[number - 1].hash != case.hash {
            let stages = Stage::ALL.map(Stage::name).join(" | ");
            println!("\n{}: seconds of CPU time for a GB\n", case.hash);
            println!("| duplicates | blocks | known | {stages} | all | GB/s | longest |");
            println!(
                "|---|---|---|{}---|---|---|",
                "---|".repeat(Stage::ALL.len())
            );
        }
        let times = case.seconds_per_gb.map(|seconds| format!("{seconds:.3}"));
        println!(
            "| {}% | {} | {:.1}% | {} | {:.3} | {:.2} | {} {:.0}% |",
            case.duplicates,
            case.chunking,
            100.0 * case.known,
            times.join(" | "),
            case.total(),
            1.0 / case.total(),
            case.bottleneck().name(),
            100.0 * case.share(case.bottleneck()),
        );
    }
    println!("\n{BAR}: {}", if met { "ok" } else { "not so" });
    met
}
