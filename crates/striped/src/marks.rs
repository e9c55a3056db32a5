//! What targets hold in `deleted/`: marks of deleted objects, and notes of heals at work. They keep
//! a deleted object from coming back by a target that was away, or by a heal that had read it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::heal::Healing;
use crate::set::new_id;
use crate::striped::{REPLICAS, StripedStorage};
use tabane_storage::sync::lock;
use tabane_storage::{Id, Name, ObjectKind, Result, Storage, StorageErrorKind};

/// Second half of the ID of a record's mark: nodes know by it what clients may put that delete
/// nothing but records.
const OF_RECORD: [u8; 16] = *b"a deleted record";

/// Second half of the ID of a note.
const OF_HEAL: [u8; 16] = *b"a heal at work !";

/// A note that is so much older than that of another heal is of one that was killed.
const NOTE_AGE_MAX: Duration = Duration::from_secs(30 * 86_400);

/// Kinds of objects that clients delete which may delete nothing else.
const RECORDS: [ObjectKind; 2] = [ObjectKind::Pending, ObjectKind::Client];

/// Whether an object is a record.
pub fn is_record(name: Name) -> bool {
    RECORDS.contains(&name.kind)
}

/// Whether an object is the mark of a record.
pub fn is_mark_of_record(name: Name) -> bool {
    name.kind == ObjectKind::Deleted && name.id.0[16..] == OF_RECORD
}

/// Whether an object is a note.
pub fn is_note(name: Name) -> bool {
    name.kind == ObjectKind::Deleted && name.id.0[16..] == OF_HEAL
}

/// Whether objects of this kind are marked. Nothing refers to a removed pack, and nobody deletes
/// the config.
pub fn are_marked(kind: ObjectKind) -> bool {
    !matches!(kind, ObjectKind::Pack | ObjectKind::Config)
}

fn in_deleted(id: Id) -> Name {
    Name::new(ObjectKind::Deleted, id)
}

fn with_half(id: Id, half: [u8; 16]) -> Id {
    let mut id = id;
    id.0[16..].copy_from_slice(&half);
    id
}

/// ID of an object's mark.
fn mark_id(name: Name) -> Id {
    if is_record(name) {
        with_half(name.id, OF_RECORD)
    } else {
        name.id
    }
}

impl StripedStorage {
    /// Whether a mark of an object is known. Older programs marked records like other objects.
    pub(crate) fn is_deleted(&self, name: Name) -> bool {
        let deleted = lock(&self.deleted);
        deleted.contains(&mark_id(name)) || deleted.contains(&name.id)
    }

    /// Marks an object on three targets, or on all in use.
    pub(crate) fn mark(&self, name: Name) -> Result<()> {
        let id = mark_id(name);
        let (mut written, mut away) = (0, Vec::new());
        for number in self.replica_order(name.id) {
            let Some(target) = self.targets.storage(number) else {
                away.push(number);
                continue;
            };
            // model: cluster/mark
            // model: groups/mark
            match target.put(in_deleted(id), &[name.kind.name().as_bytes()]) {
                Err(error) if error.kind() != StorageErrorKind::AlreadyExists => {
                    self.targets.give_up(number, &error);
                    away.push(number);
                }
                _ => written += 1,
            }
            if written == REPLICAS {
                break;
            }
        }
        self.check_enough_but(|number| away.contains(&number))?;
        lock(&self.deleted).insert(id);
        Ok(())
    }

    /// Whether an object that was deleted may come back: a heal is at work that may have read it,
    /// or one was, and has put back a part. A target that does not answer may have the only note
    /// or part.
    pub(crate) fn may_come_back(&self, name: Name) -> Result<bool> {
        let count = self.targets.all().len();
        // model: cluster/look-for-heals
        // model: groups/look-for-notes
        let lists = self.raw_lists(ObjectKind::Deleted)?;
        let mut listed = lists.iter().flat_map(|(_, list)| list);
        if listed.any(|listed| is_note(in_deleted(listed.id))) || lists.len() < count {
            return Ok(true);
        }
        // model: cluster/look-for-parts
        // model: groups/look-for-parts
        let up = self.targets.up();
        let parts = self.targets.each(&up, |_, target| target.stat(name));
        let is_gone = |part: &Result<u64>| {
            let error = part.as_ref().err();
            error.is_some_and(|error| error.kind() == StorageErrorKind::NotFound)
        };
        Ok(parts.len() < count || !parts.iter().all(|(_, part)| is_gone(part)))
    }

    /// Notes on all targets that a heal is at work; returns the note. A target that refuses it is
    /// used nevertheless: one that has the note is enough, since deletions ask all.
    pub(crate) fn put_note(&self) -> Result<Name> {
        use StorageErrorKind::{Retryable, SessionOver, Unreachable};
        let note = in_deleted(with_half(new_id(), OF_HEAL));
        // model: cluster/note
        // model: groups/note
        let put = |_, target: &dyn Storage| target.put(note, &[b"heal"]);
        for (number, put) in self.targets.each(&self.targets.up(), put) {
            if let Err(error) = put
                && let Retryable | SessionOver | Unreachable = error.kind()
            {
                self.targets.give_up(number, &error);
            }
        }
        self.check_enough()?;
        Ok(note)
    }

    /// Takes a note back. Where that fails, deletions are marked that need not be.
    pub(crate) fn take_back(&self, note: Name) {
        let up = self.targets.up();
        // model: cluster/take-back
        // model: groups/take-back
        self.targets.each(&up, |_, target| target.delete(note));
    }

    /// Whether a heal other than that of this note may be at work: a target that does not answer
    /// may have the only note. Deletes the notes of dead ones.
    fn is_another_at_work(&self, note: Name) -> Result<bool> {
        let lists = self.raw_lists(ObjectKind::Deleted)?;
        let mut is_one = lists.len() < self.targets.all().len();
        for (number, list) in lists {
            let own = list.iter().find(|listed| listed.id == note.id);
            for listed in &list {
                let other = in_deleted(listed.id);
                if other == note || !is_note(other) {
                    continue;
                }
                // Both times are of one target's clock.
                let age = own.and_then(|own| own.modified.duration_since(listed.modified).ok());
                if age.is_none_or(|age| age < NOTE_AGE_MAX) {
                    is_one = true;
                } else if let Some(target) = self.targets.storage(number) {
                    // The next heal tries again.
                    let _ = target.delete(other);
                }
            }
        }
        Ok(is_one)
    }

    /// Deletes what is marked from all targets, once all are in use, and then the marks.
    ///
    /// Another heal may put back what it has read. So the marks stay if one is at work before the
    /// objects are deleted, or after that: one that begins later finds no objects.
    pub(crate) fn apply_marks(&self, healing: &Healing, note: Name) -> Result<()> {
        let mut marks = BTreeMap::new();
        // model: cluster/list-marks
        for (number, list) in self.raw_lists(ObjectKind::Deleted)? {
            let ids = list.iter().map(|listed| listed.id);
            let ids = ids.filter(|id| !is_note(in_deleted(*id)));
            marks.extend(ids.map(|id| (id, number)));
        }
        let count = self.targets.all().len();
        if marks.is_empty() || self.targets.up().len() < count || self.is_another_at_work(note)? {
            return Ok(());
        }
        // A mark also keeps away what is on targets that this client does not know.
        // model: groups/apply-marks
        if self.later_description()?.is_some() {
            return Ok(());
        }
        let mut records = Vec::new();
        for kind in RECORDS {
            let lists = self.raw_lists(kind)?;
            if lists.len() < count {
                return Ok(());
            }
            let listed = lists.into_iter().flat_map(|(_, list)| list);
            records.extend(listed.map(|listed| Name::new(kind, listed.id)));
        }
        for (&id, &number) in &marks {
            let marked: Vec<Name> = if is_mark_of_record(in_deleted(id)) {
                let records = records.iter().copied();
                records.filter(|&name| mark_id(name) == id).collect()
            } else {
                let kinds = self.marked_kinds(id, number).into_iter();
                kinds.map(|kind| Name::new(kind, id)).collect()
            };
            for name in marked {
                // model: cluster/apply-mark
                if !self.delete_from_all(name)? {
                    return Ok(());
                }
            }
        }
        // model: cluster/look-again
        if self.is_another_at_work(note)? {
            return Ok(());
        }
        for id in marks.into_keys() {
            // model: cluster/unmark
            // model: groups/unmark
            if !self.delete_from_all(in_deleted(id))? {
                return Ok(());
            }
            lock(&self.deleted).remove(&id);
            healing.count(|report| report.applied_deletions += 1);
        }
        Ok(())
    }

    /// Kinds of the objects of this ID that a target's mark says are deleted.
    fn marked_kinds(&self, id: Id, number: usize) -> Vec<ObjectKind> {
        let target = self.targets.storage(number);
        let says = target.and_then(|target| target.get(in_deleted(id), None).ok());
        let mut kinds: Vec<ObjectKind> = ObjectKind::ALL
            .into_iter()
            .filter(|kind| says.as_deref() == Some(kind.name().as_bytes()))
            .collect();
        if kinds.is_empty() {
            // The mark is damaged: delete the ID in all kinds, since no two objects share one.
            kinds.extend(ObjectKind::ALL);
            kinds.retain(|kind| *kind != ObjectKind::Config);
        }
        kinds
    }

    /// Deletes an object from all targets; returns whether all could. One that is out of use could
    /// not, even if it is back by now. An administrator's heal does what this client may not.
    fn delete_from_all(&self, name: Name) -> Result<bool> {
        let up = self.targets.up();
        let deleted = self.targets.each(&up, |_, target| target.delete(name));
        let mut from_all = deleted.len() == self.targets.all().len();
        for (number, deleted) in deleted {
            match deleted {
                Ok(()) => {}
                Err(error) if error.kind() == StorageErrorKind::NotFound => {}
                Err(error) if error.kind() == StorageErrorKind::Unauthorized => return Ok(false),
                Err(error) => {
                    self.targets.give_up(number, &error);
                    from_all = false;
                }
            }
        }
        self.check_enough()?;
        Ok(from_all)
    }
}
