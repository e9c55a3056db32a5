//! Members of a cluster, each a process of its own: nodes and clients.
//!
//! A program that starts members has a command `member`, with a [`Role`] for its argument. A member
//! prints `ready`, waits for a line, and prints what it did.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tabane_node::{ScrubOptions, Server, ServerOptions};
use tabane_storage::sync::lock;
use tabane_storage::{Name, ObjectKind, Progress, RemoteOptions, Storage, object_id};
use tabane_striped::cluster::file::NodeFile;
use tabane_striped::cluster::wire::FabricAddress;
use tabane_striped::cluster::{self, Plan};
use tabane_striped::{HealOptions, StripedStorage};

use crate::line::{Line, Properties};
use crate::random::Random;

/// Puts at a time of one client, as many as a backup has.
pub const CLIENT_PUTS: usize = 6;

/// Objects that a client reads at a time.
const CLIENT_READS: usize = 3;

/// What a repository would tell its storage.
pub(crate) const SECRET: [u8; 32] = [7; 32];

/// A member that runs; killed when dropped.
pub struct Member {
    child: Child,
    /// Its end is the member's.
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Member {
    /// Starts `program`, this one, as a member: a role and its arguments.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(mut program: Command, words: &[&str]) -> Result<Self> {
        let mut child = program
            .arg("member")
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a member")?;
        let stdin = child.stdin.take().context("no pipe")?;
        let stdout = child.stdout.take().context("no pipe")?;
        Ok(Self {
            child,
            stdin,
            stdout: BufReader::new(stdout),
        })
    }

    /// The next line that it prints.
    ///
    /// # Errors
    /// When it has ended.
    pub fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        ensure!(!line.is_empty(), "a member has ended: see above");
        Ok(line.trim().to_owned())
    }

    /// Lets it begin.
    ///
    /// # Errors
    /// When it has ended.
    pub fn go(&mut self) -> Result<()> {
        Ok(self.stdin.write_all(b"go\n")?)
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a member of a cluster does.
#[derive(clap::Subcommand)]
pub enum Role {
    /// A node of a cluster
    Node {
        /// The node's file
        file: PathBuf,
        /// Where it keeps its parts
        dir: PathBuf,
        /// Takes data by this provider of libfabric
        fabric: Option<String>,
        /// Is so many milliseconds of a round trip away from whoever connects to it
        #[arg(long, default_value_t = 0)]
        latency_ms: u64,
    },
    /// Makes the nodes of a cluster one set
    Form {
        /// The cluster's file
        file: PathBuf,
    },
    /// Puts objects into a cluster
    Client {
        /// The cluster's file
        file: PathBuf,
        /// How data goes to the nodes
        plan: Plan,
        /// For how long
        seconds: f64,
        /// Length of each object
        object_bytes: usize,
    },
    /// Puts objects into a cluster, then reads them again and again
    Reader {
        /// The cluster's file
        file: PathBuf,
        /// For how long to read
        seconds: f64,
        /// Length of each object
        object_bytes: usize,
        /// How many objects
        objects: usize,
    },
    /// Brings a cluster up to date
    Heal {
        /// The cluster's file
        file: PathBuf,
        /// How data goes to the nodes
        plan: Plan,
    },
}

impl Role {
    /// Does what the member does, until standard input ends or the time is over.
    ///
    /// # Errors
    /// What went wrong meanwhile.
    pub fn run(&self) -> Result<()> {
        match self {
            Self::Node {
                file,
                dir,
                fabric,
                latency_ms,
            } => {
                let latency = Duration::from_millis(*latency_ms);
                node(file, dir, fabric.as_deref(), latency)
            }
            Self::Form { file } => Ok(cluster::form(file)?),
            Self::Client {
                file,
                plan,
                seconds,
                object_bytes,
            } => client(file, *plan, *seconds, *object_bytes),
            Self::Reader {
                file,
                seconds,
                object_bytes,
                objects,
            } => reader(file, *seconds, *object_bytes, *objects),
            Self::Heal { file, plan } => heal(file, *plan),
        }
    }
}

/// Says that this member is ready, and waits for a line.
///
/// # Errors
/// When nobody listens.
pub fn ready() -> Result<()> {
    println!("ready");
    io::stdout().flush()?;
    io::stdin().lock().read_line(&mut String::new())?;
    Ok(())
}

/// Tells what was done, and in how many seconds.
///
/// # Errors
/// When nobody listens.
pub fn done(bytes: u64, begun: Instant) -> Result<()> {
    println!("{bytes} {}", begun.elapsed().as_secs_f64());
    io::stdout().flush()?;
    Ok(())
}

/// Tells also when each of the objects was done, in seconds.
fn done_at(bytes: u64, begun: Instant, objects: &[f64]) -> Result<()> {
    let times: Vec<String> = objects.iter().map(|time| format!("{time:.3}")).collect();
    println!(
        "{bytes} {} {}",
        begun.elapsed().as_secs_f64(),
        times.join(" ")
    );
    io::stdout().flush()?;
    Ok(())
}

fn node(file: &Path, dir: &Path, fabric: Option<&str>, latency: Duration) -> Result<()> {
    let node = NodeFile::read(file)?;
    let (host, port) = node.address.rsplit_once(':').context("no port")?;
    let mut listen = node.address.clone();
    let mut line = None;
    if !latency.is_zero() {
        // The node itself is behind a line that begins at its address.
        let properties = Properties {
            latency,
            bits_per_s: None,
        };
        line = Some(Line::at(&*listen, port.parse()?, properties));
        listen = format!("127.0.0.1:{port}");
    }
    let fabric = fabric.map(|provider| FabricAddress {
        provider: provider.to_owned(),
        host: host.to_owned(),
        port: 0,
    });
    let server = Server::start(ServerOptions {
        listen,
        node,
        directory: dir.to_owned(),
        fabric,
        metrics: None,
        scrub: ScrubOptions::default(),
        quota_bytes: None,
        log: Arc::new(|line| eprintln!("node: {line}")),
    })?;
    ready()?;
    server.stop();
    drop(line);
    Ok(())
}

fn open(file: &Path, plan: Plan) -> Result<StripedStorage> {
    let options =
        RemoteOptions::default().notice(Arc::new(|event| eprintln!("client: {}", event.text)));
    let storage = cluster::open_file(file, &options, plan)?;
    storage.learn_secret(&SECRET);
    Ok(storage)
}

/// Tells how many bytes of parts were written.
fn heal(file: &Path, plan: Plan) -> Result<()> {
    let storage = open(file, plan)?;
    ready()?;
    let begun = Instant::now();
    let report = storage.heal(HealOptions::default(), &Told)?;
    done(report.written_bytes, begun)
}

/// Prints problems.
pub(crate) struct Told;

impl Progress for Told {
    fn problem(&self, what: &str) {
        eprintln!("client: {what}");
    }
}

fn client(file: &Path, plan: Plan, seconds: f64, object_bytes: usize) -> Result<()> {
    let storage = open(file, plan)?;
    let object = Random::at(1).noise(object_bytes);
    let number = AtomicU64::new(0);
    let put = |object: &mut [u8]| -> Result<(), tabane_storage::StorageError> {
        let number = number.fetch_add(1, Ordering::Relaxed);
        object[..4].copy_from_slice(&std::process::id().to_be_bytes());
        object[4..12].copy_from_slice(&number.to_be_bytes());
        let name = Name::new(ObjectKind::Pack, object_id(&[object]));
        storage.put(name, &[object])
    };
    // What takes place once is over then.
    put(&mut object.clone())?;
    ready()?;
    let begun = Instant::now();
    let stored = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..CLIENT_PUTS {
            scope.spawn(|| {
                let mut object = object.clone();
                while begun.elapsed().as_secs_f64() < seconds {
                    match put(&mut object) {
                        Ok(()) => lock(&stored).push(begun.elapsed().as_secs_f64()),
                        Err(error) => {
                            eprintln!("client: {error}");
                            return;
                        }
                    }
                }
            });
        }
    });
    let stored = lock(&stored);
    done_at((stored.len() * object_bytes) as u64, begun, &stored)
}

fn reader(file: &Path, seconds: f64, object_bytes: usize, objects: usize) -> Result<()> {
    let storage = open(file, Plan::Auto)?;
    let mut names = Vec::new();
    for number in 0..objects {
        let object = Random::new(number as u64).noise(object_bytes);
        let name = Name::new(ObjectKind::Pack, object_id(&[&object]));
        storage.put(name, &[&object])?;
        names.push(name);
    }
    ready()?;
    let begun = Instant::now();
    let (number, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    let read = || -> Result<()> {
        while begun.elapsed().as_secs_f64() < seconds {
            let number = number.fetch_add(1, Ordering::Relaxed) as usize;
            let name = names[number % names.len()];
            let object = storage.get(name, None)?;
            ensure!(object_id(&[&object]) == name.id, "{name} has other bytes");
            bytes.fetch_add(object.len() as u64, Ordering::Relaxed);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let readers: Vec<_> = (0..CLIENT_READS).map(|_| scope.spawn(read)).collect();
        let mut readers = readers.into_iter();
        readers.try_for_each(|reader| reader.join().expect("a reader does not panic"))
    })?;
    done(bytes.into_inner(), begun)
}
