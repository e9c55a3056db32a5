//! What clients and nodes say to each other. `docs/reference/wire.md` describes it whole.

use std::fmt;
use std::io::{self, Read, Write};
use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use tabane_fabric::Flow;
use tabane_lanes::aes::LinearMac;
use tabane_storage::{Id, Listed, Name, ObjectKind, StorageError, StorageErrorKind};

use crate::tags::Tag;

/// The latest version of the protocol that this program speaks. Of two peers, the one with the
/// later version speaks that of the other.
pub const VERSION: u16 = 5;

/// The earliest version of the protocol that this program speaks.
const VERSION_MIN: u16 = 5;

/// With this begins what is said over TLS.
const CONTROL_MAGIC: &[u8; 8] = b"TABANE.c";

/// With this begins a connection for data.
pub const DATA_MAGIC: &[u8; 8] = b"TABANE.d";

/// No request is longer, in bytes, but for the object that comes behind some.
pub const REQUEST_MAX: usize = 1 << 20;

/// No reply is longer, but for the object that comes behind some: a list of several million
/// objects.
pub const REPLY_MAX: usize = 256 << 20;

/// Bytes of a node's file system that new packs leave free, so that what is small can still be
/// written, and everything deleted. With less than this free a node is full.
pub const RESERVE_BYTES: u64 = 16 << 20;

/// Permits one connection to write into one ring. It is told in clear.
pub type Token = [u8; 32];

/// What who writes into a ring needs.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pass {
    /// Lets in once.
    pub token: Token,
    /// Seals the frames. Only the two ends of the connection and the client of the session know it.
    pub key: [u8; 32],
}

impl Pass {
    /// A new one.
    pub fn random() -> Self {
        Self {
            token: random_id(),
            key: random_id(),
        }
    }
}

impl fmt::Debug for Pass {
    /// No secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pass")
    }
}

/// Names a client's session at all nodes.
pub type SessionId = [u8; 16];

/// What a client asks of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// [`Storage::create`](tabane_storage::Storage::create).
    Create,
    /// Puts an object of so many bytes, which follow.
    Put(Name, u64),
    /// Reads an object, or a range of it.
    Get(Name, Option<(u64, u64)>),
    /// Lists the objects of a kind.
    List(ObjectKind),
    /// Asks for an object's length.
    Stat(Name),
    /// Removes an object.
    Delete(Name),
    /// Removes what was left behind, if it is so many seconds old.
    RemoveLeftovers(u64),
    /// How is the node?
    Status,
    /// Opens a session, which lasts as long as this connection, with a ring for the client and for
    /// each other member.
    Open(Open),
    /// Connects to the rings of the other members; the node's own place in the list is `None`.
    Join(SessionId, Vec<Option<Peer>>),
    /// Takes part in a stripe. The answer comes when the node's part of it is durable.
    Stripe(SessionId, Stripe),
    /// What goes through the node's links?
    Usage(SessionId),
    /// Takes a list of withdrawn certificates, which the cluster's authority has signed.
    Withdraw(Vec<u8>),
    /// Which shards has the node found damaged?
    Doubts,
}

/// A session that is to be opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// Chosen by the client.
    pub session: SessionId,
    /// Nodes that take part.
    pub members: u8,
    /// Number of the asked node among the members.
    pub me: u8,
    /// Bytes of the ring for the client.
    pub client_ring: u32,
    /// Bytes of the ring for each other member.
    pub peer_ring: u32,
}

/// Where another member is, and what lets one in there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// The name of the node, which its certificate has to have.
    pub name: String,
    /// Host and port.
    pub address: String,
    /// For the peer's ring that is reserved for this node.
    pub pass: Pass,
    /// Bytes of that ring.
    pub ring: u32,
    /// Where libfabric reaches it, if it does.
    pub fabric: Option<FabricAddress>,
}

/// Where a node takes data by libfabric. As text it is `PROVIDER@HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FabricAddress {
    /// What moves the bytes: `verbs`, `tcp`.
    pub provider: String,
    /// In the network for data.
    pub host: String,
    /// 0 is any, for who listens.
    pub port: u16,
}

impl FromStr for FabricAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('@').and_then(|(provider, address)| {
            let (host, port) = address.rsplit_once(':')?;
            let host = host.trim_start_matches('[').trim_end_matches(']');
            let is_whole = !provider.is_empty() && !host.is_empty();
            is_whole.then_some((provider, host, port.parse().ok()?))
        });
        let Some((provider, host, port)) = parts else {
            return Err("it is PROVIDER@HOST:PORT, as in verbs@10.1.0.1:7442".to_owned());
        };
        if ["0.0.0.0", "::"].contains(&host) {
            return Err(
                "others are told this address, so it cannot be that of any network".to_owned(),
            );
        }
        let [provider, host] = [provider, host].map(str::to_owned);
        Ok(Self {
            provider,
            host,
            port,
        })
    }
}

impl fmt::Display for FabricAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            provider,
            host,
            port,
        } = self;
        if host.contains(':') {
            write!(f, "{provider}@[{host}]:{port}")
        } else {
            write!(f, "{provider}@{host}:{port}")
        }
    }
}

/// The announcement of a stripe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stripe {
    /// Counts the stripes of a session, from 0.
    pub number: u64,
    /// The object.
    pub name: Name,
    /// Its bytes.
    pub object_len: u64,
    /// The generation of its stripe.
    pub generation: u8,
    /// The tag in the headers of a tagged stripe; without it the stripe is plain.
    pub seal: Option<Tag>,
    /// For each role the member that stores it.
    pub by_role: Vec<u8>,
    /// Where its cells come from.
    pub source: Source,
    /// The most sectors that the nodes' transfers may lag behind the client's.
    pub lag: u8,
}

/// Where the cells of a stripe come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// It is new: the client sends the data.
    Client {
        /// The names of the schedules by which it goes.
        schedules: Vec<String>,
        /// For each sector, the number of its schedule among them.
        by_sector: Vec<u8>,
    },
    /// It is there, and nodes rebuild what a role keeps.
    Nodes {
        /// The role.
        role: u8,
        /// Those that lack it, too.
        others: Vec<u8>,
        /// Whether it goes slowly while clients write.
        yields: bool,
    },
}

/// What a node answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// It is done.
    Done,
    /// The node's part of a stripe is durable, if it has one.
    Stored,
    /// So many.
    Count(u64),
    /// So many bytes, which follow.
    Bytes(u64),
    /// The objects of a kind.
    List(Vec<Listed>),
    /// Passes for writing into the rings, for each member and then for the client; and the address
    /// of the rings for libfabric, if any.
    Opened(Vec<Pass>, Option<FabricAddress>),
    /// The node is connected; the number of clients that joined or sent stripes lately.
    Joined(u16),
    /// How the node is.
    Status(Status),
    /// The request failed.
    Failed(StorageErrorKind, String),
    /// What goes through the node's links.
    Usage(Usage),
    /// Shards that are damaged.
    Names(Vec<Name>),
}

/// What goes through the links of a member of a session. Counters only grow; those of flows count
/// from the beginning of the session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The time of the member's clock, in microseconds since any moment.
    pub at_us: u64,
    /// Clients that have sent stripes lately.
    pub clients: u16,
    /// Bytes that came from clients and nodes, in all sessions.
    pub received_bytes: u64,
    /// Bytes that went to nodes, in all sessions.
    pub sent_bytes: u64,
    /// What it has sent each node of this session.
    pub flows: Vec<FlowUsage>,
}

/// What one member has sent another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowUsage {
    /// Bytes that were handed to the network.
    pub sent: u64,
    /// Those of them that were handed over when earlier bytes had not left yet.
    pub behind: u64,
    /// Bytes that have arrived.
    pub arrived: u64,
}

impl From<&Flow> for FlowUsage {
    fn from(flow: &Flow) -> Self {
        Self {
            sent: flow.sent(),
            behind: flow.behind(),
            arrived: flow.arrived(),
        }
    }
}

/// How a node is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The version of its program.
    pub version: String,
    /// For how long it has been running.
    pub uptime_s: u64,
    /// Bytes that are free where it keeps its shards.
    pub free_bytes: u64,
    /// Sessions that are open.
    pub sessions: u64,
    /// Stripes of which it has made its part durable.
    pub stripes: u64,
    /// Bytes that it has stored of them.
    pub stored_bytes: u64,
    /// Bytes that it has sent to other nodes for them.
    pub relayed_bytes: u64,
    /// The number of its list of withdrawn certificates; 0 without any.
    pub withdrawn: u64,
    /// When its certificate ends, in seconds since 1970, if that is known.
    pub certificate_until: Option<u64>,
    /// Bytes that its shards may take, if that is limited.
    pub quota_bytes: Option<u64>,
    /// What came of the last scrub, if there was one.
    pub scrub: Option<Scrub>,
}

/// What a node has found when it read everything that it keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scrub {
    /// When it began and ended, by the node's clock, in seconds since 1970.
    pub begun_s: u64,
    /// When it ended.
    pub ended_s: u64,
    /// Shards that were read.
    pub shards: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Shards that were damaged, and have not been replaced since.
    pub damaged: u64,
}

/// The kinds of error that version 5 of the protocol has, by their numbers. Other kinds are sent as
/// `Permanent`.
const SENT_KINDS: [StorageErrorKind; 10] = [
    StorageErrorKind::NotFound,
    StorageErrorKind::AlreadyExists,
    StorageErrorKind::PastEnd,
    StorageErrorKind::NotEmpty,
    StorageErrorKind::Denied,
    StorageErrorKind::ReadOnly,
    StorageErrorKind::Full,
    StorageErrorKind::SessionOver,
    StorageErrorKind::Permanent,
    StorageErrorKind::Unauthorized,
];

impl Reply {
    /// What tells of an error.
    pub fn failed(error: &StorageError) -> Self {
        let kind = if SENT_KINDS.contains(&error.kind()) {
            error.kind()
        } else {
            StorageErrorKind::Permanent
        };
        Self::Failed(kind, error.to_string())
    }
}

/// Sends the greeting with which both sides of a control connection begin.
///
/// # Errors
/// When the peer is gone.
pub fn greet(stream: &mut impl Write) -> io::Result<()> {
    stream.write_all(&greeting(CONTROL_MAGIC))?;
    stream.flush()
}

/// Reads the peer's greeting; returns the version that both speak.
///
/// # Errors
/// When the peer speaks something else, or a version that is too old.
pub fn expect_greeting(stream: &mut impl Read) -> io::Result<u16> {
    check_greeting(stream, CONTROL_MAGIC)
}

/// The greeting of a version and purpose.
pub fn greeting(magic: &[u8; 8]) -> [u8; 10] {
    let mut greeting = [0; 10];
    greeting[..8].copy_from_slice(magic);
    greeting[8..].copy_from_slice(&VERSION.to_le_bytes());
    greeting
}

/// Reads a greeting for this purpose.
///
/// # Errors
/// As [`expect_greeting`].
pub fn check_greeting(stream: &mut impl Read, magic: &[u8; 8]) -> io::Result<u16> {
    let mut found = [0; 10];
    stream.read_exact(&mut found)?;
    let (found_magic, version) = found.split_at(8);
    if found_magic != magic {
        return Err(invalid("the peer does not speak Tabane's protocol"));
    }
    let version = u16::from_le_bytes([version[0], version[1]]);
    if version >= VERSION_MIN {
        return Ok(version.min(VERSION));
    }
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        format!(
            "the peer speaks version {version} of the protocol, and this program versions \
             {VERSION_MIN} to {VERSION}: install a newer version there"
        ),
    ))
}

/// Sends a message: its length, in 4 bytes, and the message in postcard's format. Nothing is
/// flushed.
///
/// # Errors
/// When the peer is gone.
pub fn send(stream: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut bytes = vec![0; 4];
    bytes = postcard::to_extend(message, bytes).map_err(|error| invalid(&error.to_string()))?;
    let len = (bytes.len() - 4) as u32;
    bytes[..4].copy_from_slice(&len.to_le_bytes());
    stream.write_all(&bytes)
}

/// Receives a message of at most so many bytes.
///
/// # Errors
/// [`io::ErrorKind::UnexpectedEof`] when the peer has closed the connection;
/// [`io::ErrorKind::InvalidData`] when this is no
/// such message.
pub fn receive<T: DeserializeOwned>(stream: &mut impl Read, max: usize) -> io::Result<T> {
    let mut len = [0; 4];
    stream.read_exact(&mut len)?;
    let len = u32::from_le_bytes(len) as usize;
    if len > max {
        return Err(invalid(&format!("a message of {len} bytes is too long")));
    }
    // The buffer grows with the bytes received: an announced length alone takes no memory.
    let mut bytes = Vec::new();
    stream.take(len as u64).read_to_end(&mut bytes)?;
    if bytes.len() < len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let (message, rest) =
        postcard::take_from_bytes(&bytes).map_err(|_| invalid("the message is malformed"))?;
    match rest {
        [] => Ok(message),
        _ => Err(invalid("a message with something behind it")),
    }
}

/// What stands before the bytes of each frame of a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// The stripe.
    pub stripe: u64,
    /// Which sector of the cells this is.
    pub sector: u32,
    /// Which of the transfers that go from this sender to this receiver.
    pub index: u32,
}

/// Bytes of a [`FrameHeader`] and of what authenticates it and the payload.
pub const FRAME_HEADER_LEN: usize = 32;

impl FrameHeader {
    fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.stripe.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.sector.to_le_bytes());
        bytes[12..].copy_from_slice(&self.index.to_le_bytes());
        bytes
    }

    /// A number that no other frame of the same ring has; not 0.
    fn place(self) -> u128 {
        let [sector, index] = [self.sector, self.index].map(u128::from);
        u128::from(self.stripe) << 64 | sector << 32 | (index + 1)
    }
}

/// Seals the frames that go into one ring, and opens them there.
pub struct FrameKey(LinearMac);

impl FrameKey {
    /// The key of a [`Pass`].
    pub fn new(key: &[u8; 32]) -> Self {
        Self(LinearMac::new(key))
    }

    /// The header of a frame whose payload is these parts, which are whole blocks of 16 bytes.
    pub fn seal(&self, header: FrameHeader, payload: &[&[u8]]) -> [u8; FRAME_HEADER_LEN] {
        let mut bytes = [0; FRAME_HEADER_LEN];
        let (start, tag) = bytes.split_at_mut(16);
        start.copy_from_slice(&header.to_bytes());
        let sum = self.0.hash(payload) ^ self.0.mask(header.place());
        tag.copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    /// Checks a received frame against the expected header and returns its payload of `len` bytes.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`].
    pub fn open<'f>(
        &self,
        header: FrameHeader,
        frame: &'f [u8],
        len: usize,
    ) -> io::Result<&'f [u8]> {
        let Some((found, payload)) = frame.split_at_checked(FRAME_HEADER_LEN) else {
            return Err(invalid("a frame is too short"));
        };
        if payload.len() != len || *found != self.seal(header, &[payload]) {
            return Err(invalid(
                "a frame is not the expected one, or was changed on its way",
            ));
        }
        Ok(payload)
    }
}

/// The error for a malformed message of a peer, read from a stream.
pub(super) fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// The error for a malformed request of a peer.
pub fn malformed(text: &str) -> StorageError {
    StorageError::new(StorageErrorKind::Malformed, text)
}

/// The ID of a session or a token.
pub fn random_id<const N: usize>() -> [u8; N] {
    tabane_storage::random()
}

/// What a cluster is named by.
pub fn new_cluster_id() -> Id {
    Id(tabane_storage::random())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, UNIX_EPOCH};

    use tabane_fabric::{Endpoint, Queued, Sender};

    use super::*;

    #[test]
    fn messages_come_back_and_garbage_does_not() {
        let request = Request::Put(Name::CONFIG, 77);
        let mut bytes = Vec::new();
        send(&mut bytes, &request).unwrap();
        assert_eq!(
            receive::<Request>(&mut bytes.as_slice(), 100).unwrap(),
            request
        );
        for len in 0..bytes.len() {
            let error = receive::<Request>(&mut &bytes[..len], 100).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
        let long = receive::<Request>(&mut [0xff_u8; 64].as_slice(), REQUEST_MAX).unwrap_err();
        assert!(long.to_string().contains("too long"));
        for first in 0..=255_u8 {
            let bytes = [8, 0, 0, 0, first, 255, 3, 9, 200, 200, 200, 200];
            // Arbitrary bytes must not cause a panic.
            let _ = receive::<Request>(&mut bytes.as_slice(), 100);
            let _ = receive::<Reply>(&mut bytes.as_slice(), 100);
        }
    }

    /// Nodes and clients of other releases have these numbers, which must not change.
    #[test]
    fn errors_are_sent_as_they_have_always_been() {
        for (number, kind) in (0..).zip(SENT_KINDS) {
            let reply = Reply::failed(&StorageError::new(kind, "why"));
            let bytes = postcard::to_allocvec(&reply).unwrap();
            assert_eq!(bytes, [8, number, 3, b'w', b'h', b'y'], "{kind:?}");
            assert_eq!(postcard::from_bytes::<Reply>(&bytes).unwrap(), reply);
        }
        for kind in StorageErrorKind::ALL {
            let Reply::Failed(sent, _) = Reply::failed(&kind.into()) else {
                panic!("it is a failure");
            };
            let is_sent = SENT_KINDS.contains(&kind);
            assert_eq!(sent == kind, is_sent, "{kind:?}");
            assert!(is_sent || sent == StorageErrorKind::Permanent, "{kind:?}");
        }
    }

    #[test]
    fn addresses_of_libfabric_are_read_as_they_are_written() {
        for text in [
            "verbs@10.1.0.1:7442",
            "tcp@[fd00::1]:0",
            "net@data.example:65535",
        ] {
            assert_eq!(text.parse::<FabricAddress>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "verbs",
            "verbs@",
            "@a:1",
            "verbs@:1",
            "verbs@a",
            "verbs@a:65536",
            "verbs@0.0.0.0:1",
            "verbs@[::]:1",
        ] {
            assert!(text.parse::<FabricAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn another_protocol_and_older_versions_are_refused() {
        let greet = |version: u16| {
            let mut bytes = greeting(CONTROL_MAGIC);
            bytes[8..].copy_from_slice(&version.to_le_bytes());
            expect_greeting(&mut bytes.as_slice())
        };
        assert_eq!(greet(VERSION).unwrap(), VERSION);
        // A peer with a later version speaks this one.
        assert_eq!(greet(VERSION + 1).unwrap(), VERSION);
        let error = greet(VERSION_MIN - 1).unwrap_err();
        assert!(error.to_string().contains("version 4"), "{error}");
        let other = check_greeting(&mut greeting(DATA_MAGIC).as_slice(), CONTROL_MAGIC);
        assert!(other.unwrap_err().to_string().contains("does not speak"));
    }

    /// A frame is opened as it was sealed, in its place, and in no other way: bits are flipped in
    /// it, parts are put in other places, what other frames have is added to it.
    #[test]
    fn ten_thousand_forged_frames_are_refused() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = move |end: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % end as u64) as usize
        };
        let key = FrameKey::new(&[7; 32]);
        let header = |number: u64| FrameHeader {
            stripe: number / 5,
            sector: (number % 5) as u32,
            index: (number % 3) as u32,
        };
        let frames: Vec<Vec<u8>> = (0..10)
            .map(|number| {
                let payload: Vec<u8> = (0..1024).map(|_| below(256) as u8).collect();
                let frame = key.seal(header(number), &[&payload[..1008], &payload[1008..]]);
                frame.into_iter().chain(payload).collect()
            })
            .collect();
        for number in 0..10_000 {
            let at = below(frames.len());
            let header = header(at as u64);
            let sound = &frames[at];
            assert!(key.open(header, sound, 1024).is_ok());
            let mut forged = sound.clone();
            match number % 5 {
                0 => forged[below(sound.len())] ^= 1 << below(8),
                1 => forged.copy_from_slice(&frames[(at + 1 + below(9)) % 10]),
                2 => {
                    let other = &frames[(at + 1 + below(9)) % 10];
                    let third = &frames[(at + 1 + below(9)) % 10];
                    let bytes = forged.iter_mut().zip(other.iter().zip(third));
                    bytes.for_each(|(byte, (a, b))| *byte ^= a ^ b);
                    forged[..16].copy_from_slice(&sound[..16]);
                    forged[1000] ^= u8::from(other == third);
                }
                3 => {
                    let (a, b) = (32 + 16 * below(64), 32 + 16 * below(63));
                    let b = if a == b { 32 + 16 * 63 - (b - 32) } else { b };
                    (0..16).for_each(|byte| forged.swap(a + byte, b + byte));
                    forged[40] ^= u8::from(forged == *sound);
                }
                _ => forged[16..]
                    .iter_mut()
                    .for_each(|byte| *byte = below(256) as u8),
            }
            assert!(key.open(header, &forged, 1024).is_err(), "{number}");
            assert!(key.open(header, &forged[..below(1056)], 1024).is_err());
        }
        let other = FrameKey::new(&[8; 32]);
        assert!(other.open(header(0), &frames[0], 1024).is_err());
        assert!(key.open(header(1), &frames[0], 1024).is_err());
        assert!(key.open(header(0), &frames[0], 1008).is_err());
    }

    #[test]
    fn a_greeting_is_the_name_of_the_protocol_and_the_version() {
        let mut sent = Vec::new();
        greet(&mut sent).unwrap();
        assert_eq!(sent, *b"TABANE.c\x05\0");
        assert_eq!(greeting(DATA_MAGIC), *b"TABANE.d\x05\0");
        let greeted = |bytes: &[u8]| expect_greeting(&mut &bytes[..]);
        assert_eq!(greeted(b"TABANE.c\x05\0").unwrap(), 5);
        // 256 and 5, the lower byte first.
        assert_eq!(greeted(b"TABANE.c\x05\x01").unwrap(), 5);
        let kind = |bytes: &[u8]| greeted(bytes).unwrap_err().kind();
        assert_eq!(kind(b"TABANE.c\x04\0"), io::ErrorKind::Unsupported);
        assert_eq!(kind(b"TABANE.d\x05\0"), io::ErrorKind::InvalidData);
        assert_eq!(kind(b"TABANE.c\x05"), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn limits_are_those_of_the_reference() {
        assert_eq!(REQUEST_MAX, 1024 * 1024);
        assert_eq!(REPLY_MAX, 256 * 1024 * 1024);
        assert_eq!(RESERVE_BYTES, 16 * 1024 * 1024);
    }

    #[test]
    fn a_message_may_be_as_long_as_its_limit_and_no_longer() {
        let message = Request::Withdraw(vec![1; 20]);
        let mut bytes = Vec::new();
        send(&mut bytes, &message).unwrap();
        assert_eq!(bytes[..6], [22, 0, 0, 0, 12, 20]);
        let received = |max: usize| receive::<Request>(&mut bytes.as_slice(), max);
        assert_eq!(received(22).unwrap(), message);
        let error = received(21).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert_eq!(error.to_string(), "a message of 22 bytes is too long");
    }

    #[test]
    fn a_message_with_a_byte_too_few_or_too_many_is_refused() {
        let refused = |bytes: &[u8]| {
            let error = receive::<Request>(&mut &bytes[..], 100).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{bytes:?}");
            error.to_string()
        };
        assert_eq!(refused(&[0, 0, 0, 0]), "the message is malformed");
        assert_eq!(refused(&[1, 0, 0, 0, 14]), "the message is malformed");
        assert_eq!(refused(&[2, 0, 0, 0, 3, 14]), "the message is malformed");
        assert_eq!(refused(&[2, 0, 0, 0, 12, 1]), "the message is malformed");
        let behind = "a message with something behind it";
        assert_eq!(refused(&[2, 0, 0, 0, 7, 0]), behind);
        // What comes behind a message on the connection is not its own.
        let mut stream = &[1, 0, 0, 0, 7, 99][..];
        let message = receive::<Request>(&mut stream, 100).unwrap();
        assert_eq!((message, stream), (Request::Status, &[99][..]));
    }

    /// A message is its length in 4 bytes and these bytes, and is read from them.
    #[track_caller]
    fn assert_bytes<T>(message: &T, expected: &[&[u8]])
    where
        T: Serialize + DeserializeOwned + PartialEq + fmt::Debug,
    {
        let expected = expected.concat();
        let mut bytes = Vec::new();
        send(&mut bytes, message).unwrap();
        assert_eq!(bytes[..4], (expected.len() as u32).to_le_bytes());
        assert_eq!(bytes[4..], expected, "{message:?}");
        let received = receive::<T>(&mut bytes.as_slice(), expected.len());
        assert_eq!(received.unwrap(), *message);
    }

    /// Peers of other releases send and expect these bytes of version 5, which must not change.
    #[test]
    fn requests_have_the_bytes_of_version_5() {
        let pack = Name::new(ObjectKind::Pack, Id([7; 32]));
        let name = [&[4_u8][..], &[7; 32]].concat();
        let session = [9_u8; 16];
        assert_bytes(&Request::Create, &[&[0]]);
        assert_bytes(&Request::Put(pack, 300), &[&[1], &name, &[0xac, 2]]);
        assert_bytes(&Request::Get(pack, None), &[&[2], &name, &[0]]);
        let range = Request::Get(pack, Some((1, 128)));
        assert_bytes(&range, &[&[2], &name, &[1, 1, 0x80, 1]]);
        assert_bytes(&Request::List(ObjectKind::Snapshot), &[&[3, 2]]);
        assert_bytes(&Request::Stat(pack), &[&[4], &name]);
        assert_bytes(&Request::Delete(pack), &[&[5], &name]);
        assert_bytes(&Request::RemoveLeftovers(60), &[&[6, 60]]);
        assert_bytes(&Request::Status, &[&[7]]);
        let open = Open {
            session,
            members: 5,
            me: 2,
            client_ring: 1 << 20,
            peer_ring: 127,
        };
        let rings = [5, 2, 0x80, 0x80, 0x40, 127];
        assert_bytes(&Request::Open(open), &[&[8], &session, &rings]);
        let peer = Peer {
            name: "b".to_owned(),
            address: "c:1".to_owned(),
            pass: Pass {
                token: [1; 32],
                key: [2; 32],
            },
            ring: 5,
            fabric: Some("tcp@h:9".parse().unwrap()),
        };
        assert_bytes(
            &Request::Join(session, vec![None, Some(peer)]),
            &[
                &[9],
                &session,
                b"\x02\0\x01\x01b\x03c:1",
                &[1; 32],
                &[2; 32],
                b"\x05\x01\x03tcp\x01h\x09",
            ],
        );
        assert_bytes(&Request::Usage(session), &[&[11], &session]);
        assert_bytes(&Request::Withdraw(vec![1, 2]), &[&[12, 2, 1, 2]]);
        assert_bytes(&Request::Doubts, &[&[13]]);
    }

    #[test]
    fn stripes_have_the_bytes_of_version_5() {
        let session = [9_u8; 16];
        let stripe = Stripe {
            number: 1,
            name: Name::new(ObjectKind::Pack, Id([7; 32])),
            object_len: 2,
            generation: 3,
            seal: Some([6; 16]),
            by_role: vec![2, 0, 1],
            source: Source::Client {
                schedules: vec!["direct".to_owned(), "chain".to_owned()],
                by_sector: vec![1],
            },
            lag: 3,
        };
        let rebuilt = Stripe {
            seal: None,
            source: Source::Nodes {
                role: 1,
                others: vec![2],
                yields: true,
            },
            ..stripe.clone()
        };
        let start = [&[10], &session[..], &[1, 4], &[7; 32], &[2, 3]].concat();
        let of_client = b"\x03\x02\0\x01\0\x02\x06direct\x05chain\x01\x01\x03";
        let stripe = Request::Stripe(session, stripe);
        assert_bytes(&stripe, &[&start, &[1], &[6; 16], of_client]);
        let rebuilt = Request::Stripe(session, rebuilt);
        let of_nodes = [3, 2, 0, 1, 1, 1, 1, 2, 1, 3];
        assert_bytes(&rebuilt, &[&start, &[0], &of_nodes]);
    }

    #[test]
    fn replies_have_the_bytes_of_version_5() {
        assert_bytes(&Reply::Done, &[&[0]]);
        assert_bytes(&Reply::Stored, &[&[1]]);
        assert_bytes(&Reply::Count(300), &[&[2, 0xac, 2]]);
        assert_bytes(&Reply::Bytes(1), &[&[3, 1]]);
        let listed = Listed {
            id: Id([7; 32]),
            len: 2,
            modified: UNIX_EPOCH + Duration::new(300, 5),
        };
        assert_bytes(
            &Reply::List(vec![listed]),
            &[&[4, 1], &[7; 32], &[2, 0xac, 2, 5]],
        );
        let pass = Pass {
            token: [1; 32],
            key: [2; 32],
        };
        let opened = Reply::Opened(vec![pass], None);
        assert_bytes(&opened, &[&[5, 1], &[1; 32], &[2; 32], &[0]]);
        assert_bytes(&Reply::Joined(3), &[&[6, 3]]);
        let status = Status {
            version: "v".to_owned(),
            uptime_s: 1,
            free_bytes: 2,
            sessions: 3,
            stripes: 4,
            stored_bytes: 5,
            relayed_bytes: 6,
            withdrawn: 7,
            certificate_until: Some(8),
            quota_bytes: None,
            scrub: Some(Scrub {
                begun_s: 9,
                ended_s: 10,
                shards: 11,
                bytes: 12,
                damaged: 13,
            }),
        };
        let numbers = [1, 2, 3, 4, 5, 6, 7, 1, 8, 0, 1, 9, 10, 11, 12, 13];
        assert_bytes(&Reply::Status(status), &[&[7, 1, b'v'], &numbers]);
        let usage = Usage {
            at_us: 1,
            clients: 2,
            received_bytes: 3,
            sent_bytes: 4,
            flows: vec![FlowUsage {
                sent: 5,
                behind: 6,
                arrived: 7,
            }],
        };
        assert_bytes(&Reply::Usage(usage), &[&[9, 1, 2, 3, 4, 1, 5, 6, 7]]);
        let names = Reply::Names(vec![Name::new(ObjectKind::Key, Id([8; 32]))]);
        assert_bytes(&names, &[&[10, 1, 1], &[8; 32]]);
    }

    /// The tag of a frame of zeros is the encryption of stripe, sector and index plus 1.
    /// Here they are the block of the AES-256 example in FIPS 197, and the key is that of the
    /// example. The block of 16 bytes that is 1 in the field of GCM has the hash H, the encryption
    /// of zeros.
    #[test]
    fn the_header_of_a_frame_has_the_bytes_of_the_reference() {
        let secret: [u8; 32] = std::array::from_fn(|at| at as u8);
        let key = FrameKey::new(&secret);
        let header = FrameHeader {
            stripe: 0x0011_2233_4455_6677,
            sector: 0x8899_aabb,
            index: 0xccdd_eefe,
        };
        let place = [
            0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x00, 0xbb, 0xaa, 0x99, 0x88, 0xfe, 0xee,
            0xdd, 0xcc,
        ];
        let of_zeros = 0x8ea2_b7ca_5167_45bf_eafc_4990_4b49_6089_u128;
        let hash_of_one = 0xf290_00b6_2a49_9fd0_a9f3_9a6a_dd2e_7780_u128;
        let mut one = [0; 16];
        one[0] = 0x80;
        for (payload, tag) in [([0; 16], of_zeros), (one, of_zeros ^ hash_of_one)] {
            let sealed = key.seal(header, &[&payload]);
            assert_eq!(sealed[..16], place);
            assert_eq!(sealed[16..], tag.to_be_bytes());
            let frame = [&sealed[..], &payload].concat();
            assert_eq!(key.open(header, &frame, 16).unwrap(), payload);
        }
    }

    #[test]
    fn a_frame_is_refused_by_an_error_that_says_why() {
        let key = FrameKey::new(&[7; 32]);
        let header = FrameHeader {
            stripe: 0,
            sector: 0,
            index: 0,
        };
        let sound = [&key.seal(header, &[&[5; 16]])[..], &[5; 16]].concat();
        let refused = |frame: &[u8], len: usize| {
            let error = key.open(header, frame, len).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            error.to_string()
        };
        assert_eq!(refused(&sound[..31], 0), "a frame is too short");
        let changed = "a frame is not the expected one, or was changed on its way";
        assert_eq!(refused(&sound[..32], 16), changed);
        assert_eq!(refused(&sound, 0), changed);
        assert_eq!(key.open(header, &sound, 16).unwrap(), [5; 16]);
        // Without a payload, too, the header has to be right.
        let empty = key.seal(header, &[]);
        assert!(key.open(header, &empty, 0).unwrap().is_empty());
        assert_eq!(refused(&[0; 32], 0), changed);
    }

    #[test]
    fn what_is_wrong_with_an_address_of_libfabric_is_said() {
        let error = |text: &str| text.parse::<FabricAddress>().unwrap_err();
        for text in ["@h:1", "verbs@:1", "verbs@[]:1", "@:1", "h:1", "verbs@h:x"] {
            assert!(error(text).contains("PROVIDER@HOST:PORT"), "{text}");
        }
        for text in ["verbs@0.0.0.0:1", "tcp@[::]:0"] {
            assert!(error(text).contains("that of any network"), "{text}");
        }
        let address: FabricAddress = "tcp@[fd00::1]:7442".parse().unwrap();
        let parts = (&*address.provider, &*address.host, address.port);
        assert_eq!(parts, ("tcp", "fd00::1", 7442));
    }

    #[test]
    fn secrets_are_random_and_not_printed() {
        let (a, b) = (Pass::random(), Pass::random());
        let all = [a.token, a.key, b.token, b.key, new_cluster_id().0];
        for (at, secret) in all.iter().enumerate() {
            assert!(!all[..at].contains(secret) && *secret != [0; 32]);
        }
        assert_eq!(format!("{a:?}"), "Pass");
        assert_ne!(random_id::<16>(), random_id());
    }

    #[test]
    fn a_request_that_makes_no_sense_is_malformed() {
        let error = malformed("no");
        assert_eq!(error.kind(), StorageErrorKind::Malformed);
        assert!(error.to_string().contains("no"), "{error}");
    }

    /// Of all that was written 4 bytes have not left, and 6 have not arrived.
    struct Busy;

    impl Endpoint for Busy {
        fn write(&self, _: u64, _: &[&[u8]], _: u32) -> io::Result<()> {
            Ok(())
        }

        fn wait(&self) -> io::Result<u32> {
            Err(io::ErrorKind::UnexpectedEof.into())
        }

        fn queued(&self) -> Queued {
            Queued {
                unsent: 4,
                unarrived: 6,
            }
        }

        fn close(&self) {}
    }

    #[test]
    fn the_usage_of_a_flow_is_what_its_sender_counts() {
        let mut sender = Sender::new(Arc::new(Busy), 1024);
        sender.send(&[&[1; 48], &[2; 16]]).unwrap();
        let expected = FlowUsage {
            sent: 64,
            behind: 64,
            arrived: 58,
        };
        assert_eq!(FlowUsage::from(&sender.flow()), expected);
    }
}
