//! Removal: backups, prunes and a forget at work on one repository at the same time.
//!
//! The rules are those of `crates/store/src/access/removal.rs`. A step is one operation of the
//! storage, and any client may take the next one, so a client may sleep between any two steps for
//! as long as it likes: what it puts takes effect late. A client that sleeps for ever is one that
//! died. A prune knows only what presences say, so what it thinks of other clients is chosen anew
//! at each look.

pub mod backup;
pub mod prune;
pub mod steps;
pub mod world;
pub mod writer;

use stateright::{Model, Property};

use backup::{Backup, Fate, Job};
use prune::{End, Judgement, Look, Others, Prune};
use steps::Step;
use world::{
    Blocks, FIRST_NEEDS, FIRST_TREE, Objects, World, bits, objects_of_backup, snapshots_of,
};

/// Backups that a model can have.
pub const BACKUPS_MAX: usize = 3;
/// Prunes that a model can have.
pub const PRUNES_MAX: usize = 2;

/// A part of the rules, which can be taken out to see what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Rule 1: a removal that names the packs is durable before one of them is deleted.
    RemovalFirst,
    /// Rule 2: a prune lists everything again after its removal was written.
    ListAgain,
    /// Rule 2: what it lists was there at one moment: all is listed twice, if not in order.
    ListTwice,
    /// Rule 2: what is needed and only in condemned packs is copied first.
    CopyOut,
    /// Rule 3: who makes a snapshot takes condemned packs for absent.
    CondemnedIsAbsent,
    /// Rule 3: it announces the snapshot.
    PendingFirst,
    /// Rule 3: it lists removals when the snapshot is there.
    ListAfter,
    /// The last removal stays.
    LastRemovalStays,
    /// So does that which was the last one when a prune began. Nothing in the model needs it: where
    /// a list takes time, one that is made while a removal replaces another may lack both.
    LastBeforeStays,
    /// A prune that rewrites index objects looks at the removals before and behind.
    RewriteWaits,
    /// What it writes names no pack that a removal names, even if the pack is there.
    RewriteDropsCondemned,
    /// A prune that does not look again writes its removal only when it has rewritten the index:
    /// snapshots may rely by now on what it condemns.
    RewriteBeforeRemoval,
    /// What a prune has verified stays named, whatever others have removed since: they may have
    /// removed what named it before.
    VerifiedStays,
    /// A writer leaves its index object if the packs are there, though condemned: somebody may
    /// rely on them already.
    OnlyGoneIsTakenBack,
}

/// The rules that hold.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules(u16);

impl Rules {
    /// All but these.
    pub fn without(rules: &[Rule]) -> Self {
        Self(rules.iter().fold(0, |out, &rule| out | 1 << rule as u16))
    }

    /// Whether a rule holds.
    pub fn hold(self, rule: Rule) -> bool {
        self.0 & 1 << rule as u16 == 0
    }
}

/// How many clients there are, and what they do.
#[derive(Clone, Debug)]
pub struct Removal {
    /// The blocks of data that the snapshots of backups need.
    pub backups: Vec<Blocks>,
    /// Backups that trust a cache, as bits.
    pub cached: u8,
    /// Backups with a write-only key, as bits.
    pub write_only: u8,
    /// Number of prunes.
    pub prunes: usize,
    /// Whether the snapshots of backups are forgotten too.
    pub forgets_all: bool,
    /// The first snapshot was forgotten before, and a prune has condemned its tree, with clients at
    /// work: nothing is deleted yet. There can be one other prune.
    pub half_removed: bool,
    /// Prunes begin when all backups have ended: then those that sleep for long can all be tried.
    pub prunes_follow: bool,
    /// Whether the storage is far, so that prunes list all kinds at once.
    pub is_far: bool,
    /// What prunes think of others.
    pub judgements: Vec<Judgement>,
    /// The rules that hold.
    pub rules: Rules,
}

impl Removal {
    /// So many backups and prunes.
    ///
    /// # Panics
    /// When there are more than [`BACKUPS_MAX`] or [`PRUNES_MAX`].
    pub fn new(backups: usize, prunes: usize) -> Self {
        assert!(
            backups <= BACKUPS_MAX && prunes <= PRUNES_MAX,
            "too many clients"
        );
        Self {
            backups: [0b101, 0b110, 0b100][..backups].to_vec(),
            cached: 0,
            write_only: 0,
            prunes,
            forgets_all: false,
            half_removed: false,
            prunes_follow: false,
            is_far: false,
            judgements: Judgement::ALL.to_vec(),
            rules: Rules::default(),
        }
    }

    /// The same without these rules.
    #[must_use]
    pub fn without(mut self, rules: &[Rule]) -> Self {
        self.rules = Rules::without(rules);
        self
    }

    /// Index objects that nobody has verified: those of backups with write-only keys.
    fn unverified(&self) -> Objects {
        let backups = bits(self.write_only);
        backups.fold(0, |objects, backup| objects | objects_of_backup(backup))
    }

    /// What the snapshot of a backup needs: its data, and its own tree.
    fn needs(&self, backup: usize) -> Blocks {
        self.backups[backup] | FIRST_TREE << (1 + backup)
    }

    /// What there is besides a prune.
    fn others(&self) -> Others {
        let backups = 0..self.backups.len();
        Others {
            is_far: self.is_far,
            needs: backups.map(|backup| self.needs(backup)).collect(),
            unverified: self.unverified(),
        }
    }

    /// What the snapshot at this bit needs.
    fn needs_of(&self, snapshot: usize) -> Blocks {
        let of = |backup: &usize| snapshots_of(*backup) & 1 << snapshot != 0;
        match (0..self.backups.len()).find(of) {
            Some(backup) => self.needs(backup),
            None => FIRST_NEEDS,
        }
    }
}

/// The repository and everybody at work on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// What is stored.
    pub world: World,
    /// Backups.
    pub backups: [Backup; BACKUPS_MAX],
    /// Prunes.
    pub prunes: [Prune; PRUNES_MAX],
}

/// Who takes the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A backup.
    Backup(usize),
    /// A prune; its look counts only where it lists.
    Prune(usize, Look),
    /// Somebody forgets a snapshot.
    Forget(usize),
}

impl Action {
    /// The step that is taken.
    pub fn step(self, state: &State) -> Step {
        match self {
            Self::Backup(number) => state.backups[number].step(),
            Self::Prune(number, look) => state.prunes[number].step(look),
            Self::Forget(_) => Step::ForgetDeleteSnapshot,
        }
    }
}

impl Model for Removal {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let world = if self.half_removed {
            World::with_half_a_removal()
        } else {
            World::with_one_snapshot()
        };
        vec![State {
            world,
            backups: Default::default(),
            prunes: Default::default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for number in 0..self.backups.len() {
            if !state.backups[number].has_ended() {
                actions.push(Action::Backup(number));
            }
        }
        let mut backups = state.backups[..self.backups.len()].iter();
        let prunes = if self.prunes_follow && !backups.all(Backup::has_ended) {
            0
        } else {
            self.prunes
        };
        let others = self.others();
        for number in 0..prunes {
            let prune = &state.prunes[number];
            if !prune.has_ended() {
                let looks = prune
                    .looks(&others, &self.judgements, self.rules)
                    .into_iter();
                actions.extend(looks.map(|look| Action::Prune(number, look)));
            }
        }
        let forgettable = if self.forgets_all { u16::MAX } else { 1 };
        for snapshot in bits(state.world.promised & forgettable) {
            actions.push(Action::Forget(snapshot));
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        let world = &mut next.world;
        match action {
            Action::Backup(number) => {
                let job = Job {
                    number,
                    needs: self.needs(number),
                    cached: self.cached & 1 << number != 0,
                    write_only: self.write_only & 1 << number != 0,
                    unverified: self.unverified(),
                };
                next.backups[number].advance(world, job, self.rules);
            }
            Action::Prune(number, look) => {
                next.prunes[number].advance(world, number, look, &self.others(), self.rules);
            }
            Action::Forget(snapshot) => {
                world.promised &= !(1 << snapshot);
                world.snapshots &= !(1 << snapshot);
            }
        }
        let listed = |world: &World| (world.removals, world.objects, world.packs);
        if listed(&state.world) != listed(&next.world) {
            next.prunes.iter_mut().for_each(Prune::disturb);
        }
        Some(next)
    }

    fn format_step(&self, state: &State, action: Action) -> Option<String> {
        Some(format!("{action:?}: {}", action.step(state).name()))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(CONFIRMED_IS_WHOLE, |model: &Self, state: &State| {
                let (world, there) = (&state.world, state.world.readable());
                world.promised & !world.snapshots == 0
                    && bits(world.promised).all(|id| model.needs_of(id) & !there == 0)
            }),
            Property::always(ONLY_ANNOUNCED_LACKS, |model: &Self, state: &State| {
                let (world, there) = (&state.world, state.world.readable());
                bits(world.snapshots).all(|id| {
                    let is_announced = world.pending & 1 << id != 0;
                    is_announced || model.needs_of(id) & !there == 0
                })
            }),
            Property::always(PRUNE_GOES_ON, |_, state: &State| {
                let stuck = |prune: &Prune| prune.end == End::CannotPrune;
                !state.prunes.iter().any(stuck)
            }),
            Property::always(CLEAN_AT_THE_END, |model: &Self, state: &State| {
                let (backups, prunes) = (model.backups.len(), model.prunes);
                let have_ended = state.backups[..backups].iter().all(Backup::has_ended)
                    && state.prunes[..prunes].iter().all(Prune::has_ended);
                let world = &state.world;
                !have_ended || (world.lost() == 0 && world.pending == 0)
            }),
            Property::sometimes("a backup is made", |_, state: &State| {
                state.backups.iter().any(|backup| backup.fate == Fate::Made)
            }),
            Property::sometimes("a backup is refused", |_, state: &State| {
                state
                    .backups
                    .iter()
                    .any(|backup| backup.fate == Fate::Refused)
            }),
            Property::sometimes("a backup begins its commit anew", |_, state: &State| {
                state.backups.iter().any(Backup::began_anew)
            }),
            Property::sometimes(
                "a backup copies out of condemned packs",
                |_, state: &State| state.backups.iter().any(Backup::copied),
            ),
            Property::sometimes("a pack is deleted", |_, state: &State| {
                state.world.packs & 0b10 == 0
            }),
            Property::sometimes("a prune ends well", |_, state: &State| {
                state.prunes.iter().any(|prune| prune.end == End::Done)
            }),
        ]
    }
}

/// What was promised is there.
pub const CONFIRMED_IS_WHOLE: &str =
    "a snapshot that somebody was told of is there and whole, until somebody forgets it";
/// What a reader can rely on.
pub const ONLY_ANNOUNCED_LACKS: &str =
    "a snapshot lacks something only while its pending object is there";
/// Nothing needs a human.
pub const PRUNE_GOES_ON: &str = "no prune gives up because a snapshot lacks something";
/// Nothing is left over.
pub const CLEAN_AT_THE_END: &str =
    "at the end nothing is pending, and the index names only packs that are there or condemned";
