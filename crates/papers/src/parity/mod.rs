//! `tabane-papers parity`: several clients write to nodes over links of a given rate.

mod backup;
mod heal;
mod plot;
mod reads;
mod simulator;
mod triple;
mod unequal;
pub mod worker;
mod xor;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::json;
use tabane_node::authority;
use tabane_parity::Layout;
use tabane_parity::schedule::Kind;

use tabane_testing::member::Member;
use tabane_testing::network::Network;
use tabane_testing::progress;

use simulator::Case;

/// Measure writes to a cluster over links of a given rate, by each plan, beside writes without
/// redundancy.
///
/// Builds a network of namespaces in this machine (root; iproute2), a link each way for each node
/// and each client, and lets clients put objects for a while. "none" sends the data alone, spread
/// over the nodes, and stores nothing. All figures are sums over all clients, of objects that are
/// durable on all nodes.
#[derive(clap::Args)]
pub struct Args {
    /// Numbers of nodes
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [5])]
    nodes: Vec<usize>,
    /// Numbers of clients
    #[arg(long, value_name = "C,…", value_delimiter = ',', default_values_t = [1])]
    clients: Vec<usize>,
    /// Plans
    #[arg(long, value_name = "PLAN,…", value_delimiter = ',',
        default_values_t = ["direct", "chain", "shared", "coded", "auto"].map(str::to_owned))]
    plans: Vec<String>,
    /// Which of the cases with unequal links, by their numbers; all, if none is named
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    cases: Vec<usize>,
    /// Mbit/s of each link, each way
    #[arg(long, value_name = "MBIT", default_value_t = 500)]
    rate: u32,
    /// How long to write, in seconds
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    seconds: f64,
    /// Length of the objects, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 8)]
    object: usize,
    /// Where nodes keep what is written, while it is measured
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    work: std::path::PathBuf,
    /// Let nodes take data by this provider of libfabric, as in tcp, instead of plain TCP
    #[arg(long, value_name = "PROVIDER")]
    fabric: Option<String>,
    /// Put so many milliseconds of a round trip between each node and whoever connects to it
    #[arg(long, value_name = "N", default_value_t = 0)]
    latency_ms: u64,
    /// What to measure
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    measure: Measure,
    /// Draw what is written, by numbers of clients, and by lengths of frames or buffers, as SVG
    /// files in this folder
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Measure no writes: compute what is possible at best, by what each link has to carry, and
    /// simulate it frame by frame
    #[arg(long)]
    simulate: bool,
    /// Simulate groups of so many nodes, instead of one of all nodes
    #[arg(long, value_name = "N", requires = "simulate")]
    group_size: Option<usize>,
    /// Simulate that so many nodes are away, each of another group
    #[arg(long, value_name = "N", requires = "simulate", default_value_t = 0)]
    away: usize,
    /// Print one flat JSON object a line instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum Measure {
    /// Clients put objects, by each plan
    #[default]
    Writes,
    /// One client backs up a file of random bytes, as "tabane backup" does
    Backup,
    /// A node has lost everything, and gets it again
    Heal,
    /// A client reads objects, while all nodes are there, one is slow, and two are gone
    Reads,
    /// Two nodes for data and one for parity, as in the paper's figure 10
    Triple,
    /// Clients put objects over links of different rates, by each plan, beside the best that the
    /// links allow
    Unequal,
    /// How fast one core adds up two buffers, as in the paper's figure 4
    Xor,
}

/// Measures, or computes.
pub fn run(args: &Args) -> Result<ExitCode> {
    let each = |measure: fn(&Args, usize) -> Result<()>| {
        let mut nodes = args.nodes.iter();
        nodes.try_for_each(|&nodes| measure(args, nodes))
    };
    match args.measure {
        Measure::Writes => each(writes)?,
        Measure::Backup => each(backup::measure)?,
        Measure::Heal => each(heal::measure)?,
        Measure::Reads => each(reads::measure)?,
        Measure::Triple => triple::measure(args)?,
        Measure::Unequal => unequal::measure(args)?,
        Measure::Xor => xor::measure(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn writes(args: &Args, nodes: usize) -> Result<()> {
    let mut figure = plot::Figure::default();
    for &clients in &args.clients {
        if args.simulate {
            simulate(args, nodes, clients)?
        } else {
            measure(args, nodes, clients, &mut figure)?
        }
    }
    match &args.plots {
        Some(dir) if !args.simulate => figure.draw(&dir.join(format!("parity-{nodes}.svg")), nodes),
        _ => Ok(()),
    }
}

fn simulate(args: &Args, nodes: usize, clients: usize) -> Result<()> {
    let group = args.group_size.unwrap_or(nodes);
    let groups = nodes / group;
    if groups < args.away.max(1) {
        bail!("{nodes} nodes are {groups} groups of {group}");
    }
    let mut case = Case::equal(group, groups, clients, args.object << 20);
    for away in 0..args.away {
        case.nodes[away * group] = 0.0;
    }
    let nodes = case.nodes.len();
    let layout = Layout::new(group)?;
    let kinds = Kind::ALL.into_iter().filter(|kind| {
        let needs_all = *kind != Kind::Direct;
        kind.schedule(&layout).is_some() && !(needs_all && args.away > 0)
    });
    let alone = kinds.map(|kind| (kind.name(), case.alone(kind)));
    for (plan, mixtures) in alone.chain([("mix", case.best()?)]) {
        let (links, bound) = (case.goodput(&mixtures)?, case.bound(&mixtures)?);
        let none = no_redundancy(clients, nodes - args.away);
        if args.json {
            println!(
                "{}",
                json!({"bench": "parity_model", "nodes": nodes, "group_size": group,
                    "away": args.away, "clients": clients, "plan": plan, "goodput_links": links,
                    "bound_links": bound, "no_redundancy_links": none})
            );
        } else {
            println!(
                "n={nodes} C={clients} {plan:>8}: {links:.2} links, {:.3} of no redundancy, {:.3} \
                of the bound",
                links / none,
                links / bound
            );
        }
    }
    Ok(())
}

/// The sum of what clients can write at most where nothing but data is sent, in links.
fn no_redundancy(clients: usize, nodes: usize) -> f64 {
    clients.min(nodes) as f64
}

/// What the clients did, all together.
#[derive(Default)]
struct Sum {
    mbit_per_s: f64,
    bytes: u64,
    /// When each object was durable, in seconds.
    objects: Vec<f64>,
}

fn measure(args: &Args, nodes: usize, clients: usize, figure: &mut plot::Figure) -> Result<()> {
    let case = Case::equal(nodes, 1, clients, args.object << 20);
    progress::show(&format!("n={nodes}, C={clients}: none"));
    let none = without_redundancy(args, nodes, clients)?;
    figure.add("none", clients, none.mbit_per_s);
    report(
        args,
        nodes,
        clients,
        "none",
        &none,
        &none,
        no_redundancy(clients, nodes),
        None,
    );
    for plan in &args.plans {
        progress::show(&format!("n={nodes}, C={clients}: {plan}"));
        let kind: Option<Kind> = plan.parse().ok();
        let layout = Layout::new(nodes)?;
        if kind.is_some_and(|kind| kind.schedule(&layout).is_none()) {
            continue;
        }
        let (sum, traffic) = by_plan(args, nodes, clients, plan)?;
        figure.add(plan, clients, sum.mbit_per_s);
        let mixtures = match kind {
            Some(kind) => case.alone(kind),
            None => case.best()?,
        };
        let bound = case.bound(&mixtures)?;
        report(
            args,
            nodes,
            clients,
            plan,
            &sum,
            &none,
            bound,
            Some(traffic),
        );
    }
    Ok(())
}

/// The mean over nodes of what each received and sent, by the data that clients put.
type Traffic = (f64, f64);

#[allow(clippy::too_many_arguments)]
fn report(
    args: &Args,
    nodes: usize,
    clients: usize,
    plan: &str,
    sum: &Sum,
    none: &Sum,
    bound_links: f64,
    traffic: Option<Traffic>,
) {
    let of_none = sum.mbit_per_s / none.mbit_per_s;
    // Scaled by what is possible where nothing but data is sent.
    let possible = bound_links * none.mbit_per_s / (clients.min(nodes) as f64);
    let predicted = plan.parse::<Kind>().ok().and_then(|kind| {
        let layout = Layout::new(nodes).ok()?;
        let costs = kind.schedule(&layout)?.costs(&layout);
        Some((costs.rotating_ingress(), costs.rotating_egress()))
    });
    if args.json {
        let line = json!({
            "bench": "parity_writes", "nodes": nodes, "clients": clients, "plan": plan,
            "link_mbit_per_s": args.rate, "goodput_mbit_per_s": sum.mbit_per_s,
            "of_no_redundancy": of_none, "of_bound": sum.mbit_per_s / possible,
            "node_received": traffic.map(|traffic| traffic.0),
            "node_sent": traffic.map(|traffic| traffic.1),
            "node_received_predicted": predicted.map(|traffic| traffic.0),
            "node_sent_predicted": predicted.map(|traffic| traffic.1),
        });
        println!("{line}");
        return;
    }
    print!(
        "n={nodes} C={clients} {plan:>8}: {:7.1} Mbit/s, {of_none:.3} of no redundancy, {:.3} of \
        the bound",
        sum.mbit_per_s,
        sum.mbit_per_s / possible
    );
    if let Some((received, sent)) = traffic {
        print!("; a node receives {received:.3}, sends {sent:.3}");
    }
    if let Some((received, sent)) = predicted {
        print!(" (predicted {received:.3}, {sent:.3})");
    }
    println!();
}

/// Lets all begin at once, and adds up what they did.
fn sum(mut members: Vec<Member>, meanwhile: impl FnOnce() -> Result<()>) -> Result<Sum> {
    for member in &mut members {
        member.line()?;
    }
    meanwhile()?;
    for member in &mut members {
        member.go()?;
    }
    let mut sum = Sum::default();
    for member in &mut members {
        let line = member.line()?;
        let mut words = line.split(' ');
        let (Some(bytes), Some(seconds)) = (words.next(), words.next()) else {
            bail!("a member says something else");
        };
        let (bytes, seconds): (u64, f64) = (bytes.parse()?, seconds.parse()?);
        sum.mbit_per_s += bytes as f64 * 8e-6 / seconds;
        sum.bytes += bytes;
        for time in words {
            sum.objects.push(time.parse()?);
        }
    }
    Ok(sum)
}

fn without_redundancy(args: &Args, nodes: usize, clients: usize) -> Result<Sum> {
    let network = Network::new(nodes + clients, Some(args.rate))?;
    let mut sinks = Vec::new();
    let mut addresses = Vec::new();
    for node in 0..nodes {
        let address = format!("{}:7440", network.address(node));
        let mut sink = network.member(node, &["sink", &address])?;
        sink.line()?;
        sinks.push(sink);
        addresses.push(address);
    }
    let seconds = args.seconds.to_string();
    let words: Vec<&str> = ["source", &seconds]
        .into_iter()
        .chain(addresses.iter().map(String::as_str))
        .collect();
    let sources = (0..clients).map(|client| network.member(nodes + client, &words));
    sum(sources.collect::<Result<_>>()?, || Ok(()))
}

/// Nodes that run, behind their links, and those of clients, who have the numbers after them.
struct Cluster {
    // In this order they vanish.
    daemons: Vec<Member>,
    network: Network,
    nodes: usize,
    work: tempfile::TempDir,
}

impl Cluster {
    fn start(args: &Args, nodes: usize, clients: usize) -> Result<Self> {
        let network = Network::new(nodes + clients, Some(args.rate))?;
        Self::over(args, network, nodes)
    }

    /// Nodes that are the first members of a network.
    fn over(args: &Args, network: Network, nodes: usize) -> Result<Self> {
        let work = tempfile::tempdir_in(&args.work).context("cannot make a directory")?;
        let mut cluster = Self {
            daemons: Vec::new(),
            network,
            nodes,
            work,
        };
        let addresses = cluster.network.addresses(nodes);
        authority::create(&cluster.file(), &addresses, None)?;
        for (number, address) in addresses.iter().enumerate() {
            let of_node = text(&authority::node_path(&cluster.file(), &address.name));
            let dir = text(&cluster.directory(number));
            let latency = format!("--latency-ms={}", args.latency_ms);
            let words = ["node", &latency, &of_node, &dir].into_iter();
            let words: Vec<&str> = words.chain(args.fabric.as_deref()).collect();
            let mut daemon = cluster.network.member(number, &words)?;
            daemon.line()?;
            cluster.daemons.push(daemon);
        }
        form(&cluster.network, nodes, &cluster.file())?;
        Ok(cluster)
    }

    /// What clients need to know.
    fn file(&self) -> PathBuf {
        self.work.path().join("cluster.json")
    }

    /// Where a node keeps its parts.
    fn directory(&self, node: usize) -> PathBuf {
        self.work.path().join(format!("n{node}"))
    }

    /// Bytes that each member has received and sent.
    fn traffic(&self, members: Range<usize>) -> Result<Vec<(u64, u64)>> {
        members.map(|member| self.network.traffic(member)).collect()
    }

    fn client(&self, client: usize, words: &[&str]) -> Result<Member> {
        self.network.member(self.nodes + client, words)
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn by_plan(args: &Args, nodes: usize, clients: usize, plan: &str) -> Result<(Sum, Traffic)> {
    let cluster = Cluster::start(args, nodes, clients)?;
    let (seconds, len) = (args.seconds.to_string(), (args.object << 20).to_string());
    let words = ["client", &text(&cluster.file()), plan, &seconds, &len];
    let members = (0..clients).map(|client| cluster.client(client, &words));
    let mut before = Vec::new();
    let sum = sum(members.collect::<Result<_>>()?, || {
        // Waits until earlier traffic has arrived.
        thread::sleep(Duration::from_millis(300));
        before = cluster.traffic(0..nodes)?;
        Ok(())
    })?;
    let (mut received, mut sent) = (0, 0);
    for (before, after) in before.iter().zip(cluster.traffic(0..nodes)?) {
        received += after.0 - before.0;
        sent += after.1 - before.1;
    }
    let by_data = |bytes: u64| bytes as f64 / nodes as f64 / sum.bytes as f64;
    let traffic = (by_data(received), by_data(sent));
    Ok((sum, traffic))
}

/// Makes the nodes one set: by a client, who alone is in their network.
fn form(network: &Network, member: usize, file: &Path) -> Result<()> {
    let status = network
        .command(member)?
        .args(["member", "form"])
        .arg(file)
        .status()
        .context("cannot start a member")?;
    if status.success() {
        Ok(())
    } else {
        bail!("the nodes cannot be made one set: see above")
    }
}
