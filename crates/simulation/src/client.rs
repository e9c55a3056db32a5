//! What a client does in a run, and what it was promised.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{fmt, fs};

use tabane_storage::sync::lock;
use tabane_storage::{Name, ObjectKind, Storage, StorageError, StorageErrorKind};
use tabane_store::backup::{BackupOptions, Parent};
use tabane_store::prune::{MaxUnused, PruneOptions};
use tabane_store::restore::RestoreOptions;
use tabane_store::rewrite::RewriteOptions;
use tabane_store::{Cache, Error, ExcludeOptions, Id, Password, Progress, Repository};
use tabane_striped::{HAS_CHANGED, HealOptions, RebalanceOptions, StripedStorage};
use tabane_testing::random::Random;
use tabane_testing::scratch;
use tempfile::TempDir;

use crate::plan::{Client, Command, Fault, Place, Plan, Seat};
use crate::target::{Counted, OFF, Target};
use crate::turns::Turns;
use crate::world::{Opened, World};

/// Directories that have files in common.
pub struct Sources {
    _dir: TempDir,
    paths: Vec<PathBuf>,
}

impl Sources {
    /// Makes them.
    pub fn new() -> Self {
        let dir = scratch();
        let paths = (0..6_u64).map(|number| {
            let path = dir.path().join(format!("{number}"));
            for file in 0..6 {
                if (number + file) % 3 != 0 {
                    let path = path.join(format!("{}/{file}", file % 2));
                    let folder = path.parent().expect("it has one");
                    fs::create_dir_all(folder).expect("a folder");
                    // A set makes a stripe of a large pack, and copies of others.
                    let len = if (number, file) == (4, 4) {
                        80_000
                    } else {
                        3000
                    };
                    let bytes = Random::new(file % 4).noise(len);
                    fs::write(path, bytes).expect("a file");
                }
            }
            path
        });
        Self {
            paths: paths.collect(),
            _dir: dir,
        }
    }

    /// The directory of this number.
    pub fn path(&self, number: u64) -> &Path {
        &self.paths[number as usize % self.paths.len()]
    }
}

impl Default for Sources {
    fn default() -> Self {
        Self::new()
    }
}

/// What clients were told.
#[derive(Default)]
pub struct Promises {
    /// Snapshots that were made, in this order: that of their IDs does not follow from the seed.
    made: Vec<Id>,
    /// The sources of whole ones.
    sources: BTreeMap<Id, u64>,
    /// Snapshots that somebody began to forget, and how many did so.
    forgetting: BTreeMap<Id, u32>,
    /// Of these, those that are gone for good.
    forgotten: BTreeSet<Id>,
    /// How often somebody was told to try again.
    refused: u64,
}

impl Promises {
    /// Snapshots that must exist.
    pub fn kept(&self) -> impl Iterator<Item = Id> {
        let made = self.made.iter().copied();
        made.filter(|id| !self.is_forgotten(*id))
    }

    /// Whether somebody began to forget this snapshot.
    fn is_forgotten(&self, id: Id) -> bool {
        self.forgetting.contains_key(&id)
    }

    fn begin_to_forget(&mut self, id: Id) {
        *self.forgetting.entry(id).or_default() += 1;
    }

    /// Whoever began to forget it has left it alone.
    fn leave(&mut self, id: Id) {
        let count = self.forgetting.get_mut(&id).expect("somebody began");
        *count -= 1;
        if *count == 0 {
            self.forgetting.remove(&id);
        }
    }

    /// Snapshots that must not exist.
    pub fn forgotten(&self) -> &BTreeSet<Id> {
        &self.forgotten
    }

    /// How often somebody was told to try again.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// A whole snapshot of a source was made.
    pub fn made(&mut self, id: Id, source: u64) {
        self.made.push(id);
        self.sources.insert(id, source);
    }
}

/// Leaves nothing unused.
pub fn tight() -> PruneOptions {
    PruneOptions::default().max_unused(MaxUnused::Bytes(0))
}

/// Nobody listens.
pub struct Silent;

impl Progress for Silent {}

/// The usual options.
pub fn backup_options() -> BackupOptions {
    BackupOptions::default().hostname("host").username("user")
}

/// A client of a run.
pub struct Worker<'a> {
    /// Its number.
    pub number: usize,
    /// What it is to do.
    pub plan: &'a Plan,
    /// Where.
    pub world: &'a World,
    /// From what.
    pub sources: &'a Sources,
    /// With which password.
    pub password: &'a Password,
    /// What it and others were told.
    pub promises: &'a Mutex<Promises>,
    /// Its turns and those of others.
    pub turns: &'a Arc<Turns>,
}

impl Worker<'_> {
    fn client(&self) -> &Client {
        &self.plan.clients[self.number]
    }

    /// Whether the storage is behind a network for it, so that it keeps a local cache: the seed
    /// decides, or each kind of client would always be near, or always far.
    fn is_far(&self) -> bool {
        self.plan.seed >> self.number & 1 == 1
    }

    /// Works until all is done.
    ///
    /// # Errors
    /// What no fault explains.
    pub fn work(&self) -> Result<(), String> {
        let is_back_up = |(command, _): &(Command, u64)| *command == Command::BackUp;
        let removes = !self.client().commands.iter().all(is_back_up);
        let targets = self.world.targets(removes);
        let was_hit = Arc::new(AtomicBool::new(false));
        let counted: Vec<Arc<Counted>> = (0..targets.len())
            .map(|target| {
                let seat = Seat {
                    client: self.number,
                    target,
                };
                Arc::new(Counted {
                    seat,
                    operations: AtomicU32::new(0),
                    faults: self.faults_at(seat),
                })
            })
            .collect();
        let cache = self.is_far().then(scratch);
        let cache = cache.as_ref().map(TempDir::path);
        for &(command, choice) in &self.client().commands {
            let mut tries = 0;
            was_hit.store(false, Ordering::Relaxed);
            let done = loop {
                tries += 1;
                self.turns
                    .tell(format_args!("client {}: {command:?} {choice}", self.number));
                let seen = targets.iter().zip(&counted).map(|(target, counted)| {
                    Arc::new(Target {
                        storage: Arc::clone(target),
                        turns: Arc::clone(self.turns),
                        counted: Arc::clone(counted),
                        on_their_way: Arc::clone(&self.world.on_their_way),
                        off: Arc::clone(&self.world.off),
                        was_hit: Arc::clone(&was_hit),
                        is_far: self.is_far(),
                        moves: matches!(command, Command::Rebalance | Command::Drain),
                    }) as Arc<dyn Storage>
                });
                let seen: Vec<Arc<dyn Storage>> = seen.collect();
                let done = self.world.open(seen.clone()).map_err(of_storage);
                let done = done.and_then(|opened| {
                    let repository = || {
                        let repository = Repository::open(opened.storage(), self.password)?;
                        Ok(Arc::new(match cache {
                            None => repository,
                            Some(root) => repository.with_cache(Cache::new(root, |_: &str| ())),
                        }))
                    };
                    self.command(&opened, &seen, &repository, command, choice)
                });
                // Of what a prune is deleting, the last part that is there may be a damaged one:
                // nothing tells it from damage beyond repair, which would still be there later.
                match done {
                    Err(Failure::Damaged(_)) if tries < 3 && self.plan.has_damage() => {}
                    done => break done,
                }
            };
            if self.turns.is_dead(self.number) {
                return Ok(());
            }
            match done {
                Ok(()) => {}
                Err(Failure::Wrong(why)) => return Err(why),
                Err(Failure::Refused) => lock(self.promises).refused += 1,
                Err(Failure::Damaged(_) | Failure::Other(_)) if was_hit.load(Ordering::Relaxed) => {
                }
                // Of a snapshot that came back, what it needs may be gone: it is named, and has to
                // be forgotten again.
                Err(Failure::Damaged(_) | Failure::Other(_))
                    if !self.world.on_their_way.snapshots_come_back().is_empty() =>
                {
                    lock(self.promises).refused += 1;
                }
                Err(Failure::Damaged(why) | Failure::Other(why)) => {
                    return Err(format!("client {}: {command:?}: {why}", self.number));
                }
            }
        }
        Ok(())
    }

    fn faults_at(&self, here: Seat) -> Vec<Fault> {
        let mut faults = self.plan.faults.clone();
        // Those of a cluster are the nodes'.
        if matches!(self.plan.place, Place::Cluster(_)) {
            faults.clear();
        }
        faults.retain(|fault| match *fault {
            Fault::Away { seat, .. }
            | Fault::Full { seat, .. }
            | Fault::Unheard { seat, .. }
            | Fault::Late { seat, .. }
            | Fault::Twice { seat, .. } => seat == here,
            Fault::Behind { target, .. } => target == here.target,
            Fault::Death { .. } | Fault::Nap { .. } | Fault::Day { .. } => false,
            Fault::Damage { .. } | Fault::Emptied { .. } | Fault::Cut { .. } => false,
        });
        faults
    }

    fn command(
        &self,
        opened: &Opened,
        seen: &[Arc<dyn Storage>],
        repository: &dyn Fn() -> Result<Arc<Repository>, Error>,
        command: Command,
        choice: u64,
    ) -> Result<(), Failure> {
        let on_set = |act: &dyn Fn(&Arc<StripedStorage>) -> Result<(), Failure>| match opened {
            Opened::Single(_) => Ok(()),
            Opened::Set(set) => act(set),
        };
        let change = |set: &Arc<StripedStorage>, change| {
            match self.world.change(set, seen, change) {
                // The other target with faults lacks something.
                Err(error) if error.kind() == StorageErrorKind::TargetNeeded => {
                    Err(Failure::Refused)
                }
                changed => changed.map_err(of_storage),
            }
        };
        match command {
            Command::BackUp => self.back_up(&repository()?, choice),
            Command::ForgetAndPrune => {
                let repository = repository()?;
                self.forget(&repository, choice)?;
                prune(&repository)
            }
            Command::Prune => prune(&repository()?),
            Command::Rewrite => self.rewrite(&repository()?, choice),
            Command::Restore => self.restore(&repository()?, choice),
            Command::Heal => on_set(&|set| {
                // It tells the set the secret of its tags.
                repository()?;
                let options = HealOptions::default().read_data(choice.is_multiple_of(2));
                set.heal(options, &Silent).map(|_| ()).map_err(of_storage)
            }),
            Command::Rebalance => on_set(&|set| {
                repository()?;
                rebalance(set).map_err(of_storage)
            }),
            Command::Drain => on_set(&|set| self.drain(set, seen, choice as usize)),
            Command::Grow | Command::GrowGroup | Command::Replace => on_set(&|set| {
                let mut made = command.change(choice).into_iter();
                made.try_for_each(|made| change(set, made))
            }),
        }
    }

    fn back_up(&self, repository: &Arc<Repository>, source: u64) -> Result<(), Failure> {
        let options = backup_options().parent(Parent::OF_SAME);
        let made = match repository.backup(options, &[self.sources.path(source)]) {
            // Somebody else has forgotten what it was to be compared with.
            Err(error) if error.is_not_found() => return Err(Failure::Refused),
            made => made?,
        };
        let id = made.id.expect("it was no dry run");
        lock(self.promises).made(id, source);
        Ok(())
    }

    /// Empties the group that a target is in, or one that somebody began to empty.
    fn drain(
        &self,
        set: &Arc<StripedStorage>,
        seen: &[Arc<dyn Storage>],
        target: usize,
    ) -> Result<(), Failure> {
        let survey = set.survey().map_err(of_storage)?;
        let is_begun = survey.targets.iter().any(|target| target.is_retired);
        if !is_begun {
            let group = survey.targets.get(target).and_then(|it| it.group);
            let of_group = survey.targets.iter();
            let of_group = of_group.filter(|target| group.is_some() && target.group == group);
            let urls: Vec<&str> = of_group.map(|target| target.url.as_str()).collect();
            if urls.is_empty() {
                return Ok(());
            }
            set.retire(&urls).map_err(of_storage)?;
        }
        let Opened::Set(set) = self.world.open(seen.to_vec()).map_err(of_storage)? else {
            return Ok(());
        };
        let repository = Repository::open(Arc::clone(&set) as _, self.password)?;
        let mut looks = 0;
        repository.wait_for_clients(|_| {
            looks += 1;
            // Whoever waits for a client that is dead may do so for a day.
            if looks < LOOKS {
                Ok(())
            } else {
                Err(Error::RemovedMeanwhile)
            }
        })?;
        set.heal(HealOptions::default(), &Silent)
            .map_err(of_storage)?;
        rebalance(&set).map_err(of_storage)?;
        match self.world.forget_retired(&set) {
            // What is damaged beyond repair goes nowhere.
            Err(error)
                if error.kind() == StorageErrorKind::TargetNeeded && self.plan.has_damage() =>
            {
                Err(Failure::Refused)
            }
            forgotten => forgotten.map_err(of_storage),
        }
    }

    /// Forgets all but one of the snapshots that were made, also those that somebody is making
    /// anew.
    fn forget(&self, repository: &Arc<Repository>, keep: u64) -> Result<(), Failure> {
        let made = lock(self.promises).made.clone();
        for (number, id) in made.iter().enumerate() {
            if number as u64 == keep % made.len() as u64 {
                continue;
            }
            lock(self.promises).begin_to_forget(*id);
            let name = Name::new(ObjectKind::Snapshot, *id);
            match repository.storage().delete(name) {
                Err(error) if error.kind() != StorageErrorKind::NotFound => {
                    return Err(of_storage(error));
                }
                _ => lock(self.promises).forgotten.insert(*id),
            };
        }
        Ok(())
    }

    fn rewrite(&self, repository: &Arc<Repository>, choice: u64) -> Result<(), Failure> {
        let options = RewriteOptions::default()
            .excludes(ExcludeOptions::default().patterns(vec![format!("{}", choice % 6)]))
            .forget(true)
            .dry_run(false);
        let old = {
            let mut promises = lock(self.promises);
            let Some(old) = promises.kept().nth(choice as usize % 3) else {
                return Ok(());
            };
            promises.begin_to_forget(old);
            old
        };
        let rewritten = repository
            .load_snapshot(old)
            .and_then(|snapshot| repository.rewrite(&options, &[(old, snapshot)]));
        let rewritten = match rewritten {
            Err(error) if error.is_not_found() || matches!(error, Error::MissingBlock(_)) => {
                // The old one is deleted last.
                lock(self.promises).leave(old);
                return Err(self.gone(old, error));
            }
            rewritten => rewritten?,
        };
        let mut promises = lock(self.promises);
        match rewritten.first().and_then(|rewritten| rewritten.new) {
            Some(new) => promises.made.push(new),
            // It had none of them.
            None => promises.leave(old),
        }
        Ok(())
    }

    /// What is restored must be the source, or the restore must say that it is not.
    fn restore(&self, repository: &Arc<Repository>, choice: u64) -> Result<(), Failure> {
        let (id, source) = {
            let promises = lock(self.promises);
            let made = promises.made.iter();
            let whole = made.filter_map(|id| Some((*id, *promises.sources.get(id)?)));
            let whole: Vec<(Id, u64)> = whole.collect();
            match whole.len() {
                0 => return Ok(()),
                len => whole[choice as usize % len],
            }
        };
        let target = scratch();
        let restored = repository.load_snapshot(id).and_then(|snapshot| {
            let path = self.sources.path(source).to_owned();
            let options = RestoreOptions::new(target.path()).subpath(path);
            repository.restore(options, id, &snapshot)
        });
        match restored {
            Ok(summary) if summary.errors == 0 => compare(self.sources.path(source), target.path()),
            Ok(summary) => Err(self.gone(id, format_args!("{} errors", summary.errors))),
            Err(error) if error.is_not_found() || matches!(error, Error::MissingBlock(_)) => {
                Err(self.gone(id, error))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Part of a snapshot is not there: one that somebody forgets and prunes meanwhile goes while
    /// it is read, and no other.
    fn gone(&self, id: Id, why: impl fmt::Display) -> Failure {
        if lock(self.promises).is_forgotten(id) {
            Failure::Refused
        } else {
            Failure::Other(format!("of snapshot {id}, which nobody forgets: {why}"))
        }
    }
}

/// Why a command ended.
enum Failure {
    /// A promise is broken.
    Wrong(String),
    /// Somebody was told to try again, as the documentation says.
    Refused,
    /// An object is damaged.
    Damaged(String),
    /// Storage has failed, or should not have.
    Other(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::RemovedMeanwhile | Error::PruneRunning(_) | Error::PruneOvertaken => {
                Self::Refused
            }
            Error::Storage { .. } if is_behind(&text) => Self::Refused,
            Error::Damaged { .. } => Self::Damaged(text),
            _ => Self::Other(text),
        }
    }
}

fn of_storage(error: StorageError) -> Failure {
    let text = error.to_string();
    if is_behind(&text) {
        Failure::Refused
    } else {
        Failure::Other(text)
    }
}

/// Whether the set has got other targets since this client has opened it, or has read the set file.
fn is_behind(error: &str) -> bool {
    // A place is empty for who has asked it just before it became a target.
    let why = [
        HAS_CHANGED,
        "no place in the set file holds it",
        "the place is empty",
        OFF,
    ];
    why.iter().any(|why| error.contains(why))
}

/// Whoever empties a group looks so often whether others have ended.
const LOOKS: u32 = 100;

/// Moves what is in full groups. Deletions wait for those who may be listing.
pub fn rebalance(set: &StripedStorage) -> Result<(), StorageError> {
    let options = RebalanceOptions::default().listing_time(Duration::ZERO);
    set.rebalance(options, &Silent).map(|_| ())
}

fn prune(repository: &Arc<Repository>) -> Result<(), Failure> {
    repository.plan_prune(tight())?.execute()?;
    Ok(())
}

/// Wants all files of one tree in the other, with the same bytes.
fn compare(expected: &Path, found: &Path) -> Result<(), Failure> {
    let wrong = |error: std::io::Error| Failure::Wrong(format!("a restore: {error}"));
    for folder in fs::read_dir(expected).map_err(wrong)? {
        let folder = folder.map_err(wrong)?;
        for file in fs::read_dir(folder.path()).map_err(wrong)? {
            let file = file.map_err(wrong)?.path();
            let below = file.strip_prefix(expected).expect("it is below");
            if fs::read(&file).map_err(wrong)? != fs::read(found.join(below)).map_err(wrong)? {
                return Err(Failure::Wrong(format!("restored otherwise: {below:?}")));
            }
        }
    }
    Ok(())
}
