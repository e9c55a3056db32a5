//! The repositories that the page shows: opened when they are first wanted, and asked within
//! bounds, since a storage may hang.

use std::ffi::OsString;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tabane_storage::sync::lock;
use tabane_store::browse;
use tabane_store::entry::{Entry, Piece};
use tabane_store::lister::{Listed, Lister};
use tabane_store::segment_cache::SegmentCache;
use tabane_store::snapshot::{Filter, Snapshot};
use tabane_store::{Error, Id, Password, Repository};
use tabane_striped::StripedStorage;
use tabane_striped::cluster::NodeStorage;
use tokio::sync::Semaphore;

use crate::answer::Failure;

/// Decoded bytes that are kept for all readers of one repository.
const CACHE_LEN: usize = 48 << 20;

/// Age from which a listing of snapshots is renewed.
const LISTING_AGE_MAX: Duration = Duration::from_secs(2);

/// Requests that ask one repository at a time; further ones wait.
const READERS_MAX: usize = 8;

/// Time for an answer of a repository. The question goes on behind an answer that did not come.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// A repository that the page shows.
pub struct Place {
    /// Its name, in addresses and headings.
    pub name: String,
    /// Where it is, for a person.
    pub url: String,
    /// Opens it. The error is a sentence with advice.
    pub open: Box<dyn Fn() -> Result<Repository, String> + Send + Sync>,
    /// Its password, for the commands that work on it.
    pub password: Box<dyn Fn() -> Result<Password, String> + Send + Sync>,
    /// The words by which the command finds it: `-r @NAME`.
    pub arguments: Vec<OsString>,
    /// The words by which the command finds the configuration file, if it is not at its usual
    /// place.
    pub configuration: Vec<OsString>,
    /// What the configuration file has to be backed up into it.
    pub backups: Vec<Backup>,
    /// Its targets, if it is over several.
    pub set: Option<Set>,
    /// How often each of its sources should be backed up; nothing to tell it from their rhythm.
    pub expect_every: Option<Duration>,
}

/// Opens the nodes of a cluster.
pub type OpenNodes = Box<dyn Fn() -> Result<Vec<Arc<NodeStorage>>, String> + Send + Sync>;

/// The targets of a repository, asked anew each time. Errors are sentences with advice.
pub struct Set {
    /// Opens the targets.
    pub open: Box<dyn Fn() -> Result<StripedStorage, String> + Send + Sync>,
    /// Opens the nodes, if the targets are nodes of a cluster.
    pub nodes: Option<OpenNodes>,
}

/// A profile that backs something up.
#[derive(Clone, Debug)]
pub struct Backup {
    /// The name of the profile.
    pub profile: String,
    /// What it backs up.
    pub paths: Vec<String>,
}

/// A place and what is known of it.
pub struct Shown {
    /// The place.
    pub place: Place,
    opened: Mutex<Option<Arc<Opened>>>,
    readers: Arc<Semaphore>,
    explain: fn(&Error) -> String,
}

/// An open repository.
pub struct Opened {
    /// The repository.
    pub repository: Repository,
    cache: OnceLock<Arc<SegmentCache>>,
    /// Held while the index is read.
    loading: Mutex<()>,
    lister: Lister,
    listed: Mutex<Arc<Listed>>,
}

impl Opened {
    fn new(repository: Repository) -> Self {
        Self {
            cache: OnceLock::new(),
            loading: Mutex::default(),
            lister: Lister::new(&repository, Filter::default()),
            listed: Mutex::default(),
            repository,
        }
    }

    /// Reads its blocks. The first call reads the index, for which further ones wait.
    ///
    /// # Errors
    /// When the storage fails or the index is damaged.
    pub fn cache(&self) -> Result<&Arc<SegmentCache>, Error> {
        let _loading = lock(&self.loading);
        if let Some(cache) = self.cache.get() {
            return Ok(cache);
        }
        let fresh = Arc::new(SegmentCache::new(&self.repository, CACHE_LEN)?);
        Ok(self.cache.get_or_init(|| fresh))
    }

    /// The snapshots.
    ///
    /// # Errors
    /// When the storage fails.
    pub fn snapshots(&self) -> Result<Arc<Listed>, Error> {
        let listed = self.lister.list(LISTING_AGE_MAX)?;
        let mut before = lock(&self.listed);
        if !Arc::ptr_eq(&before, &listed) {
            // New snapshots have blocks that the loaded index may lack.
            if let Some(cache) = self.cache.get() {
                cache.outdate();
            }
            *before = Arc::clone(&listed);
        }
        Ok(listed)
    }

    /// The entries of a directory.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn directory(&self, content: &[Piece]) -> Result<Vec<Entry>, Error> {
        self.cache()?.directory(content)
    }

    /// The entry at a path of a snapshot.
    ///
    /// # Errors
    /// [`Error::NoSuchPath`], or when a directory cannot be read.
    pub fn find(
        &self,
        id: Id,
        snapshot: &Snapshot,
        path: &std::path::Path,
    ) -> Result<Entry, Error> {
        browse::find_with(&mut Arc::clone(self.cache()?), id, snapshot, path)
    }
}

impl Shown {
    /// Shows `place`; `explain` is the text of an error with advice.
    pub fn new(place: Place, explain: fn(&Error) -> String) -> Self {
        Self {
            place,
            opened: Mutex::default(),
            readers: Arc::new(Semaphore::new(READERS_MAX)),
            explain,
        }
    }

    /// Does `work` with the open repository on a thread that may block.
    ///
    /// # Errors
    /// What the repository or `work` fails with; [`Failure`] 503 when there is no answer in time.
    pub async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Opened) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let this = Arc::clone(self);
        let work = move || {
            let done = this.open().and_then(|opened| work(&opened));
            done.map_err(|failure| this.explained(failure))
        };
        self.ask_apart(work).await
    }

    /// Does `work`, which does not need the open repository, on a thread that may block.
    ///
    /// # Errors
    /// What `work` fails with; [`Failure`] 503 when there is no answer in time.
    pub async fn ask_apart<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let asking = async {
            let permit = Arc::clone(&self.readers).acquire_owned().await;
            let work = move || {
                // Held until the repository has answered, not until somebody stops waiting.
                let _permit = permit;
                work()
            };
            tokio::task::spawn_blocking(work).await
        };
        match tokio::time::timeout(ANSWER_TIMEOUT, asking).await {
            Err(_) => Err(Failure::unavailable(format!(
                "the repository {} has not answered for {} seconds: try again in a while",
                tabane_text::printable(&self.place.name),
                ANSWER_TIMEOUT.as_secs()
            ))),
            Ok(Ok(done)) => done,
            Ok(Err(_)) => Err(Failure::bug()),
        }
    }

    /// Does `work` with the open repository on a thread that may block; nobody waits for it.
    pub fn start(
        self: &Arc<Self>,
        work: impl FnOnce(Result<Arc<Opened>, Failure>) + Send + 'static,
    ) {
        let this = Arc::clone(self);
        tokio::spawn(async move {
            let permit = Arc::clone(&this.readers).acquire_owned().await;
            let work = move || {
                let _permit = permit;
                work(this.open().map_err(|failure| this.explained(failure)));
            };
            tokio::task::spawn_blocking(work);
        });
    }

    /// The open repository; opens it if need be.
    fn open(&self) -> Result<Arc<Opened>, Failure> {
        let mut opened = lock(&self.opened);
        if let Some(opened) = &*opened {
            return Ok(Arc::clone(opened));
        }
        let repository = (self.place.open)().map_err(Failure::unavailable)?;
        let fresh = Arc::new(Opened::new(repository));
        let early = Arc::clone(&fresh);
        // Snapshots are shown before the index is there. Whoever needs it meets the same error.
        tokio::task::spawn_blocking(move || early.cache().map(drop));
        Ok(Arc::clone(opened.insert(fresh)))
    }

    /// The failure with advice. After one of the storage the repository is opened anew: what was
    /// away may be back.
    fn explained(&self, failure: Failure) -> Failure {
        if failure.is_of_storage() {
            lock(&self.opened).take();
        }
        failure.explained(self.explain)
    }
}
