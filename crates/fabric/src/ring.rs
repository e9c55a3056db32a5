//! Memory that a peer writes into and several consumers read from.

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::io;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use crate::FRAME_SHARE;
use crate::sync::{Condvar, Mutex, MutexGuard};

/// The place of the next frame. Sender and receiver follow the same rule, so that neither has to
/// tell the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    pub capacity: u64,
    /// Bytes that were used so far, those left out at the end of the ring among them.
    pub head: u64,
}

impl Cursor {
    /// The start of a frame of `len` bytes: a frame that does not fit before the end of the ring
    /// goes to its beginning.
    pub fn start(&self, len: usize) -> u64 {
        let left = self.capacity - self.head % self.capacity;
        if len as u64 <= left {
            self.head
        } else {
            self.head + left
        }
    }
}

/// A ring, its frames, and how far its consumers are.
pub struct Ring {
    memory: Box<[UnsafeCell<u8>]>,
    state: Mutex<State>,
    arrived: Condvar,
}

// SAFETY: the bytes are only reached through `Vacancy` and `Ring::bytes`. There is one `Vacancy` at
// a time (`State::is_written`), and its bytes are in no frame: `State::room` refuses what is
// between the slowest tail and the head. What hardware writes (`Ring::memory`) is read only after
// the immediate that says it is there.
unsafe impl Sync for Ring {}

struct State {
    cursor: Cursor,
    /// Arrived frames that not all tails have released.
    frames: VecDeque<Frame>,
    /// Number of the first of these frames.
    first: u64,
    /// For each tail, the number of the frame up to which it has released all.
    tails: Vec<u64>,
    /// Up to where all bytes are released.
    released: u64,
    /// Released bytes that the sender has got no credit for yet.
    owed: u64,
    /// Whether there is a [`Vacancy`].
    is_written: bool,
    /// Number of consumers that wait for a frame: waking takes a system call even if none waits.
    waiting: usize,
    /// Why nothing comes any more.
    end: Option<(io::ErrorKind, String)>,
}

/// A frame in the ring, by positions since the beginning of time.
#[derive(Clone, Copy)]
struct Frame {
    start: u64,
    len: usize,
}

impl Ring {
    /// A ring of `capacity` bytes for `tails` consumers.
    ///
    /// # Panics
    /// If one of the two is zero.
    pub fn new(capacity: usize, tails: usize) -> Self {
        assert!(
            capacity > 0 && tails > 0,
            "a ring has bytes, and somebody who reads them"
        );
        // Written once, so that no page is missing when the first frame arrives.
        let memory = (0..capacity).map(|_| UnsafeCell::new(0)).collect();
        Self {
            memory,
            state: Mutex::new(State {
                cursor: Cursor {
                    capacity: capacity as u64,
                    head: 0,
                },
                frames: VecDeque::new(),
                first: 0,
                tails: vec![0; tails],
                released: 0,
                owed: 0,
                is_written: false,
                waiting: 0,
                end: None,
            }),
            arrived: Condvar::new(),
        }
    }

    /// Bytes of the ring.
    pub fn capacity(&self) -> usize {
        self.memory.len()
    }

    /// Number of consumers.
    pub(crate) fn tails(&self) -> usize {
        self.lock().tails.len()
    }

    /// The room for a frame that a peer wants to write at `offset`.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] when this is not where the next frame goes, it is too long,
    /// or it would overtake a tail.
    pub fn vacancy(&self, offset: u64, len: usize) -> io::Result<Vacancy<'_>> {
        let mut state = self.lock();
        let start = state.room(offset, len)?;
        state.is_written = true;
        drop(state);
        let offset = offset as usize;
        let cells = &self.memory[offset..offset + len];
        // SAFETY: the range is within the memory (checked by the slice), no frame that a tail may
        // still read is in it (`State::room`), and no other `Vacancy` exists until this one is
        // dropped (`is_written`). `UnsafeCell<u8>` has the layout of `u8` and permits writing
        // through a shared reference.
        let bytes = unsafe { std::slice::from_raw_parts_mut(cells.as_ptr() as *mut u8, len) };
        Ok(Vacancy {
            ring: self,
            start,
            bytes,
        })
    }

    /// The memory's address, for hardware that writes into it without these functions. As with a
    /// mapped file, the other side has to follow the rule: otherwise bytes change under a reader.
    #[cfg(feature = "libfabric")]
    pub(crate) fn memory(&self) -> *mut u8 {
        self.memory.as_ptr() as *mut u8
    }

    /// Publishes a frame of `len` bytes that a peer has written at the next place.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] when it is too long, or overtakes a tail.
    #[cfg(feature = "libfabric")]
    pub(crate) fn arrived(&self, len: usize) -> io::Result<()> {
        let state = self.lock();
        let offset = state.cursor.start(len) % state.cursor.capacity;
        let start = state.room(offset, len)?;
        self.push(state, Frame { start, len });
        Ok(())
    }

    fn push(&self, mut state: MutexGuard<'_, State>, frame: Frame) {
        state.cursor.head = frame.start + frame.len as u64;
        state.frames.push_back(frame);
        let is_awaited = state.waiting > 0;
        drop(state);
        if is_awaited {
            self.arrived.notify_all();
        }
    }

    /// Ends the ring with this error. Frames that have arrived stay.
    pub fn end(&self, error: &io::Error) {
        let mut state = self.lock();
        state
            .end
            .get_or_insert_with(|| (error.kind(), error.to_string()));
        drop(state);
        self.arrived.notify_all();
    }

    /// The bytes of the frame of this number, once it is there.
    ///
    /// # Errors
    /// Why nothing comes any more; [`io::ErrorKind::TimedOut`] after `patience`.
    ///
    /// # Panics
    /// If this tail has released the frame.
    pub(crate) fn frame(&self, tail: usize, number: u64, patience: Duration) -> io::Result<&[u8]> {
        let deadline = Instant::now() + patience;
        let mut state = self.lock();
        assert!(number >= state.tails[tail], "the frame was released");
        loop {
            let index = (number - state.first) as usize;
            if let Some(frame) = state.frames.get(index) {
                return Ok(self.bytes(*frame));
            }
            if let Some((kind, text)) = &state.end {
                return Err(io::Error::new(*kind, text.clone()));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let text = format!("nothing has arrived for {} s", patience.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            state.waiting += 1;
            let waited = self.arrived.wait_timeout(state, left);
            state = waited.expect("no panic under this lock").0;
            state.waiting -= 1;
        }
    }

    fn bytes(&self, frame: Frame) -> &[u8] {
        let offset = (frame.start % self.capacity() as u64) as usize;
        let cells = &self.memory[offset..offset + frame.len];
        // SAFETY: the range is within the memory. It is of a frame that the calling tail has not
        // released, and `Tail` borrows itself for as long as the bytes are looked at, so it cannot
        // release it meanwhile; until then `State::room` lets nobody write here.
        unsafe { std::slice::from_raw_parts(cells.as_ptr() as *const u8, frame.len) }
    }

    /// Releases, for this tail, all frames before `number`. Returns the bytes of credit to send, or
    /// 0.
    pub(crate) fn release(&self, tail: usize, number: u64) -> u64 {
        let mut state = self.lock();
        let there = state.first + state.frames.len() as u64;
        assert!(
            (state.tails[tail]..=there).contains(&number),
            "only what has arrived is released"
        );
        state.tails[tail] = number;
        let slowest = state.tails.iter().copied().min().unwrap_or(number);
        while state.first < slowest {
            let frame = state.frames.pop_front().expect("it has arrived");
            let end = frame.start + frame.len as u64;
            state.owed += end - state.released;
            state.released = end;
            state.first += 1;
        }
        if state.owed >= state.cursor.capacity / FRAME_SHARE as u64 {
            std::mem::take(&mut state.owed)
        } else {
            0
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic under this lock")
    }
}

impl State {
    /// Checks that a frame may be written, and returns its start.
    fn room(&self, offset: u64, len: usize) -> io::Result<u64> {
        let refuse = |why: &str| {
            let text = format!("a peer writes {len} bytes at {offset} of a ring: {why}");
            Err(io::Error::new(io::ErrorKind::InvalidData, text))
        };
        let capacity = self.cursor.capacity;
        if len as u64 > capacity / FRAME_SHARE as u64 {
            return refuse("a frame is not that long");
        }
        let start = self.cursor.start(len);
        if offset != start % capacity {
            return refuse("the next frame does not go there");
        }
        if start + len as u64 - self.released > capacity {
            return refuse("that is over what has not been read");
        }
        if self.is_written || self.end.is_some() {
            return refuse("the ring is being written to, or closed");
        }
        Ok(start)
    }
}

/// Room for one frame, which consumers see once it is [published](Vacancy::publish).
pub struct Vacancy<'a> {
    ring: &'a Ring,
    start: u64,
    bytes: &'a mut [u8],
}

impl Vacancy<'_> {
    /// Shows the frame to all consumers.
    pub fn publish(self) {
        let frame = Frame {
            start: self.start,
            len: self.bytes.len(),
        };
        self.ring.push(self.ring.lock(), frame);
    }
}

impl Drop for Vacancy<'_> {
    fn drop(&mut self) {
        self.ring.lock().is_written = false;
    }
}

impl Deref for Vacancy<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl DerefMut for Vacancy<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes
    }
}
