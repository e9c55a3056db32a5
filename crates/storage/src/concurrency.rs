//! The number of requests in flight: it grows with the latency, and falls when the server refuses.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::sync::lock;

/// Requests at a time to a server next door.
const NEAR_REQUESTS: usize = 5;

/// Requests at a time, however far away the server is.
const REQUESTS_MAX: usize = 64;

/// Latency for which one request more is in flight. Requests of a MiB then move some 200 MB/s, at
/// any latency up to the greatest number of requests.
const LATENCY_PER_REQUEST: Duration = Duration::from_millis(5);

/// Time after a refusal in which further ones count as the same.
const REFUSAL_PERIOD: Duration = Duration::from_secs(1);

/// Slots for requests.
pub struct Concurrency {
    /// Chosen by the user: neither latency nor refusals change it.
    fixed: Option<usize>,
    slots: Semaphore,
    state: Mutex<State>,
}

struct State {
    /// Slots that exist: those of running requests included.
    slots: usize,
    /// The least time in which a request was answered.
    latency: Option<Duration>,
    /// Requests at a time that the server bears, once it has refused some.
    bearable: Option<usize>,
    refused_at: Option<Instant>,
    /// Answers since `bearable` has last changed.
    answers: usize,
}

/// A request's slot, to be kept while it runs.
pub struct Slot<'a>(#[allow(dead_code, reason = "held for its destructor")] SemaphorePermit<'a>);

impl Concurrency {
    /// So many requests at a time; `None` for a number that follows the latency.
    pub fn new(fixed: Option<usize>) -> Self {
        let fixed = fixed.map(|fixed| fixed.max(1));
        let slots = fixed.unwrap_or(NEAR_REQUESTS);
        Self {
            fixed,
            slots: Semaphore::new(slots),
            state: Mutex::new(State {
                slots,
                latency: None,
                bearable: None,
                refused_at: None,
                answers: 0,
            }),
        }
    }

    /// Number of requests at a time.
    pub fn limit(&self) -> usize {
        self.fixed.unwrap_or_else(|| lock(&self.state).limit())
    }

    /// Waits for a slot.
    pub async fn enter(&self) -> Slot<'_> {
        loop {
            let slot = self.slots.acquire().await.expect("it is never closed");
            let mut state = lock(&self.state);
            if self.fixed.is_some() || state.slots <= state.limit() {
                return Slot(slot);
            }
            // One slot too many since the server has refused requests.
            state.slots -= 1;
            drop(state);
            slot.forget();
        }
    }

    /// Notes that a request was answered after `time`.
    pub fn answered(&self, time: Duration) {
        if self.fixed.is_some() {
            return;
        }
        let mut state = lock(&self.state);
        state.latency = Some(state.latency.map_or(time, |least| least.min(time)));
        if let Some(bearable) = state.bearable {
            state.answers += 1;
            if state.answers >= bearable {
                state.answers = 0;
                state.bearable = Some(bearable + 1).filter(|&more| more < REQUESTS_MAX);
            }
        }
        let limit = state.limit();
        if let Some(more) = limit.checked_sub(state.slots) {
            state.slots = limit;
            self.slots.add_permits(more);
        }
    }

    /// Notes that a request was refused, broken off or not answered: half as many requests then run
    /// at a time, and more again as they are answered.
    pub fn refused(&self, now: Instant) {
        let mut state = lock(&self.state);
        let is_same = |at: Instant| now.saturating_duration_since(at) < REFUSAL_PERIOD;
        if self.fixed.is_some() || state.refused_at.is_some_and(is_same) {
            return;
        }
        state.refused_at = Some(now);
        state.answers = 0;
        state.bearable = Some((state.limit() / 2).max(1));
    }
}

impl State {
    fn limit(&self) -> usize {
        let latency = self.latency.unwrap_or_default().as_nanos();
        let more = (latency / LATENCY_PER_REQUEST.as_nanos()) as usize;
        let wanted = NEAR_REQUESTS.saturating_add(more).min(REQUESTS_MAX);
        self.bearable
            .map_or(wanted, |bearable| bearable.min(wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_number_grows_with_the_latency_and_the_least_one_counts() {
        for (latency, requests) in [(0, 5), (1, 5), (20, 9), (100, 25), (300, 64), (9000, 64)] {
            let concurrency = Concurrency::new(None);
            assert_eq!(concurrency.limit(), 5);
            concurrency.answered(millis(latency));
            assert_eq!(concurrency.limit(), requests, "{latency} ms");
            concurrency.answered(millis(latency + 10_000));
            assert_eq!(concurrency.limit(), requests, "{latency} ms");
        }
    }

    #[test]
    fn refusals_halve_the_number_once_a_period_and_answers_raise_it_again() {
        let concurrency = Concurrency::new(None);
        concurrency.answered(millis(100));
        let start = Instant::now();
        for _ in 0..20 {
            concurrency.refused(start);
        }
        assert_eq!(concurrency.limit(), 12);
        for second in 1..10 {
            concurrency.refused(start + second * REFUSAL_PERIOD);
        }
        assert_eq!(concurrency.limit(), 1);
        // One more for each round of answers.
        for (answers, requests) in [(1, 2), (2, 3), (3, 4)] {
            (0..answers).for_each(|_| concurrency.answered(millis(100)));
            assert_eq!(concurrency.limit(), requests);
        }
        (0..1000).for_each(|_| concurrency.answered(millis(100)));
        assert_eq!(concurrency.limit(), 25);
    }

    #[test]
    fn no_more_than_the_limit_run_at_a_time() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(async {
            let concurrency = Concurrency::new(None);
            concurrency.answered(millis(100));
            let mut slots = Vec::new();
            for _ in 0..25 {
                slots.push(concurrency.enter().await);
            }
            assert_eq!(concurrency.slots.available_permits(), 0);
            // Running requests go on; no other begins before enough of them have ended.
            concurrency.refused(Instant::now());
            slots.truncate(13);
            let may_enter = || concurrency.slots.available_permits() > 0;
            assert!(may_enter());
            let entered = tokio::select! {
                biased;
                _ = concurrency.enter() => true,
                () = std::future::ready(()) => false,
            };
            assert!(!entered && !may_enter());
            slots.truncate(11);
            drop(concurrency.enter().await);
        });
    }

    #[test]
    fn a_chosen_number_stays() {
        let concurrency = Concurrency::new(Some(3));
        concurrency.answered(millis(500));
        concurrency.refused(Instant::now());
        assert_eq!(concurrency.limit(), 3);
        assert_eq!(Concurrency::new(Some(0)).limit(), 1);
    }
}
