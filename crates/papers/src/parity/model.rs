//! How fast several clients can be at best, by what each link has to carry: for numbers of nodes
//! that no machine here can hold.

use anyhow::Result;
use tabane_parity::Layout;
use tabane_parity::schedule::{Costs, Kind};

/// What a stripe of a schedule puts on each link, by the data of a stripe.
#[derive(Clone, Copy)]
struct Load {
    client: f64,
    ingress: f64,
    egress: f64,
}

/// The sum of the goodput of all clients, in links.
pub struct Bounds {
    /// Where nothing but data is sent.
    pub no_redundancy: f64,
    /// By each schedule alone.
    pub plans: Vec<(Kind, f64)>,
    /// By the best share of stripes that are relayed, the others sent directly.
    pub mix: f64,
    /// That share.
    pub share: f64,
}

/// For so many clients and nodes, whose links are equal and full-duplex; nodes take turns with all
/// roles.
///
/// # Errors
/// When there are too few nodes.
pub fn bounds(nodes: usize, clients: usize) -> Result<Bounds> {
    let layout = Layout::new(nodes)?;
    let load = |kind: Kind| {
        let costs: Costs = kind.schedule(&layout)?.costs(&layout);
        Some(Load {
            client: 1.0 / costs.goodput(),
            ingress: costs.rotating_ingress(),
            egress: costs.rotating_egress(),
        })
    };
    let clients = clients as f64;
    let of = |load: Load| {
        let mut each = 1.0 / load.client;
        for node in [load.ingress, load.egress] {
            if node > 0.0 {
                each = each.min(1.0 / (clients * node));
            }
        }
        clients * each
    };
    let plans: Vec<(Kind, f64)> = Kind::ALL
        .into_iter()
        .filter_map(|kind| Some((kind, of(load(kind)?))))
        .collect();
    let direct = load(Kind::Direct).expect("there is always a direct one");
    let relay = load(Kind::Coded)
        .or_else(|| load(Kind::Shared))
        .expect("there is always a shared one");
    let mixed = |share: f64| {
        let between = |relay: f64, direct: f64| share * relay + (1.0 - share) * direct;
        of(Load {
            client: between(relay.client, direct.client),
            ingress: between(relay.ingress, direct.ingress),
            egress: between(relay.egress, direct.egress),
        })
    };
    let shares = (0..=1000).map(|share| f64::from(share) / 1000.0);
    let best = shares.max_by(|&a, &b| mixed(a).total_cmp(&mixed(b)));
    let share = best.expect("there are shares");
    Ok(Bounds {
        no_redundancy: clients.min(nodes as f64),
        plans,
        mix: mixed(share),
        share,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_is_held_by_its_own_link_and_many_by_those_of_nodes() {
        let one = bounds(5, 1).unwrap();
        let of = |bounds: &Bounds, kind| {
            bounds
                .plans
                .iter()
                .find(|(other, _)| *other == kind)
                .unwrap()
                .1
        };
        assert!((of(&one, Kind::Direct) - 0.6).abs() < 1e-9);
        assert!((of(&one, Kind::Coded) - 1.0).abs() < 1e-9);
        assert!((one.mix - 1.0).abs() < 1e-9);
        // Nodes store five thirds of the data, so all together take in three links of data.
        let six = bounds(5, 6).unwrap();
        assert!((of(&six, Kind::Direct) - 3.0).abs() < 1e-9);
        assert!(of(&six, Kind::Coded) < 2.2);
        assert!((six.mix - 3.0).abs() < 1e-9);
        for (nodes, clients) in [(5, 3), (7, 4), (9, 5), (17, 12), (65, 40)] {
            let bounds = bounds(nodes, clients).unwrap();
            let best = bounds.plans.iter().map(|plan| plan.1).fold(0.0, f64::max);
            assert!(bounds.mix >= best - 1e-9 && bounds.mix <= bounds.no_redundancy + 1e-9);
        }
    }
}
