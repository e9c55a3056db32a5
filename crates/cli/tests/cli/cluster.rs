//! Real daemons on this machine, and a repository over them.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::bed::{Bed, Ran, bare_command, restored, run};

/// A daemon, which ends with the test.
pub struct Daemon {
    child: Child,
    serving: Value,
}

impl Daemon {
    pub fn start(bed: &Bed, name: &str) -> Self {
        Self::start_on(bed, name, &bed.path(&format!("dir-{name}")))
    }

    /// The same, with its data in this folder.
    pub fn start_on(bed: &Bed, name: &str, dir: &Path) -> Self {
        let mut child = command_of_daemon(bed, name, dir)
            .spawn()
            .expect("it starts");
        let stdout = child.stdout.take().expect("it is piped");
        let mut line = String::new();
        BufReader::new(stdout)
            .read_line(&mut line)
            .expect("it says where it listens");
        let serving: Value = serde_json::from_str(&line).expect("JSON");
        tell_address(bed, name, serving["address"].as_str().expect("an address"));
        Self { child, serving }
    }

    /// The node as `NAME=ADDRESS`, as commands take it.
    fn node(&self) -> String {
        let text = |what: &str| self.serving[what].as_str().expect("a text").to_owned();
        format!("{}={}", text("node"), text("address"))
    }

    /// Stops it in the middle of whatever it does, so that it answers nobody any more.
    pub fn hang(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("it runs");
    }

    /// Ends it as a service is ended, and waits for it.
    pub fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command_of_daemon(bed: &Bed, name: &str, dir: &Path) -> Command {
    let node = bed.path(&format!("cluster-{name}.json"));
    let mut command = bare_command([OsStr::new("node"), "serve".as_ref(), "--json".as_ref()]);
    command
        .args([
            "--listen",
            "127.0.0.1:0",
            "--metrics",
            "127.0.0.1:0",
            "--node",
        ])
        .arg(node)
        .arg("--dir")
        .arg(dir)
        .stdout(Stdio::piped());
    command
}

/// Corrects where a node is found: the system has chosen its port.
fn tell_address(bed: &Bed, name: &str, address: &str) {
    let file = bed.path("cluster.json");
    let mut cluster: Value =
        serde_json::from_slice(&fs::read(&file).expect("it is there")).expect("JSON");
    for node in cluster["nodes"].as_array_mut().expect("a list") {
        if node["name"] == name {
            node["address"] = address.into();
        }
    }
    fs::write(file, cluster.to_string()).expect("it can be written");
}

pub fn tabane<A: AsRef<OsStr>>(bed: &Bed, args: impl IntoIterator<Item = A>) -> Ran {
    tabane_as(bed, "cluster.json", args)
}

/// The same, by the client that has this file.
fn tabane_as<A: AsRef<OsStr>>(bed: &Bed, file: &str, args: impl IntoIterator<Item = A>) -> Ran {
    let mut command = bed.command(args);
    let mut place = std::ffi::OsString::from("cluster:");
    place.push(bed.path(file));
    run(command.env("TABANE_REPOSITORY", place))
}

/// Restores the latest snapshot, and compares a file with what it was.
#[track_caller]
fn comes_back(bed: &Bed) -> Ran {
    let target = bed.path("target");
    let _ = fs::remove_dir_all(&target);
    let text = target.display().to_string();
    let ran = tabane(bed, ["restore", "latest", "--target", &text, "--no-cache"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let file = bed.source().join("docs/deep/data.bin");
    let back = fs::read(restored(&target, &file)).expect("it was restored");
    assert!(back == fs::read(file).expect("it is there"));
    ran
}

/// Flips a bit of every sector of every file below a folder.
fn flip(folder: &Path) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            flip(&path);
            continue;
        }
        let mut bytes = fs::read(&path).expect("a file");
        let sectors = bytes.iter_mut().skip(100).step_by(60_000);
        sectors.for_each(|byte| *byte ^= 1);
        fs::write(&path, bytes).expect("it can be written");
    }
}

fn get(address: &Value, path: &str) -> String {
    let mut stream = TcpStream::connect(address.as_str().expect("an address")).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn a_repository_over_nodes_of_which_one_dies_and_one_is_replaced() {
    let bed = Bed::new();
    let file = bed.path("cluster.json").display().to_string();
    let node = |name: &str| format!("{name}=127.0.0.1:0");
    let nodes: Vec<String> = ["a", "b", "c", "d"].map(node).to_vec();
    let create = || {
        let nodes = nodes.iter().flat_map(|node| ["--node", node]);
        let args = ["cluster", "create", &file].into_iter().chain(nodes);
        run(&mut bare_command(args))
    };
    create().succeeds().says("cluster-authority.json");
    create().fails(1, "choose another name");
    let mode = fs::metadata(&file).expect("it is there").permissions();
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777,
        0o600
    );

    let mut daemons: Vec<Daemon> = ["a", "b", "c", "d"]
        .map(|name| Daemon::start(&bed, name))
        .into();
    tabane(&bed, ["snapshots"]).fails(10, "there is no repository at cluster:");
    tabane(&bed, ["init"]).succeeds();
    let source = bed.source().display().to_string();
    tabane(&bed, ["backup", &source]).succeeds();
    comes_back(&bed);
    let bench = ["cluster", "bench", "--seconds", "0.2", "--plans"];
    let bench = |plans| tabane(&bed, bench.into_iter().chain([plans, "--json"]));
    let measured = bench("direct,auto").succeeds().last_json();
    assert_eq!(measured["plan"], "auto");
    assert!(measured["write_mb_per_s"].as_f64() > Some(0.0));
    tabane(&bed, ["cluster", "bench", "--plans", "fast"]).fails(2, "there are auto, direct");
    let status = tabane(&bed, ["cluster", "status", "--json"])
        .succeeds()
        .last_json();
    assert_eq!(
        status["statement"],
        "any two targets can be lost now without losing data"
    );
    let relayed = |status: &Value, number: usize| {
        status["nodes"][number]["status"]["relayed_bytes"]
            .as_u64()
            .expect("a number")
    };
    assert!((0..4).map(|number| relayed(&status, number)).sum::<u64>() > 0);
    let metrics = get(&daemons[0].serving["metrics"], "/metrics");
    assert!(
        metrics.contains("\ntabane_node_stored_bytes_total "),
        "{metrics}"
    );
    assert!(get(&daemons[0].serving["metrics"], "/health").ends_with("\r\n\r\nok\n"));

    // A second daemon on a directory, and a node with another's data.
    let refused = |name: &str, dir: &str| {
        let dir = bed.path(&format!("dir-{dir}"));
        let ran = run(&mut command_of_daemon(&bed, name, &dir));
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        ran.stderr
    };
    let why = refused("a", "a");
    assert!(why.contains("another daemon is serving it"), "{why}");
    daemons.remove(1).stop();
    let why = refused("a", "b");
    assert!(why.contains("data of node b"), "{why}");

    // One is stopped, another killed: everything goes on.
    drop(daemons.remove(2));
    fs::write(bed.source().join("more"), crate::bed::varied(400_000)).expect("a file");
    let ran = tabane(&bed, ["backup", &source]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("2 of 4 targets missing"),
        "{}",
        ran.stderr
    );
    comes_back(&bed);
    let status = tabane(&bed, ["cluster", "status"]);
    assert_eq!(status.code, Some(5), "{}", status.stdout);
    assert_eq!(
        status.stdout.matches(" missing ").count(),
        2,
        "{}",
        status.stdout
    );

    // The one comes back, a new one takes the place of the other.
    daemons.push(Daemon::start(&bed, "b"));
    let replace = |old: &str, new: &str| tabane(&bed, ["cluster", "replace", old, new]);
    replace("x", "e=127.0.0.1:0").fails(1, "no node x: there are a, b, c, d");
    let written = replace("d", "e=127.0.0.1:0");
    assert!(written.stdout.contains("serve the node with it"));
    daemons.push(Daemon::start(&bed, "e"));
    replace("d", "e=127.0.0.1:0").fails(1, "e is known to be at");
    let before = fs::read(&file).expect("it is there");
    let replaced = replace("d", &daemons[3].node());
    assert!(
        replaced.stdout.contains("e is a node of the repository"),
        "{}",
        replaced.stderr
    );
    // As if the command had been killed before it changed the file.
    fs::write(&file, before).expect("it can be written");
    replace("d", &daemons[3].node()).says("e is a node of the repository");
    replace("d", &daemons[3].node()).fails(1, "e is in its place");
    tabane(&bed, ["cluster", "heal"]).succeeds().says("healed");
    let status = tabane(&bed, ["cluster", "status"]).succeeds();
    status.says("any two targets can be lost now");
    tabane(&bed, ["check", "--read-data"])
        .succeeds()
        .says("no problems were found\n");
    // A node is left out that has parity of each pack alone, or that seems slow, as on a busy
    // machine.
    let read = |name: &&str| {
        let shards = bed.path(&format!("dir-{name}/shards/packs"));
        flip(&shards);
        let checked = std::iter::repeat_with(|| tabane(&bed, ["check", "--read-data"]))
            .take(20)
            .find(|ran| ran.stdout.contains("damage that was read round"));
        let Some(checked) = checked else {
            flip(&shards);
            return false;
        };
        assert_eq!(checked.code, Some(0), "{}", checked.stderr);
        let warning = format!("node://{name}: parts of ");
        assert!(checked.stderr.contains(&warning), "{}", checked.stderr);
        true
    };
    ["a", "b", "c"]
        .iter()
        .find(|name| read(name))
        .expect("one is read");
    tabane(&bed, ["cluster", "scrub"]).succeeds();
    tabane(&bed, ["check", "--read-data"])
        .succeeds()
        .says("no problems were found\n");

    // One has lost its disk.
    let lost = daemons.remove(0);
    lost.stop();
    fs::remove_dir_all(bed.path("dir-a")).expect("it can be removed");
    daemons.push(Daemon::start(&bed, "a"));
    let status = tabane(&bed, ["cluster", "status", "--json"]);
    assert_eq!(status.code, Some(4), "{}", status.stdout);
    assert_eq!(status.last_json()["nodes"][0]["state"], "missing");
    tabane(&bed, ["cluster", "status"]).says("node://a: the place is empty");
    let healed = tabane(&bed, ["cluster", "heal"]);
    assert_eq!(healed.code, Some(1), "{}", healed.stdout);
    let advice = "`tabane cluster replace` first";
    assert!(healed.stderr.contains(advice), "{}", healed.stderr);
    let node = daemons[3].node();
    replace("a", &node).says("a is a node of the repository now");
    tabane(&bed, ["cluster", "heal"]).succeeds().says("healed");
    let status = tabane(&bed, ["cluster", "status"]).succeeds();
    status.says("any two targets can be lost now");
    tabane(&bed, ["cluster", "remove", "a"]).fails(1, "a is a node of the repository");
    comes_back(&bed);

    // Too many are gone.
    daemons.truncate(1);
    let status = tabane(&bed, ["cluster", "status"]);
    assert_eq!(status.code, Some(1), "{}", status.stderr);
    assert!(
        status.stdout.contains("3 of 4 targets are missing"),
        "{}",
        status.stdout
    );
    assert!(
        status.stdout.contains("bring them back"),
        "{}",
        status.stdout
    );
}

#[test]
fn a_node_is_added_and_takes_its_share() {
    let bed = Bed::new();
    let file = bed.path("cluster.json").display().to_string();
    let nodes = ["a", "b", "c"].map(|name| format!("--node={name}=127.0.0.1:0"));
    let create = ["cluster", "create", &file].into_iter();
    run(&mut bare_command(
        create.chain(nodes.iter().map(String::as_str)),
    ))
    .succeeds();
    let mut daemons: Vec<Daemon> = ["a", "b", "c"].map(|name| Daemon::start(&bed, name)).into();
    tabane(&bed, ["init"]).succeeds();
    let source = bed.source().display().to_string();
    tabane(&bed, ["backup", &source]).succeeds();

    let add = |node: &str| tabane(&bed, ["cluster", "add", node]);
    add("d=127.0.0.1:0")
        .succeeds()
        .says("serve the node with it");
    // The new node is not served yet: nothing changes.
    add("d=127.0.0.1:0").fails(1, "serve the node");
    add(&format!("x={}", daemons[0].node().replace("a=", ""))).fails(1, "a and x would both be at");
    // Two nodes at once, and one by mistake.
    std::thread::scope(|scope| {
        for name in ["x", "y", "z"] {
            scope.spawn(move || add(&format!("{name}=127.0.0.1:0")).succeeds());
        }
    });
    for name in ["x", "y", "z"] {
        tabane(&bed, ["cluster", "remove", name]).succeeds();
    }
    tabane(&bed, ["cluster", "remove", "x"]).fails(1, "no node x: there are a, b, c, d");
    // Its file is still there.
    add("x=127.0.0.1:0").succeeds();
    tabane(&bed, ["cluster", "remove", "x"]).succeeds();
    daemons.push(Daemon::start(&bed, "d"));
    let node = daemons[3].node();
    add(&node)
        .succeeds()
        .says("d is a node of the repository now");
    tabane(&bed, ["cluster", "heal"]).succeeds();

    // New objects go to all nodes; old objects are unchanged.
    fs::write(bed.source().join("more"), crate::bed::varied(900_000)).expect("a file");
    tabane(&bed, ["backup", &source]).succeeds();
    let status = tabane(&bed, ["cluster", "status", "--json"])
        .succeeds()
        .last_json();
    let stored = &status["nodes"][3]["status"]["stored_bytes"];
    assert!(stored.as_u64().expect("a number") > 300_000, "{status}");
    assert_eq!(
        status["statement"],
        "any two targets can be lost now without losing data"
    );
    for name in 0..2 {
        drop(daemons.remove(name));
    }
    comes_back(&bed);
}

#[test]
fn a_cluster_of_groups_grows_by_a_group() {
    let bed = Bed::new();
    let file = bed.path("cluster.json").display().to_string();
    let names = ["a", "b", "c", "d", "e", "f"];
    let nodes = names.iter().zip(["r1", "r1", "r2", "r2", "r3", "r3"]);
    let nodes: Vec<String> = nodes
        .map(|(name, rack)| format!("--node={name}=127.0.0.1:0@{rack}"))
        .collect();
    let create = ["cluster", "create", &file, "--group-size", "3"].into_iter();
    let create = create.chain(nodes.iter().map(String::as_str));
    run(&mut bare_command(create)).succeeds();
    let mut daemons: Vec<Daemon> = names.map(|name| Daemon::start(&bed, name)).into();
    tabane(&bed, ["init"]).succeeds();
    // Before there are packs, for which group gets which is left to chance, and after a move it
    // takes minutes to delete what has moved.
    tabane(&bed, ["cluster", "rebalance"])
        .succeeds()
        .says("moved 0 objects");
    let source = bed.source().display().to_string();
    fs::write(bed.source().join("more"), crate::bed::varied(900_000)).expect("a file");
    tabane(&bed, ["backup", &source]).succeeds();

    let two = ["cluster", "add", "g=127.0.0.1:0@r1", "h=127.0.0.1:0@r2"];
    tabane(&bed, two).fails(2, "two nodes are no group");
    let group = ["g=127.0.0.1:0@r1", "h=127.0.0.1:0@r2", "i=127.0.0.1:0@r3"];
    let add = |nodes: &[String]| {
        let nodes = nodes.iter().map(String::as_str);
        tabane(&bed, ["cluster", "add"].into_iter().chain(nodes))
    };
    let ran = add(&group.map(str::to_owned));
    ran.succeeds().says("serve each node with its file");
    daemons.extend(["g", "h", "i"].map(|name| Daemon::start(&bed, name)));
    let served: Vec<String> = daemons[6..].iter().map(Daemon::node).collect();
    add(&served)
        .succeeds()
        .says("g, h, i are nodes of the repository now");
    // Copies of the config and of keys for the new ones.
    tabane(&bed, ["cluster", "heal"]).succeeds();
    // A node whose rack the smallest group has already.
    add(&["x=127.0.0.1:0@r2".to_owned()]).succeeds();
    daemons.push(Daemon::start(&bed, "x"));
    add(&[daemons[9].node()]).fails(1, "are in one rack, r2");

    for number in 0..8 {
        let bytes = crate::bed::varied(700_000 + number);
        fs::write(bed.source().join(format!("{number}")), bytes).expect("a file");
        tabane(&bed, ["backup", &source]).succeeds();
    }
    let status = tabane(&bed, ["cluster", "status", "--json"]);
    let survey = status.last_json()["survey"].clone();
    assert_eq!(survey["incomplete_objects"], 0);
    assert_eq!(survey["targets"][8]["group"], 3);
    let shown = tabane(&bed, ["cluster", "status"]);
    assert!(shown.stdout.contains("Group"), "{}", shown.stdout);
    shown.says("any two racks can be lost now without losing data");
    // Any two racks may be lost, of three: six nodes.
    for name in [8, 7, 5, 4, 3, 2] {
        drop(daemons.remove(name));
    }
    let shown = tabane(&bed, ["cluster", "status"]);
    let none = "no rack can be lost now without losing data";
    assert!(shown.stdout.contains(none), "{}", shown.stdout);
    comes_back(&bed);
}

/// The first group has the copies of small objects: keys, the index, snapshots.
#[test]
fn a_group_is_drained_and_its_nodes_are_switched_off() {
    let bed = Bed::new();
    let file = bed.path("cluster.json").display().to_string();
    let names = ["a", "b", "c", "d", "e", "f"];
    let nodes = names.map(|name| format!("--node={name}=127.0.0.1:0"));
    let create = ["cluster", "create", &file, "--group-size", "3"].into_iter();
    let create = create.chain(nodes.iter().map(String::as_str));
    run(&mut bare_command(create)).succeeds();
    let mut daemons: Vec<Daemon> = names.map(|name| Daemon::start(&bed, name)).into();
    tabane(&bed, ["init"]).succeeds();
    let status = || {
        let ran = tabane(&bed, ["cluster", "status", "--json"]);
        ran.succeeds().last_json()
    };
    let targets = status()["survey"]["targets"].clone();
    let targets = targets.as_array().expect("targets");
    let first = targets.iter().filter(|target| target["group"] == 1);
    let first: Vec<String> = first
        .map(|target| target["url"].as_str().expect("a URL")["node://".len()..].to_owned())
        .collect();
    let drain = |names: &[String]| {
        let names = names.iter().map(String::as_str);
        tabane(&bed, ["cluster", "drain"].into_iter().chain(names))
    };
    drain(&first[..2]).fails(1, "only a whole group can be drained: name all of ");
    drain(&["x".to_owned()]).fails(1, "the cluster has no node x");
    drain(&first).succeeds().says("switch them off");
    let is_named = |daemon: &Daemon, name: &String| daemon.node().starts_with(&format!("{name}="));
    daemons.retain(|daemon| !first.iter().any(|name| is_named(daemon, name)));
    assert_eq!(daemons.len(), 3);
    let status = status();
    assert_eq!(status["nodes"].as_array().expect("nodes").len(), 3);
    assert_eq!(
        status["statement"],
        "any two targets can be lost now without losing data"
    );
    let source = bed.source().display().to_string();
    tabane(&bed, ["backup", &source]).succeeds();
    drop(daemons.remove(1));
    comes_back(&bed);
}

#[test]
fn bad_input() {
    let bed = Bed::new();
    let file = bed.path("cluster.json").display().to_string();
    let create = |nodes: &[&str]| {
        let nodes = nodes.iter().flat_map(|node| ["--node", node]);
        run(&mut bare_command(
            ["cluster", "create", &file].into_iter().chain(nodes),
        ))
    };
    create(&["a=h:1", "b=h:2"]).fails(2, "at least 3");
    create(&["a=h:1", "b=h:2", "c"]).fails(2, "NAME=HOST:PORT");
    create(&["a=h:1", "b=h:2", "c=h:70000"]).fails(2, "is no port");
    create(&["a=h:1", "b=h:2", "C/=h:3"]).fails(1, "no name for a node");
    create(&["a=h:1", "b=h:2", "a=h:3"]).fails(1, "two nodes are called a");
    let many: Vec<String> = (0..33)
        .map(|number| format!("n{number}=h:{}", 1 + number))
        .collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    create(&many).fails(1, "a group has at most 32 nodes, and these are 33");
    let many: Vec<String> = (0..64)
        .map(|number| format!("n{number}=h:{}", 1 + number))
        .collect();
    let many = many.iter().flat_map(|node| ["--node", node]);
    let small = ["cluster", "create", &file, "--group-size", "4"];
    run(&mut bare_command(small.into_iter().chain(many))).fails(1, "at most 15 groups");
    create(&["a=h:1@r", "b=h:2@r", "c=h:3@q"]).fails(1, "rack r has 2 nodes");
    create(&["a=h:1@", "b=h:2", "c=h:3"]).fails(2, "NAME=HOST:PORT@RACK");
    create(&["a=h:1", "b=h:2", "c=h:1"]).fails(1, "a and c would both be at h:1");
    tabane(&bed, ["snapshots"]).fails(1, &format!("cannot read {file}: No such file"));
    tabane(&bed, ["cluster", "status"]).fails(1, &format!("cannot read {file}: No such file"));
    create(&["a=h:1", "b=h:2", "c=h:3"]).succeeds();
    tabane(&bed, ["cluster", "status", "--watch", "0s"]).fails(2, "it takes a moment");
    run(bed.command(["snapshots"]).env(
        "TABANE_REPOSITORY",
        format!("cluster:{}", bed.path("cluster-a.json").display()),
    ))
    .fails(1, "it is that of node a");
    run(&mut bare_command([
        "node", "serve", "--node", &file, "--dir", &file,
    ]))
    .fails(1, "it is that of clients");
    fs::write(&file, "{}").expect("it can be written");
    tabane(&bed, ["snapshots"]).fails(1, "cannot be used");
    run(bed
        .command(["cluster", "status"])
        .env("TABANE_REPOSITORY", "/tmp"))
    .fails(2, "cluster:FILE");
    run(&mut bare_command([
        "node", "serve", "--node", &file, "--dir", &file,
    ]))
    .fails(1, "cannot be used");
}

#[test]
fn clients_have_roles_and_can_be_withdrawn() {
    let bed = Bed::new();
    let file = bed.path("cluster.json").display().to_string();
    let nodes = [
        "--node",
        "a=127.0.0.1:0",
        "--node",
        "b=127.0.0.1:0",
        "--node",
        "c=127.0.0.1:0",
    ];
    let args = ["cluster", "create", &file].into_iter().chain(nodes);
    run(&mut bare_command(args)).succeeds();
    let _daemons = ["a", "b", "c"].map(|name| Daemon::start(&bed, name));
    let status = tabane(&bed, ["cluster", "status"]);
    assert_eq!(status.code, Some(10), "{}", status.stderr);
    status.says("no node has a repository yet");
    tabane(&bed, ["cluster", "add", "d=127.0.0.1:0"]).fails(10, "there is no repository");
    tabane(&bed, ["init"]).succeeds();
    let client = |name: &str, role: &str| {
        tabane(&bed, ["cluster", "client", name, "--role", role]).succeeds();
    };
    client("laptop", "append");
    client("tablet", "read");
    tabane(&bed, ["cluster", "client", "x", "--role", "root"]).fails(2, "read, append or admin");
    let again = ["cluster", "client", "laptop", "--role", "read"];
    tabane(&bed, again).fails(1, "`tabane cluster renew laptop`");
    let source = bed.source().display().to_string();
    let laptop = |args: &[&str]| tabane_as(&bed, "cluster-client-laptop.json", args);
    let tablet = |args: &[&str]| tabane_as(&bed, "cluster-client-tablet.json", args);
    laptop(&["backup", &source]).succeeds();
    laptop(&["forget", "latest"]).fails(1, "client laptop may not do this: its role is append");
    let refused = "client laptop may not do this: its role is append";
    laptop(&["tag", "--add", "x", "latest"]).fails(1, refused);
    laptop(&["rewrite", "--exclude", "empty", "--forget", "latest"]).fails(1, refused);
    let listed = laptop(&["snapshots", "--json"]).succeeds().last_json();
    assert_eq!(
        listed.as_array().map(Vec::len),
        Some(1),
        "there is one, not changed"
    );
    let bench = ["cluster", "bench", "--seconds", "0.1", "--plans", "direct"];
    laptop(&bench).fails(1, refused);
    tablet(&["cluster", "status"])
        .succeeds()
        .says("links between nodes were not tried");
    let target = bed.path("from-tablet").display().to_string();
    let restored = tablet(&["restore", "latest", "--target", &target]).succeeds();
    assert_eq!(restored.stderr, "", "a reader's restore warns of nothing");
    tablet(&["check", "--read-data"]).succeeds();
    tablet(&["backup", &source]).fails(1, "client tablet may not do this: its role is read");
    let certificates = tabane(&bed, ["cluster", "certificates"]).succeeds();
    certificates.says("laptop  append");
    tabane(&bed, ["cluster", "withdraw", "a"]).fails(1, "a is a node: `tabane cluster replace`");
    tabane(&bed, ["cluster", "withdraw", "laptop"])
        .succeeds()
        .says("all nodes know it");
    laptop(&["backup", &source]).fails(1, "the certificate of client laptop was withdrawn");
    tabane(&bed, ["cluster", "withdraw", "laptop"]).fails(1, "knows no certificate of laptop");
    tabane(&bed, ["cluster", "renew", "tablet"])
        .succeeds()
        .says("cluster-client-tablet.json");
    tablet(&["snapshots"]).succeeds();
    let status = tabane(&bed, ["cluster", "status", "--json"])
        .succeeds()
        .last_json();
    assert_eq!(status["nodes"][0]["status"]["withdrawn"], 1);
}
