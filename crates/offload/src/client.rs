//! The client's side of the service.
//!
//! A client never waits for the service to start: it greets, works alone, and looks for an answer
//! at its next messages. It keeps each message until the result has arrived, so that it can do the
//! work itself whatever happens to the service.
#![allow(unsafe_code)]

use std::io::{ErrorKind, IoSliceMut, Result};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::path::Path;
use std::ptr;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, recvmsg,
};
use rustix::time::{ClockId, Timespec};
use tabane_lanes::Hasher;
use tabane_lanes::aes::{BLOCK, InOut, Key};

use crate::layout::{
    MESSAGE_MAX, Note, PROGRESS_BYTES, SLOTS, Slot, Task, Want, hello, kind, put, state, take,
};
use crate::memory::ClientPlace;
use crate::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering,
};
use crate::sync::{clock_gettime, futex, sched_getcpu, send, thread};

/// Time before a client tries again to reach a missing or failing service.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Time limit of an answer. Afterwards the client does the work itself, and avoids the service for
/// [`RETRY_DELAY`].
const ANSWER_TIMEOUT: Duration = Duration::from_millis(200);

/// Number of times a waiting client yields before it sleeps. Clients come here when there are more
/// processes than cores, so that a yield mostly lets the unit run; sleeping and waking cost several
/// times as much.
const YIELDS_BEFORE_SLEEP: u32 = 16;

/// Interval at which a waiting client checks that the service is still connected.
const LIVENESS_INTERVAL: Duration = Duration::from_millis(10);

/// A process's connection to the service: made when first needed, and made again when lost.
///
/// Holds no lock and no heap memory, so that it can be a `static` of a program that forks: see
/// [`Client::forked`].
pub struct Client {
    /// One of [`link`].
    link: AtomicU8,
    /// Time of the next attempt to connect, by the clock of [`now_ms`].
    again_ms: AtomicU64,
    socket: AtomicI32,
    /// A [`ClientPlace`], null before the first connection.
    place: AtomicPtr<u8>,
    /// Slots that a call holds.
    claims: [AtomicBool; SLOTS],
    /// Work that suits the service, done by it or not, in units of
    /// [`Ring::progress`](crate::layout::Ring).
    progress: AtomicU32,
}

/// States of the connection to the service.
mod link {
    /// Not connected.
    pub(super) const NONE: u8 = 0;
    /// The client has greeted the service and waits for its answer.
    pub(super) const WAITING: u8 = 1;
    pub(super) const THERE: u8 = 2;
}

impl Client {
    /// A client without a connection.
    pub const fn new() -> Self {
        Self {
            link: AtomicU8::new(link::NONE),
            again_ms: AtomicU64::new(0),
            socket: AtomicI32::new(-1),
            place: AtomicPtr::new(ptr::null_mut()),
            claims: [const { AtomicBool::new(false) }; SLOTS],
            progress: AtomicU32::new(0),
        }
    }

    /// Has the service encrypt whole blocks in CBC mode. Returns the number of bytes encrypted from
    /// the front, possibly 0; the caller encrypts the rest.
    pub fn cbc_encrypt(
        &self,
        service: &Path,
        key: &Key,
        iv: &mut [u8; BLOCK],
        data: &mut InOut,
    ) -> usize {
        self.in_pieces(service, Task::Encrypt, data.len(), |call, at, len| {
            let piece = at..at + len;
            call.bring(&data.source()[piece.clone()]);
            put(&call.slot().key, key.as_bytes());
            let key_len = key.as_bytes().len() as u32;
            call.slot().key_len.store(key_len, Ordering::Relaxed);
            put(&call.slot().chain, iv);
            let done = call.run(Task::Encrypt, len);
            if done {
                call.fetch(&mut data.destination()[piece]);
                *iv = take(&call.slot().chain);
            }
            done
        })
    }

    /// Has the service append to a hash. Returns the number of bytes hashed, as
    /// [`Client::cbc_encrypt`].
    pub fn update(&self, service: &Path, hasher: &mut Hasher, data: &[u8]) -> usize {
        let task = Task::Hash(hasher.algorithm());
        if hasher.filled() != 0 {
            return 0;
        }
        let whole = data.len() / task.block() * task.block();
        self.in_pieces(service, task, whole, |call, at, len| {
            let Some(words) = hasher.state() else {
                return false;
            };
            call.bring(&data[at..at + len]);
            for (place, word) in call.slot().chain.iter().zip(words) {
                place.store(word, Ordering::Relaxed);
            }
            let done = call.run(task, len);
            if done {
                let words = call.slot().chain.each_ref();
                hasher.go_on(words.map(|word| word.load(Ordering::Relaxed)), len as u64);
            }
            done
        })
    }

    /// Hands pieces to the service until one fails; returns the bytes done. `piece` gets the call,
    /// the offset and the length of a piece.
    fn in_pieces(
        &self,
        service: &Path,
        task: Task,
        len: usize,
        mut piece: impl FnMut(&Call, usize, usize) -> bool,
    ) -> usize {
        let Some(place) = self.place(service) else {
            return 0;
        };
        if !self.is_sooner(place, task, len) {
            return 0;
        }
        let mut done = 0;
        while done < len {
            let piece_len = (len - done).min(MESSAGE_MAX);
            let Some(call) = Call::claim(self, place) else {
                break;
            };
            if !piece(&call, done, piece_len) {
                break;
            }
            done += piece_len;
        }
        done
    }

    /// The memory shared with the service, if connected.
    #[inline]
    fn place(&self, service: &Path) -> Option<ClientPlace> {
        if self.link.load(Ordering::Acquire) != link::THERE {
            self.look(service);
            return None;
        }
        // SAFETY: only `forked` unmaps the memory, in a child whose only thread is in no call.
        unsafe { ClientPlace::at(self.place.load(Ordering::Acquire)) }
    }

    /// Whether the service would do this work sooner, by its own published bound. Reports the work
    /// to the service in any case.
    fn is_sooner(&self, place: ClientPlace, task: Task, len: usize) -> bool {
        let Some(task) = task.number() else {
            return false;
        };
        let (board, ring) = (place.board(), place.ring());
        ring.kind.store(kind(task, len), Ordering::Relaxed);
        let this = (len / PROGRESS_BYTES + 1) as u32;
        let before = self.progress.fetch_add(this, Ordering::Relaxed);
        let now = before.wrapping_add(this);
        ring.progress.store(now, Ordering::Relaxed);
        if ring.uncounted.load(Ordering::Relaxed) != 0
            && let Some(call) = Call::claim(self, place)
        {
            ring.uncounted.store(0, Ordering::Relaxed);
            call.say(Note::AtWork);
        }
        let from = board.from[task].load(Ordering::Relaxed) as usize;
        from != 0 && len >= from
    }

    /// The socket of a connection.
    ///
    /// # Safety
    ///
    /// The caller holds a slot of an open connection: only a thread that holds all slots replaces
    /// the socket.
    unsafe fn socket(&self) -> BorrowedFd<'_> {
        // SAFETY: the caller's promise.
        unsafe { BorrowedFd::borrow_raw(self.socket.load(Ordering::Acquire)) }
    }

    /// Connects to the service, or reads its answer.
    #[cold]
    fn look(&self, service: &Path) {
        if now_ms() < self.again_ms.load(Ordering::Relaxed) {
            return;
        }
        // Takes all slots, so that no other call uses the socket or the memory, which are about to
        // be replaced.
        let claimed = self.claims.iter().take_while(|slot| claim(slot)).count();
        if claimed == SLOTS {
            let step = match self.link.load(Ordering::Relaxed) {
                link::NONE => self.say_hello(service).map(|()| link::WAITING),
                link::WAITING => self.receive().map(|()| link::THERE),
                there => Ok(there),
            };
            match step {
                Ok(next) => self.link.store(next, Ordering::Release),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => {
                    self.link.store(link::NONE, Ordering::Release);
                    self.later();
                }
            }
        }
        for slot in &self.claims[..claimed] {
            slot.store(false, Ordering::Release);
        }
    }

    fn later(&self) {
        let again_ms = now_ms() + RETRY_DELAY.as_millis() as u64;
        self.again_ms.store(again_ms, Ordering::Relaxed);
    }

    /// Connects and greets the service. The caller holds all slots.
    fn say_hello(&self, service: &Path) -> Result<()> {
        close(self.socket.swap(-1, Ordering::AcqRel));
        let socket = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )?;
        let connected = rustix::net::connect(&socket, &SocketAddrUnix::new(service)?);
        // The service's queue may be full: then the client does not wait.
        connected.map_err(|_| ErrorKind::ConnectionRefused)?;
        rustix::net::send(&socket, &hello(Want::Ring), SendFlags::NOSIGNAL)?;
        // A number above 2: a program that closed its standard streams would take the socket for
        // one of them.
        let socket = rustix::io::fcntl_dupfd_cloexec(&socket, 3)?;
        self.socket.store(socket.into_raw_fd(), Ordering::Release);
        Ok(())
    }

    /// Maps the memory that the service sends. The caller holds all slots.
    fn receive(&self) -> Result<()> {
        // SAFETY: the caller holds all slots, so nobody replaces the socket.
        let socket = unsafe { self.socket() };
        let mut word = [0; 8];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut word)],
            &mut control,
            RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC,
        )?;
        let memories = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        let mut memories = memories.into_iter().flatten();
        let (Some(board), Some(ring)) = (memories.next(), memories.next()) else {
            return Err(ErrorKind::UnexpectedEof.into());
        };
        if received.bytes != 4 || word[..4] != crate::VERSION.to_le_bytes() {
            return Err(ErrorKind::Unsupported.into());
        }
        let place = match self.place.load(Ordering::Acquire) {
            address if address.is_null() => {
                let place = ClientPlace::new()?;
                self.place.store(place.address(), Ordering::Release);
                place
            }
            // SAFETY: as `place`.
            address => unsafe { ClientPlace::at(address) }.expect("not null"),
        };
        // SAFETY: the caller has all slots.
        unsafe { place.put(board.as_fd(), ring.as_fd()) }
    }

    /// The service is gone, or is no good.
    fn lost(&self) {
        // First, so that no other thread connects again at once.
        self.later();
        let _ = self.link.compare_exchange(
            link::THERE,
            link::NONE,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
    }

    /// The memory of a client that is connected.
    #[cfg(test)]
    pub(crate) fn place_for_tests(&self) -> ClientPlace {
        // SAFETY: as `place`.
        unsafe { ClientPlace::at(self.place.load(Ordering::Acquire)) }.expect("connected")
    }

    #[cfg(test)]
    pub(crate) fn say_for_tests(&self, note: Note) {
        Call::claim(self, self.place_for_tests())
            .expect("connected")
            .say(note);
    }

    /// Forgets the connection of the parent, in a child that was forked. Only makes calls that are
    /// allowed in a signal handler.
    pub fn forked(&self) {
        close(self.socket.swap(-1, Ordering::Relaxed));
        self.link.store(link::NONE, Ordering::Relaxed);
        self.again_ms.store(0, Ordering::Relaxed);
        for slot in &self.claims {
            slot.store(false, Ordering::Relaxed);
        }
        let place = self.place.swap(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: the threads that used the memory belong to the parent, not to this process.
        unsafe {
            if let Some(place) = ClientPlace::at(place) {
                place.remove();
            }
        }
    }
}

impl Default for Client {
    fn default() -> Self {
        Self::new()
    }
}

fn close(socket: i32) {
    if socket >= 0 {
        // SAFETY: `socket` was open and was taken out of its place, so nobody else closes it.
        drop(unsafe { OwnedFd::from_raw_fd(socket) });
    }
}

/// A clock that needs no system call.
fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// Takes a slot if it is free.
fn claim(slot: &AtomicBool) -> bool {
    slot.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
        .is_ok()
}

/// A slot held by a call, which keeps socket and memory in place.
struct Call<'c> {
    client: &'c Client,
    place: ClientPlace,
    slot: usize,
}

impl<'c> Call<'c> {
    /// Takes a free slot, if there is one and the service is connected.
    fn claim(client: &'c Client, place: ClientPlace) -> Option<Self> {
        let slot = client.claims.iter().position(claim)?;
        let call = Self {
            client,
            place,
            slot,
        };
        (client.link.load(Ordering::Acquire) == link::THERE).then_some(call)
    }

    /// Whether the service is still connected.
    fn is_connected(&self) -> bool {
        // SAFETY: this call holds a slot.
        let socket = unsafe { self.client.socket() };
        let mut byte = [0; 1];
        let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        let peeked = rustix::net::recv(socket, &mut byte[..], flags);
        matches!(peeked, Err(Errno::AGAIN | Errno::INTR))
    }

    fn say(&self, note: Note) {
        // SAFETY: this call holds a slot.
        let socket = unsafe { self.client.socket() };
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        // A full buffer holds earlier notes, for which the service looks at this client anyway.
        let _ = send(socket, &note.to_bytes(), flags);
    }

    fn slot(&self) -> &Slot {
        &self.place.ring().slots[self.slot]
    }

    fn bring(&self, message: &[u8]) {
        // SAFETY: this call holds the slot.
        unsafe { self.place.bring(self.slot, message) };
    }

    fn fetch(&self, message: &mut [u8]) {
        // SAFETY: this call holds the slot.
        unsafe { self.place.fetch(self.slot, message) };
    }

    /// Lets the service work on the slot and waits; false if it did not do the work.
    fn run(&self, task: Task, len: usize) -> bool {
        let Some(number) = task.number() else {
            return false;
        };
        let (board, slot) = (self.place.board(), self.slot());
        let units = board.units.load(Ordering::Relaxed).max(1);
        let unit = (sched_getcpu() as u32) % units;
        slot.task.store(number as u32, Ordering::Relaxed);
        slot.len.store(len as u32, Ordering::Relaxed);
        // A unit that finds itself asked sees that the message before was answered.
        // model: offload/client/ask
        slot.unit.store(unit, Ordering::Release);
        // Either the unit sees this before it sleeps, or this sees that it does.
        // model: offload/client/put
        slot.state.store(state::READY, Ordering::SeqCst);
        // model: offload/client/look-at-unit
        if let Some(asleep) = board.asleep.get(unit as usize)
            && asleep.0.load(Ordering::SeqCst) != 0
        {
            // model: offload/client/say
            self.say(Note::Wake(unit as u8));
        }
        let look = Timespec {
            tv_sec: 0,
            tv_nsec: LIVENESS_INTERVAL.as_nanos() as i64,
        };
        let mut looks = ANSWER_TIMEOUT.as_millis() / LIVENESS_INTERVAL.as_millis();
        let mut turns = 0;
        loop {
            // model: offload/client/wait
            let now = slot.state.load(Ordering::Acquire);
            match now {
                state::READY if turns < YIELDS_BEFORE_SLEEP => {
                    turns += 1;
                    thread::yield_now();
                }
                state::READY => {
                    // model: offload/client/say-it-waits
                    let _ = slot.state.compare_exchange(
                        state::READY,
                        state::ASLEEP,
                        Ordering::AcqRel,
                        Ordering::Relaxed,
                    );
                }
                state::ASLEEP => {
                    // model: offload/client/sleep
                    let waited = futex::wait(
                        &slot.state,
                        futex::Flags::empty(),
                        state::ASLEEP,
                        Some(&look),
                    );
                    match waited {
                        Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                        Err(error) => {
                            looks -= 1;
                            // A sandbox may forbid to sleep.
                            let late = looks == 0 || error != Errno::TIMEDOUT;
                            if late || !self.is_connected() {
                                self.client.lost();
                                return false;
                            }
                        }
                    }
                }
                state::DONE => return true,
                _ => return false,
            }
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        // A service that was given up may still work on the slot, but in memory that no call uses
        // again.
        self.client.claims[self.slot].store(false, Ordering::Release);
    }
}
