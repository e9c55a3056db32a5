//! One node, as a [`Storage`].

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::file::NodeAddress;
use super::limits::{Limits, PIECE_LEN};
use super::tls;
use super::wire::{self, REPLY_MAX, Reply, Request, SessionId, Status, Usage};
use tabane_storage::sync::lock;
use tabane_storage::{
    Listed, Name, OBJECT_LEN_MAX, ObjectKind, Result, Storage, StorageError, StorageErrorKind,
};

/// Time limit for connecting and the greeting.
pub(super) const CONNECT: Duration = Duration::from_secs(5);

/// Time limit of a probe of a silent node.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// Time limit of a question that is not worth waiting for.
const BRIEF_TIMEOUT: Duration = Duration::from_millis(300);

/// Silence after which a node is probed over another connection.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(2);

/// Time for which the result of a probe counts.
const PROBE_AGE_MAX: Duration = Duration::from_secs(1);

/// The longest silence of a node in use: longer than any request takes it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Interval of keepalive probes to a silent peer.
#[cfg(target_os = "linux")]
const KEEPALIVE_PAUSE: Duration = Duration::from_secs(3);

/// The longest time without acknowledgement of sent bytes.
#[cfg(target_os = "linux")]
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(8);

/// Operations worth having in flight at each node.
const CONNECTIONS_PER_NODE: usize = 4;

type Tls = StreamOwned<ClientConnection, TcpStream>;

/// Returns whether to wait on for a peer that has been silent for [`SILENCE_MAX`].
type MayWait<'a> = dyn Fn() -> bool + 'a;

/// A stream whose peer may be silent as long as probes succeed.
struct Patient<'a> {
    stream: &'a mut Tls,
    may_wait: &'a MayWait<'a>,
    /// Time of the last byte in either direction.
    last: Instant,
}

impl Patient<'_> {
    /// Repeats `act` as long as it ends in a timeout of the stream.
    fn persist<T>(&mut self, act: impl Fn(&mut Tls) -> io::Result<T>) -> io::Result<T> {
        loop {
            match act(self.stream) {
                Err(error) if is_timeout(&error) => {
                    if self.last.elapsed() >= ANSWER_TIMEOUT || !(self.may_wait)() {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                done => {
                    self.last = Instant::now();
                    return done;
                }
            }
        }
    }
}

impl Read for Patient<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let into = std::cell::RefCell::new(bytes);
        self.persist(|stream| stream.read(&mut into.borrow_mut()))
    }
}

impl Write for Patient<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.persist(|stream| stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.persist(Write::flush)
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

/// A control connection, which carries one request at a time.
pub struct Channel {
    stream: Tls,
    limits: Arc<Limits>,
    peer: Arc<Peer>,
}

impl Channel {
    /// Sends a request and the bytes behind it, and waits for the reply.
    pub fn ask(&mut self, request: &Request, parts: &[&[u8]]) -> io::Result<Reply> {
        self.send(request, parts)?;
        self.receive()
    }

    /// Sends a request, and waits for the reply for a moment.
    fn ask_briefly(&mut self, request: &Request) -> io::Result<Reply> {
        self.stream.sock.set_read_timeout(Some(BRIEF_TIMEOUT))?;
        wire::send(&mut self.stream, request)?;
        self.stream.flush()?;
        let reply = self.receive_while(&|| false)?;
        self.stream.sock.set_read_timeout(Some(SILENCE_MAX))?;
        Ok(reply)
    }

    fn send(&mut self, request: &Request, parts: &[&[u8]]) -> io::Result<()> {
        let limits = Arc::clone(&self.limits);
        let peer = Arc::clone(&self.peer);
        let may_wait = || peer.is_there();
        let mut stream = self.patient(&may_wait);
        wire::send(&mut stream, request)?;
        for piece in parts.iter().flat_map(|part| part.chunks(PIECE_LEN)) {
            limits.before_sending(piece.len());
            stream.write_all(piece)?;
        }
        stream.flush()
    }

    fn receive(&mut self) -> io::Result<Reply> {
        let peer = Arc::clone(&self.peer);
        self.receive_while(&|| peer.is_there())
    }

    fn receive_while(&mut self, may_wait: &MayWait) -> io::Result<Reply> {
        wire::receive(&mut self.patient(may_wait), REPLY_MAX)
    }

    fn patient<'a>(&'a mut self, may_wait: &'a MayWait<'a>) -> Patient<'a> {
        Patient {
            stream: &mut self.stream,
            may_wait,
            last: Instant::now(),
        }
    }

    fn read(&mut self, len: u64) -> io::Result<Vec<u8>> {
        if len > 2 * OBJECT_LEN_MAX {
            return Err(wire::invalid("it is longer than any object"));
        }
        let limits = Arc::clone(&self.limits);
        let peer = Arc::clone(&self.peer);
        let may_wait = || peer.is_there();
        let mut stream = self.patient(&may_wait);
        let mut bytes = vec![0; len as usize];
        for piece in bytes.chunks_mut(PIECE_LEN) {
            stream.read_exact(piece)?;
            limits.after_receiving(piece.len());
        }
        Ok(bytes)
    }
}

/// A node's address, and whether the node answered recently.
struct Peer {
    node: NodeAddress,
    config: Arc<ClientConfig>,
    /// Time of the last question, and whether the node answered.
    asked: Mutex<Option<(Instant, bool)>>,
}

impl Peer {
    /// Connects and waits for the node's greeting.
    fn dial(&self, limit: Duration) -> io::Result<Tls> {
        let name = tls::name_of(&self.node.name).map_err(io::Error::other)?;
        let stream = connect_within(&self.node.address, limit)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(limit))?;
        stream.set_write_timeout(Some(limit))?;
        let client = ClientConnection::new(Arc::clone(&self.config), name);
        let mut tls = StreamOwned::new(client.map_err(io::Error::other)?, stream);
        wire::greet(&mut tls)?;
        wire::expect_greeting(&mut tls)?;
        Ok(tls)
    }

    /// Probes whether the node accepts a connection and greets, for which it needs no disk. Callers
    /// at the same time share one probe.
    fn is_there(&self) -> bool {
        let mut asked = lock(&self.asked);
        if let Some((at, is_there)) = *asked
            && at.elapsed() < PROBE_AGE_MAX
        {
            return is_there;
        }
        let is_there = self.dial(PROBE_TIMEOUT).is_ok();
        *asked = Some((Instant::now(), is_there));
        is_there
    }
}

/// A node of a cluster.
pub struct NodeStorage {
    peer: Arc<Peer>,
    limits: Arc<Limits>,
    /// Idle connections.
    idle: Mutex<Vec<Channel>>,
}

impl NodeStorage {
    /// A node to which no request is sent yet.
    pub fn new(node: NodeAddress, config: Arc<ClientConfig>, limits: Arc<Limits>) -> Self {
        Self {
            peer: Arc::new(Peer {
                node,
                config,
                asked: Mutex::default(),
            }),
            limits,
            idle: Mutex::default(),
        }
    }

    /// The node's name in the cluster.
    pub fn name(&self) -> &str {
        &self.peer.node.name
    }

    /// Host and port.
    pub fn address(&self) -> &str {
        &self.peer.node.address
    }

    /// Whether the node answers over a fresh connection.
    pub fn is_there(&self) -> bool {
        self.peer.is_there()
    }

    /// A new control connection.
    pub fn channel(&self) -> Result<Channel> {
        self.channel_within(CONNECT)
    }

    fn channel_within(&self, limit: Duration) -> Result<Channel> {
        let dialled = self.peer.dial(limit).and_then(|stream| {
            stream.sock.set_read_timeout(Some(SILENCE_MAX))?;
            stream.sock.set_write_timeout(Some(SILENCE_MAX))?;
            Ok(stream)
        });
        let stream = dialled.map_err(|error| self.blame(error))?;
        Ok(Channel {
            stream,
            limits: Arc::clone(&self.limits),
            peer: Arc::clone(&self.peer),
        })
    }

    /// Asks for the node's status.
    ///
    /// # Errors
    /// When the node does not answer.
    pub fn status(&self) -> Result<Status> {
        match self.ask(&Request::Status, &[])? {
            Reply::Status(status) => Ok(status),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Tells the node a list of withdrawn certificates.
    ///
    /// # Errors
    /// When the node does not answer or refuses the list.
    pub fn withdraw(&self, list: &[u8]) -> Result<()> {
        self.done(&Request::Withdraw(list.to_vec()), &[])
    }

    /// Asks what goes through the node's links, without waiting for long.
    pub fn usage(&self, session: SessionId) -> Result<Usage> {
        let used = lock(&self.idle).pop();
        let mut channel = used.map_or_else(|| self.channel_within(BRIEF_TIMEOUT), Ok)?;
        let answer = channel.ask_briefly(&Request::Usage(session));
        match answer.map_err(|error| self.blame(error))? {
            Reply::Usage(usage) => {
                lock(&self.idle).push(channel);
                Ok(usage)
            }
            other => Err(self.unexpected(&other)),
        }
    }

    /// Sends a request over an idle connection, or over a new one if the node has closed that.
    pub fn ask(&self, request: &Request, parts: &[&[u8]]) -> Result<Reply> {
        self.with(|channel| channel.ask(request, parts))
    }

    /// Sends a request; `Asked::answer` waits for the reply.
    pub fn begin(&self, request: &Request) -> Result<Asked<'_>> {
        let used = lock(&self.idle).pop();
        let mut channel = used.map_or_else(|| self.channel(), Ok)?;
        let sent = channel.send(request, &[]);
        sent.map_err(|error| self.blame(error))?;
        Ok(Asked {
            node: self,
            channel,
        })
    }

    fn with<T>(&self, act: impl Fn(&mut Channel) -> io::Result<T>) -> Result<T> {
        let used = lock(&self.idle).pop();
        if let Some(mut channel) = used {
            match act(&mut channel) {
                Ok(done) => {
                    lock(&self.idle).push(channel);
                    return Ok(done);
                }
                // The node was restarted, or the other connections are as old: drop all of them.
                Err(error) if is_closed(&error) => lock(&self.idle).clear(),
                Err(error) => return Err(self.blame(error)),
            }
        }
        let mut channel = self.channel()?;
        let done = act(&mut channel).map_err(|error| self.blame(error))?;
        lock(&self.idle).push(channel);
        Ok(done)
    }

    /// An error of the connection to the node: the node is out of use until it answers again.
    pub(super) fn blame(&self, error: io::Error) -> StorageError {
        let certificate = error.get_ref().and_then(|error| error.downcast_ref());
        let why = match error.kind() {
            _ if certificate.is_some_and(tls::is_about_time) => format!(
                "{error}. Is the clock wrong, here or there? Certificates are valid from a day \
                 before they were made, for ten years"
            ),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it does not answer".to_owned(),
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                "it has closed the connection (its log says why)".to_owned()
            }
            _ => error.to_string(),
        };
        let text = format!("node {} ({}): {why}", self.name(), self.address());
        StorageError::new(StorageErrorKind::Unreachable, text)
    }

    fn unexpected(&self, reply: &Reply) -> StorageError {
        match reply {
            Reply::Failed(kind, text) => StorageError::new(*kind, text),
            _ => self.blame(wire::invalid("it answers something else")),
        }
    }

    fn done(&self, request: &Request, parts: &[&[u8]]) -> Result<()> {
        match self.ask(request, parts)? {
            Reply::Done => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    fn count(&self, request: &Request) -> Result<u64> {
        match self.ask(request, &[])? {
            Reply::Count(count) => Ok(count),
            other => Err(self.unexpected(&other)),
        }
    }
}

/// A request that was sent.
pub struct Asked<'a> {
    node: &'a NodeStorage,
    channel: Channel,
}

impl Asked<'_> {
    /// Waits for the reply; while the node is silent, as long as `may_wait` returns true.
    pub fn answer(mut self, may_wait: &MayWait) -> Result<Reply> {
        let answer = self.channel.receive_while(may_wait);
        let answer = answer.map_err(|error| self.node.blame(error))?;
        lock(&self.node.idle).push(self.channel);
        Ok(answer)
    }
}

/// Makes sure that the node of this name is at an address: it proves by TLS that it has the node's
/// certificate. Nothing else is said.
///
/// # Errors
/// When it is not, or does not answer.
pub fn prove(address: &str, node: &str, config: &Arc<ClientConfig>) -> io::Result<()> {
    let name = tls::name_of(node).map_err(io::Error::other)?;
    let mut stream = connect_within(address, CONNECT)?;
    stream.set_read_timeout(Some(CONNECT))?;
    stream.set_write_timeout(Some(CONNECT))?;
    let client = ClientConnection::new(Arc::clone(config), name);
    let mut client = client.map_err(io::Error::other)?;
    while client.is_handshaking() {
        client.complete_io(&mut stream)?;
    }
    Ok(())
}

/// Connects to one of the addresses of a host.
pub fn connect(address: &str) -> io::Result<TcpStream> {
    connect_within(address, CONNECT)
}

fn connect_within(address: &str, limit: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "it has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(stream) => {
                watch(&stream)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Sets keepalive, so that the system notices a dead or unreachable peer even on an idle
/// connection.
fn watch(stream: &TcpStream) -> io::Result<()> {
    use rustix::net::sockopt;
    sockopt::set_socket_keepalive(stream, true)?;
    #[cfg(target_os = "linux")]
    {
        sockopt::set_tcp_keepidle(stream, KEEPALIVE_PAUSE)?;
        sockopt::set_tcp_keepintvl(stream, KEEPALIVE_PAUSE)?;
        sockopt::set_tcp_user_timeout(stream, ACKNOWLEDGE_TIMEOUT.as_millis() as u32)?;
    }
    Ok(())
}

fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(
        error.kind(),
        BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof
    )
}

impl Storage for NodeStorage {
    fn location(&self) -> String {
        format!("node {}", self.name())
    }

    fn connections(&self) -> usize {
        CONNECTIONS_PER_NODE
    }

    fn create(&self) -> Result<()> {
        self.done(&Request::Create, &[])
    }

    fn put(&self, name: Name, parts: &[&[u8]]) -> Result<()> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        self.done(&Request::Put(name, len as u64), parts)
            .map_err(|error| error.about(name))
    }

    fn get(&self, name: Name, range: Option<Range<u64>>) -> Result<Vec<u8>> {
        let request = Request::Get(name, range.map(|range| (range.start, range.end)));
        let got = self.with(|channel| match channel.ask(&request, &[])? {
            Reply::Bytes(len) => Ok(Ok(channel.read(len)?)),
            other => Ok(Err(other)),
        });
        got.and_then(|got| got.map_err(|other| self.unexpected(&other)))
            .map_err(|error| error.about(name))
    }

    fn doubts(&self) -> Result<Vec<Name>> {
        match self.ask(&Request::Doubts, &[])? {
            Reply::Names(names) => Ok(names),
            other => Err(self.unexpected(&other)),
        }
    }

    fn list(&self, kind: ObjectKind) -> Result<Vec<Listed>> {
        match self.ask(&Request::List(kind), &[])? {
            Reply::List(list) => Ok(list),
            other => Err(self.unexpected(&other)),
        }
    }

    fn stat(&self, name: Name) -> Result<u64> {
        self.count(&Request::Stat(name))
            .map_err(|error| error.about(name))
    }

    fn delete(&self, name: Name) -> Result<()> {
        self.done(&Request::Delete(name), &[])
            .map_err(|error| error.about(name))
    }

    fn free_bytes(&self) -> Option<u64> {
        self.status().ok().map(|status| status.free_bytes)
    }

    fn remove_leftovers(&self, age: Duration) -> Result<u64> {
        self.count(&Request::RemoveLeftovers(age.as_secs()))
    }
}
