//! Measures the speed of targets, so that reads can leave out slow ones.

use std::time::{Duration, Instant};

/// Bytes of a read that counts: shorter ones show latency rather than throughput.
const READ_LEN_MIN: usize = 16 << 10;

/// Reads after which an average says something.
const READS_MIN: u32 = 3;

/// Reads over which the pace is averaged.
const AVERAGED_READS: f64 = 4.0;

/// A target that takes this many times as long as the median is slow,
const SLOW_TIME_RATIO: f64 = 4.0;

/// unless it takes less than this for a MiB.
const SLOW_TIME_MIN: Duration = Duration::from_millis(30);

/// A slow target is tried again after this long.
const TRIAL_PAUSE: Duration = Duration::from_secs(5);

/// The reads of one target.
#[derive(Default)]
pub struct Pace {
    reads: u32,
    /// Seconds a byte, lately.
    seconds_per_byte: f64,
    /// Time of the last read.
    last: Option<Instant>,
}

impl Pace {
    /// Records a read of `bytes` bytes that took this long.
    pub fn learn(&mut self, bytes: usize, took: Duration) {
        if bytes < READ_LEN_MIN {
            return;
        }
        let pace = took.as_secs_f64() / bytes as f64;
        let weight = 1.0 / f64::from(self.reads + 1).min(AVERAGED_READS);
        self.seconds_per_byte += (pace - self.seconds_per_byte) * weight;
        self.reads += 1;
        self.last = Some(Instant::now());
    }

    /// Records that a read of `bytes` bytes has not ended after this long: one says enough.
    pub fn learn_at_least(&mut self, bytes: usize, took: Duration) {
        let pace = took.as_secs_f64() / bytes as f64;
        self.seconds_per_byte = self.seconds_per_byte.max(pace);
        self.reads = self.reads.max(READS_MIN);
        self.last = Some(Instant::now());
    }

    /// Seconds a byte; `None` if unknown or outdated, so that the target is due for a trial.
    fn known(&self) -> Option<f64> {
        let is_fresh = self.last.is_some_and(|last| last.elapsed() < TRIAL_PAUSE);
        (self.reads >= READS_MIN && is_fresh).then_some(self.seconds_per_byte)
    }

    /// Marks the next read as the trial: other reads leave the target out until the trial is
    /// recorded.
    pub fn begin_trial(&mut self) {
        if self.reads >= READS_MIN {
            self.last = Some(Instant::now());
        }
    }
}

/// Places of the slow targets among these, the slowest first; targets due for a new trial are left
/// out.
pub fn slow(paces: &[&Pace]) -> Vec<usize> {
    let mut all: Vec<f64> = paces
        .iter()
        .filter(|pace| pace.reads >= READS_MIN)
        .map(|pace| pace.seconds_per_byte)
        .collect();
    all.sort_by(f64::total_cmp);
    let Some(&median) = all.get(all.len() / 2) else {
        return Vec::new();
    };
    let least = (median * SLOW_TIME_RATIO).max(SLOW_TIME_MIN.as_secs_f64() / f64::from(1 << 20));
    let known = |place: &usize| paces[*place].known().filter(|&pace| pace > least);
    let mut slow: Vec<usize> = (0..paces.len())
        .filter(|place| known(place).is_some())
        .collect();
    slow.sort_by(|a, b| {
        paces[*b]
            .seconds_per_byte
            .total_cmp(&paces[*a].seconds_per_byte)
    });
    slow
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(mib_per_s: f64) -> Pace {
        let mut pace = Pace::default();
        let took = Duration::from_secs_f64(1.0 / mib_per_s);
        (0..5).for_each(|_| pace.learn(1 << 20, took));
        pace
    }

    #[test]
    fn one_that_is_much_slower_than_most_is_slow() {
        let paces = [100.0, 90.0, 1.0, 110.0, 5.0].map(pace);
        assert_eq!(slow(&paces.each_ref()), [2, 4]);
        // Not much slower than others, or all equal, or fast enough in any case.
        for equal in [
            [100.0, 90.0, 40.0],
            [1.0, 1.1, 0.9],
            [4000.0, 5000.0, 200.0],
        ] {
            assert_eq!(slow(&equal.map(pace).each_ref()), [0; 0]);
        }
        // Nothing is known yet.
        assert_eq!(slow(&[&Pace::default(), &Pace::default()]), [0; 0]);
    }

    #[test]
    fn a_slow_one_is_tried_again_after_a_while() {
        let mut paces = [100.0, 100.0, 1.0].map(pace);
        paces[2].last = Instant::now().checked_sub(TRIAL_PAUSE);
        assert_eq!(slow(&paces.each_ref()), [0; 0]);
        paces[2].begin_trial();
        assert_eq!(slow(&paces.each_ref()), [2]);
        // Reads that were given up show a slow one at once.
        let mut paces = [pace(100.0), pace(100.0), Pace::default()];
        paces[2].learn_at_least(1 << 20, Duration::from_secs(1));
        assert_eq!(slow(&paces.each_ref()), [2]);
        // The target is fast again.
        (0..30).for_each(|_| paces[2].learn(1 << 20, Duration::from_millis(10)));
        assert_eq!(slow(&paces.each_ref()), [0; 0]);
    }
}
