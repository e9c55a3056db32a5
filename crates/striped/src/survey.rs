//! Surveys which parts each target has and lacks, and which targets could be lost now.

use std::collections::BTreeSet;

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
        let up = self
            .targets
            .iter()
            .filter(|target| target.missing.is_none());
        let up = up.count();
        let pairs = up * up.saturating_sub(1) / 2;
        let url = |&number: &usize| self.targets[number].url.as_str();
        if up > 0 && self.spare_pairs.len() == pairs && pairs > 0 {
            let all = "any two targets can be lost now without losing data";
            return (all.to_owned(), 0);
        }
        let singles = match self.spare.len() {
            0 => {
                return (
                    "no target can be lost now without losing data".to_owned(),
                    0,
                );
            }
            spare if spare == up => "any one target can be lost now without losing data".to_owned(),
            _ => {
                let names: Vec<&str> = self.spare.iter().map(url).collect();
                let names = names.join(" or ");
                format!("only {names} can be lost now without losing data")
            }
        };
        if self.spare_pairs.is_empty() {
            return (format!("{singles}, no two"), 0);
        }
        // A target that lacks many parts may be lost together with any other: naming such targets
        // is enough.
        let with_any = |&number: &usize| {
            let of = |&&(a, b): &&(usize, usize)| a == number || b == number;
            self.spare_pairs.iter().filter(of).count() == up - 1
        };
        let with_any: Vec<usize> = (0..self.targets.len()).filter(with_any).collect();
        let is_said = |(a, b): &(usize, usize)| with_any.contains(a) || with_any.contains(b);
        if !with_any.is_empty() && self.spare_pairs.iter().all(is_said) {
            let names: Vec<&str> = with_any.iter().map(url).collect();
            let names = names.join(" or ");
            return (format!("{singles}; two only if one of them is {names}"), 0);
        }
        let named = self.spare_pairs.len();
        (format!("{singles}; of {pairs} pairs {named}"), named)
    }
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
            needed.of(&holders, may_go);
        }
        // Storages refuse to work with more than two targets of a generation missing, even if these
        // hold nothing.
        let all_up: Numbers = up.iter().copied().collect();
        for places in &self.generations {
            let there = holders_in(places, &all_up);
            needed.of(&there, (there.len() + 2).saturating_sub(places.len()));
        }
        let is_spare = |&number: &usize| !needed.alone.contains(number);
        survey.spare = up.iter().copied().filter(is_spare).collect();
        for (place, &one) in survey.spare.iter().enumerate() {
            let others = survey.spare[place + 1..].iter();
            let others = others.filter(|&&other| !needed.pairs.contains(&(one, other)));
            survey.spare_pairs.extend(others.map(|&other| (one, other)));
        }
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
            let groups = self.groups.iter();
            let groups = groups.filter_map(|&group| self.generation(group));
            if let Some(most) = groups.max_by_key(held)
                && self.groups.len() > 1
            {
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

/// Targets that cannot be lost: alone, or two together.
#[derive(Default)]
struct Needed {
    alone: Numbers,
    pairs: BTreeSet<(usize, usize)>,
}

impl Needed {
    /// Of these targets so many may go, if they are fewer than two.
    fn of(&mut self, targets: &Numbers, may_go: usize) {
        match may_go {
            0 => self.alone = self.alone.or(targets),
            1 => {
                for one in targets.iter() {
                    let others = targets.iter().filter(|&other| other > one);
                    self.pairs.extend(others.map(|other| (one, other)));
                }
            }
            _ => {}
        }
    }
}
