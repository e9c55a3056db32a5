//! Sources of the store, and what they find of the rest of it: a repository in memory.

#[path = "../../../store/src/access/known_blocks.rs"]
#[allow(dead_code, reason = "some of it is for others")]
pub mod known_blocks;
#[path = "../../../store/src/access/segment_cache.rs"]
#[allow(dead_code, reason = "some of it is for others")]
pub mod segment_cache;
#[path = "../../../store/src/access/uploads.rs"]
pub mod uploads;

pub mod repository {
    use tabane_engine::{Algorithm, Digest};
    use tabane_format::pack::{BlockKind, Codec, PackContents, PackKind, Segment};
    use tabane_format::{Error, Result};
    use tabane_index::Index;
    use tabane_storage::{Id, object_id};

    use crate::sync::{Arc, Mutex, lock, thread};

    pub const HASH: Algorithm = Algorithm::Sha256;

    /// Blocks of each segment.
    const BLOCKS: u8 = 2;

    /// What a pack that has a single segment is in the index.
    pub fn pack(blocks: &[&[u8]]) -> (Id, PackContents) {
        let digests = HASH.digest_many(blocks).into_iter();
        let lens = blocks.iter().map(|block| block.len() as u32);
        let segment = Segment {
            stored_len: 100,
            codec: Codec::Stored,
            blocks: digests.map(Id::from).zip(lens).collect(),
        };
        let contents = PackContents {
            salt: [0; 32],
            kind: PackKind::new(BlockKind::Data, false),
            segments: vec![segment],
        };
        (object_id(blocks), contents)
    }

    /// How the next reads of a segment end.
    #[derive(Clone, Copy, PartialEq)]
    pub enum Fault {
        AllFail,
        NextFails,
        NextPanics,
    }

    /// A pack of two segments, of two blocks each: the blocks are `[0]` to `[3]`.
    #[derive(Clone, Default)]
    pub struct Repository(Arc<Mutex<State>>);

    #[derive(Default)]
    struct State {
        /// How often each segment was read.
        reads: [usize; 2],
        /// How often the index was loaded.
        loads: usize,
        /// How the next reads of the first segment end.
        fault: Option<Fault>,
        /// The index that is loaded first lacks the pack.
        is_index_old: bool,
    }

    pub struct Config {
        pub hash: Algorithm,
    }

    impl Repository {
        pub fn with_old_index() -> Self {
            let repository = Self::default();
            lock(&repository.0).is_index_old = true;
            repository
        }

        pub fn set_fault(&self, fault: Option<Fault>) {
            lock(&self.0).fault = fault;
        }

        pub fn reads(&self) -> [usize; 2] {
            lock(&self.0).reads
        }

        pub fn loads(&self) -> usize {
            lock(&self.0).loads
        }

        pub fn block(number: u8) -> Id {
            HASH.digest(&[number]).into()
        }

        pub fn read(&self, segment: u32) -> Result<Vec<u8>> {
            thread::yield_now();
            let mut state = lock(&self.0);
            state.reads[segment as usize] += 1;
            let fault = state.fault.filter(|_| segment == 0);
            if fault.is_some_and(|fault| fault != Fault::AllFail) {
                state.fault = None;
            }
            drop(state);
            match fault {
                Some(Fault::NextPanics) => panic_in_silence(),
                Some(_) => Err(Error::damaged("a segment", "as the test wants it")),
                None => {
                    let first = segment as u8 * BLOCKS;
                    Ok((first..first + BLOCKS).collect())
                }
            }
        }

        pub fn load_index(&self) -> Result<Index> {
            let mut state = lock(&self.0);
            state.loads += 1;
            let mut index = Index::default();
            if state.loads > usize::from(state.is_index_old) {
                let (id, mut contents) = pack(&[&[0], &[1]]);
                contents.segments.extend(pack(&[&[2], &[3]]).1.segments);
                index.add(id, &contents)?;
            }
            Ok(index)
        }

        pub fn config(&self) -> &'static Config {
            &Config { hash: HASH }
        }

        pub fn is_far(&self) -> bool {
            false
        }

        pub fn is_block(&self, block: &Id, digest: &Digest) -> bool {
            block.0.starts_with(digest.as_ref())
        }
    }

    /// Panics without a message, which would be written for every order.
    pub fn panic_in_silence() -> ! {
        std::panic::resume_unwind(Box::new("a panic on purpose"))
    }
}

pub mod reader {
    use tabane_format::Result;
    use tabane_index::Index;
    use tabane_storage::Id;

    use super::repository::Repository;

    pub struct BlockReader(Repository);

    impl BlockReader {
        pub fn new(repository: &Repository) -> Self {
            Self(repository.clone())
        }

        pub fn read_segment(&mut self, index: &Index, number: u32) -> Result<Vec<u8>> {
            self.0.read(index.segment(number)?.number)
        }

        pub fn read_segments(&mut self, index: &Index, numbers: &[u32]) -> Vec<Result<Vec<u8>>> {
            let read = |&number| self.read_segment(index, number);
            numbers.iter().map(read).collect()
        }

        pub fn append_block(&mut self, _: &Index, _: Id, _: &mut Vec<u8>) -> Result<()> {
            unreachable!("no test has a hash with known collisions")
        }
    }
}
