//! Finds objects and the targets that hold their parts, from listings alone.

use std::collections::HashMap;
use std::time::SystemTime;

use crate::container;
use crate::marks::are_marked;
use crate::numbers::Numbers;
use crate::open::refusal;
use crate::set::Description;
use crate::striped::{REPLICAS, StripedStorage};
use tabane_storage::sync::lock;
use tabane_storage::{Id, Listed, Name, ObjectKind, Result, Storage, StorageErrorKind};

/// What is said of a set that has got other targets since it was opened.
pub const HAS_CHANGED: &str = "the set has other targets by now than when it was opened: try again";

/// The targets that hold parts of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Bytes of the object's shard on each target, if it is plain.
    pub container_len: u64,
    /// The targets with a shard of this object.
    pub holders: Numbers,
    /// Whether one of them has a plain shard.
    pub has_plain: bool,
    /// The targets with a shard of another length, which is damaged.
    pub wrong: Numbers,
    /// The targets that answered.
    pub answered: Numbers,
    /// Earliest time at which a target got its shard.
    pub modified: SystemTime,
}

impl Holding {
    /// The generation of the stripe, or 0 if the object is not striped.
    pub fn generation(&self) -> u8 {
        container::generation_of(self.container_len)
    }

    /// Whether it is a stripe that has shards without tags.
    pub fn lacks_tags(&self) -> bool {
        self.generation() != 0 && self.has_plain
    }
}

/// Merges the listings of all targets: for each object one entry a length. Several lengths mean
/// that a part was cut off. `plain_len` is the length of a plain shard instead of a tagged one.
fn merge(
    lists: &[(usize, Vec<Listed>)],
    plain_len: impl Fn(u64) -> u64,
) -> HashMap<Id, Vec<Holding>> {
    let mut found: HashMap<Id, Vec<Holding>> = HashMap::new();
    let answered = lists.iter().map(|(number, _)| *number).collect();
    for (number, list) in lists {
        for listed in list {
            let lengths = found.entry(listed.id).or_default();
            let container_len = plain_len(listed.len);
            let is_plain = container_len == listed.len;
            match lengths
                .iter_mut()
                .find(|one| one.container_len == container_len)
            {
                Some(one) => {
                    one.holders.insert(*number);
                    one.has_plain |= is_plain;
                    one.modified = one.modified.min(listed.modified);
                }
                None => lengths.push(Holding {
                    container_len,
                    holders: [*number].into_iter().collect(),
                    has_plain: is_plain,
                    wrong: Numbers::default(),
                    answered,
                    modified: listed.modified,
                }),
            }
        }
    }
    found
}

impl StripedStorage {
    /// The listing of each target in use. A target without a folder for this kind has lost its
    /// parts, which counts as any other damage.
    pub(super) fn raw_lists(&self, kind: ObjectKind) -> Result<Vec<(usize, Vec<Listed>)>> {
        let lists = self
            .targets
            .each(&self.targets.up(), |_, storage| storage.list(kind));
        let (mut answered, mut without) = (Vec::new(), Vec::new());
        for (number, list) in lists {
            match list {
                Ok(list) => answered.push((number, list)),
                Err(error)
                    if error.kind() == StorageErrorKind::NotFound
                        && (kind == ObjectKind::Config || self.says_who_it_is(number)) =>
                {
                    answered.push((number, Vec::new()));
                    without.push(number);
                }
                Err(error) => self.targets.give_up(number, &error),
            }
        }
        self.check_enough_but(|number| !answered.iter().any(|(other, _)| *other == number))?;
        if kind != ObjectKind::Config {
            self.check_folders(kind, &without)?;
        }
        Ok(answered)
    }

    fn says_who_it_is(&self, number: usize) -> bool {
        let target = self.targets.storage(number);
        target.is_some_and(|target| target.stat(Name::TARGET).is_ok())
    }

    /// Fails if more targets are `without` a folder than may be lost: their objects must not be
    /// taken for removed.
    fn check_folders(&self, kind: ObjectKind, without: &[usize]) -> Result<()> {
        let has = |number: &&usize| self.targets.is_up(**number) && !without.contains(number);
        let is_enough =
            |targets: &Vec<usize>| targets.iter().filter(has).count() + 2 >= targets.len();
        if without.is_empty() || self.generations.iter().all(is_enough) {
            return Ok(());
        }
        let url = |&number: &usize| self.targets.all()[number].url.as_str();
        let urls: Vec<&str> = without.iter().map(url).collect();
        Err(refusal(format!(
            "the folder {} is missing from more targets than may be lost ({}): bring it back from \
             a copy",
            kind.name(),
            urls.join(", ")
        )))
    }

    /// The holdings of all objects of these kinds, without deleted ones.
    pub(super) fn holdings(&self, kinds: &[ObjectKind]) -> Result<Vec<(Name, Holding)>> {
        Ok(self.holdings_and_silent(kinds)?.0)
    }

    /// The same, and the targets that have not listed all of them.
    fn holdings_and_silent(&self, kinds: &[ObjectKind]) -> Result<(Vec<(Name, Holding)>, Numbers)> {
        let (found, silent) = self.all_holdings(kinds)?;
        let found = found.into_iter();
        let settled = found.map(|(name, lengths)| (name, self.settle(name, lengths)));
        Ok((settled.collect(), silent))
    }

    /// The same, of each object one holding a length.
    #[expect(clippy::type_complexity, reason = "two callers take it apart")]
    pub(super) fn all_holdings(
        &self,
        kinds: &[ObjectKind],
    ) -> Result<(Vec<(Name, Vec<Holding>)>, Numbers)> {
        let all: Numbers = (0..self.targets.all().len()).collect();
        let mut silent = Numbers::default();
        let mut found = Vec::with_capacity(kinds.len());
        for &kind in kinds {
            // model: groups/list-objects
            let lists = self.raw_lists(kind)?;
            let answered = lists.iter().map(|(number, _)| *number).collect();
            silent = silent.or(&all.without(&answered));
            found.push((kind, self.merge(&lists)));
        }
        if kinds.iter().copied().any(are_marked) {
            // Listed after the objects: a deletion mark is written before the parts are deleted.
            // model: cluster/list-marks-of-objects
            // model: groups/list-marks
            let deleted = self.raw_lists(ObjectKind::Deleted)?;
            let deleted = deleted.iter().flat_map(|(_, list)| list);
            lock(&self.deleted).extend(deleted.map(|listed| listed.id));
            for (kind, merged) in found.iter_mut().filter(|(kind, _)| are_marked(*kind)) {
                merged.retain(|id, _| !self.is_deleted(Name::new(*kind, *id)));
            }
        }
        let named = found.into_iter().flat_map(|(kind, merged)| {
            let named = merged.into_iter();
            named.map(move |(id, lengths)| (Name::new(kind, id), lengths))
        });
        Ok((named.collect(), silent))
    }

    /// Merges listings of the targets of this set.
    pub(super) fn merge(&self, lists: &[(usize, Vec<Listed>)]) -> HashMap<Id, Vec<Holding>> {
        let mut found = merge(lists, |len| {
            let targets = self.generation(container::generation_of(len));
            let plain = targets.and_then(|targets| container::plain_len(len, targets.len()));
            plain.unwrap_or(len)
        });
        for lengths in found.values_mut().filter(|lengths| lengths.len() > 1) {
            let all = lengths
                .iter()
                .fold(Numbers::default(), |all, one| all.or(&one.holders));
            for one in lengths {
                // What other targets than those of its generation have is no part of this stripe.
                let places = self.generation(one.generation());
                let places = places.map_or(all, |places| places.iter().copied().collect());
                one.wrong = all.and(&places).without(&one.holders);
            }
        }
        found
    }

    /// Decides between several lengths: for one of which there are all parts, or enough, then by an
    /// intact header, since two truncated shards may agree in length, against one that is whole.
    pub(super) fn settle(&self, name: Name, mut lengths: Vec<Holding>) -> Holding {
        let is_enough = |one: &Holding| self.is_enough(one.generation(), &one.holders);
        let is_whole = |one: &Holding| self.has_all(one);
        for is_better in [&is_enough as &dyn Fn(&Holding) -> bool, &is_whole] {
            if lengths.len() > 1 && lengths.iter().any(is_better) {
                lengths.retain(is_better);
            }
        }
        let right = match lengths.len() {
            1 => None,
            _ => self
                .shape(name)
                .ok()
                .map(|shape| shape.plain().container_len()),
        };
        let likely = lengths.into_iter().max_by_key(|one| {
            let is_right = Some(one.container_len) == right;
            (is_right, one.holders.len(), one.container_len)
        });
        likely.expect("what is listed has a length")
    }

    /// Whether a stripe has all its parts.
    pub(super) fn has_all(&self, holding: &Holding) -> bool {
        let targets = self.generation(holding.generation());
        let has = |&number: &usize| holding.holders.contains(number);
        targets.is_some_and(|targets| targets.iter().all(has))
    }

    /// The listed length of an object; `None` if too few parts exist to read it or no shard has
    /// this length.
    pub(super) fn listed_len(&self, holding: &Holding) -> Option<u64> {
        let generation = holding.generation();
        if generation == 0 {
            return container::listed_len(holding.container_len, 1);
        }
        let targets = self.generation(generation)?;
        self.is_enough(generation, &holding.holders)
            .then(|| container::listed_len(holding.container_len, targets.len()))?
    }

    /// Whether these parts are too few to read the stripe, as an interrupted write leaves them. A
    /// length that no shard has means a truncated part: that is damage, not an interrupted write.
    pub(super) fn is_fragment(&self, holding: &Holding) -> bool {
        let generation = holding.generation();
        self.generation(generation).is_some_and(|targets| {
            container::listed_len(holding.container_len, targets.len()).is_some()
                && !self.is_enough(generation, &holding.holders)
        })
    }

    /// Whether a list of this kind may lack an object, or have one that is gone, since the set has
    /// changed: all that there is of an object may be on targets that this client does not know, or
    /// that are `silent`; an object may be there only with targets that are forgotten; or it is
    /// over targets that were added, and would count as lost.
    fn is_behind(
        &self,
        later: &Description,
        kind: ObjectKind,
        silent: &Numbers,
        found: &[(Name, Holding)],
    ) -> bool {
        let mut groups = later.groups();
        if kind != ObjectKind::Pack {
            groups.truncate(1);
        }
        let may_miss = |group: &u8| {
            let targets = later.targets_of(*group).iter();
            let unknown = targets.filter(|id| self.targets.position(**id).is_none());
            let unknown = unknown.count();
            unknown > 0 && unknown + silent.len() >= REPLICAS
        };
        let all = self.targets.all().iter().enumerate();
        let is_forgotten = |id: Id| !later.targets.iter().any(|member| member.id == id);
        let forgotten = all.filter(|(_, target)| is_forgotten(target.id));
        let forgotten: Numbers = forgotten.map(|(number, _)| number).collect();
        let has_changed = |(_, holding): &(Name, Holding)| {
            let generation = holding.generation();
            if generation == 0 {
                return holding.holders.without(&forgotten).is_empty();
            }
            let is_enough = |holders: &Numbers| self.is_enough(generation, holders);
            let rest = holding.holders.without(&forgotten);
            // A length alone says little, since damage can make any.
            usize::from(generation) > self.generations.len()
                || is_enough(&holding.holders) && !is_enough(&rest)
        };
        groups.iter().any(may_miss) || found.iter().any(has_changed)
    }

    /// Whether the set has got targets since this client has opened it.
    pub(super) fn lacks_targets(&self) -> Result<bool> {
        let later = self.later_description()?;
        let is_unknown = |id| self.targets.position(id).is_none();
        Ok(later.is_some_and(|later| later.targets.iter().any(|member| is_unknown(member.id))))
    }

    /// The latest description of the set, if it is later than that of this client.
    pub(super) fn later_description(&self) -> Result<Option<Description>> {
        let (own, _) = self.description.to_object();
        let mut latest: Option<Description> = None;
        for (number, list) in self.raw_lists(ObjectKind::Set)? {
            for Listed { id, .. } in list {
                if id == own || lock(&self.outdated).contains(&id) {
                    continue;
                }
                let target = self.targets.storage(number);
                let read = |target: &dyn Storage| target.get(Name::new(ObjectKind::Set, id), None);
                let bytes = target.and_then(|target| read(target).ok());
                let Some(other) = bytes.and_then(|bytes| Description::parse(id, &bytes).ok())
                else {
                    // Damaged, or deleted meanwhile: others have it as well.
                    continue;
                };
                if other.epoch <= self.description.epoch {
                    lock(&self.outdated).insert(id);
                } else if latest
                    .as_ref()
                    .is_none_or(|latest| latest.epoch < other.epoch)
                {
                    latest = Some(other);
                }
            }
        }
        Ok(latest)
    }

    pub(super) fn list_objects(&self, kind: ObjectKind) -> Result<Vec<Listed>> {
        let (mut found, silent) = self.holdings_and_silent(&[kind])?;
        // Asked after the objects: who puts some knows the description that was there then.
        // model: groups/look-for-later
        let later = self.later_description()?;
        if later.is_some_and(|later| self.is_behind(&later, kind, &silent, &found)) {
            return Err(refusal(HAS_CHANGED.to_owned()));
        }
        if kind == ObjectKind::Pack {
            // Targets that did not answer may complete a pack, and a pack that is not listed counts
            // as lost. Other kinds are read when a repository is opened: a fragment listed among
            // them would keep it shut until the targets are back.
            let all: Numbers = (0..self.targets.all().len()).collect();
            for (_, holding) in &mut found {
                let silent = all.without(&holding.answered);
                holding.holders = holding.holders.or(&silent);
            }
        }
        let found = found.into_iter();
        let found = found.filter(|(_, holding)| !self.is_fragment(holding));
        let found = found.map(|(name, holding)| Listed {
            id: name.id,
            len: self.listed_len(&holding).unwrap_or(0),
            modified: holding.modified,
        });
        let found: Vec<Listed> = found.collect();
        match kind {
            ObjectKind::Config if found.is_empty() => Err(StorageErrorKind::NotFound.into()),
            _ => Ok(found),
        }
    }

    /// The holding of one object, found by asking each target in use for its shard's length.
    pub(super) fn holding(&self, name: Name) -> Result<Option<Holding>> {
        let stats = self
            .targets
            .each(&self.targets.up(), |_, storage| storage.stat(name));
        let mut lists = Vec::new();
        for (number, stat) in stats {
            match stat {
                Ok(len) => {
                    let id = name.id;
                    let modified = SystemTime::UNIX_EPOCH;
                    lists.push((number, vec![Listed { id, len, modified }]));
                }
                Err(error) if error.kind() == StorageErrorKind::NotFound => {
                    lists.push((number, Vec::new()));
                }
                Err(error) => self.targets.give_up(number, &error),
            }
        }
        self.check_enough_but(|number| !lists.iter().any(|(other, _)| *other == number))?;
        let lengths = self.merge(&lists).remove(&name.id);
        Ok(lengths.map(|lengths| self.settle(name, lengths)))
    }
}
