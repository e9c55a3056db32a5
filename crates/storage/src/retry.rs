//! Decides when to retry requests, and reports outages.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::error::StorageError;
use crate::hash::random;
use crate::options::{Event, Notice, RemoteOptions};
use crate::sync::lock;

/// Time for which a server that never answered is tried, silence included: it is probably the wrong
/// one.
const FIRST_CONTACT_TIMEOUT: Duration = Duration::from_secs(15);

/// The least time allowed for a first answer, however short the patience.
const FIRST_ANSWER_MIN: Duration = Duration::from_secs(3);

/// Operations that fail so soon after another gave up such a server are not tried again.
const GIVEN_UP_FOR: Duration = Duration::from_secs(30);

/// Outages up to this length are not reported.
const UNTOLD_OUTAGE_MAX: Duration = Duration::from_secs(5);

const DELAY_MIN: Duration = Duration::from_millis(100);
const DELAY_MAX: Duration = Duration::from_secs(10);

/// Outages of a storage, as seen by all of its requests.
pub struct Outages {
    patience: Duration,
    notice: Notice,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whether any request has succeeded.
    reached: bool,
    /// Start of the current outage.
    since: Option<Instant>,
    told: bool,
    /// When an operation gave up a server that was never reached.
    given_up: Option<Instant>,
}

/// The tries of one operation.
pub struct Attempts<'a> {
    outages: &'a Outages,
    started: Instant,
    first_failure: Option<Instant>,
    failures: u32,
}

impl Outages {
    /// No outage so far.
    pub fn new(options: &RemoteOptions) -> Self {
        Self {
            patience: options.patience,
            notice: options.notice.clone(),
            state: Mutex::default(),
        }
    }

    /// Begins an operation.
    pub fn attempts(&self) -> Attempts<'_> {
        Attempts {
            outages: self,
            started: Instant::now(),
            first_failure: None,
            failures: 0,
        }
    }

    /// Notes that the server has answered.
    pub fn answered(&self) {
        let mut state = lock(&self.state);
        state.reached = true;
        state.since = None;
        if std::mem::take(&mut state.told) {
            drop(state);
            (self.notice)(&Event::note("the storage answers again"));
        }
    }

    /// Notes that it is the right server, though it refuses for now.
    pub fn reached(&self) {
        lock(&self.state).reached = true;
    }

    /// How long an operation is tried, by whether the server was ever reached.
    fn patience_if(&self, reached: bool) -> Duration {
        if reached {
            self.patience
        } else {
            self.patience.min(FIRST_CONTACT_TIMEOUT)
        }
    }

    /// Whether an operation has given up a server that was never reached, not long ago.
    fn has_given_up(&self, now: Instant) -> bool {
        let given_up = lock(&self.state).given_up;
        given_up.is_some_and(|at| now.saturating_duration_since(at) < GIVEN_UP_FOR)
    }

    /// Reports an outage once, after [`UNTOLD_OUTAGE_MAX`]. Returns whether the server was ever
    /// reached.
    fn failed(&self, failure: &StorageError, now: Instant) -> bool {
        let mut state = lock(&self.state);
        let reached = state.reached;
        let since = *state.since.get_or_insert(now);
        if now - since >= UNTOLD_OUTAGE_MAX && !std::mem::replace(&mut state.told, true) {
            drop(state);
            let patience = self.patience_if(reached).as_secs();
            let text = format!("{failure}; trying again for up to {patience} s");
            (self.notice)(&Event::note(text));
        }
        reached
    }
}

impl Attempts<'_> {
    /// Number of tries that failed; the server may have carried out those requests.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Time limit of the next try, if it is to be shorter than usual.
    pub fn time_limit(&self) -> Option<Duration> {
        let reached = lock(&self.outages.state).reached;
        let patience = self.outages.patience;
        let most = if self.outages.has_given_up(Instant::now()) {
            FIRST_ANSWER_MIN
        } else {
            FIRST_CONTACT_TIMEOUT
        };
        (!reached).then(|| patience.clamp(FIRST_ANSWER_MIN, most))
    }

    /// Time to wait before the next try; `None` to give up.
    pub fn failed(&mut self, failure: &StorageError, now: Instant) -> Option<Duration> {
        let first_failure = *self.first_failure.get_or_insert(now);
        let reached = self.outages.failed(failure, now);
        self.failures += 1;
        let since = if reached { first_failure } else { self.started };
        let patience = self.outages.patience_if(reached);
        let left = patience.saturating_sub(now - since);
        if left.is_zero() || !reached && self.outages.has_given_up(now) {
            if !reached {
                lock(&self.outages.state).given_up = Some(now);
            }
            return None;
        }
        let delay = DELAY_MIN.saturating_mul(1 << (self.failures - 1).min(10));
        // A random part keeps clients from retrying all at once when a server comes back.
        let [random] = random::<1>();
        let delay = delay
            .min(DELAY_MAX)
            .mul_f64(0.5 + f64::from(random) / 512.0);
        // The last try comes at the end of the patience, not a delay later.
        Some(delay.min(left.max(DELAY_MIN / 2)))
    }

    /// Time since the first try.
    pub fn tried_for(&self, now: Instant) -> Duration {
        now - self.started
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::error::StorageErrorKind;

    fn outages(told: &Arc<Mutex<Vec<String>>>) -> Outages {
        let told = Arc::clone(told);
        Outages::new(&RemoteOptions {
            patience: Duration::from_secs(300),
            notice: Arc::new(move |event| lock(&told).push(event.text.clone())),
            ..RemoteOptions::default()
        })
    }

    /// Fails until the retries end; returns the time that this took.
    fn persist(outages: &Outages, start: Instant) -> Duration {
        let failure = StorageError::new(StorageErrorKind::Retryable, "connection refused");
        let (mut attempts, mut now) = (outages.attempts(), start);
        while let Some(delay) = attempts.failed(&failure, now) {
            assert!(delay <= DELAY_MAX && delay >= DELAY_MIN / 2, "{delay:?}");
            now += delay;
        }
        now - start
    }

    #[test]
    fn a_server_that_has_answered_gets_all_the_patience() {
        let told = Arc::default();
        let outages = outages(&told);
        let start = Instant::now();
        let took = persist(&outages, start);
        assert!(
            took >= FIRST_CONTACT_TIMEOUT && took < FIRST_CONTACT_TIMEOUT + DELAY_MAX,
            "{took:?}"
        );
        outages.answered();
        let took = persist(&outages, start + took);
        assert!(
            took >= Duration::from_secs(300) && took < Duration::from_secs(311),
            "{took:?}"
        );
    }

    #[test]
    fn a_server_that_refuses_for_now_gets_all_the_patience() {
        let outages = outages(&Arc::default());
        outages.reached();
        let took = persist(&outages, Instant::now());
        assert!(took >= Duration::from_secs(300), "{took:?}");
    }

    #[test]
    fn a_server_that_never_answers_is_waited_for_once() {
        let told = Arc::default();
        let outages = outages(&told);
        let start = Instant::now();
        let took = persist(&outages, start);
        let texts = lock(&told).clone();
        assert!(texts[0].ends_with("for up to 15 s"), "{texts:?}");
        // A command whose first request has failed sends others.
        assert_eq!(persist(&outages, start + took), Duration::ZERO);
    }

    #[test]
    fn little_patience_is_not_stretched_by_the_last_delay() {
        let outages = Outages::new(&RemoteOptions {
            patience: Duration::from_secs(5),
            ..RemoteOptions::default()
        });
        for _ in 0..2 {
            let took = persist(&outages, Instant::now());
            let most = Duration::from_secs(5) + DELAY_MIN;
            assert!(took >= Duration::from_secs(5) && took < most, "{took:?}");
            outages.answered();
        }
    }

    #[test]
    fn an_outage_is_told_once_and_so_is_its_end() {
        let told = Arc::default();
        let outages = outages(&told);
        let start = Instant::now();
        persist(&outages, start);
        persist(&outages, start + Duration::from_secs(60));
        outages.answered();
        outages.answered();
        let told = lock(&told);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(
            told[0].contains("connection refused; trying again"),
            "{told:?}"
        );
        assert!(told[1].contains("answers again"), "{told:?}");
    }

    #[test]
    fn a_short_outage_is_not_told() {
        let told = Arc::default();
        let outages = outages(&told);
        let failure = StorageError::new(StorageErrorKind::Retryable, "reset");
        let (mut attempts, mut now) = (outages.attempts(), Instant::now());
        for _ in 0..3 {
            now += attempts.failed(&failure, now).unwrap();
        }
        outages.answered();
        assert!(lock(&told).is_empty());
    }
}
