//! Where the clients of a run keep their repository, and what happens to it between turns.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tabane_storage::sync::lock;
use tabane_storage::{Name, Result, Storage};
use tabane_striped::{Place as SetPlace, StripedStorage};
use tabane_testing::memory::MemoryStorage;

use crate::nodes::Nodes;
use crate::plan::{Change, Damage, Fault, Place};
use crate::server::{Accounts, Served};
use crate::target::{OnTheirWay, is_own};

/// A repository's place.
pub struct World {
    place: Kind,
    /// Changes that take effect later.
    pub on_their_way: Arc<OnTheirWay>,
    /// Targets that answer nobody any more, since they were emptied.
    pub off: Arc<Mutex<BTreeSet<usize>>>,
}

enum Kind {
    Memory(MemoryStorage),
    Set {
        /// First those of the beginning, then [`SPARES`] more.
        targets: Vec<MemoryStorage>,
        /// What the set file says: which of them are targets.
        listed: Mutex<Vec<usize>>,
    },
    Server(Box<Served>),
    Cluster(Box<Nodes>),
}

/// A repository's place as a client uses it.
#[derive(Clone)]
pub enum Opened {
    /// One storage.
    Single(Arc<dyn Storage>),
    /// A set of targets.
    Set(Arc<StripedStorage>),
}

impl Opened {
    /// The storage.
    pub fn storage(&self) -> Arc<dyn Storage> {
        match self {
            Self::Single(storage) => Arc::clone(storage),
            Self::Set(set) => Arc::clone(set) as Arc<dyn Storage>,
        }
    }
}

/// Places that may become targets: those of a group, one to add, one to put in place of another.
pub const SPARES: usize = GROUP + 2;

/// Targets of a group that is added.
const GROUP: usize = 3;

/// A set of so many targets is two groups.
const GROUPED: usize = 6;

impl Change {
    /// The spare places that it takes, behind those of the beginning.
    fn places(self, first: usize) -> Range<usize> {
        match self {
            Self::AddGroup => first..first + GROUP,
            Self::Add => first + GROUP..first + GROUP + 1,
            Self::Replace(_) => first + GROUP + 1..first + SPARES,
        }
    }
}

/// Long enough for any client to count as dead.
const DAY: Duration = Duration::from_secs(25 * 3600);

impl World {
    /// A new place.
    pub fn new(place: Place, accounts: &Arc<Accounts>) -> Self {
        let place = match place {
            Place::Memory => Kind::Memory(MemoryStorage::default()),
            Place::Server => Kind::Server(Box::new(Served::start(accounts))),
            Place::Cluster(count) => Kind::Cluster(Box::new(Nodes::start(count))),
            Place::Set(count) => {
                let all = 0..count + SPARES;
                let targets: Vec<_> = all.map(|_| MemoryStorage::default()).collect();
                let first = targets[..count].iter().enumerate();
                let first =
                    first.map(|(number, target)| set_place(number, Arc::new(target.clone())));
                let first: Vec<SetPlace> = first.collect();
                let size = if count < GROUPED { count } else { count / 2 };
                let groups = first.chunks(size).map(<[_]>::to_vec);
                StripedStorage::form_groups(groups.collect(), false).expect("a set is made");
                let listed = Mutex::new((0..count).collect());
                Kind::Set { targets, listed }
            }
        };
        Self {
            place,
            on_their_way: Arc::default(),
            off: Arc::default(),
        }
    }

    /// The targets as a client reaches them, also spare ones; one that does not remove may have no
    /// right to.
    pub fn targets(&self, removes: bool) -> Vec<Arc<dyn Storage>> {
        match &self.place {
            Kind::Memory(storage) => vec![Arc::new(storage.clone())],
            Kind::Set { targets, .. } => targets
                .iter()
                .map(|target| Arc::new(target.clone()) as _)
                .collect(),
            Kind::Server(served) => vec![served.client(removes)],
            // Nodes ask each other, so that their operations have no turns: those of the whole do.
            Kind::Cluster(nodes) => vec![Arc::new(nodes.open().expect("enough nodes are there"))],
        }
    }

    /// Those of these targets that the set file lists, as one place.
    ///
    /// # Errors
    /// When too many targets of a set do not answer.
    pub fn open(&self, mut targets: Vec<Arc<dyn Storage>>) -> Result<Opened> {
        match &self.place {
            Kind::Memory(_) | Kind::Server(_) | Kind::Cluster(_) => {
                Ok(Opened::Single(targets.pop().expect("there is one")))
            }
            Kind::Set { .. } => {
                let notice = Arc::new(|_: &_| {});
                let listed = self.listed().into_iter();
                let places = listed.map(|number| set_place(number, Arc::clone(&targets[number])));
                let set = StripedStorage::open("a set".to_owned(), places.collect(), notice)?;
                Ok(Opened::Set(Arc::new(set)))
            }
        }
    }

    /// The targets that the set file lists.
    pub fn listed(&self) -> Vec<usize> {
        match &self.place {
            Kind::Set { listed, .. } => lock(listed).clone(),
            Kind::Cluster(nodes) => (0..nodes.count()).collect(),
            Kind::Memory(_) | Kind::Server(_) => Vec::new(),
        }
    }

    /// How many spare targets are in use.
    pub fn new_targets(&self) -> u64 {
        let Kind::Set { targets, .. } = &self.place else {
            return 0;
        };
        let first = targets.len() - SPARES;
        let listed = self.listed().into_iter();
        listed.filter(|&number| number >= first).count() as u64
    }

    /// Whether somebody has begun such a change and may not have ended it.
    pub fn has_begun(&self, set: &StripedStorage, change: Change) -> bool {
        let Kind::Set { targets, listed } = &self.place else {
            return false;
        };
        let (listed, mut new) = (lock(listed), change.places(targets.len() - SPARES));
        let is_gone = |number: &usize| match change {
            Change::Replace(old) => *number == old || *number == new.start,
            Change::Add | Change::AddGroup => *number == new.start,
        };
        if lock(&self.off).iter().any(is_gone) {
            return false;
        }
        match change {
            Change::AddGroup => {
                let is_member = set.urls().any(|known| known == url(new.start));
                listed.contains(&new.start) && !is_member
            }
            Change::Add | Change::Replace(_) => {
                new.any(|new| !listed.contains(&new) && targets[new].stat(Name::TARGET).is_ok())
            }
        }
    }

    /// Adds spare targets to the set, or puts one where another is, and writes the set file, first
    /// that with a new group, without which nobody could open the set; also what somebody has begun
    /// and not ended.
    ///
    /// # Errors
    /// As [`StripedStorage::add`], [`StripedStorage::add_group`] and [`StripedStorage::replace`].
    pub fn change(
        &self,
        set: &StripedStorage,
        seen: &[Arc<dyn Storage>],
        change: Change,
    ) -> Result<()> {
        let Kind::Set { targets, listed } = &self.place else {
            return Ok(());
        };
        let new = change.places(targets.len() - SPARES);
        let is_member = |number: usize| set.urls().any(|known| known == url(number));
        let places = new.clone();
        let places = places.map(|new| set_place(new, Arc::clone(&seen[new])));
        let places: Vec<SetPlace> = places.collect();
        match change {
            Change::Add => set.add(&places[0])?,
            Change::AddGroup => {
                let mut listed = lock(listed);
                listed.retain(|number| !new.contains(number));
                listed.extend(new);
                drop(listed);
                return set.add_group(&places);
            }
            Change::Replace(old) if !is_member(old) && is_member(new.start) => {}
            Change::Replace(old) => drop(set.replace_lost(&url(old), &places[0])?),
        }
        let mut listed = lock(listed);
        if let Change::Replace(old) = change {
            listed.retain(|&number| number != old);
        }
        listed.extend(new);
        Ok(())
    }

    /// Lets a set forget the targets that were emptied, takes them out of the set file and switches
    /// them off.
    ///
    /// # Errors
    /// As [`StripedStorage::forget_retired`].
    pub fn forget_retired(&self, set: &StripedStorage) -> Result<()> {
        let survey = set.survey()?;
        let retired = survey.targets.iter().filter(|target| target.is_retired);
        let urls: Vec<&str> = retired.map(|target| target.url.as_str()).collect();
        set.forget_retired(&urls)?;
        if let Kind::Set { listed, .. } = &self.place {
            let is_emptied = |number: &mut usize| urls.contains(&&*url(*number));
            lock(&self.off).extend(lock(listed).extract_if(.., is_emptied));
        }
        Ok(())
    }

    /// The place without anything between.
    ///
    /// # Errors
    /// When too many targets of a set do not answer.
    pub fn direct(&self) -> Result<Opened> {
        match &self.place {
            Kind::Server(served) => Ok(Opened::Single(served.disk())),
            Kind::Cluster(nodes) => Ok(Opened::Set(Arc::new(nodes.open()?))),
            _ => self.open(self.targets(true)),
        }
    }

    /// A set without these of its targets.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn without(&self, gone: &[usize]) -> Result<Opened> {
        if let Kind::Cluster(nodes) = &self.place {
            gone.iter().for_each(|&node| nodes.stop(node));
            return self.direct();
        }
        let targets = self.targets(true).into_iter().enumerate();
        let empty = || Arc::new(MemoryStorage::default()) as Arc<dyn Storage>;
        let targets = targets.map(|(number, target)| {
            if gone.contains(&number) {
                empty()
            } else {
                target
            }
        });
        self.open(targets.collect())
    }

    /// Lets time pass.
    pub fn wait(&self, time: Duration) {
        match &self.place {
            Kind::Memory(storage) => storage.wait(time),
            Kind::Set { targets, .. } => targets.iter().for_each(|target| target.wait(time)),
            Kind::Server(served) => served.wait(time),
            Kind::Cluster(nodes) => nodes.wait(time),
        }
    }

    /// Nodes are there again, and nothing cuts their connections.
    pub fn recover(&self) {
        if let Kind::Cluster(nodes) = &self.place {
            for node in 0..nodes.count() {
                nodes.cut(node, false);
                nodes.restart(node);
            }
        }
    }

    /// What happens before a turn without any client. A day passes if one `fell_asleep`.
    pub fn pass(&self, turn: u32, fell_asleep: bool, faults: &[Fault], tell: impl Fn(String)) {
        self.on_their_way.arrive(turn);
        let pass_a_day = || {
            // Nothing is on its way for a day.
            self.on_their_way.arrive(u32::MAX);
            self.wait(DAY);
            tell("a day passes".to_owned());
        };
        if fell_asleep {
            pass_a_day();
        }
        for fault in faults {
            match *fault {
                Fault::Day { turn: at } if at == turn => pass_a_day(),
                Fault::Damage {
                    target,
                    turn: at,
                    pick,
                    how,
                } if at == turn => {
                    let damaged = match &self.place {
                        Kind::Set { targets, .. } => damage(&targets[target], pick, how),
                        Kind::Cluster(nodes) => nodes.damage(target, pick, how),
                        Kind::Memory(_) | Kind::Server(_) => None,
                    };
                    if let Some(name) = damaged {
                        tell(format!("target {target}: {name} is {how:?}"));
                    }
                }
                Fault::Emptied { target, turn: at } if at == turn => {
                    if let Kind::Set { targets, .. } = &self.place {
                        let target_of = &targets[target];
                        let mut objects = target_of.objects();
                        objects.retain(|name, _| is_own(*name));
                        target_of.set_all(objects);
                    } else if let Kind::Cluster(nodes) = &self.place {
                        nodes.empty(target);
                    }
                    tell(format!("target {target} is emptied"));
                }
                Fault::Behind {
                    target,
                    turn: from,
                    count,
                } => {
                    if let Kind::Cluster(nodes) = &self.place {
                        if from == turn {
                            nodes.stop(target);
                            tell(format!("node {target} ends"));
                        } else if from + count == turn {
                            nodes.restart(target);
                            tell(format!("node {target} starts again"));
                        }
                    }
                }
                Fault::Cut {
                    target,
                    turn: from,
                    count,
                } => {
                    if let Kind::Cluster(nodes) = &self.place
                        && (from == turn || from + count == turn)
                    {
                        nodes.cut(target, from == turn);
                        tell(format!(
                            "connections to node {target} are cut: {}",
                            from == turn
                        ));
                    }
                }
                _ => {}
            }
        }
    }
}

/// Damages an object; which one, and where, `pick` decides.
fn damage(target: &MemoryStorage, pick: u64, how: Damage) -> Option<Name> {
    let mut objects = target.objects();
    objects.retain(|name, _| !is_own(*name));
    let at = (pick % objects.len().max(1) as u64) as usize;
    let (name, bytes) = objects.into_iter().nth(at)?;
    match how.spoil(bytes, pick) {
        Some(bytes) => target.set(name, bytes),
        None => target.remove(name),
    }
    Some(name)
}

fn url(number: usize) -> String {
    format!("target-{number}")
}

fn set_place(number: usize, storage: Arc<dyn Storage>) -> SetPlace {
    SetPlace {
        url: url(number),
        storage,
    }
}
