//! What all connections of a node share.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, TcpStream};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rustls::{ClientConfig, ServerConfig};
use tabane_fabric::{Endpoint, Receiver, Ring};
use tabane_striped::cluster::file::NodeFile;
use tabane_striped::cluster::prove;
use tabane_striped::cluster::wire::{FabricAddress, Peer, SessionId, Token};

use crate::commit::Commits;
use crate::counters::Counters;
use crate::door::Door;
use crate::home::Home;
use crate::lock;
use crate::scrub::Scrubs;
use crate::session::{Session, blame};
use crate::withdrawn::Withdrawn;

/// Sessions at a time.
const SESSIONS_MAX: usize = 256;

/// State shared by all connections.
pub struct Shared {
    pub home: Arc<Home>,
    pub node: NodeFile,
    pub tls: Arc<ServerConfig>,
    pub door: Arc<Door>,
    pub withdrawn: Withdrawn,
    pub scrubs: Scrubs,
    pub prover: Arc<ClientConfig>,
    /// Addresses and names of nodes that have proved who they are.
    pub proved: Mutex<HashSet<(String, String)>>,
    pub commits: Arc<Commits>,
    pub counters: Arc<Counters>,
    pub begun: Instant,
    /// Address for data by libfabric, if any.
    pub fabric: Option<FabricAddress>,
    pub sessions: Mutex<HashMap<SessionId, Arc<Session>>>,
    /// By number, those that are open.
    pub connections: Mutex<HashMap<u64, TcpStream>>,
    pub opened: AtomicU64,
    pub log: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Shared {
    /// The session of this name.
    pub fn session(&self, id: SessionId) -> tabane_storage::Result<Arc<Session>> {
        let session = lock(&self.sessions).get(&id).cloned();
        session.ok_or_else(|| blame("there is no such session"))
    }

    /// Keeps a session; returns false if the name is taken or there are too many sessions.
    pub fn remember(&self, id: SessionId, session: &Arc<Session>) -> bool {
        let mut sessions = lock(&self.sessions);
        let has_room = sessions.len() < SESSIONS_MAX && !sessions.contains_key(&id);
        if has_room {
            sessions.insert(id, Arc::clone(session));
        }
        has_room
    }

    /// Forgets a session.
    pub fn forget(&self, id: SessionId) {
        lock(&self.sessions).remove(&id);
    }

    /// Sessions that have had a stripe lately.
    pub fn busy_sessions(&self) -> u16 {
        let sessions = lock(&self.sessions);
        let busy = sessions.values().filter(|session| session.is_busy());
        busy.count() as u16
    }

    /// Makes sure that a peer is a node of this cluster, before anything is said to it.
    ///
    /// # Errors
    /// When it is not, or does not answer.
    pub fn prove(&self, peer: &Peer) -> tabane_storage::Result<()> {
        let who = (peer.address.clone(), peer.name.clone());
        if lock(&self.proved).contains(&who) {
            return Ok(());
        }
        prove(&peer.address, &peer.name, &self.prover).map_err(|error| {
            let (name, address) = (&peer.name, &peer.address);
            blame(&format!(
                "node {name} is not to be found at {address}: {error}"
            ))
        })?;
        lock(&self.proved).insert(who);
        Ok(())
    }

    /// Counts a refused connection, and logs the reason now and then.
    pub fn refuse(&self, from: IpAddr, why: &str) {
        self.counters.refused.add(1);
        if let Some(line) = self.door.line(from, why) {
            (self.log)(&line);
        }
    }

    /// Lets a connection write into the ring of its token; `None` if no session expects the token.
    pub fn admit<E: Endpoint + 'static>(
        &self,
        token: &Token,
        connect: impl FnOnce(Arc<Ring>) -> io::Result<E>,
    ) -> io::Result<Option<Receiver>> {
        let sessions = lock(&self.sessions);
        let expecting = sessions
            .values()
            .find(|session| session.expects(token))
            .cloned();
        drop(sessions);
        match expecting {
            Some(session) => session.admit(token, connect),
            None => Ok(None),
        }
    }
}

/// The error of a connection whose token no session expects.
pub fn without_permission() -> io::Error {
    io::Error::other("it has no permission for any ring")
}
