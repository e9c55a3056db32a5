//! What happens in a run: who does what, on which storage, and what goes wrong.

use serde::{Deserialize, Serialize};
use tabane_testing::random::Random;

/// A run. It can be written down as JSON, and made smaller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Decides who has the next turn.
    pub seed: u64,
    /// Where the repository is.
    pub place: Place,
    /// A client has so many turns in a row, on average.
    pub row: u64,
    /// Sources of the snapshots that are there before all else, by number.
    pub before: Vec<u64>,
    /// The clients, which work at the same time.
    pub clients: Vec<Client>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
}

/// Where a repository is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// A storage in memory.
    Memory,
    /// A storage server in this process.
    Server,
    /// A set of so many targets in memory.
    Set(usize),
    /// A cluster of so many nodes in this process.
    Cluster(usize),
}

/// One client, that is a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// Whether its key cannot read.
    pub is_write_only: bool,
    /// Its commands, one after the other, each with a number that decides the rest.
    pub commands: Vec<(Command, u64)>,
}

/// A command of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Backs up one of the sources.
    BackUp,
    /// Forgets all snapshots but one, and prunes.
    ForgetAndPrune,
    /// Prunes.
    Prune,
    /// Makes one snapshot anew without some of its files, and forgets the old one.
    Rewrite,
    /// Restores one snapshot and compares it with its source.
    Restore,
    /// Heals the set.
    Heal,
    /// Adds a target to the set.
    Grow,
    /// Puts an empty target where the one of this number is.
    Replace,
    /// Adds a group of targets to the set.
    GrowGroup,
    /// Moves objects to newer groups.
    Rebalance,
    /// Empties the group of the target of this number, and takes it out of the set.
    Drain,
}

/// A change of a set's targets.
#[derive(Clone, Copy)]
pub enum Change {
    /// A target is added.
    Add,
    /// A group is added.
    AddGroup,
    /// A target is put in the place of this one.
    Replace(usize),
}

impl Command {
    /// The change of a set's targets that it makes, if it makes one.
    pub(crate) fn change(self, choice: u64) -> Option<Change> {
        match self {
            Self::Grow => Some(Change::Add),
            Self::GrowGroup => Some(Change::AddGroup),
            Self::Replace => Some(Change::Replace(choice as usize)),
            _ => None,
        }
    }
}

/// Something that goes wrong. Operations of a client at a target are counted from 0, over all of
/// its commands; turns are those of all clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Fault {
    /// The client is dead from this operation on, of those at all targets.
    Death {
        /// Which client.
        client: usize,
        /// From which of its operations on.
        at: u32,
    },
    /// A day passes while the client sleeps before this operation, of those at all targets.
    Nap {
        /// Which client.
        client: usize,
        /// Before which operation.
        at: u32,
        /// For so many turns of the others.
        count: u32,
    },
    /// The target does not answer the client.
    Away {
        /// Which client, and which target.
        seat: Seat,
        /// From which operation on.
        at: u32,
        /// For so many operations.
        count: u32,
    },
    /// The target has no room for what the client puts.
    Full {
        /// Which client, and which target.
        seat: Seat,
        /// From which operation on.
        at: u32,
        /// For so many operations.
        count: u32,
    },
    /// The operation takes effect, and the client hears that it has failed.
    Unheard {
        /// Which client, and which target.
        seat: Seat,
        /// Which operation.
        at: u32,
    },
    /// The client hears that the operation has failed, and it takes effect later.
    Late {
        /// Which client, and which target.
        seat: Seat,
        /// Which operation.
        at: u32,
        /// After so many turns.
        after: u32,
    },
    /// The operation takes effect, and does so once more later.
    Twice {
        /// Which client, and which target.
        seat: Seat,
        /// Which operation.
        at: u32,
        /// After so many turns.
        after: u32,
    },
    /// A day passes, after which any client may count as dead.
    Day {
        /// Before this turn.
        turn: u32,
    },
    /// An object of a target is damaged.
    Damage {
        /// Which target.
        target: usize,
        /// Before this turn.
        turn: u32,
        /// Decides which object, and where.
        pick: u64,
        /// In which way.
        how: Damage,
    },
    /// A target answers nobody for a while, and then is behind.
    Behind {
        /// Which target.
        target: usize,
        /// From which turn on.
        turn: u32,
        /// For so many turns.
        count: u32,
    },
    /// New connections to a node of a cluster are cut in the middle of what is sent to it.
    Cut {
        /// Which node.
        target: usize,
        /// From which turn on.
        turn: u32,
        /// For so many turns.
        count: u32,
    },
    /// A target has lost all objects but those that say what it is.
    Emptied {
        /// Which target.
        target: usize,
        /// Before this turn.
        turn: u32,
    },
}

/// A client at a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seat {
    /// Number of the client.
    pub client: usize,
    /// Number of the target.
    pub target: usize,
}

/// How an object is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Damage {
    /// One byte is another.
    Flipped,
    /// Its end is missing, as after a write that was cut off.
    Torn,
    /// It is gone.
    Gone,
}

impl Damage {
    /// What is left of an object that is damaged where `pick` says; `None` if nothing is.
    pub(crate) fn spoil(self, mut bytes: Vec<u8>, pick: u64) -> Option<Vec<u8>> {
        let place = (pick >> 32) as usize % bytes.len().max(1);
        match self {
            Self::Flipped => *bytes.get_mut(place)? ^= 1 << (pick >> 29 & 7),
            Self::Torn => bytes.truncate(place),
            Self::Gone => return None,
        }
        Some(bytes)
    }
}

/// Faults begin before this turn: most runs have as many.
const TURN_MAX: u64 = 300;

impl Plan {
    /// The run that this seed decides, at a place of this kind.
    pub fn from_seed(seed: u64, kind: PlaceKind) -> Self {
        let mut random = Random::new(seed);
        let place = match kind {
            PlaceKind::Memory => Place::Memory,
            PlaceKind::Server => Place::Server,
            PlaceKind::Set => Place::Set(3 + random.below(4) as usize),
            PlaceKind::Cluster => Place::Cluster(3 + random.below(4) as usize),
        };
        let has_writer = random.one_in(2);
        let mut plan = Self {
            seed,
            place,
            row: [1, 5, 30, 100][random.below(4) as usize],
            before: (0..random.below(3)).map(|_| random.below(6)).collect(),
            clients: clients(&mut random, place, has_writer),
            faults: Vec::new(),
        };
        let (faults, bad_targets) = match place {
            Place::Server => (death(&mut random, &plan).into_iter().collect(), Vec::new()),
            Place::Memory | Place::Set(_) | Place::Cluster(_) => faults(&mut random, &plan),
        };
        plan.faults = faults;
        for _ in 0..random.below(4) {
            let turn = random.below(TURN_MAX) as u32;
            plan.faults.push(Fault::Day { turn });
        }
        if matches!(place, Place::Set(_)) && random.one_in(2) {
            plan.clients.push(changer(&mut random, &bad_targets));
            if random.one_in(2) {
                let client = plan.clients.len() - 1;
                let at = random.below(100) as u32;
                plan.faults.push(Fault::Death { client, at });
            }
        }
        naps(&mut random, &mut plan);
        plan
    }

    /// This plan without one of its parts, in all ways.
    pub fn smaller(&self) -> Vec<Self> {
        let mut smaller = Vec::new();
        let mut without = |change: &dyn Fn(&mut Self)| {
            let mut plan = self.clone();
            change(&mut plan);
            smaller.push(plan);
        };
        for client in 0..self.clients.len() {
            // The others keep their numbers, which faults name.
            if !self.clients[client].commands.is_empty() {
                without(&|plan| plan.clients[client].commands.clear());
            }
        }
        for fault in 0..self.faults.len() {
            without(&|plan| _ = plan.faults.remove(fault));
        }
        for client in 0..self.clients.len() {
            let commands = self.clients[client].commands.len();
            for command in (0..commands).filter(|_| commands > 1) {
                without(&|plan| _ = plan.clients[client].commands.remove(command));
            }
        }
        for before in 0..self.before.len() {
            without(&|plan| _ = plan.before.remove(before));
        }
        smaller
    }

    /// Whether some client may be dead in the end.
    pub fn has_death(&self) -> bool {
        let mut faults = self.faults.iter();
        faults.any(|fault| matches!(fault, Fault::Death { .. }))
    }

    /// Whether objects are damaged.
    pub fn has_damage(&self) -> bool {
        let mut faults = self.faults.iter();
        faults.any(|fault| matches!(fault, Fault::Damage { .. }))
    }

    /// Whether storage does something else than it was told.
    pub fn has_storage_fault(&self) -> bool {
        let mut faults = self.faults.iter();
        faults.any(|fault| {
            !matches!(
                fault,
                Fault::Death { .. } | Fault::Nap { .. } | Fault::Day { .. }
            )
        })
    }
}

/// Kinds of [`Place`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PlaceKind {
    /// A storage in memory
    Memory,
    /// A storage server in this process
    Server,
    /// A set of three to six targets in memory, of which two have faults
    Set,
    /// A cluster of three to six nodes in this process, of which two have faults
    Cluster,
}

fn clients(random: &mut Random, place: Place, has_writer: bool) -> Vec<Client> {
    use Command::{BackUp, ForgetAndPrune, Heal, Prune, Restore, Rewrite};
    let mut all = vec![
        (false, vec![BackUp; 2]),
        (false, vec![ForgetAndPrune; 1 + random.below(2) as usize]),
    ];
    for commands in [
        vec![BackUp],
        vec![Prune],
        vec![Rewrite; 2],
        vec![Restore; 2],
    ] {
        if random.one_in(2) {
            all.push((false, commands));
        }
    }
    if has_writer {
        all.push((true, vec![BackUp; 2]));
    }
    if matches!(place, Place::Set(_)) && random.one_in(2) {
        all.push((false, vec![Heal; 1 + random.below(2) as usize]));
    }
    let mut numbered = |commands: Vec<Command>| -> Vec<(Command, u64)> {
        let commands = commands.into_iter();
        commands
            .map(|command| (command, random.below(100)))
            .collect()
    };
    all.into_iter()
        .map(|(is_write_only, commands)| Client {
            is_write_only,
            commands: numbered(commands),
        })
        .collect()
}

/// A client that changes the targets of the set. Only a target that has faults is replaced: until
/// the heal is over, the new one lacks what the old one had.
fn changer(random: &mut Random, bad_targets: &[usize]) -> Client {
    let replaced = bad_targets[random.below(bad_targets.len() as u64) as usize] as u64;
    let mut commands = vec![(Command::Grow, 0), (Command::Replace, replaced)];
    if random.one_in(2) {
        commands.swap(0, 1);
    }
    commands.truncate(1 + random.below(2) as usize);
    commands.insert(1, (Command::Heal, random.below(2)));
    if random.one_in(2) {
        let at = random.below(2) as usize;
        commands.insert(at, (Command::GrowGroup, 0));
        commands.push((Command::Rebalance, 0));
        if random.one_in(2) {
            commands.push((Command::Drain, random.below(6)));
        }
    }
    Client {
        is_write_only: false,
        commands,
    }
}

/// In half of the runs, the death of a client.
fn death(random: &mut Random, plan: &Plan) -> Option<Fault> {
    random.one_in(2).then(|| Fault::Death {
        client: random.below(plan.clients.len() as u64) as usize,
        at: random.below(100) as u32,
    })
}

/// Up to three times, a client falls asleep for long, and may die when it has gone on a little.
fn naps(random: &mut Random, plan: &mut Plan) {
    for _ in 0..random.below(4) {
        let client = random.below(plan.clients.len() as u64) as usize;
        let at = random.below(60) as u32;
        let count = random.below(TURN_MAX / 2) as u32;
        plan.faults.push(Fault::Nap { client, at, count });
        if random.one_in(3) {
            let at = at + random.below(4) as u32;
            plan.faults.push(Fault::Death { client, at });
        }
    }
}

/// What goes wrong in a run, and at which targets: two of a set, since it does not promise to
/// survive more.
fn faults(random: &mut Random, plan: &Plan) -> (Vec<Fault>, Vec<usize>) {
    let mut faults: Vec<Fault> = (0..2).filter_map(|_| death(random, plan)).collect();
    let targets = match plan.place {
        Place::Set(count) | Place::Cluster(count) => {
            let first = random.below(count as u64) as usize;
            let step = 1 + random.below(count as u64 - 1) as usize;
            vec![first, (first + step) % count]
        }
        Place::Memory | Place::Server => vec![0],
    };
    let count = [0, 1, 3, 10][random.below(4) as usize];
    for _ in 0..count {
        let target = targets[random.below(targets.len() as u64) as usize];
        let client = random.below(plan.clients.len() as u64) as usize;
        let seat = Seat { client, target };
        let at = random.below(60) as u32;
        let after = random.below(40) as u32;
        let turn = random.below(TURN_MAX) as u32;
        // Storage that damages what it alone has is not survived, only found out. What a client
        // hears of a node is what the node says.
        let kinds = match plan.place {
            Place::Cluster(_) => 6..14,
            Place::Set(_) => 0..12,
            Place::Memory | Place::Server => 0..6,
        };
        faults.push(match kinds.start + random.below(kinds.end - kinds.start) {
            0 => Fault::Full {
                seat,
                at,
                count: 1 + random.below(30) as u32,
            },
            1 => Fault::Unheard { seat, at },
            2 => Fault::Late { seat, at, after },
            3 => Fault::Twice { seat, at, after },
            4 | 5 => Fault::Away {
                seat,
                at,
                count: 1 + random.below(30) as u32,
            },
            6 | 7 => Fault::Behind {
                target,
                turn,
                count: random.below(TURN_MAX / 2) as u32,
            },
            8 => Fault::Emptied { target, turn },
            kind @ 9..12 => Fault::Damage {
                target,
                turn,
                pick: random.next_u64(),
                how: [Damage::Flipped, Damage::Torn, Damage::Gone][kind as usize - 9],
            },
            _ => Fault::Cut {
                target,
                turn,
                count: random.below(TURN_MAX / 2) as u32,
            },
        });
    }
    (faults, targets)
}
