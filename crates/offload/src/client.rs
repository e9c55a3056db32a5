//! The side of a process that asks.
//!
//! Nothing here waits for the service to come: a client says hello, goes on alone, and looks with
//! its next messages whether there is an answer. What it has given away it keeps until the result
//! is there, so whatever happens to the service, the client can do it itself.
#![allow(unsafe_code)]

use std::io::{ErrorKind, IoSliceMut, Result};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering,
};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, recvmsg,
};
use rustix::thread::futex;
use rustix::time::{ClockId, Timespec, clock_gettime};
use tabane_lanes::Hasher;
use tabane_lanes::aes::{BLOCK, InOut, Key};

use crate::layout::{
    MESSAGE_MAX, Note, PROGRESS_BYTES, SLOTS, Slot, Task, Want, hello, kind, put, state, take,
};
use crate::memory::ClientPlace;

/// How long a client waits before it looks again for a service that was not there or was no good.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// How long an answer may take. Afterwards the client does the message itself, and leaves the
/// service alone for
/// [`RETRY_DELAY`].
const ANSWER_TIMEOUT: Duration = Duration::from_millis(200);

/// How often a client that waits lets others run before it sleeps. It is asked to come here when
/// there are more processes than cores, so that mostly the unit is among those; and to sleep and be
/// woken costs several times as much.
const YIELDS_BEFORE_SLEEP: u32 = 16;

/// How often a client that waits looks whether the service is still connected.
const LIVENESS_INTERVAL: Duration = Duration::from_millis(10);

/// A process's connection to the service, if there is one: made when it is needed, and made again
/// when it is lost.
///
/// Does without locks and without memory of its own, so that it can be a `static` of a program that
/// forks: see
/// [`Client::forked`].
pub struct Client {
    /// One of [`link`].
    link: AtomicU8,
    /// When to try again, by the clock of [`now_ms`].
    again_ms: AtomicU64,
    socket: AtomicI32,
    /// A [`ClientPlace`], null before the first connection.
    place: AtomicPtr<u8>,
    /// Which slots somebody has.
    claims: [AtomicBool; SLOTS],
    /// What could have been done by the service, in units of
    /// [`Ring::progress`](crate::layout::Ring).
    progress: AtomicU32,
}

/// What a client is to its service.
mod link {
    /// There is none.
    pub(super) const NONE: u8 = 0;
    /// Has said hello.
    pub(super) const WAITING: u8 = 1;
    pub(super) const THERE: u8 = 2;
}

impl Client {
    /// Of no service.
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

    /// Has the service encrypt whole blocks in CBC mode. Returns how many bytes it has done, from
    /// the front: all of them, or fewer, or none, and the rest is up to the caller.
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

    /// Has the service append to a hash. Returns how many bytes it has done, as
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

    /// As many bytes as the service does, one piece after the other. What `piece` is told: the
    /// call, where it begins, its length.
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

    /// Where the service's memory is, if there is one.
    #[inline]
    fn place(&self, service: &Path) -> Option<ClientPlace> {
        if self.link.load(Ordering::Acquire) != link::THERE {
            self.look(service);
            return None;
        }
        // SAFETY: it is only removed where nobody is, in a new process.
        unsafe { ClientPlace::at(self.place.load(Ordering::Acquire)) }
    }

    /// Whether the service says that with it this would be done sooner. Tells it how much there is
    /// to do, whoever does it.
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
    /// The caller has a slot, and there is a connection: the socket is replaced by who has all
    /// slots.
    unsafe fn socket(&self) -> BorrowedFd<'_> {
        // SAFETY: the caller's promise.
        unsafe { BorrowedFd::borrow_raw(self.socket.load(Ordering::Acquire)) }
    }

    /// Looks for the service, or for its answer.
    #[cold]
    fn look(&self, service: &Path) {
        if now_ms() < self.again_ms.load(Ordering::Relaxed) {
            return;
        }
        // All slots, so that nobody else uses the socket or the memory, which are about to be
        // replaced.
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

    /// Who calls has all slots.
    fn say_hello(&self, service: &Path) -> Result<()> {
        close(self.socket.swap(-1, Ordering::AcqRel));
        let socket = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )?;
        let connected = rustix::net::connect(&socket, &SocketAddrUnix::new(service)?);
        // It may have so many that wait: nobody waits for it here.
        connected.map_err(|_| ErrorKind::ConnectionRefused)?;
        rustix::net::send(&socket, &hello(Want::Ring), SendFlags::NOSIGNAL)?;
        // What a program has closed of its standard streams, it takes for these.
        let socket = rustix::io::fcntl_dupfd_cloexec(&socket, 3)?;
        self.socket.store(socket.into_raw_fd(), Ordering::Release);
        Ok(())
    }

    /// Takes the memory that the service sends. Who calls has all slots.
    fn receive(&self) -> Result<()> {
        // SAFETY: who has a slot has the socket.
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
        let there = self.link.compare_exchange(
            link::THERE,
            link::NONE,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        if there.is_ok() {
            self.later();
        }
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
        // SAFETY: the threads that may have used it are not in this process.
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
        // SAFETY: it was ours, and is in no place any more.
        drop(unsafe { OwnedFd::from_raw_fd(socket) });
    }
}

/// A clock that needs no system call.
fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// Takes a slot, if nobody has it.
fn claim(slot: &AtomicBool) -> bool {
    slot.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
        .is_ok()
}

/// A slot that a call has. As long as it does, socket and memory stay what they are.
struct Call<'c> {
    client: &'c Client,
    place: ClientPlace,
    slot: usize,
}

impl<'c> Call<'c> {
    /// A slot that nobody has, if there is one and the service is there.
    fn claim(client: &'c Client, place: ClientPlace) -> Option<Self> {
        let slot = client.claims.iter().position(claim)?;
        let call = Self {
            client,
            place,
            slot,
        };
        (client.link.load(Ordering::Acquire) == link::THERE).then_some(call)
    }

    /// Whether the service has not hung up.
    fn is_connected(&self) -> bool {
        // SAFETY: this has a slot.
        let socket = unsafe { self.client.socket() };
        let mut byte = [0; 1];
        let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        let peeked = rustix::net::recv(socket, &mut byte[..], flags);
        matches!(peeked, Err(Errno::AGAIN | Errno::INTR))
    }

    fn say(&self, note: Note) {
        // SAFETY: this has a slot.
        let socket = unsafe { self.client.socket() };
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        // A full buffer holds earlier notes, for which the service looks at this client anyway.
        let _ = rustix::net::send(socket, &note.to_bytes(), flags);
    }

    fn slot(&self) -> &Slot {
        &self.place.ring().slots[self.slot]
    }

    fn bring(&self, message: &[u8]) {
        // SAFETY: this slot is ours.
        unsafe { self.place.bring(self.slot, message) };
    }

    fn fetch(&self, message: &mut [u8]) {
        // SAFETY: this slot is ours.
        unsafe { self.place.fetch(self.slot, message) };
    }

    /// Has the service do what is in the slot, and waits. False if it did not.
    fn run(&self, task: Task, len: usize) -> bool {
        let Some(number) = task.number() else {
            return false;
        };
        let (board, slot) = (self.place.board(), self.slot());
        let units = board.units.load(Ordering::Relaxed).max(1);
        let unit = (rustix::thread::sched_getcpu() as u32) % units;
        slot.task.store(number as u32, Ordering::Relaxed);
        slot.len.store(len as u32, Ordering::Relaxed);
        slot.unit.store(unit, Ordering::Relaxed);
        // Either the unit sees this before it sleeps, or this sees that it does.
        slot.state.store(state::READY, Ordering::SeqCst);
        if let Some(asleep) = board.asleep.get(unit as usize)
            && asleep.0.load(Ordering::SeqCst) != 0
        {
            self.say(Note::Wake(unit as u8));
        }
        let look = Timespec {
            tv_sec: 0,
            tv_nsec: LIVENESS_INTERVAL.as_nanos() as i64,
        };
        let mut looks = ANSWER_TIMEOUT.as_millis() / LIVENESS_INTERVAL.as_millis();
        let mut turns = 0;
        loop {
            let now = slot.state.load(Ordering::Acquire);
            match now {
                state::READY if turns < YIELDS_BEFORE_SLEEP => {
                    turns += 1;
                    std::thread::yield_now();
                }
                state::READY => {
                    let _ = slot.state.compare_exchange(
                        state::READY,
                        state::ASLEEP,
                        Ordering::AcqRel,
                        Ordering::Relaxed,
                    );
                }
                state::ASLEEP => {
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
        // A service that was given up may still work on the slot, but in memory that nobody asks in
        // again.
        self.client.claims[self.slot].store(false, Ordering::Release);
    }
}
