//! The threads of a backup: workers read files and hand on bundles of blocks, each block that is
//! new is stored by one of them, and other threads write the packs.

use shuttle::sync::mpsc::SyncSender;
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;
use tabane_format::entry::Piece;
use tabane_format::pack::PackContents;
use tabane_storage::Id;

use crate::access::known_blocks::KnownBlocks;
use crate::access::reader::BlockReader;
use crate::access::repository::{HASH, Repository, pack};
use crate::access::uploads::{Failure, Uploads};
use crate::in_many_orders;
use crate::pieces::Pieces;
use crate::pool::{Pool, Submitter};
use crate::sync::lock;

/// The blocks of each file, one byte each. Bundles are of two, and there is a hole between them.
static FILES: [[u8; 4]; 2] = [[0, 1, 0, 2], [2, 1, 3, 1]];

/// How the write of a pack ends.
type Write = fn(&mut Vec<Id>, Id) -> Result<(), &'static str>;

/// What the threads share.
struct Run {
    blocks: KnownBlocks,
    failure: Failure<&'static str>,
    /// The packs that were written.
    written: Mutex<Vec<Id>>,
    write: Write,
    /// The contents of files that are complete, by the files' numbers.
    contents: Mutex<Vec<(usize, Vec<Piece>)>>,
}

/// A worker's own.
struct Encoder {
    queue: SyncSender<(Id, PackContents)>,
    reader: BlockReader,
}

impl Run {
    fn upload(&self, (pack, contents): (Id, PackContents)) -> Result<(), &'static str> {
        thread::yield_now();
        (self.write)(&mut lock(&self.written), pack)?;
        let stored = self.blocks.stored(pack, &contents);
        stored.map_err(|_| "the index takes it")
    }

    fn read_file(self: &Arc<Self>, file: usize, encoder: &mut Encoder, to: &Submitter<Encoder>) {
        let pieces = Arc::new(Pieces::new());
        for bundle in FILES[file].chunks_exact(2) {
            let first = pieces.reserve(bundle.len());
            pieces.hole(7);
            pieces.hand_on();
            let (run, pieces) = (Arc::clone(self), Arc::clone(&pieces));
            to.submit_or_run(encoder, move |encoder, _| {
                let stored = run.store(bundle, encoder);
                pieces.set((first..).zip(stored));
                run.release(file, &pieces);
            });
        }
        self.release(file, &pieces);
    }

    /// Each new block becomes a pack.
    fn store(&self, bundle: &[u8], encoder: &mut Encoder) -> Vec<Piece> {
        let bundle: Vec<&[u8]> = bundle.chunks(1).collect();
        let digests = HASH.digest_many(&bundle);
        let claimed = self.blocks.claim(&bundle, &digests, &mut encoder.reader);
        let claimed = claimed.expect("it looks into memory");
        for (block, (_, is_new)) in bundle.iter().zip(&claimed) {
            if *is_new && !self.failure.has_failed() {
                let sent = encoder.queue.send(pack(&[block]));
                sent.expect("uploads are taken until the end");
            }
        }
        let pieces = claimed
            .into_iter()
            .map(|(id, _)| Piece::Block { id, len: 1 });
        pieces.collect()
    }

    fn release(&self, file: usize, pieces: &Pieces) {
        if let Some(content) = pieces.release() {
            lock(&self.contents).push((file, content));
        }
    }
}

/// What is in a file.
fn expected(file: usize) -> (usize, Vec<Piece>) {
    let bundles = FILES[file].chunks_exact(2).flat_map(|bundle| {
        let blocks = bundle.iter().map(|&block| Piece::Block {
            id: Repository::block(block),
            len: 1,
        });
        blocks.chain([Piece::Hole { len: 7 }])
    });
    (file, bundles.collect())
}

/// Backs up the files with two workers. At most one pack waits for the `uploads`.
fn back_up(uploads: usize, write: Write) -> Arc<Run> {
    let run = Arc::new(Run {
        blocks: KnownBlocks::new(Default::default(), HASH, false),
        failure: Failure::default(),
        written: Mutex::default(),
        write,
        contents: Mutex::default(),
    });
    let shared = Arc::clone(&run);
    let uploads = Uploads::start(uploads, 1, move |pack| {
        shared.failure.attempt(|| shared.upload(pack));
    });
    let encoder = || Encoder {
        queue: uploads.queue(),
        reader: BlockReader::new(&Repository::default()),
    };
    let pool = Pool::new(vec![encoder(), encoder()], 1);
    for file in 0..FILES.len() {
        let run = Arc::clone(&run);
        let read = move |encoder: &mut Encoder, to: &Submitter<Encoder>| {
            run.read_file(file, encoder, to);
        };
        pool.submitter().submit(read);
    }
    drop(pool.finish());
    uploads.finish();
    run
}

/// Each block is stored once, whoever finds it first and whenever it becomes durable. Contents come
/// in the order of the files.
#[test]
fn each_block_is_stored_once() {
    in_many_orders(|| {
        let run = back_up(2, |written, pack| {
            written.push(pack);
            Ok(())
        });
        assert_eq!(run.failure.take(), None);
        let mut written = lock(&run.written);
        written.sort();
        let mut packs: Vec<Id> = (0..4).map(|block| pack(&[&[block]]).0).collect();
        packs.sort();
        assert_eq!(*written, packs);
        let mut contents = lock(&run.contents);
        contents.sort_by_key(|(file, _)| *file);
        assert_eq!(*contents, [expected(0), expected(1)]);
        let blocks = (0..4).map(Repository::block);
        assert!(run.blocks.has_all(blocks));
    });
}

/// A pack that cannot be written keeps no worker waiting. The run hears of it, and every file is
/// completed.
#[test]
fn a_failure_holds_up_nobody() {
    in_many_orders(|| {
        let run = back_up(2, |written, pack| {
            written.push(pack);
            if written.len() > 1 {
                Err("full")
            } else {
                Ok(())
            }
        });
        assert_eq!(run.failure.take(), Some("full"));
        assert_eq!(lock(&run.contents).len(), FILES.len());
    });
}
