//! Chooses how each stripe goes to the nodes, and by which schedule each of its sectors does, so
//! that all together are the quickest mixture for what the links carry.

use tabane_fabric::Flow;
use tabane_parity::Layout;
use tabane_parity::schedule::Kind;

use super::links::Links;
use super::optimum::{Choice, Loads, Mixture};
use super::wire::Usage;

/// The mixer of one client for the nodes of one generation.
pub struct Mixer {
    loads: Loads,
    links: Links,
    mixture: Mixture,
    /// The mixture for stripes that may not choose roles.
    alike: Mixture,
    due: Due,
}

impl Mixer {
    /// A mixer for stripes of this layout that knows nothing of the links yet.
    pub fn new(layout: &Layout) -> Self {
        let mut mixer = Self {
            loads: Loads::new(layout),
            links: Links::new(layout.roles()),
            mixture: Mixture::default(),
            alike: Mixture::default(),
            due: Due::default(),
        };
        mixer.mix();
        mixer
    }

    /// A new session begins, beside so many clients.
    pub fn restart(&mut self, clients: u16) {
        self.links.restart(clients);
        self.mix();
    }

    /// Looks at the client's own flows, at this time of its clock in microseconds.
    pub fn look(&mut self, at_us: u64, flows: &[Flow]) {
        let seen: Vec<(u64, u64)> = flows.iter().map(Flow::arrived_and_unsent).collect();
        let arrived = seen.iter().map(|(arrived, _)| arrived).sum();
        let is_waiting = seen.iter().map(|(_, unsent)| *unsent > 0);
        self.links.look(at_us, arrived, is_waiting);
    }

    /// Learns what all nodes, and the client at the end, know now.
    pub fn learn(&mut self, now: &[Usage]) {
        if self.links.learn(now) {
            self.mix();
        }
    }

    fn mix(&mut self) {
        let rates = self.links.rates();
        self.mixture = self.loads.best(&rates, true);
        self.alike = self.loads.best(&rates, false);
    }

    /// Chooses for the next stripe, as [`Due::choose`].
    pub fn choose(&mut self, may_turn: bool, sectors: u64) -> (Option<usize>, Vec<Kind>) {
        let mixture = if may_turn { &self.mixture } else { &self.alike };
        self.due.choose(&mixture.shares, sectors)
    }
}

/// Choices of a mixture that are due, each with how much of a stripe.
#[derive(Debug, Default)]
pub struct Due(Vec<(Choice, f64)>);

impl Due {
    /// Chooses for the next stripe, of so many sectors, by these shares: the place of the node that
    /// has role 0 (as [`Choice::turn`]), and the schedule of each sector.
    pub fn choose(&mut self, shares: &[(Choice, f64)], sectors: u64) -> (Option<usize>, Vec<Kind>) {
        let Self(due) = self;
        // What is no longer in the mixture is due no more.
        due.retain(|(choice, _)| shares.iter().any(|(other, _)| other == choice));
        for &(choice, share) in shares {
            match due.iter_mut().find(|(other, _)| *other == choice) {
                Some((_, due)) => *due += share,
                None => due.push((choice, share)),
            }
        }
        let all_due = |turn| {
            let with_turn = due.iter().filter(|(choice, _)| choice.turn == turn);
            with_turn.map(|(_, due)| due).sum::<f64>()
        };
        let turns = due.iter().map(|(choice, _)| choice.turn);
        let Some(turn) = turns.max_by(|&a, &b| all_due(a).total_cmp(&all_due(b))) else {
            return (None, vec![Kind::Coded; sectors as usize]);
        };
        let most = all_due(turn).max(f64::MIN_POSITIVE);
        let mut of_turn: Vec<&mut (Choice, f64)> = due.iter_mut().collect();
        of_turn.retain(|(choice, _)| choice.turn == turn);
        let shares: Vec<f64> = of_turn.iter().map(|(_, due)| due / most).collect();
        let mut taken = vec![0; of_turn.len()];
        let kinds = (1..=sectors).map(|sector| {
            let lacks = |&one: &usize| shares[one] * sector as f64 - f64::from(taken[one]);
            let next = (0..shares.len()).max_by(|a, b| lacks(a).total_cmp(&lacks(b)));
            let next = next.expect("what is due has a choice");
            taken[next] += 1;
            of_turn[next].0.kind
        });
        let kinds = kinds.collect();
        for ((_, due), taken) in of_turn.into_iter().zip(taken) {
            *due -= f64::from(taken) / sectors.max(1) as f64;
        }
        (turn, kinds)
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::FlowUsage;
    use super::*;

    /// The choice for a stripe of one sector.
    fn next(mixer: &mut Mixer, may_turn: bool) -> Choice {
        let (turn, kinds) = mixer.choose(may_turn, 1);
        let [kind] = kinds[..] else {
            panic!("{kinds:?}");
        };
        Choice { kind, turn }
    }

    #[test]
    fn choices_come_as_often_as_the_mixture_says() {
        let mut mixer = Mixer::new(&Layout::new(5).unwrap());
        let coded = Choice {
            kind: Kind::Coded,
            turn: None,
        };
        assert_eq!(next(&mut mixer, true), coded);
        let (a, b) = (
            Choice {
                turn: Some(1),
                ..coded
            },
            Choice {
                turn: Some(3),
                ..coded
            },
        );
        mixer.mixture.shares = vec![(a, 0.7), (b, 0.3)];
        let chosen: Vec<Choice> = (0..100).map(|_| next(&mut mixer, true)).collect();
        assert_eq!(chosen.iter().filter(|&&choice| choice == a).count(), 70);
        assert!(chosen[..4].contains(&b), "they alternate");
        assert_eq!(mixer.choose(false, 1).0, None);
        // Four clients relay some stripes, and forty none.
        let relayed = |clients: u16| {
            let mut mixer = Mixer::new(&Layout::new(5).unwrap());
            mixer.restart(clients);
            let of = (0..100).filter(|_| next(&mut mixer, true).kind != Kind::Direct);
            of.count()
        };
        assert_eq!((relayed(1), relayed(40)), (100, 0));
        assert!((15..35).contains(&relayed(4)), "{}", relayed(4));
    }

    fn turned(turn: usize) -> Choice {
        Choice {
            kind: Kind::Coded,
            turn: Some(turn),
        }
    }

    /// A mixer for five nodes, with this mixture.
    fn mixer(shares: &[(Choice, f64)]) -> Mixer {
        let mut mixer = Mixer::new(&Layout::new(5).unwrap());
        mixer.mixture.shares = shares.to_vec();
        mixer
    }

    #[test]
    fn the_choice_that_is_due_most_comes_next() {
        let (a, b) = (turned(1), turned(3));
        let mut thirds = mixer(&[(a, 2.0 / 3.0), (b, 1.0 / 3.0)]);
        let chosen: Vec<Choice> = (0..9).map(|_| next(&mut thirds, true)).collect();
        assert_eq!(chosen, [a, b, a, a, b, a, a, b, a]);
        // One stripe in five goes by a.
        let mut fifths = mixer(&[(a, 0.2), (b, 0.8)]);
        let chosen: Vec<Choice> = (0..10).map(|_| next(&mut fifths, true)).collect();
        assert_eq!(chosen, [b, b, a, b, b, b, b, a, b, b]);
    }

    /// The stripe gets the roles that are due most, and its sectors take turns with the schedules
    /// that go with these.
    #[test]
    fn schedules_take_turns_within_a_stripe() {
        use Kind::{Coded, Direct};
        let direct = Choice {
            kind: Direct,
            turn: Some(1),
        };
        let shares = [(turned(1), 0.4), (direct, 0.2), (turned(3), 0.4)];
        let mut mixer = mixer(&shares);
        let of_five = [Coded, Direct, Coded, Coded, Direct];
        assert_eq!(mixer.choose(true, 5), (Some(1), of_five.to_vec()));
        assert_eq!(mixer.choose(true, 2), (Some(3), vec![Coded; 2]));
        let mut direct = 0;
        for _ in 0..100 {
            let (turn, kinds) = mixer.choose(true, 9);
            let count = kinds.iter().filter(|&&kind| kind == Direct).count();
            let expected = if turn == Some(1) { 2..=4 } else { 0..=0 };
            assert!(expected.contains(&count), "{turn:?} {kinds:?}");
            direct += count;
        }
        assert!((178..=182).contains(&direct), "{direct} of 900 sectors");
        // What has no sectors goes somehow.
        assert_eq!(mixer.choose(true, 0).1, []);
    }

    #[test]
    fn what_is_due_stays_so_while_it_is_in_the_mixture() {
        let (a, b, c) = (turned(1), turned(2), turned(3));
        let mut mixer = mixer(&[(a, 0.75), (b, 0.25)]);
        assert_eq!(next(&mut mixer, true), a);
        // A fourth of a stripe is due by b already.
        mixer.mixture.shares = vec![(a, 0.625), (b, 0.375)];
        assert_eq!(next(&mut mixer, true), b);
        // What leaves the mixture and comes back begins anew: else b would come first, since a had
        // more than its share.
        mixer.due = Due(vec![(a, -0.5), (b, 0.5)]);
        mixer.mixture.shares = vec![(c, 1.0)];
        assert_eq!(next(&mut mixer, true), c);
        assert_eq!(mixer.due.0, [(c, 0.0)]);
        mixer.mixture.shares = vec![(a, 0.5), (b, 0.25), (c, 0.25)];
        assert_eq!(next(&mut mixer, true), a);
        // Without a mixture stripes are relayed.
        mixer.mixture.shares.clear();
        let coded = Choice {
            turn: None,
            ..turned(0)
        };
        assert_eq!(next(&mut mixer, true), coded);
    }

    /// In the first window what goes to node 0 is behind, in the second all that the client sends,
    /// four times as much.
    #[test]
    fn a_slow_link_that_is_learnt_gives_its_node_the_diagonals() {
        let mut mixer = Mixer::new(&Layout::new(5).unwrap());
        let of_member = Usage {
            clients: 1,
            flows: vec![FlowUsage::default(); 5],
            ..Usage::default()
        };
        let mut usages = vec![of_member; 6];
        let mut sent = 0;
        mixer.links.look(1, 0, [false; 5].into_iter());
        mixer.learn(&usages);
        let mut window = |kilobytes: [u64; 5], behind: [bool; 5]| {
            for usage in &mut usages {
                usage.at_us += 150_000;
            }
            sent += kilobytes.iter().sum::<u64>() * 1000;
            mixer.links.look(usages[5].at_us, sent, behind.into_iter());
            let flows = usages[5].flows.iter_mut();
            for (flow, (kilobytes, is_behind)) in flows.zip(kilobytes.into_iter().zip(behind)) {
                flow.sent += kilobytes * 1000;
                flow.arrived += kilobytes * 1000;
                flow.behind += kilobytes * 1000 * u64::from(is_behind);
            }
            mixer.learn(&usages);
            [true, false].map(|may_turn| mixer.choose(may_turn, 1).0)
        };
        // Without the client's link `direct` is as quick as any.
        let first = [true, false, false, false, false];
        assert_eq!(window([1000, 4000, 4000, 4000, 4000], first), [None, None]);
        // The node at place 1 has role 0, so that at place 0 has role 4.
        assert_eq!(window([800; 5], [true; 5]), [Some(1), None]);
    }
}
