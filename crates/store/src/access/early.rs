//! Lists that a far storage is asked for while the repository is opened.
//!
//! Nearly every command needs the names of snapshots, or of removals and index objects, and none of
//! them takes a key. So the lists arrive in the time of the requests that open the repository.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use tabane_storage::sync::lock;
use tabane_storage::{Listed, ObjectKind, Result, Storage};

/// Lists that were asked for, by kind.
#[derive(Default)]
pub struct EarlyLists(Mutex<HashMap<ObjectKind, Arc<Mutex<Early>>>>);

/// A list.
struct Early {
    /// Where it arrives, until then.
    on_its_way: Option<Receiver<Result<Vec<Listed>>>>,
    /// What has arrived.
    listed: Option<Vec<Listed>>,
    /// Whether nobody has taken it yet.
    is_new: bool,
}

impl EarlyLists {
    /// Asks for the lists; for none if the storage is near.
    pub fn ask(storage: &Arc<dyn Storage>) -> Self {
        let early = Self::default();
        if storage.is_far() {
            early.ask_in_order(storage, &[ObjectKind::Snapshot]);
            // Removals first: see the rules in `removal`.
            early.ask_in_order(storage, &[ObjectKind::Removal, ObjectKind::Index]);
        }
        early
    }

    /// Asks for the list of one more kind.
    pub fn ask_also(&self, storage: &Arc<dyn Storage>, kind: ObjectKind) {
        if storage.is_far() {
            self.ask_in_order(storage, &[kind]);
        }
    }

    fn ask_in_order(&self, storage: &Arc<dyn Storage>, kinds: &[ObjectKind]) {
        let mut senders = Vec::new();
        for &kind in kinds {
            let (sender, receiver) = channel();
            let early = Early {
                on_its_way: Some(receiver),
                listed: None,
                is_new: true,
            };
            lock(&self.0).insert(kind, Arc::new(Mutex::new(early)));
            senders.push((kind, sender));
        }
        let storage = Arc::clone(storage);
        let ask = move || {
            for (kind, sender) in senders {
                // Nobody may want the list any more.
                let _ = sender.send(storage.list(kind));
            }
        };
        // Without a thread, the senders are gone, and the list is asked for when it is needed.
        let _ = std::thread::Builder::new()
            .name("early lists".to_owned())
            .spawn(ask);
    }

    /// The list of a kind, made since the repository was opened, unless it was taken before or
    /// could not be made.
    pub fn take(&self, kind: ObjectKind) -> Option<Vec<Listed>> {
        self.with(kind, |early| std::mem::take(&mut early.is_new))
    }

    /// The list of a kind as it was when the repository was opened, if it could be made.
    pub fn first(&self, kind: ObjectKind) -> Option<Vec<Listed>> {
        self.with(kind, |_| true)
    }

    fn with(
        &self,
        kind: ObjectKind,
        is_wanted: impl FnOnce(&mut Early) -> bool,
    ) -> Option<Vec<Listed>> {
        let early = lock(&self.0).get(&kind).map(Arc::clone)?;
        let mut early = lock(&early);
        if let Some(on_its_way) = early.on_its_way.take() {
            early.listed = on_its_way.recv().ok().and_then(Result::ok);
        }
        is_wanted(&mut early).then(|| early.listed.clone())?
    }
}
