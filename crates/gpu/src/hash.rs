//! Hashes of many messages.

use std::ops::Range;
use std::sync::Mutex;

use crate::algorithm::Algorithm;
use crate::card::Card;
use crate::error::Error;
use crate::memory::DeviceBuffer;

/// Messages are shorter than this, in bytes: a thread takes about 0.1 GB/s, so that longer ones are
/// the processor's.
pub const MESSAGE_MAX: usize = (1 << LENGTH_BITS) - 1;

/// In the table of messages, bits of a length: `LENGTH_BITS` of `hash.cu`.
const LENGTH_BITS: u32 = 24;

/// Length in bytes up to which neighbours are packed into groups of 32 with combined reads. Longer
/// messages fill whole reads anyway, and are copied faster as a whole.
const INTERLEAVED_MAX: usize = 512;

/// Bytes that a thread reads at a time, and threads that read at the same time: `UNIT` and `GROUP`
/// of `hash.cu`.
const UNIT: usize = 16;
const GROUP: usize = 32;

/// A message to hash, or blocks to add to a state.
struct Job<'a> {
    bytes: &'a [u8],
    state: Option<&'a mut [u32]>,
    /// Number of its result.
    number: usize,
}

/// Messages that lie on a card, with their table there.
pub struct Messages {
    table: DeviceBuffer,
    order: DeviceBuffer,
    count: u32,
    /// All begin at multiples of 16 bytes.
    aligned: bool,
    /// End of the last message.
    end: u64,
}

impl Messages {
    /// Number of messages.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl Card {
    /// The longest message that it takes from the machine's memory, in bytes.
    pub fn message_max(&self) -> usize {
        // A batch of one has a line in the table, a state and a result.
        MESSAGE_MAX.min(self.ring.slot_len() - 256)
    }

    /// The digests of messages in the machine's memory, one after the other, each of
    /// [`Algorithm::digest_len`] bytes.
    ///
    /// Many slots of staging memory are filled at the same time, by threads of this call, if there
    /// are more messages than one takes.
    ///
    /// # Errors
    /// A message is too long, or the card fails.
    pub fn hash_many(&self, algorithm: Algorithm, messages: &[&[u8]]) -> Result<Vec<u8>, Error> {
        let jobs = messages.iter().enumerate().map(|(number, &bytes)| Job {
            bytes,
            state: None,
            number,
        });
        let digest_len = algorithm.digest_len();
        let digests = Mutex::new(vec![0; messages.len() * digest_len]);
        self.run_all(algorithm, jobs.collect(), false, &|batch, results| {
            let mut digests = digests.lock().expect("nothing panics under this lock");
            for (job, digest) in batch.iter().zip(results.chunks_exact(digest_len)) {
                digests[job.number * digest_len..][..digest_len].copy_from_slice(digest);
            }
        })?;
        Ok(digests
            .into_inner()
            .expect("nothing panics under this lock"))
    }

    /// Takes whole blocks of 64 bytes of messages into their states, each of [`Algorithm::words`]
    /// words.
    ///
    /// # Errors
    /// When a part is too long or no multiple of 64 bytes, or the card fails. Some states may have
    /// changed then, so keep copies.
    pub fn advance_many(
        &self,
        algorithm: Algorithm,
        parts: &mut [(&mut [u32], &[u8])],
    ) -> Result<(), Error> {
        let words = algorithm.words();
        if parts
            .iter()
            .any(|(state, blocks)| state.len() != words || blocks.len() % 64 != 0)
        {
            return Err(Error::Misuse("states or blocks have a wrong length"));
        }
        let jobs = parts
            .iter_mut()
            .enumerate()
            .map(|(number, (state, blocks))| Job {
                bytes: blocks,
                state: Some(state),
                number,
            });
        self.run_all(algorithm, jobs.collect(), true, &|batch, results| {
            for (job, bytes) in batch.iter_mut().zip(results.chunks_exact(4 * words)) {
                let state = job.state.as_mut().expect("each has one");
                for (word, bytes) in state.iter_mut().zip(bytes.as_chunks().0) {
                    *word = u32::from_le_bytes(*bytes);
                }
            }
        })
    }

    /// Makes the table of messages that lie on the card, at these ranges of bytes of some buffer.
    ///
    /// # Errors
    /// One is too long or lies too far (beyond 2⁴⁰ bytes), or the card fails.
    pub fn messages(&self, ranges: &[Range<u64>]) -> Result<Messages, Error> {
        let mut sorted: Vec<usize> = (0..ranges.len()).collect();
        let len = |range: &Range<u64>| range.end.saturating_sub(range.start);
        if let Some(range) = ranges.iter().find(|range| len(range) > MESSAGE_MAX as u64) {
            return Err(Error::TooLong(len(range) as usize));
        }
        if ranges
            .iter()
            .any(|range| range.end >> (64 - LENGTH_BITS) != 0)
        {
            return Err(Error::Misuse("a message lies beyond 2^40 bytes"));
        }
        // Threads that run in step should have as much to do.
        sorted.sort_by_key(|&number| std::cmp::Reverse(len(&ranges[number])));
        let entry = |&number: &usize| entry(ranges[number].start, len(&ranges[number]) as usize);
        let table: Vec<u8> = sorted.iter().flat_map(|i| entry(i).to_le_bytes()).collect();
        let order = sorted.iter().map(|&number| number as u32);
        let order: Vec<u8> = order.flat_map(u32::to_le_bytes).collect();
        let count = u32::try_from(ranges.len())
            .map_err(|_| Error::Misuse("more messages than 32 bits can count"))?;
        let mut messages = Messages {
            table: self.allocate(table.len())?,
            order: self.allocate(order.len())?,
            count,
            aligned: ranges.iter().all(|range| range.start % UNIT as u64 == 0),
            end: ranges.iter().map(|range| range.end).max().unwrap_or(0),
        };
        messages.table.write(&table)?;
        messages.order.write(&order)?;
        Ok(messages)
    }

    /// The digests of messages that lie in `data` on the card, one after the other in the order of
    /// `messages`, to `digests` on the card. Nothing is copied.
    ///
    /// # Errors
    /// The messages do not lie in `data`, the digests do not go into `digests`, something is of
    /// another card, or the card fails.
    pub fn hash_on_card(
        &self,
        algorithm: Algorithm,
        data: &DeviceBuffer,
        messages: &Messages,
        digests: &mut DeviceBuffer,
    ) -> Result<(), Error> {
        if messages.end > data.len() as u64 {
            return Err(Error::Misuse("a message ends behind the data"));
        }
        if digests.len() < messages.len() * algorithm.digest_len() {
            return Err(Error::Misuse("the digests need more room"));
        }
        let cores = [data, &messages.table, &messages.order, digests].map(DeviceBuffer::core);
        if cores
            .iter()
            .any(|core| !std::sync::Arc::ptr_eq(core, &self.core))
        {
            return Err(Error::Misuse("a buffer is of another card"));
        }
        if messages.is_empty() {
            return Ok(());
        }
        let kernel = self.hash_kernels.of(algorithm, messages.aligned);
        let (data, table) = (data.address(), messages.table.address());
        let (order, results) = (messages.order.address(), digests.address());
        self.core.on_stream(|core, stream| {
            let blocks = messages.count.div_ceil(kernel.threads);
            let count = messages.count;
            // SAFETY: the arguments of the kernel. The table leads nowhere but into the data, the
            // order is a permutation, and the results have their room, all as checked. `on_stream`
            // waits.
            unsafe {
                kernel.launch(
                    core,
                    stream,
                    blocks,
                    [&data, &table, &count, &0_u32, &0_u64, &order, &results],
                )
            }
        })
    }

    /// Cuts the jobs into batches that fit a slot, and runs them, several at a time; `keep` gets
    /// each batch with its results.
    fn run_all(
        &self,
        algorithm: Algorithm,
        mut jobs: Vec<Job>,
        with_states: bool,
        keep: &(impl Fn(&mut [Job], &[u8]) + Sync),
    ) -> Result<(), Error> {
        // Threads that run in step should have as much to do.
        jobs.sort_by_key(|job| std::cmp::Reverse(job.bytes.len()));
        let room = self.ring.slot_len();
        let mut batches: Vec<&mut [Job]> = Vec::new();
        let mut rest = &mut jobs[..];
        while !rest.is_empty() {
            let mut layout = Layout::new(algorithm, with_states);
            let fits = rest
                .iter()
                .take_while(|job| layout.add(job.bytes.len()) <= room)
                .count();
            if fits == 0 || rest[0].bytes.len() > MESSAGE_MAX {
                return Err(Error::TooLong(rest[0].bytes.len()));
            }
            let (batch, later) = rest.split_at_mut(fits);
            batches.push(batch);
            rest = later;
        }
        self.ring.run_all(batches, |batch| {
            self.run(algorithm, batch, with_states, keep)
        })
    }

    /// Runs one batch, whose messages are sorted from the longest to the shortest.
    fn run(
        &self,
        algorithm: Algorithm,
        batch: &mut [Job],
        with_states: bool,
        keep: &impl Fn(&mut [Job], &[u8]),
    ) -> Result<(), Error> {
        let mut layout = Layout::new(algorithm, with_states);
        for job in &*batch {
            layout.add(job.bytes.len());
        }
        let kernel = self.hash_kernels.of(algorithm, true);
        let count = batch.len() as u32;
        self.ring.with_slot(|slot| {
            layout.pack(batch, slot.host.bytes());
            slot.run(
                &self.core,
                layout.results(),
                layout.result_range(),
                |stream, base| {
                    let states = if with_states {
                        base + layout.states() as u64
                    } else {
                        0
                    };
                    let (table, results) =
                        (base + layout.table() as u64, base + layout.results() as u64);
                    let blocks = count.div_ceil(kernel.threads);
                    let interleaved = INTERLEAVED_MAX as u32;
                    // SAFETY: the arguments of the kernel; `Layout` gives each its place in the
                    // slot, and the table leads to the data that `pack` has put there.
                    unsafe {
                        kernel.launch(
                            &self.core,
                            stream,
                            blocks,
                            [
                                &base,
                                &table,
                                &count,
                                &interleaved,
                                &states,
                                &0_u64,
                                &results,
                            ],
                        )
                    }
                },
            )?;
            keep(batch, &slot.host.bytes()[layout.result_range()]);
            Ok(())
        })
    }
}

/// A line of the table.
fn entry(start: u64, len: usize) -> u64 {
    start << LENGTH_BITS | len as u64
}

/// Layout of a batch in a slot: data, table, states if any, results.
struct Layout {
    words: usize,
    with_states: bool,
    /// Bytes of messages, packed.
    data: usize,
    count: usize,
    /// Start of the last group, and its number of messages; 0 if it is full.
    group: usize,
    grouped: usize,
}

impl Layout {
    fn new(algorithm: Algorithm, with_states: bool) -> Self {
        Self {
            words: algorithm.words(),
            with_states,
            data: 0,
            count: 0,
            group: 0,
            grouped: 0,
        }
    }

    /// Adds a message that is no longer than those before; returns how much room all take then.
    fn add(&mut self, len: usize) -> usize {
        self.place(len);
        self.result_range().end
    }

    /// Places a message, no longer than those before, and returns its offset.
    fn place(&mut self, len: usize) -> usize {
        self.count += 1;
        let padded = len.next_multiple_of(UNIT);
        if len > INTERLEAVED_MAX {
            self.data += padded;
            return self.data - padded;
        }
        if self.grouped == 0 {
            self.group = self.data;
            self.data += GROUP * padded;
        }
        let place = self.group + self.grouped * UNIT;
        self.grouped = (self.grouped + 1) % GROUP;
        place
    }

    fn table(&self) -> usize {
        self.data
    }

    fn states(&self) -> usize {
        self.table() + 8 * self.count
    }

    fn results(&self) -> usize {
        let states = if self.with_states {
            4 * self.words * self.count
        } else {
            0
        };
        (self.states() + states).next_multiple_of(UNIT)
    }

    fn result_range(&self) -> Range<usize> {
        self.results()..self.results() + 4 * self.words * self.count
    }

    /// Writes messages, table and states.
    fn pack(&self, batch: &[Job], slot: &mut [u8]) {
        let mut places = Self {
            data: 0,
            count: 0,
            grouped: 0,
            ..*self
        };
        for (i, job) in batch.iter().enumerate() {
            let len = job.bytes.len();
            let place = places.place(len);
            if len > INTERLEAVED_MAX {
                slot[place..place + len].copy_from_slice(job.bytes);
            } else {
                for (k, unit) in job.bytes.chunks(UNIT).enumerate() {
                    slot[place + k * GROUP * UNIT..][..unit.len()].copy_from_slice(unit);
                }
            }
            let line = entry(place as u64, len).to_le_bytes();
            slot[self.table() + 8 * i..][..8].copy_from_slice(&line);
            if let Some(state) = &job.state {
                let to = &mut slot[self.states() + 4 * self.words * i..][..4 * self.words];
                for (bytes, word) in to.as_chunks_mut().0.iter_mut().zip(&**state) {
                    *bytes = word.to_le_bytes();
                }
            }
        }
    }
}
