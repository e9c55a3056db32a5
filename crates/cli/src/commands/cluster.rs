//! `tabane cluster`

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::json;
use tabane_node::authority;
use tabane_storage::{Role, StorageError, StorageErrorKind};
use tabane_striped::cluster::file::{ClusterFile, NodeAddress};
use tabane_striped::cluster::wire::{RESERVE_BYTES, Status};
use tabane_striped::cluster::{self, NodeStorage, Plan};
use tabane_striped::{
    HealOptions, Place, RebalanceOptions, RebalanceReport, StripedStorage, Survey,
};

use super::{cluster_bench, cluster_clients, cluster_drain, heal};
use crate::advice;
use crate::args::Global;
use crate::exit::{Exit, Failure, Result};
use crate::format;
use crate::output::{Output, Table, into_object, print_json};
use crate::progress::Progress;
use crate::reporter::Reporter;

/// Make a cluster of nodes, look at it, change it
#[derive(Args)]
#[command(after_help = "\
A cluster keeps a repository on several machines, any two of which may be lost: \
docs/reference/cluster.md.

Examples:
  tabane cluster create cluster.json --node a=10.0.0.1:7440 --node b=10.0.0.2:7440 --node \
c=10.0.0.3:7440
  tabane init -r cluster:cluster.json
  tabane cluster status -r cluster:cluster.json")]
pub struct Cluster {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Write the files by which clients and nodes know each other
    #[command(after_help = "\
FILE is for clients. Of cluster.json, cluster-a.json beside it is for node a, and so on, and \
cluster-authority.json signs certificates: to add nodes, and to make, renew and withdraw those of \
clients. Keep it in a safe place. All of them are secret. Nothing is sent.

Of many nodes --group-size makes groups of about so many. Each object is then on the nodes of one \
group, and of each group any two nodes may be lost. Behind a node's address @RACK says what it is \
lost together with: no two nodes of a group are in one rack, so that any two racks may be lost.

Examples:
  tabane cluster create cluster.json --node a=10.0.0.1:7440 --node b=10.0.0.2:7440 --node \
c=10.0.0.3:7440
  tabane cluster create cluster.json --group-size 3 --node a=10.0.1.1:7440@r1 --node \
b=10.0.1.2:7440@r1 --node c=10.0.2.1:7440@r2 --node d=10.0.2.2:7440@r2 --node e=10.0.3.1:7440@r3 \
--node f=10.0.3.2:7440@r3")]
    Create {
        /// The file for clients
        file: PathBuf,
        /// A node's name, and where it is found; once for each node
        #[arg(long = "node", value_name = "NAME=HOST:PORT[@RACK]", required = true)]
        #[arg(value_parser = parse_node)]
        nodes: Vec<NodeAddress>,
        /// Nodes of a group, about; without it, all make one group
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(3..=32))]
        group_size: Option<u64>,
    },
    /// Show how each node is, and what could be lost now
    #[command(after_help = "\
Ends with 0 when all is well: every node answers, has all its parts and some room, and reaches all \
others. Otherwise with 4 while any one node can still be lost, with 5 when one cannot, and with 1 \
when the repository cannot be read, since more than two nodes of a group are missing, and with 10 \
when no node that answers has a repository. \
The last line says what could be lost now.

Example:
  tabane cluster status -r cluster:cluster.json --watch 2s")]
    Status {
        /// Show it again and again, so often
        #[arg(long, value_name = "DURATION", value_parser = parse_pause)]
        watch: Option<Duration>,
    },
    /// Spread what is stored from now on over another node as well, or over another group
    #[command(after_help = "\
The first run writes the file of the new node. Serve the node with it, then run the same command \
again. One node makes the smallest group larger. Three nodes or more are a group of their own. \
What is stored already stays where it is.

Examples:
  tabane cluster add -r cluster:cluster.json f=10.0.0.6:7440
  tabane cluster add -r cluster:cluster.json g=10.0.4.1:7440@r1 h=10.0.4.2:7440@r2 \
i=10.0.4.3:7440@r3")]
    Add {
        /// Name of each node, and where it is found
        #[arg(value_name = "NAME=HOST:PORT[@RACK]", value_parser = parse_node, required = true)]
        nodes: Vec<NodeAddress>,
    },
    /// Put a new, empty node where another was
    #[command(after_help = "\
The first run writes the file of the new node. Serve the node with it, then run the same command \
again, and then `tabane cluster heal`, which rebuilds what belongs there. If a node has lost only \
its disk, start it again with its file and an empty directory, and replace it by itself.

Examples:
  tabane cluster replace -r cluster:cluster.json b g=10.0.0.7:7440
  tabane cluster replace -r cluster:cluster.json b b=10.0.0.2:7440")]
    Replace {
        /// The name of the node that is replaced
        old: String,
        /// Name of the new one, and where it is found
        #[arg(value_name = "NAME=HOST:PORT[@RACK]", value_parser = parse_node)]
        new: NodeAddress,
        /// Also if no more than half of the nodes are there: the others are lost, and no client
        /// reaches them any more
        #[arg(long)]
        others_are_lost: bool,
    },
    /// Forget a node that was added and is not used
    #[command(after_help = "\
Only the file for clients is changed. A node of the repository is replaced, not removed.

Example:
  tabane cluster remove -r cluster:cluster.json f")]
    Remove {
        /// Its name
        name: String,
    },
    /// Make a file for another client, which may read, append or administer
    #[command(after_help = "\
The file is beside that of the cluster: cluster-client-laptop.json. It is secret. Three roles:

  read     lists and reads: restore, mount, check
  append   also adds what backups add, and rebuilds missing parts; deletes nothing but its records
  admin    everything

It takes the file of the authority (cluster-authority.json).

Example:
  tabane cluster client -r cluster:cluster.json laptop --role append")]
    Client {
        /// Its name
        name: String,
        /// What it may do
        #[arg(long, value_name = "ROLE", value_parser = parse_role)]
        role: Role,
        /// For how long its certificate is valid
        #[arg(long, value_name = "DURATION", default_value = "3650d")]
        #[arg(value_parser = format::parse_duration)]
        valid: Duration,
    },
    /// Make a new certificate for a client or a node
    #[command(after_help = "\
The former certificate stays valid until it ends. It takes the file of the authority.

Example:
  tabane cluster renew -r cluster:cluster.json laptop")]
    Renew {
        /// Its name
        name: String,
        /// For how long a client's certificate is valid; a node's is for ten years
        #[arg(long, value_name = "DURATION", default_value = "3650d")]
        #[arg(value_parser = format::parse_duration)]
        valid: Duration,
    },
    /// Withdraw all certificates of a client
    #[command(after_help = "\
Nodes refuse it from then on, also in the middle of a command. Nodes that are away hear of it from \
the next `tabane cluster heal`. It takes the file of the authority. Instead of a node's \
certificate, `tabane cluster replace` withdraws the node.

Example:
  tabane cluster withdraw -r cluster:cluster.json laptop")]
    Withdraw {
        /// Its name
        name: String,
    },
    /// Show who has a certificate
    #[command(after_help = "\
It takes the file of the authority.

Example:
  tabane cluster certificates -r cluster:cluster.json")]
    Certificates,
    /// Bring all nodes up to date: as `tabane heal`
    #[command(after_help = "\
While clients write, nodes rebuild slowly, and at full speed otherwise.

Example:
  tabane cluster heal -r cluster:cluster.json")]
    Heal {
        /// Rebuild at full speed also while clients write
        #[arg(long)]
        urgent: bool,
    },
    /// Move what is stored from full groups to newer ones, which were added
    #[command(after_help = "\
Ends when no group is fuller than all together. It may be interrupted and run again, beside \
backups and everything else, and takes all nodes. What has moved stays in its old group for five \
minutes more, so that nobody who is looking misses it.

Example:
  tabane cluster rebalance -r cluster:cluster.json --limit 50000")]
    Rebalance {
        /// Move at most this many KiB a second
        #[arg(long, value_name = "KIB", value_parser = clap::value_parser!(u64).range(1..))]
        limit: Option<u64>,
    },
    /// Empty a group of nodes, so that they can be switched off
    #[command(after_help = "\
Takes all nodes of a group, as `tabane cluster status` shows them, and moves what they have to the \
other groups. It waits for clients that began before, takes all nodes and the password, and may be \
interrupted and run again, beside backups and everything else. What has moved stays for five \
minutes more. Then the nodes are forgotten: switch them off. A single node is replaced by another \
(`tabane cluster replace`), for which a drained one will do, once its directory is empty.

Example:
  tabane cluster drain -r cluster:cluster.json g1 g2 g3")]
    Drain {
        /// The names of all nodes of the group
        #[arg(required = true)]
        names: Vec<String>,
        /// Move at most this many KiB a second
        #[arg(long, value_name = "KIB", value_parser = clap::value_parser!(u64).range(1..))]
        limit: Option<u64>,
    },
    /// Read everything, and mend what has changed: as `tabane scrub`
    #[command(after_help = "\
Example:
  tabane cluster scrub -r cluster:cluster.json --limit 50000")]
    Scrub {
        /// Read at most this many KiB a second
        #[arg(long, value_name = "KIB", value_parser = clap::value_parser!(u64).range(1..))]
        limit: Option<u64>,
    },
    /// Measure how fast objects are written and read, by each plan
    #[command(after_help = "\
Writes objects of 8 MiB as fast as it goes, three at a time, reads them back, and deletes them. It \
takes part in what links and nodes can do, as a backup does. What it leaves if it is killed, \
`tabane prune` removes.

Example:
  tabane cluster bench -r cluster:cluster.json --plans direct,auto --seconds 10")]
    Bench {
        /// Plans to measure
        #[arg(long, value_name = "PLAN,…", value_delimiter = ',')]
        #[arg(default_values = ["direct", "chain", "shared", "coded", "auto"])]
        plans: Vec<String>,
        /// For how many seconds to write
        #[arg(long, value_name = "S", default_value_t = 3.0)]
        seconds: f64,
    },
}

impl Cluster {
    /// Runs `tabane cluster`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        match self.action {
            Action::Create {
                file,
                nodes,
                group_size,
            } => create(global, &file, &nodes, group_size.map(|size| size as usize)),
            Action::Status { watch } => status(global, watch),
            Action::Add { nodes } if nodes.len() == 2 => Err(Failure::Usage(
                "two nodes are no group: add one after the other, or three at once".to_owned(),
            )),
            Action::Add { nodes } => change(global, None, &nodes),
            Action::Replace {
                old,
                new,
                others_are_lost,
            } => change(global, Some((&old, others_are_lost)), &[new]),
            Action::Remove { name } => remove(global, &name),
            Action::Bench { plans, seconds } => {
                // Only for clusters.
                global.cluster()?;
                cluster_bench::run(global, &plans, seconds)
            }
            Action::Client { name, role, valid } => {
                cluster_clients::add(global, &name, role, valid)
            }
            Action::Renew { name, valid } => cluster_clients::renew(global, &name, valid),
            Action::Withdraw { name } => cluster_clients::withdraw(global, &name),
            Action::Certificates => cluster_clients::certificates(global),
            Action::Heal { urgent } => {
                // Nodes that were away may not know what was withdrawn meanwhile.
                cluster_clients::tell_nodes(&global.cluster()?)?;
                heal::heal(global, HealOptions::default().is_urgent(urgent))
            }
            Action::Rebalance { limit } => rebalance(global, limit),
            Action::Drain { names, limit } => cluster_drain::drain(global, &names, limit),
            Action::Scrub { limit } => heal::heal(
                global,
                HealOptions::default()
                    .read_data(true)
                    .limit_kib_per_s(limit),
            ),
        }
    }
}

fn parse_pause(text: &str) -> std::result::Result<Duration, String> {
    match format::parse_duration(text)? {
        Duration::ZERO => Err("it takes a moment from one time to the next, as 2s".to_owned()),
        pause => Ok(pause),
    }
}

fn parse_role(text: &str) -> std::result::Result<Role, String> {
    text.parse()
}

fn parse_node(text: &str) -> std::result::Result<NodeAddress, String> {
    let form = || format!("{text:?} is not of the form NAME=HOST:PORT or NAME=HOST:PORT@RACK");
    let (name, place) = text.split_once('=').ok_or_else(form)?;
    let (address, rack) = match place.split_once('@') {
        Some((_, "")) => return Err(form()),
        Some((address, rack)) => (address, Some(rack.to_owned())),
        None => (place, None),
    };
    let (host, port) = address.rsplit_once(':').ok_or_else(form)?;
    if host.is_empty() || port.is_empty() {
        return Err(form());
    }
    if port.parse::<u16>().is_err() {
        return Err(format!("{port:?} is no port: there are 1 to 65535"));
    }
    Ok(NodeAddress {
        rack,
        ..NodeAddress::new(name.to_owned(), address.to_owned())
    })
}

fn create(
    global: &Global,
    file: &Path,
    nodes: &[NodeAddress],
    group_size: Option<usize>,
) -> Result<Exit> {
    if nodes.len() < 3 {
        let text = "surviving the loss of two nodes takes at least 3: give --node several times";
        return Err(Failure::Usage(text.to_owned()));
    }
    let written = authority::create(file, nodes, group_size).map_err(|error| match error.kind() {
        StorageErrorKind::AlreadyExists => {
            let text = format!(
                "there are files of a cluster beside {}: choose another name",
                file.display()
            );
            Failure::Other(text)
        }
        _ => error.into(),
    })?;
    if global.json {
        print_json(&json!({"message_type": "cluster_created", "files": written}))?;
    } else if !global.quiet {
        let mut output = Output::new();
        for path in &written {
            output.line(format!("wrote {}", path.display()))?;
        }
        output.line(format!(
            "now serve each node, `tabane node serve --node {} --dir DIR`, then `tabane init -r \
             cluster:{}`",
            authority::node_path(file, &nodes[0].name).display(),
            file.display()
        ))?;
        output.finish()?;
    }
    Ok(Exit::Success)
}

/// The rack of the node with this URL.
fn rack_of<'a>(file: &'a ClusterFile, url: &str) -> Option<&'a str> {
    let mut nodes = file.nodes.iter();
    let node = nodes.find(|node| cluster::node_url(&node.name) == url)?;
    node.rack.as_deref()
}

fn status(global: &Global, watch: Option<Duration>) -> Result<Exit> {
    let path = global.cluster()?;
    let nodes = cluster::nodes(&path)?;
    let file = ClusterFile::read(&path)?;
    loop {
        let exit = show(global, &file, &nodes)?;
        match watch {
            None => return Ok(exit),
            Some(pause) => std::thread::sleep(pause),
        }
    }
}

fn show(global: &Global, file: &ClusterFile, nodes: &[Arc<NodeStorage>]) -> Result<Exit> {
    let answers: Vec<_> = std::thread::scope(|scope| {
        let asking: Vec<_> = nodes
            .iter()
            .map(|node| scope.spawn(|| node.status()))
            .collect();
        let answers = asking.into_iter().map(|thread| thread.join());
        answers
            .map(|answer| {
                answer.unwrap_or_else(|_| {
                    let text = "it cannot be asked";
                    Err(StorageError::new(StorageErrorKind::Permanent, text))
                })
            })
            .collect()
    });
    let answering = nodes.iter().zip(&answers);
    let answering: Vec<&NodeStorage> = answering
        .filter_map(|(node, answer)| answer.is_ok().then_some(&**node))
        .collect();
    let cut = cluster::cut_links(&answering);
    let survey = survey(global)?;
    let statement = match &survey {
        Ok(Some(survey)) => advice::statement(survey),
        Ok(None) => "no node has a repository yet: `tabane init` makes one".to_owned(),
        Err(why) => format!("{why}. What missing nodes keep is not lost: bring them back"),
    };
    let withdrawn = authority::list_number(file);
    let is_full = |status: &Status| status.free_bytes < RESERVE_BYTES;
    let is_well = |answer: &tabane_storage::Result<Status>| {
        let is_damaged = |status: &Status| status.scrub.as_ref().is_some_and(|it| it.damaged > 0);
        let answer = answer.as_ref();
        answer.is_ok_and(|status| {
            !is_full(status) && !is_damaged(status) && status.withdrawn >= withdrawn
        })
    };
    let exit = match &survey {
        Err(_) => Exit::Failure,
        Ok(None) => Exit::NoRepository,
        Ok(Some(survey)) if !survey.can_lose_any() => Exit::AtRisk,
        Ok(Some(survey)) => {
            let is_cut = cut.as_ref().is_some_and(|cut| !cut.is_empty());
            if survey.is_whole() && !is_cut && answers.iter().all(is_well) {
                Exit::Success
            } else {
                Exit::Degraded
            }
        }
    };
    let survey = survey.ok().flatten();
    let racks = survey.as_ref();
    let racks = racks.and_then(|survey| survey.racks(|url| rack_of(file, url)));
    let state = |node: &NodeStorage, answer: &tabane_storage::Result<Status>| {
        let url = cluster::node_url(node.name());
        let mut targets = survey.iter().flat_map(|survey| &survey.targets);
        let target = targets.find(|target| target.url == url);
        let state = match (answer, &survey, target) {
            (Err(_), ..) => "missing",
            (Ok(status), ..) if is_full(status) => "full",
            (_, None, _) => "answers",
            (_, _, None) => "not in use",
            (_, _, Some(target)) if target.missing.is_some() => "missing",
            (_, _, Some(target)) if target.is_retired => "draining",
            (_, _, Some(target)) if target.lacks > 0 => "behind",
            _ => "ok",
        };
        (state, target)
    };
    if global.json {
        let nodes: Vec<_> = nodes
            .iter()
            .zip(&answers)
            .map(|(node, answer)| {
                json!({
                    "name": node.name(),
                    "address": node.address(),
                    "state": state(node, answer).0,
                    "error": answer.as_ref().err().map(ToString::to_string),
                    "status": answer.as_ref().ok(),
                })
            })
            .collect();
        print_json(&json!({
            "message_type": "cluster_status",
            "statement": statement,
            "nodes": nodes,
            "links": cut,
            "survey": survey,
            "racks": racks,
        }))?;
        return Ok(exit);
    }
    let mut output = Output::new();
    let mut columns = vec![
        "Node", "Place", "State", "Parts>", "Lacks>", "Free>", "Written>", "Relayed>", "Up>",
    ];
    let mut groups = survey.iter().flat_map(|survey| &survey.targets);
    let has_groups = groups.any(|target| target.group.is_some());
    if has_groups {
        columns.insert(1, "Group>");
    }
    let mut table = Table::new(&columns);
    let mut reasons = Vec::new();
    for (node, answer) in nodes.iter().zip(&answers) {
        let (state, target) = state(node, answer);
        let count = |count: Option<u64>| count.map_or_else(|| "?".to_owned(), format::grouped);
        let mut row = vec![node.name().to_owned()];
        if has_groups {
            let group = target.and_then(|target| target.group);
            row.push(group.map_or_else(String::new, |group| group.to_string()));
        }
        row.push(format::printable(node.address()));
        row.push(state.to_owned());
        row.push(count(target.map(|target| target.objects)));
        let lacks = target.filter(|_| state != "missing");
        row.push(count(lacks.map(|target| target.lacks)));
        match answer {
            Ok(status) => row.extend([
                format::bytes(status.free_bytes),
                format::bytes(status.stored_bytes),
                format::bytes(status.relayed_bytes),
                format!("{} s", status.uptime_s),
            ]),
            Err(_) => row.extend(["", "", "", ""].map(str::to_owned)),
        }
        table.row(row);
        reasons.extend(match answer {
            Err(error) => Some(error.to_string()),
            Ok(_) => target
                .and_then(|target| Some(format!("{}: {}", target.url, target.missing.as_ref()?))),
        });
    }
    table.print(&mut output)?;
    let warnings = nodes.iter().zip(&answers).filter_map(|(node, answer)| {
        Some((node.name(), answer.as_ref().ok()?))
    });
    let warnings = warnings.flat_map(|(name, status)| node_warnings(name, status, withdrawn));
    let cut = cut.unwrap_or_else(|| {
        vec!["links between nodes were not tried: this client may only read".to_owned()]
    });
    for why in reasons.into_iter().chain(cut).chain(warnings) {
        output.line(why)?;
    }
    output.line(statement)?;
    if let Some(fragments) = survey.as_ref().map(|survey| survey.fragments).filter(|it| *it > 0) {
        output.line(heal::fragments(fragments))?;
    }
    if let Some(racks) = racks {
        output.line(racks.statement())?;
    }
    output.finish()?;
    Ok(exit)
}

/// What an administrator should know of a node.
fn node_warnings(name: &str, status: &Status, withdrawn: u64) -> Vec<String> {
    let mut warnings = Vec::new();
    if status.withdrawn < withdrawn {
        warnings.push(format!(
            "{name} does not know yet which certificates were withdrawn: run `tabane cluster heal`"
        ));
    }
    if let Some(scrub) = status.scrub.as_ref().filter(|scrub| scrub.damaged > 0) {
        let shards = format::count(scrub.damaged, "shard");
        warnings.push(format!("{name} has found {shards} damaged: run `tabane cluster heal`"));
    }
    let soon = SystemTime::now() + cluster::CERTIFICATE_NOTICE;
    let until = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    if let Some(seconds) = status.certificate_until.filter(|&seconds| until(seconds) < soon) {
        let time = Timestamp::from_second(seconds as i64).unwrap_or(Timestamp::MAX);
        let time = format::local_time(time);
        warnings.push(format!(
            "the certificate of {name} ends on {time}: run `tabane cluster renew {name}`"
        ));
    }
    warnings
}

/// The state of the cluster's repository: `Ok(None)` if none exists, a text if it cannot be read.
fn survey(global: &Global) -> Result<std::result::Result<Option<Survey>, String>> {
    // A status reports nodes as they are, without retrying.
    let options = global.remote_options().patience(Duration::ZERO);
    let storage = match cluster::open_file(&global.cluster()?, &options, Plan::Auto) {
        Ok(storage) => storage,
        Err(error) if error.kind() == StorageErrorKind::NotFound => return Ok(Ok(None)),
        Err(error) => return Ok(Err(error.to_string())),
    };
    Ok(storage
        .survey()
        .map(Some)
        .map_err(|error| error.to_string()))
}

/// Forgets a node that the repository does not use.
fn remove(global: &Global, name: &str) -> Result<Exit> {
    let file = global.cluster()?;
    known(&file, name)?;
    if let Some(survey) = survey(global)?.map_err(Failure::Other)? {
        let url = cluster::node_url(name);
        if survey.targets.iter().any(|target| target.url == url) {
            return Err(Failure::Other(format!(
                "{name} is a node of the repository: `tabane cluster replace` puts another in its \
                 place, and `tabane cluster drain` empties its group"
            )));
        }
    }
    authority::change(&file, |nodes| nodes.retain(|node| node.name != name))?;
    say(global, name, format!("{name} is forgotten"))?;
    Ok(Exit::Success)
}

/// Moves objects to newer groups.
fn rebalance(global: &Global, limit: Option<u64>) -> Result<Exit> {
    global.cluster()?;
    let storage = global.set_with_secret()?;
    let report = move_objects(global, &storage, limit)?;
    if global.json {
        let mut object = into_object(json!({"message_type": "summary"}));
        object.append(&mut into_object(
            serde_json::to_value(report).unwrap_or_default(),
        ));
        print_json(&object.into())?;
    } else if !global.quiet {
        let mut output = Output::new();
        output.line(moved(&report))?;
        if report.freed_objects > 0 {
            let objects = format::count(report.freed_objects, "object");
            output.line(format!("freed {objects} that an interrupted run had left in two groups"))?;
        }
        output.finish()?;
    }
    Ok(match report.unmoved_objects {
        0 => Exit::Success,
        _ => Exit::Failure,
    })
}

/// Moves objects to newer groups, and shows how far it has come.
pub fn move_objects(
    global: &Global,
    storage: &StripedStorage,
    limit: Option<u64>,
) -> Result<RebalanceReport> {
    let progress = Progress::start(global);
    let reporter = Reporter::new(&progress).without_notes(global.quiet);
    let options = RebalanceOptions::default().limit_kib_per_s(limit);
    let report = storage.rebalance(options, &reporter);
    progress.stop();
    report.map_err(|error| Failure::Storage("cannot move objects: ", error))
}

/// What was moved, in words.
pub fn moved(report: &RebalanceReport) -> String {
    let objects = format::count(report.moved_objects, "object");
    format!("moved {objects}, {}", format::bytes(report.moved_bytes))
}

/// The node of this name.
pub fn known(file: &Path, name: &str) -> Result<Arc<NodeStorage>> {
    let nodes = cluster::nodes(file)?;
    let names: Vec<&str> = nodes.iter().map(|node| node.name()).collect();
    let text = format!(
        "the cluster has no node {name}: there are {}",
        names.join(", ")
    );
    let mut nodes = nodes.into_iter();
    nodes
        .find(|node| node.name() == name)
        .ok_or(Failure::Other(text))
}

/// Fails unless a node of this name can be replaced.
fn check_old(file: &Path, old: &str, new: &str) -> Result<()> {
    match (known(file, old), known(file, new)) {
        (Err(Failure::Other(text)), Ok(_)) => Err(Failure::Other(format!(
            "{text}. If this command ran before, {new} is in its place: run `tabane cluster heal` \
             to fill it"
        ))),
        (old, _) => old.map(drop),
    }
}

/// Reports a change of a node.
pub fn say(global: &Global, node: &str, text: String) -> Result<()> {
    if global.json {
        return print_json(&json!({"message_type": "cluster_changed", "node": node, "text": text}));
    }
    let mut output = Output::new();
    output.line(text)?;
    output.finish()
}

/// Adds nodes, or puts one where another was.
fn change(global: &Global, old: Option<(&str, bool)>, new: &[NodeAddress]) -> Result<Exit> {
    let file = global.cluster()?;
    if let Some((old, _)) = old {
        check_old(&file, old, &new[0].name)?;
    }
    let is_known = |node: &NodeAddress| known(&file, &node.name).is_ok();
    if old.is_none() && !new.iter().all(is_known) {
        // Without a repository, its nodes are those of the file, and all have to be there.
        drop(global.set()?);
    }
    let mut written = Vec::new();
    for node in new {
        match authority::add(&file, node) {
            Ok(path) => written.push(path.display().to_string()),
            Err(error) if error.kind() == StorageErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.into()),
        }
    }
    let names: Vec<&str> = new.iter().map(|node| node.name.as_str()).collect();
    let names = names.join(", ");
    if !written.is_empty() {
        let text = match &written[..] {
            [one] => format!("wrote {one}: serve the node with it, then run this command again"),
            all => format!(
                "wrote {}: serve each node with its file, then run this command again",
                all.join(", ")
            ),
        };
        say(global, &names, text)?;
        return Ok(Exit::Success);
    }
    let nodes: Vec<Arc<NodeStorage>> = new
        .iter()
        .map(|new| answering(&file, new))
        .collect::<Result<_>>()?;
    let storage = global.set()?;
    let places: Vec<Place> = nodes.into_iter().map(cluster::place).collect();
    let old_url = old.map(|(old, _)| cluster::node_url(old));
    check_racks(&file, &storage, old_url.as_deref(), &places)?;
    match old {
        None if places.len() == 1 => storage.add(&places[0])?,
        None => storage.add_group(&places)?,
        Some((old, others_are_lost)) => {
            let new = &new[0].name;
            let is_target = |name: &str| storage.urls().any(|url| url == cluster::node_url(name));
            // An earlier run may have been interrupted before it changed the file.
            if is_target(old) || !is_target(new) {
                let old = cluster::node_url(old);
                if others_are_lost {
                    storage.replace_lost(&old, &places[0])?;
                } else {
                    storage.replace(&old, &places[0])?;
                }
            }
            // A node may have replaced itself, with an empty directory.
            let is_gone = |node: &NodeAddress| node.name == old && node.name != *new;
            authority::change(&file, |nodes| nodes.retain(|node| !is_gone(node)))?;
        }
    }
    let (are, nodes) = match new.len() {
        1 => ("is", "a node"),
        _ => ("are", "nodes"),
    };
    let text = format!(
        "{names} {are} {nodes} of the repository now: run `tabane cluster heal`, and give other \
         clients the new {}",
        file.display()
    );
    say(global, &names, text)?;
    Ok(Exit::Success)
}

/// A new node, which the file knows at this address and which answers.
fn answering(file: &Path, new: &NodeAddress) -> Result<Arc<NodeStorage>> {
    let node = known(file, &new.name)?;
    if node.address() != new.address {
        return Err(Failure::Other(format!(
            "{} is known to be at {}: if it has moved, change its address in {}",
            new.name,
            format::printable(node.address()),
            file.display()
        )));
    }
    node.status().map_err(|error| {
        Failure::Other(format!(
            "{error}: serve the node, then run this command again"
        ))
    })?;
    Ok(node)
}

/// Fails if a new node would be in one rack with another of its group.
fn check_racks(
    file: &Path,
    storage: &StripedStorage,
    old_url: Option<&str>,
    new: &[Place],
) -> Result<()> {
    let known = ClusterFile::read(file)?;
    let beside = match new {
        [_] => storage.neighbours(old_url),
        _ => Vec::new(),
    };
    let urls = new.iter().map(|place| place.url.as_str());
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    for url in beside.into_iter().filter(|url| !new.iter().any(|new| new.url == *url)).chain(urls) {
        let Some(rack) = rack_of(&known, url) else { continue };
        if let Some(other) = seen.insert(rack, url)
            && new.iter().any(|new| new.url == url)
        {
            return Err(Failure::Other(format!(
                "{url} and {other} would be in one group and are in one rack, {rack}: take a node \
                 of another rack, or correct the racks in {}",
                file.display()
            )));
        }
    }
    Ok(())
}
