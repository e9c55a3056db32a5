//! One repository over several targets, any two of which may be lost.
//!
//! Every object is in *containers* of the same name, one a target: large ones as a stripe of the code of [`tabane_parity`],
//! of which each target holds the cells of one role, small ones as whole copies on three targets. `docs/striped.md` is for
//! users, `docs/format.md` has every byte.
//!
//! A target that does not answer is left alone for the rest of the process, with one notice, and everything goes on without
//! it as long as no more than two are missing. [`StripedStorage::heal`] brings it up to date when it is back.

mod change;
pub mod container;
mod delete;
pub mod file;
mod get;
mod heal;
mod list;
mod open;
pub(super) mod put;
mod read;
mod rebuild;
mod set;
mod survey;
pub(super) mod targets;

use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::cluster::{self, Relay};
use super::unusable::Unusable;
use super::{Listed, Location, Name, Notice, ObjectKind, RemoteOptions, Storage};
use crate::id::Id;
use crate::sync::lock;
use container::Geometry;
use set::Description;
use targets::Targets;

pub use heal::{HealOptions, HealReport};
pub use open::Place;
pub use survey::{Survey, TargetState};

pub(crate) use container::is_container;

/// Copies of what is not striped.
const REPLICAS: usize = 3;

/// Geometries that are remembered at most.
const KNOWN_MAX: usize = 100_000;

/// Objects over several targets.
pub struct StripedStorage {
    location: String,
    targets: Targets,
    /// Numbers of the targets of each generation.
    generations: Vec<Vec<usize>>,
    description: Description,
    /// What is known of objects that are striped.
    known: Mutex<HashMap<Id, Geometry>>,
    /// What was deleted while a target was away that may have it.
    deleted: Mutex<HashSet<Id>>,
    /// Sends stripes to nodes that make parities among themselves.
    relay: Option<Relay>,
}

impl StripedStorage {
    /// The set that is at these places; `location` is for people. Two of them may be missing.
    ///
    /// # Errors
    /// One sentence, when too few of them are there, or one is where it should not be.
    pub fn open(location: String, places: Vec<Place>, notice: Notice) -> io::Result<Self> {
        let found = open::find(open::ask(places), notice)?;
        let (description, targets) = (found.description, found.targets);
        let numbers = |ids: &Vec<Id>| {
            let numbers = ids.iter().map(|&id| targets.position(id));
            numbers
                .map(|number| number.expect("a description names its own targets"))
                .collect()
        };
        let storage = Self {
            location,
            generations: description.generations.iter().map(numbers).collect(),
            description,
            targets,
            known: Mutex::default(),
            deleted: Mutex::new(found.deleted.into_iter().collect()),
            relay: None,
        };
        storage.check_enough()?;
        storage.tell_of_missing();
        Ok(storage)
    }

    /// Makes a new set of at least three places, which must be empty. What was interrupted goes on.
    ///
    /// # Errors
    /// One sentence, when there are too few, one of them does not answer, or holds something else.
    pub fn form(places: Vec<Place>, fixed_roles: bool) -> io::Result<()> {
        open::form(places, fixed_roles)
    }

    /// Lets nodes make the parities, where all targets are nodes.
    #[must_use]
    pub fn with_relay(mut self, relay: Relay) -> Self {
        self.relay = Some(relay);
        self
    }

    /// Where its targets are, or were when they were last seen.
    pub fn urls(&self) -> impl Iterator<Item = &str> {
        self.targets.all().iter().map(|target| target.url.as_str())
    }

    /// What puts another target in the place of one.
    pub fn replace_command(&self) -> &'static str {
        match self.urls().all(cluster::is_url) {
            true => "tabane cluster replace",
            false => "tabane targets replace",
        }
    }

    fn tell_of_missing(&self) {
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
        let is_lost = |why: String| why != open::NOT_LISTED;
        let advice = match all
            .iter()
            .filter_map(|target| target.why_down())
            .any(is_lost)
        {
            true => format!(
                "; run `tabane heal` when they are back, or replace them with `{}`",
                self.replace_command()
            ),
            false => String::new(),
        };
        self.targets.tell(&format!(
            "{} of {} targets missing ({}): going on without, {more}{advice}",
            missing.len(),
            all.len(),
            missing.join("; "),
        ));
    }

    /// Whether all generations have enough targets in use.
    fn check_enough(&self) -> io::Result<()> {
        let is_short = |targets: &&Vec<usize>| {
            let up = targets.iter().filter(|&&number| self.targets.is_up(number));
            up.count() + 2 < targets.len()
        };
        let Some(short) = self.generations.iter().find(is_short) else {
            return Ok(());
        };
        let all = self.targets.all();
        let missing: Vec<String> = short
            .iter()
            .filter_map(|&number| {
                let why = all[number].why_down()?;
                Some(format!("{} ({why})", all[number].url))
            })
            .collect();
        let which = match short[..] == *self.newest().1 {
            true => "targets",
            false => "targets that there were before others were added",
        };
        Err(open::refusal(format!(
            "{} of {} {which} are missing, and only two may be: {}",
            missing.len(),
            short.len(),
            missing.join(", ")
        )))
    }

    /// The number that new stripes have for their generation, and its targets.
    fn newest(&self) -> (u8, &[usize]) {
        let newest = self.generations.last().expect("there is a generation");
        (self.generations.len() as u8, newest)
    }

    /// The targets of a generation; nothing if there is no such.
    fn generation(&self, generation: u8) -> Option<&[usize]> {
        let index = usize::from(generation).checked_sub(1)?;
        Some(self.generations.get(index)?)
    }

    /// By how many places roles are turned for this object, or where the places for its copies begin.
    fn turn(&self, object: Id, places: usize) -> usize {
        let first = object.0.first_chunk().expect("an ID has 32 bytes");
        (u64::from_le_bytes(*first) % places as u64) as usize
    }

    /// The target that has each role of a stripe.
    fn targets_by_role(&self, object: Id, generation: u8) -> Option<Vec<usize>> {
        let targets = self.generation(generation)?;
        let turn = match self.description.fixed_roles {
            true => 0,
            false => self.turn(object, targets.len()),
        };
        let mut by_role = targets.to_vec();
        by_role.rotate_left(turn);
        Some(by_role)
    }

    /// The targets in the order in which they are to hold copies of an object.
    fn replica_order(&self, object: Id) -> Vec<usize> {
        let (_, newest) = self.newest();
        let mut order = newest.to_vec();
        order.rotate_left(self.turn(object, newest.len()));
        let others = (0..self.targets.all().len()).filter(|number| !newest.contains(number));
        order.extend(others);
        order
    }

    /// How many copies of an object of this kind there should be, if it is not striped.
    fn replicas(&self, kind: ObjectKind) -> usize {
        match kind {
            // Nothing else can be read without them, and they hardly ever change.
            ObjectKind::Config | ObjectKind::Key => self.newest().1.len(),
            _ => REPLICAS,
        }
    }

    fn geometry_is(&self, object: Id, geometry: Geometry) {
        let mut known = lock(&self.known);
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(object, geometry);
    }

    fn is_deleted(&self, object: Id) -> bool {
        lock(&self.deleted).contains(&object)
    }
}

/// Opens the set that a file lists.
///
/// # Errors
/// [`io::ErrorKind::NotFound`] when there is no such file; as [`StripedStorage::open`].
pub fn open_file(path: &Path, options: &RemoteOptions) -> io::Result<StripedStorage> {
    let urls = file::read(path)?;
    let location = format!("striped:{}", path.display());
    let place = |url: &String| {
        let parsed = parse(url)?;
        let storage = super::open(&parsed, options);
        // It is missing then, like one that does not answer.
        let storage = storage.unwrap_or_else(|error| Arc::new(Unusable::new(url.clone(), &error)));
        let url = url.clone();
        Ok(Place { url, storage })
    };
    let places: io::Result<Vec<Place>> = urls.iter().map(place).collect();
    StripedStorage::open(location, places?, options.notice.clone())
}

/// What is at these URLs; nothing is asked yet.
///
/// # Errors
/// One sentence about the first that cannot be used.
pub fn places(urls: &[String], options: &RemoteOptions) -> io::Result<Vec<Place>> {
    let place = |url: &String| {
        let storage = super::open(&parse(url)?, options)?;
        let url = url.clone();
        Ok(Place { url, storage })
    };
    urls.iter().map(place).collect()
}

fn parse(url: &str) -> io::Result<Location> {
    Location::parse(url.as_ref()).map_err(open::refusal)
}

impl Storage for StripedStorage {
    fn location(&self) -> String {
        self.location.clone()
    }

    fn connections(&self) -> usize {
        let up = self.targets.up();
        let connections = up.iter().filter_map(|&number| self.targets.storage(number));
        connections
            .map(|storage| storage.connections())
            .max()
            .unwrap_or(1)
    }

    fn create(&self) -> io::Result<()> {
        for kind in [ObjectKind::Pack, ObjectKind::Index, ObjectKind::Snapshot] {
            // A repository that has lost its config is not to be buried under a new one.
            if !self.list(kind)?.is_empty() {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
        }
        Ok(())
    }

    fn put(&self, name: Name, parts: &[&[u8]]) -> io::Result<()> {
        self.put_object(name, parts)
    }

    fn get(&self, name: Name, range: Option<Range<u64>>) -> io::Result<Vec<u8>> {
        self.get_object(name, range)
    }

    fn list(&self, kind: ObjectKind) -> io::Result<Vec<Listed>> {
        self.list_objects(kind)
    }

    fn is_listed_as(&self, listed: u64, len: u64) -> bool {
        let stripes = (1..).zip(&self.generations);
        let mut stripes =
            stripes.map(|(number, targets)| Geometry::stripe(len, number, targets.len()));
        Geometry::replica(len).listed_len() == listed
            || stripes.any(|geometry| geometry.listed_len() == listed)
    }

    fn stat(&self, name: Name) -> io::Result<u64> {
        self.stat_object(name)
    }

    fn delete(&self, name: Name) -> io::Result<()> {
        self.delete_object(name)
    }

    fn remove_leftovers(&self, age: Duration) -> io::Result<u64> {
        self.remove_all_leftovers(age)
    }

    fn as_striped(&self) -> Option<&StripedStorage> {
        Some(self)
    }
}
