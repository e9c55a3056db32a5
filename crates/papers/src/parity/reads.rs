//! Reads from a cluster, of which a node is slow, or two are gone.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use tabane_testing::progress;

use super::{Args, Cluster, sum, text, without_redundancy};

/// Objects that are read again and again.
const OBJECTS: usize = 12;

/// The rate of the slow node, by that of the others.
const SLOW: f64 = 1.0 / 20.0;

/// What is wrong while the client reads.
#[derive(Clone, Copy)]
enum Case {
    AllThere,
    OneSlow,
    TwoGone,
    OneSlowTwoGone,
}

const CASES: [(Case, &str); 4] = [
    (Case::AllThere, "all there"),
    (Case::OneSlow, "one node at 1/20"),
    (Case::TwoGone, "two nodes gone"),
    (Case::OneSlowTwoGone, "one at 1/20, two gone"),
];

/// Measures each case with so many nodes.
pub fn measure(args: &Args, nodes: usize) -> Result<()> {
    progress::show("none");
    let none = without_redundancy(args, nodes, 1)?;
    for (case, name) in CASES {
        progress::show(&format!("n={nodes}: {name}"));
        let (mbit_per_s, received) = read(args, nodes, case)?;
        let of_link = mbit_per_s / none.mbit_per_s;
        if args.json {
            let line = json!({
                "bench": "parity_reads", "nodes": nodes, "case": name,
                "link_mbit_per_s": args.rate, "read_mbit_per_s": mbit_per_s,
                "of_no_redundancy": of_link, "received_by_read": received,
            });
            println!("{line}");
        } else {
            println!(
                "n={nodes} {name:>22}: {mbit_per_s:7.1} Mbit/s, {of_link:.3} of no redundancy; \
                 {received:.3} bytes received for each that was read"
            );
        }
    }
    Ok(())
}

/// Mbit/s that the client reads, and what it receives by that.
fn read(args: &Args, nodes: usize, case: Case) -> Result<(f64, f64)> {
    let mut cluster = Cluster::start(args, nodes, 1)?;
    let file = text(&cluster.file());
    let (seconds, len) = (args.seconds.to_string(), (args.object << 20).to_string());
    let words = ["reader", &file, &seconds, &len, &OBJECTS.to_string()];
    let reader = cluster.client(0, &words)?;
    let mut before = 0;
    let sum = sum(vec![reader], || {
        if matches!(case, Case::TwoGone | Case::OneSlowTwoGone) {
            cluster.daemons.drain(..2);
        }
        if matches!(case, Case::OneSlow | Case::OneSlowTwoGone) {
            let rate = (f64::from(args.rate) * SLOW).round() as u32;
            cluster.network.limit(nodes - 1, rate)?;
        }
        // Waits until earlier traffic has arrived.
        thread::sleep(Duration::from_millis(300));
        before = cluster.network.traffic(nodes)?.0;
        Ok(())
    })?;
    let received = cluster.network.traffic(nodes)?.0 - before;
    Ok((sum.mbit_per_s, received as f64 / sum.bytes as f64))
}
