//! Backs a folder up twice, tells how much was stored, checks the repository and restores.

use std::error::Error;
use std::fs;
use std::path::Path;

use tabane_store::check::{CheckOptions, ReadData};
use tabane_store::{
    BackupOptions, InitOptions, Location, Password, Plan, Progress, Repository, RestoreOptions,
};

struct Warnings;

impl Progress for Warnings {
    fn warning(&self, path: &Path, what: &str) {
        eprintln!("{}: {what}", path.display());
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let place = tempfile::tempdir()?;
    let (data, restored) = (place.path().join("data"), place.path().join("restored"));
    fs::create_dir(&data)?;
    fs::write(data.join("book"), "all work and no play\n".repeat(100_000))?;
    let location = Location::parse(place.path().join("repository"))?;
    let storage = location.open(&Default::default(), Plan::Auto)?;
    let password = Password::new(b"correct horse battery staple".to_vec());
    let repository = Repository::init(storage, &password, InitOptions::default())?;
    let repository = repository.with_progress(Warnings);
    for tag in ["first", "second"] {
        let made = repository.backup(BackupOptions::default().tag(tag), &[&data])?;
        println!("{tag}: {} new bytes", made.snapshot.summary.added_bytes);
    }
    let report = repository.check(CheckOptions::default().read_data(ReadData::All))?;
    let (id, snapshot) = repository.find_snapshot("latest", &Default::default())?;
    repository.restore(RestoreOptions::new(&restored).subpath(&data), id, &snapshot)?;
    assert_eq!(
        fs::read(restored.join("book"))?,
        fs::read(data.join("book"))?
    );
    assert_eq!(report.problems, 0);
    Ok(())
}
