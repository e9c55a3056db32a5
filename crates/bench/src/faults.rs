//! `tabane-bench faults`: nodes and clients of a cluster die and hang while objects are put, by seeds.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tabane_node::authority;
use tabane_storage::{Name, ObjectKind, RemoteOptions, Storage};
use tabane_store::{Id, Progress};
use tabane_striped::cluster::file::NodeAddress;
use tabane_striped::cluster::{self, Plan};
use tabane_striped::{HealOptions, StripedStorage};

use crate::data::noise;
use crate::p3::network::Network;
use crate::progress;

/// No write may take longer. A node that takes nothing is given up after 20 s, one that does not answer after 60 s, and to find that
/// one cannot be reached takes 5 s.
const WRITE_BOUND: Duration = Duration::from_secs(90);

/// No run may take longer: it has several such steps.
const BOUND: Duration = Duration::from_secs(300);

/// Objects that each of two writers puts at least in a run: it goes on until something has happened to it.
const PUTS: u64 = 4;

/// Objects at most: names of one run are not those of another.
const PUTS_MAX: u64 = 100;

/// Kill and stop nodes and clients of a cluster and fill its disks at random moments of writes and heals, and check that nothing
/// that was acknowledged is lost, that writers finish, and that no part of a stripe is ever seen.
///
/// Takes root: each node has a file system of its own, in memory, which can be filled, and a network namespace of its own. Each run has a seed, which decides all but the timing of the machine. A run that fails is repeated by --first and --runs 1.
#[derive(clap::Args)]
pub struct Args {
    /// How many runs
    #[arg(long, default_value_t = 100)]
    runs: u64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// How many nodes
    #[arg(long, default_value_t = 5)]
    nodes: usize,
    /// Stop nodes without ending them (SIGSTOP), cut links between two of them, and cut nodes off, instead of all the others: it takes
    /// 20 s and more to notice
    #[arg(long)]
    stalls: bool,
    /// Let nodes take data by this provider of libfabric, as in tcp, instead of plain TCP
    #[arg(long, value_name = "PROVIDER")]
    fabric: Option<String>,
    /// Print one flat JSON object a line
    #[arg(long)]
    json: bool,
}

/// Numbers that a seed decides.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

/// What happens to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    KillNode,
    KillTwoNodes,
    KillClient,
    KillNodeDuringHeal,
    RestartAll,
    FillDisk,
    StopNode,
    CutNode,
    CutLink,
}

impl Fault {
    const QUICK: &[Self] = &[
        Self::KillNode,
        Self::KillTwoNodes,
        Self::KillClient,
        Self::KillNodeDuringHeal,
        Self::RestartAll,
        Self::FillDisk,
    ];
    const STALLS: &[Self] = &[Self::StopNode, Self::CutNode, Self::CutLink];
}

/// Runs all.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut bed = Bed::new(args)?;
    let mut counts: BTreeMap<Fault, u64> = BTreeMap::new();
    let (mut slowest, mut slowest_write) = (Duration::ZERO, Duration::ZERO);
    for seed in args.first..args.first + args.runs {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.below(2);
        let faults = if args.stalls {
            Fault::STALLS
        } else {
            Fault::QUICK
        };
        let fault = faults[random.below(faults.len() as u64) as usize];
        progress::show(&format!("seed {seed}: {fault:?}"));
        let begun = Instant::now();
        let write = bed
            .one(seed, fault, &mut random)
            .with_context(|| format!("seed {seed}, {fault:?}"))?;
        ensure!(
            write < WRITE_BOUND,
            "seed {seed}, {fault:?}: a write took {write:?}"
        );
        slowest_write = slowest_write.max(write);
        let took = begun.elapsed();
        ensure!(took < BOUND, "seed {seed}, {fault:?}: it took {took:?}");
        slowest = slowest.max(took);
        *counts.entry(fault).or_default() += 1;
    }
    progress::show("");
    let counts: Vec<String> = counts
        .iter()
        .map(|(fault, count)| format!("{fault:?} {count}"))
        .collect();
    match args.json {
        true => println!(
            "{}",
            json!({"bench": "faults", "nodes": args.nodes, "first_seed": args.first, "runs": args.runs,
                "faults": counts.join(", "), "slowest_run_s": slowest.as_secs_f64(),
                "slowest_write_s": slowest_write.as_secs_f64(), "violations": 0})
        ),
        false => println!(
            "{} runs, seeds {} to {}: nothing acknowledged was lost, every writer finished, no partial stripe was seen; the slowest write took {:.1} s, the slowest run {:.1} s ({})",
            args.runs,
            args.first,
            args.first + args.runs - 1,
            slowest_write.as_secs_f64(),
            slowest.as_secs_f64(),
            counts.join(", ")
        ),
    }
    Ok(ExitCode::SUCCESS)
}

struct Quiet;

impl Progress for Quiet {
    fn problem(&self, what: &str) {
        eprintln!("heal: {what}");
    }

    fn note(&self, _what: &str) {}

    fn progress(&self, _done_bytes: u64, _total_bytes: u64) {}
}

/// A node's process.
struct Node {
    child: Child,
    /// Its end is the node's.
    _stdin: ChildStdin,
}

impl Node {
    fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A file system in memory for one node.
struct Disk(PathBuf);

impl Disk {
    /// Bytes of each: what all objects of a run take, several times.
    const SIZE: &str = "size=256m";

    fn mount(path: PathBuf) -> Result<Self> {
        fs::create_dir(&path)?;
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", Self::SIZE, "tabane-faults"])
            .arg(&path)
            .status()
            .context("cannot run mount")?;
        ensure!(
            mounted.success(),
            "cannot mount a file system: run it as root"
        );
        Ok(Self(path))
    }

    fn node_dir(&self) -> PathBuf {
        self.0.join("node")
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }

    /// Leaves no room for anything more.
    fn fill(&self) -> Result<()> {
        let mut filler = fs::File::create(self.filler())?;
        let block = vec![0; 1 << 16];
        // Down to the last page: nodes write at the same time.
        for len in [block.len(), 4096] {
            while filler.write_all(&block[..len]).is_ok() {}
        }
        Ok(())
    }

    fn empty(&self) -> Result<()> {
        Ok(fs::remove_file(self.filler())?)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

struct Bed {
    // In this order they vanish.
    nodes: Vec<Option<Node>>,
    disks: Vec<Disk>,
    dir: tempfile::TempDir,
    addresses: Vec<NodeAddress>,
    network: Network,
    fabric: Option<String>,
}

/// Objects that were acknowledged.
type Objects = Vec<(Name, usize)>;

/// What writers were told.
#[derive(Clone, Default)]
struct Acknowledged {
    objects: Objects,
    slowest: Duration,
}

impl Bed {
    fn new(args: &Args) -> Result<Self> {
        let dir = tempfile::tempdir().context("cannot make a directory")?;
        let network = Network::new(args.nodes + 1, None)?;
        let node = |number| NodeAddress {
            name: format!("n{number}"),
            address: format!("{}:7440", network.address(number)),
        };
        let addresses: Vec<NodeAddress> = (0..args.nodes).map(node).collect();
        // The writers are behind the nodes.
        network.enter(args.nodes)?;
        let disks = addresses
            .iter()
            .map(|node| Disk::mount(dir.path().join(&node.name)));
        let mut bed = Self {
            nodes: (0..args.nodes).map(|_| None).collect(),
            disks: disks.collect::<Result<_>>()?,
            dir,
            addresses,
            network,
            fabric: args.fabric.clone(),
        };
        authority::create(&bed.file(), &bed.addresses)?;
        bed.start_missing()?;
        cluster::form(&bed.file())?;
        Ok(bed)
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("cluster.json")
    }

    fn start_missing(&mut self) -> Result<()> {
        for number in 0..self.nodes.len() {
            if self.nodes[number].is_none() {
                let name = &self.addresses[number].name;
                let file = authority::node_path(&self.file(), name);
                let program = self.network.command(number)?;
                let dir = self.disks[number].node_dir();
                let node = start_node(program, &file, &dir, self.fabric.as_deref())?;
                self.nodes[number] = Some(node);
            }
        }
        Ok(())
    }

    fn open(&self) -> Result<StripedStorage> {
        let options = RemoteOptions {
            ..RemoteOptions::default()
        };
        Ok(cluster::open_file(&self.file(), &options, Plan::Auto)?)
    }

    fn one(&mut self, seed: u64, fault: Fault, random: &mut Random) -> Result<Duration> {
        let acknowledged = Arc::new(Mutex::new(Acknowledged::default()));
        let delay = Duration::from_micros(random.below(200_000));
        let (first, step) = (
            random.below(self.nodes.len() as u64) as usize,
            1 + random.below(self.nodes.len() as u64 - 1) as usize,
        );
        let second = (first + step) % self.nodes.len();
        let file = self.file();
        let mut client = match fault {
            Fault::KillClient => Some(start_client(&file)?),
            _ => None,
        };
        let (storage, shared) = (self.open()?, Arc::clone(&acknowledged));
        let happened = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&happened);
        let writers = thread::spawn(move || write(&storage, seed, &seen, &shared));
        thread::sleep(delay);
        match fault {
            Fault::KillNode | Fault::KillNodeDuringHeal => drop(self.nodes[first].take()),
            Fault::KillTwoNodes => {
                drop(self.nodes[first].take());
                drop(self.nodes[second].take());
            }
            Fault::RestartAll => {
                // The writers cannot finish; what they were told is durable has to be.
                self.nodes.iter_mut().for_each(|node| *node = None);
                self.start_missing()?;
            }
            Fault::StopNode => self.nodes[first]
                .as_ref()
                .context("it runs")?
                .signal(Signal::STOP)?,
            Fault::CutNode => self.network.cut_off(first, true)?,
            Fault::CutLink => self.network.cut_between(first, second, true)?,
            Fault::KillClient => drop(client.take()),
            Fault::FillDisk => self.disks[first].fill()?,
        }
        happened.store(true, Ordering::Relaxed);
        let wrote = writers
            .join()
            .map_err(|_| anyhow::anyhow!("a writer panicked"))?;
        let is_expected = |error: &anyhow::Error| match fault {
            Fault::RestartAll => true,
            Fault::FillDisk => error
                .downcast_ref::<tabane_storage::StorageError>()
                .is_some_and(|error| error.kind() == tabane_storage::StorageErrorKind::Full),
            _ => false,
        };
        match wrote {
            Err(error) if !is_expected(&error) => {
                return Err(error.context("a writer did not finish"));
            }
            _ => {}
        }
        if fault == Fault::FillDisk {
            self.disks[first].empty()?;
        }
        if fault == Fault::StopNode {
            self.nodes[first]
                .as_ref()
                .context("it runs")?
                .signal(Signal::CONT)?;
        }
        if fault == Fault::CutNode {
            self.network.cut_off(first, false)?;
        }
        let Acknowledged {
            objects: acknowledged,
            slowest,
        } = acknowledged
            .lock()
            .map_err(|_| anyhow::anyhow!("a writer panicked"))?
            .clone();
        // Without those that died.
        self.check(&self.open()?, &acknowledged)?;
        self.start_missing()?;
        if fault == Fault::KillNodeDuringHeal {
            let storage = self.open()?;
            let healer = thread::spawn(move || storage.heal(HealOptions::default(), &Quiet));
            thread::sleep(Duration::from_micros(random.below(20_000)));
            drop(self.nodes[second].take());
            // It may find too little, and must do no harm.
            let _ = healer
                .join()
                .map_err(|_| anyhow::anyhow!("the healer panicked"))?;
            self.start_missing()?;
        }
        let storage = self.open()?;
        let report = storage.heal(HealOptions::default(), &Quiet)?;
        ensure!(
            report.unhealed_objects == 0,
            "something could not be healed: {report:?}"
        );
        if fault == Fault::CutLink {
            self.network.cut_between(first, second, false)?;
        }
        let survey = storage.survey()?;
        let pairs = self.nodes.len() * (self.nodes.len() - 1) / 2;
        ensure!(
            survey.spare_pairs.len() == pairs,
            "not any two can be lost: {}",
            survey.statement()
        );
        self.check(&storage, &acknowledged)?;
        // Two are lost, any: everything is still there.
        let third = (second + step) % self.nodes.len();
        drop(self.nodes[second].take());
        drop(self.nodes[third].take());
        self.check(&self.open()?, &acknowledged)?;
        self.start_missing()?;
        let storage = self.open()?;
        for listed in storage.list(ObjectKind::Pack)? {
            storage.delete(Name::new(ObjectKind::Pack, listed.id))?;
        }
        Ok(slowest)
    }

    /// All that was acknowledged is there as it was, and what is listed can be read.
    fn check(&self, storage: &StripedStorage, acknowledged: &Objects) -> Result<()> {
        for (name, len) in acknowledged {
            let bytes = storage
                .get(*name, None)
                .with_context(|| format!("{name} is lost"))?;
            ensure!(bytes == object(*name, *len), "{name} is not as it was");
        }
        for listed in storage.list(ObjectKind::Pack)? {
            let name = Name::new(ObjectKind::Pack, listed.id);
            let got = storage.get(name, None);
            if let Err(error) = got {
                bail!("{name} is listed and cannot be read: {error}");
            }
        }
        Ok(())
    }
}

/// The bytes of an object follow from its name.
fn object(name: Name, len: usize) -> Vec<u8> {
    let mut bytes = noise(len);
    bytes[..32].copy_from_slice(&name.id.0);
    bytes
}

fn write(
    storage: &StripedStorage,
    seed: u64,
    happened: &AtomicBool,
    acknowledged: &Mutex<Acknowledged>,
) -> Result<()> {
    thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                scope.spawn(move || -> Result<()> {
                    for number in 0..PUTS_MAX {
                        if number >= PUTS && happened.load(Ordering::Relaxed) {
                            break;
                        }
                        let hash = |salt: u64| {
                            (seed * 1000 + writer * PUTS_MAX + number + salt)
                                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                        };
                        let mut id = [0; 32];
                        id[..8].copy_from_slice(&hash(0).to_le_bytes());
                        id[8..16].copy_from_slice(&hash(1 << 40).to_le_bytes());
                        let name = Name::new(ObjectKind::Pack, Id(id));
                        let len = 100_000 + (hash(7) >> 43) as usize * 2;
                        let begun = Instant::now();
                        storage.put(name, &[&object(name, len)])?;
                        if let Ok(mut acknowledged) = acknowledged.lock() {
                            acknowledged.objects.push((name, len));
                            acknowledged.slowest = acknowledged.slowest.max(begun.elapsed());
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        let mut results = writers.into_iter().map(|writer| writer.join());
        results.try_for_each(|result| result.unwrap_or_else(|_| bail!("a writer panicked")))
    })
}

fn start_node(program: Command, file: &Path, dir: &Path, fabric: Option<&str>) -> Result<Node> {
    let words = ["node".as_ref(), file.as_os_str(), dir.as_os_str()].into_iter();
    let words: Vec<_> = words.chain(fabric.map(AsRef::as_ref)).collect();
    let (child, stdin) = start(program, &words)?;
    Ok(Node {
        child,
        _stdin: stdin,
    })
}

/// A client that puts objects until it is killed.
fn start_client(file: &Path) -> Result<Node> {
    let words = [
        "client".as_ref(),
        file.as_os_str(),
        "auto".as_ref(),
        "60".as_ref(),
        "1000000".as_ref(),
    ];
    let program = Command::new(std::env::current_exe()?);
    let (child, mut stdin) = start(program, &words)?;
    stdin.write_all(b"go\n")?;
    Ok(Node {
        child,
        _stdin: stdin,
    })
}

/// A member that is ready.
fn start(mut program: Command, words: &[&std::ffi::OsStr]) -> Result<(Child, ChildStdin)> {
    let mut child = program
        .arg("p3-worker")
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start a member")?;
    let stdin = child.stdin.take().context("no pipe")?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("no pipe")?).read_line(&mut line)?;
    ensure!(line == "ready\n", "a member has ended");
    Ok((child, stdin))
}
