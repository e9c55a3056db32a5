//! The offload service: its units and a client of it, over memory that the system maps, beside a
//! client that writes anything into its own.

use std::collections::HashMap;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use shuttle::sync::Arc;
use shuttle::thread::{self, JoinHandle, Thread};
use tabane_lanes::aes::{self, InOut, Key};
use tabane_lanes::{Algorithm, Hasher, hash_one};

use crate::client::Client;
use crate::in_orders_with_changes;
use crate::layout::{
    BOARD_LEN, MESSAGE_MAX, Note, RING_LEN, Ring, SLOTS, VERSION, Want, hello, state,
};
use crate::memory::{ServerBoard, ServerRing};
use crate::sync::atomic::Ordering;
use crate::unit::{self, Served};
use crate::words::{self, What, any};

/// What the sources find of the server.
pub mod server {
    use std::time::Duration;

    use crate::memory::ServerBoard;
    use crate::sync::atomic::{AtomicBool, AtomicU64};
    use crate::sync::{Arc, Mutex, MutexGuard, lock};
    use crate::unit::{Served, Work};

    pub struct Shared {
        pub board: ServerBoard,
        pub cores: Vec<usize>,
        pub work: Vec<Work>,
        pub clients: Mutex<Vec<Arc<Served>>>,
        pub version: AtomicU64,
        pub stopped: AtomicBool,
    }

    impl Shared {
        pub fn clients(&self) -> MutexGuard<'_, Vec<Arc<Served>>> {
            lock(&self.clients)
        }

        pub fn took(&self, _: Duration, _: u64) {}
    }
}

use server::Shared;

/// Units of the service. The numbers of their threads are 1 and 2.
pub const UNITS: usize = 2;

/// Messages of each thread that keeps to the protocol.
pub const MESSAGES: u32 = 3;

/// Whole blocks of every hash and cipher.
const MESSAGE_BYTES: usize = 64;

/// Threads that look a few times before they sleep give way often: more changes of thread are
/// needed to meet a rare order.
pub const CHANGES: usize = 30;

/// Yields between two messages are fewer than these.
const PAUSE_YIELDS: u32 = 32;

/// What a hostile client does before it ends.
const DEEDS: u32 = 12;

/// A socket of the service that waits for clients.
struct Door {
    dir: tempfile::TempDir,
    listener: OwnedFd,
}

impl Door {
    fn path(&self) -> PathBuf {
        self.dir.path().join("offload.sock")
    }

    fn open() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let flags = SocketFlags::CLOEXEC;
        let family = AddressFamily::UNIX;
        let listener = rustix::net::socket_with(family, SocketType::SEQPACKET, flags, None);
        let listener = listener.expect("a socket");
        let door = Self { dir, listener };
        let address = SocketAddrUnix::new(door.path()).expect("a short path");
        rustix::net::bind(&door.listener, &address).expect("a new path");
        rustix::net::listen(&door.listener, 1).expect("a bound socket");
        door
    }
}

thread_local! {
    /// One is enough for all orders of a test.
    static DOOR: Door = Door::open();
    /// The units of this order.
    static UNIT_THREADS: std::cell::RefCell<Vec<Thread>> = Default::default();
}

/// The client's note is heard at once.
pub fn send(_: BorrowedFd, note: &[u8], _: SendFlags) -> rustix::io::Result<usize> {
    if let Note::Wake(unit) = Note::from_bytes(note).expect("a note") {
        let unit = UNIT_THREADS.with_borrow(|units| units.get(usize::from(unit)).cloned());
        if let Some(unit) = unit {
            words::call(&unit);
        }
    }
    Ok(note.len())
}

/// Threads move from one core to another all the time.
pub fn sched_getcpu() -> usize {
    any(UNITS as u32) as usize
}

/// The service, and the sockets of its clients.
pub struct Service {
    pub shared: Arc<Shared>,
    sockets: Vec<OwnedFd>,
    units: Vec<JoinHandle<()>>,
}

impl Service {
    fn new() -> Self {
        words::begin();
        UNIT_THREADS.take();
        let board = ServerBoard::new().expect("memory");
        board.get().units.store(UNITS as u32, Ordering::Relaxed);
        for from in &board.get().from {
            from.store(1, Ordering::Relaxed);
        }
        let shared = Shared {
            board,
            // There are none, so that the threads of tests are pinned to none.
            cores: vec![1023; UNITS],
            work: (0..UNITS).map(|_| Default::default()).collect(),
            clients: Default::default(),
            version: Default::default(),
            stopped: Default::default(),
        };
        Self {
            shared: Arc::new(shared),
            sockets: Vec::new(),
            units: Vec::new(),
        }
    }

    /// Gives a client its ring.
    fn admit(&mut self, ring: ServerRing) -> Arc<Served> {
        let served = Arc::new(Served::new(ring));
        self.shared.clients().push(Arc::clone(&served));
        self.shared.version.fetch_add(1, Ordering::Release);
        served
    }

    /// A client, and how the service knows it.
    fn connect(&mut self) -> (Arc<Client>, Arc<Served>) {
        let client = Arc::new(Client::new());
        assert_eq!(hash(&client, 0), 0, "it greets");
        let socket = DOOR.with(|door| rustix::net::accept(&door.listener));
        let socket = socket.expect("it has connected");
        let mut greeting = [0; 16];
        let (_, len) = rustix::net::recv(&socket, &mut greeting[..], RecvFlags::empty())
            .expect("it has greeted");
        assert_eq!(greeting[..len], hello(Want::Ring));
        let (ring, memory) = ServerRing::new().expect("memory");
        let served = self.admit(ring);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let memories = [self.shared.board.memory(), memory.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&memories));
        let version = VERSION.to_le_bytes();
        let sent = rustix::net::sendmsg(
            &socket,
            &[IoSlice::new(&version)],
            &mut control,
            SendFlags::empty(),
        );
        sent.expect("it waits for that");
        self.sockets.push(socket);
        assert_eq!(hash(&client, 0), 0, "it hears the answer");
        let place = client.place_for_tests();
        for (first, second, len) in [
            (
                address(self.shared.board.get()),
                address(place.board()),
                BOARD_LEN,
            ),
            (address(served.ring.get()), address(place.ring()), RING_LEN),
        ] {
            words::is_also_at(first, second, len);
        }
        (client, served)
    }

    /// Starts the units.
    fn start(&mut self) {
        for number in 0..UNITS {
            let shared = Arc::clone(&self.shared);
            let unit = thread::spawn(move || unit::run(&shared, number));
            UNIT_THREADS.with_borrow_mut(|units| units.push(unit.thread().clone()));
            self.units.push(unit);
        }
    }

    /// Ends it, and looks whether its counts agree.
    fn stop(self) {
        words::watch_no_more();
        self.shared.stopped.store(true, Ordering::SeqCst);
        for unit in self.units {
            words::call(unit.thread());
            unit.join().expect("it ends");
        }
        let work = self.shared.work.iter();
        let counts = work.map(|work| [&work.bundles, &work.messages, &work.bytes].map(number));
        let done = counts.reduce(|a, b| [a[0] + b[0], a[1] + b[1], a[2] + b[2]]);
        let [bundles, messages, bytes] = done.expect("units");
        let clients = self.shared.clients();
        let counts = clients.iter();
        let counts = counts.map(|client| [&client.messages, &client.bytes].map(number));
        let counts = counts.reduce(|a, b| [a[0] + b[0], a[1] + b[1]]);
        assert_eq!(counts, Some([messages, bytes]));
        assert!(bundles <= messages && (bundles > 0 || messages == 0));
    }
}

fn number(count: &crate::sync::atomic::AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

pub fn address<T>(of: &T) -> usize {
    std::ptr::from_ref(of).addr()
}

/// Has a message hashed, and compares. Returns how many bytes the service did.
fn hash(client: &Client, seed: u32) -> usize {
    let message = [seed as u8; MESSAGE_BYTES];
    let algorithm = [Algorithm::Md5, Algorithm::Sha256][seed as usize % 2];
    let mut hasher = Hasher::new(algorithm);
    let hashed = DOOR.with(|door| client.update(&door.path(), &mut hasher, &message));
    hasher.update(&message[hashed..]);
    assert_eq!(hasher.finish(), hash_one(algorithm, &message), "a hash");
    hashed
}

/// As [`hash`], with a cipher.
fn encrypt(client: &Client, seed: u32) -> usize {
    let key = Key::new(&[seed as u8; 16]).expect("16 bytes");
    let (mut iv, mut expected_iv) = ([seed as u8; 16], [seed as u8; 16]);
    let (mut bytes, mut expected) = ([1; MESSAGE_BYTES], [1; MESSAGE_BYTES]);
    aes::cbc_encrypt(&key, &mut expected_iv, &mut expected[..]).expect("whole blocks");
    let mut data = InOut::from(&mut bytes[..]);
    let done = DOOR.with(|door| client.cbc_encrypt(&door.path(), &key, &mut iv, &mut data));
    aes::cbc_encrypt(&key, &mut iv, &mut bytes[done..]).expect("whole blocks");
    assert!(bytes == expected && iv == expected_iv, "a ciphertext");
    done
}

/// What keeps to the protocol: messages one after the other, or so long apart that units fall
/// asleep in between. Returns how many bytes the service did.
fn ask(client: &Client, seed: u32) -> usize {
    let messages = seed..seed + MESSAGES;
    let is_slow = any(2) == 0;
    let done = messages.map(|seed| {
        if is_slow {
            (0..any(PAUSE_YIELDS)).for_each(|_| thread::yield_now());
        }
        match any(2) {
            0 => hash(client, seed),
            _ => encrypt(client, seed),
        }
    });
    done.sum()
}

/// What does not: anything in the first `slots` slots, calls for every unit, and whoever sleeps on
/// memory that it can name is moved away.
fn harm(shared: &Shared, ring: &Ring, slots: u32) {
    let lens = [0, 1, 16, MESSAGE_BYTES, MESSAGE_MAX, MESSAGE_MAX + 64];
    for _ in 0..DEEDS {
        let slot = &ring.slots[any(slots) as usize];
        match any(12) {
            0 => slot.task.store(any(7), Ordering::Relaxed),
            1 => slot
                .len
                .store(lens[any(6) as usize] as u32, Ordering::Relaxed),
            2 => slot.key_len.store(any(64), Ordering::Relaxed),
            3 => slot.chain[any(8) as usize].store(any(9), Ordering::Relaxed),
            4 => slot.key[any(8) as usize].store(any(9), Ordering::Relaxed),
            5 => slot.unit.store(any(4), Ordering::Relaxed),
            6 => {
                words::futex::lose(memory(shared.board.get(), BOARD_LEN));
                words::futex::lose(memory(ring, RING_LEN));
            }
            7 | 8 => {
                let note = Note::Wake(any(3) as u8).to_bytes();
                DOOR.with(|door| send(door.listener.as_fd(), &note, SendFlags::empty()))
                    .expect("it is heard");
            }
            9 => slot.state.store(any(6), Ordering::SeqCst),
            // What makes sense.
            _ => {
                slot.len.store(MESSAGE_BYTES as u32, Ordering::Relaxed);
                slot.key_len.store(16, Ordering::Relaxed);
                slot.task.store(any(5), Ordering::Relaxed);
                slot.state.store(1 + any(2), Ordering::SeqCst);
            }
        }
    }
}

fn memory<T>(of: &T, len: usize) -> std::ops::Range<usize> {
    address(of)..address(of) + len
}

/// Panics if a unit reads what a message is while a unit has it, or while it does not wait. Only
/// the first client keeps to the protocol.
fn watch_bundles(clients: &[&Arc<Served>]) {
    let (mut tasks, mut notes, mut words) = (HashMap::new(), HashMap::new(), HashMap::new());
    for (client, served) in clients.iter().enumerate() {
        for slot in 0..SLOTS {
            tasks.insert(address(&served.ring.get().slots[slot].task), (client, slot));
            notes.insert(address(&served.taken[slot]), (client, slot));
            words.insert(
                address(&served.ring.get().slots[slot].state),
                (client, slot),
            );
        }
    }
    let mut states = HashMap::new();
    let mut has = HashMap::new();
    words::watch(move |thread, what, _, after| {
        let What::Number(address) = what else { return };
        if let Some(&message) = words.get(&address) {
            states.insert(message, after);
        }
        if !(1..=UNITS).contains(&thread) {
            return;
        }
        if let Some(&message) = tasks.get(&address) {
            let other = has.insert(message, thread);
            assert_eq!(other, None, "the message {message:?} is taken twice");
            let waits = matches!(states.get(&message), Some(&(state::READY | state::ASLEEP)));
            assert!(
                waits || message.0 > 0,
                "the message {message:?} is not there yet"
            );
        } else if let Some(message) = notes.get(&address)
            && after == 0
            && has.get(message) == Some(&thread)
        {
            has.remove(message);
        }
    });
}

/// A client that keeps to the protocol is served whatever another does, and each of its messages is
/// worked on once. No two units have a message.
#[test]
fn whatever_a_client_does_others_are_served() {
    in_orders_with_changes(CHANGES, || {
        let slots = [1, SLOTS as u32][any(2) as usize];
        with_a_hostile_client(slots, |_, clients| watch_bundles(&clients));
    });
}

/// Two clients of two units, of which one keeps to the protocol. If the other uses but one slot,
/// threads only change where somebody looks at a first slot or at a unit: of fewer orders, more are
/// rare ones.
pub fn with_a_hostile_client(slots: u32, watch: impl FnOnce(&Service, [&Arc<Served>; 2])) {
    let mut service = Service::new();
    let (client, served) = service.connect();
    let hostile = service.admit(ServerRing::new().expect("memory").0);
    watch(&service, [&served, &hostile]);
    if slots == 1 {
        let mut places: Vec<usize> = [&served, &hostile]
            .into_iter()
            .flat_map(first_slot)
            .collect();
        let units = service.shared.board.get().asleep.iter().take(UNITS);
        places.extend(units.map(|asleep| address(&asleep.0)));
        words::choose_only_at(places);
    }
    service.start();
    let honest = {
        let client = Arc::clone(&client);
        thread::spawn(move || ask(&client, 1))
    };
    let (shared, ring) = (Arc::clone(&service.shared), Arc::clone(&hostile));
    let hostile = thread::spawn(move || harm(&shared, ring.ring.get(), slots));
    let bytes = honest.join().expect("it is answered");
    hostile.join().expect("it ends");
    service.stop();
    assert_eq!(bytes, MESSAGES as usize * MESSAGE_BYTES);
    let counts = [&served.messages, &served.bytes, &served.refused].map(number);
    assert_eq!(counts, [MESSAGES.into(), bytes as u64, 0]);
    client.forked();
}

/// Places of a client's first slot.
fn first_slot(served: &Arc<Served>) -> [usize; 4] {
    let slot = &served.ring.get().slots[0];
    let [state, unit, task] = [&slot.state, &slot.unit, &slot.task].map(address);
    [state, unit, task, address(&served.taken[0])]
}

/// Threads of one process, each of which gets the answer to its own messages. Where none comes in
/// time, they give the service up and do the work alone.
#[test]
fn threads_of_a_process_get_their_own_answers() {
    in_orders_with_changes(CHANGES, || {
        let mut service = Service::new();
        let (client, served) = service.connect();
        watch_bundles(&[&served]);
        service.start();
        let are_sleeps_short = any(2) == 0;
        if are_sleeps_short {
            words::shorten_sleeps();
        }
        let threads = [1, 100].map(|seed| {
            let client = Arc::clone(&client);
            thread::spawn(move || ask(&client, seed))
        });
        let bytes: usize = threads
            .map(|thread| thread.join().expect("it ends"))
            .iter()
            .sum();
        service.stop();
        let asked = 2 * MESSAGES as usize * MESSAGE_BYTES;
        assert!(bytes == asked || are_sleeps_short, "{bytes} of {asked}");
        assert!(number(&served.bytes) >= bytes as u64);
        assert_eq!(number(&served.refused), 0);
        client.forked();
    });
}
