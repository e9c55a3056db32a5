//! Adds and replaces targets of a set.

use crate::container::{GENERATION_MAX, ROLES_MAX};
use crate::open::{check_size, put_description, refusal, refuse_within};
use crate::place::Place;
use crate::set::{Description, Identity, Member, TARGETS_MAX, new_id};
use crate::striped::StripedStorage;
use tabane_storage::{Id, Name, ObjectKind, Result, Storage, StorageError, StorageErrorKind};

impl StripedStorage {
    /// Adds an empty place as a target of the smallest group, over which its new stripes are spread
    /// too. Existing objects stay where they are. Open the set again afterwards.
    ///
    /// # Errors
    /// When a target is missing, the set is at its maximum of targets, or the place cannot be used.
    pub fn add(&self, place: &Place) -> Result<()> {
        let smallest = self.generation(self.description.smallest_group());
        if smallest.is_some_and(|targets| targets.len() == ROLES_MAX) {
            let text = format!("a group has at most {ROLES_MAX} targets");
            return Err(StorageError::new(StorageErrorKind::TooManyTargets, text));
        }
        self.grow(std::slice::from_ref(place), |mut members| {
            let member = members.pop().expect("there is one place");
            self.description.add(member)
        })
    }

    /// Adds 3 to 32 empty places as one more group. Existing objects stay where they are. Open the
    /// set again afterwards.
    ///
    /// # Errors
    /// As [`StripedStorage::add`].
    pub fn add_group(&self, places: &[Place]) -> Result<()> {
        check_size(places.len())?;
        self.grow(places, |members| self.description.add_group(members))
    }

    /// Makes these empty places targets of the set that `grown` describes.
    fn grow(&self, places: &[Place], grown: impl Fn(Vec<Member>) -> Description) -> Result<()> {
        let is_new = |url: &str| places.iter().any(|place| place.url == url);
        // An interrupted attempt may have made the places known already.
        let mut all = self.targets.all().iter();
        let missing = all.find(|target| target.why_down().is_some() && !is_new(&target.url));
        if let Some(missing) = missing {
            return Err(refusal(format!(
                "{} is missing: bring it back or replace it before adding another",
                missing.url
            )));
        }
        let known = self.urls().filter(|url| is_new(url)).count();
        if known == places.len() {
            return self.announce(places, &self.description);
        }
        if known > 0 {
            let text = "some of these are targets of the set already: add the others alone";
            return Err(refusal(text.to_owned()));
        }
        if self.generations.len() == usize::from(GENERATION_MAX)
            || self.targets.all().len() + places.len() > TARGETS_MAX
        {
            let text = format!(
                "a set has at most {TARGETS_MAX} targets, and can grow {} times",
                GENERATION_MAX - 1
            );
            return Err(StorageError::new(StorageErrorKind::TooManyTargets, text));
        }
        let members: Result<Vec<Member>> =
            places.iter().map(|place| self.new_member(place)).collect();
        let members = members?;
        let is_known = |member: &Member| self.targets.position(member.id).is_some();
        if members.iter().any(is_known) {
            return self.announce(places, &self.description);
        }
        self.announce(places, &grown(members))
    }

    /// Lets a set that older programs made have tagged shards; these programs cannot open it
    /// afterwards. Returns false, and changes nothing, if it may have some already, or a target is
    /// missing. Open the set again after a change; then a heal that knows the secret makes tags.
    ///
    /// # Errors
    /// When a target cannot be written to; when another client changes the set.
    pub fn allow_tags(&self) -> Result<bool> {
        if self.is_tagged() || self.check_all_there().is_err() {
            return Ok(false);
        }
        self.announce(&[], &self.description.tagged())?;
        Ok(true)
    }

    /// Replaces a target, named by its ID or its URL, by an empty place, and returns the URL of the
    /// old target. [`StripedStorage::heal`] then writes the parts that belong there. Open the set
    /// again afterwards.
    ///
    /// # Errors
    /// When no target or several have this name, data would be lost without it, or the place cannot
    /// be used. [`StorageErrorKind::Minority`] if no more than half of the targets are there: on
    /// the other side of a network that is cut, somebody may replace these by others, and what is
    /// stored on one side then is lost to the other.
    pub fn replace(&self, old: &str, place: &Place) -> Result<String> {
        let (there, all) = (self.targets.up().len(), self.description.targets.len());
        if 2 * there <= all {
            let text = format!(
                "{there} of {all} targets are there, no more than half: others may be changing the \
                 set without these"
            );
            return Err(StorageError::new(StorageErrorKind::Minority, text));
        }
        self.replace_lost(old, place)
    }

    /// As [`StripedStorage::replace`], also if most targets are lost: no client may reach them any
    /// more.
    ///
    /// # Errors
    /// As [`StripedStorage::replace`], but for [`StorageErrorKind::Minority`].
    pub fn replace_lost(&self, old: &str, place: &Place) -> Result<String> {
        let all = self.targets.all();
        let is_old = |number: &usize| {
            let target = &all[*number];
            target.url == old || (old.len() >= 8 && target.id.has_prefix(old))
        };
        let named: Vec<usize> = (0..all.len()).filter(is_old).collect();
        if named.is_empty() && all.iter().any(|target| target.url == place.url) {
            // An earlier attempt may have been interrupted when only the old target was told.
            self.announce(std::slice::from_ref(place), &self.description)?;
            let text = format!(
                "{old:?} is not a target of this set, and {} is one already",
                place.url
            );
            return Err(StorageError::new(StorageErrorKind::AlreadyReplaced, text));
        }
        let [number] = named[..] else {
            let text = format!("{old:?} names no target, or several");
            return Err(StorageError::new(StorageErrorKind::NoSuchTarget, text));
        };
        if self.targets.is_up(number) && !self.survey()?.spare.contains(&number) {
            let text = format!("data would be lost without {}", all[number].url);
            return Err(StorageError::new(StorageErrorKind::TargetNeeded, text));
        }
        let member = self.new_member(place)?;
        match self.targets.position(member.id) {
            None => {
                let replaced = self.description.replace(all[number].id, member);
                self.announce(std::slice::from_ref(place), &replaced)?;
            }
            // An earlier attempt was interrupted after it had given this place its identity.
            Some(known) if known == number && place.storage.stat(Name::CONFIG).is_err() => {
                self.announce(std::slice::from_ref(place), &self.description)?;
            }
            Some(_) => {
                return Err(refusal(format!(
                    "{} is a target of this set already",
                    place.url
                )));
            }
        }
        Ok(all[number].url.clone())
    }

    /// Prepares a place as a target, or finishes what an interrupted attempt began.
    fn new_member(&self, place: &Place) -> Result<Member> {
        refuse_within(
            &place.url,
            self.targets.all().iter().map(|target| &*target.url),
        )?;
        let cannot = |error: StorageError| {
            let why = match error.kind() {
                StorageErrorKind::NotEmpty => {
                    "it is not empty, and a new target has to be".to_owned()
                }
                _ => error.to_string(),
            };
            refusal(format!("cannot use {}: {why}", place.url))
        };
        let set = self.description.set;
        let id = match place.storage.get(Name::TARGET, None) {
            Ok(bytes) => {
                let identity = Identity::parse(&bytes).map_err(refusal)?;
                if identity.set != set {
                    let text = format!("{} is a target of another striped repository", place.url);
                    return Err(refusal(text));
                }
                let was_one = self.was_target(&*place.storage, identity.target);
                if was_one {
                    let text = format!(
                        "{} was a target of this set before: empty it first",
                        place.url
                    );
                    return Err(refusal(text));
                }
                identity.target
            }
            Err(_) => {
                place.storage.create().map_err(cannot)?;
                let identity = Identity::new(set, new_id());
                let put = place.storage.put(Name::TARGET, &[&identity.to_bytes()]);
                put.map_err(cannot)?;
                identity.target
            }
        };
        Ok(Member {
            id,
            url: place.url.clone(),
        })
    }

    /// Whether a place with the identity `id` is a former target that was replaced.
    fn was_target(&self, storage: &dyn Storage, id: Id) -> bool {
        self.targets.position(id).is_none() && storage.stat(Name::CONFIG).is_ok()
    }

    /// Puts a new description on new targets, if any, and all others in use. One that is replaced
    /// may be broken, and is told if it can be. The description of the highest epoch counts, so an
    /// interrupted change is either made or without effect.
    ///
    /// Of two clients that change the set at once, at least one finds the other's description,
    /// since both look after putting their own: a client that finds another's deletes its own.
    pub(crate) fn announce(&self, places: &[Place], description: &Description) -> Result<()> {
        let cannot = |url: &str, error: StorageError| {
            refusal(format!(
                "cannot write to {url}: {error}; mend that, then run the same command again: it \
                 ends what this one began"
            ))
        };
        let up = self.targets.up().into_iter();
        let known = up.filter_map(|number| {
            let url = &*self.targets.all()[number].url;
            Some((number, url, self.targets.storage(number)?))
        });
        let stays = |number: usize| {
            let id = self.targets.all()[number].id;
            description.targets.iter().any(|member| member.id == id)
        };
        let (stay, leave): (Vec<_>, Vec<_>) = known.partition(|(number, ..)| stays(*number));
        let stay = stay.into_iter().map(|(_, url, storage)| (url, storage));
        let mut stay: Vec<(&str, &dyn Storage)> = stay.collect();
        let overtaken = || {
            let text = "another client has just changed the targets, so this change was not made";
            Err(StorageError::new(StorageErrorKind::Overtaken, text))
        };
        // model: groups/announce
        for (url, storage) in &stay {
            // Nobody who opens the set now is to follow a description that does not stay.
            if !is_latest(*storage, description).map_err(|error| cannot(url, error))? {
                return overtaken();
            }
        }
        for (.., storage) in &leave {
            // Clients that know only such targets learn of it, before anybody who follows it puts
            // something elsewhere.
            let _ = put_description(*storage, description);
        }
        stay.extend(places.iter().map(|place| (&*place.url, &*place.storage)));
        for (url, storage) in &stay {
            put_description(*storage, description).map_err(|error| cannot(url, error))?;
        }
        let (own, _) = description.to_object();
        let mut is_alone = true;
        for (url, storage) in &stay {
            is_alone &= is_latest(*storage, description).map_err(|error| cannot(url, error))?;
        }
        if is_alone {
            return Ok(());
        }
        // A description that was in use before must not be deleted.
        let is_new = *description != self.description;
        for (.., storage) in leave.iter().filter(|_| is_new) {
            let _ = storage.delete(Name::new(ObjectKind::Set, own));
        }
        for (url, storage) in stay.iter().filter(|_| is_new) {
            match storage.delete(Name::new(ObjectKind::Set, own)) {
                Err(error) if error.kind() != StorageErrorKind::NotFound => {
                    return Err(cannot(url, error));
                }
                _ => {}
            }
        }
        overtaken()
    }
}

/// Whether this target holds no other description of the same or a higher epoch.
fn is_latest(storage: &dyn Storage, description: &Description) -> Result<bool> {
    let (own, _) = description.to_object();
    for listed in storage.list(ObjectKind::Set)? {
        if listed.id == own {
            continue;
        }
        let bytes = match storage.get(Name::new(ObjectKind::Set, listed.id), None) {
            // Another client has just deleted its description.
            Err(error) if error.kind() == StorageErrorKind::NotFound => continue,
            read => read?,
        };
        let other = Description::parse(listed.id, &bytes);
        if other.is_ok_and(|other| other.set == description.set && other.epoch >= description.epoch)
        {
            return Ok(false);
        }
    }
    Ok(true)
}
