//! Directories for targets, and what tests do with them.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use tabane_storage::{self, Location, RemoteOptions};
use tabane_store::{Id, Progress, Repository};
use tabane_striped::{HealOptions, HealReport, Place, StripedStorage, Survey};
use tempfile::TempDir;

use crate::common::{self, assert_restores, back_up, id, init_options, password};

/// Wants no problem.
pub struct Quiet;

impl Progress for Quiet {
    fn problem(&self, what: &str) {
        panic!("{what}");
    }

    fn bytes(&self, done_bytes: u64, total_bytes: u64) {
        assert!(done_bytes <= total_bytes);
    }
}

pub fn read_all() -> HealOptions {
    HealOptions::default().read_data(true)
}

pub fn heal(storage: &StripedStorage) -> HealReport {
    storage.heal(HealOptions::default(), &Quiet).unwrap()
}

pub fn scrub(storage: &StripedStorage) -> HealReport {
    storage.heal(read_all(), &Quiet).unwrap()
}

/// Numbers that look random and are always the same.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// A target on a server.
pub struct Server {
    pub url: String,
    /// Where the server keeps it.
    pub folder: PathBuf,
}

/// Directories for targets, and one to back up.
pub struct Bed {
    pub dir: TempDir,
    pub count: usize,
    /// What the last target is on, instead of a directory.
    server: Option<Server>,
}

impl Bed {
    pub fn new(count: usize) -> Self {
        Self::with(count, None)
    }

    pub fn with_server(count: usize, server: Server) -> Self {
        Self::with(count, Some(server))
    }

    fn with(count: usize, server: Option<Server>) -> Self {
        let bed = Self {
            dir: common::scratch(),
            count,
            server,
        };
        let source = bed.source();
        fs::create_dir(&source).unwrap();
        let mut random = Random(7);
        for (name, len) in [
            ("empty", 0),
            ("small", 100),
            ("large", 700_000),
            ("other", 90_000),
        ] {
            fs::write(source.join(name), random.bytes(len)).unwrap();
        }
        bed
    }

    pub fn source(&self) -> PathBuf {
        self.dir.path().join("source")
    }

    /// The server that a target is on.
    fn server(&self, number: usize) -> Option<&Server> {
        self.server.as_ref().filter(|_| number + 1 == self.count)
    }

    pub fn target(&self, number: usize) -> PathBuf {
        match self.server(number) {
            Some(server) => server.folder.clone(),
            None => self.dir.path().join(format!("target-{number}")),
        }
    }

    pub fn place(&self, number: usize) -> Place {
        let url = match self.server(number) {
            Some(server) => server.url.clone(),
            None => self.target(number).display().to_string(),
        };
        let location = Location::parse(url.as_ref(), "").unwrap();
        let storage = location.open(&RemoteOptions::default()).unwrap();
        Place { url, storage }
    }

    pub fn places(&self) -> Vec<Place> {
        (0..self.count).map(|number| self.place(number)).collect()
    }

    pub fn open(&self) -> StripedStorage {
        common::striped::open(self.places()).unwrap()
    }

    pub fn repository(&self) -> Arc<Repository> {
        Arc::new(Repository::open(Arc::new(self.open()), &password()).unwrap())
    }

    /// Makes the set and a repository, backs up, and returns the snapshot.
    pub fn fill(&self) -> Id {
        self.fill_with(false)
    }

    pub fn fill_with(&self, fixed_roles: bool) -> Id {
        StripedStorage::form(self.places(), fixed_roles).unwrap();
        let storage = Arc::new(self.open());
        let repository = Repository::init(storage, &password(), init_options()).unwrap();
        id(&back_up(&Arc::new(repository), &[&self.source()]))
    }

    pub fn assert_restores(&self, snapshot: Id) {
        assert_restores(&self.repository(), snapshot, &self.source(), &self.source());
    }

    pub fn assert_whole(&self) -> Survey {
        let survey = self.open().survey().unwrap();
        assert_eq!(survey.incomplete_objects, 0, "{survey:?}");
        let statement = survey.statement();
        assert_eq!(
            statement,
            "any two targets can be lost now without losing data"
        );
        self.assert_scrubbed();
        survey
    }

    /// Everything is as it was written, and nothing is missing.
    pub fn assert_scrubbed(&self) {
        let report = scrub(&self.open());
        let found = (report.damaged_parts, report.written_parts, report.fragments);
        assert_eq!(found, (0, 0, 0), "{report:?}");
    }

    pub fn lose(&self, number: usize) {
        fs::remove_dir_all(self.target(number)).unwrap();
    }

    /// Puts a new directory where a lost one was.
    pub fn renew(&self, number: usize) {
        let place = self.place(number);
        let replaced = self.open().replace(&place.url, &place).unwrap();
        assert_eq!(replaced, place.url);
    }

    pub fn files(&self, number: usize) -> Vec<PathBuf> {
        let mut folders = vec![self.target(number)];
        let mut files = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path)
                } else {
                    files.push(path)
                }
            }
        }
        files.sort();
        files
    }

    /// Flips random bytes of the files of these targets, longer files more often.
    pub fn flip(&self, targets: &[usize], count: usize, random: &mut Random) {
        let files: Vec<PathBuf> = targets
            .iter()
            .flat_map(|&number| self.files(number))
            .collect();
        let mut contents: Vec<Vec<u8>> = files.iter().map(|path| fs::read(path).unwrap()).collect();
        let total: usize = contents.iter().map(Vec::len).sum();
        for _ in 0..count {
            let mut at = random.below(total as u64) as usize;
            for bytes in &mut contents {
                if at < bytes.len() {
                    bytes[at] ^= 1 + random.below(255) as u8;
                    break;
                }
                at -= bytes.len();
            }
        }
        for (path, bytes) in files.iter().zip(contents) {
            fs::write(path, bytes).unwrap();
        }
    }
}

/// All pairs of different numbers below `count`.
pub fn pairs(count: usize) -> impl Iterator<Item = [usize; 2]> {
    (0..count).flat_map(move |first| (first + 1..count).map(move |second| [first, second]))
}
