//! The mixture of plans that carries most data over links of given rates: a linear program.

use tabane_parity::Layout;
use tabane_parity::schedule::{Kind, Node};

/// What a byte of data puts on each link, by one schedule.
#[derive(Clone, Debug)]
struct Load {
    kind: Kind,
    /// Bytes that the client sends.
    client: f64,
    /// For each role, bytes that its node receives.
    ingress: Vec<f64>,
    /// For each role, bytes that its node sends.
    egress: Vec<f64>,
}

/// Bytes a second that the links carry, as far as is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    /// From the client.
    pub client: f64,
    /// To each node.
    pub ingress: Vec<f64>,
    /// From each node.
    pub egress: Vec<f64>,
}

/// How a stripe goes to the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The schedule.
    pub kind: Kind,
    /// The place of the node that has role 0, the next ones having the next roles; `None` leaves it
    /// to the name of the object, so that nodes take turns.
    pub turn: Option<usize>,
}

/// A mixture of choices.
#[derive(Clone, Debug, Default)]
pub struct Mixture {
    /// Each choice with its share of the data; the shares add up to 1.
    pub shares: Vec<(Choice, f64)>,
    /// Bytes of data a second.
    pub rate: f64,
}

/// Taking turns with roles spreads reads evenly: roles are only chosen if that is so many times as
/// quick.
const CHOSEN_ROLES_GAIN_MIN: f64 = 1.04;

/// Of mixtures that are equally quick, the one with the least traffic is best: a byte that a node
/// receives counts as so much less data, and one that the client sends as twice as much.
const TRAFFIC_COST: f64 = 1e-3;

/// The loads of all schedules of a layout.
#[derive(Clone, Debug)]
pub struct Loads(Vec<Load>);

impl Loads {
    /// The loads of a layout's schedules.
    pub fn new(layout: &Layout) -> Self {
        let data = layout.data_cells().len() as f64;
        let of_kind = |kind: Kind| {
            let schedule = kind.schedule(layout)?;
            let mut load = Load {
                kind,
                client: 0.0,
                ingress: vec![0.0; layout.roles()],
                egress: vec![0.0; layout.roles()],
            };
            for transfer in &schedule.transfers {
                match transfer.from {
                    Node::Client => load.client += 1.0 / data,
                    Node::Role(role) => load.egress[role] += 1.0 / data,
                }
                load.ingress[transfer.to] += 1.0 / data;
            }
            Some(load)
        };
        Self(Kind::ALL.into_iter().filter_map(of_kind).collect())
    }

    /// The quickest mixture over links of these rates; `may_turn` allows to choose roles.
    pub fn best(&self, rates: &Rates, may_turn: bool) -> Mixture {
        let alike = self.mixture(rates, &[None]);
        if !may_turn {
            return alike;
        }
        let turns: Vec<_> = (0..rates.ingress.len()).map(Some).chain([None]).collect();
        let chosen = self.mixture(rates, &turns);
        if chosen.rate > alike.rate * CHOSEN_ROLES_GAIN_MIN {
            chosen
        } else {
            alike
        }
    }

    /// Bytes of data a second that no mixture exceeds over links of these rates, whichever node has
    /// which role.
    pub fn bound(&self, rates: &Rates) -> f64 {
        let turns: Vec<_> = (0..rates.ingress.len()).map(Some).collect();
        self.mixture(rates, &turns).rate
    }

    fn mixture(&self, rates: &Rates, turns: &[Option<usize>]) -> Mixture {
        let nodes = rates.ingress.len();
        let mut choices = Vec::new();
        // A column a choice: what a byte of data puts on each link, as a share of its rate.
        let mut columns: Vec<Vec<f64>> = Vec::new();
        let mut worth = Vec::new();
        for load in &self.0 {
            let traffic = load.ingress.iter().sum::<f64>() + 2.0 * load.client;
            for &turn in turns {
                let on = |by_role: &[f64], place: usize| match turn {
                    Some(turn) => by_role[(place + nodes - turn) % nodes],
                    None => by_role.iter().sum::<f64>() / nodes as f64,
                };
                let ingress =
                    (0..nodes).map(|place| on(&load.ingress, place) / rates.ingress[place]);
                let egress = (0..nodes).map(|place| on(&load.egress, place) / rates.egress[place]);
                let client = [load.client / rates.client];
                columns.push(client.into_iter().chain(ingress).chain(egress).collect());
                worth.push(1.0 - TRAFFIC_COST * traffic);
                let kind = load.kind;
                choices.push(Choice { kind, turn });
            }
        }
        let amounts = maximise(&columns, &worth);
        let rate: f64 = amounts.iter().sum();
        let shares = choices.into_iter().zip(amounts);
        let shares = shares.filter(|(_, amount)| *amount > 1e-6 * rate);
        let shares = shares
            .map(|(choice, amount)| (choice, amount / rate))
            .collect();
        Mixture { shares, rate }
    }
}

/// Amounts `x ≥ 0` that make `Σ worth[j] · x[j]` largest, with `Σ columns[j][i] · x[j] ≤ 1` for all
/// `i`: the simplex method. Each column has a positive number.
fn maximise(columns: &[Vec<f64>], worth: &[f64]) -> Vec<f64> {
    /// Numbers below this are zero.
    const TINY: f64 = 1e-12;
    let rows = columns[0].len();
    let count = columns.len();
    // Each row: the columns, what is left of the limit (a column each), and the limit.
    let mut table: Vec<Vec<f64>> = (0..rows)
        .map(|row| {
            let mut numbers: Vec<f64> = columns.iter().map(|column| column[row]).collect();
            numbers.extend((0..rows).map(|other| f64::from(u8::from(other == row))));
            numbers.push(1.0);
            numbers
        })
        .collect();
    let mut gain: Vec<f64> = worth.to_vec();
    gain.resize(count + rows + 1, 0.0);
    let mut basis: Vec<usize> = (count..count + rows).collect();
    // Always the first column that gains: so no set of columns comes twice (Bland's rule).
    while let Some(enters) = gain[..count + rows].iter().position(|&gain| gain > TINY) {
        let mut leaves: Option<(usize, f64)> = None;
        for (row, numbers) in table.iter().enumerate() {
            if numbers[enters] <= TINY {
                continue;
            }
            let ratio = numbers[count + rows] / numbers[enters];
            let is_less = leaves.is_none_or(|(best, least)| {
                ratio < least - TINY || ratio < least + TINY && basis[row] < basis[best]
            });
            if is_less {
                leaves = Some((row, ratio));
            }
        }
        let Some((row, _)) = leaves else {
            break;
        };
        let pivot = table[row][enters];
        table[row].iter_mut().for_each(|number| *number /= pivot);
        let of_row = table[row].clone();
        let subtract = |numbers: &mut [f64]| {
            let times = numbers[enters];
            if times != 0.0 {
                let pairs = numbers.iter_mut().zip(&of_row);
                pairs.for_each(|(number, of_row)| *number -= times * of_row);
            }
        };
        let others = table
            .iter_mut()
            .enumerate()
            .filter(|(other, _)| *other != row);
        others.for_each(|(_, numbers)| subtract(numbers));
        subtract(&mut gain);
        basis[row] = enters;
    }
    let mut amounts = vec![0.0; count];
    for (row, &column) in basis.iter().enumerate() {
        if let Some(amount) = amounts.get_mut(column) {
            *amount = table[row][count + rows].max(0.0);
        }
    }
    amounts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loads(nodes: usize) -> Loads {
        Loads::new(&Layout::new(nodes).unwrap())
    }

    fn rates(client: f64, nodes: &[f64]) -> Rates {
        Rates {
            client,
            ingress: nodes.to_vec(),
            egress: nodes.to_vec(),
        }
    }

    #[track_caller]
    fn assert_rate(client: f64, nodes: &[f64], expected: f64) -> Mixture {
        let best = loads(nodes.len()).best(&rates(client, nodes), true);
        let sum: f64 = best.shares.iter().map(|(_, share)| share).sum();
        assert!((sum - 1.0).abs() < 1e-6, "{best:?}");
        assert!((best.rate - expected).abs() < 0.006, "{best:?}");
        best
    }

    /// What `docs/explanation/parity.md` has for five nodes.
    #[test]
    fn mixtures_are_the_best_there_are() {
        let equal = assert_rate(1.0, &[1.0; 5], 1.0);
        let coded = Choice {
            kind: Kind::Coded,
            turn: None,
        };
        assert_eq!(equal.shares, [(coded, 1.0)]);
        // One node at a fourth: it is always the one that has the diagonals.
        let one = assert_rate(1.0, &[0.25, 1.0, 1.0, 1.0, 1.0], 0.75);
        assert!(
            one.shares.iter().all(|(choice, _)| choice.turn == Some(1)),
            "{one:?}"
        );
        assert_rate(1.0, &[1.0, 1.0, 0.05, 1.0, 1.0], 0.15);
        assert_rate(2.0, &[1.0; 5], 2.0);
        assert_rate(0.5, &[1.0; 5], 0.5);
        // Several clients, each with its share of the nodes' links.
        assert_rate(1.0, &[1.0 / 3.0; 5], 0.8);
        assert_rate(1.0, &[1.0 / 4.0; 5], 0.675);
        assert_rate(1.0, &[1.0 / 6.0; 5], 3.0 / 6.0);
        // Two at a fourth. Roles that were chosen would carry 0.692: not worth it.
        let two = assert_rate(1.0, &[0.25, 1.0, 1.0, 0.25, 1.0], 0.675);
        assert!(
            two.shares.iter().all(|(choice, _)| choice.turn.is_none()),
            "{two:?}"
        );
    }

    #[test]
    fn no_mixture_is_beyond_what_links_carry() {
        let mut state = 1_u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            0.05 + (state >> 40) as f64 / f64::from(1 << 24)
        };
        for nodes in [3, 4, 5, 6, 7, 8, 12, 32] {
            let loads = loads(nodes);
            for _ in 0..20 {
                let rates = Rates {
                    client: next(),
                    ingress: (0..nodes).map(|_| next()).collect(),
                    egress: (0..nodes).map(|_| next()).collect(),
                };
                let best = loads.best(&rates, true);
                assert!(
                    best.rate > 0.0 && best.rate <= rates.client * 1.0001,
                    "{best:?}"
                );
                assert!(best.rate * 1.0001 >= loads.best(&rates, false).rate);
                for place in 0..nodes {
                    let on = |choice: &Choice, by_role: &[f64]| match choice.turn {
                        Some(turn) => by_role[(place + nodes - turn) % nodes],
                        None => by_role.iter().sum::<f64>() / nodes as f64,
                    };
                    let load = |of: &dyn Fn(&Load) -> Vec<f64>| -> f64 {
                        let of_choice = |choice: &Choice| {
                            let load = loads.0.iter().find(|load| load.kind == choice.kind);
                            on(choice, &of(load.unwrap()))
                        };
                        let shares = best.shares.iter();
                        shares
                            .map(|(choice, share)| share * of_choice(choice))
                            .sum()
                    };
                    let ingress = load(&|load| load.ingress.clone());
                    let egress = load(&|load| load.egress.clone());
                    assert!(ingress * best.rate <= rates.ingress[place] * 1.0001);
                    assert!(egress * best.rate <= rates.egress[place] * 1.0001);
                }
            }
        }
    }
}
