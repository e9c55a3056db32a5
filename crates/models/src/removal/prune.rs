//! A prune: lists, copies, condemns, lists again, deletes, and makes the index fit
//! (`operations/prune` of the store). It lists the kinds of objects
//! one after the other; where storage is far all at once, which is in any order, twice, and begins
//! again if the lists differ. There it deletes packs beside the work on the index, too.

use super::steps::Step;
use super::world::{
    Blocks, FIRST_NEEDS, Objects, PACK_SLOTS, Packs, Removals, Snapshots, World, bits,
    place_of_prune, rewritten_object, snapshots_of, verified_object,
};
use super::writer::{Writer, Written};
use super::{Rule, Rules};

/// What a prune thinks of other clients, right or wrong: it knows only what their presences say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Judgement {
    /// There are none, or all of them are dead.
    #[default]
    AllDead,
    /// One is at work that began after all that is listed was put.
    BeganLater,
    /// One is at work that began before anything that may go was put.
    BeganEarlier,
}

impl Judgement {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::AllDead, Self::BeganLater, Self::BeganEarlier];
}

/// A kind of objects that a prune lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Removals.
    #[default]
    Removals,
    /// Pending snapshots.
    Pending,
    /// Snapshots.
    Snapshots,
    /// Index objects that nobody has verified.
    Unverified,
    /// Index objects.
    Objects,
    /// Packs.
    Packs,
}

impl Kind {
    const ALL: [Self; 6] = [
        Self::Removals,
        Self::Pending,
        Self::Snapshots,
        Self::Unverified,
        Self::Objects,
        Self::Packs,
    ];
}

/// What a prune does next, if it can choose: what it lists, and what it thinks of others when it
/// has listed all; or whether it deletes a pack beside its other work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Look {
    /// What it lists.
    pub kind: Kind,
    /// What it thinks of others.
    pub judgement: Judgement,
    deletes_pack: bool,
}

/// Where a prune stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum At {
    #[default]
    List,
    VerifyCheck,
    VerifyPut,
    VerifyDelete,
    Read,
    Write,
    DeletePack,
    PutRemoval,
    Check,
    PutNew,
    Confirm,
    DeleteNew,
    DeleteOld,
    DeleteRemoval,
    DeleteSnapshot,
    DeletePending,
    ListNamed,
    DeleteUnverified,
    Ended,
}

/// How a prune ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum End {
    /// It has not.
    #[default]
    Open,
    /// All is done.
    Done,
    /// Another one was faster; the next goes on.
    Overtaken,
    /// A snapshot that should be whole lacks something.
    CannotPrune,
}

/// What there is besides a prune.
#[derive(Clone, Debug)]
pub struct Others {
    /// Whether the storage is far.
    pub is_far: bool,
    /// The blocks that the snapshots of backups need.
    pub needs: Vec<Blocks>,
    /// The index objects of backups with write-only keys.
    pub unverified: Objects,
}

/// What a prune does after it has named what it has verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Then {
    Copy,
    #[default]
    Delete,
}

/// What a prune has listed, and what follows from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct View {
    removals: Removals,
    /// Those that a newer one has superseded.
    superseded: Removals,
    pending: Snapshots,
    snapshots: Snapshots,
    objects: Objects,
    unverified: Objects,
    packs: Packs,
    judgement: Judgement,
    /// Snapshots that lack something and whose clients seem dead.
    unconfirmed: Snapshots,
    /// Pending ones that have served their purpose.
    settled: Snapshots,
}

/// A prune.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Prune {
    at: At,
    /// The kinds that are listed, and those that are listed twice, as bits.
    listed: [u8; 2],
    /// How it ended.
    pub end: End,
    view: View,
    /// Whether the view is the second one, made after the removal was written.
    second: bool,
    /// Whether a view was incomplete before.
    tried: bool,
    /// Whether anybody changed removals, index or packs since then.
    disturbed: bool,
    /// Packs that it reads to copy blocks.
    pub sources: Packs,
    writer: Writer,
    /// Packs that are to be deleted now.
    due: Packs,
    /// Packs that the index is to name no more.
    gone: Packs,
    /// Packs that the removal is to name.
    condemn: Packs,
    /// Packs that it has verified and is about to name.
    verified: Packs,
    /// What is next when they are named.
    then: Then,
    /// Unverified index objects that go, when all is done.
    claims: Objects,
    /// Removals that were superseded when it began; they go if all that they name is gone.
    superseded: Removals,
    /// The removals beside which the index may be rewritten.
    expected: Removals,
    /// Index objects that are to be replaced.
    old: Objects,
}

impl Prune {
    /// Whether it takes no more steps.
    pub fn has_ended(&self) -> bool {
        self.at == At::Ended && self.due == 0
    }

    /// Whether it is about to list everything.
    pub fn begins_view(&self) -> bool {
        self.at == At::List && self.listed == [0; 2]
    }

    /// Whether what it has listed has a snapshot that lacks something and seems abandoned.
    pub fn sees_unconfirmed(&self) -> bool {
        self.view.unconfirmed != 0
    }

    /// Hears that removals, index or packs have changed.
    pub fn disturb(&mut self) {
        self.disturbed |= self.tried;
    }

    /// The ways in which it can take its next step.
    pub fn looks(&self, others: &Others, judgements: &[Judgement], rules: Rules) -> Vec<Look> {
        if self.at != At::List {
            let step = |deletes_pack| Look {
                deletes_pack,
                ..Look::default()
            };
            return match self.at {
                _ if self.due == 0 => vec![step(false)],
                At::Check | At::PutNew | At::Confirm | At::DeleteNew => {
                    vec![step(false), step(true)]
                }
                At::DeleteOld | At::Ended => vec![step(true)],
                _ => vec![step(false)],
            };
        }
        let unlisted = self.unlisted(others, rules);
        let judgements = match unlisted[..] {
            [_] => judgements,
            _ => &[Judgement::AllDead],
        };
        let judged = |kind| {
            judgements.iter().map(move |&judgement| Look {
                kind,
                judgement,
                deletes_pack: false,
            })
        };
        unlisted.into_iter().flat_map(judged).collect()
    }

    /// The kinds that it can list now: packs are only in the second round.
    fn unlisted(&self, others: &Others, rules: Rules) -> Vec<Kind> {
        let unlisted = |listed: u8| {
            let kinds = Kind::ALL.into_iter();
            let kinds = kinds.filter(move |&kind| listed & 1 << kind as u8 == 0);
            kinds.filter(|&kind| kind != Kind::Unverified || others.unverified != 0)
        };
        let first = unlisted(self.listed[0]).filter(|&kind| kind != Kind::Packs);
        let first: Vec<Kind> = first.collect();
        if !first.is_empty() {
            let at_once = if others.is_far { first.len() } else { 1 };
            return first[..at_once].to_vec();
        }
        let lists_twice = others.is_far && rules.hold(Rule::ListTwice);
        let is_again = |kind: &Kind| *kind == Kind::Packs || lists_twice;
        unlisted(self.listed[1]).filter(is_again).collect()
    }

    /// The step that is next, if it looks so.
    pub fn step(&self, look: Look) -> Step {
        match self.at {
            _ if look.deletes_pack => Step::PruneDeletePack,
            At::List => match look.kind {
                Kind::Removals => Step::ViewListRemovals,
                Kind::Pending => Step::ViewListPending,
                Kind::Snapshots => Step::ViewListSnapshots,
                Kind::Unverified => Step::ViewListUnverified,
                Kind::Objects => Step::ViewListObjects,
                Kind::Packs => Step::ViewListPacks,
            },
            At::VerifyCheck => Step::VerifyListRemovals,
            At::VerifyPut => Step::VerifyPutIndex,
            At::VerifyDelete => Step::VerifyPutIndex,
            At::ListNamed => Step::VerifyListObjects,
            At::DeleteUnverified => Step::VerifyDeleteUnverified,
            At::Read => Step::RepackReadPacks,
            At::Write => self.writer.step(),
            At::DeletePack => Step::PruneDeletePack,
            At::PutRemoval => Step::PrunePutRemoval,
            At::Check => Step::RewriteListRemovals,
            At::PutNew => Step::RewritePutIndex,
            At::Confirm => Step::RewriteConfirm,
            At::DeleteNew => Step::RewriteDeleteNew,
            At::DeleteOld => Step::RewriteDeleteOld,
            At::DeleteRemoval => Step::TidyDeleteRemoval,
            At::DeleteSnapshot => Step::TidyDeleteSnapshot,
            At::DeletePending | At::Ended => Step::TidyDeletePending,
        }
    }

    /// Takes it.
    pub fn advance(
        &mut self,
        world: &mut World,
        number: usize,
        look: Look,
        others: &Others,
        rules: Rules,
    ) {
        self.at = match self.at {
            at if look.deletes_pack => {
                world.packs &= !take_lowest(&mut self.due);
                at
            }
            At::List => {
                self.list(world, number, look, others, rules);
                if self.unlisted(others, rules).is_empty() {
                    self.listed = [0; 2];
                    self.plan(world, number, &others.needs, rules)
                } else {
                    At::List
                }
            }
            // Others have been at work for long: what it knows is old.
            At::VerifyCheck if world.removals != self.expected => self.end(End::Overtaken),
            At::VerifyCheck => At::VerifyPut,
            At::VerifyPut => {
                world.put_verified(number, std::mem::take(&mut self.verified));
                self.view.objects |= 1 << verified_object(number);
                match std::mem::take(&mut self.then) {
                    _ if !rules.hold(Rule::VerifiedStays) => At::VerifyDelete,
                    Then::Copy => At::Read,
                    Then::Delete => At::DeletePack,
                }
            }
            At::VerifyDelete => {
                world.delete_objects(1 << verified_object(number));
                self.end(End::Overtaken)
            }
            At::Read if world.packs & self.sources != self.sources => self.end(End::Overtaken),
            At::Read => {
                self.sources = 0;
                At::Write
            }
            At::Write => {
                let place = place_of_prune(number, self.second);
                match self.writer.advance(world, place, rules) {
                    Written::Writing => At::Write,
                    Written::Done => At::DeletePack,
                    Written::Removed => self.end(End::Overtaken),
                }
            }
            At::DeletePack => {
                world.packs &= !take_lowest(&mut self.due);
                At::DeletePack
            }
            At::PutRemoval => self.put_removal(world, number, rules),
            At::Check if world.removals != self.expected && rules.hold(Rule::RewriteWaits) => {
                self.end(End::Overtaken)
            }
            At::Check => At::PutNew,
            At::PutNew => {
                world.put_rewritten(number);
                At::Confirm
            }
            At::Confirm if world.removals != self.expected && rules.hold(Rule::RewriteWaits) => {
                match world.objects & 1 << rewritten_object(number) {
                    0 => self.end(End::Overtaken),
                    _ => At::DeleteNew,
                }
            }
            At::Confirm => At::DeleteOld,
            At::DeleteNew => {
                world.delete_objects(1 << rewritten_object(number));
                self.end(End::Overtaken)
            }
            At::DeleteOld => {
                world.delete_objects(take_lowest(&mut self.old));
                At::DeleteOld
            }
            At::DeleteRemoval => {
                world.removals &= !take_lowest(&mut self.superseded);
                At::DeleteRemoval
            }
            At::DeleteSnapshot => {
                world.snapshots &= !take_lowest(&mut self.view.unconfirmed);
                At::DeleteSnapshot
            }
            At::DeletePending => {
                world.pending &= !take_lowest(&mut self.view.settled);
                At::DeletePending
            }
            At::ListNamed => {
                let named = world.named_by_all(world.objects & !others.unverified);
                let done = |&object: &usize| world.named_by(object) & !(named | self.gone) == 0;
                let claims = bits(world.objects & others.unverified).filter(done);
                self.claims = claims.fold(0, |objects, object| objects | 1 << object);
                self.gone = 0;
                At::DeleteUnverified
            }
            At::DeleteUnverified => {
                world.delete_objects(take_lowest(&mut self.claims));
                At::DeleteUnverified
            }
            At::Ended => unreachable!("a prune that has ended takes no step"),
        };
        self.pass_over(world, number, others.is_far, rules);
    }

    fn list(&mut self, world: &World, number: usize, look: Look, others: &Others, rules: Rules) {
        let mut view = self.view.clone();
        match look.kind {
            Kind::Removals => {
                view.removals = world.removals;
                if !self.second {
                    view.superseded = world.removals;
                    if rules.hold(Rule::LastBeforeStays) {
                        view.superseded &= !world.newest;
                    }
                }
                if self.second && !rules.hold(Rule::RemovalFirst) {
                    // It goes by its own removal, which nobody else can see.
                    view.removals |= 1 << number;
                }
            }
            Kind::Pending => view.pending = world.pending,
            Kind::Snapshots => view.snapshots = world.snapshots,
            Kind::Unverified => view.unverified = world.objects & others.unverified,
            Kind::Objects => view.objects = world.objects & !others.unverified,
            Kind::Packs => view.packs = world.packs,
        }
        let bit = 1 << look.kind as u8;
        if self.listed[0] & bit == 0 && look.kind != Kind::Packs {
            self.listed[0] |= bit;
            self.view = view;
        } else if look.kind == Kind::Packs || view == self.view {
            self.listed[1] |= bit;
            self.view = view;
            self.view.judgement = look.judgement;
        } else {
            self.listed = [0; 2];
            self.view = View::default();
        }
    }

    /// Finds out what the snapshots need, and what may go.
    fn plan(&mut self, world: &World, number: usize, needs: &[Blocks], rules: Rules) -> At {
        let view = &mut self.view;
        let verified = world.named_by_all(view.objects);
        let claimed = world.named_by_all(view.unverified) & !verified;
        let named = verified | claimed;
        let indexed = view.packs & named;
        let there = world.blocks_of(indexed);
        let condemned = world.condemned_by(view.removals);
        let started_before = view.judgement == Judgement::BeganEarlier;
        let left = if started_before { 0 } else { view.pending };
        let (mut reach, mut is_missing) = (0, false);
        if view.snapshots & 1 != 0 {
            reach |= FIRST_NEEDS;
        }
        for (backup, &needs) in needs.iter().enumerate() {
            let announced = view.pending & snapshots_of(backup);
            let made = view.snapshots & snapshots_of(backup);
            let is_whole = needs & !there == 0;
            if made != 0 && announced != 0 && !is_whole {
                // Its client takes it back, unless it crashed.
                if announced & !left == 0 {
                    view.unconfirmed |= made;
                    view.settled |= announced;
                }
            } else if made != 0 {
                view.settled |= announced & left;
                reach |= needs;
            }
            if announced & !left != 0 && is_whole {
                reach |= needs;
            }
        }
        is_missing |= reach & !there != 0;
        if (is_missing || view.unconfirmed != 0) && (!self.tried || self.disturbed) {
            // Somebody else may have moved what is missing elsewhere, between the lists.
            (self.tried, self.disturbed) = (true, false);
            *view = View::default();
            return At::List;
        }
        (self.tried, self.disturbed) = (false, false);
        if is_missing {
            return self.end(End::CannotPrune);
        }

        let mut used: [Blocks; PACK_SLOTS] = [0; PACK_SLOTS];
        for block in bits(reach) {
            // Two prunes differ in which of two places they find.
            let in_verified = indexed & !claimed;
            if world.blocks_of(in_verified) & 1 << block != 0 {
                let pack = world.find(block, in_verified, condemned, number == 1);
                used[pack.expect("all of it is there")] |= 1 << block;
                continue;
            }
            // Nobody knows which of these packs has the block, if any.
            let holding = |pack: &usize| world.blocks(*pack) & 1 << block != 0;
            bits(indexed & claimed)
                .filter(holding)
                .for_each(|pack| used[pack] |= 1 << block);
        }
        let mut repack = 0;
        if !self.second {
            for pack in bits(view.packs & !condemned) {
                match used[pack] {
                    0 if started_before => {}
                    0 => self.condemn |= 1 << pack,
                    _ if claimed & 1 << pack != 0 => {}
                    used if used != world.blocks(pack) => repack |= 1 << pack,
                    _ => {}
                }
            }
            self.condemn |= repack;
        }
        let mut copied = 0;
        for pack in bits(condemned | repack) {
            if used[pack] != 0 {
                copied |= used[pack];
                self.sources |= 1 << pack;
            }
        }
        if !started_before {
            self.due = condemned & view.packs;
        }
        self.gone |= self.due | ((condemned | named) & !view.packs);
        self.expected = view.removals;
        if !rules.hold(Rule::RemovalFirst) {
            self.expected &= !(1 << number);
        }
        if !self.second {
            self.verified = claimed & view.packs & !condemned & !self.condemn;
        }
        (view.packs, view.pending, view.snapshots) = (0, 0, 0);
        if copied == 0 || !rules.hold(Rule::CopyOut) {
            self.sources = 0;
            self.then = Then::Delete;
        } else {
            // The copies are written as if nothing were known of removals.
            self.writer = Writer::new(copied, 0);
            self.then = Then::Copy;
        }
        match (self.verified, self.then) {
            (0, Then::Copy) => At::Read,
            (0, Then::Delete) => At::DeletePack,
            _ => At::VerifyCheck,
        }
    }

    fn put_removal(&mut self, world: &mut World, number: usize, rules: Rules) -> At {
        let condemned = std::mem::take(&mut self.condemn);
        world.condemned[number] = condemned;
        if rules.hold(Rule::RemovalFirst) {
            world.removals |= 1 << number;
            world.newest = 1 << number;
            self.expected |= 1 << number;
        }
        self.superseded = self.view.superseded;
        if self.view.judgement != Judgement::AllDead {
            if rules.hold(Rule::RewriteBeforeRemoval) {
                return At::DeleteOld;
            }
            return self.look_for_old(world, number, rules);
        }
        self.second = true;
        if rules.hold(Rule::ListAgain) {
            self.view = View::default();
            return At::List;
        }
        self.due = condemned;
        self.gone |= condemned;
        At::DeletePack
    }

    /// Goes on to the next step that does something.
    fn pass_over(&mut self, world: &mut World, number: usize, is_far: bool, rules: Rules) {
        loop {
            self.at = match self.at {
                At::DeletePack
                    if is_far
                        && self.due != 0
                        && (self.condemn == 0
                            || (self.view.judgement != Judgement::AllDead
                                && rules.hold(Rule::RewriteBeforeRemoval))) =>
                {
                    self.look_for_old(world, number, rules)
                }
                At::DeletePack
                    if self.due == 0
                        && self.condemn != 0
                        && (self.view.judgement == Judgement::AllDead
                            || !rules.hold(Rule::RewriteBeforeRemoval)) =>
                {
                    self.at = At::PutRemoval;
                    return;
                }
                At::DeletePack if self.due == 0 => self.look_for_old(world, number, rules),
                At::DeleteOld if self.due != 0 => return,
                At::DeleteOld if self.old == 0 && self.condemn != 0 => {
                    self.at = At::PutRemoval;
                    return;
                }
                At::DeleteOld if self.old == 0 => {
                    let gone = self.gone;
                    let is_over = |&removal: &usize| world.condemned[removal] & !gone == 0;
                    let over = bits(self.superseded & self.view.removals).filter(is_over);
                    let over = over.fold(0, |set, removal| set | 1 << removal);
                    if self.view.unverified == 0 {
                        self.gone = 0;
                    }
                    self.superseded = over;
                    if !rules.hold(Rule::LastRemovalStays) {
                        self.superseded |= world.removals & 1 << number;
                    }
                    (self.view.objects, self.view.removals, self.expected) = (0, 0, 0);
                    At::DeleteRemoval
                }
                At::DeleteRemoval if self.superseded == 0 => At::DeleteSnapshot,
                At::DeleteSnapshot if self.view.unconfirmed == 0 => At::DeletePending,
                At::DeletePending if self.view.settled == 0 && self.view.unverified != 0 => {
                    self.view.unverified = 0;
                    self.at = At::ListNamed;
                    return;
                }
                At::DeletePending if self.view.settled == 0 => {
                    self.end(End::Done);
                    return;
                }
                At::DeleteUnverified if self.claims == 0 => {
                    self.end(End::Done);
                    return;
                }
                _ => return,
            };
        }
    }

    /// Finds the index objects of the view that name packs which are gone, and what is to be in
    /// their place.
    fn look_for_old(&mut self, world: &mut World, number: usize, rules: Rules) -> At {
        let names_gone = |&object: &usize| world.named_by(object) & self.gone != 0;
        let old = bits(self.view.objects).filter(names_gone);
        self.old = old.fold(0, |objects, object| objects | 1 << object);
        let mut named = world.named_by_all(self.old) & !self.gone;
        if rules.hold(Rule::RewriteDropsCondemned) {
            named &= !world.condemned_by(self.expected);
        }
        if self.old == 0 {
            return At::DeleteOld;
        }
        world.plan_rewritten(number, named);
        if named == 0 { At::Confirm } else { At::Check }
    }

    fn end(&mut self, end: End) -> At {
        // What is on its way takes effect.
        let due = match self.at {
            At::Check | At::Confirm | At::DeleteNew => self.due,
            _ => 0,
        };
        *self = Self {
            at: At::Ended,
            end,
            due,
            ..Self::default()
        };
        At::Ended
    }
}

/// Takes the lowest bit out of a set.
fn take_lowest<T: Copy + Into<u64> + TryFrom<u64>>(set: &mut T) -> T {
    let all: u64 = (*set).into();
    let narrow = |bits| T::try_from(bits).ok().expect("it has bits of the set only");
    *set = narrow(all & all.wrapping_sub(1));
    narrow(all & all.wrapping_neg())
}
