//! Whether clients are asked to come. A model does not know what else the machine has to do, so both ways are tried now and then,
//! and what gets more done goes on: for each situation by itself, since what is good in one is not in another.

use std::collections::HashMap;

/// What clients are at: what decides whether it is good to ask them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Situation {
    /// How many do something.
    clients: usize,
    /// The kind of most of their messages: the same number for what takes about as long.
    kind: u32,
}

impl Situation {
    /// Of clients, each with a kind.
    pub fn of(kinds: &mut [u32]) -> Self {
        kinds.sort_unstable();
        let most = kinds.chunk_by(|a, b| a == b).max_by_key(|same| same.len());
        Self {
            clients: kinds.len(),
            kind: most.map_or(0, |same| same[0]),
        }
    }
}

/// The trials of all situations.
#[derive(Default)]
pub struct Trials {
    trials: HashMap<Situation, Trial>,
    now: Situation,
}

impl Trials {
    /// Situations to remember: clients say themselves what they are at, and may say anything.
    const KNOWN: usize = 1024;

    /// At the end of a tick, in which so much was done a second.
    pub fn tick(&mut self, situation: Situation, rate: f64) {
        if situation != self.now {
            // This tick has something of both.
            self.now = situation;
            if self.trials.len() >= Self::KNOWN {
                self.trials.clear();
            }
            return;
        }
        if situation.clients > 0 {
            self.trials.entry(situation).or_default().tick(rate);
        }
    }

    /// Whether clients are asked now.
    pub fn asks(&self) -> bool {
        self.trials.get(&self.now).is_some_and(|trial| trial.asks)
    }
}

/// The trial of a situation.
#[derive(Default)]
struct Trial {
    asks: bool,
    /// Ticks since it was the other way.
    ticks: u32,
    /// What was done in those that count.
    sum: f64,
    /// What gets done each way, alone first.
    rates: [f64; 2],
    /// Ticks of the next time alone, if that is better, and of the next with asking, if that is.
    next: [u32; 2],
}

impl Trial {
    /// Ticks in which a way is tried, the first of which does not count: it has something of both.
    const TRIED: u32 = 5;

    /// Ticks of the better way before the other is tried again, at first: twice as many each time it was better again.
    const AGAIN: u32 = 32;

    /// And at most, alone and with asking. Who is asked waits for others, so that is soon looked at again.
    const AGAIN_MAX: [u32; 2] = [4096, 256];

    /// How much more has to be done: for less, nobody should wait for others.
    const GAIN: f64 = 1.1;

    fn tick(&mut self, rate: f64) {
        self.ticks += 1;
        let way = usize::from(self.asks);
        if (2..=Self::TRIED).contains(&self.ticks) {
            self.sum += rate;
        }
        if self.ticks == Self::TRIED {
            let rate = self.sum / f64::from(Self::TRIED - 1);
            // A tick is short, and whatever else happens in it counts too.
            self.rates[way] = match self.rates[way] {
                0.0 => rate,
                before => (before + rate) / 2.0,
            };
            let good = self.rates[1] > Self::GAIN * self.rates[0];
            if self.asks {
                let better = usize::from(good);
                let again = (2 * self.next[better]).clamp(Self::AGAIN, Self::AGAIN_MAX[better]);
                self.next = [0; 2];
                self.next[better] = again;
            }
        }
        let ticks = self.next[way].max(Self::TRIED);
        if self.ticks >= ticks {
            (self.asks, self.ticks, self.sum) = (!self.asks, 0, 0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a trial decides in so many ticks, if so much is done alone and with asking: the part of the ticks with asking.
    fn asked(alone: f64, asked: f64, ticks: u32) -> f64 {
        let mut trial = Trial::default();
        let mut count = 0;
        for _ in 0..ticks {
            count += u32::from(trial.asks);
            trial.tick(if trial.asks { asked } else { alone });
        }
        f64::from(count) / f64::from(ticks)
    }

    #[test]
    fn what_gets_more_done_goes_on() {
        assert!(asked(1.0, 2.0, 10_000) > 0.97);
        assert!(asked(1.0, 1.05, 10_000) < 0.01);
        assert!(asked(1.0, 0.1, 10_000) < 0.01);
        assert!(asked(0.0, 0.0, 10_000) < 0.01);
    }

    #[test]
    fn what_is_good_in_one_situation_is_not_done_in_another() {
        let mut trials = Trials::default();
        let (good, bad) = (Situation::of(&mut [7, 8, 8]), Situation::of(&mut [7, 7, 8]));
        assert_ne!(good, bad);
        let mut count = [0; 2];
        for _ in 0..100 {
            for (number, (situation, gain)) in [(good, 2.0), (bad, 0.5)].into_iter().enumerate() {
                for _ in 0..30 {
                    let asks = trials.asks();
                    count[number] += u32::from(asks);
                    trials.tick(situation, if asks { gain } else { 1.0 });
                }
            }
        }
        assert!(count[0] > 2800 && count[1] < 200, "{count:?}");
    }
}
