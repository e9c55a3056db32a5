//! Copies blocks into new packs: out of packs that are about to go, or out of another repository.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tabane_engine::Pool;

use crate::access::reader::BlockReader;
use crate::access::repository::Repository;
use crate::access::writer::{Encoder, Writer, Written, flush};
use tabane_format::compress::Compression;
use tabane_format::pack::{BlockKind, PACK_LEN};
use tabane_format::{Error, Result};
use tabane_index::{BlockLocation, Index};
use tabane_storage::Id;
use tabane_storage::{Name, ObjectKind};

/// What one worker has.
struct Worker {
    reader: BlockReader,
    data: Encoder,
    tree: Encoder,
}

/// The blocks of one segment that are to be copied.
type Wanted = (u32, Vec<(Id, BlockLocation)>);

/// The most bytes of a far pack that are read though nobody wants them: another request takes
/// longer.
const GAP_LEN_MAX: u32 = 1 << 20;

/// The most workers that copy from a far storage: each has a pack of its own in memory.
const FAR_WORKERS_MAX: usize = 8;

/// Where blocks come from, and where they go.
pub struct Ends<'a> {
    /// The repository that holds the blocks.
    pub from: &'a Repository,
    /// Index of `from`.
    pub index: &'a Arc<Index>,
    /// The repository that gets the blocks; may be `from` itself.
    pub to: &'a Repository,
    /// Index of blocks that `to` holds already and that are not copied.
    pub there: Index,
}

/// Copies blocks, all of them in `index`, into new packs of the same repository. As
/// [`copy_between`].
///
/// # Errors
/// As [`copy_between`].
pub fn copy(
    repository: &Repository,
    index: &Arc<Index>,
    blocks: impl IntoIterator<Item = Id>,
    progress: impl Fn(u64) + Send + Sync + 'static,
) -> Result<Written> {
    let ends = Ends {
        from: repository,
        index,
        to: repository,
        // Empty, since every block is to be written a second time.
        there: Index::default(),
    };
    copy_between(ends, blocks, Compression::AUTO, progress)
}

/// Copies blocks into new packs and indexes these; packs and index are durable on return. Each
/// block is checked against its digest. `progress` gets the bytes of blocks copied.
///
/// # Errors
/// When a storage fails, or a block is missing or damaged.
pub fn copy_between(
    ends: Ends<'_>,
    blocks: impl IntoIterator<Item = Id>,
    compression: Compression,
    progress: impl Fn(u64) + Send + Sync + 'static,
) -> Result<Written> {
    let Ends {
        from,
        index,
        to,
        there,
    } = ends;
    let mut by_segment: HashMap<u32, Vec<(Id, BlockLocation)>> = HashMap::new();
    let mut bytes = 0;
    for block in blocks {
        let location = index.find(&block)?.ok_or(Error::MissingBlock(block))?;
        bytes += location.len as usize;
        let wanted = by_segment.entry(location.segment).or_default();
        wanted.push((block, location));
    }
    let mut segments: Vec<Wanted> = by_segment.into_iter().collect();
    // By number: neighbours in a pack have neighbouring numbers.
    segments.sort_unstable_by_key(|(segment, _)| *segment);
    for (_, wanted) in &mut segments {
        wanted.sort_unstable_by_key(|(_, location)| location.offset);
    }

    let writer = Writer::new(to, there, false);
    let worker = || Worker {
        reader: BlockReader::new(from),
        data: writer.encoder(BlockKind::Data, compression),
        tree: writer.encoder(BlockKind::Tree, compression),
    };
    let mut workers = std::thread::available_parallelism().map_or(1, |count| count.get());
    if from.is_far() {
        workers = workers.max(from.storage().connections().min(FAR_WORKERS_MAX));
    }
    // Little work makes few packs.
    let workers = workers.min(bytes.div_ceil(PACK_LEN).max(1));
    let pool = Pool::new((0..workers).map(|_| worker()).collect(), workers);
    let (done, progress) = (Arc::new(AtomicU64::new(0)), Arc::new(progress));
    for run in runs(from, index, segments)? {
        let (index, done, progress) = (Arc::clone(index), Arc::clone(&done), Arc::clone(&progress));
        let repository = from.clone();
        pool.submitter().submit(move |worker: &mut Worker, _| {
            if worker.data.has_failed() {
                return;
            }
            if let Err(error) = copy_run(&repository, &index, &run, worker) {
                worker.data.fail(error);
            }
            let wanted = run.iter().flat_map(|(_, wanted)| wanted);
            let bytes: u64 = wanted.map(|(_, place)| u64::from(place.len)).sum();
            progress(done.fetch_add(bytes, Ordering::Relaxed) + bytes);
        });
    }
    let (data, trees): (Vec<_>, Vec<_>) = pool
        .finish()
        .into_iter()
        .map(|worker| (worker.data, worker.tree))
        .unzip();
    let flushed = flush(data).and(flush(trees));
    // What failed first is what the writer tells.
    let written = writer.finish()?;
    flushed?;
    Ok(written)
}

/// Puts together what is read by one request: of a far storage, segments of a pack with little
/// between them. Directories are read in larger parts by themselves, which are kept.
fn runs(from: &Repository, index: &Index, segments: Vec<Wanted>) -> Result<Vec<Vec<Wanted>>> {
    let mut runs: Vec<Vec<Wanted>> = Vec::new();
    let mut raw_bytes = 0;
    let mut end = None;
    for (number, wanted) in segments {
        let segment = index.segment(number)?;
        let is_joined = end.is_some_and(|(pack, end)| {
            pack == segment.pack
                && segment.offset.saturating_sub(end) <= GAP_LEN_MAX
                && raw_bytes + segment.raw_len as usize <= PACK_LEN
        });
        let can_join = from.is_far() && index.pack(segment.pack)?.kind.blocks() == BlockKind::Data;
        end = can_join.then_some((segment.pack, segment.offset + segment.stored_len));
        match runs.last_mut().filter(|_| is_joined) {
            Some(run) => run.push((number, wanted)),
            None => {
                raw_bytes = 0;
                runs.push(vec![(number, wanted)]);
            }
        }
        raw_bytes += segment.raw_len as usize;
    }
    Ok(runs)
}

/// Copies what is wanted of these segments, which are in one pack.
fn copy_run(
    repository: &Repository,
    index: &Index,
    run: &[Wanted],
    worker: &mut Worker,
) -> Result<()> {
    // model: removal/repack/read-packs
    let [(segment, wanted)] = run else {
        let (first, last) = (run[0].0, run[run.len() - 1].0);
        let numbers: Vec<u32> = (first..=last).collect();
        let mut read = worker.reader.read_segments(index, &numbers);
        return run.iter().try_for_each(|(segment, wanted)| {
            let read = &mut read[(segment - first) as usize];
            let read = std::mem::replace(read, Ok(Vec::new()));
            copy_segment(repository, index, *segment, wanted, read, worker)
        });
    };
    let read = worker.reader.read_segment(index, *segment);
    copy_segment(repository, index, *segment, wanted, read, worker)
}

/// Copies these blocks of a segment, which was `read`.
fn copy_segment(
    repository: &Repository,
    index: &Index,
    segment: u32,
    wanted: &[(Id, BlockLocation)],
    read: Result<Vec<u8>>,
    worker: &mut Worker,
) -> Result<()> {
    let pack = index.pack(index.segment(segment)?.pack)?;
    let blocks: Vec<&[u8]> = match &read {
        Ok(raw) => wanted
            .iter()
            .map(|(_, place)| &raw[place.offset as usize..][..place.len as usize])
            .collect(),
        // Other packs may have them.
        Err(Error::Damaged { .. }) => vec![&[]; wanted.len()],
        Err(_) => return read.map(drop),
    };
    let digests = repository.config().hash.digest_many(&blocks);
    let encoder = match pack.kind.blocks() {
        BlockKind::Data => &mut worker.data,
        BlockKind::Tree => &mut worker.tree,
    };
    for (((id, _), block), digest) in wanted.iter().zip(blocks).zip(&digests) {
        if repository.is_block(id, digest) {
            encoder.copy(*id, block)?;
            continue;
        }
        let mut elsewhere = Vec::new();
        let found = worker.reader.append_block(index, *id, &mut elsewhere);
        let digest = repository.config().hash.digest(&elsewhere);
        if found.is_err() || !repository.is_block(id, &digest) {
            let name = Name::new(ObjectKind::Pack, pack.id);
            let why = format!("block {id} does not match its digest");
            return Err(read.err().unwrap_or_else(|| Error::damaged(name, why)));
        }
        encoder.copy(*id, &elsewhere)?;
    }
    Ok(())
}
