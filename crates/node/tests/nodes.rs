//! Nodes in this process, and a repository's storage over them. With the feature `libfabric` all
//! their data go that way.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::net::{self, AddressFamily, SocketType};
use tabane_node::{ScrubOptions, Server, ServerOptions, authority};
use tabane_parity::schedule::Kind;
use tabane_storage::{
    LocalStorage, Name, ObjectKind, Progress, RemoteOptions, Role, Storage, StorageErrorKind,
    object_id,
};
use tabane_striped::cluster::file::{ClusterFile, NodeAddress, NodeFile};
use tabane_striped::cluster::{self, Plan, wire};
use tabane_striped::container::{Form, Header, checksum};
use tabane_striped::{HealOptions, Place, RebalanceOptions, StripedStorage};
use tempfile::TempDir;

/// What the repository would tell its storage.
const SECRET: [u8; 32] = [5; 32];

struct Quiet;

impl Progress for Quiet {
    fn problem(&self, what: &str) {
        panic!("{what}");
    }
}

/// A port that nobody else is given while the socket lives, and at which one can listen.
fn reserved_port() -> (OwnedFd, SocketAddr) {
    let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    net::sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = net::getsockname(&socket).unwrap().try_into().unwrap();
    (socket, address)
}

struct Bed {
    dir: TempDir,
    nodes: Vec<NodeAddress>,
    servers: Vec<Option<Server>>,
    notices: Arc<Mutex<Vec<String>>>,
    log: Arc<Mutex<Vec<String>>>,
    /// How nodes that are started from now on scrub, and how much they may keep.
    scrub: ScrubOptions,
    quota_bytes: Option<u64>,
    /// What keeps the ports of nodes that are away.
    ports: Vec<OwnedFd>,
}

impl Bed {
    /// A cluster of so many nodes, all of which are served, and which make one set.
    fn new(count: usize) -> Self {
        let node = |number| NodeAddress::new(format!("n{number}"), "127.0.0.1:0".to_owned());
        Self::of(&(0..count).map(node).collect::<Vec<_>>(), None)
    }

    /// A cluster of these nodes, in groups of this size.
    fn of(nodes: &[NodeAddress], group_size: Option<usize>) -> Self {
        // In memory, where there is such a place: a cluster makes hundreds of directories, and
        // syncs them.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let dir = dir.unwrap();
        let count = nodes.len();
        let mut bed = Self {
            dir,
            servers: (0..count).map(|_| None).collect(),
            nodes: Vec::new(),
            notices: Arc::default(),
            log: Arc::default(),
            scrub: ScrubOptions::default(),
            quota_bytes: None,
            ports: Vec::new(),
        };
        authority::create(&bed.file(), nodes, group_size).unwrap();
        bed.nodes = ClusterFile::read(&bed.file()).unwrap().nodes;
        (0..count).for_each(|number| bed.start(number));
        cluster::form(&bed.file()).unwrap();
        bed
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("cluster.json")
    }

    fn home(&self, number: usize) -> PathBuf {
        self.dir.path().join(format!("home{number}"))
    }

    fn options(&self, number: usize) -> ServerOptions {
        let node = NodeFile::read(&authority::node_path(
            &self.file(),
            &self.nodes[number].name,
        ));
        let node = node.unwrap();
        let log = Arc::clone(&self.log);
        ServerOptions {
            listen: self.nodes[number].address.clone(),
            node,
            directory: self.home(number),
            fabric: cfg!(feature = "libfabric").then(|| "tcp@127.0.0.1:0".parse().unwrap()),
            metrics: Some("127.0.0.1:0".to_owned()),
            scrub: self.scrub,
            quota_bytes: self.quota_bytes,
            log: Arc::new(move |line| log.lock().unwrap().push(line.to_owned())),
        }
    }

    /// Starts a node anew where it was, so that clients find it.
    fn restart(&mut self, number: usize) {
        self.servers[number] = Some(Server::start(self.options(number)).unwrap());
    }

    /// Starts a node at a port that stays its own.
    fn start(&mut self, number: usize) {
        let (port, address) = reserved_port();
        self.ports.push(port);
        self.nodes[number].address = address.to_string();
        self.restart(number);
        let mut file = ClusterFile::read(&self.file()).unwrap();
        file.nodes.clone_from(&self.nodes);
        cluster::file::write(&self.file(), &file, true).unwrap();
    }

    /// Serves one more node, which is not in the set yet.
    fn serve_another(&mut self, node: NodeAddress) -> Place {
        authority::add(&self.file(), &node).unwrap();
        self.nodes.push(node);
        self.servers.push(None);
        self.start(self.nodes.len() - 1);
        cluster::place(cluster::nodes(&self.file()).unwrap().pop().unwrap())
    }

    fn stop(&mut self, number: usize) {
        self.servers[number].take().unwrap().stop();
    }

    /// A client that does not wait for nodes.
    fn open(&self, plan: Plan) -> StripedStorage {
        self.open_for(plan, Duration::ZERO)
    }

    /// A client that waits so long when too many nodes are away.
    fn open_for(&self, plan: Plan, patience: Duration) -> StripedStorage {
        let notices = Arc::clone(&self.notices);
        let options = RemoteOptions::default()
            .patience(patience)
            .notice(Arc::new(move |event| {
                notices.lock().unwrap().push(event.text.clone())
            }));
        let storage = cluster::open_file(&self.file(), &options, plan).unwrap();
        storage.learn_secret(&SECRET);
        storage
    }

    fn notices(&self) -> Vec<String> {
        std::mem::take(&mut self.notices.lock().unwrap())
    }

    /// What each node has stored.
    fn shards(&self) -> Vec<Vec<(String, Vec<u8>)>> {
        (0..self.nodes.len())
            .map(|number| files(&self.home(number).join("shards")))
            .collect()
    }
}

/// Files below a directory, but for what makes sets different, in order.
fn files(root: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path)
            } else {
                let name = path
                    .strip_prefix(root)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned();
                found.push((name, fs::read(path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

fn shards_of(files: &[(String, Vec<u8>)]) -> Vec<(String, Vec<u8>)> {
    let of_set = |name: &str| name == "target" || name.starts_with("sets/");
    files
        .iter()
        .filter(|(name, _)| !of_set(name))
        .cloned()
        .collect()
}

/// Bytes that look random, and their name.
fn object(seed: u64, len: usize) -> (Name, Vec<u8>) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend(next());
    }
    bytes.truncate(len);
    (Name::new(ObjectKind::Pack, object_id(&[&bytes])), bytes)
}

const PLANS: [Plan; 5] = [
    Plan::Always(Kind::Direct),
    Plan::Always(Kind::Chain),
    Plan::Always(Kind::Shared),
    Plan::Always(Kind::Coded),
    Plan::Auto,
];

/// Around a sector, a stripe of one sector, and of several.
const LENS: [usize; 6] = [65_537, 70_000, 786_432, 786_433, 1_000_000, 2_500_000];

#[test]
fn every_plan_stores_the_bytes_of_striped_storage() {
    for count in [3, 5] {
        let bed = Bed::new(count);
        // The same set in directories: copies of what the nodes had when it was formed.
        let mut places = Vec::new();
        for (number, node) in bed.nodes.iter().enumerate() {
            let twin = bed.dir.path().join(format!("twin{number}"));
            for (name, bytes) in files(&bed.home(number).join("shards")) {
                let path = twin.join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, bytes).unwrap();
            }
            let storage = LocalStorage::new(&twin);
            storage.create().ok();
            for folder in ["tmp", "packs"] {
                fs::create_dir_all(twin.join(folder)).unwrap();
            }
            places.push(Place {
                url: format!("node://{}", node.name),
                storage: Arc::new(storage),
            });
        }
        let twin = StripedStorage::open("twin".to_owned(), places, Arc::new(|_| {})).unwrap();
        twin.learn_secret(&SECRET);
        let mut seed = 0;
        for plan in PLANS {
            let storage = bed.open(plan);
            for len in LENS {
                seed += 1;
                let (name, bytes) = object(seed, len);
                storage.put(name, &[&bytes]).unwrap();
                twin.put(name, &[&bytes]).unwrap();
                assert!(storage.get(name, None).unwrap() == bytes, "{plan:?}, {len}");
                let again = storage.put(name, &[&bytes]).unwrap_err();
                assert_eq!(again.kind(), StorageErrorKind::AlreadyExists);
            }
        }
        assert_eq!(bed.notices(), Vec::<String>::new());
        for (number, shards) in bed.shards().iter().enumerate() {
            let twin = files(&bed.dir.path().join(format!("twin{number}")));
            let (shards, twin) = (shards_of(shards), shards_of(&twin));
            assert_eq!(shards.len(), PLANS.len() * LENS.len());
            assert!(shards == twin, "node {number} of {count}");
        }
        // Without the client having sent parities.
        let relayed: u64 = cluster::nodes(&bed.file())
            .unwrap()
            .iter()
            .map(|node| node.status().unwrap().relayed_bytes)
            .sum();
        assert!(relayed > 3_000_000, "{relayed}");
    }
}

#[test]
fn several_puts_at_once_by_several_clients() {
    let bed = Bed::new(5);
    let storages = [bed.open(Plan::Always(Kind::Coded)), bed.open(Plan::Auto)];
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let storage = &storages[worker % 2];
            scope.spawn(move || {
                for number in 0..5 {
                    let (name, bytes) = object(100 + worker as u64 * 10 + number, 900_000);
                    storage.put(name, &[&bytes]).unwrap();
                }
            });
        }
    });
    assert_eq!(bed.notices(), Vec::<String>::new());
    let storage = bed.open(Plan::Auto);
    let survey = storage.survey().unwrap();
    assert_eq!(
        (survey.objects, survey.incomplete_objects, survey.fragments),
        (20, 0, 0)
    );
}

#[test]
fn writes_go_around_nodes_that_die_and_heal_brings_them_up_to_date() {
    let mut bed = Bed::new(5);
    let storage = bed.open(Plan::Auto);
    let objects: Vec<_> = (0..6).map(|seed| object(seed, 800_000)).collect();
    storage.put(objects[0].0, &[&objects[0].1]).unwrap();
    bed.stop(1);
    storage.put(objects[1].0, &[&objects[1].1]).unwrap();
    bed.stop(3);
    storage.put(objects[2].0, &[&objects[2].1]).unwrap();
    let notices = bed.notices().join("\n");
    assert!(
        notices.contains("sending everything from here"),
        "{notices}"
    );
    assert!(notices.contains("node://n1 fails"), "{notices}");
    for (name, bytes) in &objects[..3] {
        assert!(storage.get(*name, None).unwrap() == *bytes);
    }
    bed.start(1);
    bed.start(3);
    let storage = bed.open(Plan::Auto);
    let report = storage.heal(HealOptions::default(), &Quiet).unwrap();
    assert_eq!((report.healed_objects, report.unhealed_objects), (2, 0));
    storage.put(objects[3].0, &[&objects[3].1]).unwrap();
    bed.stop(0);
    bed.stop(2);
    let storage = bed.open(Plan::Auto);
    for (name, bytes) in &objects[..4] {
        assert!(storage.get(*name, None).unwrap() == *bytes);
    }
}

/// Puts objects of several lengths, and reads each back, until `is_over`; returns how many there
/// are.
fn put_until(storage: &StripedStorage, first: u64, is_over: &AtomicBool) -> u64 {
    put_and_count(storage, first, is_over, &AtomicU64::new(0))
}

/// As [`put_until`], with the number of objects stored so far in `count`.
fn put_and_count(
    storage: &StripedStorage,
    first: u64,
    is_over: &AtomicBool,
    count: &AtomicU64,
) -> u64 {
    while !is_over.load(Ordering::Relaxed) {
        let seed = first + count.load(Ordering::Relaxed);
        let (name, bytes) = object(seed, LENS[seed as usize % LENS.len()]);
        storage.put(name, &[&bytes]).unwrap();
        count.fetch_add(1, Ordering::Relaxed);
        assert!(storage.get(name, None).unwrap() == bytes, "{seed}");
    }
    count.load(Ordering::Relaxed)
}

#[test]
fn a_rolling_restart_goes_unnoticed() {
    let mut bed = Bed::new(5);
    let storage = bed.open_for(Plan::Auto, Duration::from_secs(60));
    let is_over = AtomicBool::new(false);
    let puts = std::thread::scope(|scope| {
        let writers = [10_000, 20_000].map(|first| {
            let (storage, is_over) = (&storage, &is_over);
            scope.spawn(move || (first, put_until(storage, first, is_over)))
        });
        for number in 0..5 {
            bed.stop(number);
            std::thread::sleep(Duration::from_millis(300));
            bed.restart(number);
            std::thread::sleep(Duration::from_millis(1500));
        }
        is_over.store(true, Ordering::Relaxed);
        writers.map(|writer| writer.join().unwrap())
    });
    // Each node got its part of all that was written meanwhile.
    let survey = bed.open(Plan::Auto).survey().unwrap();
    let expected: u64 = puts.iter().map(|(_, count)| count).sum();
    assert_eq!((survey.objects, survey.fragments), (expected, 0));
    assert_eq!(survey.incomplete_objects, 0, "{survey:?}");
    for (first, count) in puts {
        for seed in first..first + count {
            let (name, bytes) = object(seed, LENS[seed as usize % LENS.len()]);
            assert!(storage.get(name, None).unwrap() == bytes, "{seed}");
        }
    }
}

#[test]
fn restarting_all_nodes_at_once_ends_and_hides_nothing() {
    let mut bed = Bed::new(5);
    let storage = bed.open_for(Plan::Auto, Duration::from_secs(60));
    let (is_over, stored) = (AtomicBool::new(false), AtomicU64::new(0));
    let count = std::thread::scope(|scope| {
        let writer = scope.spawn(|| put_and_count(&storage, 30_000, &is_over, &stored));
        let lister = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let before = stored.load(Ordering::Relaxed);
                let listed = storage.list(ObjectKind::Pack).unwrap().len() as u64;
                assert!(listed >= before, "{listed} {before}");
            }
        });
        std::thread::sleep(Duration::from_millis(300));
        for _ in 0..2 {
            (0..5).for_each(|number| bed.stop(number));
            std::thread::sleep(Duration::from_millis(500));
            (0..5).for_each(|number| bed.restart(number));
            std::thread::sleep(Duration::from_millis(2500));
        }
        is_over.store(true, Ordering::Relaxed);
        lister.join().unwrap();
        writer.join().unwrap()
    });
    let notices = bed.notices().join("\n");
    assert!(notices.contains("waiting for up to 60 s"), "{notices}");
    let storage = bed.open(Plan::Auto);
    assert_eq!(storage.survey().unwrap().objects, count);
    let report = storage.heal(HealOptions::default(), &Quiet).unwrap();
    assert_eq!(report.unhealed_objects, 0);
}

#[test]
fn a_client_waits_for_nodes_that_are_not_there_yet() {
    let mut bed = Bed::new(5);
    let (name, bytes) = object(900, 900_000);
    bed.open(Plan::Auto).put(name, &[&bytes]).unwrap();
    (0..3).for_each(|number| bed.stop(number));
    std::thread::scope(|scope| {
        let file = bed.file();
        let reader = scope.spawn(move || {
            let options = RemoteOptions::default().patience(Duration::from_secs(60));
            let storage = cluster::open_file(&file, &options, Plan::Auto).unwrap();
            storage.get(name, None).unwrap()
        });
        std::thread::sleep(Duration::from_millis(1500));
        (0..3).for_each(|number| bed.restart(number));
        assert!(reader.join().unwrap() == bytes);
    });
}

/// Needs to mount a file system, so root.
#[test]
fn a_full_node_takes_no_more_packs_while_the_others_go_on() {
    let mut bed = Bed::new(4);
    bed.stop(1);
    let home = bed.home(1);
    let mount = |args: &[&str]| {
        let done = std::process::Command::new(args[0])
            .args(&args[1..])
            .arg(&home)
            .output();
        done.is_ok_and(|output| output.status.success())
    };
    fs::rename(&home, bed.dir.path().join("aside")).unwrap();
    fs::create_dir(&home).unwrap();
    if !mount(&["mount", "-t", "tmpfs", "-o", "size=20m", "tabane"]) {
        println!("NOT RUN: a full node, since it takes root to mount a file system");
        return;
    }
    let aside = bed.dir.path().join("aside/.");
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .arg(aside)
        .arg(&home)
        .status();
    assert!(copied.unwrap().success());
    bed.restart(1);
    let storage = bed.open(Plan::Auto);
    let objects: Vec<_> = (1000..1012).map(|seed| object(seed, 2_500_000)).collect();
    for (name, bytes) in &objects {
        storage.put(*name, &[bytes]).unwrap();
    }
    // What is small still goes there.
    for seed in 1100..1108 {
        let (name, bytes) = object(seed, 1000);
        let name = Name::new(ObjectKind::Index, name.id);
        storage.put(name, &[&bytes]).unwrap();
    }
    let notices = bed.notices().join("\n");
    let told = "target node://n1 takes nothing new (less than 16 MiB are free)";
    assert_eq!(notices.matches(told).count(), 1, "{notices}");
    let status = cluster::nodes(&bed.file()).unwrap()[1].status().unwrap();
    assert!(status.free_bytes < wire::RESERVE_BYTES, "{status:?}");
    let survey = storage.survey().unwrap();
    assert!(survey.targets[1].lacks > 0 && survey.targets[1].missing.is_none());
    let report = storage.heal(HealOptions::default(), &Quiet).unwrap();
    assert_eq!((report.missing_targets, report.refusing_targets), (0, 1));
    bed.stop(0);
    let other = bed.open(Plan::Auto);
    for (name, bytes) in &objects {
        assert!(other.get(*name, None).unwrap() == *bytes);
    }
    drop((storage, other));
    bed.stop(1);
    assert!(mount(&["umount"]));
}

/// Goes between a node and all others, and can be frozen: then nothing goes through, and nobody is
/// told, as where a process is stopped. It can also keep back the data that go to the node, or
/// change a byte of them.
struct Gate {
    address: String,
    is_frozen: Arc<AtomicBool>,
    #[cfg_attr(feature = "libfabric", expect(dead_code))]
    keeps_data: Arc<AtomicBool>,
    /// Bytes of data from now on until one is changed; 0 for none.
    change_in: Arc<AtomicU64>,
}

impl Gate {
    fn new(node: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let is_frozen = Arc::new(AtomicBool::new(false));
        let change_in = Arc::new(AtomicU64::new(0));
        let keeps_data = Arc::new(AtomicBool::new(false));
        let (frozen, change) = (Arc::clone(&is_frozen), Arc::clone(&change_in));
        let keeps = Arc::clone(&keeps_data);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Ok(other) = TcpStream::connect(&node) else {
                    continue;
                };
                let ways = [
                    (stream.try_clone(), other.try_clone(), true),
                    (Ok(other), Ok(stream), false),
                ];
                for (from, to, is_to_node) in ways {
                    let (mut from, mut to) = (from.unwrap(), to.unwrap());
                    let (frozen, change) = (Arc::clone(&frozen), Arc::clone(&change));
                    let keeps = Arc::clone(&keeps);
                    std::thread::spawn(move || {
                        let mut bytes = vec![0; 1 << 16];
                        let mut is_data = None;
                        while let Ok(len @ 1..) = from.read(&mut bytes) {
                            // Data connections do not begin as TLS does.
                            let is_data = is_to_node && *is_data.get_or_insert(bytes[0] != 0x16);
                            if is_data {
                                tamper(&mut bytes[..len], &change);
                            }
                            let is_kept = || {
                                frozen.load(Ordering::Relaxed)
                                    || is_data && keeps.load(Ordering::Relaxed)
                            };
                            while is_kept() {
                                std::thread::sleep(Duration::from_millis(20));
                            }
                            if to.write_all(&bytes[..len]).is_err() {
                                break;
                            }
                        }
                        let _ = to.shutdown(Shutdown::Both);
                        let _ = from.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        Self {
            address,
            is_frozen,
            keeps_data,
            change_in,
        }
    }

    /// Gates before all nodes of a cluster; clients and nodes know no other way.
    fn before_all(bed: &mut Bed) -> Vec<Self> {
        let nodes = bed.nodes.iter();
        let gates: Vec<Self> = nodes.map(|node| Self::new(node.address.clone())).collect();
        let mut file = ClusterFile::read(&bed.file()).unwrap();
        for (node, gate) in file.nodes.iter_mut().zip(&gates) {
            node.address.clone_from(&gate.address);
        }
        cluster::file::write(&bed.file(), &file, true).unwrap();
        gates
    }

    fn freeze(&self, is_frozen: bool) {
        self.is_frozen.store(is_frozen, Ordering::Relaxed);
    }
}

/// Changes a byte, if its turn has come.
fn tamper(bytes: &mut [u8], change_in: &AtomicU64) {
    let left = change_in.load(Ordering::Relaxed);
    match left.checked_sub(bytes.len() as u64) {
        Some(left @ 1..) => change_in.store(left, Ordering::Relaxed),
        _ if left == 0 => {}
        _ => {
            bytes[left as usize - 1] ^= 0x10;
            change_in.store(0, Ordering::Relaxed);
        }
    }
}

/// Changes random bytes on the way to random nodes, of the client or of other nodes. Nothing that
/// was changed is stored, and the object is.
#[cfg_attr(feature = "libfabric", expect(dead_code))]
fn change_data_on_the_wire(count: u64) {
    let mut changed = 0;
    for nodes in [4, 5] {
        let mut bed = Bed::new(nodes);
        let gates = Gate::before_all(&mut bed);
        let mut state = 0x9e37_79b9_7f4a_7c15_u64 + nodes as u64;
        let mut below = |end: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % end
        };
        for seed in 0..count / 2 {
            let (name, bytes) = object(seed, 300_000);
            let plan = PLANS[below(5) as usize];
            let storage = bed.open(plan);
            let gate = &gates[below(nodes as u64) as usize];
            // Behind the greeting and the token.
            gate.change_in.store(80 + below(100_000), Ordering::Relaxed);
            storage.put(name, &[&bytes]).unwrap();
            changed += u64::from(gate.change_in.swap(0, Ordering::Relaxed) == 0);
            assert!(storage.get(name, None).unwrap() == bytes, "{seed}");
            if seed % 50 == 49 || seed + 1 == count / 2 {
                let options = HealOptions::default().read_data(true);
                let report = bed.open(Plan::Auto).heal(options, &Quiet).unwrap();
                assert_eq!((report.damaged_parts, report.unhealed_objects), (0, 0));
            }
            if seed % 50 == 49 {
                for listed in storage.list(ObjectKind::Pack).unwrap() {
                    storage
                        .delete(Name::new(ObjectKind::Pack, listed.id))
                        .unwrap();
                }
            }
        }
    }
    assert!(changed > count * 3 / 4, "{changed} of {count} were changed");
}

#[cfg(not(feature = "libfabric"))]
#[test]
fn data_that_were_changed_on_the_wire_are_not_stored() {
    change_data_on_the_wire(24);
}

/// Takes an hour or two: `cargo test --release -p tabane-node --test nodes -- --ignored wire`.
#[cfg(not(feature = "libfabric"))]
#[test]
#[ignore = "takes an hour or two"]
fn ten_thousand_changes_on_the_wire() {
    change_data_on_the_wire(13_000);
}

/// A part that nodes rebuild of another one that lies is wrong as well. Who has the secret finds
/// both.
#[test]
fn what_is_rebuilt_of_forged_parts_is_found_and_healed() {
    let bed = Bed::new(5);
    let storage = bed.open(Plan::Auto);
    let (name, bytes) = object(7, 900_000);
    storage.put(name, &[&bytes]).unwrap();
    let sound = bed.shards();
    let (path, stored) = &shards_of(&sound[1])[0];
    let mut forged = stored.clone();
    let Header { shape, role } = Header::parse(name.id, stored).unwrap();
    for row in 0..shape.geometry.layout().rows() {
        let at = shape.geometry.stored(Form::Tagged, row, &(0..1));
        let (start, end) = (at.start as usize, at.end as usize);
        forged[start] ^= 1;
        let sum = checksum(name.id, role, row, 0, &[&forged[start..end - 16]]);
        forged[end - 16..end].copy_from_slice(&sum);
    }
    fs::write(bed.home(1).join("shards").join(path), &forged).unwrap();
    lose(&bed, 3);
    let report = bed
        .open(Plan::Auto)
        .heal(HealOptions::default(), &Quiet)
        .unwrap();
    assert_eq!((report.relayed_parts, report.forged_parts), (1, 0));
    let storage = bed.open(Plan::Auto);
    assert!(storage.get(name, None).unwrap() == bytes);
    let options = HealOptions::default().read_data(true);
    let report = storage.heal(options, &Quiet).unwrap();
    assert_eq!(
        (report.forged_parts, report.unhealed_objects),
        (2, 0),
        "{report:?}"
    );
    assert!(bed.shards() == sound);
    let notices = bed.notices().join("\n");
    assert!(
        notices.contains("node://n1 has parts with right checksums"),
        "{notices}"
    );
}

/// However long a peer does not answer to which it connects.
#[cfg(not(feature = "libfabric"))]
#[test]
fn a_node_stops_within_the_time_that_clients_wait_for_it() {
    let mut bed = Bed::new(5);
    let gates = Gate::before_all(&mut bed);
    gates[4].keeps_data.store(true, Ordering::Relaxed);
    let nodes = cluster::nodes(&bed.file()).unwrap();
    let nodes: Vec<&cluster::NodeStorage> = nodes.iter().map(|node| &**node).collect();
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| cluster::cut_links(&nodes));
        std::thread::sleep(Duration::from_millis(500));
        let begun = Instant::now();
        bed.stop(0);
        let took = begun.elapsed();
        assert!(took < cluster::RESTART_TIME * 3 / 4, "{took:?}");
        gates[4].keeps_data.store(false, Ordering::Relaxed);
        assert_ne!(looking.join().unwrap(), Some(Vec::new()));
    });
}

#[test]
fn a_node_that_hangs_costs_seconds_and_comes_back() {
    let mut bed = Bed::new(5);
    let gate = Gate::new(bed.nodes[2].address.clone());
    let mut file = ClusterFile::read(&bed.file()).unwrap();
    file.nodes[2].address.clone_from(&gate.address);
    cluster::file::write(&bed.file(), &file, true).unwrap();
    bed.nodes = file.nodes;
    let storage = bed.open(Plan::Auto);
    let objects: Vec<_> = (950..953).map(|seed| object(seed, 2_500_000)).collect();
    storage.put(objects[0].0, &[&objects[0].1]).unwrap();
    gate.freeze(true);
    // Writes and reads notice it in a way of their own.
    for (name, bytes) in &objects[1..] {
        let begun = Instant::now();
        storage.put(*name, &[bytes]).unwrap();
        assert!(
            begun.elapsed() < Duration::from_secs(15),
            "{:?}",
            begun.elapsed()
        );
    }
    let other = bed.open(Plan::Auto);
    for (name, bytes) in &objects {
        let begun = Instant::now();
        assert!(other.get(*name, None).unwrap() == *bytes);
        assert!(
            begun.elapsed() < Duration::from_secs(15),
            "{:?}",
            begun.elapsed()
        );
    }
    let notices = bed.notices().join("\n");
    assert!(notices.contains("node://n2 fails"), "{notices}");
    gate.freeze(false);
    let begun = Instant::now();
    while !bed.notices().join("\n").contains("answers again") {
        std::thread::sleep(Duration::from_millis(50));
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
    let report = storage.heal(HealOptions::default(), &Quiet).unwrap();
    assert_eq!((report.healed_objects, report.missing_targets), (2, 0));
}

/// Removes what a node has of all objects.
fn lose(bed: &Bed, number: usize) {
    for (name, _) in shards_of(&files(&bed.home(number).join("shards"))) {
        fs::remove_file(bed.home(number).join("shards").join(name)).unwrap();
    }
}

/// For four clients over equal links, the best mixture sends 13 bytes of 18 directly, and has nodes
/// make the parities of the others; how equal they seem depends on what else the machine does.
#[test]
fn sectors_of_a_stripe_take_turns_with_the_plans() {
    let bed = Bed::new(5);
    let relayed = || relayed_by_nodes(&bed).iter().sum::<u64>();
    let mut objects = Vec::new();
    let mut put = |storage: &StripedStorage, len: usize| {
        let (name, bytes) = object(objects.len() as u64, len);
        storage.put(name, &[&bytes]).unwrap();
        objects.push((name, bytes));
    };
    let clients: Vec<_> = (0..4).map(|_| bed.open(Plan::Auto)).collect();
    for client in &clients[..3] {
        put(client, 70_000);
    }
    let before = relayed();
    // Seven sectors of 12 data cells. For one that is relayed, nodes make 16 transfers.
    let len = 12 * 7 * (64 << 10);
    put(&clients[3], len);
    let sectors = (relayed() - before) as f64 / (16 * (64 << 10)) as f64;
    assert!((0.9..6.1).contains(&sectors), "{sectors} of 7 were relayed");
    for (number, client) in (0..12).zip(clients.iter().cycle()) {
        put(client, 300_000 * (1 + number));
    }
    assert_eq!(bed.notices(), Vec::<String>::new());
    let storage = bed.open(Plan::Auto);
    for (name, bytes) in objects {
        assert!(storage.get(name, None).unwrap() == bytes);
    }
    let options = HealOptions::default().read_data(true);
    let report = storage.heal(options, &Quiet).unwrap();
    assert_eq!((report.damaged_parts, report.unhealed_objects), (0, 0));
}

fn relayed_by_nodes(bed: &Bed) -> Vec<u64> {
    let nodes = cluster::nodes(&bed.file()).unwrap();
    let nodes = nodes.iter();
    nodes
        .map(|node| node.status().unwrap().relayed_bytes)
        .collect()
}

#[test]
fn nodes_rebuild_among_themselves_what_one_or_two_have_lost() {
    for count in [3, 5, 8] {
        let bed = Bed::new(count);
        let storage = bed.open(Plan::Always(Kind::Direct));
        for (seed, len) in (0..).zip(LENS) {
            let (name, bytes) = object(500 + seed, len);
            storage.put(name, &[&bytes]).unwrap();
        }
        let before = bed.shards();
        let mut written = 0;
        for lost in [vec![1], vec![0, 2], vec![count - 1, 1]] {
            lost.iter().for_each(|&number| lose(&bed, number));
            let storage = bed.open(Plan::Auto);
            let relayed = relayed_by_nodes(&bed);
            let report = storage.heal(HealOptions::default(), &Quiet).unwrap();
            let parts = (LENS.len() * lost.len()) as u64;
            assert_eq!(report.healed_objects, LENS.len() as u64, "{report:?}");
            assert_eq!((report.written_parts, report.relayed_parts), (parts, parts));
            assert!(bed.shards() == before, "{count} nodes, {lost:?}");
            written += report.written_bytes;
            // None moved more than what was lost: its header and checksums are written where they
            // are.
            for (before, after) in relayed.iter().zip(relayed_by_nodes(&bed)) {
                assert!(after - before <= report.written_bytes, "{report:?}");
            }
        }
        assert!(written > 0);
        assert_eq!(bed.notices(), Vec::<String>::new());
    }
}

#[test]
fn writes_go_on_while_nodes_rebuild() {
    let bed = Bed::new(5);
    let storage = bed.open(Plan::Auto);
    let objects: Vec<_> = (600..620).map(|seed| object(seed, 900_000)).collect();
    let (old, new) = objects.split_at(10);
    for (name, bytes) in old {
        storage.put(*name, &[bytes]).unwrap();
    }
    lose(&bed, 3);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let report = bed.open(Plan::Auto).heal(HealOptions::default(), &Quiet);
            let report = report.unwrap();
            assert_eq!(report.unhealed_objects, 0);
            assert!(report.relayed_parts >= 10, "{report:?}");
        });
        for (name, bytes) in new {
            storage.put(*name, &[bytes]).unwrap();
        }
    });
    assert_eq!(bed.notices(), Vec::<String>::new());
    let survey = bed.open(Plan::Auto).survey().unwrap();
    assert_eq!((survey.objects, survey.incomplete_objects), (20, 0));
    lose(&bed, 0);
    lose(&bed, 1);
    for (name, bytes) in &objects {
        assert!(storage.get(*name, None).unwrap() == *bytes);
    }
}

#[test]
fn a_heal_goes_around_what_nodes_cannot_rebuild() {
    let mut bed = Bed::new(5);
    let storage = bed.open(Plan::Auto);
    let (name, bytes) = object(700, 900_000);
    storage.put(name, &[&bytes]).unwrap();
    let before = bed.shards();
    // All sectors of a part that is left have changed.
    lose(&bed, 2);
    let (part, mut stored) = shards_of(&before[4]).remove(0);
    let changed = stored.iter_mut().skip(1000).step_by(20_000);
    changed.for_each(|byte| *byte ^= 1);
    fs::write(bed.home(4).join("shards").join(part), stored).unwrap();
    let storage = bed.open(Plan::Auto);
    let report = storage.heal(HealOptions::default(), &Quiet).unwrap();
    assert_eq!((report.unhealed_objects, report.healed_objects), (0, 1));
    assert_eq!(report.relayed_parts, 0);
    let notices = bed.notices().join("\n");
    assert!(notices.contains("damaged"), "{notices}");
    assert!(bed.shards() == before, "{report:?}");
    // A node is away.
    lose(&bed, 2);
    bed.stop(0);
    let storage = bed.open(Plan::Auto);
    let report = storage.heal(HealOptions::default(), &Quiet).unwrap();
    assert_eq!((report.relayed_parts, report.written_parts), (0, 1));
    bed.start(0);
    assert!(bed.shards() == before, "{report:?}");
}

#[test]
fn too_few_nodes_are_not_taken_for_an_object_that_is_not_there() {
    let mut bed = Bed::new(5);
    let storage = bed.open(Plan::Auto);
    let (name, bytes) = object(800, 900_000);
    storage.put(name, &[&bytes]).unwrap();
    (0..3).for_each(|number| bed.stop(number));
    let error = storage.get(name, None).unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::TooFewTargets, "{error}");
    assert_eq!(error.object(), Some(name));
    let text = error.to_string();
    assert!(text.starts_with("3 of 5 targets are missing"), "{text}");
}

/// Why it was refused.
fn refusal(error: tabane_storage::Result<impl Sized>) -> String {
    error.err().expect("it is refused").to_string()
}

#[test]
fn only_the_nodes_own_directory_is_served_and_by_one_daemon() {
    let mut bed = Bed::new(3);
    let again = refusal(Server::start(bed.options(0)));
    assert!(again.contains("another daemon is serving it"), "{again}");
    bed.stop(0);
    let mut other = bed.options(1);
    other.directory = bed.home(0);
    let wrong = refusal(Server::start(other));
    assert!(wrong.contains("data of node n0"), "{wrong}");
    let another = Bed::new(3);
    let mut other = another.options(0);
    other.directory = bed.home(0);
    let wrong = refusal(Server::start(other));
    assert!(wrong.contains("of cluster"), "{wrong}");
    let mut other = bed.options(0);
    other.directory = bed.dir.path().to_owned();
    let wrong = refusal(Server::start(other));
    assert!(wrong.contains("not empty, and no node's"), "{wrong}");
}

#[test]
fn limits_hold_for_all_nodes_together() {
    let bed = Bed::new(3);
    let options = RemoteOptions::default()
        .upload_kib_per_s(Some(1000))
        .download_kib_per_s(Some(1000));
    let storage = cluster::open_file(&bed.file(), &options, Plan::Auto).unwrap();
    let (name, bytes) = object(1, 700_000);
    // A quarter of a second may be made up for.
    let least = Duration::from_millis(700_000 / 1024 - 250);
    let begun = Instant::now();
    storage.put(name, &[&bytes]).unwrap();
    assert!(begun.elapsed() >= least);
    let begun = Instant::now();
    assert!(storage.get(name, None).unwrap() == bytes);
    assert!(begun.elapsed() >= least);
}

#[test]
fn who_is_not_of_the_cluster_is_not_let_in() {
    let bed = Bed::new(3);
    let another = Bed::new(3);
    // The other cluster's client, sent to these nodes.
    let mut file = ClusterFile::read(&another.file()).unwrap();
    file.nodes = bed.nodes.clone();
    let stranger = bed.dir.path().join("stranger.json");
    cluster::file::write(&stranger, &file, false).unwrap();
    for node in cluster::nodes(&stranger).unwrap() {
        let error = node.status().unwrap_err().to_string();
        assert!(error.contains("certificate"), "{error}");
    }
    // A client of this cluster to whom another node is told as this one.
    let mut file = ClusterFile::read(&bed.file()).unwrap();
    file.nodes[0].address.clone_from(&bed.nodes[1].address);
    let swapped = bed.dir.path().join("swapped.json");
    cluster::file::write(&swapped, &file, false).unwrap();
    let error = cluster::nodes(&swapped).unwrap()[0]
        .status()
        .unwrap_err()
        .to_string();
    assert!(error.contains("certificate"), "{error}");
    // A node cannot pass for a client.
    let mut file = ClusterFile::read(&bed.file()).unwrap();
    file.credentials = bed.options(0).node.credentials;
    let node = bed.dir.path().join("node.json");
    cluster::file::write(&node, &file, false).unwrap();
    assert!(cluster::nodes(&node).unwrap()[1].status().is_err());
}

/// Waits for up to 20 s until something is so.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Nodes read what they keep, and a heal replaces what they find, without reading all the rest.
#[test]
fn nodes_scrub_by_themselves_and_a_heal_replaces_what_they_find() {
    let mut bed = Bed::new(4);
    bed.scrub.pause = Some(Duration::from_secs(1));
    for number in 0..4 {
        bed.stop(number);
        bed.restart(number);
    }
    let storage = bed.open(Plan::Auto);
    let objects: Vec<_> = (50..56).map(|seed| object(seed, 300_000)).collect();
    let small = object(57, 900);
    for (name, bytes) in objects.iter().chain([&small]) {
        storage.put(*name, &[bytes]).unwrap();
    }
    let before = bed.shards();
    for (path, stored) in &shards_of(&before[1])[..2] {
        let mut changed = stored.clone();
        changed[stored.len() / 2] ^= 8;
        fs::write(bed.home(1).join("shards").join(path), changed).unwrap();
    }
    let nodes = cluster::nodes(&bed.file()).unwrap();
    let damaged = |number: usize| {
        let scrub = nodes[number].status().unwrap().scrub;
        scrub.map_or(0, |scrub| scrub.damaged)
    };
    wait_until("the node finds two", || damaged(1) == 2);
    assert_eq!([0, 2, 3].map(damaged), [0; 3]);
    assert_eq!(nodes[1].doubts().unwrap().len(), 2);
    let report = bed
        .open(Plan::Auto)
        .heal(HealOptions::default(), &Quiet)
        .unwrap();
    assert_eq!(
        (report.healed_objects, report.damaged_parts),
        (2, 2),
        "{report:?}"
    );
    assert!(
        report.read_bytes < 1_300_000,
        "the other objects are not read: {report:?}"
    );
    assert!(bed.shards() == before);
    assert_eq!(damaged(1), 0);
    let log = bed.log.lock().unwrap().join("\n");
    assert_eq!(log.matches("the scrub finds ").count(), 2, "{log}");
}

#[test]
fn a_node_takes_no_more_packs_than_its_quota_has_room_for() {
    let mut bed = Bed::new(4);
    bed.stop(2);
    bed.quota_bytes = Some(wire::RESERVE_BYTES + 2_000_000);
    bed.restart(2);
    let storage = bed.open(Plan::Auto);
    let objects: Vec<_> = (60..68).map(|seed| object(seed, 1_000_000)).collect();
    for (name, bytes) in &objects {
        storage.put(*name, &[bytes]).unwrap();
    }
    let notices = bed.notices().join("\n");
    let told =
        "target node://n2 takes nothing new (less than 16 MiB of the quota of 17 MiB are free)";
    assert_eq!(notices.matches(told).count(), 1, "{notices}");
    let nodes = cluster::nodes(&bed.file()).unwrap();
    let lacks = bed.open(Plan::Auto).survey().unwrap().targets[2].lacks;
    assert!((3..=5).contains(&lacks), "{lacks}");
    // What is deleted makes room, also after a restart.
    for (name, _) in &objects[..3] {
        storage.delete(*name).unwrap();
    }
    let free = nodes[2].status().unwrap().free_bytes;
    bed.stop(2);
    bed.restart(2);
    assert_eq!(nodes[2].status().unwrap().free_bytes, free);
    assert!(free > wire::RESERVE_BYTES);
    let report = bed
        .open(Plan::Auto)
        .heal(HealOptions::default(), &Quiet)
        .unwrap();
    assert!(report.healed_objects > 0, "{report:?}");
}

/// Every metric that contrib/monitoring speaks of is one that nodes have.
#[test]
fn the_dashboard_and_the_alerts_know_the_metrics_of_nodes() {
    let mut bed = Bed::new(3);
    bed.stop(0);
    bed.scrub.pause = Some(Duration::from_secs(3600));
    bed.quota_bytes = Some(1 << 40);
    bed.restart(0);
    let address = bed.servers[0].as_ref().unwrap().metrics_address().unwrap();
    let metrics = || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    wait_until("a scrub", || {
        metrics().contains("tabane_node_scrub_end_seconds ")
    });
    let metrics = metrics();
    let is_of_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let contrib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/monitoring");
    for file in ["alerts.yml", "dashboard.json"] {
        let text = fs::read_to_string(contrib.join(file)).unwrap();
        let mut names = 0;
        for (at, prefix) in text.match_indices("tabane_node_") {
            let rest = &text[at + prefix.len()..];
            let name = &rest[..rest.find(|c| !is_of_name(c)).unwrap()];
            let line = format!("\ntabane_node_{name} ");
            assert!(metrics.contains(&line), "{file} has {name}: {metrics}");
            names += 1;
        }
        assert!(names > 5, "{file}");
    }
    let json = fs::read(contrib.join("dashboard.json")).unwrap();
    serde_json::from_slice::<serde_json::Value>(&json).unwrap();
}

/// The storage of a client whose file this is.
fn open_as(file: &Path) -> tabane_storage::Result<StripedStorage> {
    let options = RemoteOptions::default().patience(Duration::from_secs(60));
    let storage = cluster::open_file(file, &options, Plan::Auto)?;
    storage.learn_secret(&SECRET);
    Ok(storage)
}

#[test]
fn a_client_may_do_what_its_role_says_until_it_is_withdrawn() {
    const YEAR: Duration = Duration::from_secs(365 * 86_400);
    let bed = Bed::new(4);
    let admin = bed.open(Plan::Auto);
    let (name, bytes) = object(40, 300_000);
    admin.put(name, &[&bytes]).unwrap();
    let client = |name: &str, role| authority::add_client(&bed.file(), name, role, YEAR).unwrap();
    let (reading, appending) = (client("tablet", Role::Read), client("laptop", Role::Append));
    let again = refusal(authority::add_client(
        &bed.file(),
        "laptop",
        Role::Read,
        YEAR,
    ));
    assert!(again.contains("called laptop already"), "{again}");
    let taken = refusal(authority::add_client(&bed.file(), "n1", Role::Read, YEAR));
    assert!(taken.contains("called n1 already"), "{taken}");

    let begun = Instant::now();
    let reader = open_as(&reading).unwrap();
    assert!(reader.get(name, None).unwrap() == bytes);
    let (other, more) = object(41, 300_000);
    let (small, few) = object(42, 300);
    for (name, bytes) in [(other, &more), (small, &few)] {
        let error = reader.put(name, &[bytes]).unwrap_err();
        assert_eq!(error.kind(), StorageErrorKind::Unauthorized, "{error}");
        assert!(error.to_string().contains("its role is read"), "{error}");
    }
    let writer = open_as(&appending).unwrap();
    writer.put(other, &[&more]).unwrap();
    writer.put(small, &[&few]).unwrap();
    let record = Name::new(ObjectKind::Client, small.id);
    writer.put(record, &[&few]).unwrap();
    writer.delete(record).unwrap();
    let unverified = Name::new(ObjectKind::Unverified, small.id);
    writer.put(unverified, &[&few]).unwrap();
    let key = Name::new(ObjectKind::Key, small.id);
    let refused = [
        writer.delete(name),
        writer.put(key, &[&few]),
        reader.delete(name),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), StorageErrorKind::Unauthorized, "{error}");
    }
    assert!(admin.get(other, None).unwrap() == more);
    // By way of nodes, as an administrator's.
    assert!(relayed_by_nodes(&bed).iter().sum::<u64>() > 300_000);

    // Withdrawn: in the middle of its work, and when it comes again.
    let (last, bytes) = object(43, 300_000);
    authority::withdraw(&bed.file(), "laptop").unwrap();
    let list = ClusterFile::read(&bed.file()).unwrap().withdrawn;
    for node in cluster::nodes(&bed.file()).unwrap() {
        node.withdraw(&list).unwrap();
        assert_eq!(node.status().unwrap().withdrawn, 1);
    }
    let error = writer.put(last, &[&bytes]).unwrap_err();
    assert!(
        error.to_string().contains("laptop was withdrawn"),
        "{error}"
    );
    let error = open_as(&appending).err().unwrap();
    assert!(
        error.to_string().contains("laptop was withdrawn"),
        "{error}"
    );
    assert!(
        begun.elapsed() < Duration::from_secs(40),
        "nobody waits for what will not change"
    );
    assert!(open_as(&reading).unwrap().get(other, None).unwrap() == more);
    // One of that name may come again.
    let again = client("laptop", Role::Append);
    open_as(&again).unwrap().put(last, &[&bytes]).unwrap();
    // A node forgets nothing, and takes no list of another cluster, nor one that was changed.
    let node = &cluster::nodes(&bed.file()).unwrap()[0];
    let mut changed = list.clone();
    *changed.last_mut().unwrap() ^= 1;
    assert!(refusal(node.withdraw(&changed)).contains("has not signed it"));
    let another = Bed::new(3);
    authority::withdraw(&another.file(), "n0").unwrap();
    let foreign = ClusterFile::read(&another.file()).unwrap().withdrawn;
    assert!(node.withdraw(&foreign).is_err());
    let reader = &cluster::nodes(&reading).unwrap()[0];
    assert!(refusal(reader.withdraw(&list)).contains("its role is read"));
}

/// Records that are deleted while a node is away stay deleted, also by who may delete nothing else.
#[test]
fn a_client_that_may_only_add_works_on_while_a_node_is_away() {
    let mut bed = Bed::new(4);
    let day = Duration::from_secs(86_400);
    let file = authority::add_client(&bed.file(), "laptop", Role::Append, day).unwrap();
    let writer = open_as(&file).unwrap();
    let kinds = [ObjectKind::Client, ObjectKind::Pending];
    let records: Vec<Name> = (0..8u8)
        .map(|number| {
            Name::new(
                kinds[usize::from(number % 2)],
                object(number.into(), 300).0.id,
            )
        })
        .collect();
    for record in &records {
        writer.put(*record, &[&[7; 300]]).unwrap();
    }
    bed.stop(1);
    for record in &records {
        writer.delete(*record).unwrap();
    }
    let (name, bytes) = object(50, 300_000);
    writer.put(name, &[&bytes]).unwrap();
    bed.restart(1);
    let nobody = |storage: &StripedStorage| {
        kinds
            .iter()
            .all(|kind| storage.list(*kind).unwrap().is_empty())
    };
    let held = |bed: &Bed| {
        let all = bed.shards().into_iter().flatten();
        let of_records = |path: &str| path.contains("clients/") || path.contains("pending/");
        let all: Vec<String> = all.map(|(path, _)| path).collect();
        let count = |is: &dyn Fn(&str) -> bool| all.iter().filter(|path| is(path)).count();
        (count(&of_records), count(&|path| path.contains("deleted/")))
    };
    let (records_left, marks) = held(&bed);
    assert!(records_left > 0 && marks > 0, "{records_left} {marks}");
    // Who may only add finds them deleted, and leaves the marks to an administrator.
    let writer = open_as(&file).unwrap();
    assert!(nobody(&writer));
    let healed = writer.heal(HealOptions::default(), &Quiet).unwrap();
    assert_eq!((healed.missing_targets, healed.applied_deletions), (0, 0));
    assert!(nobody(&open_as(&file).unwrap()));
    let admin = bed.open(Plan::Auto);
    assert_eq!(
        admin
            .heal(HealOptions::default(), &Quiet)
            .unwrap()
            .applied_deletions,
        8
    );
    assert_eq!(held(&bed), (0, 0));
    assert!(admin.get(name, None).unwrap() == bytes);
}

#[test]
fn withdrawn_certificates_stay_withdrawn_after_a_restart_and_renewed_ones_are_let_in() {
    let mut bed = Bed::new(3);
    let hour = Duration::from_secs(3600);
    let laptop = authority::add_client(&bed.file(), "laptop", Role::Append, hour).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let notices = Arc::clone(&told);
    let notice = RemoteOptions::default().notice(Arc::new(move |event| {
        notices.lock().unwrap().push(event.text.clone())
    }));
    cluster::open_file(&laptop, &notice, Plan::Auto).unwrap();
    let ends = "the certificate of laptop ends in 0 days";
    assert_eq!(told.lock().unwrap().join("\n"), ends);
    let stolen = bed.dir.path().join("stolen.json");
    fs::copy(&laptop, &stolen).unwrap();
    assert_eq!(
        authority::renew(&bed.file(), "laptop", 1000 * hour).unwrap(),
        laptop
    );
    for file in [&stolen, &laptop] {
        open_as(file).unwrap();
    }
    authority::withdraw(&bed.file(), "laptop").unwrap();
    let refused = refusal(authority::renew(&bed.file(), "laptop", hour));
    assert!(
        refused.contains("knows no certificate of laptop"),
        "{refused}"
    );
    let list = ClusterFile::read(&bed.file()).unwrap().withdrawn;
    cluster::nodes(&bed.file()).unwrap()[2]
        .withdraw(&list)
        .unwrap();
    bed.stop(2);
    bed.restart(2);
    for file in [&stolen, &laptop] {
        let error = cluster::nodes(file).unwrap()[2].status().unwrap_err();
        assert!(error.to_string().contains("was withdrawn"), "{error}");
    }
    // The one that administers, and nodes.
    let first = ClusterFile::read(&bed.file()).unwrap().credentials;
    assert_eq!(
        authority::renew(&bed.file(), "admin", hour).unwrap(),
        bed.file()
    );
    assert_ne!(ClusterFile::read(&bed.file()).unwrap().credentials, first);
    bed.stop(1);
    authority::renew(&bed.file(), "n1", hour).unwrap();
    bed.restart(1);
    let storage = bed.open(Plan::Auto);
    assert!(storage.survey().unwrap().is_whole());
    let holders = authority::holders(&bed.file()).unwrap();
    let names: Vec<_> = holders.iter().map(|holder| holder.name.as_str()).collect();
    assert_eq!(names, ["admin", "laptop", "n0", "n1", "n2"]);
    assert!(holders[1].is_withdrawn && !holders[0].is_withdrawn);
}

/// A client cannot make a node say anything to somebody who is no member.
#[test]
fn a_node_says_nothing_to_who_is_no_member() {
    let bed = Bed::new(3);
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = stranger.local_addr().unwrap().to_string();
    let heard = std::thread::spawn(move || {
        let (mut stream, _) = stranger.accept().unwrap();
        let mut first = [0; 5];
        stream.read_exact(&mut first).unwrap();
        first
    });
    let node = &cluster::nodes(&bed.file()).unwrap()[0];
    let mut channel = node.channel().unwrap();
    let session = wire::random_id();
    let open = wire::Open {
        session,
        members: 3,
        me: 0,
        client_ring: 4096,
        peer_ring: 4096,
    };
    channel.ask(&wire::Request::Open(open), &[]).unwrap();
    let peer = |name: &str, address: &str| wire::Peer {
        name: name.to_owned(),
        address: address.to_owned(),
        pass: wire::Pass::random(),
        ring: 4096,
        fabric: None,
    };
    let join = |peer| {
        let reply = node.ask(
            &wire::Request::Join(session, vec![None, Some(peer), None]),
            &[],
        );
        match reply.unwrap() {
            wire::Reply::Failed(_, text) => text,
            other => panic!("{other:?}"),
        }
    };
    let refused = join(peer("n1", &address));
    assert!(
        refused.contains("node n1 is not to be found at"),
        "{refused}"
    );
    // The beginning of a handshake of TLS, and nothing of the client's.
    assert_eq!(heard.join().unwrap()[..3], [0x16, 3, 1]);
    // A member, but another one.
    let refused = join(peer("n1", &bed.nodes[2].address));
    assert!(refused.contains("certificate"), "{refused}");
    // The member, and no pass that it has given.
    let refused = join(peer("n1", &bed.nodes[1].address));
    assert!(refused.contains("has no ring that is waiting"), "{refused}");
}

/// Who does not greet is let in only so often, and is no hindrance to others.
#[test]
fn connections_that_prove_nothing_are_few() {
    let bed = Bed::new(3);
    let connect = || TcpStream::connect(&bed.nodes[0].address).unwrap();
    let idle: Vec<TcpStream> = (0..200).map(|_| connect()).collect();
    let closed = || {
        let is_closed = |mut stream: &TcpStream| {
            stream.set_nonblocking(true).unwrap();
            !matches!(stream.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
        };
        idle.iter().filter(|stream| is_closed(stream)).count()
    };
    let begun = Instant::now();
    while closed() < 130 && begun.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let refused = closed();
    assert!((130..=140).contains(&refused), "{refused}");
    // From the same address, as here, nobody else comes in; from others they do.
    let log = bed.log.lock().unwrap();
    let lines = log
        .iter()
        .filter(|line| line.contains("there are too many"));
    assert_eq!(lines.count(), 8, "{log:?}");
    drop(log);
    drop(idle);
    let node = &cluster::nodes(&bed.file()).unwrap()[0];
    let begun = Instant::now();
    while node.status().is_err() {
        assert!(begun.elapsed() < Duration::from_secs(15));
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Sends bytes to a node, and returns what it answers before it closes the connection.
fn answer(bed: &Bed, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(&bed.nodes[0].address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    // It may close before it has read everything.
    match stream.read_to_end(&mut answer) {
        Ok(_) => answer,
        Err(error) if error.kind() == ErrorKind::ConnectionReset => answer,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn garbage_other_versions_and_forged_tokens_are_refused() {
    let bed = Bed::new(3);
    assert_eq!(answer(&bed, b"GET / HTTP/1.1\r\n\r\n"), b"");
    assert_eq!(answer(&bed, &[0xff; 100]), b"");
    // Something that begins as TLS does: an alert comes back.
    assert_eq!(answer(&bed, &[0x16; 6000]).first(), Some(&0x15));
    let greeting = wire::greeting(wire::DATA_MAGIC);
    let mut older = greeting.to_vec();
    older[8] = 0;
    assert_eq!(answer(&bed, &older), greeting);
    let mut forged = greeting.to_vec();
    forged.extend([7; 32]);
    let mut refused = greeting.to_vec();
    refused.push(0);
    assert_eq!(answer(&bed, &forged), refused);
    // Single bytes now and then do not extend the time for the greeting.
    for first in [wire::DATA_MAGIC[0], 0x16] {
        let mut slow = TcpStream::connect(&bed.nodes[0].address).unwrap();
        slow.write_all(&[first]).unwrap();
        let begun = Instant::now();
        // What comes to a connection that is closed is an error soon.
        while slow.write_all(&[3]).is_ok() {
            std::thread::sleep(Duration::from_millis(300));
            assert!(begun.elapsed() < Duration::from_secs(15));
        }
    }
    let log = bed.log.lock().unwrap().join("\n");
    for says in [
        "does not speak",
        "within 10 s",
        "version 0",
        "no permission for any ring",
    ] {
        assert!(log.contains(says), "{says}: {log}");
    }
}

/// Twice as many nodes, twice; then two racks are away, four nodes are replaced, and a group is
/// drained.
#[test]
fn a_cluster_of_6_nodes_grows_to_12_and_24() {
    const RACKS: usize = 6;
    let node = |number: usize| NodeAddress {
        rack: Some(format!("r{}", number % RACKS)),
        ..NodeAddress::new(format!("n{number}"), "127.0.0.1:0".to_owned())
    };
    let mut bed = Bed::of(&(0..6).map(node).collect::<Vec<_>>(), Some(6));
    let objects: Vec<_> = (0..80).map(|seed| object(seed, 250_000)).collect();
    let storage = bed.open(Plan::Auto);
    for (name, bytes) in &objects {
        storage.put(*name, &[bytes]).unwrap();
    }
    let check = |bed: &Bed| {
        let storage = bed.open(Plan::Auto);
        assert_eq!(storage.list(ObjectKind::Pack).unwrap().len(), objects.len());
        for (name, bytes) in &objects {
            assert!(storage.get(*name, None).unwrap() == *bytes);
        }
    };
    let stored = |bed: &Bed| -> Vec<u64> {
        let packs = |files: Vec<(String, Vec<u8>)>| {
            let packs = files
                .into_iter()
                .filter(|(name, _)| name.starts_with("packs"));
            packs.map(|(_, bytes)| bytes.len() as u64).sum()
        };
        bed.shards().into_iter().map(packs).collect()
    };
    let total: u64 = stored(&bed).iter().sum();
    for nodes in [12, 24] {
        while bed.nodes.len() < nodes {
            let first = bed.nodes.len();
            let places: Vec<Place> = (first..first + RACKS)
                .map(|number| bed.serve_another(node(number)))
                .collect();
            bed.open(Plan::Auto).add_group(&places).unwrap();
        }
        let options = RebalanceOptions::default().listing_time(Duration::from_millis(100));
        let report = bed.open(Plan::Auto).rebalance(options, &Quiet).unwrap();
        // Half of all has to move each time.
        assert!(
            report.moved_bytes <= total / 2 * 11 / 10,
            "{report:?} {total}"
        );
        let stored = stored(&bed);
        // A shard is longer by the number of its generation.
        let all: u64 = stored.iter().sum();
        assert!((total..total + 1000).contains(&all), "{all} {total}");
        let share = total / nodes as u64;
        assert!(
            stored
                .iter()
                .all(|bytes| bytes.abs_diff(share) <= share / 5),
            "{stored:?}"
        );
        check(&bed);
    }
    // Two racks are away: a third of all nodes.
    let away: Vec<usize> = (0..24).filter(|number| number % RACKS < 2).collect();
    away.iter().for_each(|&number| bed.stop(number));
    check(&bed);
    away.iter().for_each(|&number| bed.restart(number));
    bed.open(Plan::Auto)
        .heal(HealOptions::default(), &Quiet)
        .unwrap();
    // One node of each group gives way to an empty one.
    let before = stored(&bed);
    let drained = [0, 7, 14, 21];
    for (new, old) in drained.into_iter().enumerate() {
        let place = bed.serve_another(node(24 + new));
        let url = cluster::node_url(&format!("n{old}"));
        bed.open(Plan::Auto).replace(&url, &place).unwrap();
    }
    let report = bed
        .open(Plan::Auto)
        .heal(HealOptions::default(), &Quiet)
        .unwrap();
    let least: u64 = drained.iter().map(|&number| before[number]).sum();
    // With copies of small objects.
    assert!(
        report.written_bytes <= least * 11 / 10,
        "{report:?} {least}"
    );
    drained.iter().for_each(|&number| bed.stop(number));
    check(&bed);
    let survey = bed.open(Plan::Auto).survey().unwrap();
    assert!(survey.is_whole());
    // A whole group is given up.
    let last = survey
        .targets
        .iter()
        .filter(|target| target.group == Some(4));
    let last: Vec<&str> = last.map(|target| target.url.as_str()).collect();
    assert_eq!(last.len(), RACKS);
    assert!(bed.open(Plan::Auto).retire(&last).unwrap());
    let storage = bed.open(Plan::Auto);
    storage.heal(HealOptions::default(), &Quiet).unwrap();
    let options = RebalanceOptions::default().listing_time(Duration::from_millis(100));
    let report = storage.rebalance(options, &Quiet).unwrap();
    let retired = survey
        .targets
        .iter()
        .filter(|target| target.group == Some(4));
    let least: u64 = retired.map(|target| target.bytes).sum();
    assert!(report.moved_bytes <= least * 11 / 10, "{report:?} {least}");
    storage.forget_retired(&last).unwrap();
    for number in 0..bed.nodes.len() {
        if last.contains(&cluster::node_url(&format!("n{number}")).as_str()) {
            bed.stop(number);
        }
    }
    check(&bed);
    assert!(bed.open(Plan::Auto).survey().unwrap().is_whole());
}
