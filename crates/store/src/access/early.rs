//! Lists that a far storage is asked for while the repository is opened.
//!
//! Nearly every command needs the names of snapshots, or of removals and index objects, and none of
//! them takes a key. So the lists arrive in the time of the requests that open the repository.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use tabane_storage::sync::lock;
use tabane_storage::{Listed, ObjectKind, Result, Storage};

/// Lists on their way, each of which is handed out once.
#[derive(Default)]
pub struct EarlyLists(Mutex<HashMap<ObjectKind, Receiver<Result<Vec<Listed>>>>>);

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
            lock(&self.0).insert(kind, receiver);
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
        let receiver = lock(&self.0).remove(&kind)?;
        receiver.recv().ok()?.ok()
    }
}
