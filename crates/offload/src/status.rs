//! The status of a server.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use serde::{Deserialize, Serialize};

use crate::layout::{Want, hello};

/// A server, now.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Status {
    /// Seconds since it began.
    pub seconds: f64,
    /// Clients that had something to do of late.
    pub active: usize,
    /// Messages that wait or are worked on now.
    pub depth: usize,
    /// From how many bytes on clients are told to ask, for each thing that can be done; none if it
    /// is not worth it now.
    pub from_bytes: Vec<(String, Option<u32>)>,
    /// The server's threads.
    pub units: Vec<UnitStatus>,
    /// The card, if any. Its messages were taken by units, and are counted there too.
    pub cards: Vec<CardStatus>,
    /// The connected clients.
    pub clients: Vec<ClientStatus>,
    /// The most clients connected at a time.
    pub clients_max: usize,
    /// Histogram of messages by the microseconds within the service, as upper bounds; the last
    /// class has longer ones.
    pub latencies: Vec<(u64, u64)>,
}

/// A thread of a server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct UnitStatus {
    /// The core that it is pinned to.
    pub core: usize,
    /// Bundles that it has done.
    pub bundles: u64,
    /// Messages in them.
    pub messages: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Seconds that they took.
    pub busy_seconds: f64,
}

/// A graphics card of a server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CardStatus {
    /// As its driver calls it.
    pub name: String,
    /// Bundles that it has done.
    pub bundles: u64,
    /// Bytes of their messages.
    pub bytes: u64,
    /// Seconds that they took.
    pub busy_seconds: f64,
}

/// A client of a server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ClientStatus {
    /// Process ID of the client.
    pub pid: i32,
    /// The user.
    pub uid: u32,
    /// Whether it had something to do of late.
    pub active: bool,
    /// Messages that were done for it.
    pub messages: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Messages that made no sense.
    pub refused: u64,
}

impl Status {
    /// Messages in a bundle, on average.
    pub fn fill(&self) -> f64 {
        let sum = |of: fn(&UnitStatus) -> u64| self.units.iter().map(of).sum::<u64>() as f64;
        sum(|unit| unit.messages) / sum(|unit| unit.bundles).max(1.0)
    }

    /// Microseconds within the service that such a part of the messages took at most; nothing if
    /// there were none.
    pub fn latency_us(&self, part: f64) -> Option<u64> {
        let all: u64 = self.latencies.iter().map(|(_, messages)| messages).sum();
        if all == 0 {
            return None;
        }
        let mut left = (part * all as f64).ceil() as u64;
        for &(us, messages) in &self.latencies {
            if left <= messages {
                return Some(us);
            }
            left -= messages;
        }
        None
    }
}

/// Asks the server with this socket.
///
/// # Errors
/// There is none, it may not be asked, or it speaks another version. `ConnectionReset`: it has no
/// room for the question.
pub fn status(service: &Path) -> io::Result<Status> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(service)?)?;
    let timeout = Some(Duration::from_secs(5));
    rustix::net::sockopt::set_socket_timeout(
        &socket,
        rustix::net::sockopt::Timeout::Recv,
        timeout,
    )?;
    let no_room = |error| match error {
        Errno::PIPE | Errno::CONNRESET => io::Error::from(ErrorKind::ConnectionReset),
        other => other.into(),
    };
    rustix::net::send(&socket, &hello(Want::Status), SendFlags::NOSIGNAL).map_err(no_room)?;
    let mut text = Vec::new();
    loop {
        let mut piece = vec![0; STATUS_PIECE_BYTES];
        let received = rustix::net::recv(&socket, &mut piece[..], RecvFlags::empty());
        let (_, len) = received.map_err(no_room)?;
        if len == 0 {
            break;
        }
        text.extend_from_slice(&piece[..len]);
    }
    if text.is_empty() {
        return Err(io::Error::new(
            ErrorKind::Unsupported,
            "the service speaks another version",
        ));
    }
    serde_json::from_slice(&text).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

/// Bytes of a message with a part of a status.
pub(crate) const STATUS_PIECE_BYTES: usize = 16 << 10;
