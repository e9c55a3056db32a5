//! Writes over links of different rates, beside the best mixture of plans that the links allow.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use tabane_parity::Layout;
use tabane_striped::cluster::optimum::{Loads, Rates};
use tabane_testing::network::Network;
use tabane_testing::progress;

use super::simulator;
use super::{Args, Cluster, Sum, sum, text, without_redundancy};

/// How soon a client has to have learnt the links.
const LEARNT: Duration = Duration::from_secs(3);

/// Links of clients and nodes, as shares of the rate that is asked for.
struct Case {
    name: &'static str,
    clients: &'static [f64],
    nodes: &'static [f64],
}

const CASES: &[Case] = &[
    Case {
        name: "all equal",
        clients: &[1.0],
        nodes: &[1.0; 5],
    },
    Case {
        name: "one node at 1/4",
        clients: &[1.0],
        nodes: &[1.0, 1.0, 0.25, 1.0, 1.0],
    },
    Case {
        name: "one node at 1/20",
        clients: &[1.0],
        nodes: &[1.0, 1.0, 0.05, 1.0, 1.0],
    },
    Case {
        name: "client twice as fast",
        clients: &[2.0],
        nodes: &[1.0; 5],
    },
    Case {
        name: "client half as fast",
        clients: &[0.5],
        nodes: &[1.0; 5],
    },
    Case {
        name: "two nodes at 1/2",
        clients: &[1.0],
        nodes: &[1.0, 0.5, 1.0, 1.0, 0.5],
    },
    Case {
        name: "four of seven at 1/4",
        clients: &[1.0],
        nodes: &[1.0, 0.25, 1.0, 0.25, 1.0, 0.25, 0.25],
    },
    Case {
        name: "three clients, two nodes at 1/2",
        clients: &[1.0; 3],
        nodes: &[1.0, 0.5, 1.0, 1.0, 0.5],
    },
];

impl Case {
    /// Mbit/s of all clients together at the best, if TCP leaves so much of a link to data.
    fn bound(&self, args: &Args, of_tcp: f64) -> Result<f64> {
        let loads = Loads::new(&Layout::new(self.nodes.len())?);
        let clients = self.clients.len() as f64;
        let rate = |share: &f64| share * f64::from(args.rate) * of_tcp;
        let nodes: Vec<f64> = self
            .nodes
            .iter()
            .map(|share| rate(share) / clients)
            .collect();
        let rates = Rates {
            client: rate(&self.clients[0]),
            ingress: nodes.clone(),
            egress: nodes,
        };
        Ok(loads.bound(&rates) * clients)
    }

    /// The sum of what clients write in a simulation by the best mixture, beside its bound.
    fn simulate(&self, args: &Args) -> Result<[f64; 2]> {
        let (nodes, clients) = (self.nodes.len(), self.clients.len());
        let case = simulator::Case {
            nodes: self.nodes.to_vec(),
            client_rate: self.clients[0],
            ..simulator::Case::equal(nodes, 1, clients, args.object << 20)
        };
        let best = case.best()?;
        Ok([case.goodput(&best)?, case.bound(&best)?])
    }

    fn network(&self, args: &Args) -> Result<Network> {
        let links = self.nodes.iter().chain(self.clients);
        let rates = links.map(|share| Some((share * f64::from(args.rate)).round() as u32));
        Network::with_rates(&rates.collect::<Vec<_>>())
    }

    fn run(&self, args: &Args, plan: &str) -> Result<Sum> {
        let cluster = Cluster::over(args, self.network(args)?, self.nodes.len())?;
        let (seconds, len) = (args.seconds.to_string(), (args.object << 20).to_string());
        let words = ["client", &text(&cluster.file()), plan, &seconds, &len];
        let members = (0..self.clients.len()).map(|client| cluster.client(client, &words));
        sum(members.collect::<Result<_>>()?, || Ok(()))
    }
}

/// Measures each case by each plan, or simulates it.
pub fn measure(args: &Args) -> Result<()> {
    let cases = CASES.iter().enumerate();
    let cases = cases.filter(|(number, _)| args.cases.is_empty() || args.cases.contains(number));
    let mut cases = cases.map(|(_, case)| case);
    if args.simulate {
        return cases.try_for_each(|case| report_simulated(args, case));
    }
    progress::show("none");
    let none = without_redundancy(args, 5, 1)?;
    let of_tcp = none.mbit_per_s / f64::from(args.rate);
    for case in cases {
        let bound = case.bound(args, of_tcp)?;
        for plan in &args.plans {
            progress::show(&format!("{}: {plan}", case.name));
            let sum = case.run(args, plan)?;
            report(args, case, plan, &sum, bound);
        }
    }
    Ok(())
}

fn report_simulated(args: &Args, case: &Case) -> Result<()> {
    let [links, bound] = case.simulate(args)?;
    if args.json {
        let line = json!({
            "bench": "parity_unequal_model", "case": case.name, "nodes": case.nodes.len(),
            "clients": case.clients.len(), "goodput_links": links, "bound_links": bound,
        });
        println!("{line}");
    } else {
        let of_bound = links / bound;
        println!(
            "{:>32}: {links:.2} links, {of_bound:.3} of the best mixture",
            case.name
        );
    }
    Ok(())
}

fn report(args: &Args, case: &Case, plan: &str, sum: &Sum, bound: f64) {
    let object = (args.object << 20) as f64 * 8e-6;
    let between = |from: f64, to: f64| {
        let objects = sum
            .objects
            .iter()
            .filter(|&&time| time > from && time <= to);
        objects.count() as f64 * object / (to - from)
    };
    // The rate just after the links should be known, and that at the end.
    let learnt = LEARNT.as_secs_f64();
    let (soon, late) = (
        between(learnt, 2.0 * learnt),
        between(args.seconds / 2.0, args.seconds),
    );
    if args.json {
        let line = json!({
            "bench": "parity_unequal", "case": case.name, "plan": plan,
            "nodes": case.nodes.len(), "clients": case.clients.len(),
            "link_mbit_per_s": args.rate, "goodput_mbit_per_s": sum.mbit_per_s,
            "late_mbit_per_s": late, "soon_mbit_per_s": soon,
            "bound_mbit_per_s": bound, "of_bound": sum.mbit_per_s / bound,
            "late_of_bound": late / bound,
        });
        println!("{line}");
        return;
    }
    println!(
        "{:>32} {plan:>7}: {:7.1} Mbit/s, {:.3} of the best mixture; {late:7.1} in the second half \
         ({:.3}), {soon:7.1} from {learnt} to {} s",
        case.name,
        sum.mbit_per_s,
        sum.mbit_per_s / bound,
        late / bound,
        2.0 * learnt,
    );
}
