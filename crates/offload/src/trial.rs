//! Decides whether clients are asked to use the service. A model cannot know the machine's other
//! load, so both ways are tried now and then, and the one with more work done stays: separately for
//! each situation, since the better way differs.

use std::collections::HashMap;

/// The load of clients, on which the better way depends. Coarse, so that it stays the same for
/// several ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Situation {
    /// Number of clients at work, rounded up to a power of two.
    clients: usize,
    /// The kind of message of more than half of the clients, or [`MIXED`].
    kind: u32,
}

/// The kind of a situation in which no kind of message has a majority.
const MIXED: u32 = u32::MAX;

impl Situation {
    /// The situation of clients whose messages have these kinds, one a client. Sorts `kinds`.
    pub fn of(kinds: &mut [u32]) -> Self {
        kinds.sort_unstable();
        let mut same = kinds.chunk_by(|a, b| a == b);
        let majority = same.find(|same| 2 * same.len() > kinds.len());
        Self {
            clients: kinds.len().next_power_of_two() * usize::from(!kinds.is_empty()),
            kind: majority.map_or(MIXED, |same| same[0]),
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
    /// The most situations remembered: clients report them, and may report anything.
    const SITUATIONS_MAX: usize = 1024;

    /// Learns from a finished tick. `rate` is the work done in it a second, in any unit.
    pub fn tick(&mut self, situation: Situation, rate: f64) {
        if situation != self.now {
            // This tick mixes two situations.
            self.now = situation;
            if self.trials.len() >= Self::SITUATIONS_MAX {
                self.trials.clear();
            }
            return;
        }
        if situation.clients > 0 {
            self.trials.entry(situation).or_default().tick(rate);
        }
    }

    /// Whether clients are to be asked now.
    pub fn asks(&self) -> bool {
        self.trials.get(&self.now).is_some_and(|trial| trial.asks)
    }
}

/// The trial of a situation.
#[derive(Default)]
struct Trial {
    asks: bool,
    /// Ticks since the last change of way.
    ticks: u32,
    /// Sum of the rates of the ticks that count.
    sum: f64,
    /// Rate of each way: alone, and with asking.
    rates: [f64; 2],
    /// Ticks of the next period of the better way, alone or with asking; 0 for the other.
    next: [u32; 2],
}

impl Trial {
    /// Ticks of a trial. The first one does not count, since it mixes both ways.
    const TICKS_TRIED: u32 = 5;

    /// Ticks of the better way before the first new trial of the other; twice as many after each
    /// trial that it wins.
    const TICKS_KEPT_MIN: u32 = 32;

    /// The most such ticks, alone and with asking. Asked clients wait for one another, so asking is
    /// put on trial again sooner.
    const TICKS_KEPT_MAX: [u32; 2] = [4096, 256];

    /// Ratio of the rates above which asking pays: a smaller gain is not worth the clients'
    /// waiting.
    const GAIN_MIN: f64 = 1.1;

    fn tick(&mut self, rate: f64) {
        self.ticks += 1;
        let way = usize::from(self.asks);
        if (2..=Self::TICKS_TRIED).contains(&self.ticks) {
            self.sum += rate;
        }
        if self.ticks == Self::TICKS_TRIED {
            let rate = self.sum / f64::from(Self::TICKS_TRIED - 1);
            // Averages two trials: a tick is short and disturbed by other programs.
            self.rates[way] = match self.rates[way] {
                0.0 => rate,
                before => (before + rate) / 2.0,
            };
            let good = self.rates[1] > Self::GAIN_MIN * self.rates[0];
            if self.asks {
                let better = usize::from(good);
                let again = (2 * self.next[better])
                    .clamp(Self::TICKS_KEPT_MIN, Self::TICKS_KEPT_MAX[better]);
                self.next = [0; 2];
                self.next[better] = again;
            }
        }
        let ticks = self.next[way].max(Self::TICKS_TRIED);
        if self.ticks >= ticks {
            (self.asks, self.ticks, self.sum) = (!self.asks, 0, 0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a trial decides in so many ticks, if so much is done alone and with asking: the part of
    /// the ticks with asking.
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
    fn mixed_work_is_tried_too() {
        let mut trials = Trials::default();
        let (mut seed, mut asked) = (1_u32, 0);
        for _ in 0..2000 {
            let mut next = |below| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (seed >> 8) % below
            };
            // Eight clients, one of which now and then has nothing to do.
            let clients = 8 - next(2);
            let mut kinds: Vec<u32> = (0..clients).map(|_| next(20)).collect();
            let asks = trials.asks();
            asked += u32::from(asks);
            trials.tick(Situation::of(&mut kinds), if asks { 2.0 } else { 1.0 });
        }
        assert!(asked > 1600, "{asked} of 2000 ticks");
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
