//! Every schedule stores the right cells at the expected cost.

use std::collections::BTreeSet;

use tabane_parity::schedule::{Costs, Fault, Kind, Node, by_factors, fewest_transfers};
use tabane_parity::{Layout, encode_plan};

/// Every schedule that there is for so many roles.
fn schedules(
    roles: usize,
) -> impl Iterator<Item = (Layout, Kind, tabane_parity::schedule::Schedule)> {
    let layout = Layout::new(roles).unwrap();
    Kind::ALL.into_iter().filter_map(move |kind| {
        let schedule = kind.schedule(&layout)?;
        Some((layout.clone(), kind, schedule))
    })
}

fn costs(roles: usize, kind: Kind) -> Costs {
    let layout = Layout::new(roles).unwrap();
    kind.schedule(&layout).unwrap().costs(&layout)
}

#[test]
fn every_schedule_passes_the_verifier() {
    for roles in 3..=20 {
        let mut kinds = 0;
        for (layout, kind, schedule) in schedules(roles) {
            assert_eq!(schedule.verify(&layout), Ok(()), "{kind}, {roles}");
            let costs = schedule.costs(&layout);
            assert_eq!(costs.transfers, costs.egress.iter().sum::<usize>());
            assert_eq!(
                costs.transfers + costs.client,
                costs.ingress.iter().sum::<usize>()
            );
            match kind {
                Kind::Direct => assert_eq!((costs.client, costs.xors), (layout.cells(), 0)),
                Kind::Chain => {
                    assert_eq!(costs.client, costs.data);
                    assert_eq!(costs.xors, encode_plan(&layout).xors(), "{roles}");
                }
                _ => {
                    assert_eq!(costs.client, costs.data, "{kind}, {roles}");
                    assert!(
                        costs.transfers >= fewest_transfers(&layout),
                        "{kind}, {roles}"
                    );
                }
            }
            kinds += 1;
        }
        assert_eq!(kinds, if roles == 3 { 3 } else { 4 });
    }
}

#[test]
fn they_cost_no_more_than_they_should() {
    // Transfers, and what the busiest receives and sends by the data, row roles taking turns.
    for (kind, roles, transfers, ingress, egress) in [
        (Kind::Chain, 5, 24, 0.667, 0.500),
        (Kind::Chain, 7, 60, 0.467, 0.333),
        (Kind::Chain, 11, 180, 0.289, 0.200),
        (Kind::Chain, 17, 480, 0.183, 0.125),
        (Kind::Shared, 5, 20, 0.542, 0.417),
        (Kind::Shared, 7, 48, 0.372, 0.267),
        (Kind::Shared, 11, 140, 0.233, 0.156),
        (Kind::Shared, 17, 368, 0.149, 0.096),
        (Kind::Coded, 5, 16, 0.500, 0.333),
        (Kind::Coded, 6, 20, 0.400, 0.250),
        (Kind::Coded, 7, 36, 0.334, 0.200),
        (Kind::Coded, 8, 43, 0.314, 0.171),
        (Kind::Coded, 11, 110, 0.211, 0.122),
        (Kind::Coded, 17, 272, 0.133, 0.071),
    ] {
        let costs = costs(roles, kind);
        assert!(costs.transfers <= transfers, "{kind}, {roles}: {costs:?}");
        assert!(
            costs.turning_ingress() < ingress + 0.0006,
            "{kind}, {roles}: {costs:?}"
        );
        assert!(
            costs.turning_egress() < egress + 0.0006,
            "{kind}, {roles}: {costs:?}"
        );
        assert!(costs.rotating_ingress() <= costs.turning_ingress());
    }
    for (roles, goodput) in [(5, 0.600), (7, 0.714), (11, 0.818), (17, 0.882)] {
        assert!((costs(roles, Kind::Direct).goodput() - goodput).abs() < 0.0005);
        assert_eq!(costs(roles, Kind::Chain).goodput(), 1.0);
    }
    assert_eq!(fewest_transfers(&Layout::new(5).unwrap()), 16);
    assert_eq!(fewest_transfers(&Layout::new(7).unwrap()), 36);
}

#[test]
fn costs_are_by_the_data() {
    let costs = Costs {
        data: 4,
        client: 5,
        transfers: 6,
        ingress: vec![2, 4, 6],
        egress: vec![1, 1, 4],
        xors: 0,
        hops: 0,
    };
    assert_eq!(costs.goodput(), 0.8);
    assert_eq!(
        (costs.busiest_ingress(), costs.busiest_egress()),
        (1.5, 1.0)
    );
    assert_eq!(
        (costs.rotating_ingress(), costs.rotating_egress()),
        (1.0, 0.5)
    );
    assert_eq!(
        (costs.turning_ingress(), costs.turning_egress()),
        (1.5, 1.0)
    );
    let less = Costs {
        ingress: vec![2, 4, 1],
        egress: vec![3, 1, 0],
        ..costs
    };
    assert_eq!((less.turning_ingress(), less.turning_egress()), (0.75, 0.5));
}

#[test]
fn transfers_carry_what_adds_up_to_the_cells() {
    for roles in 3..=12 {
        for (layout, kind, schedule) in schedules(roles) {
            let contents = schedule.contents(&layout).unwrap();
            assert_eq!(contents.len(), schedule.transfers.len());
            for (cell, terms) in layout.terms().iter().enumerate() {
                let mut sum = BTreeSet::new();
                for block in schedule.stores[cell].iter().flat_map(|&one| &contents[one]) {
                    let data = layout.data_cells()[*block];
                    if !sum.remove(&data) {
                        sum.insert(data);
                    }
                }
                let terms: BTreeSet<usize> = terms.iter().copied().collect();
                assert_eq!(sum, terms, "{kind}, {roles}, {cell}");
            }
        }
    }
}

#[test]
fn kinds_have_names() {
    let names = Kind::ALL.map(Kind::name);
    assert_eq!(names, ["direct", "chain", "shared", "coded"]);
    for kind in Kind::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
        assert_eq!(format!("{kind:>7}"), format!("{:>7}", kind.name()));
    }
    let error = "chains".parse::<Kind>().unwrap_err();
    assert_eq!(error, "there are direct, chain, shared and coded");
}

#[test]
fn the_load_is_even() {
    let spread = |loads: &[usize]| loads.iter().max().unwrap() - loads.iter().min().unwrap();
    for roles in 4..=20 {
        let chain = costs(roles, Kind::Chain);
        let rows = roles - 1;
        assert!(spread(&chain.ingress[..rows]) <= 2, "{chain:?}");
        assert!(spread(&chain.egress[..rows]) <= 2, "{chain:?}");
        let shared = costs(roles, Kind::Shared);
        let (diagonal, row_roles) = shared.ingress.split_last().unwrap();
        assert!(diagonal <= row_roles.iter().max().unwrap(), "{shared:?}");
        let prime = Layout::new(roles).unwrap().prime();
        if prime == roles && roles > 5 {
            assert!(
                spread(row_roles) <= 1 && shared.hops < chain.hops,
                "{shared:?}"
            );
        }
    }
}

/// For all numbers of targets that a group can have: near the fewest transfers, and no role is
/// busier than with `shared`.
#[test]
fn coded_schedules_are_near_the_bound() {
    for roles in 4..=32 {
        let layout = Layout::new(roles).unwrap();
        let schedule = Kind::Coded.schedule(&layout).unwrap();
        assert_eq!(schedule.verify(&layout), Ok(()), "{roles}");
        let (coded, shared) = (schedule.costs(&layout), costs(roles, Kind::Shared));
        let fewest = fewest_transfers(&layout);
        let more = match roles {
            ..=7 => 0,
            8 => 1,
            25..=28 => 2 * layout.rows(),
            _ => layout.rows(),
        };
        assert!(
            (fewest..=fewest + more).contains(&coded.transfers),
            "{coded:?}"
        );
        assert!(
            coded.busiest_ingress() <= shared.busiest_ingress(),
            "{roles}"
        );
        assert!(coded.busiest_egress() <= shared.busiest_egress(), "{roles}");
        assert!(coded.hops <= shared.hops + 2, "{roles}: {}", coded.hops);
        // Each parity of a diagonal goes to the diagonal role once, and it sends nothing.
        assert_eq!(coded.ingress[roles - 1], layout.rows());
        assert_eq!(coded.egress[roles - 1], 0);
    }
    for roles in [3, 33, 64] {
        assert_eq!(Kind::Coded.schedule(&Layout::new(roles).unwrap()), None);
    }
}

/// With few factors there are diagonals that none of them assigns.
#[test]
fn all_factors_give_a_schedule() {
    for roles in 4..=12 {
        let layout = Layout::new(roles).unwrap();
        for factors in [&[][..], &[1], &[2], &[1, 2]] {
            let schedule = by_factors(&layout, factors).unwrap();
            assert_eq!(schedule.verify(&layout), Ok(()), "{roles}, {factors:?}");
        }
    }
    assert_eq!(by_factors(&Layout::new(33).unwrap(), &[1]), None);
}

/// Nodes and clients make schedules each for itself and know them by name. If this fails, what was
/// changed needs a name of its own.
#[test]
fn schedules_are_the_same_in_all_versions() {
    let digest = |kind: Kind| {
        let mut digest = 0xcbf2_9ce4_8422_2325_u64;
        let mut add = |number: usize| {
            digest = (digest ^ number as u64).wrapping_mul(0x0100_0000_01b3);
        };
        for (layout, schedule) in (3..=32).filter_map(|roles| {
            let layout = Layout::new(roles).unwrap();
            let schedule = kind.schedule(&layout)?;
            Some((layout, schedule))
        }) {
            for transfer in &schedule.transfers {
                add(match transfer.from {
                    Node::Client => layout.roles(),
                    Node::Role(role) => role,
                });
                add(transfer.to);
                transfer.of.iter().copied().for_each(&mut add);
            }
            schedule.stores.iter().flatten().copied().for_each(&mut add);
        }
        digest
    };
    let digests = [
        0x36c3_0d0c_cba7_0403,
        0x1036_bd1c_1c20_1deb,
        0x011b_614e_6f50_2f6d,
        0xd366_3a8e_037c_cb0c,
    ];
    assert_eq!(Kind::ALL.map(digest), digests);
}

#[test]
fn the_verifier_finds_what_is_wrong() {
    for roles in [3, 4, 5, 7, 9] {
        for (layout, kind, good) in schedules(roles) {
            // Without any one thing that is sent or stored.
            for number in 0..good.transfers.len() {
                for left_out in 0..good.transfers[number].of.len() {
                    let mut bad = good.clone();
                    bad.transfers[number].of.remove(left_out);
                    assert!(bad.verify(&layout).is_err(), "{kind}, {roles}, {number}");
                }
            }
            for cell in 0..layout.cells() {
                for left_out in 0..good.stores[cell].len() {
                    let mut bad = good.clone();
                    bad.stores[cell].remove(left_out);
                    assert_eq!(
                        bad.verify(&layout),
                        Err(Fault::WrongCell(cell)),
                        "{kind}, {roles}"
                    );
                }
            }
        }
    }
    let layout = Layout::new(5).unwrap();
    let good = Kind::Chain.schedule(&layout).unwrap();
    let first = good
        .transfers
        .iter()
        .position(|one| one.from != Node::Client)
        .unwrap();
    let faulty = |change: &dyn Fn(&mut tabane_parity::schedule::Schedule)| {
        let mut bad = good.clone();
        change(&mut bad);
        bad.verify(&layout)
    };
    assert_eq!(
        faulty(&|bad| bad.transfers[first].of = vec![first]),
        Err(Fault::NotThere(first))
    );
    assert_eq!(
        faulty(&|bad| bad.transfers[0].of = vec![12]),
        Err(Fault::Nonsense(0))
    );
    assert_eq!(
        faulty(&|bad| bad.transfers[0].to = 5),
        Err(Fault::Nonsense(0))
    );
    for from in [5, 9, good.transfers[first].to] {
        assert_eq!(
            faulty(&|bad| bad.transfers[first].from = Node::Role(from)),
            Err(Fault::Nonsense(first))
        );
    }
    assert_eq!(
        faulty(&|bad| bad.stores[0] = vec![11]),
        Err(Fault::NotArrived(0))
    );
    let count = good.transfers.len();
    assert_eq!(
        faulty(&|bad| bad.stores[0] = vec![count]),
        Err(Fault::NotArrived(0))
    );
    assert_eq!(
        faulty(&|bad| {
            bad.stores.pop();
        }),
        Err(Fault::CellCount(19))
    );
}
