//! What the members of the network do: nodes, clients, and what takes data without keeping them.

use std::io::{self, BufRead, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tabane_fabric::{Receiver, Ring, Sender, Tail, Tcp};
use tabane_node::{Server, ServerOptions};
use tabane_storage::{Id, Progress};
use tabane_storage::{Name, ObjectKind, RemoteOptions, Storage};
use tabane_striped::cluster::file::NodeFile;
use tabane_striped::cluster::wire::FabricAddress;
use tabane_striped::cluster::{self, Plan};
use tabane_striped::{HealOptions, StripedStorage};

use super::triple;
use crate::data::noise;

/// Bytes of a ring that only takes data.
const RING: usize = 4 << 20;

/// Bytes of a frame into such a ring.
const FRAME: usize = 64 << 10;

/// Puts at a time of one client: one is on its way while another becomes durable.
const PUTS: usize = 3;

/// For how long nothing may arrive.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// One member of the network. `tabane-bench p3` starts it.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    role: Role,
}

#[derive(clap::Subcommand)]
enum Role {
    /// A node of a cluster
    Node {
        file: PathBuf,
        dir: PathBuf,
        /// Takes data by this provider of libfabric
        fabric: Option<String>,
    },
    /// Takes data and forgets them
    Sink { listen: String },
    /// Sends data to sinks
    Source { seconds: f64, sinks: Vec<String> },
    /// Makes the nodes of a cluster one set
    Form { file: PathBuf },
    /// Puts objects into a cluster
    Client {
        file: PathBuf,
        plan: Plan,
        seconds: f64,
        object_bytes: usize,
    },
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
    /// Brings a cluster up to date
    Heal { file: PathBuf, plan: Plan },
}

/// Does what the member does, until standard input ends or the time is over.
pub fn run(args: &Args) -> Result<()> {
    match &args.role {
        Role::Node { file, dir, fabric } => node(file, dir, fabric.as_deref()),
        Role::Sink { listen } => sink(listen),
        Role::Source { seconds, sinks } => source(*seconds, sinks),
        Role::Form { file } => Ok(cluster::form(file)?),
        Role::Client {
            file,
            plan,
            seconds,
            object_bytes,
        } => client(file, *plan, *seconds, *object_bytes),
        Role::Heal { file, plan } => heal(file, *plan),
        Role::TripleNode {
            frame,
            listen,
            incoming,
            next,
        } => triple::node(*frame, listen, *incoming, next.as_deref()),
        Role::TripleSource {
            frame,
            seconds,
            sinks,
        } => triple::source(*frame, *seconds, sinks),
    }
}

/// Says that this member is ready, and waits for a line.
pub fn ready() -> Result<()> {
    println!("ready");
    io::stdout().flush()?;
    io::stdin().lock().read_line(&mut String::new())?;
    Ok(())
}

/// Tells what was done.
pub fn done(bytes: u64, begun: Instant) -> Result<()> {
    println!("{bytes} {}", begun.elapsed().as_secs_f64());
    io::stdout().flush()?;
    Ok(())
}

fn node(file: &Path, dir: &Path, fabric: Option<&str>) -> Result<()> {
    let node = NodeFile::read(file)?;
    let (host, _) = node.address.rsplit_once(':').context("no port")?;
    let fabric = fabric.map(|provider| FabricAddress {
        provider: provider.to_owned(),
        host: host.to_owned(),
        port: 0,
    });
    let server = Server::start(ServerOptions {
        listen: node.address.clone(),
        node,
        directory: dir.to_owned(),
        fabric,
        metrics: None,
        log: Arc::new(|line| eprintln!("node: {line}")),
    })?;
    ready()?;
    server.stop();
    Ok(())
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
    let mut tail = receiver(stream, RING)?;
    for number in 0.. {
        tail.frame(number, PATIENCE)?;
        tail.release(number + 1)?;
    }
    Ok(())
}

fn source(seconds: f64, sinks: &[String]) -> Result<()> {
    let senders = sinks.iter().map(|sink| sender(sink, RING));
    let mut senders = senders.collect::<Result<Vec<_>>>()?;
    ready()?;
    let begun = Instant::now();
    let sent = AtomicU64::new(0);
    thread::scope(|scope| {
        for sender in &mut senders {
            scope.spawn(|| {
                let frame = vec![7; FRAME];
                while begun.elapsed().as_secs_f64() < seconds && sender.send(&[&frame]).is_ok() {
                    sent.fetch_add(FRAME as u64, Ordering::Relaxed);
                }
            });
        }
    });
    done(sent.into_inner(), begun)
}

fn open(file: &Path, plan: Plan) -> Result<StripedStorage> {
    let options = RemoteOptions {
        notice: Arc::new(|event| eprintln!("client: {}", event.text)),
        ..RemoteOptions::default()
    };
    Ok(cluster::open_file(file, &options, plan)?)
}

/// Tells how many bytes of parts were written.
fn heal(file: &Path, plan: Plan) -> Result<()> {
    let storage = open(file, plan)?;
    ready()?;
    let begun = Instant::now();
    let report = storage.heal(HealOptions::default(), &Told)?;
    done(report.written_bytes, begun)
}

struct Told;

impl Progress for Told {
    fn problem(&self, what: &str) {
        eprintln!("client: {what}");
    }

    fn note(&self, _what: &str) {}

    fn progress(&self, _done_bytes: u64, _total_bytes: u64) {}
}

fn client(file: &Path, plan: Plan, seconds: f64, object_bytes: usize) -> Result<()> {
    let storage = open(file, plan)?;
    let object = noise(object_bytes);
    let number = AtomicU64::new(0);
    let put = || -> tabane_storage::Result<()> {
        let mut id = [0; 32];
        id[..4].copy_from_slice(&std::process::id().to_be_bytes());
        let number = number.fetch_add(1, Ordering::Relaxed);
        // Spread over folders and turns as hashes are.
        let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        id.rotate_right(8);
        id[..8].copy_from_slice(&hash);
        storage.put(Name::new(ObjectKind::Pack, Id(id)), &[&object])
    };
    // What takes place once is over then.
    put()?;
    ready()?;
    let begun = Instant::now();
    let stored = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..PUTS {
            scope.spawn(|| {
                while begun.elapsed().as_secs_f64() < seconds {
                    match put() {
                        Ok(()) => drop(stored.fetch_add(object_bytes as u64, Ordering::Relaxed)),
                        Err(error) => {
                            eprintln!("client: {error}");
                            return;
                        }
                    }
                }
            });
        }
    });
    done(stored.into_inner(), begun)
}
