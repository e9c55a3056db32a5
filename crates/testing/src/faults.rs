//! `tabane-bench faults`: nodes and clients of a cluster die and hang while objects are put, by
//! seeds.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use serde_json::json;
use tabane_node::authority;
use tabane_storage::{Id, Name, ObjectKind, RemoteOptions, Storage, object_id};
use tabane_striped::cluster::file::NodeAddress;
use tabane_striped::cluster::{self, Plan};
use tabane_striped::{HealOptions, StripedStorage};

use crate::member::{Member, SECRET, Told};
use crate::mount::Mount;
use crate::network::Network;
use crate::progress;
use crate::random::Random;

/// No write may take longer. A node that is silent for 2 s is asked whether it is there, which
/// takes
/// 3 s; one that does not acknowledge what it is sent is given up after 8 s; and a write waits 4 s
/// for a node that has just failed.
const WRITE_TIME_MAX: Duration = Duration::from_secs(15);

/// No run may take longer: it has several such steps.
const RUN_TIME_MAX: Duration = Duration::from_secs(300);

/// Between two puts of a writer, once it has put a few.
const WRITER_PAUSE: Duration = Duration::from_millis(100);

/// Between the restart of a node and that of the next one, in a rolling restart.
const ROLLING_PAUSE: Duration = Duration::from_secs(2);

/// How often a node that flaps is killed and started.
const FLAPS: usize = 5;

/// Objects that each of two writers puts at least in a run: it goes on until something has happened
/// to it.
const WRITER_PUTS_MIN: u64 = 4;

/// Objects at most: names of one run are not those of another.
const WRITER_PUTS_MAX: u64 = 1000;

/// Kill and stop nodes and clients of a cluster and fill its disks at random moments of writes and
/// heals, and check that nothing that was acknowledged is lost, that writers finish, and that no
/// part of a stripe is ever seen.
///
/// Takes root: each node has a file system of its own, in memory, which can be filled, and a
/// network namespace of its own. Each run has a seed, which decides all but the timing of the
/// machine. A run that fails is repeated by --first and --runs 1.
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
    /// Stop nodes without ending them (SIGSTOP), cut links between two of them, and cut nodes off,
    /// instead of all the others: it takes seconds to notice
    #[arg(long)]
    stalls: bool,
    /// Let nodes take data by this provider of libfabric, as in tcp, instead of plain TCP
    #[arg(long, value_name = "PROVIDER")]
    fabric: Option<String>,
    /// Print one flat JSON object a line
    #[arg(long)]
    json: bool,
}

/// What happens to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    KillNode,
    KillTwoNodes,
    KillClient,
    KillNodeDuringHeal,
    RestartAll,
    RollingRestart,
    Flap,
    FillDisk,
    StopNode,
    CutNode,
    CutLink,
    CutWay,
}

impl Fault {
    const QUICK: &[Self] = &[
        Self::KillNode,
        Self::KillTwoNodes,
        Self::KillClient,
        Self::KillNodeDuringHeal,
        Self::RestartAll,
        Self::RollingRestart,
        Self::Flap,
        Self::FillDisk,
    ];
    const STALLS: &[Self] = &[Self::StopNode, Self::CutNode, Self::CutLink, Self::CutWay];
}

/// Runs all.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut bed = Bed::new(args)?;
    let mut counts: BTreeMap<Fault, u64> = BTreeMap::new();
    let (mut slowest, mut slowest_write) = (Duration::ZERO, Duration::ZERO);
    for seed in args.first..args.first + args.runs {
        let mut random = Random::new(seed);
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
            write < WRITE_TIME_MAX,
            "seed {seed}, {fault:?}: a write took {write:?}"
        );
        slowest_write = slowest_write.max(write);
        let took = begun.elapsed();
        ensure!(
            took < RUN_TIME_MAX,
            "seed {seed}, {fault:?}: it took {took:?}"
        );
        slowest = slowest.max(took);
        *counts.entry(fault).or_default() += 1;
    }
    progress::show("");
    let counts: Vec<String> = counts
        .iter()
        .map(|(fault, count)| format!("{fault:?} {count}"))
        .collect();
    if args.json {
        println!(
            "{}",
            json!({"bench": "faults", "nodes": args.nodes, "first_seed": args.first,
                "runs": args.runs,
                "faults": counts.join(", "), "slowest_run_s": slowest.as_secs_f64(),
                "slowest_write_s": slowest_write.as_secs_f64(), "violations": 0})
        );
    } else {
        println!(
            "{} runs, seeds {} to {}: nothing acknowledged was lost, every writer finished, no \
            partial stripe was seen; the slowest write took {:.1} s, the slowest run {:.1} s ({})",
            args.runs,
            args.first,
            args.first + args.runs - 1,
            slowest_write.as_secs_f64(),
            slowest.as_secs_f64(),
            counts.join(", ")
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// A file system in memory for one node.
struct Disk {
    path: PathBuf,
    _mount: Mount,
}

impl Disk {
    /// Bytes of each: what all objects of a run take, several times.
    const SIZE: &str = "768m";

    fn mount(path: PathBuf) -> Result<Self> {
        fs::create_dir(&path)?;
        let mount = Mount::tmpfs(&path, Self::SIZE)
            .context("cannot mount a file system: run it as root")?;
        Ok(Self {
            path,
            _mount: mount,
        })
    }

    fn node_dir(&self) -> PathBuf {
        self.path.join("node")
    }

    fn filler(&self) -> PathBuf {
        self.path.join("filler")
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

struct Bed {
    // In this order they vanish.
    nodes: Vec<Option<Member>>,
    disks: Vec<Disk>,
    dir: tempfile::TempDir,
    addresses: Vec<NodeAddress>,
    network: Network,
    fabric: Option<String>,
}

/// Objects that were acknowledged: the name of each, and the number that it is made of.
type Objects = Vec<(Name, u64)>;

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
        let addresses = network.addresses(args.nodes);
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
        authority::create(&bed.file(), &bed.addresses, None)?;
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
        let options = RemoteOptions::default();
        let storage = cluster::open_file(&self.file(), &options, Plan::Auto)?;
        storage.learn_secret(&SECRET);
        Ok(storage)
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
                self.nodes.iter_mut().for_each(|node| *node = None);
                self.start_missing()?;
            }
            Fault::RollingRestart => {
                for node in 0..self.nodes.len() {
                    self.nodes[(first + node) % self.disks.len()] = None;
                    self.start_missing()?;
                    thread::sleep(ROLLING_PAUSE);
                }
            }
            Fault::Flap => {
                for _ in 0..FLAPS {
                    self.nodes[first] = None;
                    self.start_missing()?;
                }
            }
            Fault::StopNode => self.nodes[first]
                .as_ref()
                .context("it runs")?
                .signal(Signal::STOP)?,
            Fault::CutNode => self.network.cut_off(first, true)?,
            Fault::CutLink => self.network.cut_between(first, second, true)?,
            Fault::CutWay => self.network.cut_way(first, second, true)?,
            Fault::KillClient => drop(client.take()),
            Fault::FillDisk => self.disks[first].fill()?,
        }
        happened.store(true, Ordering::Relaxed);
        let wrote = writers
            .join()
            .map_err(|_| anyhow::anyhow!("a writer panicked"))?;
        wrote.context("a writer did not finish")?;
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
            let healer = thread::spawn(move || storage.heal(HealOptions::default(), &Told));
            thread::sleep(Duration::from_micros(random.below(20_000)));
            drop(self.nodes[second].take());
            // It may find too little, and must do no harm.
            let _ = healer
                .join()
                .map_err(|_| anyhow::anyhow!("the healer panicked"))?;
            self.start_missing()?;
        }
        let storage = self.open()?;
        let report = storage.heal(HealOptions::default(), &Told)?;
        ensure!(
            report.unhealed_objects == 0,
            "something could not be healed: {report:?}"
        );
        match fault {
            Fault::CutLink => self.network.cut_between(first, second, false)?,
            Fault::CutWay => self.network.cut_way(first, second, false)?,
            _ => {}
        }
        let survey = storage.survey()?;
        let pairs = self.nodes.len() * (self.nodes.len() - 1) / 2;
        ensure!(
            survey.spare_pairs.len() == pairs,
            "not any two can be lost: {}",
            survey.statement()
        );
        self.check(&storage, &acknowledged)?;
        let listed = storage.list(ObjectKind::Pack)?.into_iter();
        let whole: HashSet<Id> = listed.map(|listed| listed.id).collect();
        // Two are lost, any: everything is still there. Who cannot ask all lists also what a client
        // that died has left on one or two nodes, since others might have the rest.
        let third = (second + step) % self.nodes.len();
        drop(self.nodes[second].take());
        drop(self.nodes[third].take());
        self.check_among(&self.open()?, &acknowledged, |id| whole.contains(id))?;
        self.start_missing()?;
        let storage = self.open()?;
        for listed in storage.list(ObjectKind::Pack)? {
            storage.delete(Name::new(ObjectKind::Pack, listed.id))?;
        }
        storage.remove_leftovers(Duration::ZERO)?;
        Ok(slowest)
    }

    /// Checks that every acknowledged object is intact and every listed object can be read.
    fn check(&self, storage: &StripedStorage, acknowledged: &Objects) -> Result<()> {
        self.check_among(storage, acknowledged, |_| true)
    }

    /// The same, of listed objects only those that `is_whole` says.
    fn check_among(
        &self,
        storage: &StripedStorage,
        acknowledged: &Objects,
        is_whole: impl Fn(&Id) -> bool,
    ) -> Result<()> {
        for &(name, number) in acknowledged {
            let bytes = storage
                .get(name, None)
                .with_context(|| format!("{name} is lost"))?;
            ensure!(bytes == object(number).1, "{name} is not as it was");
        }
        let listed = storage.list(ObjectKind::Pack)?.into_iter();
        for listed in listed.filter(|listed| is_whole(&listed.id)) {
            let name = Name::new(ObjectKind::Pack, listed.id);
            let got = storage.get(name, None);
            if let Err(error) = got {
                bail!("{name} is listed and cannot be read: {error}");
            }
        }
        Ok(())
    }
}

/// The object of a number, and its name.
fn object(number: u64) -> (Name, Vec<u8>) {
    let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut bytes = Random::at(1).noise(100_000 + (hash >> 43) as usize * 2);
    bytes[..8].copy_from_slice(&hash.to_le_bytes());
    (Name::new(ObjectKind::Pack, object_id(&[&bytes])), bytes)
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
                    for number in 0..WRITER_PUTS_MAX {
                        if number >= WRITER_PUTS_MIN {
                            if happened.load(Ordering::Relaxed) {
                                break;
                            }
                            // What takes seconds must not fill the disks.
                            thread::sleep(WRITER_PAUSE);
                        }
                        let number = seed * 10_000 + writer * WRITER_PUTS_MAX + number;
                        let (name, bytes) = object(number);
                        let begun = Instant::now();
                        storage.put(name, &[&bytes])?;
                        if let Ok(mut acknowledged) = acknowledged.lock() {
                            acknowledged.objects.push((name, number));
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

fn start_node(program: Command, file: &Path, dir: &Path, fabric: Option<&str>) -> Result<Member> {
    let (file, dir) = (text(file)?, text(dir)?);
    let words: Vec<_> = ["node", file, dir].into_iter().chain(fabric).collect();
    start(program, &words)
}

/// A client that puts objects until it is killed.
fn start_client(file: &Path) -> Result<Member> {
    let program = Command::new(std::env::current_exe()?);
    let words = ["client", text(file)?, "auto", "60", "1000000"];
    let mut client = start(program, &words)?;
    client.go()?;
    Ok(client)
}

/// A member that is ready.
fn start(mut program: Command, words: &[&str]) -> Result<Member> {
    program.stderr(Stdio::null());
    let mut member = Member::start(program, words)?;
    member.line()?;
    Ok(member)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is not UTF-8")
}
