//! The layout of shared memory, and the messages of the socket.
//!
//! All fields are atomic, since the other side may change them at any time, a client even on
//! purpose.

use tabane_lanes::Algorithm;

use crate::sync::atomic::{AtomicU32, Ordering};

/// The version of everything in this file. Clients of another version work without the service.
pub const VERSION: u32 = 3;

/// The first message of a client: this word and a [`Want`].
pub(crate) const HELLO: [u8; 8] = *b"tabane\0o";

/// Requests in a hello.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Want {
    Ring = 1,
    Status = 2,
}

/// A hello: the word, the version, and the request.
pub(crate) fn hello(want: Want) -> [u8; 13] {
    let mut bytes = [0; 13];
    bytes[..8].copy_from_slice(&HELLO);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12] = want as u8;
    bytes
}

/// Notes of a client with a ring, through its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// The client has work again, after the service had stopped reading its progress.
    AtWork,
    /// The client has a message for this sleeping unit.
    Wake(u8),
}

impl Note {
    /// Encodes the note.
    pub(crate) fn to_bytes(self) -> [u8; 2] {
        match self {
            Self::AtWork => [b'!', 0],
            Self::Wake(unit) => [b'.', unit],
        }
    }

    /// Decodes a note; `None` if invalid.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        match *bytes {
            [b'!', 0] => Some(Self::AtWork),
            [b'.', unit] => Some(Self::Wake(unit)),
            _ => None,
        }
    }
}

/// Messages of one client that can be in the service at a time.
pub(crate) const SLOTS: usize = 4;

/// Bytes of one message at most. A longer one is brought in several.
pub const MESSAGE_MAX: usize = 64 << 10;

/// Bytes of a unit of progress.
pub(crate) const PROGRESS_BYTES: usize = 64;

/// Units at most.
pub(crate) const UNITS_MAX: usize = 64;

/// Bytes of a ring with the messages behind it, and of the board.
pub(crate) const RING_LEN: usize = PAGE + SLOTS * MESSAGE_MAX;
pub(crate) const BOARD_LEN: usize = 2 * PAGE;
pub(crate) const PAGE: usize = 4096;

/// All tasks; their places are their numbers.
pub(crate) const TASKS: [Task; 5] = [
    Task::Encrypt,
    Task::Hash(Algorithm::Md5),
    Task::Hash(Algorithm::Sha1),
    Task::Hash(Algorithm::Sha224),
    Task::Hash(Algorithm::Sha256),
];

/// The work on a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// AES in CBC mode.
    Encrypt,
    /// Whole blocks of a hash, from any state.
    Hash(Algorithm),
}

impl Task {
    /// Number of the task.
    pub(crate) fn number(self) -> Option<usize> {
        TASKS.iter().position(|&task| task == self)
    }

    /// Bytes of a block. A message is whole ones.
    pub(crate) fn block(self) -> usize {
        match self {
            Self::Encrypt => 16,
            Self::Hash(_) => 64,
        }
    }
}

/// A message of a client.
#[repr(C, align(64))]
pub(crate) struct Slot {
    /// One of [`state`].
    pub(crate) state: AtomicU32,
    /// Which unit is asked: that of the core on which the client runs, in whose caches the message
    /// is.
    pub(crate) unit: AtomicU32,
    /// Which of [`TASKS`].
    pub(crate) task: AtomicU32,
    /// Bytes of the message.
    pub(crate) len: AtomicU32,
    /// The state of a hash, or the initialization vector: before the work, and then after it.
    pub(crate) chain: [AtomicU32; 8],
    /// The AES key.
    pub(crate) key: [AtomicU32; 8],
    pub(crate) key_len: AtomicU32,
}

/// States of a slot, 0 at first. A client sets `READY` in any state, and then `ASLEEP`; the service
/// sets the others after these two.
pub(crate) mod state {
    pub(crate) const READY: u32 = 1;
    /// Ready, and the client waits to be woken.
    pub(crate) const ASLEEP: u32 = 2;
    pub(crate) const DONE: u32 = 3;
    pub(crate) const REFUSED: u32 = 4;
}

/// The first page of a client's memory. Its messages follow, one for each slot.
#[repr(C)]
pub(crate) struct Ring {
    /// Written by the client: its work that suits the service, done by either of them, in units of
    /// [`PROGRESS_BYTES`].
    pub(crate) progress: AtomicU32,
    /// Written by the client: the [`kind`] of its latest message.
    pub(crate) kind: AtomicU32,
    /// Set by the service when it stops reading an idle client's progress; cleared by the client,
    /// which then reports that it is at work.
    pub(crate) uncounted: AtomicU32,
    pub(crate) slots: [Slot; SLOTS],
}

const _: () = assert!(size_of::<Ring>() <= PAGE);

/// The kind of a message: its task and the binary logarithm of its length, so that messages of one
/// kind take about as long.
pub(crate) fn kind(task: usize, len: usize) -> u32 {
    (task as u32) << 8 | len.max(1).ilog2()
}

/// Memory that all clients can read and only the service can write.
#[repr(C)]
pub(crate) struct Board {
    /// Number of units.
    pub(crate) units: AtomicU32,
    /// For each of [`TASKS`] the length in bytes from which the service is faster, 0 if it never
    /// is.
    pub(crate) from: [AtomicU32; TASKS.len()],
    /// For each unit 1 while it sleeps: a client with a message for it sends [`Note::Wake`].
    ///
    /// No unit sleeps on this word. A process that has mapped a word, even read-only, can move the
    /// threads that sleep on it to another word (`FUTEX_REQUEUE`), where no call wakes them.
    pub(crate) asleep: [Line; UNITS_MAX],
}

const _: () = assert!(size_of::<Board>() <= BOARD_LEN);

/// A number that shares its cache line with no other.
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) AtomicU32);

/// Reads bytes, four a number, from memory that the other side may be writing.
pub(crate) fn take<const N: usize>(words: &[AtomicU32]) -> [u8; N] {
    let mut bytes = [0; N];
    for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
        *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
    }
    bytes
}

/// Puts bytes, four a number, with zeros behind them.
pub(crate) fn put(words: &[AtomicU32], bytes: &[u8]) {
    let mut pieces = bytes.as_chunks().0.iter();
    for word in words {
        let value = pieces.next().map_or(0, |piece| u32::from_ne_bytes(*piece));
        word.store(value, Ordering::Relaxed);
    }
}
