//! Rates of work in this process, by CPU time.

use rustix::time::{ClockId, clock_gettime};

use crate::peak::clock_hz;

/// One timing of some work.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Bytes a second of CPU time.
    pub bytes_per_s: f64,
    /// Cycles a second of the core meanwhile, where that can be known.
    pub clock_hz: Option<f64>,
}

impl Rate {
    /// Times `work`, which does `bytes`, again and again, for at least `seconds` of CPU time; once
    /// more before that.
    pub fn of(bytes: usize, seconds: f64, mut work: impl FnMut()) -> Rate {
        work();
        let clock_before = clock_hz();
        let start = thread_cpu_seconds();
        let mut done = 0;
        let bytes_per_s = loop {
            work();
            done += bytes;
            let elapsed = thread_cpu_seconds() - start;
            if elapsed >= seconds {
                break done as f64 / elapsed;
            }
        };
        let clock_hz = clock_before
            .zip(clock_hz())
            .map(|(before, after)| (before + after) / 2.0);
        Rate {
            bytes_per_s,
            clock_hz,
        }
    }

    /// Bytes a cycle.
    pub fn bytes_per_cycle(&self) -> Option<f64> {
        Some(self.bytes_per_s / self.clock_hz?)
    }
}

/// CPU time of this thread so far.
pub fn thread_cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
