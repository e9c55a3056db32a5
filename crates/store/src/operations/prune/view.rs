//! The objects of a repository at one time, read in the order of rule 2 of
//! [`crate::access::removal`].

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use crate::access::client::{self, Presence, Seen};
use crate::access::listing::READ_ATTEMPTS_MAX;
use crate::access::reach::{Reach, is_whole};
use crate::access::reader::BlockReader;
use crate::access::removal::{Removal, Removals};
use crate::access::repository::Repository;
use tabane_format::pack::BlockKind;
use tabane_format::snapshot::Snapshot;
use tabane_format::{Error, Result};
use tabane_index::{Index, IndexSegment, PackContents};
use tabane_storage::sync::{both, lock};
use tabane_storage::{Id, Listed, ObjectKind};

/// Age at which a dead client's pending snapshot is removed: until then it warns that the snapshot,
/// should it appear, may lack blocks.
const PENDING_AGE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// The objects of a repository at one time.
pub struct View {
    pub removals: Removals,
    /// Time at which each removal was written.
    pub removal_times: HashMap<Id, SystemTime>,
    /// Snapshots that lack blocks and whose clients died before deleting them: no user was told of
    /// these.
    pub unconfirmed: Vec<Id>,
    /// Pending snapshots of ended clients that are no longer needed.
    pub settled: Vec<Id>,
    /// Number of snapshots.
    pub snapshots: u64,
    /// The objects of the index.
    pub objects: IndexObjects,
    /// Packs of which only write-only keys have said something, in full length, with what they
    /// said: several things if somebody lies.
    pub unverified: BTreeMap<Id, Vec<PackContents>>,
    /// Index of the packs that exist in full length.
    pub index: Arc<Index>,
    /// Indexed packs that exist in full length: kind, and bytes of their blocks.
    pub whole_packs: BTreeMap<Id, (BlockKind, u64)>,
    /// All packs in the storage.
    pub packs: HashMap<Id, Listed>,
    /// Other clients at work.
    pub alive: Vec<Seen>,
    /// Other clients that crashed.
    pub dead: Vec<Seen>,
    /// The time by the clock of the storage.
    pub now: SystemTime,
}

/// The objects of the index at one time.
#[derive(Default)]
pub struct IndexObjects {
    /// Those that full keys wrote.
    pub segments: BTreeMap<Id, IndexSegment>,
    /// Those of them that write-only keys cannot read and should.
    pub unsigned: HashSet<Id>,
    /// Those that write-only keys wrote.
    pub unverified: BTreeMap<Id, IndexSegment>,
}

impl View {
    /// Reads all but the `known` index objects, and adds the blocks that snapshots need to `reach`.
    /// Snapshots in `forgotten` count as removed. The `presence` of a prune is announced at the
    /// latest beside the first lists.
    ///
    /// # Errors
    /// [`Error::CannotPrune`] when a block of a snapshot is missing or a snapshot cannot be read;
    /// [`Error::SnapshotLost`]; when the storage fails.
    pub fn load(
        repository: &Repository,
        presence: Option<&Presence>,
        forgotten: &HashSet<Id>,
        mut known: IndexObjects,
        reach: &mut Reach,
    ) -> Result<Self> {
        let mut last = None;
        for _ in 0..READ_ATTEMPTS_MAX {
            let known = std::mem::take(&mut known);
            let result = Self::try_load(repository, presence, forgotten, known, reach);
            let is_complete = match &result {
                Ok(view) => view.unconfirmed.is_empty(),
                Err(Error::CannotPrune(_) | Error::SnapshotLost(_)) => false,
                Err(_) => true,
            };
            if is_complete {
                return result;
            }
            // Another client may have moved a missing block between our listings. A block counts as
            // missing if two reads in a row lack it and the listings are equal.
            let kinds = [
                ObjectKind::Removal,
                ObjectKind::Unverified,
                ObjectKind::Index,
                ObjectKind::Pack,
            ];
            let state = kinds.map(|kind| repository.list(kind));
            let [removals, unverified, index, packs] = state;
            let state = Some((removals?, unverified?, index?, packs?));
            if state == last {
                return result;
            }
            last = state;
        }
        let why = "what the storage lists changes each time that it is asked";
        Err(Error::CannotPrune(why.to_owned()))
    }

    fn try_load(
        repository: &Repository,
        presence: Option<&Presence>,
        forgotten: &HashSet<Id>,
        known: IndexObjects,
        reach: &mut Reach,
    ) -> Result<Self> {
        let Objects {
            removals,
            removal_times,
            pending,
            pending_snapshots,
            mut snapshots,
            index: objects,
            packs,
            clients,
            listed_clients,
        } = read_objects(repository, presence, known)?;
        if let Some(memory) = repository.memory() {
            memory.want_all(repository, |id| snapshots.contains_key(id))?;
        }
        snapshots.retain(|id, snapshot| {
            // What nobody with a key has made needs nothing.
            !forgotten.contains(id) && !matches!(snapshot, Err(Error::Foreign(_)))
        });
        let (clients, now) = match presence {
            Some(presence) => match presence.others_of(clients, &listed_clients)? {
                Some(others) => others,
                None => presence.others()?,
            },
            None => without_presence(clients, &packs),
        };
        let (dead, alive): (Vec<Seen>, Vec<Seen>) =
            clients.into_iter().partition(|seen| seen.is_dead(now));

        let mut index = Index::as_of(removals.names(), removals.condemned());
        let mut whole_packs = BTreeMap::new();
        let mut add = |index: &mut Index, pack: &Id, contents: &PackContents| -> Result<bool> {
            let len = contents.object_len();
            let is_whole = |listed: &Listed| repository.storage().is_listed_as(listed.len, len);
            if !packs.get(pack).is_some_and(is_whole) {
                return Ok(false);
            }
            index.add(*pack, contents)?;
            let raw = contents
                .segments
                .iter()
                .map(|segment| segment.raw_len() as u64);
            whole_packs.insert(*pack, (contents.kind.blocks(), raw.sum()));
            Ok(true)
        };
        for (pack, contents) in objects.segments.values().flatten() {
            add(&mut index, pack, contents)?;
        }
        let verified: HashSet<Id> = index
            .packs()
            .map(|pack| pack.map(|pack| pack.id))
            .collect::<tabane_index::Result<_>>()?;
        let mut unverified: BTreeMap<Id, Vec<PackContents>> = BTreeMap::new();
        let mut unverified_index = Index::default();
        for (pack, contents) in objects.unverified.values().flatten() {
            if !verified.contains(pack) && add(&mut unverified_index, pack, contents)? {
                let said = unverified.entry(*pack).or_default();
                if !said.contains(contents) {
                    said.push(contents.clone());
                }
            }
        }
        index.add_unverified(unverified_index)?;
        let index = Arc::new(index);

        // Pending snapshots of ended clients keep no blocks, but stay to warn of a snapshot that
        // appears late.
        let oldest = alive.iter().map(Seen::since).min().unwrap_or(now);
        let left: HashMap<Id, SystemTime> = pending
            .iter()
            .filter(|pending| pending.modified < oldest)
            .map(|pending| (pending.id, pending.modified))
            .collect();
        let mut settled: BTreeSet<Id> = left
            .iter()
            .filter(|(_, written)| {
                let age = now.duration_since(**written);
                age.is_ok_and(|age| age > PENDING_AGE_MAX)
            })
            .map(|(id, _)| *id)
            .collect();
        let mut unconfirmed = Vec::new();

        let mut reader = BlockReader::of_trees(repository);
        reach.keep_if_all_in(|id| snapshots.contains_key(id) || pending_snapshots.contains_key(id));
        let snapshot_count = snapshots.len() as u64;
        for (id, snapshot) in snapshots {
            let announced: Vec<Id> = pending_snapshots
                .iter()
                .filter(|(_, pending)| matches!((pending, &snapshot), (Ok(a), Ok(b)) if a == b))
                .map(|(id, _)| *id)
                .collect();
            if let Ok(snapshot) = &snapshot
                && !announced.is_empty()
                && !is_whole(&mut reader, &index, &snapshot.root)
                    .map_err(|error| cannot_read(id, error))?
            {
                // The client deletes this snapshot itself, unless it crashed.
                if announced.iter().all(|id| left.contains_key(id)) {
                    unconfirmed.push(id);
                    settled.extend(announced);
                }
                continue;
            }
            settled.extend(announced.into_iter().filter(|id| left.contains_key(id)));
            let read = match snapshot {
                Ok(snapshot) => reach.add_snapshot(&mut reader, &index, id, &snapshot.root),
                Err(error) => Err(error),
            };
            read.map_err(|error| cannot_read(id, error))?;
        }
        if let Some(missing) = reach.first_missing(&index)? {
            let why = format!("block {missing}, which a snapshot needs, is missing");
            return Err(Error::CannotPrune(why));
        }
        for (id, snapshot) in pending_snapshots {
            let Ok(snapshot) = snapshot else { continue };
            if left.contains_key(&id) {
                continue;
            }
            // The client that commits this snapshot copies missing blocks itself; if it crashed,
            // nobody needs them. To keep what is there only saves it that.
            if let Ok(true) = is_whole(&mut reader, &index, &snapshot.root) {
                reach.add_snapshot(&mut reader, &index, id, &snapshot.root)?;
            }
        }
        Ok(Self {
            removals,
            removal_times,
            unconfirmed,
            settled: settled.into_iter().collect(),
            snapshots: snapshot_count,
            objects,
            unverified,
            index,
            whole_packs,
            packs,
            dead,
            alive,
            now,
        })
    }

    /// The removals whose packs may be deleted: all clients that began before them have ended, and
    /// they are at least `grace` old.
    pub fn due(&self, grace: Duration) -> Vec<&Removal> {
        let oldest = self.oldest_client();
        let is_due = |written: &SystemTime| {
            let age = self.now.duration_since(*written).unwrap_or_default();
            age >= grace && oldest.is_none_or(|oldest| *written < oldest)
        };
        let due = self.removals.iter().filter(|(id, removal)| {
            !removal.is_waiting && self.removal_times.get(id).is_some_and(is_due)
        });
        due.map(|(_, removal)| removal).collect()
    }

    /// The removals that another one has superseded: all but the newest.
    pub fn superseded_removals(&self) -> Vec<Id> {
        let newest = self.removal_times.values().max();
        let times = self.removal_times.iter();
        let older = times.filter(|(_, time)| Some(*time) < newest);
        older.map(|(id, _)| *id).collect()
    }

    /// Start of the oldest other client at work.
    pub fn oldest_client(&self) -> Option<SystemTime> {
        self.alive.iter().map(Seen::since).min()
    }

    /// Packs that the index or a removal names and the storage lacks.
    pub fn absent(&self) -> HashSet<Id> {
        let objects = &self.objects;
        let named = objects.segments.values().chain(objects.unverified.values());
        let named = named.flatten();
        let mut absent = self.removals.condemned();
        absent.extend(named.map(|(pack, _)| *pack));
        absent.retain(|id| !self.packs.contains_key(id));
        absent
    }
}

/// What is read of a repository, as rule 2 wants it.
struct Objects {
    removals: Removals,
    removal_times: HashMap<Id, SystemTime>,
    pending: Vec<Listed>,
    pending_snapshots: BTreeMap<Id, Result<Snapshot>>,
    snapshots: BTreeMap<Id, Result<Snapshot>>,
    index: IndexObjects,
    packs: HashMap<Id, Listed>,
    clients: Vec<Seen>,
    listed_clients: Vec<Listed>,
}

/// Lists and reads all objects but the `known` ones of the index, again if some of them are deleted
/// meanwhile.
fn read_objects(
    repository: &Repository,
    presence: Option<&Presence>,
    mut known: IndexObjects,
) -> Result<Objects> {
    let signs = repository.config().has_writers();
    let is_far = repository.is_far();
    let unsigned = Mutex::new(known.unsigned);
    let kinds = [
        // model: removal/view/list-removals
        ObjectKind::Removal,
        // model: removal/view/list-pending
        ObjectKind::Pending,
        // model: removal/view/list-snapshots
        ObjectKind::Snapshot,
        // model: removal/view/list-unverified
        ObjectKind::Unverified,
        // model: removal/view/list-objects
        ObjectKind::Index,
        // model: removal/view/list-packs
        ObjectKind::Pack,
        ObjectKind::Client,
    ];
    let announce = || presence.map(Presence::ensure).transpose();
    let read = repository.read_at_one_moment(kinds, announce, |lists| {
        let [listed, pending, snapshots, unverified, segments, _, clients] = lists;
        let read_snapshots = |kind, listed: &[Listed]| {
            let read = |id| repository.load_snapshot_from(kind, id);
            repository.read_each_listed(listed, read)
        };
        let read_removals = || {
            let read = |id| repository.read_removal_that_counts(id);
            repository.read_listed(listed, &mut BTreeMap::new(), read)
        };
        let read_unverified = || {
            let read = |id| repository.read_unverified(id);
            repository.read_listed(unverified, &mut known.unverified, read)
        };
        let read_segments = || {
            let read = |id| {
                let (packs, is_signed) = repository.read_index_and_format(id)?;
                if signs && !is_signed {
                    lock(&unsigned).insert(id);
                }
                Ok(packs)
            };
            repository.read_listed(segments, &mut known.segments, read)
        };
        let read_clients = || client::read_listed(repository, clients.clone());
        let (of_snapshots, ((of_removals, clients), of_packs)) = both(
            is_far,
            || {
                both(
                    is_far,
                    || read_snapshots(ObjectKind::Pending, pending),
                    || read_snapshots(ObjectKind::Snapshot, snapshots),
                )
            },
            || {
                both(
                    is_far,
                    || both(is_far, read_removals, read_clients),
                    || both(is_far, read_unverified, read_segments),
                )
            },
        );
        let of_index = (of_packs.0?, of_packs.1?);
        let read = (of_snapshots.0?, of_snapshots.1?, of_removals?, of_index);
        let (
            Some(pending_snapshots),
            Some(snapshots),
            Some(removals),
            (Some(unverified), Some(segments)),
        ) = read
        else {
            return Ok(None);
        };
        let times = listed.iter().map(|object| (object.id, object.modified));
        Ok(Some(Objects {
            removals: Removals(removals),
            removal_times: times.collect(),
            pending: Vec::new(),
            pending_snapshots,
            snapshots,
            index: IndexObjects {
                segments,
                unsigned: std::mem::take(&mut lock(&unsigned)),
                unverified,
            },
            packs: HashMap::new(),
            clients,
            listed_clients: Vec::new(),
        }))
    })?;
    let ([_, pending, _, _, _, packs, listed_clients], objects) =
        read.ok_or(Error::PruneOvertaken)?;
    Ok(Objects {
        pending,
        packs: packs.into_iter().map(|pack| (pack.id, pack)).collect(),
        listed_clients,
        ..objects
    })
}

/// The others among all clients and the time for a dry run, which has no presence: just after the
/// latest known time of the storage.
fn without_presence(clients: Vec<Seen>, packs: &HashMap<Id, Listed>) -> (Vec<Seen>, SystemTime) {
    let times = packs.values().map(|pack| pack.modified);
    let latest = times.chain(clients.iter().map(|seen| seen.modified)).max();
    let now = latest.unwrap_or(SystemTime::UNIX_EPOCH) + Duration::from_nanos(1);
    (clients, now)
}

/// The error of a snapshot that lacks blocks or cannot be read; others pass unchanged.
fn cannot_read(snapshot: Id, error: Error) -> Error {
    match error {
        Error::Damaged { .. } | Error::MissingBlock(_) => {}
        ref error if error.is_not_found() => {}
        error => return error,
    }
    Error::CannotPrune(format!(
        "snapshot {} cannot be read ({error})",
        snapshot.short()
    ))
}
