//! Writes and reads the records of snapshots that were removed.
//!
//! A record is durable before the first of its snapshots is deleted. Clients remember which
//! snapshots they have seen ([`crate::access::memory`]), so one that is missing and in no record
//! was lost, or the storage came back as it was earlier. The record with the highest number stays
//! for good.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::access::repository::Repository;
use tabane_format::forgotten::Forgotten;
use tabane_format::keyring::if_genuine;
use tabane_format::{Error, Result};
use tabane_storage::{Id, Name, ObjectKind};

/// How long a record is kept at least: a client that has not been there for longer cannot judge.
pub const RECORD_AGE_MIN: SignedDuration = SignedDuration::from_hours(400 * 24);

/// The most records that are left as they are.
const RECORDS_MAX: usize = 32;

/// Reads all records but those that nobody with a full key has made.
///
/// # Errors
/// When the storage fails or one is damaged.
pub fn read(repository: &Repository) -> Result<BTreeMap<Id, Forgotten>> {
    let kind = ObjectKind::Forgotten;
    let read = |id| {
        let payload = repository.get_sealed(kind, id)?;
        serde_json::from_slice(&payload).map_err(|error| Error::damaged(Name::new(kind, id), error))
    };
    let read = repository.read_all(kind, |id| if_genuine(read(id)))?;
    repository
        .nearby()
        .retain_objects(kind, |id| read.contains_key(id));
    Ok(read)
}

/// Records that these snapshots are about to be removed; nothing if there are none. Returns the
/// record and its number.
///
/// # Errors
/// When the storage fails.
pub fn record(repository: &Repository, snapshots: &[Id]) -> Result<Option<(Id, u64)>> {
    if snapshots.is_empty() {
        return Ok(None);
    }
    record_next(repository, snapshots)
}

/// Writes the next record: these snapshots are about to be removed, or are gone. Returns it and its
/// number.
///
/// # Errors
/// When the storage fails.
pub fn record_next(repository: &Repository, snapshots: &[Id]) -> Result<Option<(Id, u64)>> {
    // Programs that know format 1 alone leave no records, so there is nothing to be told from them.
    if repository.format() == 1 {
        return Ok(None);
    }
    let there = read(repository)?;
    let number = there.values().map(|record| record.number).max();
    let number = number.unwrap_or(0).max(repository.remembered_number()) + 1;
    let now = Timestamp::now();
    let record = Forgotten {
        number,
        snapshots: snapshots.iter().map(|id| (*id, now)).collect(),
    };
    let id = put(repository, &record)?;
    // A record from before the first write-only key could not be read with it.
    repository.verify_presence().inspect_err(|_| {
        let _ = repository.delete_if_there(Name::new(ObjectKind::Forgotten, id));
    })?;
    Ok(Some((id, number)))
}

/// Makes one record of many, without what is old.
///
/// # Errors
/// When the storage fails.
pub fn merge(repository: &Repository) -> Result<()> {
    if repository.list(ObjectKind::Forgotten)?.len() <= RECORDS_MAX {
        return Ok(());
    }
    let there = read(repository)?;
    let oldest = Timestamp::now() - RECORD_AGE_MIN;
    let mut merged = Forgotten::default();
    for record in there.values() {
        merged.number = merged.number.max(record.number);
        merged.snapshots.extend(record.snapshots.clone());
    }
    merged.snapshots.retain(|_, removed| *removed >= oldest);
    let new = put(repository, &merged)?;
    for id in there.into_keys().filter(|id| *id != new) {
        repository.delete_if_there(Name::new(ObjectKind::Forgotten, id))?;
    }
    Ok(())
}

fn put(repository: &Repository, record: &Forgotten) -> Result<Id> {
    let json = serde_json::to_vec(record).expect("a record is plain data");
    repository.put_sealed(ObjectKind::Forgotten, &json)
}
