//! A whole run, and what must hold after it.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tabane_storage::sync::lock;
use tabane_storage::{ObjectKind, Storage, StorageError, StorageErrorKind};
use tabane_store::check::{CheckOptions, ReadData};
use tabane_store::chunker::Chunking;
use tabane_store::key::KdfCost;
use tabane_store::{Id, InitOptions, Password, Progress, Repository};
use tabane_striped::{HealOptions, HealReport, StripedStorage};
use tabane_testing::random::Random;

use crate::client::{Promises, Silent, Sources, Worker, backup_options, rebalance, tight};
use crate::plan::{Change, Fault, Plan};
use crate::server::Accounts;
use crate::turns::Turns;
use crate::world::{Opened, World};

/// What runs share.
#[derive(Default)]
pub struct Shared {
    sources: Sources,
    accounts: Arc<Accounts>,
}

/// Counts of a run in which nothing was wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Operations of storage in turns.
    pub turns: u64,
    /// How often somebody was told to try again.
    pub refused: u64,
    /// Targets that were added or put in place of others.
    pub new_targets: u64,
}

/// Longer than any pending object counts.
const MONTH: Duration = Duration::from_secs(31 * 24 * 3600);

fn full_password() -> Password {
    b"correct horse".to_vec().into()
}

fn write_only_password() -> Password {
    b"write only".to_vec().into()
}

/// A run in which something was wrong.
#[derive(Clone, Debug)]
pub struct Failed {
    /// What was wrong.
    pub why: String,
    /// All operations, if they were to be told.
    pub operations: String,
}

/// Runs a plan; `tells` keeps every operation in words.
///
/// # Errors
/// When something was wrong.
pub fn run(plan: &Plan, shared: &Shared, tells: bool) -> Result<Tally, Failed> {
    let random = Random::new(plan.seed);
    let turns = Arc::new(Turns::new(plan.clients.len(), random, plan.row, tells));
    take_turns(plan, shared, &turns).map_err(|why| Failed {
        why,
        operations: turns.told(),
    })
}

fn take_turns(plan: &Plan, shared: &Shared, turns: &Arc<Turns>) -> Result<Tally, String> {
    let world = Arc::new(World::new(plan.place, &shared.accounts));
    let promises = Mutex::new(Promises::default());
    begin(plan, shared, &world, &promises).map_err(|error| format!("before all: {error}"))?;
    for fault in &plan.faults {
        match *fault {
            Fault::Death { client, at } => turns.dies_at(client, at),
            Fault::Nap { client, at, count } => turns.naps_at(client, at, count),
            _ => {}
        }
    }
    let (passing, faults) = (Arc::clone(&world), plan.faults.clone());
    turns.before_each(Box::new(move |turn, fell_asleep, tell| {
        passing.pass(turn, fell_asleep, &faults, tell)
    }));
    let (full, write_only) = (full_password(), write_only_password());
    let results: Result<Vec<()>, String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..plan.clients.len())
            .map(|number| {
                let is_write_only = plan.clients[number].is_write_only;
                let worker = Worker {
                    number,
                    plan,
                    world: &world,
                    sources: &shared.sources,
                    password: if is_write_only { &write_only } else { &full },
                    promises: &promises,
                    turns,
                };
                scope.spawn(move || {
                    // Whoever panics must leave, or the others wait for ever.
                    let result = catch_unwind(AssertUnwindSafe(|| worker.work()));
                    worker.turns.leave(worker.number);
                    result.unwrap_or_else(|_| Err("a client has panicked".to_owned()))
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().expect("panics are caught"))
            .collect()
    });
    results?;
    world.recover();
    world.on_their_way.arrive(u32::MAX);
    judge(plan, &world, &lock(&promises)).map_err(|why| format!("afterwards: {why}"))?;
    Ok(Tally {
        turns: u64::from(turns.count()),
        refused: lock(&promises).refused(),
        new_targets: world.new_targets(),
    })
}

/// Makes the repository, and backups before all else.
fn begin(
    plan: &Plan,
    shared: &Shared,
    world: &World,
    promises: &Mutex<Promises>,
) -> Result<(), tabane_store::Error> {
    let storage = || world.direct().expect("nothing has failed yet").storage();
    let options = InitOptions::default()
        .kdf_cost(KdfCost::WEAKEST)
        .chunking(Chunking::Fixed { len: 1024 });
    let repository = Repository::init(storage(), &full_password(), options)?;
    let mut repositories = vec![Arc::new(repository)];
    if plan.clients.iter().any(|client| client.is_write_only) {
        repositories[0].add_write_only_key(&write_only_password(), KdfCost::WEAKEST)?;
        // Those that were open before do not know of it.
        repositories = [full_password(), write_only_password()]
            .iter()
            .map(|password| Ok(Arc::new(Repository::open(storage(), password)?)))
            .collect::<Result<_, tabane_store::Error>>()?;
    }
    for (number, &source) in plan.before.iter().enumerate() {
        let repository = &repositories[number % repositories.len()];
        let made = repository.backup(backup_options(), &[shared.sources.path(source)])?;
        lock(promises).made(made.id.expect("it was no dry run"), source);
    }
    Ok(())
}

/// Keeps what a check finds.
#[derive(Default)]
struct Findings(Mutex<Vec<String>>);

impl Progress for Findings {
    fn problem(&self, what: &str) {
        lock(&self.0).push(what.to_owned());
    }
}

/// Everything must be there and whole.
fn check(opened: &Opened, promises: &Promises, when: &str) -> Result<Arc<Repository>, String> {
    let failed = |error: tabane_store::Error| format!("{when}: {error}");
    let repository = Repository::open(opened.storage(), &full_password()).map_err(failed)?;
    let repository = Arc::new(repository);
    let findings = Arc::new(Findings::default());
    let report = repository
        .with_progress(Arc::clone(&findings))
        .check(CheckOptions::default().read_data(ReadData::All))
        .map_err(failed)?;
    if report.problems > 0 {
        let findings = lock(&findings.0).join("; ");
        return Err(format!("{when}: {} problems: {findings}", report.problems));
    }
    let listed = repository.storage().list(ObjectKind::Snapshot);
    let listed = listed.map_err(|error| format!("{when}: {error}"))?;
    let there: BTreeSet<Id> = listed.into_iter().map(|object| object.id).collect();
    if let Some(id) = promises.kept().find(|id| !there.contains(id)) {
        return Err(format!("{when}: snapshot {id} is gone"));
    }
    if let Some(id) = promises.forgotten().intersection(&there).next() {
        return Err(format!("{when}: snapshot {id} has come back"));
    }
    Ok(repository)
}

/// What must hold after a run.
fn judge(plan: &Plan, world: &World, promises: &Promises) -> Result<(), String> {
    let open = || world.direct().map_err(|error| error.to_string());
    end_changes(plan, world)?;
    if let Opened::Set(set) = open()? {
        // What a client that died has put on one target alone may be damaged there.
        heal(&set)?;
        end_drain(plan, world, &set)?;
    } else if !plan.has_death() && !plan.has_storage_fault() {
        // Each that came too late has deleted its objects.
        check(&open()?, promises, "at once")?;
    }
    // Storage that puts a snapshot again after its deletion brings it back: who has deleted it does
    // so again.
    let kept: BTreeSet<Id> = promises.kept().collect();
    for name in world.on_their_way.snapshots_come_back() {
        if !kept.contains(&name.id)
            && let Err(error) = open()?.storage().delete(name)
            && error.kind() != StorageErrorKind::NotFound
        {
            return Err(format!("a deletion: {error}"));
        }
    }
    // Nothing needs a human: the next prune removes all leftovers, and a second one the blocks that
    // pending snapshots held. By then these are too old for a client to wait for them, and a copy
    // that the first made of what it then found to be elsewhere is not young any more.
    for _ in 0..2 {
        world.wait(MONTH);
        let repository = Repository::open(open()?.storage(), &full_password());
        let pruned = repository.map(Arc::new).and_then(|repository| {
            repository.plan_prune(tight())?.execute()?;
            Ok(())
        });
        pruned.map_err(|error| format!("the last prune: {error}"))?;
    }
    // Every snapshot is whole, also if its client died before it was told.
    let opened = open()?;
    let repository = check(&opened, promises, "in the end")?;
    for kind in [
        ObjectKind::Client,
        ObjectKind::Pending,
        ObjectKind::Unverified,
    ] {
        let left = opened.storage().list(kind);
        let left = left.map_err(|error| error.to_string())?;
        if !left.is_empty() {
            return Err(format!("{} of {} are left", left.len(), kind.name()));
        }
    }
    let planned = repository.preview_prune(tight(), &Default::default());
    let planned = planned.map_err(|error| error.to_string())?;
    let stats = planned.stats();
    if stats.used_bytes != stats.pack_bytes {
        return Err(format!("waste is left: {stats:?}"));
    }
    if let Opened::Set(set) = opened {
        let left = heal(&set)?;
        if left.unhealed_objects + left.written_parts > 0 {
            return Err(format!("a heal after a heal has work: {left:?}"));
        }
        let count = set.urls().count();
        let first = plan.seed as usize % count;
        let second = (first + 1 + plan.seed as usize / count % (count - 1)) % count;
        let listed = world.listed();
        let without = world.without(&[listed[first], listed[second]]);
        let without = without.map_err(|error| format!("without two targets: {error}"))?;
        check(&without, promises, "without two targets")?;
    }
    Ok(())
}

/// Who began to change the targets and died does so again, as it was told. Of two changes, one may
/// have to be ended before the other.
fn end_changes(plan: &Plan, world: &World) -> Result<(), String> {
    let commands = plan.clients.iter().flat_map(|client| &client.commands);
    let changes: Vec<Change> = commands
        .filter_map(|(command, choice)| command.change(*choice))
        .collect();
    let end = |change: Change| -> Result<(), StorageError> {
        match world.direct()? {
            Opened::Set(set) if world.has_begun(&set, change) => {
                world.change(&set, &world.targets(true), change)
            }
            _ => Ok(()),
        }
    };
    for &change in changes.iter().rev() {
        let _ = end(change);
    }
    let ended = changes.into_iter().try_for_each(end);
    ended.map_err(|error| format!("a change of targets, tried again: {error}"))
}

/// In half of the runs, a group that somebody began to empty is gone in the end.
fn end_drain(plan: &Plan, world: &World, set: &Arc<StripedStorage>) -> Result<(), String> {
    let failed = |error: StorageError| format!("a drain, tried again: {error}");
    let survey = set.survey().map_err(failed)?;
    if plan.seed.is_multiple_of(2) || !survey.targets.iter().any(|target| target.is_retired) {
        return Ok(());
    }
    rebalance(set).map_err(failed)?;
    world.forget_retired(set).map_err(failed)
}

/// Makes everything whole again; returns what a second heal finds.
fn heal(set: &Arc<StripedStorage>) -> Result<HealReport, String> {
    let secret = Repository::open(Arc::clone(set) as Arc<dyn Storage>, &full_password());
    secret.map_err(|error| format!("before a heal: {error}"))?;
    let heal = || {
        let healed = set.heal(HealOptions::default().read_data(true), &Silent);
        healed.map_err(|error| format!("a heal: {error}"))
    };
    heal()?;
    heal()
}
