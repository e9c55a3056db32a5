//! Answers requests on control connections.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ServerConnection, StreamOwned};
use tabane_storage::{OBJECT_LEN_MAX, Storage, StorageErrorKind};
use tabane_striped::cluster::wire::{
    self, REQUEST_MAX, Reply, Request, SessionId, Status, Usage, malformed,
};

use crate::server::{Hasty, Shared};
use crate::session::Session;

/// Time limit for an accepted client to send the announced bytes, or to take an answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

type Stream = StreamOwned<ServerConnection, TcpStream>;

/// Serves a client until it closes the connection.
///
/// # Errors
/// Why it ended otherwise.
pub fn serve(shared: &Arc<Shared>, stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    keep_alive(&stream)?;
    let connection = ServerConnection::new(Arc::clone(&shared.tls));
    let mut connection = connection.map_err(io::Error::other)?;
    let mut hasty = Hasty::new(&stream);
    let greeted = wire::expect_greeting(&mut rustls::Stream::new(&mut connection, &mut hasty));
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
    stream.sock.set_write_timeout(Some(REQUEST_TIMEOUT))?;
    let mut own = None;
    let served = answer_all(shared, &mut stream, &mut own);
    // A session ends with the connection that opened it.
    if let Some((id, session)) = own {
        shared.forget(id);
        session.close();
    }
    served
}

fn answer_all(
    shared: &Arc<Shared>,
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
        let mut body = Vec::new();
        let done = answer(shared, stream, own, request, &mut body);
        let reply = match done {
            Err(error) if error.kind() == StorageErrorKind::Malformed => {
                let _ = wire::send(stream, &Reply::failed(&error));
                let _ = stream.flush();
                return Err(io::Error::other(error));
            }
            done => done.unwrap_or_else(|error| Reply::failed(&error)),
        };
        wire::send(stream, &reply)?;
        stream.write_all(&body)?;
        stream.flush()?;
    }
}

fn answer(
    shared: &Arc<Shared>,
    stream: &mut Stream,
    own: &mut Option<(SessionId, Arc<Session>)>,
    request: Request,
    body: &mut Vec<u8>,
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
            let mut object = Vec::new();
            stream.take(len).read_to_end(&mut object)?;
            if object.len() as u64 != len {
                return Err(StorageErrorKind::PastEnd.into());
            }
            shared.home.check_room(name)?;
            storage.put(name, &[&object])?;
            shared.counters.received_bytes.add(len);
            shared.counters.stored_bytes.add(len);
            Reply::Done
        }
        Request::Get(name, range) => {
            if range.is_some_and(|(start, end)| end < start || end - start > 2 * OBJECT_LEN_MAX) {
                return Err(malformed("the range is malformed"));
            }
            *body = storage.get(name, range.map(|(start, end)| start..end))?;
            Reply::Bytes(body.len() as u64)
        }
        Request::List(kind) => Reply::List(storage.list(kind)?),
        Request::Stat(name) => Reply::Count(storage.stat(name)?),
        Request::Delete(name) => {
            storage.delete(name)?;
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
        }),
        Request::Open(open) => {
            if own.is_some() {
                return Err(malformed("a connection opens one session"));
            }
            let (session, passes) = Session::open(&open, Arc::clone(&shared.counters))?;
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
            shared.session(id)?.join(peers)?;
            Reply::Joined(shared.busy_sessions())
        }
        Request::Usage(id) => Reply::Usage(Usage {
            at_us: shared.begun.elapsed().as_micros() as u64,
            clients: shared.busy_sessions(),
            received_bytes: shared.counters.received_bytes.get(),
            sent_bytes: shared.counters.relayed_bytes.get(),
            flows: shared.session(id)?.flows(),
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
