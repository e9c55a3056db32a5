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

/// How a stripe, or sectors of one, go to the nodes.
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

/// Stripes whose roles differ share the links in part only, since they go out one after the other:
/// so much of each is as if it were alone. Schedules take turns within a stripe.
const ALONE_SHARE: f64 = 0.3;

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

    /// The mixture that is likely to be the quickest over links of these rates; `may_turn` allows
    /// to choose roles.
    pub fn best(&self, rates: &Rates, may_turn: bool) -> Mixture {
        let (alike, slower) = self.mixture(rates, &[None]);
        if !may_turn {
            return alike;
        }
        let turns: Vec<_> = (0..rates.ingress.len()).map(Some).chain([None]).collect();
        let (chosen, faster) = self.mixture(rates, &turns);
        if faster > slower * CHOSEN_ROLES_GAIN_MIN {
            chosen
        } else {
            alike
        }
    }

    /// Bytes of data a second that no mixture exceeds over links of these rates, whichever node has
    /// which role.
    pub fn bound(&self, rates: &Rates) -> f64 {
        let turns: Vec<_> = (0..rates.ingress.len()).map(Some).collect();
        self.mixture(rates, &turns).0.rate
    }

    /// The quickest mixture, and the rate that is to be expected of it.
    fn mixture(&self, rates: &Rates, turns: &[Option<usize>]) -> (Mixture, f64) {
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
        let alone = turns.iter().map(|turn| {
            let mut seconds = vec![0.0; columns[0].len()];
            let of_turn = choices.iter().zip(columns.iter().zip(&amounts));
            let of_turn = of_turn.filter(|(choice, _)| choice.turn == *turn);
            for (_, (column, amount)) in of_turn {
                let pairs = seconds.iter_mut().zip(column);
                pairs.for_each(|(seconds, of_byte)| *seconds += amount * of_byte);
            }
            seconds.into_iter().fold(0.0, f64::max)
        });
        // For what takes one, if stripes share the links well.
        let seconds = 1.0 - ALONE_SHARE + ALONE_SHARE * alone.sum::<f64>();
        let shares = choices.into_iter().zip(amounts);
        let shares = shares.filter(|(_, amount)| *amount > 1e-6 * rate);
        let shares = shares
            .map(|(choice, amount)| (choice, amount / rate))
            .collect();
        (Mixture { shares, rate }, rate / seconds)
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

    #[track_caller]
    fn assert_near(found: f64, expected: f64) {
        let scale = expected.abs().max(f64::MIN_POSITIVE);
        assert!(
            (found - expected).abs() <= 1e-9 * scale,
            "{found} {expected}"
        );
    }

    #[track_caller]
    fn assert_amounts(columns: &[Vec<f64>], worth: &[f64], expected: &[f64]) {
        let found = maximise(columns, worth);
        let pairs = found.iter().zip(expected);
        let is_near = pairs.fold(true, |all, (a, b)| all && (a - b).abs() < 1e-9);
        assert!(is_near && found.len() == expected.len(), "{found:?}");
    }

    /// The table "Receiving and sending" in `docs/explanation/parity.md` has the numbers: what the
    /// client sends, how many transfers go between nodes, the most that a node receives and sends.
    #[test]
    fn loads_are_those_of_the_table_of_schedules() {
        use Kind::{Chain, Coded, Direct, Shared};
        let sum = |of: &[f64]| of.iter().sum::<f64>();
        let most = |of: &[f64]| of.iter().copied().fold(0.0, f64::max);
        let of_five = [
            (Direct, 20.0, 0.0, 4.0, 0.0),
            (Chain, 12.0, 24.0, 8.0, 6.0),
            (Shared, 12.0, 20.0, 7.0, 5.0),
            (Coded, 12.0, 16.0, 6.0, 4.0),
        ];
        let found = loads(5).0;
        assert_eq!(found.len(), of_five.len());
        for (load, (kind, client, between, most_in, most_out)) in found.iter().zip(of_five) {
            assert_eq!(load.kind, kind);
            assert_eq!((load.ingress.len(), load.egress.len()), (5, 5));
            assert_near(load.client, client / 12.0);
            assert_near(sum(&load.ingress), (client + between) / 12.0);
            assert_near(sum(&load.egress), between / 12.0);
            assert_near(most(&load.ingress), most_in / 12.0);
            assert_near(most(&load.egress), most_out / 12.0);
            // The node with the diagonals sends nothing, and by these two receives its cells alone.
            assert_near(load.egress[4], 0.0);
            if [Direct, Coded].contains(&kind) {
                assert_near(load.ingress[4], 4.0 / 12.0);
            }
        }
        // For three nodes there is no coded schedule.
        let kinds = |nodes| {
            loads(nodes)
                .0
                .iter()
                .map(|load| load.kind)
                .collect::<Vec<_>>()
        };
        assert_eq!(kinds(3), [Direct, Chain, Shared]);
        assert_eq!(kinds(4), [Direct, Chain, Shared, Coded]);
    }

    /// All nodes at a fourth, roles taking turns. `direct` takes 5/3 of the client's link and 1/3
    /// of each node's, `coded` 1 and 7/15. With x and y of them both are full when
    /// 5/3 x + y = 1 and 1/3 x + 7/15 y = 1/4: x = 39/80, y = 15/80.
    #[test]
    fn a_mixture_has_the_shares_that_fill_both_links() {
        // Whatever unit the rates are in.
        for unit in [1.0, 1e8, 1.0 / 16384.0] {
            let rates = rates(unit, &[unit / 4.0; 5]);
            let best = loads(5).best(&rates, false);
            assert_near(best.rate, 54.0 / 80.0 * unit);
            let shares: Vec<(Kind, Option<usize>)> = best
                .shares
                .iter()
                .map(|(choice, _)| (choice.kind, choice.turn))
                .collect();
            assert_eq!(shares, [(Kind::Direct, None), (Kind::Coded, None)]);
            assert_near(best.shares[0].1, 39.0 / 54.0);
            assert_near(best.shares[1].1, 15.0 / 54.0);
        }
    }

    #[test]
    fn roles_are_chosen_only_if_that_is_worth_it_and_allowed() {
        let turns = |mixture: &Mixture| mixture.shares.iter().any(|(one, _)| one.turn.is_some());
        for unit in [1.0, 1e8, 1.0 / 16384.0] {
            let nodes = |nodes: [f64; 5]| rates(unit, &nodes.map(|rate| rate * unit));
            // 0.75 instead of 0.675 is.
            let one = nodes([0.25, 1.0, 1.0, 1.0, 1.0]);
            let (chosen, alike) = (loads(5).best(&one, true), loads(5).best(&one, false));
            assert!(turns(&chosen) && !turns(&alike), "{chosen:?} {alike:?}");
            assert_near(chosen.rate, 0.75 * unit);
            assert_near(alike.rate, 0.675 * unit);
            assert_near(loads(5).bound(&one), 0.75 * unit);
            // 0.692 instead of 0.675 is not, and the bound has it.
            let two = nodes([0.25, 1.0, 1.0, 0.25, 1.0]);
            let best = loads(5).best(&two, true);
            assert!(!turns(&best), "{best:?}");
            assert_near(best.rate, 0.675 * unit);
            let bound = loads(5).bound(&two) / unit;
            assert!((0.6915..0.6925).contains(&bound), "{bound}");
            assert_near(loads(5).bound(&nodes([1.0; 5])), unit);
        }
    }

    /// Schedules that take turns within a stripe share the links; stripes whose roles differ do so
    /// less well, so that a mixture of these has to promise more.
    #[test]
    fn less_is_expected_of_a_mixture_whose_roles_differ() {
        let expected = |rates: &Rates, turns: &[Option<usize>]| {
            let (mixture, expected) = loads(5).mixture(rates, turns);
            let has_turn = |turn| mixture.shares.iter().any(|(one, _)| one.turn == turn);
            let count = turns.iter().filter(|&&turn| has_turn(turn)).count();
            (count, mixture.shares.len(), expected / mixture.rate)
        };
        let all: Vec<_> = (0..5).map(Some).collect();
        for unit in [1.0, 1e8] {
            let nodes = |nodes: [f64; 5]| rates(unit, &nodes.map(|rate| rate * unit));
            let (turns, choices, part) = expected(&nodes([0.25; 5]), &[None]);
            assert_eq!((turns, choices), (1, 2));
            assert_near(part, 1.0);
            let (turns, choices, part) = expected(&nodes([0.25, 1.0, 1.0, 1.0, 1.0]), &all);
            assert_eq!(turns, 1, "{choices}");
            assert_near(part, 1.0);
            let (turns, _, part) = expected(&nodes([0.25, 1.0, 1.0, 0.25, 1.0]), &all);
            assert!(turns > 1 && part < 1.0 && part > 0.7, "{turns} {part}");
        }
    }

    /// The slow node receives a fourth of the data by `direct`, and no more by `coded` if it has
    /// the diagonals: both are as quick. By six nodes, `direct` has 1.5 of traffic to the nodes and
    /// 1.5 from the client, which counts twice: 4.5. `coded` has 2.25 and 1: 4.25.
    #[test]
    fn the_least_traffic_decides_between_mixtures_that_are_as_quick() {
        let turns = [0, 1, 2, 3, 4, 5].map(Some);
        let slow = rates(64.0, &[64.0, 64.0, 1.0, 64.0, 64.0, 64.0]);
        let (best, _) = loads(6).mixture(&slow, &turns);
        assert_near(best.rate, 4.0);
        let coded = Choice {
            kind: Kind::Coded,
            turn: Some(3),
        };
        assert_eq!(best.shares, [(coded, 1.0)]);
    }

    /// With 17 nodes `direct` has less traffic than any relaying, and reaches 15/17.
    #[test]
    fn no_saving_of_traffic_makes_a_mixture_slower() {
        let best = loads(17).best(&rates(1.0, &[1.0; 17]), true);
        assert_near(best.rate, 1.0);
        assert_eq!(best.shares.len(), 1, "{best:?}");
        assert_eq!(best.shares[0].0.kind, Kind::Coded);
    }

    #[test]
    fn linear_programs_of_textbooks_have_their_known_solutions() {
        // Maximise 3 x + 5 y with x ≤ 4, 2 y ≤ 12, 3 x + 2 y ≤ 18.
        let columns = [
            vec![0.25, 0.0, 3.0 / 18.0],
            vec![0.0, 2.0 / 12.0, 2.0 / 18.0],
        ];
        assert_amounts(&columns, &[3.0, 5.0], &[2.0, 6.0]);
        // With 7 x the second limit does not count: x = 4, y = 3.
        assert_amounts(&columns, &[9.0, 5.0], &[4.0, 3.0]);
        // Nothing is worth it.
        assert_amounts(&columns, &[-1.0, 0.0], &[0.0, 0.0]);
        // One column; the limit that is reached first may be any.
        assert_amounts(&[vec![0.5, 2.0]], &[1.0], &[0.5]);
        assert_amounts(&[vec![2.0, 0.5, 0.0]], &[0.001], &[0.5]);
        assert_amounts(
            &[vec![2.0], vec![3.0], vec![1.0]],
            &[1.0, 2.0, 0.5],
            &[0.0, 1.0 / 3.0, 0.0],
        );
    }

    /// In these programs several rows reach their limits at once, again and again. Among such rows
    /// the one whose column comes first has to leave: where the first row leaves, the last one or
    /// that of the last column, the same columns come again for ever.
    #[test]
    fn the_simplex_method_ends_where_other_rules_go_round_in_circles() {
        let columns = [
            vec![1.0, 1.0, 1.0, 1.0, 0.0],
            vec![0.0, -0.5, 0.0, -2.0, 1.0],
            vec![0.0, 1.0, -2.0, -3.0, 1.0],
            vec![0.0, 0.0, -1.0, -2.0, 1.0],
            vec![0.0, -2.0, 2.0, -3.0, 1.0],
        ];
        let worth = [1.0, -0.5, 0.5, 3.0, -0.5];
        assert_amounts(&columns, &worth, &[1.0, 0.0, 0.0, 1.0, 0.0]);
        let columns = [
            vec![1.0, 1.0, 1.0, 0.0],
            vec![-2.0, 1.0, 0.0, 1.0],
            vec![0.5, -2.0, 0.0, 1.0],
            vec![0.0, -1.0, 0.0, 1.0],
            vec![0.5, 2.0, 0.0, 1.0],
            vec![-0.5, 0.5, 0.0, 1.0],
        ];
        let worth = [1.0, 1.0, -8.0, -1.0, -3.0, 4.0];
        assert_amounts(&columns, &worth, &[0.5, 0.0, 0.0, 0.0, 0.0, 1.0]);
    }
}
