//! Answers requests on control connections.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ServerConnection, StreamOwned};
use tabane_storage::{Name, OBJECT_LEN_MAX, Storage, StorageError, StorageErrorKind};
use tabane_striped::cluster::role::allows;
use tabane_striped::cluster::wire::{
    self, REQUEST_MAX, Reply, Request, SessionId, Status, Usage, malformed,
};

use crate::door::{Client, Unproved};
use crate::hasty::Hasty;
use crate::session::Session;
use crate::shared::Shared;

/// Time limit for an accepted client to send the announced bytes, or to take an answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Bytes of an object that are in memory at a time.
const PIECE_LEN: usize = 1 << 20;

type Stream = StreamOwned<ServerConnection, TcpStream>;

/// Serves a client until it closes the connection.
///
/// # Errors
/// Why it ended otherwise.
pub fn serve(shared: &Arc<Shared>, stream: TcpStream, unproved: Unproved) -> io::Result<()> {
    stream.set_nodelay(true)?;
    keep_alive(&stream)?;
    let connection = ServerConnection::new(Arc::clone(&shared.tls));
    let mut connection = connection.map_err(io::Error::other)?;
    let mut hasty = Hasty::new(&stream);
    let greeted = wire::expect_greeting(&mut rustls::Stream::new(&mut connection, &mut hasty));
    if greeted.as_ref().is_err_and(is_prover) {
        return Ok(());
    }
    let mut stream = StreamOwned::new(connection, stream);
    let is_gone = |error: &io::Error| {
        use io::ErrorKind::{TimedOut, UnexpectedEof};
        matches!(error.kind(), TimedOut | UnexpectedEof)
    };
    if !greeted.as_ref().is_err_and(is_gone) {
        // Also to a client of another version, so that it can say so.
        wire::greet(&mut stream)?;
    }
    greeted?;
    let certificates = stream.conn.peer_certificates().unwrap_or_default();
    let client = certificates.first().and_then(Client::of);
    let client = client.ok_or_else(|| io::Error::other("its certificate is not a client's"))?;
    drop(unproved);
    stream.sock.set_write_timeout(Some(REQUEST_TIMEOUT))?;
    let mut own = None;
    let served = answer_all(shared, &client, &mut stream, &mut own);
    // A session ends with the connection that opened it.
    if let Some((id, session)) = own {
        shared.forget(id);
        session.close();
    }
    served
}

/// Whether the peer was another node that only wanted to know that this is one.
fn is_prover(error: &io::Error) -> bool {
    let error = error.get_ref().and_then(|error| error.downcast_ref());
    matches!(error, Some(rustls::Error::NoCertificatesPresented))
}

/// Fails if a client may not ask this.
fn check_allowed(
    shared: &Shared,
    client: &Client,
    request: &Request,
) -> tabane_storage::Result<()> {
    let Client {
        name,
        role,
        certificate,
    } = client;
    let why = if shared.withdrawn.has(*certificate) {
        format!("the certificate of client {name} was withdrawn")
    } else if !allows(*role, request) {
        format!("client {name} may not do this: its role is {role}")
    } else {
        return Ok(());
    };
    Err(StorageError::new(StorageErrorKind::Unauthorized, why))
}

fn answer_all(
    shared: &Arc<Shared>,
    client: &Client,
    stream: &mut Stream,
    own: &mut Option<(SessionId, Arc<Session>)>,
) -> io::Result<()> {
    loop {
        // Between requests a client may be silent for any time.
        stream.sock.set_read_timeout(None)?;
        let request = match wire::receive::<Request>(stream, REQUEST_MAX) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            request => request?,
        };
        stream.sock.set_read_timeout(Some(REQUEST_TIMEOUT))?;
        let mut body = Body::None;
        let allowed = check_allowed(shared, client, &request);
        if let (Err(_), Request::Put(_, len)) = (&allowed, &request) {
            skip(stream, *len)?;
        }
        let done = allowed.and_then(|()| answer(shared, client, stream, own, request, &mut body));
        let reply = match done {
            Err(error) if error.kind() == StorageErrorKind::Malformed => {
                let _ = wire::send(stream, &Reply::failed(&error));
                let _ = stream.flush();
                return Err(io::Error::other(error));
            }
            done => done.unwrap_or_else(|error| Reply::failed(&error)),
        };
        wire::send(stream, &reply)?;
        body.write(shared, stream)?;
        stream.flush()?;
    }
}

/// What follows a reply.
enum Body {
    None,
    Bytes(Vec<u8>),
    /// A whole object of so many bytes, which is read while it is sent.
    Object(Name, u64),
}

impl Body {
    fn write(self, shared: &Shared, stream: &mut Stream) -> io::Result<()> {
        match self {
            Self::None => Ok(()),
            Self::Bytes(bytes) => stream.write_all(&bytes),
            Self::Object(name, len) => {
                for start in (0..len).step_by(PIECE_LEN) {
                    let range = start..len.min(start + PIECE_LEN as u64);
                    let storage = shared.home.storage();
                    let piece = storage.get(name, Some(range)).map_err(io::Error::other)?;
                    stream.write_all(&piece)?;
                }
                Ok(())
            }
        }
    }
}

/// Reads an object of so many bytes from a client, piece by piece, and puts it.
fn put(shared: &Shared, stream: &mut Stream, name: Name, len: u64) -> tabane_storage::Result<()> {
    let storage = shared.home.storage();
    let mut draft = shared
        .home
        .check_room(name)
        .and_then(|()| storage.draft(name));
    let mut piece = vec![0; PIECE_LEN.min(len as usize)];
    for start in (0..len).step_by(PIECE_LEN) {
        let piece = &mut piece[..(len - start).min(PIECE_LEN as u64) as usize];
        stream.read_exact(piece)?;
        // After a failed write the rest is read all the same, so that the client hears of it.
        draft = draft.and_then(|draft| {
            draft.write_at(start, [piece, &[]])?;
            Ok(draft)
        });
    }
    storage.publish([draft?]).into_iter().collect()
}

/// Reads so many bytes for nothing.
fn skip(stream: &mut Stream, len: u64) -> io::Result<()> {
    let len = len.min(2 * OBJECT_LEN_MAX);
    io::copy(&mut stream.take(len), &mut io::sink()).map(drop)
}

fn answer(
    shared: &Arc<Shared>,
    client: &Client,
    stream: &mut Stream,
    own: &mut Option<(SessionId, Arc<Session>)>,
    request: Request,
    body: &mut Body,
) -> tabane_storage::Result<Reply> {
    let storage = shared.home.storage();
    Ok(match request {
        Request::Create => {
            storage.create()?;
            Reply::Done
        }
        Request::Put(name, len) => {
            if len > 2 * OBJECT_LEN_MAX {
                return Err(malformed("an object that is longer than any"));
            }
            put(shared, stream, name, len)?;
            shared.home.stored(len);
            shared.scrubs.forget(name);
            shared.counters.received_bytes.add(len);
            shared.counters.stored_bytes.add(len);
            Reply::Done
        }
        Request::Get(name, range) => {
            if range.is_some_and(|(start, end)| end < start || end - start > 2 * OBJECT_LEN_MAX) {
                return Err(malformed("the range is malformed"));
            }
            let len = match range {
                Some((start, end)) => end - start,
                None => storage.stat(name)?,
            };
            *body = match range {
                None if len > PIECE_LEN as u64 => Body::Object(name, len),
                range => Body::Bytes(storage.get(name, range.map(|(start, end)| start..end))?),
            };
            Reply::Bytes(len)
        }
        Request::List(kind) => Reply::List(storage.list(kind)?),
        Request::Stat(name) => Reply::Count(storage.stat(name)?),
        Request::Delete(name) => {
            shared.home.delete(name)?;
            shared.scrubs.forget(name);
            Reply::Done
        }
        Request::RemoveLeftovers(age_s) => {
            Reply::Count(storage.remove_leftovers(Duration::from_secs(age_s))?)
        }
        Request::Status => Reply::Status(Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_s: shared.begun.elapsed().as_secs(),
            free_bytes: shared.home.free_bytes(),
            sessions: shared.counters.sessions.get(),
            stripes: shared.counters.stripes.get(),
            stored_bytes: shared.counters.stored_bytes.get(),
            relayed_bytes: shared.counters.relayed_bytes.get(),
            withdrawn: shared.withdrawn.number(),
            certificate_until: shared.node.credentials.until,
            quota_bytes: shared.home.quota_bytes(),
            scrub: shared.scrubs.last(),
        }),
        Request::Doubts => Reply::Names(shared.scrubs.damaged()),
        Request::Withdraw(list) => {
            shared.withdrawn.take(&list)?;
            Reply::Done
        }
        Request::Open(open) => {
            if own.is_some() {
                return Err(malformed("a connection opens one session"));
            }
            let lend = |bytes| shared.door.lend(client, bytes);
            let (session, passes) = Session::open(&open, Arc::clone(&shared.counters), lend)?;
            if !shared.remember(open.session, &session) {
                session.close();
                return Err(malformed(
                    "the session exists already, or sessions are too many",
                ));
            }
            *own = Some((open.session, session));
            Reply::Opened(passes, shared.fabric.clone())
        }
        Request::Join(id, peers) => {
            shared.session(id)?.join(peers, |peer| shared.prove(peer))?;
            Reply::Joined(shared.busy_sessions())
        }
        Request::Usage(id) => Reply::Usage(Usage {
            at_us: shared.begun.elapsed().as_micros() as u64,
            clients: shared.busy_sessions(),
            received_bytes: shared.counters.received_bytes.get(),
            sent_bytes: shared.counters.relayed_bytes.get(),
            flows: shared.session(id)?.flows()?,
        }),
        Request::Stripe(id, stripe) => {
            let session = shared.session(id)?;
            session.stripe(stripe, &shared.home, &shared.commits)?;
            Reply::Stored
        }
    })
}

/// A client whose machine is gone is noticed, so that its session ends.
fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    use rustix::net::sockopt;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(20))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(5))?;
    sockopt::set_tcp_keepcnt(stream, 4)?;
    Ok(())
}
