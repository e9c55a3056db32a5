//! A backup and a restore.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::outcome::{Outcome, noise};
use tabane_storage::random;
use tabane_store::backup::{self, Parent};
use tabane_store::check::ReadData;
use tabane_store::key::KdfCost;
use tabane_store::{
    BackupOptions, CheckOptions, Error, InitOptions, LocalStorage, Progress, Repository,
    RestoreOptions, Result,
};

/// Backs a few files up into a new repository below `directory`, reads all of it, restores it and
/// compares. Leaves nothing behind.
pub fn round_trip(directory: &Path) -> Outcome {
    let scratch =
        Scratch(directory.join(format!("tabane-self-test-{}", hex::encode(random::<8>()))));
    let what = format!("a backup and a restore in {}", directory.display());
    Outcome::of(what, || {
        let told = Arc::new(Told::default());
        go(&scratch.0, &told).map_err(|error| error.to_string())?;
        match told.0.lock().expect("no panic under this lock").first() {
            Some(problem) => Err(problem.clone()),
            None => Ok(()),
        }
    })
}

fn go(scratch: &Path, told: &Arc<Told>) -> Result<()> {
    let failed = |path: &Path| Error::path("write", path.to_owned());
    let (source, target) = (scratch.join("source"), scratch.join("target"));
    fs::DirBuilder::new()
        .mode(0o700)
        .create(scratch)
        .map_err(failed(scratch))?;
    fs::create_dir(&source).map_err(failed(&source))?;
    let files = files();
    for (name, bytes) in &files {
        let path = source.join(name);
        fs::write(&path, bytes).map_err(failed(&path))?;
    }
    let storage = Arc::new(LocalStorage::new(scratch.join("repository")));
    // The password protects nothing here.
    let options = InitOptions::default().kdf_cost(KdfCost::WEAKEST);
    let password = b"self-test".to_vec().into();
    let repository = Repository::init(storage, &password, options)?.with_progress(Arc::clone(told));
    let options = BackupOptions::default().parent(Parent::None);
    let made = repository.backup(options, &[&source])?;
    let id = made.id.expect("it was no dry run");
    repository.check(CheckOptions::default().read_data(ReadData::All))?;
    let subpath = backup::resolve(&source).map_err(Error::path("read", &source))?;
    let options = RestoreOptions::new(&target).subpath(subpath).verify(true);
    repository.restore(options, id, &repository.load_snapshot(id)?)?;
    for (name, bytes) in &files {
        let path = target.join(name);
        let found = fs::read(&path).map_err(Error::path("read", &path))?;
        if found != *bytes {
            told.tell(format!("{name} came back changed"));
        }
    }
    Ok(())
}

/// Names and contents: nothing, little, text, noise, the same again.
fn files() -> [(&'static str, Vec<u8>); 5] {
    let noise = noise(3 << 20);
    let text = b"a line that is there again and again\n".repeat(20_000);
    [
        ("empty", Vec::new()),
        ("short", noise[..100].to_vec()),
        ("text", text),
        ("noise", noise.clone()),
        ("noise again", noise),
    ]
}

/// Remembers what went wrong.
#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl Told {
    fn tell(&self, what: String) {
        self.0.lock().expect("no panic under this lock").push(what);
    }
}

impl Progress for Told {
    fn problem(&self, what: &str) {
        self.tell(what.to_owned());
    }

    fn warning(&self, path: &Path, what: &str) {
        self.tell(format!("{}: {what}", path.display()));
    }
}

/// A directory that goes with everything in it.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
