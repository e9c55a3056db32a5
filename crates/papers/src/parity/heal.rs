//! What one node has lost, made again by the others or by the client.

use std::fs;
use std::path::Path;

use anyhow::Result;
use serde_json::json;
use tabane_testing::progress;

use super::{Args, Cluster, sum, text};

/// Puts objects, takes everything from one node, and heals: by nodes among themselves, and by the
/// client.
pub fn measure(args: &Args, nodes: usize) -> Result<()> {
    let cluster = Cluster::start(args, nodes, 1)?;
    progress::show(&format!("n={nodes}: put"));
    let (seconds, len) = (args.seconds.to_string(), (args.object << 20).to_string());
    let file = text(&cluster.file());
    let words = ["client", &file, "auto", &seconds, &len];
    sum(vec![cluster.client(0, &words)?], || Ok(()))?;
    for (who, plan) in [("nodes", "auto"), ("client", "direct")] {
        progress::show(&format!("n={nodes}: healed by {who}"));
        remove_files(&cluster.directory(0).join("shards/packs"))?;
        let mut before = Vec::new();
        let healer = cluster.client(0, &["heal", &file, plan])?;
        let healed = sum(vec![healer], || {
            before = cluster.traffic(0..nodes + 1)?;
            Ok(())
        })?;
        let mut most: (f64, f64) = (0.0, 0.0);
        let mut of_client = (0.0, 0.0);
        let lost = healed.bytes as f64;
        let after = cluster.traffic(0..nodes + 1)?;
        for (member, (before, after)) in before.iter().zip(after).enumerate() {
            let received = (after.0 - before.0) as f64 / lost;
            let sent = (after.1 - before.1) as f64 / lost;
            if member == nodes {
                of_client = (received, sent)
            } else {
                most = (most.0.max(received), most.1.max(sent))
            }
        }
        if args.json {
            println!(
                "{}",
                json!({"bench": "parity_heal", "nodes": nodes, "by": who,
                    "link_mbit_per_s": args.rate, "lost_bytes": healed.bytes,
                    "mbit_per_s": healed.mbit_per_s, "node_received_most": most.0,
                    "node_sent_most": most.1, "client_received": of_client.0,
                    "client_sent": of_client.1})
            );
        } else {
            println!(
                "n={nodes}, {:.0} MB lost, healed by {who}: {:.1} Mbit/s; by what was lost, no \
                node received more than {:.2} or sent more \
                 than {:.2}, the client received {:.2} and sent {:.2}",
                lost * 1e-6,
                healed.mbit_per_s,
                most.0,
                most.1,
                of_client.0,
                of_client.1
            );
        }
    }
    Ok(())
}

fn remove_files(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_files(&entry.path())?
        } else {
            fs::remove_file(entry.path())?
        }
    }
    Ok(())
}
