//! A backup: finds what is there, writes the rest, commits a snapshot (`operations/backup`,
//! `operations/commit.rs` of the store).

use super::steps::Step;
use super::world::{
    ATTEMPTS_MAX, Blocks, COPIES_MAX, Objects, Packs, Removals, World, bits, objects_of_backup,
    place_of_backup, snapshot_of,
};
use super::writer::{Writer, Written};
use super::{Rule, Rules};

/// Where a backup stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum At {
    #[default]
    ListRemovals,
    ListUnverified,
    ListObjects,
    ListPacks,
    Write,
    Look,
    PutPending,
    Check,
    CopyListRemovals,
    CopyListUnverified,
    CopyListObjects,
    CopyListPacks,
    CopyRead,
    CopyWrite,
    PutSnapshot,
    Confirm,
    TakeBack,
    DropPending,
    Ended,
}

/// What became of it, or is about to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fate {
    /// Nothing is decided.
    #[default]
    Open,
    /// The snapshot is confirmed.
    Made,
    /// The client was told that something was removed meanwhile.
    Refused,
}

/// A backup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Backup {
    at: At,
    /// What became of it.
    pub fate: Fate,
    attempt: u8,
    copies: u8,
    /// The removals were those that are taken into account, before the pending object was there.
    looked: bool,
    /// The removals that its blocks are safe from.
    secured: Removals,
    /// Those that were listed for the index that is being loaded.
    listed: Removals,
    /// The packs that the index names.
    named: Packs,
    /// Packs that its cache says are there.
    trusted: Packs,
    /// Packs that it reads to copy blocks.
    pub sources: Packs,
    writer: Writer,
}

/// What a backup is about.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Its number.
    pub number: usize,
    /// The blocks that its snapshot needs, its own tree among them.
    pub needs: Blocks,
    /// Whether it has a cache: it asks for packs only when it reads an index object first.
    pub cached: bool,
    /// Whether it has a write-only key, and so cannot copy.
    pub write_only: bool,
    /// Index objects of all such backups.
    pub unverified: Objects,
}

impl Backup {
    /// Whether it takes no more steps.
    pub fn has_ended(&self) -> bool {
        self.at == At::Ended
    }

    /// Whether it took a snapshot back.
    pub fn began_anew(&self) -> bool {
        self.attempt > 0
    }

    /// Whether it copied blocks out of condemned packs.
    pub fn copied(&self) -> bool {
        self.copies > 0
    }

    /// The step that is next.
    pub fn step(&self) -> Step {
        match self.at {
            At::ListRemovals | At::CopyListRemovals => Step::IndexListRemovals,
            At::ListUnverified | At::CopyListUnverified => Step::IndexListUnverified,
            At::ListObjects | At::CopyListObjects => Step::IndexListObjects,
            At::ListPacks | At::CopyListPacks => Step::IndexListPacks,
            At::Write | At::CopyWrite => self.writer.step(),
            At::Look => Step::CommitLook,
            At::PutPending => Step::CommitPutPending,
            At::Check => Step::CommitListRemovals,
            At::CopyRead => Step::RepackReadPacks,
            At::PutSnapshot => Step::CommitPutSnapshot,
            At::Confirm => Step::CommitConfirm,
            At::TakeBack => Step::CommitDeleteSnapshot,
            At::DropPending | At::Ended => Step::CommitDeletePending,
        }
    }

    /// Takes it.
    pub fn advance(&mut self, world: &mut World, job: Job, rules: Rules) {
        let snapshot = snapshot_of(job.number, self.attempt);
        self.at = match self.at {
            At::ListRemovals => {
                self.secured = world.removals;
                if job.write_only {
                    At::ListUnverified
                } else {
                    At::ListObjects
                }
            }
            At::ListUnverified => {
                // It relies on what it wrote itself.
                let own = objects_of_backup(job.number);
                self.named = world.named_by_all(world.objects & own);
                At::ListObjects
            }
            At::ListObjects => {
                self.named |= world.named_by_all(world.objects & !job.unverified);
                if job.cached {
                    self.trusted = world.trusted();
                }
                At::ListPacks
            }
            At::ListPacks => {
                let there = (world.packs | self.trusted) & self.named;
                let condemned = if rules.hold(Rule::CondemnedIsAbsent) {
                    world.condemned_by(self.secured)
                } else {
                    0
                };
                let missing = job.needs & !world.blocks_of(there & !condemned);
                (self.named, self.trusted) = (0, 0);
                self.writer = Writer::new(missing, self.secured);
                At::Write
            }
            At::Write => {
                let place = place_of_backup(job.number, 0);
                match self.writer.advance(world, place, rules) {
                    Written::Writing => At::Write,
                    Written::Done => At::Look,
                    Written::Removed => self.refused(At::Ended),
                }
            }
            At::Look => {
                self.looked = world.removals == self.secured;
                At::PutPending
            }
            At::PutPending => {
                if rules.hold(Rule::PendingFirst) {
                    world.pending |= snapshot;
                }
                if std::mem::take(&mut self.looked) {
                    At::PutSnapshot
                } else {
                    At::Check
                }
            }
            At::Check if world.removals == self.secured => At::PutSnapshot,
            // It cannot copy what is condemned: the backup is made again.
            At::Check if job.write_only => self.refused(At::DropPending),
            At::Check => At::CopyListRemovals,
            At::CopyListRemovals => {
                self.listed = world.removals;
                match job.unverified {
                    0 => At::CopyListObjects,
                    _ => At::CopyListUnverified,
                }
            }
            At::CopyListUnverified => {
                self.named = world.named_by_all(world.objects & job.unverified);
                At::CopyListObjects
            }
            At::CopyListObjects => {
                self.named |= world.named_by_all(world.objects & !job.unverified);
                At::CopyListPacks
            }
            At::CopyListPacks => self.plan_copy(world, job),
            At::CopyRead if world.packs & self.sources != self.sources => {
                self.refused(At::DropPending)
            }
            At::CopyRead => {
                self.sources = 0;
                self.copies += 1;
                At::CopyWrite
            }
            At::CopyWrite => {
                let place = place_of_backup(job.number, usize::from(self.copies));
                match self.writer.advance(world, place, rules) {
                    Written::Writing => At::CopyWrite,
                    Written::Done => self.secure(),
                    Written::Removed => self.refused(At::DropPending),
                }
            }
            At::PutSnapshot => {
                world.snapshots |= snapshot;
                At::Confirm
            }
            At::Confirm if world.removals == self.secured || !rules.hold(Rule::ListAfter) => {
                world.promised |= snapshot;
                self.fate = Fate::Made;
                At::DropPending
            }
            At::Confirm => At::TakeBack,
            At::TakeBack => {
                world.snapshots &= !snapshot;
                At::DropPending
            }
            At::DropPending => {
                world.pending &= !snapshot;
                match self.fate {
                    Fate::Open => {
                        self.attempt += 1;
                        assert!(usize::from(self.attempt) < ATTEMPTS_MAX, "too few attempts");
                        At::Look
                    }
                    Fate::Made | Fate::Refused => At::Ended,
                }
            }
            At::Ended => unreachable!("a backup that has ended takes no step"),
        };
        if self.at == At::Ended {
            // What it knew no longer tells states apart.
            (self.secured, self.listed) = (0, 0);
        }
    }

    /// Says which blocks are to be copied, now that the index is loaded.
    fn plan_copy(&mut self, world: &World, job: Job) -> At {
        let there = world.packs & std::mem::take(&mut self.named);
        let condemned = world.condemned_by(self.listed);
        let wanted = job.needs & !world.blocks_of(there & !condemned);
        if wanted & !world.blocks_of(there) != 0 {
            return self.refused(At::DropPending);
        }
        if wanted == 0 {
            return self.secure();
        }
        assert!(
            usize::from(self.copies) < COPIES_MAX,
            "too few slots for copies"
        );
        for block in bits(wanted) {
            let pack = world.find(block, there, condemned, false);
            self.sources |= 1 << pack.expect("it was looked for");
        }
        // The copies are written as if nothing were known of removals.
        self.writer = Writer::new(wanted, 0);
        At::CopyRead
    }

    fn secure(&mut self) -> At {
        self.secured = std::mem::take(&mut self.listed);
        At::Check
    }

    fn refused(&mut self, next: At) -> At {
        self.fate = Fate::Refused;
        (self.listed, self.sources) = (0, 0);
        self.writer = Writer::default();
        next
    }
}
