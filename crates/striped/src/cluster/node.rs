//! One node, as a [`Storage`].

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::file::NodeAddress;
use super::limits::{Limits, PIECE_LEN};
#[cfg(target_os = "linux")]
use super::session::STALL_TIMEOUT;
use super::tls;
use super::wire::{self, REPLY_MAX, Reply, Request, Status};
use tabane_storage::sync::lock;
use tabane_storage::{
    Listed, Name, OBJECT_LEN_MAX, ObjectKind, Result, Storage, StorageError, StorageErrorKind,
};

/// How long it may take to be let in.
pub(super) const CONNECT: Duration = Duration::from_secs(5);

/// For how long a node may say nothing: longer than anything that it does for one request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// How often a peer that says nothing is asked whether it is there.
#[cfg(target_os = "linux")]
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Operations that are worth having in flight.
const CONNECTIONS_PER_NODE: usize = 4;

/// A control connection, over which one request at a time is answered.
pub struct Channel {
    stream: StreamOwned<ClientConnection, TcpStream>,
    limits: Arc<Limits>,
}

impl Channel {
    /// Asks, and sends what comes behind the request.
    pub fn ask(&mut self, request: &Request, parts: &[&[u8]]) -> io::Result<Reply> {
        self.send(request, parts)?;
        self.receive()
    }

    fn send(&mut self, request: &Request, parts: &[&[u8]]) -> io::Result<()> {
        wire::send(&mut self.stream, request)?;
        for piece in parts.iter().flat_map(|part| part.chunks(PIECE_LEN)) {
            self.limits.before_sending(piece.len());
            self.stream.write_all(piece)?;
        }
        self.stream.flush()
    }

    fn receive(&mut self) -> io::Result<Reply> {
        wire::receive(&mut self.stream, REPLY_MAX)
    }

    fn read(&mut self, len: u64) -> io::Result<Vec<u8>> {
        if len > 2 * OBJECT_LEN_MAX {
            return Err(wire::invalid("it is longer than any object"));
        }
        let mut bytes = vec![0; len as usize];
        for piece in bytes.chunks_mut(PIECE_LEN) {
            self.stream.read_exact(piece)?;
            self.limits.after_receiving(piece.len());
        }
        Ok(bytes)
    }
}

/// A node of a cluster.
pub struct NodeStorage {
    node: NodeAddress,
    config: Arc<ClientConfig>,
    limits: Arc<Limits>,
    /// Connections that nobody uses at the moment.
    idle: Mutex<Vec<Channel>>,
}

impl NodeStorage {
    /// Nothing is sent yet.
    pub fn new(node: NodeAddress, config: Arc<ClientConfig>, limits: Arc<Limits>) -> Self {
        Self {
            node,
            config,
            limits,
            idle: Mutex::default(),
        }
    }

    /// Its name in the cluster.
    pub fn name(&self) -> &str {
        &self.node.name
    }

    /// Host and port.
    pub fn address(&self) -> &str {
        &self.node.address
    }

    /// Connects to the node without saying who one is: for data.
    pub fn connect(&self) -> io::Result<TcpStream> {
        connect(&self.node.address)
    }

    /// A new control connection.
    pub fn channel(&self) -> Result<Channel> {
        let name = tls::name_of(&self.node.name)?;
        self.dial(name).map_err(|error| self.blame(error))
    }

    fn dial(&self, name: ServerName<'static>) -> io::Result<Channel> {
        let stream = connect(&self.node.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(CONNECT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        let client = ClientConnection::new(Arc::clone(&self.config), name);
        let mut tls = StreamOwned::new(client.map_err(io::Error::other)?, stream);
        wire::greet(&mut tls)?;
        wire::expect_greeting(&mut tls)?;
        tls.sock.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Channel {
            stream: tls,
            limits: Arc::clone(&self.limits),
        })
    }

    /// How the node is.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn status(&self) -> Result<Status> {
        match self.ask(&Request::Status, &[])? {
            Reply::Status(status) => Ok(status),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Asks over an idle connection, or a new one; a connection that was idle may have been closed
    /// meanwhile.
    pub fn ask(&self, request: &Request, parts: &[&[u8]]) -> Result<Reply> {
        self.with(|channel| channel.ask(request, parts))
    }

    /// Asks, and leaves it to whoever wants the answer to wait for it.
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
                // The node was started anew, or the others are as old: all of them go.
                Err(error) if is_closed(&error) => lock(&self.idle).clear(),
                Err(error) => return Err(self.blame(error)),
            }
        }
        let mut channel = self.channel()?;
        let done = act(&mut channel).map_err(|error| self.blame(error))?;
        lock(&self.idle).push(channel);
        Ok(done)
    }

    /// An error on the way to the node: as long as it lasts the node is not to be used.
    pub(super) fn blame(&self, error: io::Error) -> StorageError {
        let certificate = error.get_ref().and_then(|error| error.downcast_ref());
        let why = match error.kind() {
            _ if certificate.is_some_and(tls::is_about_time) => format!(
                "{error}. Is the clock wrong, here or there? Certificates are valid from a day before they were made, for ten years"
            ),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it does not answer".to_owned(),
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                "it has closed the connection (its log says why)".to_owned()
            }
            _ => error.to_string(),
        };
        let text = format!("node {} ({}): {why}", self.node.name, self.node.address);
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
    /// Waits for the answer.
    pub fn answer(mut self) -> Result<Reply> {
        let answer = self.channel.receive();
        let answer = answer.map_err(|error| self.node.blame(error))?;
        lock(&self.node.idle).push(self.channel);
        Ok(answer)
    }
}

/// Connects to one of the addresses of a host.
pub fn connect(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "it has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => {
                watch(&stream)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Lets the system notice, also while nothing is sent, when the peer's machine is gone or cannot be
/// reached any more: that takes no longer than a node may stall.
fn watch(stream: &TcpStream) -> io::Result<()> {
    use rustix::net::sockopt;
    sockopt::set_socket_keepalive(stream, true)?;
    #[cfg(target_os = "linux")]
    {
        sockopt::set_tcp_keepidle(stream, PROBE_TIMEOUT)?;
        sockopt::set_tcp_keepintvl(stream, PROBE_TIMEOUT)?;
        sockopt::set_tcp_user_timeout(stream, STALL_TIMEOUT.as_millis() as u32)?;
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
        format!("node {}", self.node.name)
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

    fn remove_leftovers(&self, age: Duration) -> Result<u64> {
        self.count(&Request::RemoveLeftovers(age.as_secs()))
    }
}
