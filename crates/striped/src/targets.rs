//! The targets of a set: keeps track of failing and returning ones, and calls several at once.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tabane_storage::sync::lock;
use tabane_storage::{
    Event, EventKind, Id, Name, Notice, Result, Storage, StorageError, StorageErrorKind,
};

use crate::pace::{self, Pace};
use crate::place::is_node_url;
use crate::set::Identity;

/// Time before a node is asked again after its first failure.
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(500);

/// The longest such pause, for a node that fails again and again; within [`RESTART_TIME`] it is
/// asked more than once.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(2);

/// Pause between two looks whether a node is due to be asked again, or is back.
const RETRY_TICK: Duration = Duration::from_millis(250);

/// A node that has been in use for this long begins with the shortest pause again.
const STEADY_TIME: Duration = Duration::from_secs(60);

/// A read does without a target that takes so many times as long as the others,
const SLOWER_THAN_OTHERS: u32 = 3;

/// but at least this long.
const SLOWER_TIME_MIN: Duration = Duration::from_millis(200);

/// Time for which a write waits for a node that has just failed: a restart is to take less.
pub const RESTART_TIME: Duration = Duration::from_secs(4);

/// A target of the set.
pub struct Target {
    /// ID of the target.
    pub id: Id,
    /// The target's URL, of a missing target the last known one.
    pub url: String,
    /// `None` if none of the given places holds the target.
    storage: Option<Arc<dyn Storage>>,
    state: Mutex<State>,
    pace: Mutex<Pace>,
}

/// State of a target.
#[derive(Default)]
struct State {
    /// The failure that put the target out of use, if any.
    down: Option<Down>,
    /// Pause after the last failure, and when the target was in use again.
    last: Option<(Duration, Instant)>,
    /// Whether a person was told that the target refuses writes.
    refuses: bool,
}

/// A target that is not used.
struct Down {
    why: String,
    since: Instant,
    retry_at: Instant,
    /// Time until the target is asked again.
    pause: Duration,
    /// The target answers but cannot be used: it is not asked again.
    is_final: bool,
}

impl Down {
    fn new(why: String, pause: Duration) -> Self {
        let since = Instant::now();
        Self {
            why,
            since,
            retry_at: since + pause,
            pause,
            is_final: false,
        }
    }
}

impl Target {
    /// A target that answers.
    pub fn new(id: Id, url: String, storage: Arc<dyn Storage>) -> Self {
        Self {
            id,
            url,
            storage: Some(storage),
            state: Mutex::default(),
            pace: Mutex::default(),
        }
    }

    /// A target that does not answer. A node with a known URL may come back.
    pub fn absent(id: Id, url: String, storage: Option<Arc<dyn Storage>>, why: String) -> Self {
        Self {
            id,
            url,
            storage,
            state: Mutex::new(State {
                down: Some(Down::new(why, RETRY_PAUSE_MIN)),
                last: None,
                refuses: false,
            }),
            pace: Mutex::default(),
        }
    }

    /// Reads these ranges of an object from the target's storage, and learns how fast it is.
    fn read(
        &self,
        storage: &dyn Storage,
        name: Name,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Vec<u8>>> {
        let read = |range: &Range<u64>| {
            let begun = Instant::now();
            let bytes = storage.get(name, Some(range.clone()))?;
            lock(&self.pace).learn(bytes.len(), begun.elapsed());
            Ok(bytes)
        };
        ranges.iter().map(read).collect()
    }

    /// Why the target is out of use; `None` if it is in use.
    pub fn why_down(&self) -> Option<String> {
        let state = lock(&self.state);
        state.down.as_ref().map(|down| down.why.clone())
    }

    /// Whether a failed target is asked again. Only nodes are: a disk that was mounted again is
    /// found by the next command, and the storage of a bucket retries by itself.
    fn can_return(&self) -> bool {
        self.storage.is_some() && is_node_url(&self.url)
    }

    /// Since when a target that may come back has been away.
    fn away_since(&self) -> Option<Instant> {
        let state = lock(&self.state);
        let down = state.down.as_ref();
        let down = down.filter(|down| self.can_return() && !down.is_final);
        down.map(|down| down.since)
    }

    /// Puts the target out of use, for good if `is_final`; returns whether it was in use.
    fn give_up(&self, why: &str, is_final: bool) -> bool {
        let mut state = lock(&self.state);
        if let Some(down) = &mut state.down {
            why.clone_into(&mut down.why);
            down.is_final |= is_final;
            return false;
        }
        let pause = match state.last {
            Some((pause, back)) if back.elapsed() < STEADY_TIME => (pause * 2).min(RETRY_PAUSE_MAX),
            _ => RETRY_PAUSE_MIN,
        };
        state.down = Some(Down {
            is_final,
            ..Down::new(why.to_owned(), pause)
        });
        true
    }

    /// Asks a node whose pause is over. Uses it again if it answers as the same target, and returns
    /// whether it does.
    fn ask_again(&self) -> bool {
        let is_due = |down: &Down| Instant::now() >= down.retry_at;
        let is_due = lock(&self.state).down.as_ref().is_some_and(is_due);
        let Some(storage) = self.storage.as_deref().filter(|_| is_due) else {
            return false;
        };
        let answer = storage.get(Name::TARGET, None);
        let identity = answer.ok().and_then(|bytes| Identity::parse(&bytes).ok());
        let is_back = identity.is_some_and(|identity| identity.target == self.id);
        let mut state = lock(&self.state);
        let State { down, last, .. } = &mut *state;
        let Some(away) = down.as_mut().filter(|down| !down.is_final) else {
            return false;
        };
        if is_back {
            *last = Some((away.pause, Instant::now()));
            *down = None;
        } else {
            away.pause = (away.pause * 2).min(RETRY_PAUSE_MAX);
            away.retry_at = Instant::now() + away.pause;
        }
        is_back
    }
}

/// All targets of the set. They are numbered in the order of the description.
pub struct Targets {
    shared: Arc<Shared>,
    /// Time for which operations wait for nodes when too many are away.
    patience: Duration,
}

/// State shared with the threads that ask nodes again.
struct Shared {
    all: Vec<Target>,
    notice: Notice,
    /// Whether a person was told that operations wait.
    waits: Mutex<bool>,
}

impl Targets {
    /// The targets of a set; `notice` receives their failures.
    pub fn new(all: Vec<Target>, notice: Notice) -> Self {
        let shared = Arc::new(Shared {
            all,
            notice,
            waits: Mutex::default(),
        });
        let targets = Self {
            shared,
            patience: Duration::ZERO,
        };
        let all = targets.all().iter().enumerate();
        all.filter(|(_, target)| target.away_since().is_some())
            .for_each(|(number, _)| targets.ask_again(number));
        targets
    }

    /// Lets operations wait for this long when too many nodes are away.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// All, in use or not.
    pub fn all(&self) -> &[Target] {
        &self.shared.all
    }

    /// The number of the target with this ID.
    pub fn position(&self, id: Id) -> Option<usize> {
        self.all().iter().position(|target| target.id == id)
    }

    /// The storage of a target, if it is in use.
    pub fn storage(&self, number: usize) -> Option<&dyn Storage> {
        let target = &self.all()[number];
        match lock(&target.state).down {
            None => target.storage.as_deref(),
            Some(_) => None,
        }
    }

    /// Whether a target is in use.
    pub fn is_up(&self, number: usize) -> bool {
        self.storage(number).is_some()
    }

    /// Those of these targets that are in use and much slower than most, the slowest first. A
    /// target due for a new trial is left out for the first caller, which so tries it.
    pub fn slow(&self, numbers: &[usize]) -> Vec<usize> {
        let up = numbers.iter().copied().filter(|&number| self.is_up(number));
        let mut up: Vec<usize> = up.collect();
        // Ascending order of locks prevents deadlock.
        up.sort_unstable();
        let mut paces: Vec<_> = up
            .iter()
            .map(|&number| lock(&self.all()[number].pace))
            .collect();
        let slow = pace::slow(&paces.iter().map(|pace| &**pace).collect::<Vec<_>>());
        for (place, pace) in paces.iter_mut().enumerate() {
            if !slow.contains(&place) {
                pace.begin_trial();
            }
        }
        slow.into_iter().map(|place| up[place]).collect()
    }

    /// The targets in use.
    pub fn up(&self) -> Vec<usize> {
        (0..self.all().len())
            .filter(|&number| self.is_up(number))
            .collect()
    }

    /// Reports an event to the person.
    pub fn tell(&self, event: &Event) {
        (self.shared.notice)(event);
    }

    /// Puts a failed target out of use: a node until it answers again, any other for good, and one
    /// that does not let this client in, too.
    pub fn give_up(&self, number: usize, error: &StorageError) {
        self.leave(
            number,
            error,
            error.kind() == StorageErrorKind::Unauthorized,
        );
    }

    /// Puts a target out of use for good, since it answers but cannot be used. Returns whether it
    /// was in use.
    pub fn leave_out(&self, number: usize, error: &StorageError) -> bool {
        self.leave(number, error, true)
    }

    fn leave(&self, number: usize, error: &StorageError, is_final: bool) -> bool {
        let target = &self.all()[number];
        use StorageErrorKind::{Denied, Full, ReadOnly, Retryable, SessionOver, Unreachable};
        let why = match (error.kind(), error.object()) {
            // A failed connection has nothing to do with the object.
            (Retryable | SessionOver | Unreachable, _) | (_, None) => error.to_string(),
            (_, Some(object)) => format!("{object}: {error}"),
        };
        if !target.give_up(&why, is_final) {
            return false;
        }
        let text = format!("target {} fails ({why}): going on without it", target.url);
        let kind = match error.kind() {
            Full | Denied | ReadOnly => EventKind::TargetRefuses,
            _ => EventKind::TargetFails,
        };
        self.tell(&Event { kind, text });
        if target.can_return() && !is_final {
            self.ask_again(number);
        }
        true
    }

    /// Starts a thread that asks a node until it is back: nodes that hang are not to hide that
    /// others are back.
    fn ask_again(&self, number: usize) {
        let shared = Arc::downgrade(&self.shared);
        thread::spawn(move || {
            while let Some(shared) = shared.upgrade() {
                let target = &shared.all[number];
                if target.away_since().is_none() {
                    return;
                }
                if target.ask_again() {
                    let text = format!("target {} answers again", target.url);
                    (shared.notice)(&Event::note(text));
                    return;
                }
                drop(shared);
                thread::sleep(RETRY_TICK);
            }
        });
    }

    /// The targets in use among these, after waiting for nodes that failed so recently that they
    /// may be restarting.
    pub fn up_after_restart(&self, numbers: &[usize]) -> Vec<usize> {
        let restarts_until =
            |number: &usize| Some(self.all()[*number].away_since()? + RESTART_TIME);
        while let Some(until) = numbers.iter().filter_map(restarts_until).max()
            && Instant::now() < until
        {
            self.wait_until(until);
        }
        let numbers = numbers.iter().copied();
        numbers.filter(|&number| self.is_up(number)).collect()
    }

    /// Waits for nodes to come back until `is_enough` or `deadline`. Returns whether another try is
    /// worthwhile.
    pub fn wait_for_enough(
        &self,
        deadline: Instant,
        why: &StorageError,
        is_enough: impl Fn() -> bool,
    ) -> bool {
        // Nodes may be back by now.
        self.wait_until(deadline);
        while !is_enough() {
            let may_return = self.all().iter().any(|one| one.away_since().is_some());
            if !may_return || Instant::now() >= deadline {
                return false;
            }
            if !std::mem::replace(&mut *lock(&self.shared.waits), true) {
                let left = (deadline - Instant::now()).as_secs_f64().ceil();
                self.tell(&Event::note(format!("{why}; waiting for up to {left} s")));
            }
            self.wait_until(deadline);
        }
        *lock(&self.shared.waits) = false;
        Instant::now() < deadline
    }

    /// Time for which operations wait for nodes when too many are away.
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// The longest time for which a node that may come back has been away.
    pub fn away_for(&self) -> Option<Duration> {
        let away = self.all().iter().filter_map(Target::away_since);
        away.min().map(|since| since.elapsed())
    }

    /// Waits for a moment or until a node comes back.
    fn wait_until(&self, deadline: Instant) {
        let left = deadline.saturating_duration_since(Instant::now());
        thread::sleep(left.min(RETRY_TICK));
    }

    /// Notes that a node is full or read-only: writes go on as long as no more than two targets
    /// lack the new parts. Returns whether the target is a node.
    pub fn refuses(&self, number: usize, error: &StorageError) -> bool {
        let target = &self.all()[number];
        let is_node = is_node_url(&target.url);
        if is_node && !std::mem::replace(&mut lock(&target.state).refuses, true) {
            let text = format!(
                "target {} takes nothing new ({error}): the others go on, and less can be lost",
                target.url
            );
            let kind = EventKind::TargetRefuses;
            self.tell(&Event { kind, text });
        }
        is_node
    }

    /// Whether a target is in use and takes new parts, as far as is known.
    pub fn takes(&self, number: usize) -> bool {
        self.is_up(number) && !lock(&self.all()[number].state).refuses
    }

    /// An error of a target that ends the operation, with the target's name.
    pub fn blame(&self, number: usize, error: &StorageError) -> StorageError {
        let text = format!("target {}: {error}", self.all()[number].url);
        StorageError::new(error.kind(), text)
    }

    /// Calls `act` for all of these targets that are in use, at once; the results are in their
    /// order.
    pub fn each<T: Send>(
        &self,
        numbers: &[usize],
        act: impl Fn(usize, &dyn Storage) -> T + Sync,
    ) -> Vec<(usize, T)> {
        let act = |number: usize| Some((number, act(number, self.storage(number)?)));
        at_once(numbers, act).into_iter().flatten().collect()
    }
}

/// Ranges of an object to read from each target.
pub type Ranges = BTreeMap<usize, Vec<Range<u64>>>;

/// What was read of them: in their order, from each target that has answered.
pub type Parts = Vec<(usize, Result<Vec<Vec<u8>>>)>;

impl Targets {
    /// Reads these ranges of an object from targets that are in use, at once.
    pub fn read(&self, name: Name, ranges: &Ranges) -> Parts {
        let numbers: Vec<usize> = ranges.keys().copied().collect();
        self.each(&numbers, |number, storage| {
            self.all()[number].read(storage, name, &ranges[&number])
        })
    }

    /// Reads these ranges of an object from targets that are in use, at once. Does without up to
    /// `spare` of them that take several times as long as the others: they are not in the result.
    pub fn read_first(&self, name: Name, ranges: &Ranges, spare: usize) -> Parts {
        let (sender, answers) = mpsc::channel();
        let begun = Instant::now();
        let mut left: BTreeSet<usize> = BTreeSet::new();
        for (&number, ranges) in ranges {
            let target = &self.all()[number];
            let Some(storage) = target.storage.clone().filter(|_| self.is_up(number)) else {
                continue;
            };
            left.insert(number);
            let (shared, sender) = (Arc::clone(&self.shared), sender.clone());
            let ranges = ranges.clone();
            // A thread that nobody waits for ends when its target has answered.
            thread::spawn(move || {
                let read = shared.all[number].read(&*storage, name, &ranges);
                let _ = sender.send((number, read));
            });
        }
        drop(sender);
        let (mut answered, mut failed) = (Vec::new(), 0);
        while !left.is_empty() {
            let may_go_on = left.len() + failed <= spare && answered.len() > failed;
            let answer = if may_go_on {
                let patience = (begun.elapsed() * SLOWER_THAN_OTHERS).max(SLOWER_TIME_MIN);
                let patience = patience.saturating_sub(begun.elapsed());
                answers.recv_timeout(patience).ok()
            } else {
                answers.recv().ok()
            };
            let Some((number, read)) = answer else { break };
            left.remove(&number);
            failed += usize::from(read.is_err());
            answered.push((number, read));
        }
        for number in left {
            let bytes = ranges[&number].iter().map(|range| range.end - range.start);
            let bytes = bytes.sum::<u64>() as usize;
            lock(&self.all()[number].pace).learn_at_least(bytes, begun.elapsed());
        }
        answered.sort_by_key(|(number, _)| *number);
        answered
    }
}

/// Calls `act` for all numbers at once; the results are in their order.
fn at_once<T: Send>(numbers: &[usize], act: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let act = &act;
    let Some((&first, others)) = numbers.split_first() else {
        return Vec::new();
    };
    thread::scope(|scope| {
        let threads: Vec<_> = others
            .iter()
            .map(|&number| scope.spawn(move || act(number)))
            .collect();
        // This thread makes one of the calls itself: starting a thread costs more than many
        // operations.
        let first = act(first);
        let others = threads.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        [first].into_iter().chain(others).collect()
    })
}

#[cfg(test)]
mod tests {
    use tabane_storage::{Listed, LocalStorage, ObjectKind};

    use super::*;
    use crate::place::node_url;

    /// A node that takes questions and does not answer for a minute.
    struct Hanging;

    impl Storage for Hanging {
        fn location(&self) -> String {
            node_url("a")
        }

        fn create(&self) -> Result<()> {
            self.stat(Name::TARGET).map(drop)
        }

        fn put(&self, name: Name, _: &[&[u8]]) -> Result<()> {
            self.stat(name).map(drop)
        }

        fn get(&self, name: Name, _: Option<Range<u64>>) -> Result<Vec<u8>> {
            self.stat(name).map(|_| Vec::new())
        }

        fn list(&self, _: ObjectKind) -> Result<Vec<Listed>> {
            self.stat(Name::TARGET).map(|_| Vec::new())
        }

        fn stat(&self, _: Name) -> Result<u64> {
            thread::sleep(Duration::from_secs(60));
            Err(StorageErrorKind::Unreachable.into())
        }

        fn delete(&self, name: Name) -> Result<()> {
            self.stat(name).map(drop)
        }
    }

    #[test]
    fn a_node_that_hangs_does_not_hide_that_another_is_back() {
        let (hangs, answers) = (Id([1; 32]), Id([2; 32]));
        let dir = tempfile::tempdir().unwrap();
        let storage = LocalStorage::new(dir.path());
        storage.create().unwrap();
        let identity = Identity::new(Id([3; 32]), answers).to_bytes();
        storage.put(Name::TARGET, &[&identity]).unwrap();
        let why = "it does not answer".to_owned();
        let all = vec![
            Target::absent(hangs, node_url("a"), Some(Arc::new(Hanging)), why),
            Target::new(answers, node_url("b"), Arc::new(storage)),
        ];
        let targets = Targets::new(all, Arc::new(|_| ()));
        // Now that one is being asked.
        thread::sleep(RETRY_PAUSE_MIN + 2 * RETRY_TICK);
        targets.give_up(1, &StorageErrorKind::Unreachable.into());
        assert!(!targets.is_up(1));
        let begun = Instant::now();
        while !targets.is_up(1) {
            assert!(begun.elapsed() < Duration::from_secs(30), "it is not asked");
            thread::sleep(RETRY_TICK);
        }
    }
}
