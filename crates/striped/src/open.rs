//! Finds the targets of a set, and makes new sets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use crate::container::{GENERATION_MAX, ROLES_MAX};
use crate::place::{Place, is_node_url};
use crate::set::{Description, Identity, Member, TARGETS_MAX, new_id};
use crate::targets::{Target, Targets};
use tabane_storage::{
    Event, EventKind, Id, Name, Notice, ObjectKind, Result, Storage, StorageError, StorageErrorKind,
};

/// The answer of a place.
pub struct Answer {
    pub place: Place,
    /// The identity; `None` if the place has none.
    pub identity: Result<Option<Identity>>,
    /// Whether the place holds descriptions of a set.
    pub is_described: bool,
    /// The readable descriptions.
    pub descriptions: Vec<Description>,
    /// IDs with a deletion mark.
    pub deleted: Vec<Id>,
}

/// Reads identities and descriptions from all places at once.
pub fn ask(places: Vec<Place>) -> Vec<Answer> {
    thread::scope(|scope| {
        let threads: Vec<_> = places
            .into_iter()
            .map(|place| scope.spawn(move || ask_one(place)))
            .collect();
        let answers = threads.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        answers.collect()
    })
}

fn ask_one(place: Place) -> Answer {
    let identity = match place.storage.get(Name::TARGET, None) {
        Ok(bytes) => Identity::parse(&bytes)
            .map(Some)
            .map_err(|why| StorageError::new(StorageErrorKind::Damaged, why)),
        Err(error) => match error.kind() {
            StorageErrorKind::NotFound | StorageErrorKind::NotADirectory => Ok(None),
            _ => Err(error),
        },
    };
    let answers = match &identity {
        Ok(_) => true,
        Err(error) => error.kind() == StorageErrorKind::Damaged,
    };
    let (mut is_described, mut descriptions, mut deleted) = (false, Vec::new(), Vec::new());
    if answers {
        let names = |kind| place.storage.list(kind).unwrap_or_default().into_iter();
        for listed in names(ObjectKind::Set) {
            is_described = true;
            let name = Name::new(ObjectKind::Set, listed.id);
            let bytes = place.storage.get(name, None).ok();
            let parsed = bytes.map(|bytes| Description::parse(listed.id, &bytes));
            descriptions.extend(parsed.and_then(|parsed| parsed.ok()));
        }
        deleted.extend(names(ObjectKind::Deleted).map(|listed| listed.id));
    }
    Answer {
        place,
        identity,
        is_described,
        descriptions,
        deleted,
    }
}

/// A set that was found.
pub struct Found {
    pub description: Description,
    pub targets: Targets,
    pub deleted: Vec<Id>,
}

/// Why a node of the repository is missing that the cluster file does not list.
pub const NOT_LISTED: &str = "this cluster file does not have it: get the newest one";

/// Finds the targets of a set at these places; two may be missing.
///
/// # Errors
/// When too few targets are found, or a place holds a target of another set.
pub fn find(answers: Vec<Answer>, notice: Notice) -> Result<Found> {
    // model: groups/open
    let Some(description) = description_of_most(&answers) else {
        return Err(nothing_known(&answers));
    };
    let mut places: Vec<Option<Place>> = vec![None; description.targets.len()];
    let mut why = vec![String::new(); places.len()];
    let mut away: Vec<Option<Arc<dyn Storage>>> = vec![None; places.len()];
    let mut deleted = Vec::new();
    let (mut silent, mut empty) = (Vec::new(), Vec::new());
    for answer in answers {
        let url = &answer.place.url;
        let of_url = || {
            description
                .targets
                .iter()
                .position(|member| member.url == *url)
        };
        let number = match &answer.identity {
            Ok(Some(identity)) if identity.set != description.set => {
                return Err(refusal(format!(
                    "{url} is a target of another striped repository: correct the {}",
                    list_of([url])
                )));
            }
            Ok(Some(identity)) => {
                let mut members = description.targets.iter();
                match members.position(|member| member.id == identity.target) {
                    Some(number) => number,
                    None => {
                        notice(&Event {
                            kind: EventKind::TargetReplaced {
                                is_node: is_node_url(url),
                            },
                            text: format!(
                                "{url} is not used: it was a target of this repository and \
                                 was replaced by another, or never came into use"
                            ),
                        });
                        continue;
                    }
                }
            }
            // The target has a description but no identity: an interrupted heal was about to
            // rewrite it.
            Ok(None) if answer.is_described => match of_url() {
                Some(number) => number,
                None => continue,
            },
            Ok(None) => {
                match of_url() {
                    Some(number) => {
                        "the place is empty (is a disk not mounted?)".clone_into(&mut why[number]);
                    }
                    None => empty.push(answer.place.url),
                }
                continue;
            }
            // The place of this target has a damaged identity: it counts by its URL.
            Err(error) if error.kind() == StorageErrorKind::Damaged => match of_url() {
                Some(number) => number,
                None => continue,
            },
            Err(error) => {
                match of_url() {
                    Some(number) => {
                        why[number] = error.to_string();
                        away[number] = Some(answer.place.storage);
                    }
                    None => silent.push(format!("{url}: {error}")),
                }
                continue;
            }
        };
        if let Some(other) = &places[number] {
            return Err(refusal(format!(
                "{} and {url} are the same target: list every target once",
                other.url
            )));
        }
        deleted.extend(answer.deleted);
        places[number] = Some(answer.place);
    }
    let targets = description.targets.iter().zip(places).zip(why).zip(away);
    let targets = targets.map(|(((member, place), why), away)| match place {
        Some(place) => Target::new(member.id, place.url, place.storage),
        None if why.is_empty() => {
            let why = match (&silent[..], &empty[..]) {
                _ if is_node_url(&member.url) => NOT_LISTED.to_owned(),
                ([], []) => "no place in the set file holds it".to_owned(),
                ([], empty) => {
                    format!(
                        "no place in the set file holds it, and {} holds no target",
                        empty.join(", ")
                    )
                }
                (silent, _) => {
                    format!(
                        "it may be at a place that cannot be read: {}",
                        silent.join(", ")
                    )
                }
            };
            Target::absent(member.id, member.url.clone(), None, why)
        }
        None => Target::absent(member.id, member.url.clone(), away, why),
    });
    let targets = Targets::new(targets.collect(), notice);
    Ok(Found {
        description,
        targets,
        deleted,
    })
}

/// The latest description of the set. Concurrent or interrupted changes can leave two of one epoch;
/// then the description on more places counts, independent of their order.
fn description_of_most(answers: &[Answer]) -> Option<Description> {
    let set = set_of_most(answers)?;
    let mut copies: BTreeMap<Id, (u64, usize, &Description)> = BTreeMap::new();
    let known = answers.iter().flat_map(|answer| &answer.descriptions);
    for description in known.filter(|description| description.set == set) {
        let (id, _) = description.to_object();
        copies
            .entry(id)
            .or_insert((description.epoch, 0, description))
            .1 += 1;
    }
    let most = copies
        .into_iter()
        .max_by_key(|(id, (epoch, count, _))| (*epoch, *count, *id));
    most.map(|(_, (_, _, description))| description.clone())
}

/// The set of most places, so that a place listed by mistake is the one that the error names.
fn set_of_most(answers: &[Answer]) -> Option<Id> {
    let mut places: BTreeMap<Id, usize> = BTreeMap::new();
    for answer in answers {
        let own = match &answer.identity {
            Ok(Some(identity)) => Some(identity.set),
            _ => answer.descriptions.first().map(|known| known.set),
        };
        if let Some(set) = own {
            *places.entry(set).or_default() += 1;
        }
    }
    let most = places.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(set, _)| set)
}

/// Makes a set of these groups of empty places, or resumes an interrupted attempt.
///
/// # Errors
/// When the places are too few, or one does not answer or holds other data.
pub fn form(groups: Vec<Vec<Place>>, fixed_roles: bool) -> Result<()> {
    for group in &groups {
        check_size(group.len())?;
    }
    let sizes: Vec<usize> = groups.iter().map(Vec::len).collect();
    let places: Vec<Place> = groups.into_iter().flatten().collect();
    if sizes.len() > usize::from(GENERATION_MAX) || places.len() > TARGETS_MAX {
        let text = format!("a set has at most {GENERATION_MAX} groups, and {TARGETS_MAX} targets");
        return Err(refusal(text));
    }
    for (number, place) in places.iter().enumerate() {
        if places[..number].iter().any(|other| other.url == place.url) {
            return Err(refusal(format!("{} is listed twice", place.url)));
        }
        refuse_within(&place.url, places.iter().map(|other| &*other.url))?;
    }
    let answers = ask(places);
    let mut set = None;
    for answer in &answers {
        let url = &answer.place.url;
        let blame = |error: &StorageError| refusal(format!("cannot use the target {url}: {error}"));
        match &answer.identity {
            Ok(Some(identity)) if set.is_some_and(|set| set != identity.set) => {
                return Err(refusal(format!(
                    "{url} is a target of another striped repository"
                )));
            }
            Ok(Some(identity)) => set = Some(identity.set),
            Ok(None) => answer
                .place
                .storage
                .create()
                .map_err(|error| match error.kind() {
                    StorageErrorKind::NotEmpty => refusal(format!(
                        "{url} is not empty: choose empty or new places for targets"
                    )),
                    _ => blame(&error),
                })?,
            Err(error) => return Err(blame(error)),
        }
    }
    let set = set.unwrap_or_else(new_id);
    let mut members = Vec::new();
    for answer in &answers {
        let id = match &answer.identity {
            Ok(Some(identity)) => identity.target,
            _ => {
                let identity = Identity::new(set, new_id());
                let put = answer
                    .place
                    .storage
                    .put(Name::TARGET, &[&identity.to_bytes()]);
                put.map_err(|error| {
                    let url = &answer.place.url;
                    refusal(match error.kind() {
                        StorageErrorKind::AlreadyExists => {
                            format!(
                                "{url} is listed twice under different URLs, or another client is \
                                 making a target there now"
                            )
                        }
                        _ => format!("cannot write to {url}: {error}"),
                    })
                })?;
                identity.target
            }
        };
        if members.iter().any(|member: &Member| member.id == id) {
            let url = &answer.place.url;
            return Err(refusal(format!(
                "{url} is the same target as another that is listed"
            )));
        }
        let url = answer.place.url.clone();
        members.push(Member { id, url });
    }
    let mut known = answers.iter().flat_map(|answer| &answer.descriptions);
    let description = match known.next() {
        Some(known) => {
            let is_member =
                |member: &Member| known.targets.iter().any(|other| other.id == member.id);
            if known.targets.len() != members.len() || !members.iter().all(is_member) {
                return Err(refusal(format!(
                    "these places are targets of a set of {}: name all of them and no others",
                    known.targets.len()
                )));
            }
            known.clone()
        }
        None => {
            let mut members = members.into_iter();
            let groups = sizes
                .iter()
                .map(|&size| members.by_ref().take(size).collect());
            Description::new(set, groups.collect(), fixed_roles)
        }
    };
    for answer in &answers {
        let storage = &answer.place.storage;
        put_description(&**storage, &description)
            .map_err(|error| refusal(format!("cannot write to {}: {error}", answer.place.url)))?;
    }
    Ok(())
}

/// Refuses a group of so many targets if they are too few or too many.
pub fn check_size(targets: usize) -> Result<()> {
    match targets {
        0..3 => Err(refusal(format!(
            "{targets} targets are too few: surviving the loss of two takes at least 3"
        ))),
        3..=ROLES_MAX => Ok(()),
        _ => Err(refusal(format!(
            "{targets} targets are too many for one group: 32 are the most"
        ))),
    }
}

/// Refuses a place inside another one, since both would be lost together.
pub fn refuse_within<'a>(url: &str, others: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let is_in = |inner: &str, outer: &str| {
        let rest = inner.strip_prefix(outer.trim_end_matches('/'));
        rest.is_some_and(|rest| {
            rest.len() > 1 && rest.starts_with('/') && rest.split('/').all(|part| part != "..")
        })
    };
    for other in others {
        if is_in(url, other) || is_in(other, url) {
            return Err(refusal(format!(
                "{url} and {other} are one inside of the other, and would be lost together: choose \
                 places apart"
            )));
        }
    }
    Ok(())
}

/// Puts a description, unless it exists.
pub fn put_description(storage: &dyn Storage, description: &Description) -> Result<()> {
    let (id, bytes) = description.to_object();
    match storage.put(Name::new(ObjectKind::Set, id), &[&bytes]) {
        Err(error) if error.kind() == StorageErrorKind::AlreadyExists => Ok(()),
        done => done,
    }
}

/// The error when no place holds a description.
fn nothing_known(answers: &[Answer]) -> StorageError {
    let of = |answer: &Answer| match &answer.identity {
        Ok(Some(_)) => format!("{}: its description of the set is lost", answer.place.url),
        Ok(None) => format!("{}: the place is empty", answer.place.url),
        Err(error) => format!("{}: {error}", answer.place.url),
    };
    let each: Vec<String> = answers.iter().map(of).collect();
    let list = list_of(answers.iter().map(|answer| &answer.place.url));
    if each.is_empty() {
        refusal(format!("the {list} lists no targets"))
    } else {
        StorageError::new(
            StorageErrorKind::NoTargets,
            format!(
                "none of the places in the {list} holds a target ({})",
                each.join("; ")
            ),
        )
    }
}

/// The list that names these places, for messages.
fn list_of<'a>(urls: impl IntoIterator<Item = &'a String>) -> &'static str {
    if urls.into_iter().any(|url| is_node_url(url)) {
        "cluster file"
    } else {
        "set file"
    }
}

/// An error that is one sentence for a person.
pub fn refusal(text: String) -> StorageError {
    StorageError::new(StorageErrorKind::Permanent, text)
}
