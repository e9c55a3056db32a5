//! Storages over several targets.

use std::sync::{Arc, Mutex};

use tabane_storage::{Notice, Storage};
use tabane_striped::{Place, StripedStorage};

/// The places of targets, each with a URL of its own.
pub fn places(storages: Vec<Arc<dyn Storage>>) -> Vec<Place> {
    let storages = storages.into_iter().enumerate();
    let places = storages.map(|(number, storage)| Place {
        url: format!("target-{number}"),
        storage,
    });
    places.collect()
}

/// A new set of these targets.
pub fn new_set(storages: Vec<Arc<dyn Storage>>, fixed_roles: bool) -> StripedStorage {
    let places = places(storages);
    StripedStorage::form(places.clone(), fixed_roles).expect("the set is made");
    open(places).expect("the set opens")
}

/// The set at these places; what it tells is dropped.
pub fn open(places: Vec<Place>) -> tabane_storage::Result<StripedStorage> {
    StripedStorage::open("a set".to_owned(), places, Arc::new(|_| {}))
}

/// Keeps what a storage tells.
#[derive(Clone, Default)]
pub struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    pub fn notice(&self) -> Notice {
        let told = Arc::clone(&self.0);
        Arc::new(move |event| told.lock().unwrap().push(event.text.clone()))
    }

    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}
