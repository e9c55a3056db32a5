//! `tabane-bench floor`: the least that any backup program has to do.

use std::fs::{self, File};
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use tabane_engine::Algorithm;

/// Bytes that are compressed as one, as in the packs of Tabane.
const SEGMENT_LEN: usize = 512 << 10;

/// Bytes that are hashed as one: the mean length of a block in files of many lengths.
const BLOCK_LEN: usize = 16 << 10;

/// What is done with a tree, and nothing else.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    work: Work,
}

#[derive(clap::Subcommand)]
enum Work {
    /// Look at every entry
    Stat { tree: PathBuf },
    /// Read every file
    Read { tree: PathBuf },
    /// Read every file, compress it with zstd's level 1, and write the result into one file
    Pack { tree: PathBuf, out: PathBuf },
    /// Read such a file, decompress it and hash the result
    Verify { file: PathBuf },
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    match &args.work {
        Work::Stat { tree } => {
            walk(tree, &mut Vec::new())?;
        }
        Work::Read { tree } => each_file(tree, |path, buffer| {
            buffer.clear();
            File::open(path)?.read_to_end(buffer)?;
            Ok(())
        })?,
        Work::Pack { tree, out } => pack(tree, out)?,
        Work::Verify { file } => verify(file)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// All regular files below a directory.
fn walk(directory: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let listed = fs::read_dir(directory);
    for entry in listed.with_context(|| format!("cannot list {}", directory.display()))? {
        let path = entry?.path();
        let kind = fs::symlink_metadata(&path)?.file_type();
        if kind.is_dir() {
            walk(&path, files)?;
        } else if kind.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

/// Hands every file to `work`, in a thread for each processor, each of which has a buffer.
fn each_file(tree: &Path, work: impl Fn(&Path, &mut Vec<u8>) -> Result<()> + Sync) -> Result<()> {
    let mut files = Vec::new();
    walk(tree, &mut files)?;
    let next = AtomicUsize::new(0);
    let failure = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..processors() {
            scope.spawn(|| {
                let mut buffer = Vec::new();
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = work(file, &mut buffer) {
                        failure.lock().expect("no panic").get_or_insert(error);
                    }
                }
            });
        }
    });
    failure.into_inner().expect("no panic").map_or(Ok(()), Err)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn pack(tree: &Path, out: &Path) -> Result<()> {
    let mut files = Vec::new();
    walk(tree, &mut files)?;
    let next = AtomicUsize::new(0);
    let out = Mutex::new(File::create(out).context("cannot write the result")?);
    let worked: Result<Vec<()>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..processors())
            .map(|_| scope.spawn(|| pack_some(&files, &next, &out)))
            .collect();
        let done = workers
            .into_iter()
            .map(|worker| worker.join().expect("no panic"));
        done.collect()
    });
    worked.map(drop)
}

fn pack_some(files: &[PathBuf], next: &AtomicUsize, out: &Mutex<File>) -> Result<()> {
    let mut compressor = zstd::bulk::Compressor::new(1)?;
    let mut segment = Vec::with_capacity(2 * SEGMENT_LEN);
    let mut flush = |segment: &mut Vec<u8>| -> Result<()> {
        let packed = compressor.compress(segment)?;
        let mut out = out.lock().expect("no panic");
        out.write_all(&(packed.len() as u32).to_le_bytes())?;
        out.write_all(&(segment.len() as u32).to_le_bytes())?;
        out.write_all(&packed)?;
        segment.clear();
        Ok(())
    };
    while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
        let mut file = File::open(path)?;
        loop {
            let room = (SEGMENT_LEN - segment.len()) as u64;
            if (&mut file).take(room).read_to_end(&mut segment)? == 0 {
                break;
            }
            if segment.len() == SEGMENT_LEN {
                flush(&mut segment)?;
            }
        }
    }
    if !segment.is_empty() {
        flush(&mut segment)?;
    }
    Ok(())
}

fn verify(file: &Path) -> Result<()> {
    let file = Mutex::new(BufReader::new(File::open(file)?));
    let work = || -> Result<()> {
        let mut decompressor = zstd::bulk::Decompressor::new()?;
        let (mut packed, mut raw) = (Vec::new(), Vec::new());
        loop {
            {
                let mut file = file.lock().expect("no panic");
                let mut lengths = [0; 8];
                if file.read_exact(&mut lengths).is_err() {
                    return Ok(());
                }
                let [a, b, c, d, e, f, g, h] = lengths;
                packed.resize(u32::from_le_bytes([a, b, c, d]) as usize, 0);
                raw.clear();
                raw.reserve(u32::from_le_bytes([e, f, g, h]) as usize);
                file.read_exact(&mut packed)?;
            }
            decompressor.decompress_to_buffer(&packed, &mut raw)?;
            let blocks: Vec<&[u8]> = raw.chunks(BLOCK_LEN).collect();
            std::hint::black_box(Algorithm::Sha256.digest_many(&blocks));
        }
    };
    let worked: Result<Vec<()>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..processors()).map(|_| scope.spawn(work)).collect();
        let done = workers
            .into_iter()
            .map(|worker| worker.join().expect("no panic"));
        done.collect()
    });
    worked.map(drop)
}
