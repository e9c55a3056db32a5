//! Surveys which parts each target has and lacks, and which targets, or racks, could be lost now.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::list::Holding;
use crate::numbers::Numbers;
use crate::striped::{REPLICAS, StripedStorage};
use tabane_storage::{Id, Name, ObjectKind, Result};

/// The state of a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TargetState {
    /// ID of the target.
    pub id: Id,
    /// The target's URL, of a missing target the last known one.
    pub url: String,
    /// Its group, from 1, of several; `None` if there is one, or it is in none any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<usize>,
    /// Whether its group is being emptied, so that the set can do without it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_retired: bool,
    /// Why the target is not in use; `None` if it is.
    pub missing: Option<String>,
    /// Parts of objects on the target.
    pub objects: u64,
    /// Bytes of these parts.
    pub bytes: u64,
    /// Bytes that are free on the target, if it tells.
    pub free_bytes: Option<u64>,
    /// Parts of objects that the target lacks, as far as other targets show; 0 for a missing
    /// target.
    pub lacks: u64,
}

/// The state of all targets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Survey {
    /// Each target.
    pub targets: Vec<TargetState>,
    /// Number of objects.
    pub objects: u64,
    /// Objects that lack a part on one of their targets.
    pub incomplete_objects: u64,
    /// Names with too few parts for an object, as interrupted writes leave them.
    pub fragments: u64,
    /// Numbers, in `targets`, of targets in use any one of which could be lost now without loss of
    /// data.
    pub spare: Vec<usize>,
    /// Pairs of targets in use that could be lost now without loss of data.
    pub spare_pairs: Vec<(usize, usize)>,
    #[serde(skip)]
    needed: Needed,
}

/// Which racks of a cluster could be lost now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Racks {
    /// Each rack with a target in use. A target in no rack stands for itself, with its URL.
    pub racks: Vec<String>,
    /// Numbers, in `racks`, of those any one of which could be lost now without loss of data.
    pub spare: Vec<usize>,
    /// Pairs that could be lost now without loss of data.
    pub spare_pairs: Vec<(usize, usize)>,
}

impl Racks {
    /// A sentence that says which racks could be lost now.
    pub fn statement(&self) -> String {
        let names: Vec<&str> = self.racks.iter().map(String::as_str).collect();
        let up = names.len();
        statement("rack", &names, up, &self.spare, &self.spare_pairs).0
    }
}

impl Survey {
    /// A sentence that says which targets could be lost now.
    pub fn statement(&self) -> String {
        self.statement_and_rest().0
    }

    /// Whether all targets are in use and lack no part, so that any two can be lost.
    pub fn is_whole(&self) -> bool {
        let is_whole = |target: &TargetState| target.missing.is_none() && target.lacks == 0;
        let count = self.targets.len();
        self.targets.iter().all(is_whole) && self.spare_pairs.len() == count * (count - 1) / 2
    }

    /// Whether any one of the targets in use can be lost without loss of data.
    pub fn can_lose_any(&self) -> bool {
        let up = self.targets.iter();
        let up = up.filter(|target| target.missing.is_none()).count();
        up > 0 && self.spare.len() == up
    }

    /// Number of pairs that could be lost and that the statement does not name.
    pub fn unnamed_pairs(&self) -> usize {
        self.statement_and_rest().1
    }

    fn statement_and_rest(&self) -> (String, usize) {
        let targets = self.targets.iter();
        let up = targets.filter(|target| target.missing.is_none()).count();
        let urls: Vec<&str> = self
            .targets
            .iter()
            .map(|target| target.url.as_str())
            .collect();
        statement("target", &urls, up, &self.spare, &self.spare_pairs)
    }

    /// Which racks could be lost now, of targets with these URLs; `None` if no target is in one.
    pub fn racks<'a>(&self, rack_of: impl Fn(&str) -> Option<&'a str>) -> Option<Racks> {
        let mut inside: BTreeMap<&str, Numbers> = BTreeMap::new();
        let mut any = false;
        for (number, target) in self.targets.iter().enumerate() {
            let rack = rack_of(&target.url);
            any |= rack.is_some();
            if target.missing.is_none() {
                let name = rack.unwrap_or(&target.url);
                inside.entry(name).or_default().insert(number);
            }
        }
        any.then(|| {
            let (racks, inside): (Vec<_>, Vec<_>) = inside.into_iter().unzip();
            let (spare, spare_pairs) = self.needed.spare(&inside);
            Racks {
                racks: racks.into_iter().map(str::to_owned).collect(),
                spare,
                spare_pairs,
            }
        })
    }
}

/// A sentence that says which of these, of which `up` are there, can be lost, and the number of
/// pairs that it does not name.
fn statement(
    kind: &str,
    names: &[&str],
    up: usize,
    spare: &[usize],
    spare_pairs: &[(usize, usize)],
) -> (String, usize) {
    let pairs = up * up.saturating_sub(1) / 2;
    if up > 0 && spare_pairs.len() == pairs && pairs > 0 {
        let all = format!("any two {kind}s can be lost now without losing data");
        return (all, 0);
    }
    let any_of = |numbers: &[usize]| {
        let names: Vec<&str> = numbers.iter().map(|&number| names[number]).collect();
        names.join(" or ")
    };
    let singles = match spare.len() {
        0 => return (format!("no {kind} can be lost now without losing data"), 0),
        all if all == up => format!("any one {kind} can be lost now without losing data"),
        _ => format!("only {} can be lost now without losing data", any_of(spare)),
    };
    if spare_pairs.is_empty() {
        return (format!("{singles}, no two"), 0);
    }
    // One that lacks many parts may be lost together with any other: naming such ones is enough.
    let with_any = |&number: &usize| {
        let of = |&&(a, b): &&(usize, usize)| a == number || b == number;
        spare_pairs.iter().filter(of).count() == up - 1
    };
    let with_any: Vec<usize> = (0..names.len()).filter(with_any).collect();
    let is_said = |(a, b): &(usize, usize)| with_any.contains(a) || with_any.contains(b);
    if !with_any.is_empty() && spare_pairs.iter().all(is_said) {
        let names = any_of(&with_any);
        return (format!("{singles}; two only if one of them is {names}"), 0);
    }
    let named = spare_pairs.len();
    (format!("{singles}; of {pairs} pairs {named}"), named)
}

impl StripedStorage {
    /// Surveys all targets, from listings alone.
    ///
    /// # Errors
    /// When too few targets answer.
    pub fn survey(&self) -> Result<Survey> {
        let found = self.holdings(&ObjectKind::ALL)?;
        let group_of = |number: usize| {
            let has = |&group: &u8| {
                let targets = self.generation(group).unwrap_or_default();
                targets.contains(&number)
            };
            let place = self.groups.iter().position(has);
            place
                .filter(|_| self.groups.len() > 1)
                .map(|place| place + 1)
        };
        let state = |number: usize| {
            let target = &self.targets.all()[number];
            TargetState {
                is_retired: self.is_retired(&Numbers::from_iter([number])),
                id: target.id,
                url: target.url.clone(),
                group: group_of(number),
                missing: target.why_down(),
                objects: 0,
                bytes: 0,
                free_bytes: None,
                lacks: 0,
            }
        };
        let mut survey = Survey {
            targets: (0..self.targets.all().len()).map(state).collect(),
            objects: 0,
            incomplete_objects: 0,
            fragments: 0,
            spare: Vec::new(),
            spare_pairs: Vec::new(),
            needed: Needed::default(),
        };
        let up = self.targets.up();
        for (number, free) in self.targets.each(&up, |_, storage| storage.free_bytes()) {
            survey.targets[number].free_bytes = free;
        }
        // Objects that are on the same targets are lost together.
        let mut kinds_of_holding: BTreeSet<(u8, Numbers)> = BTreeSet::new();
        for (name, holding) in &found {
            for (number, target) in survey.targets.iter_mut().enumerate() {
                if holding.holders.contains(number) {
                    target.objects += 1;
                    target.bytes += holding.container_len;
                }
            }
            if self.is_fragment(holding) {
                survey.fragments += 1;
                continue;
            }
            survey.objects += 1;
            if self.listed_len(holding).is_none() {
                // The object is lost already.
                survey.incomplete_objects += 1;
                continue;
            }
            kinds_of_holding.insert((holding.generation(), holding.holders));
            let lacking = self.lacking(*name, holding);
            survey.incomplete_objects += u64::from(!lacking.is_empty());
            for number in lacking {
                survey.targets[number].lacks += 1;
            }
        }
        let mut needed = Needed::default();
        for (generation, holders) in kinds_of_holding {
            let places = self.generation(generation);
            let may_go = match places {
                Some(places) => (holders_in(places, &holders).len() + 2) - places.len(),
                None => holders.len() - 1,
            };
            let holders = places.map_or(holders, |places| holders_in(places, &holders));
            needed.0.insert((holders, may_go));
        }
        // Storages refuse to work with more than two targets of a generation missing, even if these
        // hold nothing.
        let all_up: Numbers = up.iter().copied().collect();
        for places in &self.generations {
            let there = holders_in(places, &all_up);
            let may_go = (there.len() + 2).saturating_sub(places.len());
            needed.0.insert((there, may_go));
        }
        let alone = |&number: &usize| Numbers::from_iter([number]);
        let (spare, pairs) = needed.spare(&up.iter().map(alone).collect::<Vec<_>>());
        survey.spare = spare.into_iter().map(|place| up[place]).collect();
        let pairs = pairs.into_iter();
        survey.spare_pairs = pairs.map(|(one, other)| (up[one], up[other])).collect();
        survey.needed = needed;
        Ok(survey)
    }

    /// Whether the parts on these targets are enough to read an object.
    pub(super) fn is_enough(&self, generation: u8, holders: &Numbers) -> bool {
        match self.generation(generation) {
            Some(targets) => holders_in(targets, holders).len() + 2 >= targets.len(),
            None => generation == 0 && !holders.is_empty(),
        }
    }

    /// The targets in use that should hold a part of an object, and answered that they have none of
    /// the right length.
    pub(super) fn lacking(&self, name: Name, holding: &Holding) -> Vec<usize> {
        let has = |number: &usize| holding.holders.contains(*number);
        let is_up =
            |number: &usize| holding.answered.contains(*number) && self.targets.is_up(*number);
        if let Some(targets) = self.generation(holding.generation()) {
            let lacking = targets.iter().copied();
            return lacking
                .filter(|number| is_up(number) && !has(number))
                .collect();
        }
        let mut order = self.replica_order(name.id);
        if self.replicas(name.kind) == REPLICAS {
            // All copies have to be in one group: of each, two targets may be lost.
            let held = |group: &&[usize]| group.iter().filter(|number| has(number)).count();
            let groups = self.groups.iter().rev();
            let groups = groups.filter_map(|&group| self.generation(group));
            if let Some(most) = groups.max_by_key(held) {
                order.retain(|number| most.contains(number));
            }
        }
        let there = order.iter().filter(|number| has(number)).count();
        let wanted = self.replicas(name.kind).saturating_sub(there);
        let others = order
            .into_iter()
            .filter(|number| is_up(number) && !has(number));
        others.take(wanted).collect()
    }
}

/// Those of a generation's targets that are among the holders.
fn holders_in(targets: &[usize], holders: &Numbers) -> Numbers {
    let there = targets.iter().copied();
    there.filter(|&number| holders.contains(number)).collect()
}

/// What cannot be lost: of each of these sets of targets no more than so many may go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Needed(BTreeSet<(Numbers, usize)>);

impl Needed {
    /// Whether all these targets may go together.
    fn may_go(&self, targets: &Numbers) -> bool {
        let mut needed = self.0.iter();
        needed.all(|(of, may_go)| of.and(targets).len() <= *may_go)
    }

    /// The numbers of those of these parts of a set any one of which may go, and the pairs of them
    /// that may go together.
    fn spare(&self, parts: &[Numbers]) -> (Vec<usize>, Vec<(usize, usize)>) {
        let spare: Vec<usize> = (0..parts.len())
            .filter(|&part| self.may_go(&parts[part]))
            .collect();
        let mut pairs = Vec::new();
        for (place, &one) in spare.iter().enumerate() {
            let others = spare[place + 1..].iter();
            let others = others.filter(|&&other| self.may_go(&parts[one].or(&parts[other])));
            pairs.extend(others.map(|&other| (one, other)));
        }
        (spare, pairs)
    }
}
