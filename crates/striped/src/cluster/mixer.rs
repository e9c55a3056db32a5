//! Chooses how each stripe goes to the nodes, so that all stripes together are the quickest mixture
//! for what the links carry.

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
    /// Choices that are due, each with how much of a stripe.
    due: Vec<(Choice, f64)>,
}

impl Mixer {
    /// A mixer for stripes of this layout that knows nothing of the links yet.
    pub fn new(layout: &Layout) -> Self {
        let mut mixer = Self {
            loads: Loads::new(layout),
            links: Links::new(layout.roles()),
            mixture: Mixture::default(),
            alike: Mixture::default(),
            due: Vec::new(),
        };
        mixer.mix();
        mixer
    }

    /// A new session begins, beside so many clients.
    pub fn restart(&mut self, clients: u16) {
        self.links.restart(clients);
        self.mix();
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

    /// Chooses for the next stripe.
    pub fn choose(&mut self, may_turn: bool) -> Choice {
        let mixture = if may_turn { &self.mixture } else { &self.alike };
        // What is no longer in the mixture is due no more.
        self.due
            .retain(|(choice, _)| mixture.shares.iter().any(|(other, _)| other == choice));
        for &(choice, share) in &mixture.shares {
            match self.due.iter_mut().find(|(other, _)| *other == choice) {
                Some((_, due)) => *due += share,
                None => self.due.push((choice, share)),
            }
        }
        let most = self.due.iter_mut().max_by(|(_, a), (_, b)| a.total_cmp(b));
        match most {
            Some((choice, due)) => {
                *due -= 1.0;
                *choice
            }
            None => Choice {
                kind: Kind::Coded,
                turn: None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_come_as_often_as_the_mixture_says() {
        let mut mixer = Mixer::new(&Layout::new(5).unwrap());
        let coded = Choice {
            kind: Kind::Coded,
            turn: None,
        };
        assert_eq!(mixer.choose(true), coded);
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
        let chosen: Vec<Choice> = (0..100).map(|_| mixer.choose(true)).collect();
        assert_eq!(chosen.iter().filter(|&&choice| choice == a).count(), 70);
        assert!(chosen[..4].contains(&b), "they alternate");
        assert_eq!(mixer.choose(false).turn, None);
        // Four clients relay some stripes, and forty none.
        let relayed = |clients: u16| {
            let mut mixer = Mixer::new(&Layout::new(5).unwrap());
            mixer.restart(clients);
            let of = (0..100).filter(|_| mixer.choose(true).kind != Kind::Direct);
            of.count()
        };
        assert_eq!((relayed(1), relayed(40)), (100, 0));
        assert!((15..35).contains(&relayed(4)), "{}", relayed(4));
    }
}
