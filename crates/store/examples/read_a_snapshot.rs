//! Lists the snapshots of a repository, walks through the latest and reads a file of it, without
//! restoring anything.

use std::error::Error;
use std::fs;

use tabane_store::browse::{Browser, Walk, root};
use tabane_store::snapshot::Filter;
use tabane_store::{BackupOptions, InitOptions, Location, Password, Plan, Repository, dump};

fn main() -> Result<(), Box<dyn Error>> {
    let place = tempfile::tempdir()?;
    let data = place.path().join("data");
    fs::create_dir(&data)?;
    fs::write(data.join("letter"), "Dear Ada,\n")?;
    let location = Location::parse(place.path().join("repository"))?;
    let storage = location.open(&Default::default(), Plan::Auto)?;
    let password = Password::new(b"correct horse battery staple".to_vec());
    let repository = Repository::init(storage, &password, InitOptions::default())?;
    repository.backup(BackupOptions::default(), &[&data])?;

    for (id, snapshot) in repository.snapshots(&Filter::default())?.snapshots {
        println!("{} {} {:?}", id.short(), snapshot.time, snapshot.paths);
    }
    let (id, snapshot) = repository.find_snapshot("latest", &Filter::default())?;
    let mut browser = Browser::new(&repository)?;
    let mut walk = Walk::below("/".as_ref(), &root(&snapshot));
    while let Some(entry) = walk.next(&mut browser)? {
        println!("{:>10} {}", entry.entry.size(), entry.path.display());
    }
    let letter = browser.find(id, &snapshot, &data.join("letter"))?;
    let mut text = Vec::new();
    dump::file(&mut browser, &letter, &mut text)?;
    assert_eq!(text, b"Dear Ada,\n");
    Ok(())
}
