//! Connections, and what all units share.

use std::collections::HashMap;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType,
};
use rustix::process::Resource;
use rustix::thread::futex;
use rustix::time::Timespec;
use tabane_engine::gpu;

use crate::hang_up::hang_up;
use crate::layout::{Note, TASKS, Task, UNITS_MAX, VERSION, Want, hello};
use crate::memory::{ServerBoard, ServerRing};
use crate::model::Model;
use crate::status::{CardStatus, ClientStatus, STATUS_PIECE_BYTES, Status, UnitStatus};
use crate::trial::{Situation, Trials};
use crate::unit::{self, Served, Work};

/// Options of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Path of the socket. Processes without the right to write to it cannot connect.
    pub socket: PathBuf,
    /// The rights of the socket.
    pub mode: u32,
    /// Clients at a time.
    pub clients_max: usize,
    /// When clients are told to ask.
    pub ask: Ask,
}

/// When clients are told to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// When that is sooner.
    Sooner,
    /// Ask for all messages that the service takes, at any cost: for tests and measurements.
    Always,
}

/// A service that runs in threads of this process.
pub struct Server {
    shared: Arc<Shared>,
    stop: Arc<OwnedFd>,
    threads: Vec<JoinHandle<()>>,
    socket: PathBuf,
}

/// State shared by connections and units.
pub(crate) struct Shared {
    pub(crate) board: ServerBoard,
    /// The core of each unit.
    pub(crate) cores: Vec<usize>,
    pub(crate) work: Vec<Work>,
    clients: Mutex<Vec<Arc<Served>>>,
    /// Another number whenever the clients are others.
    pub(crate) version: AtomicU64,
    /// Number of clients that had work recently.
    pub(crate) active: AtomicUsize,
    pub(crate) stopped: AtomicBool,
    /// Messages by the logarithm of the microseconds that they took.
    latencies: [AtomicU64; 24],
}

impl Shared {
    pub(crate) fn clients(&self) -> MutexGuard<'_, Vec<Arc<Served>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the time that `messages` messages took.
    pub(crate) fn took(&self, time: Duration, messages: u64) {
        let power = time.as_micros().max(1).ilog2() as usize;
        let last = self.latencies.len() - 1;
        self.latencies[power.min(last)].fetch_add(messages, Ordering::Relaxed);
    }
}

impl Server {
    /// Measures the machine, makes the socket, and serves.
    ///
    /// # Errors
    /// When the socket cannot be made, or another service runs there; when the system or a sandbox
    /// lacks `memfd_create` or `futex`.
    pub fn start(options: ServerOptions) -> io::Result<Self> {
        let board = ServerBoard::new()
            .map_err(|error| missing("memory cannot be shared (memfd_create)", &error))?;
        // Nobody sleeps there.
        futex::wake(&board.get().units, futex::Flags::empty(), 1)
            .map_err(|error| missing("threads cannot sleep on memory (futex)", &error.into()))?;
        let allowed = rustix::thread::sched_getaffinity(None)?;
        let cores = (0..rustix::thread::CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
        let cores: Vec<usize> = cores.take(UNITS_MAX).collect();
        let model = Model::measure(cores[0]);
        let shared = Arc::new(Shared {
            board,
            work: cores.iter().map(|_| Work::default()).collect(),
            cores,
            clients: Mutex::default(),
            version: AtomicU64::new(0),
            active: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            latencies: Default::default(),
        });
        let units = shared.cores.len();
        let board = shared.board.get();
        board.units.store(units as u32, Ordering::Relaxed);

        let listener = listen(&options.socket, options.mode)?;
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        // One for each client.
        let descriptors = rustix::process::getrlimit(Resource::Nofile).current;
        let descriptors = descriptors.map_or(usize::MAX, |count| count as usize);
        let mut threads = Vec::new();
        for number in 0..units {
            let shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name(format!("unit {number}"));
            threads.push(thread.spawn(move || unit::run(&shared, number))?);
        }
        let connections = Connections {
            units: threads.iter().map(|unit| unit.thread().clone()).collect(),
            shared: Arc::clone(&shared),
            poll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            listener,
            model,
            peers: HashMap::new(),
            clients_max: options
                .clients_max
                .min(descriptors.saturating_sub(DESCRIPTORS_KEPT)),
            last_number: STOP,
            begun: Instant::now(),
            ask: options.ask,
            trials: Trials::default(),
        };
        for (source, number) in [(&connections.listener, LISTENER), (&*stop, STOP)] {
            let data = epoll::EventData::new_u64(number);
            epoll::add(&connections.poll, source, data, epoll::EventFlags::IN)?;
        }
        let thread = std::thread::Builder::new().name("connections".to_owned());
        threads.push(thread.spawn(move || connections.run())?);
        Ok(Self {
            shared,
            stop,
            threads,
            socket: options.socket,
        })
    }

    /// Ends it. Clients go on alone.
    pub fn stop(self) {
        let _ = std::fs::remove_file(&self.socket);
        self.shared.stopped.store(true, Ordering::SeqCst);
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        for thread in self.threads {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// The error of a system without a required function.
fn missing(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// Makes a socket at this path, with these permissions from the first moment. A socket without a
/// service is replaced.
fn listen(path: &Path, mode: u32) -> io::Result<OwnedFd> {
    let new = || {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
    };
    let address = SocketAddrUnix::new(path)?;
    let found = std::fs::symlink_metadata(path).ok();
    let is_socket = found.map(|found| found.file_type().is_socket());
    if is_socket == Some(false) {
        let text = "something that is no socket is there";
        return Err(io::Error::new(ErrorKind::AlreadyExists, text));
    }
    if is_socket == Some(true) {
        match rustix::net::connect(new()?, &address) {
            Err(Errno::CONNREFUSED) => std::fs::remove_file(path)?,
            Err(error) if error != Errno::AGAIN => return Err(error.into()),
            _ => return Err(ErrorKind::AddrInUse.into()),
        }
    }
    let listener = new()?;
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o777 & !mode));
    let bound = rustix::net::bind(&listener, &address);
    rustix::process::umask(before);
    bound?;
    rustix::net::listen(&listener, 1024)?;
    Ok(listener)
}

const LISTENER: u64 = 0;
const STOP: u64 = 1;

/// Interval at which clients at work are counted.
const TICK_INTERVAL: Duration = Duration::from_millis(10);

/// Ticks without a call after which a client counts as idle.
const QUIET_TICKS: u32 = 5;

/// Time limit of a peer's hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(1);

/// Connections beside those of clients, so that a full service can be asked for its status.
const PEERS_SPARE: usize = 8;

/// Descriptors that are not for clients.
const DESCRIPTORS_KEPT: usize = 64;

/// The thread that looks after connections.
struct Connections {
    shared: Arc<Shared>,
    units: Vec<Thread>,
    poll: OwnedFd,
    listener: OwnedFd,
    model: Model,
    peers: HashMap<u64, Peer>,
    clients_max: usize,
    last_number: u64,
    begun: Instant,
    ask: Ask,
    trials: Trials,
}

struct Peer {
    socket: OwnedFd,
    since: Instant,
    client: Option<Client>,
}

/// A client with a ring.
struct Client {
    served: Arc<Served>,
    pid: i32,
    uid: u32,
    /// The client's progress at the last tick.
    progress: u32,
    /// Ticks since there was another.
    quiet: u32,
}

impl Connections {
    fn run(mut self) {
        let mut events = [MaybeUninit::uninit(); 64];
        let mut last_tick = Instant::now();
        while !self.shared.stopped.load(Ordering::Acquire) {
            let waits = self.is_anybody_active() || self.is_anybody_new();
            let timeout = Timespec {
                tv_sec: 0,
                tv_nsec: TICK_INTERVAL.as_nanos() as i64,
            };
            let timeout = waits.then_some(&timeout);
            match epoll::wait(&self.poll, &mut events, timeout) {
                Ok((events, _)) => {
                    for event in events {
                        match event.data.u64() {
                            LISTENER => self.accept(),
                            STOP => {}
                            number => self.hear(number),
                        }
                    }
                }
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
            let since = last_tick.elapsed();
            if since >= TICK_INTERVAL {
                last_tick = Instant::now();
                self.tick(since);
            }
        }
        for peer in self.peers.values() {
            let _ = rustix::net::shutdown(&peer.socket, Shutdown::Both);
        }
        hang_up(self);
    }

    fn is_anybody_active(&self) -> bool {
        self.shared.active.load(Ordering::Relaxed) > 0
    }

    fn is_anybody_new(&self) -> bool {
        self.peers.values().any(|peer| peer.client.is_none())
    }

    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let Ok(socket) = rustix::net::accept_with(&self.listener, flags) else {
            return;
        };
        if self.peers.len() >= self.clients_max + PEERS_SPARE {
            hang_up(socket);
            return;
        }
        self.last_number += 1;
        let data = epoll::EventData::new_u64(self.last_number);
        if epoll::add(&self.poll, &socket, data, epoll::EventFlags::IN).is_err() {
            hang_up(socket);
            return;
        }
        let peer = Peer {
            socket,
            since: Instant::now(),
            client: None,
        };
        self.peers.insert(self.last_number, peer);
    }

    /// Something has come from a peer, or it has hung up.
    fn hear(&mut self, number: u64) {
        let Some(peer) = self.peers.get_mut(&number) else {
            return;
        };
        let mut message = [0; 16];
        let message = match receive(&peer.socket, &mut message) {
            Ok(len) => &message[..len],
            Err(Errno::AGAIN | Errno::INTR) => return,
            Err(_) => &[],
        };
        let heard = match &mut peer.client {
            Some(client) => match Note::from_bytes(message) {
                Some(Note::AtWork) => {
                    client.quiet = 0;
                    Ok(())
                }
                Some(Note::Wake(unit)) => {
                    // Any client may wake any unit at any time: it finds nothing and sleeps again.
                    if let Some(unit) = self.units.get(usize::from(unit)) {
                        unit.unpark();
                    }
                    return;
                }
                None => Err(ErrorKind::InvalidData.into()),
            },
            None if message == hello(Want::Ring) => self.admit(number),
            None if message == hello(Want::Status) => {
                let text = serde_json::to_vec(&self.status()).unwrap_or_default();
                let socket = &self.peers[&number].socket;
                // If the socket's buffer is full, the client has to ask again.
                for piece in text.chunks(STATUS_PIECE_BYTES) {
                    let _ = rustix::net::send(socket, piece, SendFlags::NOSIGNAL);
                }
                Err(ErrorKind::ConnectionAborted.into())
            }
            _ => Err::<_, io::Error>(ErrorKind::InvalidData.into()),
        };
        match heard {
            Ok(()) => self.count(),
            Err(_) => self.remove(number),
        }
    }

    /// Gives a peer a ring, if there may be another client.
    fn admit(&mut self, number: u64) -> io::Result<()> {
        if self.shared.clients().len() >= self.clients_max {
            return Err(ErrorKind::QuotaExceeded.into());
        }
        let peer = self.peers.get_mut(&number).ok_or(ErrorKind::NotFound)?;
        let who = rustix::net::sockopt::socket_peercred(&peer.socket)?;
        let (ring, memory) = ServerRing::new()?;
        ring.get().uncounted.store(1, Ordering::Relaxed);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let memories = [self.shared.board.memory(), memory.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&memories));
        let version = VERSION.to_le_bytes();
        let version = [IoSlice::new(&version)];
        rustix::net::sendmsg(&peer.socket, &version, &mut control, SendFlags::NOSIGNAL)?;
        let served = Arc::new(Served::new(ring));
        self.shared.clients().push(Arc::clone(&served));
        self.shared.version.fetch_add(1, Ordering::Release);
        peer.client = Some(Client {
            served,
            pid: who.pid.as_raw_nonzero().get(),
            uid: who.uid.as_raw(),
            progress: 0,
            quiet: QUIET_TICKS,
        });
        Ok(())
    }

    fn remove(&mut self, number: u64) {
        let Some(peer) = self.peers.remove(&number) else {
            return;
        };
        if let Some(client) = peer.client {
            let mut clients = self.shared.clients();
            clients.retain(|served| !Arc::ptr_eq(served, &client.served));
            drop(clients);
            self.shared.version.fetch_add(1, Ordering::Release);
            self.count();
        }
        // A wait for events holds what it looks at, and must not be the last that does.
        let _ = epoll::delete(&self.poll, &peer.socket);
        hang_up(peer.socket);
    }

    /// `since` the last one.
    fn tick(&mut self, since: Duration) {
        let late = self
            .peers
            .iter()
            .filter(|(_, peer)| peer.client.is_none() && peer.since.elapsed() > HELLO_TIMEOUT);
        let late: Vec<u64> = late.map(|(&number, _)| number).collect();
        for number in late {
            self.remove(number);
        }
        let mut done = 0;
        let mut kinds = Vec::new();
        for client in self
            .peers
            .values_mut()
            .filter_map(|peer| peer.client.as_mut())
        {
            let ring = client.served.ring.get();
            let progress = ring.progress.load(Ordering::Relaxed);
            if progress != client.progress {
                done += u64::from(progress.wrapping_sub(client.progress));
                client.progress = progress;
                client.quiet = 0;
            } else if client.quiet < QUIET_TICKS {
                client.quiet += 1;
                if client.quiet == QUIET_TICKS {
                    // The client reports when it is at work again.
                    ring.uncounted.store(1, Ordering::Relaxed);
                }
            }
            // Counts clients that got no core in this tick too: they still have work.
            if client.quiet < QUIET_TICKS {
                kinds.push(ring.kind.load(Ordering::Relaxed));
            }
        }
        let rate = done as f64 / since.as_secs_f64();
        self.trials.tick(Situation::of(&mut kinds), rate);
        self.count();
    }

    /// Publishes to the clients from which length asking is faster now.
    fn count(&mut self) {
        let clients = self.peers.values().filter_map(|peer| peer.client.as_ref());
        let active = clients.filter(|client| client.quiet < QUIET_TICKS).count();
        self.shared.active.store(active, Ordering::Relaxed);
        let from = if self.ask == Ask::Always {
            [1; TASKS.len()]
        } else if self.trials.asks() {
            let clients_per_core = active as f64 / self.shared.cores.len() as f64;
            self.model.from(clients_per_core)
        } else {
            [0; TASKS.len()]
        };
        for (place, from) in self.shared.board.get().from.iter().zip(from) {
            place.store(from, Ordering::Relaxed);
        }
    }

    fn status(&self) -> Status {
        let shared = &self.shared;
        let clients = self.peers.values().filter_map(|peer| peer.client.as_ref());
        let clients = clients.map(|client| ClientStatus {
            pid: client.pid,
            uid: client.uid,
            active: client.quiet < QUIET_TICKS,
            messages: client.served.messages.load(Ordering::Relaxed),
            bytes: client.served.bytes.load(Ordering::Relaxed),
            refused: client.served.refused.load(Ordering::Relaxed),
        });
        let units = shared.cores.iter().zip(&shared.work).map(|(&core, work)| {
            let busy_ns = work.busy_ns.load(Ordering::Relaxed);
            UnitStatus {
                core,
                bundles: work.bundles.load(Ordering::Relaxed),
                messages: work.messages.load(Ordering::Relaxed),
                bytes: work.bytes.load(Ordering::Relaxed),
                busy_seconds: Duration::from_nanos(busy_ns).as_secs_f64(),
            }
        });
        let cards = gpu::opened().into_iter().map(|unit| {
            let done = unit.done();
            CardStatus {
                name: unit.properties().name.clone(),
                bundles: done.bundles,
                bytes: done.bytes,
                busy_seconds: done.seconds,
            }
        });
        let from = shared.board.get().from.iter().zip(TASKS);
        let from = from.map(|(from, task)| {
            let name = match task {
                Task::Encrypt => "aes-cbc".to_owned(),
                Task::Hash(algorithm) => algorithm.to_string(),
            };
            let from = from.load(Ordering::Relaxed);
            (name, (from != 0).then_some(from))
        });
        let latencies = shared.latencies.iter().enumerate();
        Status {
            seconds: self.begun.elapsed().as_secs_f64(),
            active: shared.active.load(Ordering::Relaxed),
            depth: shared.clients().iter().map(|client| client.depth()).sum(),
            from_bytes: from.collect(),
            units: units.collect(),
            cards: cards.collect(),
            clients: clients.collect(),
            clients_max: self.clients_max,
            latencies: latencies
                .map(|(power, messages)| (2 << power, messages.load(Ordering::Relaxed)))
                .collect(),
        }
    }
}

/// Takes a message out of a socket and returns its length, or that of the buffer if it is longer. A
/// message with descriptors stays where it is, since to take it would be to close them.
fn receive(socket: &OwnedFd, message: &mut [u8]) -> rustix::io::Result<usize> {
    let mut no_descriptors = RecvAncillaryBuffer::new(&mut []);
    let mut place = [IoSliceMut::new(message)];
    let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
    let seen = rustix::net::recvmsg(socket, &mut place, &mut no_descriptors, flags)?;
    if seen.flags.contains(ReturnFlags::CTRUNC) {
        return Err(Errno::BADMSG);
    }
    let (_, len) = rustix::net::recv(socket, &mut *message, RecvFlags::DONTWAIT)?;
    Ok(len.min(message.len()))
}
