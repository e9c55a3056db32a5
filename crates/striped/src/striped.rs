//! A striped storage: its targets, which parts each of them holds, and whether enough are in use.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use tabane_storage::sync::lock;
use tabane_storage::{
    Event, EventKind, Id, Notice, ObjectKind, Result, StorageError, StorageErrorKind,
};

use crate::container::{Geometry, ROLES_MAX, Shape};
use crate::decoded::Decoded;
use crate::numbers::Numbers;
use crate::open;
use crate::place::{Place, is_node_url};
use crate::sender::StripeSender;
use crate::set::Description;
use crate::tags::{ObjectTags, TagKey};
use crate::targets::Targets;

/// Copies of an object that is not striped.
pub(crate) const REPLICAS: usize = 3;

/// Time for which an operation waits when at most two targets are away, but these hold parts that
/// it needs.
const BRIEF_PATIENCE: Duration = Duration::from_secs(10);

/// The most shapes remembered.
const KNOWN_MAX: usize = 100_000;

/// Objects over several targets.
pub struct StripedStorage {
    pub(crate) location: String,
    pub(crate) targets: Targets,
    /// Numbers of the targets of each generation.
    pub(crate) generations: Vec<Vec<usize>>,
    /// Numbers of the generations to which new stripes belong.
    pub(crate) groups: Vec<u8>,
    /// Bytes that each group can still take, about, as it was when the first stripe was put.
    pub(crate) room: OnceLock<Vec<u64>>,
    pub(crate) description: Description,
    /// Known shapes of striped objects.
    pub(crate) known: Mutex<HashMap<Id, Shape>>,
    /// IDs of known marks of deleted objects.
    pub(crate) deleted: Mutex<HashSet<Id>>,
    /// IDs of descriptions that are no later than that of this client.
    pub(crate) outdated: Mutex<HashSet<Id>>,
    /// Roles of objects whose parts are wrong although their checksums are right.
    pub(crate) distrusted: Mutex<HashMap<Id, Vec<usize>>>,
    /// Targets that hold such parts.
    pub(crate) liars: Mutex<BTreeSet<usize>>,
    /// Decoded sectors of stripes that are read without all of their targets.
    pub(crate) decoded: Decoded,
    /// Damaged parts that were seen: number of the target and ID of the object.
    pub(crate) damage: Mutex<BTreeSet<(usize, Id)>>,
    /// Sends stripes to targets that make parities among themselves.
    pub(crate) sender: Option<Box<dyn StripeSender>>,
    /// The secret of tags, once the repository is open.
    pub(crate) tag_key: OnceLock<TagKey>,
}

impl StripedStorage {
    /// Opens the set at these places, of which two may be missing; `location` names it in messages.
    ///
    /// # Errors
    /// When too few targets are found, or a place holds a target of another set.
    pub fn open(location: String, places: Vec<Place>, notice: Notice) -> Result<Self> {
        let found = open::find(open::ask(places), notice)?;
        let (description, targets) = (found.description, found.targets);
        let numbers = |ids: &Vec<Id>| {
            let numbers = ids.iter().map(|&id| targets.position(id));
            numbers
                .map(|number| number.expect("a description names its own targets"))
                .collect()
        };
        let storage = Self {
            tag_key: OnceLock::new(),
            location,
            generations: description.generations.iter().map(numbers).collect(),
            groups: description.groups(),
            room: OnceLock::new(),
            description,
            targets,
            known: Mutex::default(),
            deleted: Mutex::new(found.deleted.into_iter().collect()),
            outdated: Mutex::default(),
            distrusted: Mutex::default(),
            liars: Mutex::default(),
            decoded: Decoded::default(),
            damage: Mutex::default(),
            sender: None,
        };
        storage.check_enough()?;
        storage.tell_of_missing();
        Ok(storage)
    }

    /// Makes a new set of 3 to 32 empty places, or resumes an interrupted attempt.
    ///
    /// # Errors
    /// When the places are too few, or one does not answer or holds other data.
    pub fn form(places: Vec<Place>, fixed_roles: bool) -> Result<()> {
        Self::form_groups(vec![places], fixed_roles)
    }

    /// The same, of several groups: each object is striped over the places of one.
    ///
    /// # Errors
    /// As [`StripedStorage::form`].
    pub fn form_groups(groups: Vec<Vec<Place>>, fixed_roles: bool) -> Result<()> {
        open::form(groups, fixed_roles)
    }

    /// Lets `sender` put and rebuild stripes; waits for `patience` when too many nodes are away.
    #[must_use]
    pub(crate) fn over_nodes(mut self, sender: Box<dyn StripeSender>, patience: Duration) -> Self {
        self.sender = Some(sender);
        self.targets.set_patience(patience);
        self
    }

    /// The targets' URLs, of missing targets the last known ones.
    pub fn urls(&self) -> impl Iterator<Item = &str> {
        self.targets.all().iter().map(|target| target.url.as_str())
    }

    /// The URLs of the targets that share stripes with this one, or would with one that is added,
    /// without its own.
    pub fn neighbours(&self, url: Option<&str>) -> Vec<&str> {
        let all = self.targets.all();
        let url_of = |number: usize| all[number].url.as_str();
        let has = |targets: &&Vec<usize>| match url {
            Some(url) => targets.iter().any(|&number| url_of(number) == url),
            None => self.generation(self.description.smallest_group()) == Some(targets.as_slice()),
        };
        let with = self.generations.iter().filter(has).flatten().copied();
        let with: Numbers = with.collect();
        let others = with.iter().map(url_of);
        others.filter(|other| Some(*other) != url).collect()
    }

    /// Targets with damaged parts that reads have met and computed from other targets: the URL of
    /// each, and the number of objects.
    pub fn damage_seen(&self) -> Vec<(String, usize)> {
        let mut objects: BTreeMap<usize, usize> = BTreeMap::new();
        for (number, _) in lock(&self.damage).iter() {
            *objects.entry(*number).or_default() += 1;
        }
        let url = |number: usize| self.targets.all()[number].url.clone();
        objects
            .into_iter()
            .map(|(number, objects)| (url(number), objects))
            .collect()
    }

    /// Whether all targets are nodes of a cluster.
    pub fn is_of_nodes(&self) -> bool {
        self.urls().all(is_node_url)
    }

    pub(crate) fn tell_of_missing(&self) {
        let all = self.targets.all();
        let missing: Vec<String> = all
            .iter()
            .filter_map(|target| Some(format!("{}: {}", target.url, target.why_down()?)))
            .collect();
        let more = match missing.len() {
            0 => return,
            1 => "one more may be lost",
            _ => "none of the others may be lost",
        };
        let mut why = all.iter().filter_map(|target| target.why_down());
        let kind = if why.any(|why| why != open::NOT_LISTED) {
            EventKind::TargetsMissing {
                are_nodes: self.is_of_nodes(),
            }
        } else {
            EventKind::Note
        };
        let text = format!(
            "{} of {} targets missing ({}): going on without, {more}",
            missing.len(),
            all.len(),
            missing.join("; "),
        );
        self.targets.tell(&Event { kind, text });
    }

    /// Calls `act`, again as long as too many nodes are away that may come back. `act` gets whether
    /// it was tried before.
    pub(crate) fn persist<T>(&self, act: impl Fn(bool) -> Result<T>) -> Result<T> {
        let mut begun = None;
        loop {
            let error = match act(begun.is_some()) {
                Err(error) if error.kind() == StorageErrorKind::TooFewTargets => error,
                done => return done,
            };
            let begun = *begun.get_or_insert_with(Instant::now);
            let patience = match self.check_enough() {
                // The operation needs parts on missing nodes: a node missing for long will not come
                // back soon.
                Ok(()) => match self.targets.away_for() {
                    Some(time) if time > BRIEF_PATIENCE => Duration::ZERO,
                    _ => self.targets.patience().min(BRIEF_PATIENCE),
                },
                Err(_) => self.targets.patience(),
            };
            let is_enough = || self.check_enough().is_ok();
            if !self
                .targets
                .wait_for_enough(begun + patience, &error, is_enough)
            {
                return Err(error);
            }
        }
    }

    /// Numbers of all other targets.
    pub(crate) fn all_but(&self, numbers: &[usize]) -> Vec<usize> {
        let all = 0..self.targets.all().len();
        all.filter(|number| !numbers.contains(number)).collect()
    }

    /// Fails unless all generations have enough targets in use.
    pub(crate) fn check_enough(&self) -> Result<()> {
        self.check_enough_but(|number| !self.targets.is_up(number))
    }

    /// That no target is missing.
    pub(crate) fn check_all_there(&self) -> Result<()> {
        let all = self.targets.all();
        let missing = self.all_but(&self.targets.up());
        if missing.is_empty() {
            return Ok(());
        }
        Err(open::refusal(format!(
            "all targets are needed for this, and {} of {} are missing: {}; bring them back, or \
             put others in their place, and run the command again",
            missing.len(),
            all.len(),
            self.with_reasons(&missing)
        )))
    }

    /// These targets, each with why it is missing.
    fn with_reasons(&self, missing: &[usize]) -> String {
        let all = self.targets.all();
        let reasons = missing.iter().map(|&number| {
            let why = all[number].why_down();
            let why = why.unwrap_or_else(|| "it did not answer a moment ago".to_owned());
            format!("{} ({why})", all[number].url)
        });
        reasons.collect::<Vec<_>>().join(", ")
    }

    /// Fails unless all generations have enough targets without those that are `away`.
    pub(crate) fn check_enough_but(&self, away: impl Fn(usize) -> bool) -> Result<()> {
        let is_short = |targets: &&Vec<usize>| {
            let missing = targets.iter().filter(|&&number| away(number));
            missing.count() > 2
        };
        let Some(short) = self.generations.iter().find(is_short) else {
            return Ok(());
        };
        let missing: Vec<usize> = short
            .iter()
            .copied()
            .filter(|&number| away(number))
            .collect();
        let mut groups = self.groups.iter();
        let which = if !groups.any(|&group| self.generation(group) == Some(short)) {
            "targets from before the last addition"
        } else if self.groups.len() > 1 {
            "targets of a group"
        } else {
            "targets"
        };
        let text = format!(
            "{} of {} {which} are missing, and only two may be: {}",
            missing.len(),
            short.len(),
            self.with_reasons(&missing)
        );
        let all = self.targets.all();
        let is_unlisted = |number: &&usize| {
            all[**number]
                .why_down()
                .is_some_and(|why| why == open::NOT_LISTED)
        };
        if missing.iter().filter(is_unlisted).count() > 2 {
            // No other answer of the listed nodes would help.
            return Err(open::refusal(text));
        }
        Err(StorageError::new(StorageErrorKind::TooFewTargets, text))
    }

    /// The targets that have the copies of objects that are not striped: those of the first group,
    /// which stays when others are added. So clients that do not know these find all copies.
    pub(crate) fn home(&self) -> &[usize] {
        let home = self
            .groups
            .first()
            .and_then(|&group| self.generation(group));
        home.expect("there is a group")
    }

    /// The targets of a generation; `None` if the set has no such generation.
    pub(crate) fn generation(&self, generation: u8) -> Option<&[usize]> {
        let index = usize::from(generation).checked_sub(1)?;
        Some(self.generations.get(index)?)
    }

    /// The rotation of roles for this object, or the first of the places for its copies.
    pub(crate) fn turn(&self, object: Id, places: usize) -> usize {
        let first = object.0.first_chunk().expect("an ID has 32 bytes");
        (u64::from_le_bytes(*first) % places as u64) as usize
    }

    /// The target of each role of a stripe; `None` if the set has no such generation.
    pub(crate) fn targets_by_role(&self, object: Id, shape: &Shape) -> Option<Vec<usize>> {
        let targets = self.generation(shape.geometry.generation)?;
        let places = match &shape.seal {
            Some(seal) => seal.places,
            None => self.usual_places(object, targets.len()),
        };
        let roles = usize::from(shape.geometry.roles);
        let by_role = places[..roles].iter();
        (roles == targets.len())
            .then(|| by_role.map(|&place| targets[usize::from(place)]).collect())
    }

    /// For each role the place of its target, in a stripe over so many targets, unless a seal has
    /// others.
    pub(crate) fn usual_places(&self, object: Id, count: usize) -> [u8; ROLES_MAX] {
        let turn = if self.description.fixed_roles {
            0
        } else {
            self.turn(object, count)
        };
        places(turn, count)
    }

    /// The shape of a new stripe, tagged if it may be. Then the first role can have this place.
    pub(crate) fn new_shape(&self, object: Id, geometry: Geometry, turn: Option<usize>) -> Shape {
        let count = usize::from(geometry.roles);
        let key = self.tag_key.get().filter(|_| self.is_tagged());
        let seal = key.map(|key| {
            let usual = || self.usual_places(object, count);
            let places = turn.map_or_else(usual, |turn| places(turn, count));
            key.seal(object, &geometry, places)
        });
        Shape { geometry, seal }
    }

    /// What makes and checks the tags of a striped object, if the secret is known.
    pub(crate) fn object_tags(&self, object: Id, geometry: &Geometry) -> Option<ObjectTags> {
        let key = self.tag_key.get()?;
        Some(key.of(object, geometry.roles))
    }

    /// Whether the seal of a shape is right, as far as can be known: without the secret, or without
    /// a seal, nothing speaks against it.
    pub(crate) fn is_sealed(&self, object: Id, shape: &Shape) -> bool {
        match (&shape.seal, self.tag_key.get()) {
            (Some(seal), Some(key)) => key.seal(object, &shape.geometry, seal.places) == *seal,
            _ => true,
        }
    }

    /// Whether the set may have tagged shards.
    pub fn is_tagged(&self) -> bool {
        self.description.is_tagged()
    }

    /// Whether the secret of tags is known.
    pub(crate) fn knows_secret(&self) -> bool {
        self.tag_key.get().is_some()
    }

    /// For each group, the bytes that are free on the fullest of its targets in use; `None` if one
    /// does not tell.
    pub(crate) fn least_free(&self) -> Vec<Option<u64>> {
        let up = self.targets.up();
        let free = self.targets.each(&up, |_, target| target.free_bytes());
        let free: HashMap<usize, Option<u64>> = free.into_iter().collect();
        let least = |group: &u8| {
            let targets = self.generation(*group).unwrap_or_default();
            let there = targets
                .iter()
                .filter_map(|number| free.get(number).copied());
            there.collect::<Option<Vec<u64>>>()?.into_iter().min()
        };
        self.groups.iter().map(least).collect()
    }

    /// The targets in the order in which they are asked for an object: one of each group at once,
    /// if there are several groups, and one after the other otherwise.
    pub(crate) fn rounds(&self, object: Id) -> Vec<Vec<usize>> {
        let in_turn = self.replica_order(object);
        if self.groups.len() == 1 {
            return in_turn.into_iter().map(|number| vec![number]).collect();
        }
        let mut asked = Numbers::default();
        let groups = self.groups.iter().rev();
        let groups: Vec<&[usize]> = groups.filter_map(|&group| self.generation(group)).collect();
        let mut rounds: Vec<Vec<usize>> = Vec::new();
        for place in 0..ROLES_MAX {
            let groups = groups.iter().filter(|targets| place < targets.len());
            let one = |targets: &&&[usize]| {
                targets[(self.turn(object, targets.len()) + place) % targets.len()]
            };
            let round: Vec<usize> = groups.map(|targets| one(&targets)).collect();
            round.iter().for_each(|&number| asked.insert(number));
            rounds.push(round);
        }
        rounds.push(
            in_turn
                .into_iter()
                .filter(|&number| !asked.contains(number))
                .collect(),
        );
        rounds.retain(|round| !round.is_empty());
        rounds
    }

    /// The targets in the order in which they are to hold copies of an object.
    pub(crate) fn replica_order(&self, object: Id) -> Vec<usize> {
        let home = self.home();
        let mut order = home.to_vec();
        order.rotate_left(self.turn(object, home.len()));
        let others = (0..self.targets.all().len()).filter(|number| !home.contains(number));
        order.extend(others);
        order
    }

    /// Number of copies of an object of this kind that is not striped.
    pub(crate) fn replicas(&self, kind: ObjectKind) -> usize {
        match kind {
            // On every target: all other objects are unreadable without them, and they hardly ever
            // change.
            ObjectKind::Config | ObjectKind::Key => self.targets.all().len(),
            _ => REPLICAS,
        }
    }

    pub(crate) fn shape_is(&self, object: Id, shape: Shape) {
        let mut known = lock(&self.known);
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(object, shape);
    }
}

/// For each role the place of its target, if the first one has place `turn` of so many.
fn places(turn: usize, count: usize) -> [u8; ROLES_MAX] {
    let mut places = [0; ROLES_MAX];
    for (role, place) in places[..count].iter_mut().enumerate() {
        *place = ((role + turn) % count) as u8;
    }
    places
}
