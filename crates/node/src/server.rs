//! The daemon: takes connections and finds out what they are for.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tabane_fabric::Tcp;
use tabane_striped::cluster::file::NodeFile;
use tabane_striped::cluster::wire::{self, DATA_MAGIC, FabricAddress, Token};
use tabane_striped::cluster::{RESTART_TIME, tls};

use crate::door::Unproved;
use crate::fabric::Listener;
use crate::hasty::{GREETING_TIMEOUT, Hasty};
use crate::home::Home;
use crate::lock;
use crate::scrub::{ScrubOptions, Scrubs};
use crate::session::set_patience;
use crate::shared::{Shared, without_permission};
use crate::withdrawn::Withdrawn;
use crate::{control, metrics};

/// Connections at a time. Each takes a thread.
const CONNECTIONS_MAX: usize = 4096;

/// Time before the same trouble is logged again.
const TOLD_AGAIN: Duration = Duration::from_secs(60);

/// Time limit for pending answers when the node stops: clients wait for it to come back.
const LAST_WORDS: Duration = Duration::from_secs(RESTART_TIME.as_secs() / 2);

/// A record of TLS begins with this for a handshake.
const TLS_HANDSHAKE: u8 = 0x16;

/// Options of a node's server.
pub struct ServerOptions {
    /// The node's name, cluster and credentials.
    pub node: NodeFile,
    /// The directory of the shards.
    pub directory: PathBuf,
    /// Host and port to listen on.
    pub listen: String,
    /// Address for data by libfabric, if wanted.
    pub fabric: Option<FabricAddress>,
    /// Host and port for metrics, if there are to be any.
    pub metrics: Option<String>,
    /// When the node reads all that it keeps.
    pub scrub: ScrubOptions,
    /// Bytes that shards may take, if that is limited.
    pub quota_bytes: Option<u64>,
    /// Is told what an operator may want to know, in one line.
    pub log: Arc<dyn Fn(&str) + Send + Sync>,
}

/// A node that is being served.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    metrics: Option<SocketAddr>,
    fabric: Option<Arc<Listener>>,
    is_stopping: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Server {
    /// Starts the server.
    ///
    /// # Errors
    /// When the directory belongs to another node or cannot be used, the credentials are invalid,
    /// or the address cannot be listened at.
    pub fn start(options: ServerOptions) -> tabane_storage::Result<Self> {
        let home = Home::open(&options.directory, &options.node, options.quota_bytes)?;
        let home = Arc::new(home);
        let tls = tls::server(&options.node.credentials)?;
        let prover = tls::prover(&options.node.credentials)?;
        let authority = &options.node.credentials.authority;
        let withdrawn = Withdrawn::open(&home.withdrawn(), options.node.cluster, authority)?;
        let listener = listen(&options.listen)?;
        let metrics = options.metrics.as_deref().map(listen).transpose()?;
        let fabric = options.fabric.as_ref().map(Listener::bind).transpose()?;
        let fabric = fabric.map(Arc::new);
        let shared = Arc::new(Shared {
            home,
            node: options.node,
            tls,
            door: Arc::default(),
            withdrawn,
            scrubs: Scrubs::open(options.directory.join("scrub"), options.scrub),
            prover,
            proved: Mutex::default(),
            commits: Arc::default(),
            counters: Arc::default(),
            begun: Instant::now(),
            fabric: fabric.as_ref().map(|fabric| fabric.address().clone()),
            sessions: Mutex::default(),
            connections: Mutex::default(),
            opened: AtomicU64::new(0),
            log: options.log,
        });
        let is_stopping = Arc::new(AtomicBool::new(false));
        let address = listener.local_addr()?;
        let metrics_address = metrics.as_ref().map(TcpListener::local_addr).transpose()?;
        let mut threads = Vec::new();
        let of = Arc::clone(&shared);
        threads.push(thread::spawn(move || {
            of.commits.run(&of.home, &of.counters)
        }));
        let of = Arc::clone(&shared);
        threads.push(thread::spawn(move || {
            let is_busy = || of.counters.do_clients_write();
            let log = |line: &str| (of.log)(line);
            of.scrubs.run(of.home.storage(), is_busy, log);
        }));
        let (of, stopping) = (Arc::clone(&shared), Arc::clone(&is_stopping));
        threads.push(thread::spawn(move || {
            accept(&listener, &stopping, &*of.log, |stream| of.take(stream));
        }));
        if let Some(metrics) = metrics {
            let (of, stopping) = (Arc::clone(&shared), Arc::clone(&is_stopping));
            threads.push(thread::spawn(move || {
                accept(&metrics, &stopping, &*of.log, |stream| {
                    let _ = metrics::answer(stream, &of);
                });
            }));
        }
        if let Some(fabric) = &fabric {
            let (of, fabric) = (Arc::clone(&shared), Arc::clone(fabric));
            threads.push(thread::spawn(move || fabric.run(&of)));
        }
        Ok(Self {
            shared,
            address,
            metrics: metrics_address,
            fabric,
            is_stopping,
            threads,
        })
    }

    /// The address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the metrics, if served.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// The address for data by libfabric, if any.
    pub fn fabric_address(&self) -> Option<&FabricAddress> {
        self.shared.fabric.as_ref()
    }

    /// Takes no more connections, ends all sessions, and returns when all complete shards are
    /// durable and another server may have the directory. Threads that wait for a peer which does
    /// not answer end later, and write nothing.
    pub fn stop(self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        // Wakes the threads that wait for connections.
        for address in [Some(self.address), self.metrics].into_iter().flatten() {
            let _ = TcpStream::connect(address);
        }
        if let Some(fabric) = &self.fabric {
            fabric.close();
        }
        let sessions: Vec<_> = lock(&self.shared.sessions).drain().collect();
        for (_, session) in sessions {
            session.close();
        }
        self.shared.commits.close();
        self.shared.scrubs.close();
        for thread in self.threads {
            let _ = thread.join();
        }
        // Ends reading on all connections; pending answers may still go out.
        let deadline = Instant::now() + LAST_WORDS;
        for stream in lock(&self.shared.connections).values() {
            let _ = stream.shutdown(Shutdown::Read);
        }
        while !lock(&self.shared.connections).is_empty() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        self.shared.home.unlock();
    }
}

impl Shared {
    /// Serves a connection on a thread of its own.
    fn take(self: &Arc<Self>, stream: TcpStream) {
        let (Ok(handle), Ok(from)) = (stream.try_clone(), stream.peer_addr()) else {
            self.counters.refused.add(1);
            return;
        };
        let Some(unproved) = self.door.let_in(from.ip()) else {
            self.refuse(
                from.ip(),
                &format!("connection from {from} refused: there are too many"),
            );
            return;
        };
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        let mut connections = lock(&self.connections);
        if connections.len() >= CONNECTIONS_MAX {
            self.counters.refused.add(1);
            return;
        }
        connections.insert(number, handle);
        drop(connections);
        let shared = Arc::clone(self);
        let connection = Connection(Arc::clone(self), number);
        let work = move || {
            let _connection = connection;
            if let Err(error) = shared.serve(stream, unproved) {
                let why = format!("connection from {from} ended: {error}");
                shared.refuse(from.ip(), &why);
            }
        };
        // If no thread can be started, dropping the closure closes the connection.
        let _ = thread::Builder::new().spawn(work);
    }

    /// Serves a connection: control over TLS, or data for a ring.
    fn serve(self: &Arc<Self>, mut stream: TcpStream, unproved: Unproved) -> io::Result<()> {
        stream.set_read_timeout(Some(GREETING_TIMEOUT))?;
        stream.set_write_timeout(Some(GREETING_TIMEOUT))?;
        let mut hasty = Hasty::new(&stream);
        let mut first = [0];
        match stream.peek(&mut first).map_err(|_| hasty.late())? {
            0 => return Ok(()),
            _ if first[0] == TLS_HANDSHAKE => return control::serve(self, stream, unproved),
            _ => {}
        }
        let greeted = wire::check_greeting(&mut hasty, DATA_MAGIC);
        if let Err(error) = &greeted
            && error.kind() == io::ErrorKind::InvalidData
        {
            return greeted.map(drop);
        }
        (&stream).write_all(&wire::greeting(DATA_MAGIC))?;
        greeted?;
        let mut token: Token = [0; 32];
        hasty.read_exact(&mut token)?;
        set_patience(&stream)?;
        let admitted = self.admit(&token, |ring| Tcp::new(stream.try_clone()?, Some(ring)))?;
        stream.write_all(&[u8::from(admitted.is_some())])?;
        let received = &self.counters.received_bytes;
        let receiver = admitted.ok_or_else(without_permission)?;
        drop(unproved);
        receiver.run_and_tell(|bytes| received.add(bytes));
        Ok(())
    }
}

/// A connection that is being served, and is closed whatever comes.
struct Connection(Arc<Shared>, u64);

impl Drop for Connection {
    fn drop(&mut self) {
        lock(&self.0.connections).remove(&self.1);
    }
}

fn listen(address: &str) -> io::Result<TcpListener> {
    TcpListener::bind(address).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
    })
}

fn accept(
    listener: &TcpListener,
    is_stopping: &AtomicBool,
    log: &dyn Fn(&str),
    act: impl Fn(TcpStream),
) {
    let mut told: Option<Instant> = None;
    for stream in listener.incoming() {
        if is_stopping.load(Ordering::Relaxed) {
            return;
        }
        match stream {
            Ok(stream) => act(stream),
            // Too many open files, for a while.
            Err(error) => {
                if told.is_none_or(|told| told.elapsed() > TOLD_AGAIN) {
                    told = Some(Instant::now());
                    log(&format!("cannot take a connection: {error}"));
                }
                thread::sleep(Duration::from_millis(50));
            }
        }
    }
}
