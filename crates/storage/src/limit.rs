//! Limits the rate of transfers.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::sync::lock;

/// Idle time that may be made up for by a burst, at most.
const BURST_DURATION_MAX: Duration = Duration::from_millis(250);

/// A token bucket shared by all transfers in one direction.
pub struct Limiter {
    bytes_per_s: f64,
    /// Time at which all bytes admitted so far have gone, at the allowed rate.
    busy_until: Mutex<Option<Instant>>,
}

impl Limiter {
    /// At most `kib_per_s` KiB a second; 0 counts as 1.
    pub fn new(kib_per_s: u64) -> Self {
        Self {
            bytes_per_s: kib_per_s.max(1) as f64 * 1024.0,
            busy_until: Mutex::default(),
        }
    }

    /// Waits until `bytes` more bytes may be sent.
    pub async fn wait(&self, bytes: usize) {
        let now = Instant::now();
        tokio::time::sleep(self.delay(bytes, now)).await;
    }

    /// As [`Limiter::wait`], for a thread.
    pub fn pause(&self, bytes: usize) {
        std::thread::sleep(self.delay(bytes, Instant::now()));
    }

    /// Time that `bytes` more bytes have to wait at `now`.
    fn delay(&self, bytes: usize, now: Instant) -> Duration {
        let mut busy_until = lock(&self.busy_until);
        let idle_from = now.checked_sub(BURST_DURATION_MAX).unwrap_or(now);
        let start = busy_until.map_or(idle_from, |until| until.max(idle_from));
        let end = start + Duration::from_secs_f64(bytes as f64 / self.bytes_per_s);
        *busy_until = Some(end);
        end.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1024;

    #[test]
    fn the_rate_is_kept_over_time() {
        let limiter = Limiter::new(100);
        let start = Instant::now();
        let mut now = start;
        // 1000 KiB, each piece sent as soon as allowed.
        for _ in 0..1000 {
            now += limiter.delay(KIB, now);
        }
        let took = now - start;
        assert!(took > Duration::from_millis(9700), "{took:?}");
        assert!(took <= Duration::from_secs(10), "{took:?}");
    }

    #[test]
    fn several_at_once_share_the_rate() {
        let limiter = Limiter::new(100);
        let start = Instant::now();
        let delays: Vec<_> = (0..5).map(|_| limiter.delay(100 * KIB, start)).collect();
        let last = delays.iter().max().unwrap();
        assert_eq!(*last, Duration::from_millis(4750), "{delays:?}");
    }

    #[test]
    fn a_long_silence_is_not_made_up_for() {
        let limiter = Limiter::new(100);
        let start = Instant::now();
        limiter.delay(KIB, start);
        let later = start + Duration::from_secs(3600);
        let mut now = later;
        for _ in 0..100 {
            now += limiter.delay(KIB, now);
        }
        let took = now - later;
        assert!(took >= Duration::from_millis(740), "{took:?}");
    }
}
