//! Sends stripes to nodes that make the parities among themselves.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tabane_fabric::{Endpoint, FRAME_SHARE, Flow, Sender, Tcp};
use tabane_parity::Layout;
use tabane_parity::schedule::{Kind, Node, Schedule, Sectors};
use tabane_storage::sync::lock;
use tabane_storage::{Result, StorageError, StorageErrorKind};

use super::limits::Limits;
use super::node::{Channel, NodeStorage, SILENCE_MAX};
use super::wire::{
    self, DATA_MAGIC, FRAME_HEADER_LEN, FabricAddress, FrameHeader, FrameKey, Open, Pass, Peer,
    Reply, Request, SessionId, Token,
};
use crate::container::{Geometry, SECTOR_LEN};
use crate::tags::{ObjectTags, TAG_LEN};

/// For how long a node may take no data. Nodes give up on each other after as long.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(20);

/// Pause between two looks at what the client itself sends.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// By how many sectors what nodes send is behind what the client sends, at most.
const LAG_MAX: usize = 3;

/// Bytes of a ring, at least and at most.
const RING: std::ops::RangeInclusive<usize> = 1 << 20..=16 << 20;

/// A stripe that a client sends.
pub struct Outgoing<'a> {
    /// Its number within the session.
    pub number: u64,
    /// How many stripes the client has sent in this session before.
    pub sent_before: u64,
    /// How it is laid out.
    pub geometry: &'a Geometry,
    /// What makes tags of its sectors, if it is tagged.
    pub tags: Option<&'a ObjectTags>,
    /// What goes to whom.
    pub schedules: &'a [Schedule],
    /// By which of them each sector goes.
    pub sectors: &'a Sectors,
    /// The member that has each role.
    pub members: &'a [usize],
}

/// Rings at several nodes, and the connections to them.
pub struct Session {
    id: SessionId,
    /// The session lasts as long as these.
    _owners: Vec<Channel>,
    endpoints: Vec<Arc<dyn Endpoint>>,
    /// To each node.
    writers: Vec<Writer>,
    flows: Vec<Flow>,
    /// Frames that were sent, in steps.
    progress: AtomicU64,
    lag: u8,
    layout: Layout,
    clients: u16,
    begun: Instant,
}

/// Writes into the ring of one node, one stripe after the other.
struct Writer {
    key: FrameKey,
    state: Mutex<WriterState>,
    changed: Condvar,
}

struct WriterState {
    sender: Sender,
    /// How many stripes it has sent.
    sent: u64,
    has_failed: bool,
}

impl Session {
    /// Opens a session with these nodes.
    pub fn open(nodes: &[&NodeStorage]) -> Result<Self> {
        let layout = Layout::new(nodes.len())
            .map_err(|error| StorageError::new(StorageErrorKind::Permanent, error.to_string()))?;
        let Rings {
            client: client_ring,
            peer: peer_ring,
            lag,
        } = Rings::new(&layout);
        let id = wire::random_id();
        let numbered: Vec<(usize, &NodeStorage)> = (0..).zip(nodes.iter().copied()).collect();
        let opened = at_once(&numbered, |&(me, node)| {
            open_at(node, id, (nodes.len(), me), (client_ring, peer_ring))
        })?;
        let endpoints = at_once(&numbered, |&(me, node)| {
            let (_, passes, fabric) = &opened[me];
            data_endpoint(node.address(), passes[nodes.len()].token, fabric.as_ref())
                .map_err(|error| node.blame(error))
        })?;
        let clients = at_once(&numbered, |&(me, node)| {
            let others = numbered.iter().filter(|(other, _)| *other != me);
            let others: Vec<usize> = others.map(|(other, _)| *other).collect();
            join(node, id, me, &others, nodes, &opened, peer_ring)
        })?;
        let (mut writers, mut flows) = (Vec::new(), Vec::new());
        for (endpoint, (_, passes, _)) in endpoints.iter().zip(&opened) {
            let sender = Sender::new(Arc::clone(endpoint), client_ring);
            flows.push(sender.flow());
            writers.push(Writer {
                key: FrameKey::new(&passes[nodes.len()].key),
                state: Mutex::new(WriterState {
                    sender,
                    sent: 0,
                    has_failed: false,
                }),
                changed: Condvar::new(),
            });
        }
        Ok(Self {
            id,
            writers,
            flows,
            progress: AtomicU64::new(0),
            _owners: opened.into_iter().map(|(owner, ..)| owner).collect(),
            endpoints,
            lag,
            layout,
            clients: clients.into_iter().max().unwrap_or(1),
            begun: Instant::now(),
        })
    }

    /// What its stripes are laid out as.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// How many clients wrote when it began, itself among them.
    pub fn clients(&self) -> u16 {
        self.clients
    }

    /// By how many sectors nodes may be behind, so that what they wait with has room in the rings.
    pub fn lag(&self) -> u8 {
        self.lag
    }

    /// What goes from the client to each node.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// Microseconds since the session began.
    pub fn age_us(&self) -> u64 {
        self.begun.elapsed().as_micros() as u64
    }

    /// Names it to the nodes.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Sends what is the client's of a stripe: to each node its cells, sector by sector, behind
    /// those of the stripes before. So nodes that are quick get the next stripe while slow ones
    /// still take this one. `may_wait` says whether it is worth to wait on when nodes take nothing;
    /// `look` is called many times meanwhile.
    pub fn send(
        &self,
        outgoing: &Outgoing,
        cells: &[impl AsRef<[u8]> + Sync],
        limits: &Limits,
        may_wait: &(dyn Fn() -> bool + Sync),
        look: &dyn Fn(),
    ) -> io::Result<()> {
        let &Outgoing {
            geometry,
            schedules,
            members,
            ..
        } = outgoing;
        let layout = geometry.layout();
        let (over, ended) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let threads = self.writers.iter().enumerate().map(|(member, writer)| {
                let role = members.iter().position(|&other| other == member);
                let role = role.expect("every member has a role");
                let own = schedules.iter();
                let own = own.map(|schedule| schedule.cells_from_client(&layout, role));
                let own: Vec<Vec<usize>> = own.collect();
                let over = over.clone();
                scope.spawn(move || {
                    let _over = over;
                    let sent = writer.send_cells(outgoing, &own, cells, |len| {
                        limits.before_sending(len);
                        self.progress.fetch_add(1, Ordering::Relaxed);
                    });
                    if sent.is_err() {
                        // No receiver waits for frames that will not come.
                        self.close();
                    }
                    sent
                })
            });
            let threads: Vec<_> = threads.collect();
            drop(over);
            let (mut before, mut moved) = (0, Instant::now());
            // Runs until the last sending thread has dropped its end of the channel.
            while ended.recv_timeout(LOOK_PAUSE) == Err(RecvTimeoutError::Timeout) {
                look();
                let now = self.progress.load(Ordering::Relaxed);
                if std::mem::replace(&mut before, now) != now {
                    moved = Instant::now();
                } else if moved.elapsed() >= SILENCE_MAX {
                    if !may_wait() {
                        self.close();
                    }
                    moved = Instant::now();
                }
            }
            let sent = threads.into_iter().map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            // Joins all threads before the first error ends the iteration.
            let sent: Vec<io::Result<()>> = sent.collect();
            sent.into_iter().collect()
        })
    }

    /// Closes its connections, so that whatever goes through them fails.
    pub fn close(&self) {
        self.endpoints.iter().for_each(|endpoint| endpoint.close());
    }
}

/// What a node has opened of a session: the connection that owns it, passes for its rings, and
/// where libfabric reaches it.
type Opened = (Channel, Vec<Pass>, Option<FabricAddress>);

/// Opens the rings of member `me` of so many.
fn open_at(
    node: &NodeStorage,
    session: SessionId,
    (members, me): (usize, usize),
    (client_ring, peer_ring): (usize, usize),
) -> Result<Opened> {
    let mut owner = node.channel()?;
    let open = Open {
        session,
        members: members as u8,
        me: me as u8,
        client_ring: client_ring as u32,
        peer_ring: peer_ring as u32,
    };
    let answer = owner.ask(&Request::Open(open), &[]);
    match answer.map_err(|error| node.blame(error))? {
        Reply::Opened(passes, fabric) if passes.len() == members + 1 => Ok((owner, passes, fabric)),
        other => Err(refused(&other)),
    }
}

/// Lets member `me` connect to the rings of others; says how many clients there are.
fn join(
    node: &NodeStorage,
    session: SessionId,
    me: usize,
    others: &[usize],
    nodes: &[&NodeStorage],
    opened: &[Opened],
    ring: usize,
) -> Result<u16> {
    let peer = |number: usize| {
        others.contains(&number).then(|| Peer {
            name: nodes[number].name().to_owned(),
            address: nodes[number].address().to_owned(),
            pass: opened[number].1[me].clone(),
            ring: ring as u32,
            fabric: opened[number].2.clone(),
        })
    };
    let join = Request::Join(session, (0..nodes.len()).map(peer).collect());
    match node.ask(&join, &[])? {
        Reply::Joined(clients) => Ok(clients),
        other => Err(refused(&other)),
    }
}

/// Tests all links between nodes: each node connects to each other one in a temporary session.
/// Returns a sentence for each link that fails; nothing if this client may not try links.
pub fn cut_links(nodes: &[&NodeStorage]) -> Option<Vec<String>> {
    const RING_MIN: usize = 4096;
    if nodes.len() < 3 {
        return Some(Vec::new());
    }
    let (id, numbers) = (wire::random_id(), (0..nodes.len()).collect::<Vec<_>>());
    let opened = at_once(&numbers, |&me| {
        open_at(nodes[me], id, (nodes.len(), me), (RING_MIN, RING_MIN))
    });
    let opened = match opened {
        Ok(opened) => opened,
        Err(error) if error.kind() == StorageErrorKind::Unauthorized => return None,
        Err(error) => return Some(vec![error.to_string()]),
    };
    let of_node = at_once(&numbers, |&me| {
        let others = numbers.iter().filter(|&&other| other != me);
        let cut = others.filter_map(|&other| {
            let joined = join(nodes[me], id, me, &[other], nodes, &opened, RING_MIN);
            let why = joined.err()?;
            Some(format!(
                "node {} cannot connect to node {}: {why}",
                nodes[me].name(),
                nodes[other].name()
            ))
        });
        Ok(cut.collect::<Vec<_>>())
    });
    Some(of_node.into_iter().flatten().flatten().collect())
}

impl Drop for Session {
    fn drop(&mut self) {
        self.close();
    }
}

impl Writer {
    /// Sends a node its cells, which are `own` in sectors by each schedule, sector by sector, each
    /// with its tag if the stripe is tagged, when the stripes before have been sent.
    fn send_cells(
        &self,
        outgoing: &Outgoing,
        own: &[Vec<usize>],
        cells: &[impl AsRef<[u8]>],
        before_sending: impl Fn(usize),
    ) -> io::Result<()> {
        let is_early =
            |state: &mut WriterState| state.sent < outgoing.sent_before && !state.has_failed;
        let waited = self.changed.wait_while(lock(&self.state), is_early);
        let mut state = waited.expect("no panic under this lock");
        if state.has_failed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let sent = self.send_frames(&mut state.sender, outgoing, own, cells, before_sending);
        state.sent += 1;
        state.has_failed = sent.is_err();
        drop(state);
        self.changed.notify_all();
        sent
    }

    fn send_frames(
        &self,
        sender: &mut Sender,
        outgoing: &Outgoing,
        own: &[Vec<usize>],
        cells: &[impl AsRef<[u8]>],
        before_sending: impl Fn(usize),
    ) -> io::Result<()> {
        let geometry = outgoing.geometry;
        for sector in 0..geometry.sectors() {
            let range = geometry.sector(sector);
            let schedule = outgoing.sectors.schedule(sector);
            let schedule = schedule.expect("each sector has a schedule");
            let others = own[..schedule].iter().map(Vec::len).sum::<usize>() as u32;
            for (index, &cell) in (others..).zip(&own[schedule]) {
                let bytes = &cells[cell].as_ref()[range.start as usize..range.end as usize];
                let tag = outgoing.tags.map(|tags| tags.tag(cell, sector, bytes));
                let tag = tag.as_ref().map_or(&[][..], |tag| tag);
                let header = FrameHeader {
                    stripe: outgoing.number,
                    sector: sector as u32,
                    index,
                };
                before_sending(bytes.len());
                let header = self.key.seal(header, &[bytes, tag]);
                sender.send(&[&header, bytes, tag])?;
            }
        }
        Ok(())
    }
}

/// Connects to a ring and shows the token for it: by libfabric where both sides have it, otherwise
/// by TCP.
///
/// # Errors
/// When the node does not answer or refuses the token.
pub fn data_endpoint(
    address: &str,
    token: Token,
    fabric: Option<&FabricAddress>,
) -> io::Result<Arc<dyn Endpoint>> {
    if let Some(endpoint) = fabric.and_then(|fabric| fabric_endpoint(fabric, &token)) {
        return Ok(endpoint);
    }
    let mut stream = super::node::connect(address)?;
    // A node that hangs does not greet.
    stream.set_read_timeout(Some(super::node::CONNECT))?;
    stream.set_write_timeout(Some(super::node::CONNECT))?;
    stream.write_all(&wire::greeting(DATA_MAGIC))?;
    stream.write_all(&token)?;
    wire::check_greeting(&mut stream, DATA_MAGIC)?;
    let mut is_in = [0];
    stream.read_exact(&mut is_in)?;
    stream.set_read_timeout(Some(STALL_TIMEOUT))?;
    stream.set_write_timeout(Some(STALL_TIMEOUT))?;
    match is_in {
        [1] => Ok(Arc::new(Tcp::new(stream, None)?)),
        _ => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("{address} has no ring that is waiting for this connection"),
        )),
    }
}

/// `None` if this machine cannot reach the node by libfabric.
#[cfg(feature = "libfabric")]
fn fabric_endpoint(fabric: &FabricAddress, token: &Token) -> Option<Arc<dyn Endpoint>> {
    let FabricAddress {
        provider,
        host,
        port,
    } = fabric;
    let limit = Some(super::node::CONNECT);
    let endpoint = tabane_fabric::Fabric::connect(provider, host, *port, token, limit).ok()?;
    Some(Arc::new(
        endpoint.limits(Some(STALL_TIMEOUT), Some(STALL_TIMEOUT)),
    ))
}

#[cfg(not(feature = "libfabric"))]
fn fabric_endpoint(_: &FabricAddress, _: &Token) -> Option<Arc<dyn Endpoint>> {
    None
}

/// How large the rings of a session are at each node.
pub struct Rings {
    /// Bytes of that for the client.
    pub client: usize,
    /// Bytes of that for each other member.
    pub peer: usize,
    /// By how many sectors nodes may be behind.
    pub lag: u8,
}

impl Rings {
    /// So large that there is room for several sectors of any schedule. Who waits for the next
    /// frame holds back those of as many sectors as nodes are behind, and of one more; that may be
    /// a quarter of a ring (see [`Tail::release`](tabane_fabric::Tail::release)).
    pub fn new(layout: &Layout) -> Self {
        let roles = layout.roles();
        // What is rebuilt takes one transfer a row.
        let (mut from_client, mut from_peer) = (0, layout.rows());
        for schedule in Kind::ALL
            .into_iter()
            .filter_map(|kind| kind.schedule(layout))
        {
            let mut counts = vec![vec![0; roles]; roles + 1];
            for transfer in &schedule.transfers {
                let from = match transfer.from {
                    Node::Client => roles,
                    Node::Role(role) => role,
                };
                counts[from][transfer.to] += 1;
            }
            let most = |counts: &[Vec<usize>]| counts.iter().flatten().copied().max();
            from_client = from_client.max(most(&counts[roles..]).unwrap_or(0));
            from_peer = from_peer.max(most(&counts[..roles]).unwrap_or(0));
        }
        let frame = SECTOR_LEN as usize + TAG_LEN + FRAME_HEADER_LEN;
        let most = from_client.max(from_peer) * frame * FRAME_SHARE;
        let lag = (RING.end() / most).saturating_sub(1).min(LAG_MAX);
        let bytes = |frames: usize| {
            let bytes = frames * frame * FRAME_SHARE * (lag + 1);
            bytes.clamp(*RING.start(), *RING.end())
        };
        Self {
            client: bytes(from_client),
            peer: bytes(from_peer),
            lag: lag as u8,
        }
    }
}

/// Does something for each at once; the first error counts.
fn at_once<T: Sync, R: Send>(items: &[T], act: impl Fn(&T) -> Result<R> + Sync) -> Result<Vec<R>> {
    tabane_storage::sync::try_each(items, items.len(), act)
}

fn refused(reply: &Reply) -> StorageError {
    match reply {
        Reply::Failed(kind @ StorageErrorKind::Unauthorized, text) => {
            StorageError::new(*kind, text)
        }
        Reply::Failed(_, text) => StorageError::new(StorageErrorKind::Permanent, text),
        _ => wire::malformed("a node answers something else"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps of which stripe each frame is, and fails once it has as many as it takes.
    struct Frames {
        stripes: Mutex<Vec<u64>>,
        most: usize,
    }

    impl Endpoint for Frames {
        fn write(&self, _: u64, parts: &[&[u8]], _: u32) -> io::Result<()> {
            let number = parts[0].first_chunk().unwrap();
            let mut stripes = lock(&self.stripes);
            if stripes.len() == self.most {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            stripes.push(u64::from_le_bytes(*number));
            Ok(())
        }

        fn wait(&self) -> io::Result<u32> {
            unreachable!("the ring has room")
        }

        fn close(&self) {}
    }

    /// Sends three stripes at once, the last one first, over a connection that takes so many
    /// frames; returns the stripes of these, and how many stripes were sent well.
    fn send_at_once(most: usize) -> (Vec<u64>, usize) {
        let geometry = Geometry::stripe(1, 0, 5);
        let layout = geometry.layout();
        let schedules = [Kind::Coded.schedule(&layout).unwrap()];
        let sectors = Sectors::alike(geometry.sectors());
        let cells = vec![vec![7; geometry.cell_len() as usize]; layout.cells()];
        let own = [schedules[0].cells_from_client(&layout, 0)];
        assert_eq!(own[0].len(), 3);
        let frames = Arc::new(Frames {
            stripes: Mutex::default(),
            most,
        });
        let writer = Writer {
            key: FrameKey::new(&[1; 32]),
            state: Mutex::new(WriterState {
                sender: Sender::new(Arc::clone(&frames) as Arc<dyn Endpoint>, 16 << 20),
                sent: 0,
                has_failed: false,
            }),
            changed: Condvar::new(),
        };
        let sent_well = AtomicU64::new(0);
        thread::scope(|scope| {
            for sent_before in [2, 1, 0] {
                let outgoing = Outgoing {
                    number: 10 + sent_before,
                    sent_before,
                    geometry: &geometry,
                    tags: None,
                    schedules: &schedules,
                    sectors: &sectors,
                    members: &[0, 1, 2, 3, 4],
                };
                let (writer, own, cells, sent_well) = (&writer, &own, &cells, &sent_well);
                scope.spawn(move || {
                    let sent = writer.send_cells(&outgoing, own, cells, |_| {});
                    sent_well.fetch_add(u64::from(sent.is_ok()), Ordering::Relaxed);
                });
                // So that it waits when the others come.
                thread::sleep(Duration::from_millis(20));
            }
        });
        let stripes = lock(&frames.stripes).clone();
        (stripes, sent_well.into_inner() as usize)
    }

    #[test]
    fn stripes_go_to_a_node_in_their_order() {
        let all = [10, 10, 10, 11, 11, 11, 12, 12, 12];
        assert_eq!(send_at_once(usize::MAX), (all.to_vec(), 3));
    }

    #[test]
    fn nothing_is_sent_to_a_node_behind_what_has_failed() {
        assert_eq!(send_at_once(4), (vec![10, 10, 10, 11], 1));
    }
}
