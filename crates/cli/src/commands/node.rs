//! `tabane node`

use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;
use tabane_node::{ScrubOptions, Server, ServerOptions};
use tabane_striped::cluster::file::NodeFile;
use tabane_striped::cluster::wire::FabricAddress;

use crate::args::Global;
use crate::exit::{Exit, Failure, Result};
use crate::format;
use crate::output::{Output, print_json};
use crate::process;

/// Serve a node of a cluster
#[derive(Args)]
#[command(after_help = "\
`tabane cluster create` makes the file that says which node this is. \
contrib/systemd/tabane-node.service runs it as a service.

Examples:
  tabane node serve --node cluster-a.json --dir /srv/tabane
  tabane node serve --node cluster-a.json --dir /srv/tabane --listen 0.0.0.0:7440 --metrics \
127.0.0.1:7441")]
pub struct Node {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Keep shards in a directory, until a signal ends it
    #[command(after_help = "\
An empty or new directory becomes that of this node, and stays it. SIGTERM and SIGINT end it: what \
was handed over whole is made durable first. Clients go on without it, and `tabane heal` brings it \
up to date later.

Example:
  tabane node serve --node cluster-a.json --dir /srv/tabane")]
    Serve {
        /// The file that says which node this is
        #[arg(long, value_name = "FILE")]
        node: PathBuf,
        /// Where it keeps its shards
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
        /// Host and port to listen on [default: those by which the cluster knows the node]
        #[arg(long, value_name = "HOST:PORT")]
        listen: Option<String>,
        /// Take data by libfabric too, at this address, as in verbs@10.1.0.1:7442; clients and
        /// nodes that can use it
        #[arg(long, value_name = "PROVIDER@HOST:PORT", hide = !cfg!(feature = "libfabric"))]
        fabric: Option<FabricAddress>,
        /// Answer HTTP here: /metrics for Prometheus, and /health
        #[arg(long, value_name = "HOST:PORT")]
        metrics: Option<String>,
        /// Read all that is kept, and compare it with its checksums, so long after the last time;
        /// 0s is never
        #[arg(long, value_name = "DURATION", default_value = "30d")]
        #[arg(value_parser = format::parse_duration)]
        scrub_every: Duration,
        /// Read at most this many KiB a second meanwhile
        #[arg(long, value_name = "KIB", default_value_t = 50_000)]
        #[arg(value_parser = clap::value_parser!(u64).range(1..))]
        scrub_limit: u64,
        /// Take no more packs when shards take this much, as in 2TiB
        #[arg(long, value_name = "SIZE", value_parser = format::parse_bytes)]
        quota: Option<u64>,
    },
}

impl Node {
    /// Runs `tabane node`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let Action::Serve {
            node,
            dir,
            listen,
            fabric,
            metrics,
            scrub_every,
            scrub_limit,
            quota,
        } = self.action;
        let node = NodeFile::read(&node)
            .map_err(|error| Failure::Other(format!("cannot read {}: {error}", node.display())))?;
        let name = node.name.clone();
        let options = ServerOptions {
            listen: listen.unwrap_or_else(|| node.address.clone()),
            node,
            directory: dir,
            fabric,
            metrics,
            scrub: ScrubOptions {
                pause: (!scrub_every.is_zero()).then_some(scrub_every),
                limit_kib_per_s: scrub_limit,
            },
            quota_bytes: quota,
            log: Arc::new(|line| eprintln!("tabane: {line}")),
        };
        let (stop, stopped) = mpsc::channel();
        process::on_signal(move || drop(stop));
        let server = Server::start(options)?;
        if global.json {
            print_json(&json!({
                "message_type": "serving",
                "node": name,
                "address": server.address().to_string(),
                "fabric": server.fabric_address().map(|address| address.to_string()),
                "metrics": server.metrics_address().map(|address| address.to_string()),
            }))?;
        } else if !global.quiet {
            let mut output = Output::new();
            output.line(format!("node {name} listens on {}", server.address()))?;
            if let Some(fabric) = server.fabric_address() {
                output.line(format!("and takes data by libfabric at {fabric}"))?;
            }
            output.finish()?;
        }
        // Nothing is ever sent: a signal closes the channel.
        let _: std::result::Result<(), _> = stopped.recv();
        server.stop();
        Ok(Exit::Success)
    }
}
