//! Clients that work at the same time, in an order of their storage operations that a seed decides.
//!
//! `TABANE_TEST_SCHEDULES=10000 cargo test -p tabane-store --test prune` tries so many, and
//! `TABANE_TEST_SEED=n` one of them alone, with every operation printed.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use tabane_storage::{Listed, Name, ObjectKind, Storage};
use tabane_store::ExcludeOptions;
use tabane_store::backup::Parent;
use tabane_store::chunker::Chunking;
use tabane_store::key::KdfCost;
use tabane_store::rewrite::RewriteOptions;
use tabane_store::{Error, Id, Password, Repository};

use super::basics::{prune_with, tight};
use super::world::{Clients, World};
use crate::common::memory::MemoryStorage;
use crate::common::tree::{random_bytes, write};
use crate::common::{
    assert_clean, back_up_observed, backup_options, init_options, password, scratch,
};

/// Numbers that a seed decides (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// Lets one storage operation happen at a time.
#[derive(Default)]
struct Turns {
    state: Mutex<State>,
    changed: Condvar,
    /// Prints every operation.
    tells: bool,
}

#[derive(Default)]
struct State {
    clients: Vec<Client>,
}

/// A client, with operations that wait.
#[derive(Default)]
struct Client {
    waiting: u64,
    /// How many of them may go on.
    granted: u64,
    /// Operations that are going on.
    acting: bool,
    ended: bool,
    /// All its operations fail from now on.
    dead: bool,
}

impl Turns {
    fn add(&self) -> usize {
        let mut state = self.state.lock().unwrap();
        state.clients.push(Client::default());
        state.clients.len() - 1
    }

    /// Waits for the turn of `client`; says whether it is dead.
    fn begin(&self, client: usize) -> bool {
        let mut state = self.state.lock().unwrap();
        state.clients[client].waiting += 1;
        self.changed.notify_all();
        while state.clients[client].granted == 0 {
            state = self.changed.wait(state).unwrap();
        }
        let client = &mut state.clients[client];
        client.granted -= 1;
        client.acting = true;
        client.dead
    }

    fn end(&self, client: usize) {
        self.state.lock().unwrap().clients[client].acting = false;
        self.changed.notify_all();
    }

    fn leave(&self, client: usize) {
        self.state.lock().unwrap().clients[client].ended = true;
        self.changed.notify_all();
    }

    /// Gives turns until all clients have ended.
    fn run(&self, random: &mut Random, world: &World, faults: bool) {
        let patience = [1, 5, 30, 100][random.below(4) as usize];
        let mut favourite = usize::MAX;
        let mut state = self.state.lock().unwrap();
        loop {
            let is_busy = |client: &Client| {
                client.acting || client.granted > 0 || (!client.ended && client.waiting == 0)
            };
            while state.clients.iter().any(is_busy) {
                state = self.changed.wait(state).unwrap();
            }
            let live: Vec<usize> = (0..state.clients.len())
                .filter(|&client| !state.clients[client].ended)
                .collect();
            if live.is_empty() {
                return;
            }
            // Often, one client runs for a while and the others stand still.
            if random.one_in(patience) || !live.contains(&favourite) {
                favourite = live[random.below(live.len() as u64) as usize];
            }
            let chosen = favourite;
            let client = &mut state.clients[chosen];
            if faults && random.one_in(60) {
                client.dead = true;
            }
            // Long enough for any client to count as dead.
            if random.one_in(25) {
                world.wait(Duration::from_secs(25 * 3600));
                if self.tells {
                    eprintln!("a day passes");
                }
            }
            client.waiting -= 1;
            client.granted += 1;
            self.changed.notify_all();
        }
    }
}

/// What one client sees of the storage.
struct Slow {
    inner: Arc<dyn Storage>,
    turns: Arc<Turns>,
    client: usize,
}

impl Slow {
    fn act<T>(
        &self,
        what: impl fmt::Display,
        act: impl FnOnce() -> tabane_storage::Result<T>,
    ) -> tabane_storage::Result<T> {
        let dead = self.turns.begin(self.client);
        let result = if dead {
            Err(tabane_storage::StorageError::new(
                tabane_storage::StorageErrorKind::Permanent,
                "this client is dead",
            ))
        } else {
            act()
        };
        if self.turns.tells {
            let error = result.as_ref().err();
            let error = error.map_or_else(String::new, |error| format!(": {error}"));
            eprintln!("client {}: {what}{error}", self.client);
        }
        self.turns.end(self.client);
        result
    }
}

impl Storage for Slow {
    fn location(&self) -> String {
        self.inner.location()
    }
    /// A single connection, so that the seed decides the schedule.
    fn connections(&self) -> usize {
        1
    }
    fn create(&self) -> tabane_storage::Result<()> {
        self.act("create", || self.inner.create())
    }
    fn put(&self, name: Name, parts: &[&[u8]]) -> tabane_storage::Result<()> {
        self.act(format_args!("put {name}"), || self.inner.put(name, parts))
    }
    fn get(&self, name: Name, range: Option<Range<u64>>) -> tabane_storage::Result<Vec<u8>> {
        self.act(format_args!("get {name}"), || self.inner.get(name, range))
    }
    fn list(&self, kind: ObjectKind) -> tabane_storage::Result<Vec<Listed>> {
        self.act(format_args!("list {}", kind.name()), || {
            self.inner.list(kind)
        })
    }
    fn stat(&self, name: Name) -> tabane_storage::Result<u64> {
        self.act(format_args!("stat {name}"), || self.inner.stat(name))
    }
    fn delete(&self, name: Name) -> tabane_storage::Result<()> {
        self.act(format_args!("delete {name}"), || self.inner.delete(name))
    }
}

/// Results that were promised to clients.
#[derive(Default)]
struct Promises {
    /// Snapshots reported as made, in this order: the order of their IDs does not follow from the
    /// seed.
    made: Vec<Id>,
    /// Snapshots that somebody began to forget.
    forgotten: BTreeSet<Id>,
}

impl Promises {
    /// Snapshots that must exist.
    fn kept(&self) -> impl Iterator<Item = Id> {
        let made = self.made.iter().copied();
        made.filter(|id| !self.forgotten.contains(id))
    }
}

/// Directories that have files in common.
struct Sources {
    _dir: tempfile::TempDir,
    paths: Vec<PathBuf>,
}

impl Sources {
    fn new() -> Self {
        let dir = scratch();
        let paths = (0..6_u64).map(|number| {
            let path = dir.path().join(format!("{number}"));
            for file in 0..6 {
                if (number + file) % 3 != 0 {
                    let bytes = random_bytes(file % 4, 3000);
                    write(path.join(format!("{}/{file}", file % 2)), &bytes);
                }
            }
            path
        });
        Self {
            paths: paths.collect(),
            _dir: dir,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Task {
    BackUp,
    ForgetAndPrune,
    Prune,
    /// One snapshot is made anew without some of its files, and forgotten.
    Rewrite,
}

struct Simulation<'a> {
    sources: &'a Sources,
    world: &'a World,
    promises: Mutex<Promises>,
    /// Errors that are no failures.
    refused: Mutex<Vec<String>>,
}

impl Simulation<'_> {
    fn back_up(&self, repository: &Arc<Repository>, source: u64) -> tabane_store::Result<()> {
        let paths = &self.sources.paths;
        let options = backup_options().parent(Parent::OF_SAME);
        let path = &paths[source as usize % paths.len()];
        let made = back_up_observed(repository, &[path], options, &Arc::default())?;
        let id = made.id.expect("it was no dry run");
        self.promises.lock().unwrap().made.push(id);
        Ok(())
    }

    /// Forgets all but one of the snapshots that were made, also those that somebody is making
    /// anew.
    fn forget(&self, repository: &Arc<Repository>, keep: u64) -> tabane_store::Result<()> {
        let made = self.promises.lock().unwrap().made.clone();
        for (number, id) in made.iter().enumerate() {
            if number as u64 == keep % made.len() as u64 {
                continue;
            }
            self.promises.lock().unwrap().forgotten.insert(*id);
            let name = Name::new(ObjectKind::Snapshot, *id);
            match repository.storage().delete(name) {
                Err(error) if error.kind() != tabane_storage::StorageErrorKind::NotFound => {
                    return Err(Error::storage("remove", name)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn rewrite(&self, repository: &Arc<Repository>, choice: u64) -> tabane_store::Result<()> {
        let options = RewriteOptions::default()
            .excludes(ExcludeOptions::default().patterns(vec![format!("{}", choice % 6)]))
            .forget(true)
            .dry_run(false);
        let old = {
            let mut promises = self.promises.lock().unwrap();
            let Some(old) = promises.kept().nth(choice as usize % 3) else {
                return Ok(());
            };
            promises.forgotten.insert(old);
            old
        };
        let snapshot = repository.load_snapshot(old)?;
        let rewritten = repository.rewrite(&options, &[(old, snapshot)])?;
        // If it had none of them it stays, unless somebody else forgets it.
        if let Some(new) = rewritten.first().and_then(|rewritten| rewritten.new) {
            self.promises.lock().unwrap().made.push(new);
        }
        Ok(())
    }

    fn client(
        &self,
        turns: &Arc<Turns>,
        number: usize,
        password: &Password,
        tasks: Vec<(Task, u64)>,
    ) {
        let slow = Slow {
            inner: self
                .world
                .client(!tasks.iter().all(|(task, _)| matches!(task, Task::BackUp))),
            turns: Arc::clone(turns),
            client: number,
        };
        let work = || -> tabane_store::Result<()> {
            let repository = Arc::new(Repository::open(Arc::new(slow), password)?);
            for (task, choice) in tasks {
                let done = match task {
                    Task::BackUp => self.back_up(&repository, choice),
                    Task::ForgetAndPrune => self
                        .forget(&repository, choice)
                        .and_then(|()| prune_with(&repository, tight()).map(|_| ())),
                    Task::Prune => prune_with(&repository, tight()).map(|_| ()),
                    Task::Rewrite => self.rewrite(&repository, choice),
                };
                match done {
                    // Somebody else has forgotten what was to be rewritten, or compared with.
                    Err(error)
                        if matches!(task, Task::Rewrite | Task::BackUp)
                            && (error.is_not_found()
                                || matches!(error, Error::MissingBlock(_))) =>
                    {
                        self.refused.lock().unwrap().push(error.to_string());
                    }
                    Err(
                        error @ (Error::RemovedMeanwhile
                        | Error::PruneRunning(_)
                        | Error::PruneOvertaken),
                    ) => {
                        self.refused.lock().unwrap().push(error.to_string());
                    }
                    done => done?,
                }
            }
            Ok(())
        };
        let result = work();
        turns.leave(number);
        if let Err(error) = result
            && !error.to_string().contains("this client is dead")
        {
            panic!("client {number}: {error}");
        }
    }
}

impl fmt::Debug for Simulation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let promises = self.promises.lock().unwrap();
        let (made, forgotten) = (promises.made.len(), promises.forgotten.len());
        write!(f, "{made} made, {forgotten} forgotten")
    }
}

/// Runs one schedule; returns how often somebody was refused.
fn run(seed: u64, sources: &Sources, world: &World, tells: bool) -> usize {
    let mut random = Random(seed);
    let storage = world.storage();
    let options = init_options().chunking(Chunking::Fixed { len: 1024 });
    let repository = Repository::init(Arc::clone(&storage), &password(), options);
    let repository = Arc::new(repository.expect("init"));
    let simulation = Simulation {
        sources,
        world,
        promises: Mutex::default(),
        refused: Mutex::default(),
    };
    // A client that cannot read, in half of the runs.
    let writer: Option<Password> = (seed % 2 == 1).then(|| b"write only".to_vec().into());
    let repositories = match &writer {
        None => vec![repository],
        Some(writer) => {
            let added = repository.add_write_only_key(writer, KdfCost::WEAKEST);
            added.expect("add a key");
            let open = |password| Repository::open(Arc::clone(&storage), password).expect("open");
            vec![Arc::new(open(&password())), Arc::new(open(writer))]
        }
    };
    // Something to forget.
    for number in 0..random.below(3) as usize {
        let repository = &repositories[number % repositories.len()];
        simulation
            .back_up(repository, random.below(6))
            .expect("back up");
    }
    drop(repositories);
    let turns = Arc::new(Turns {
        tells,
        ..Turns::default()
    });
    let full = password();
    let mut clients = vec![
        (&full, vec![Task::BackUp; 2]),
        (
            &full,
            vec![Task::ForgetAndPrune; 1 + random.below(2) as usize],
        ),
    ];
    if random.one_in(2) {
        clients.push((&full, vec![Task::BackUp]));
    }
    if random.one_in(2) {
        clients.push((&full, vec![Task::Prune]));
    }
    if random.one_in(2) {
        clients.push((&full, vec![Task::Rewrite; 2]));
    }
    if let Some(writer) = &writer {
        clients.push((writer, vec![Task::BackUp; 2]));
    }
    let faults = random.one_in(2);
    thread::scope(|scope| {
        for (password, tasks) in clients {
            let tasks: Vec<(Task, u64)> = tasks
                .into_iter()
                .map(|task| (task, random.below(100)))
                .collect();
            let number = turns.add();
            if tells {
                eprintln!("client {number}: {tasks:?}");
            }
            let (simulation, turns) = (&simulation, &turns);
            scope.spawn(move || simulation.client(turns, number, password, tasks));
        }
        turns.run(&mut random, world, faults);
    });

    let repository = Repository::open(Arc::clone(&storage), &password());
    let repository = Arc::new(repository.expect("open"));
    let promised = || -> BTreeSet<Id> { simulation.promises.lock().unwrap().kept().collect() };
    let there = || -> BTreeSet<Id> {
        let listed = storage.list(ObjectKind::Snapshot).unwrap();
        listed.into_iter().map(|object| object.id).collect()
    };
    assert!(there().is_superset(&promised()), "a snapshot is gone");
    if !faults {
        // No client died: each that came too late has deleted its objects.
        assert_clean(&repository);
    }
    // Nothing needs a human: the next prune removes all leftovers, and a second one the blocks that
    // pending snapshots held. By then these are too old for a client to wait for them.
    world.wait(Duration::from_secs(31 * 24 * 3600));
    for _ in 0..2 {
        prune_with(&repository, tight()).expect("the last prune");
    }
    // Every snapshot is whole, also if its client died before it was told.
    assert_clean(&repository);
    assert!(there().is_superset(&promised()), "a snapshot is gone");
    for kind in [
        ObjectKind::Client,
        ObjectKind::Pending,
        ObjectKind::Unverified,
    ] {
        assert_eq!(storage.list(kind).unwrap(), [], "rubbish is left");
    }
    let planned = repository
        .preview_prune(tight(), &Default::default())
        .unwrap();
    let stats = planned.stats();
    assert_eq!(
        stats.used_bytes, stats.pack_bytes,
        "waste is left: {stats:?}"
    );
    simulation.refused.into_inner().unwrap().len()
}

#[test]
fn nothing_that_should_stay_is_lost_in_any_order_of_operations() {
    try_schedules(200, &|| World::Memory(MemoryStorage::default()));
}

/// The same through a storage server, where clients that only back up may delete nothing but what
/// they have put.
#[test]
fn nothing_is_lost_through_a_server() {
    let clients = Arc::new(Clients::new());
    try_schedules(12, &|| World::served(&clients));
}

/// Runs so many schedules, each in a world of its own.
fn try_schedules(count: u64, world: &(dyn Fn() -> World + Sync)) {
    let number = |name| -> Option<u64> { std::env::var(name).ok()?.parse().ok() };
    let sources = Sources::new();
    if let Some(seed) = number("TABANE_TEST_SEED") {
        run(seed, &sources, &world(), true);
        return;
    }
    let count = number("TABANE_TEST_SCHEDULES").unwrap_or(count);
    let next = Mutex::new(0..count);
    let refused = Mutex::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let Some(seed) = next.lock().unwrap().next() else {
                        return;
                    };
                    let world = std::panic::AssertUnwindSafe(world);
                    let result = std::panic::catch_unwind(|| run(seed, &sources, &world(), false));
                    match result {
                        Ok(count) => *refused.lock().unwrap() += count,
                        Err(panic) => {
                            eprintln!("TABANE_TEST_SEED={seed}");
                            std::panic::resume_unwind(panic);
                        }
                    }
                }
            });
        }
    });
    let refused = refused.into_inner().unwrap();
    eprintln!("{count} schedules; {refused} times somebody was told to try again");
    assert!(count < 100 || refused > 0, "clients never met");
}
