//! Keeps an object on five targets, loses two of them, and reads it.

use std::error::Error;
use std::fs;
use std::sync::Arc;

use tabane_storage::{LocalStorage, Name, ObjectKind, Storage, object_id};
use tabane_striped::{Place, StripedStorage};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let place = |number: u32| {
        let path = folder.path().join(format!("disk {number}"));
        Place {
            url: path.display().to_string(),
            storage: Arc::new(LocalStorage::new(path)),
        }
    };
    let places = || (0..5).map(place).collect::<Vec<Place>>();
    let open = || StripedStorage::open("five disks".to_owned(), places(), Arc::new(|_| {}));
    StripedStorage::form(places(), false)?;
    open()?.create()?;
    let object = b"what must not be lost ".repeat(10_000);
    let name = Name::new(ObjectKind::Pack, object_id(&[&object]));
    open()?.put(name, &[&object])?;

    fs::remove_dir_all(folder.path().join("disk 1"))?;
    fs::remove_dir_all(folder.path().join("disk 3"))?;
    let storage = open()?;
    assert_eq!(storage.get(name, None)?, object);
    println!("read {} bytes without two of five targets", object.len());
    println!("{}", storage.survey()?.statement());
    Ok(())
}
