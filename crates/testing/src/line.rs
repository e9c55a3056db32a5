//! A line to a server that is far away, slow or unreliable: a proxy of TCP on this machine.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes that are passed on at a time.
const PIECE_LEN: usize = 64 << 10;

/// Pieces on their way in one direction of a connection at most: 8 MiB, as much as a window of TCP.
const PIECES_IN_FLIGHT: usize = 128;

/// Bytes of an upload after which a connection is cut.
const CUT_AFTER: usize = 200;

/// What is wrong with a line or the server behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing.
    #[default]
    None,
    /// Each of so many connections is cut in the middle of a request.
    Cuts {
        /// The number of connections of which one is cut.
        one_of: u64,
    },
    /// The server answers each request with the status 503.
    Unavailable,
    /// The server sends one byte a second.
    Trickle,
    /// The server serves only so many connections, and leaves others waiting.
    FewConnections(usize),
}

/// The properties of a line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Properties {
    /// Added to every round trip, and to every new connection.
    pub latency: Duration,
    /// Bits a second in each direction; no limit if `None`.
    pub bits_per_s: Option<u64>,
}

/// What went over a line.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// Connections.
    pub connections: u64,
    /// Requests, of a protocol whose sides take turns on a connection.
    pub requests: u64,
    /// The most requests each of which began after the end of the one before it.
    pub in_sequence: u64,
    /// Bytes to the server.
    pub sent: u64,
    /// Bytes from the server.
    pub received: u64,
}

/// A line to a server on this machine, open until it is dropped.
pub struct Line {
    shared: Arc<Shared>,
    address: SocketAddr,
}

struct Shared {
    server: SocketAddr,
    properties: Properties,
    trouble: Mutex<Trouble>,
    accepted: AtomicU64,
    /// Connections that are served, and whether the line is closed.
    open: Mutex<(usize, bool)>,
    /// Signalled when a connection ends.
    ended: Condvar,
    up: Way,
    down: Way,
    requests: Mutex<Vec<(Instant, Instant)>>,
}

/// One direction, which all connections share.
#[derive(Default)]
struct Way {
    busy_until: Mutex<Option<Instant>>,
    bytes: AtomicU64,
}

/// Who has sent what last on a connection, to tell requests apart.
struct Turn {
    /// Begin of the request that is being answered.
    began: Option<Instant>,
    answered: Option<Instant>,
}

impl Line {
    /// A line to the server that listens at `port` of this machine.
    ///
    /// # Panics
    /// When this machine has no free port.
    pub fn to(port: u16, properties: Properties) -> Self {
        Self::at("127.0.0.1:0", port, properties)
    }

    /// The same, and the line begins at this address.
    ///
    /// # Panics
    /// When nothing can listen there.
    pub fn at(listen: impl ToSocketAddrs, port: u16, properties: Properties) -> Self {
        let listener = TcpListener::bind(listen).expect("a port");
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared {
            server: SocketAddr::from(([127, 0, 0, 1], port)),
            properties,
            trouble: Mutex::default(),
            accepted: AtomicU64::new(0),
            open: Mutex::default(),
            ended: Condvar::new(),
            up: Way::default(),
            down: Way::default(),
            requests: Mutex::default(),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accepting.accept_all(&listener));
        Self { shared, address }
    }

    /// The port at which the line begins.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Changes what is wrong with the line, for new connections and new requests.
    pub fn set_trouble(&self, trouble: Trouble) {
        *lock(&self.shared.trouble) = trouble;
        self.shared.ended.notify_all();
    }

    /// What went over the line since the last call.
    pub fn take_traffic(&self) -> Traffic {
        let shared = &self.shared;
        let mut requests = std::mem::take(&mut *lock(&shared.requests));
        requests.sort_unstable_by_key(|(_, end)| *end);
        let (mut in_sequence, mut last_end) = (0, None);
        for (begin, end) in &requests {
            if last_end.is_none_or(|last| last <= *begin) {
                in_sequence += 1;
                last_end = Some(*end);
            }
        }
        Traffic {
            connections: shared.accepted.swap(0, Ordering::Relaxed),
            requests: requests.len() as u64,
            in_sequence,
            sent: shared.up.bytes.swap(0, Ordering::Relaxed),
            received: shared.down.bytes.swap(0, Ordering::Relaxed),
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        lock(&self.shared.open).1 = true;
        self.shared.ended.notify_all();
        // Wakes the thread that waits for connections.
        let _ = TcpStream::connect(self.address);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics under this lock")
}

impl Shared {
    fn trouble(&self) -> Trouble {
        *lock(&self.trouble)
    }

    fn accept_all(self: &Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming() {
            let mut open = lock(&self.open);
            while !open.1
                && matches!(self.trouble(), Trouble::FewConnections(most) if open.0 >= most)
            {
                open = self
                    .ended
                    .wait(open)
                    .expect("nobody panics under this lock");
            }
            if open.1 {
                return;
            }
            let Ok(client) = client else { continue };
            open.0 += 1;
            drop(open);
            let number = self.accepted.fetch_add(1, Ordering::Relaxed) + 1;
            let shared = Arc::clone(self);
            thread::spawn(move || {
                shared.serve(client, number);
                lock(&shared.open).0 -= 1;
                shared.ended.notify_all();
            });
        }
    }

    /// Passes on what comes until one side closes the connection.
    fn serve(self: &Arc<Self>, client: TcpStream, number: u64) {
        // The handshake's round trip.
        thread::sleep(self.properties.latency);
        let Ok(server) = TcpStream::connect(self.server) else {
            return;
        };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let (Ok(client_again), Ok(server_again)) = (client.try_clone(), server.try_clone()) else {
            return;
        };
        let is_cut =
            matches!(self.trouble(), Trouble::Cuts { one_of } if number.is_multiple_of(one_of));
        let turn = Arc::new(Mutex::new(Turn {
            began: None,
            answered: None,
        }));
        let up = (Arc::clone(self), Arc::clone(&turn));
        let upward = thread::spawn(move || {
            let (shared, turn) = up;
            shared.pass_on(client_again, server_again, &shared.up, is_cut, |shared| {
                let mut turn = lock(&turn);
                if turn.answered.is_some() || turn.began.is_none() {
                    shared.end_request(&mut turn);
                    turn.began = Some(Instant::now());
                }
                if shared.trouble() == Trouble::Unavailable {
                    return Some(
                        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\
                         Connection: close\r\n\r\n",
                    );
                }
                None
            });
        });
        self.pass_on(server, client, &self.down, false, |_| {
            lock(&turn).answered = Some(Instant::now());
            None
        });
        let _ = upward.join();
        self.end_request(&mut lock(&turn));
    }

    /// Notes the request that has been answered.
    fn end_request(&self, turn: &mut Turn) {
        if let (Some(began), Some(answered)) = (turn.began.take(), turn.answered.take()) {
            lock(&self.requests).push((began, answered));
        }
    }

    /// Passes on what comes in one direction; `look` sees when something comes, and may answer
    /// instead of the server.
    fn pass_on(
        &self,
        mut from: TcpStream,
        to: TcpStream,
        way: &Way,
        is_cut: bool,
        look: impl Fn(&Self) -> Option<&'static str>,
    ) {
        let (sender, receiver) = sync_channel::<(Instant, Vec<u8>)>(PIECES_IN_FLIGHT);
        let Ok(mut out) = to.try_clone() else { return };
        let writer = thread::spawn(move || {
            for (due, piece) in receiver {
                thread::sleep(due.saturating_duration_since(Instant::now()));
                if out.write_all(&piece).is_err() {
                    break;
                }
            }
            // What the other side has sent is passed on nevertheless.
            let _ = out.shutdown(Shutdown::Write);
        });
        let mut total = 0;
        let mut piece = vec![0; PIECE_LEN];
        while let Ok(len @ 1..) = from.read(&mut piece) {
            if let Some(answer) = look(self) {
                let _ = from.write_all(answer.as_bytes());
                // Only now: the end of the server ends what the client gets.
                let _ = to.shutdown(Shutdown::Both);
                break;
            }
            total += len;
            if is_cut && total > CUT_AFTER {
                let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
                break;
            }
            if !self.send(&piece[..len], way, &sender) {
                break;
            }
        }
        drop(sender);
        let _ = writer.join();
        let _ = from.shutdown(Shutdown::Read);
    }

    /// Sends a piece on its way; false if nobody takes it.
    fn send(&self, bytes: &[u8], way: &Way, sender: &SyncSender<(Instant, Vec<u8>)>) -> bool {
        way.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let is_down = std::ptr::eq(way, &raw const self.down);
        if is_down && self.trouble() == Trouble::Trickle {
            return bytes.iter().all(|&byte| {
                thread::sleep(Duration::from_secs(1));
                sender.send((Instant::now(), vec![byte])).is_ok()
            });
        }
        let gone = self.gone(bytes.len(), way);
        // The line takes no more than it carries.
        thread::sleep(gone.saturating_duration_since(Instant::now()));
        let due = gone + self.properties.latency / 2;
        sender.send((due, bytes.to_vec())).is_ok()
    }

    /// When the line has carried so many bytes more.
    fn gone(&self, bytes: usize, way: &Way) -> Instant {
        let now = Instant::now();
        let Some(bits_per_s) = self.properties.bits_per_s else {
            return now;
        };
        let mut busy_until = lock(&way.busy_until);
        let start = busy_until.map_or(now, |until| until.max(now));
        let end = start + Duration::from_secs_f64(bytes as f64 * 8.0 / bits_per_s as f64);
        *busy_until = Some(end);
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that answers each line with the same line.
    fn echo() -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                thread::spawn(move || {
                    let mut bytes = [0; 1000];
                    let mut client = client;
                    while let Ok(len @ 1..) = client.read(&mut bytes) {
                        client.write_all(&bytes[..len]).unwrap();
                    }
                });
            }
        });
        port
    }

    fn ask(stream: &mut TcpStream) {
        stream.write_all(b"hello").unwrap();
        stream.read_exact(&mut [0; 5]).unwrap();
    }

    #[test]
    fn requests_one_after_the_other_and_side_by_side_are_told_apart() {
        let latency = Duration::from_millis(40);
        let line = Line::to(
            echo(),
            Properties {
                latency,
                bits_per_s: None,
            },
        );
        let connect = || TcpStream::connect(("127.0.0.1", line.port())).unwrap();
        let start = Instant::now();
        let mut stream = connect();
        (0..3).for_each(|_| ask(&mut stream));
        drop(stream);
        // One for the connection.
        assert!(start.elapsed() >= 4 * latency);
        let take = |requests: u64| {
            let mut traffic = line.take_traffic();
            while traffic.requests < requests {
                thread::sleep(Duration::from_millis(5));
                let more = line.take_traffic();
                traffic.requests += more.requests;
                traffic.in_sequence += more.in_sequence;
                traffic.sent += more.sent;
            }
            traffic
        };
        let traffic = take(3);
        assert_eq!(
            (traffic.requests, traffic.in_sequence, traffic.sent),
            (3, 3, 15)
        );
        let barrier = std::sync::Barrier::new(4);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut stream = connect();
                    ask(&mut stream);
                    barrier.wait();
                });
            }
        });
        assert!(take(4).in_sequence <= 4);
    }

    #[test]
    fn only_so_many_connections_are_served() {
        let line = Line::to(echo(), Properties::default());
        line.set_trouble(Trouble::FewConnections(1));
        let connect = || TcpStream::connect(("127.0.0.1", line.port())).unwrap();
        let mut first = connect();
        ask(&mut first);
        let second = thread::spawn({
            let mut second = connect();
            move || ask(&mut second)
        });
        thread::sleep(Duration::from_millis(100));
        assert!(!second.is_finished());
        drop(first);
        second.join().unwrap();
    }
}
