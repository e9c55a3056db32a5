//! What the members of the network do: a cluster, and what takes data without keeping them.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tabane_fabric::{Receiver, Ring, Sender, Tail, Tcp};
use tabane_testing::member::{done, ready};

use super::triple;

/// Bytes of a ring that only takes data.
const SINK_RING_LEN: usize = 4 << 20;

/// Bytes of a frame into such a ring.
const SINK_FRAME_LEN: usize = 64 << 10;

/// For how long nothing may arrive.
pub const FRAME_TIMEOUT: Duration = Duration::from_secs(30);

/// What a member of the network does. `tabane-papers parity` starts it.
#[derive(clap::Subcommand)]
pub enum Role {
    #[command(flatten)]
    Cluster(tabane_testing::member::Role),
    /// Takes data and forgets them
    Sink { listen: String },
    /// Sends data to sinks
    Source { seconds: f64, sinks: Vec<String> },
    /// Adds up what peers send, for the next node
    TripleNode {
        frame: usize,
        listen: String,
        incoming: usize,
        next: Option<String>,
    },
    /// Sends data to two nodes, and their parity to a third
    TripleSource {
        frame: usize,
        seconds: f64,
        sinks: Vec<String>,
    },
}

impl Role {
    /// Does what the member does, until standard input ends or the time is over.
    pub fn run(&self) -> Result<()> {
        match self {
            Self::Cluster(role) => role.run(),
            Self::Sink { listen } => sink(listen),
            Self::Source { seconds, sinks } => source(*seconds, sinks),
            Self::TripleNode {
                frame,
                listen,
                incoming,
                next,
            } => triple::node(*frame, listen, *incoming, next.as_deref()),
            Self::TripleSource {
                frame,
                seconds,
                sinks,
            } => triple::source(*frame, *seconds, sinks),
        }
    }
}

fn sink(listen: &str) -> Result<()> {
    let listener = TcpListener::bind(listen).context("cannot listen")?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || drain(stream));
        }
    });
    ready()
}

/// A ring of so many bytes that the peer of a connection writes into, and its one consumer.
pub fn receiver(stream: TcpStream, ring: usize) -> Result<Tail> {
    let ring = Arc::new(Ring::new(ring, 1));
    let endpoint = Arc::new(Tcp::new(stream, Some(Arc::clone(&ring)))?);
    let receiver = Receiver::new(ring, endpoint);
    let tail = receiver.tails().pop().context("it has one")?;
    thread::spawn(move || receiver.run());
    Ok(tail)
}

/// Writes into a ring of so many bytes that is at an address.
pub fn sender(address: &str, ring: usize) -> Result<Sender> {
    let stream = TcpStream::connect(address).with_context(|| format!("cannot reach {address}"))?;
    Ok(Sender::new(Arc::new(Tcp::new(stream, None)?), ring))
}

fn drain(stream: TcpStream) -> Result<()> {
    let mut tail = receiver(stream, SINK_RING_LEN)?;
    for number in 0.. {
        tail.frame(number, FRAME_TIMEOUT)?;
        tail.release(number + 1)?;
    }
    Ok(())
}

fn source(seconds: f64, sinks: &[String]) -> Result<()> {
    let senders = sinks.iter().map(|sink| sender(sink, SINK_RING_LEN));
    let mut senders = senders.collect::<Result<Vec<_>>>()?;
    ready()?;
    let begun = Instant::now();
    let sent = AtomicU64::new(0);
    thread::scope(|scope| {
        for sender in &mut senders {
            scope.spawn(|| {
                let frame = vec![7; SINK_FRAME_LEN];
                while begun.elapsed().as_secs_f64() < seconds && sender.send(&[&frame]).is_ok() {
                    sent.fetch_add(SINK_FRAME_LEN as u64, Ordering::Relaxed);
                }
            });
        }
    });
    done(sent.into_inner(), begun)
}
