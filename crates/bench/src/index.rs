//! `tabane-bench index`: what it costs to know many blocks.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::hint::black_box;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{self, Command, ExitCode};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tabane_index::Cache;
use tabane_index::{Index, IndexSegment};
use tabane_storage::{Listed, Name, ObjectKind, Storage};
use tabane_store::key::{KdfCost, Password};
use tabane_store::parts::pack::{Codec, PackContents, PackKind, Segment};
use tabane_store::{Id, InitOptions, Repository};

use tabane_bench::cpus::{self, Cpus};

/// Blocks of a pack: 16 MiB in blocks of 128 KiB.
const BLOCKS_PER_PACK: u64 = 128;
/// Blocks of a segment.
const BLOCKS_PER_SEGMENT: u64 = 4;
/// Packs of an index object, as a backup writes them.
const PACKS_PER_OBJECT: u64 = 32;
/// Blocks that the backup adds that adds little.
const ADDED_BLOCKS: u64 = 1000;
/// Index objects that are made before the cache takes them over, so that they need no more memory
/// than that.
const OBJECTS_AT_ONCE: u64 = 128;

/// Make indexes of many blocks, and measure memory, lookups, opening, and adding a little.
///
/// Packs are 128 random blocks, of which nothing but the index is made; index objects are those of
/// backups, 32 packs in each. The cache takes them over as they come, as it does in a repository
/// that grows; then they are forgotten, as if they were far away, but for their names. What is
/// measured runs in a new process, on one core. Resident bytes are those of the process's own
/// memory that came with opening and looking up; what the system keeps of the cache's files is not
/// among them.
#[derive(clap::Args)]
pub struct Args {
    /// Numbers of blocks
    #[arg(long, value_name = "N,…", value_delimiter = ',',
        default_values_t = [1_000_000, 10_000_000, 100_000_000])]
    blocks: Vec<u64>,
    /// Lookups of each sort
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    lookups: u64,
    /// Where the caches are made: 62 bytes a block, twice that while they are made
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Print one flat JSON object a line instead of a table
    #[arg(long)]
    json: bool,
    /// Only make one in this directory, to measure it later
    #[arg(long, value_name = "DIR", conflicts_with = "measure")]
    make: Option<PathBuf>,
    /// Only measure the one that was made in this directory, once; prints JSON
    #[arg(long, value_name = "DIR")]
    measure: Option<PathBuf>,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<ExitCode> {
    if let Some(directory) = &args.measure {
        println!("{}", measure(directory, args.blocks[0], args.lookups)?);
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(directory) = &args.make {
        make(directory, args.blocks[0])?;
        return Ok(ExitCode::SUCCESS);
    }
    if !args.json {
        println!(
            "{:>11} {:>8} {:>8} {:>9} {:>9} {:>8} {:>8} {:>8} {:>9} {:>9} {:>7}",
            "blocks",
            "B/block",
            "RSS MB",
            "hits/s",
            "misses/s",
            "in order",
            "open ms",
            "read MB",
            "add ms",
            "add MB",
            "disk GB"
        );
    }
    for &blocks in &args.blocks {
        let work = match &args.work {
            Some(work) => tempfile::tempdir_in(work),
            None => tempfile::tempdir(),
        }?;
        let made = Instant::now();
        make(work.path(), blocks)?;
        let made_s = made.elapsed().as_secs_f64();
        let output = Command::new(std::env::current_exe()?)
            .args(["index", "--measure"])
            .arg(work.path())
            .args([
                "--blocks",
                &blocks.to_string(),
                "--lookups",
                &args.lookups.to_string(),
            ])
            .stderr(process::Stdio::inherit())
            .output()?;
        ensure!(output.status.success(), "the measurement failed");
        let mut line: Value = serde_json::from_slice(&output.stdout)?;
        line["make_s"] = made_s.into();
        if args.json {
            println!("{line}");
            continue;
        }
        let number = |key: &str| line[key].as_f64().unwrap_or(f64::NAN);
        println!(
            "{blocks:>11} {:>8.1} {:>8.1} {:>9.2e} {:>9.2e} {:>8.2e} {:>8.1} {:>8.2} {:>9.1} \
            {:>9.2} {:>7.2}",
            number("resident_bytes_per_block"),
            number("resident_bytes") / 1e6,
            number("hits_per_s"),
            number("misses_per_s"),
            number("hits_in_order_per_s"),
            number("open_s") * 1e3,
            number("open_read_bytes") / 1e6,
            number("add_s") * 1e3,
            (number("add_read_bytes") + number("add_written_bytes")) / 1e6,
            number("cache_bytes") / 1e9,
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Objects of which all but the index and packs are kept in a directory; of index objects, all
/// names and only the latest bytes; of packs, the latest names.
struct Forgetful {
    directory: PathBuf,
    index: Mutex<HashMap<Id, Vec<u8>>>,
    packs: Mutex<HashSet<Id>>,
}

impl Forgetful {
    fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            index: Mutex::default(),
            packs: Mutex::default(),
        }
    }

    fn path(&self, name: Name) -> PathBuf {
        self.directory.join(name.path().replace('/', "-"))
    }

    /// Forgets the bytes of index objects, but not their names, and packs.
    fn forget(&self) {
        self.packs.lock().expect("no panic").clear();
        self.index
            .lock()
            .expect("no panic")
            .values_mut()
            .for_each(|bytes| *bytes = Vec::new());
    }

    fn names_path(&self) -> PathBuf {
        self.directory.join("names")
    }

    /// Writes the names of index objects to a file, for [`Forgetful::recall`].
    fn keep_names(&self) -> io::Result<()> {
        let index = self.index.lock().expect("no panic");
        fs::write(
            self.names_path(),
            index.keys().flat_map(|id| id.0).collect::<Vec<u8>>(),
        )
    }

    fn recall(&self) -> io::Result<()> {
        let names = fs::read(self.names_path())?;
        let (names, _) = names.as_chunks();
        *self.index.lock().expect("no panic") =
            names.iter().map(|name| (Id(*name), Vec::new())).collect();
        Ok(())
    }
}

impl Storage for Forgetful {
    fn location(&self) -> String {
        self.directory.display().to_string()
    }

    fn create(&self) -> tabane_storage::Result<()> {
        Ok(fs::create_dir_all(&self.directory)?)
    }

    fn put(&self, name: Name, parts: &[&[u8]]) -> tabane_storage::Result<()> {
        match name.kind {
            ObjectKind::Index => (),
            ObjectKind::Pack => {
                self.packs.lock().expect("no panic").insert(name.id);
                return Ok(());
            }
            _ => return Ok(fs::write(self.path(name), parts.concat())?),
        }
        let mut index = self.index.lock().expect("no panic");
        index.insert(name.id, parts.concat());
        Ok(())
    }

    fn get(&self, name: Name, _: Option<Range<u64>>) -> tabane_storage::Result<Vec<u8>> {
        if name.kind != ObjectKind::Index {
            return Ok(fs::read(self.path(name))?);
        }
        let index = self.index.lock().expect("no panic");
        let bytes = index.get(&name.id).filter(|bytes| !bytes.is_empty());
        bytes
            .cloned()
            .ok_or_else(|| tabane_storage::StorageErrorKind::NotFound.into())
    }

    fn list(&self, kind: ObjectKind) -> tabane_storage::Result<Vec<Listed>> {
        let listed = |id| Listed {
            id,
            len: 1,
            modified: SystemTime::UNIX_EPOCH,
        };
        if kind == ObjectKind::Index {
            let index = self.index.lock().expect("no panic");
            return Ok(index.keys().copied().map(listed).collect());
        }
        if kind == ObjectKind::Pack {
            let packs = self.packs.lock().expect("no panic");
            return Ok(packs.iter().copied().map(listed).collect());
        }
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let name = entry?.file_name().into_string().unwrap_or_default();
            let id = name
                .strip_prefix(kind.name())
                .and_then(|name| name.get(1..));
            found.extend(id.and_then(|id| id.parse().ok()).map(listed));
        }
        Ok(found)
    }

    fn stat(&self, name: Name) -> tabane_storage::Result<u64> {
        if name.kind == ObjectKind::Pack {
            let there = self.packs.lock().expect("no panic").contains(&name.id);
            return there
                .then_some(1)
                .ok_or_else(|| tabane_storage::StorageErrorKind::NotFound.into());
        }
        Ok(fs::metadata(self.path(name))?.len())
    }

    fn delete(&self, name: Name) -> tabane_storage::Result<()> {
        Ok(fs::remove_file(self.path(name))?)
    }
}

fn password() -> Password {
    b"benchmark".to_vec().into()
}

fn cache_root(directory: &Path) -> PathBuf {
    directory.join("cache")
}

fn cache(directory: &Path) -> Cache {
    Cache::new(cache_root(directory), |text: &str| eprintln!("{text}"))
}

/// Makes a repository whose index has so many blocks, and its cache.
fn make(directory: &Path, blocks: u64) -> Result<()> {
    let storage = Arc::new(Forgetful::new(&directory.join("repository")));
    let options = InitOptions::default().kdf_cost(KdfCost::WEAKEST);
    let repository =
        Repository::init(storage.clone(), &password(), options)?.with_cache(cache(directory));
    let blocks_per_object = BLOCKS_PER_PACK * PACKS_PER_OBJECT;
    let mut next = 0;
    while next < blocks {
        for _ in 0..OBJECTS_AT_ONCE {
            let end = blocks.min(next + blocks_per_object);
            if next < end {
                put(&repository, next..end)?;
            }
            next = end;
        }
        repository.load_index()?;
        storage.forget();
    }
    Ok(storage.keep_names()?)
}

/// Writes an index object with these blocks.
fn put(repository: &Repository, blocks: Range<u64>) -> Result<()> {
    let mut packs = IndexSegment::new();
    let mut next = blocks.start;
    while next < blocks.end {
        let end = blocks.end.min(next + BLOCKS_PER_PACK);
        let mut segments = Vec::new();
        for first in (next..end).step_by(BLOCKS_PER_SEGMENT as usize) {
            let blocks = first..end.min(first + BLOCKS_PER_SEGMENT);
            segments.push(Segment {
                stored_len: 300_000,
                codec: Codec::Zstd,
                blocks: blocks.map(|number| (block(number), 128 << 10)).collect(),
            });
        }
        let contents = PackContents {
            salt: block(next ^ 1 << 62).0,
            kind: PackKind::Data,
            segments,
        };
        packs.push((block(next ^ 1 << 63), contents));
        next = end;
    }
    for (pack, _) in &packs {
        repository
            .storage()
            .put(Name::new(ObjectKind::Pack, *pack), &[])?;
    }
    repository.write_index_segment(&packs)?;
    Ok(())
}

/// An ID that looks random, another for each number.
fn block(number: u64) -> Id {
    let mut id = Id::default();
    for (at, bytes) in id.0.chunks_exact_mut(8).enumerate() {
        bytes.copy_from_slice(&mix(number ^ (at as u64) << 48).to_le_bytes());
    }
    id
}

/// The finalizer of SplitMix64.
fn mix(number: u64) -> u64 {
    let mut state = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

/// Measures what [`make`] made.
fn measure(directory: &Path, blocks: u64, lookups: u64) -> Result<Value> {
    cpus::pin(Cpus::allowed()?.cores[0])?;
    let storage = Arc::new(Forgetful::new(&directory.join("repository")));
    storage.recall()?;
    let repository = Repository::open(storage.clone(), &password())?.with_cache(cache(directory));

    let before = Usage::now()?;
    let start = Instant::now();
    let index = repository.load_index()?;
    let open_s = start.elapsed().as_secs_f64();
    let opened = Usage::now()?;
    ensure!(index.len() == blocks, "there are {} blocks", index.len());

    // All of the table is in memory before the clock runs, as it is when a large backup is under
    // way.
    rate(&index, lookups, |number| 2 * blocks + number, false)?;
    let hits = rate(&index, lookups, |number| mix(number ^ 5) % blocks, true)?;
    let in_order = rate(&index, lookups.min(blocks), |number| number, true)?;
    let misses = rate(&index, lookups, |number| blocks + number, false)?;
    let used = Usage::now()?;
    let resident = used.anonymous_bytes.saturating_sub(before.anonymous_bytes);
    drop(index);

    put(
        &repository,
        blocks + lookups..blocks + lookups + ADDED_BLOCKS,
    )?;
    let before_add = Usage::now()?;
    let start = Instant::now();
    let index = repository.load_index()?;
    let add_s = start.elapsed().as_secs_f64();
    let added = Usage::now()?;
    ensure!(
        index.len() == blocks + ADDED_BLOCKS,
        "what was added is not there"
    );
    ensure!(
        index.find(&block(blocks + lookups))?.is_some(),
        "a block is not there"
    );

    let cached = tabane_index::Cached::list(&cache_root(directory))?;
    Ok(json!({
        "blocks": blocks,
        "lookups": lookups,
        "resident_bytes": resident,
        "resident_bytes_per_block": resident as f64 / blocks as f64,
        "hits_per_s": hits,
        "hits_in_order_per_s": in_order,
        "misses_per_s": misses,
        "open_s": open_s,
        "open_read_bytes": opened.read_bytes - before.read_bytes,
        "add_blocks": ADDED_BLOCKS,
        "add_s": add_s,
        "add_read_bytes": added.read_bytes - before_add.read_bytes,
        "add_written_bytes": added.written_bytes - before_add.written_bytes,
        "cache_bytes": cached.iter().map(|cached| cached.bytes).sum::<u64>(),
    }))
}

/// Lookups a second of blocks that are there, or are not.
fn rate(index: &Index, lookups: u64, number: impl Fn(u64) -> u64, there: bool) -> Result<f64> {
    let start = Instant::now();
    for lookup in 0..lookups {
        let found = black_box(index.find(&block(number(lookup)))?);
        ensure!(found.is_some() == there, "lookup {lookup} is wrong");
    }
    Ok(lookups as f64 / start.elapsed().as_secs_f64())
}

/// What this process has used so far.
struct Usage {
    /// Its memory that is no file's.
    anonymous_bytes: u64,
    /// What it read and wrote by system calls, from the disk or not.
    read_bytes: u64,
    written_bytes: u64,
}

impl Usage {
    fn now() -> Result<Self> {
        let field = |path: &str, name: &str| -> Result<u64> {
            let text = fs::read_to_string(path).with_context(|| path.to_owned())?;
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let value = line.and_then(|line| line.split_whitespace().next());
            value
                .with_context(|| format!("{path} has no {name}"))?
                .parse()
                .context(path.to_owned())
        };
        Ok(Self {
            anonymous_bytes: field("/proc/self/status", "RssAnon:")? << 10,
            read_bytes: field("/proc/self/io", "rchar:")?,
            written_bytes: field("/proc/self/io", "wchar:")?,
        })
    }
}
