//! Storage in an object store.

mod aws_profile;
mod connect;
mod location;
mod lock;
mod refusal;
mod transport;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
};

use crate::error::{Result, StorageError, StorageErrorKind, causes};
use crate::files::Files;
use crate::hash::random;
use crate::id::Id;
use crate::limit::Limiter;
use crate::name::{Name, ObjectKind};
use crate::options::{Lock, RemoteOptions};
use crate::remote::{Attempt, Remote};
use crate::storage::{Listed, OBJECT_LEN_MAX, Storage, replace_in_two_steps};

pub use location::{RemoteLocation, Service};
use lock::Locker;

/// Folder of objects that get their names by a copy.
const TEMPORARY: &str = "tmp";

/// Packs that are listed page by page; beyond this number, several pages at a time.
const LISTED_IN_ORDER: usize = 5000;

/// Time after which a download is given up if it was slower than [`DOWNLOAD_RATE_MIN`].
const DOWNLOAD_PERIOD: Duration = Duration::from_secs(60);

/// Bytes a second that a download brings at least.
const DOWNLOAD_RATE_MIN: u64 = 100;

/// Objects below a prefix of an object store.
///
/// Each object is written by one request of at most [`OBJECT_LEN_MAX`] bytes, which every service
/// accepts: so it exists whole or not at all, and is durable once [`Storage::put`] has returned.
/// Retryable failures are retried, with regard to requests that succeeded although their answer was
/// lost.
///
/// Methods block: call them from ordinary threads, not from within an asynchronous runtime.
pub struct ObjectStorage {
    remote: Remote,
    store: Arc<dyn ObjectStore>,
    root: Path,
    location: String,
    /// Puts by copying, and lists folder by folder: WebDAV has neither conditions nor pages.
    is_webdav: bool,
    /// Whether the service refused a conditional put.
    unconditional: AtomicBool,
    download: Option<Limiter>,
    /// Storage class of what is seldom read.
    cold_class: Option<String>,
    /// For services that can lock objects.
    locker: Option<Locker>,
}

impl ObjectStorage {
    /// The storage at `location`; no request is sent yet.
    ///
    /// # Errors
    /// When the environment lacks settings of the service.
    pub fn connect(location: &RemoteLocation, options: &RemoteOptions) -> Result<Self> {
        let upload = options.upload_kib_per_s.map(Limiter::new).map(Arc::new);
        let (store, locker) = connect::connect(location, upload, &options.tls, options.lock)?;
        let mut storage = Self::new(store, &location.prefix, location.to_string(), options)?;
        storage.is_webdav = location.service == Service::WebDav;
        storage.locker = locker;
        Ok(storage)
    }

    /// The storage below `prefix` of `store`, which should not retry itself; `location` is for
    /// people.
    ///
    /// # Errors
    /// When `prefix` is no path of an object store, or no thread can be started.
    pub fn new(
        store: Arc<dyn ObjectStore>,
        prefix: &str,
        location: String,
        options: &RemoteOptions,
    ) -> Result<Self> {
        let root = Path::parse(prefix).map_err(|error| {
            StorageError::new(
                StorageErrorKind::Permanent,
                format!("{prefix:?} is no prefix: {error}"),
            )
        })?;
        Ok(Self {
            remote: Remote::new(options)?,
            store,
            root,
            location,
            is_webdav: false,
            unconditional: AtomicBool::new(false),
            download: options.download_kib_per_s.map(Limiter::new),
            cold_class: options.storage_class.clone(),
            locker: None,
        })
    }

    /// Below the root.
    fn path(&self, below: &str) -> Path {
        let below = Path::from(below);
        self.root.parts().chain(below.parts()).collect()
    }

    fn object(&self, name: Name) -> Path {
        self.path(&name.path())
    }

    /// How an object is locked when it is put. Records of clients and of what is about to be are
    /// removed soon.
    fn lock_of(&self, name: Name) -> Option<(&Locker, Lock)> {
        let locker = self.locker.as_ref()?;
        let lock = locker.lock?;
        let is_kept = !matches!(name.kind, ObjectKind::Client | ObjectKind::Pending);
        is_kept.then_some((locker, lock))
    }

    /// Puts an object that must not exist yet, in this storage class.
    async fn put_new(
        &self,
        name: Name,
        bytes: &Bytes,
        attempt: Attempt,
        class: Option<&String>,
    ) -> Result<()> {
        let path = &self.object(name);
        if let Some((locker, lock)) = self.lock_of(name) {
            return locker.put_new(path, bytes, lock, class).await;
        }
        if self.is_webdav {
            return self.put_copied(path, bytes, attempt).await;
        }
        let mut attributes = Attributes::new();
        if let Some(class) = class {
            attributes.insert(Attribute::StorageClass, class.clone().into());
        }
        if !self.unconditional.load(Ordering::Relaxed) {
            let options = PutOptions {
                mode: PutMode::Create,
                attributes: attributes.clone(),
                ..PutOptions::default()
            };
            let put = self.store.put_opts(path, bytes.clone().into(), options);
            match put.await.map_err(explain) {
                Err(failure) if failure.kind() == StorageErrorKind::Unsupported => {
                    self.unconditional.store(true, Ordering::Relaxed);
                }
                done => return done.map(drop),
            }
        }
        // All objects but `config` are named by their bytes, so that other clients put the same: a
        // look before the put is enough.
        if !attempt.is_again && attempt.answer(self.store.head(path)).await.is_ok() {
            return Err(StorageErrorKind::AlreadyExists.into());
        }
        let put = self
            .store
            .put_opts(path, bytes.clone().into(), attributes.into());
        put.await.map(drop).map_err(explain)
    }

    /// [`Storage::put`] in this storage class.
    fn put_in_class(&self, name: Name, parts: &[&[u8]], class: Option<&String>) -> Result<()> {
        let bytes = Bytes::from(parts.concat());
        self.remote
            .run(
                async |attempt| match self.put_new(name, &bytes, attempt, class).await {
                    Err(failure)
                        if failure.kind() == StorageErrorKind::AlreadyExists
                            && attempt.is_again =>
                    {
                        match self.has(name, &bytes, attempt).await {
                            Ok(true) => Ok(()),
                            Ok(false) => Err(failure),
                            Err(missing) if missing.kind() == StorageErrorKind::NotFound => {
                                let text = "the server is still busy with an earlier try";
                                Err(StorageError::new(StorageErrorKind::Retryable, text))
                            }
                            Err(other) => Err(other),
                        }
                    }
                    done => done,
                },
            )
            .map_err(|error| error.about(name))
    }

    /// Puts an object under a temporary name first: a server may keep the beginning of an
    /// interrupted upload.
    async fn put_copied(&self, path: &Path, bytes: &Bytes, attempt: Attempt) -> Result<()> {
        let random = Id(random()).to_string();
        let temporary = self.path(&format!("{TEMPORARY}/{random}"));
        let put = self.store.put(&temporary, bytes.clone().into()).await;
        put.map_err(explain)?;
        let copied = attempt
            .answer(self.store.copy_if_not_exists(&temporary, path))
            .await;
        // A temporary object that stays is a leftover.
        let _ = attempt.answer(self.store.delete(&temporary)).await;
        copied
    }

    /// Whether an object with these bytes exists, after a try with unknown outcome.
    async fn has(&self, name: Name, bytes: &Bytes, attempt: Attempt) -> Result<bool> {
        let path = self.object(name);
        match name.kind {
            ObjectKind::Config => Ok(self.read(&path, None, attempt).await? == *bytes),
            // The name is the hash of the bytes.
            _ => Ok(attempt.answer(self.store.head(&path)).await?.size == bytes.len() as u64),
        }
    }

    async fn read(
        &self,
        path: &Path,
        range: Option<Range<u64>>,
        attempt: Attempt,
    ) -> Result<Vec<u8>> {
        let asked = range.as_ref().map(|range| range.end - range.start);
        let options = GetOptions {
            range: range.clone().map(Into::into),
            ..GetOptions::default()
        };
        let found = attempt.answer(self.store.get_opts(path, options)).await;
        let found = match (found, &range) {
            (Err(failure), Some(range)) if failure.kind() == StorageErrorKind::Permanent => {
                // Services report a missing range in different ways.
                let size = attempt.answer(self.store.head(path)).await?.size;
                return Err(if range.end > size {
                    StorageErrorKind::PastEnd.into()
                } else {
                    failure
                });
            }
            (found, _) => found?,
        };
        let len = found.range.end - found.range.start;
        if asked.is_some_and(|asked| asked != len) {
            return Err(StorageErrorKind::PastEnd.into());
        }
        if len > OBJECT_LEN_MAX {
            let text = "it is longer than any object";
            return Err(StorageError::new(StorageErrorKind::Permanent, text));
        }
        let mut bytes = Vec::with_capacity(len as usize);
        let mut pieces = found.into_stream();
        let (mut waited, mut received) = (Duration::ZERO, 0);
        loop {
            let begin = Instant::now();
            let Some(piece) = attempt.answer(pieces.try_next()).await? else {
                break;
            };
            bytes.extend_from_slice(&piece);
            waited += begin.elapsed();
            received += piece.len() as u64;
            if waited >= DOWNLOAD_PERIOD {
                if received < DOWNLOAD_RATE_MIN * DOWNLOAD_PERIOD.as_secs() {
                    let text =
                        format!("the server sends fewer than {DOWNLOAD_RATE_MIN} bytes a second");
                    return Err(StorageError::new(StorageErrorKind::Retryable, text));
                }
                (waited, received) = (Duration::ZERO, 0);
            }
            if let Some(limiter) = &self.download {
                limiter.wait(piece.len()).await;
            }
        }
        if bytes.len() as u64 == len {
            Ok(bytes)
        } else {
            Err(StorageError::new(
                StorageErrorKind::Retryable,
                "the server sent less than it promised",
            ))
        }
    }

    /// Length and time of an object.
    async fn head(&self, name: Name, attempt: Attempt) -> Result<ObjectMeta> {
        let path = self.object(name);
        let found = attempt.answer(self.store.head(&path)).await;
        let is_clear = match &found {
            Ok(_) => true,
            // Even the bucket may be missing.
            Err(failure) if failure.kind() == StorageErrorKind::NotFound => name != Name::CONFIG,
            Err(failure) => failure.kind() == StorageErrorKind::Retryable,
        };
        if is_clear {
            found
        } else {
            Ok(attempt.answer(self.store.get(&path)).await?.meta)
        }
    }

    /// Lists a prefix after the last object in `found`, until `enough` are found; returns whether
    /// the list is complete.
    async fn list_below(
        &self,
        prefix: &Path,
        found: &mut Vec<ObjectMeta>,
        enough: usize,
        attempt: Attempt,
    ) -> Result<bool> {
        if self.is_webdav {
            let listed = attempt
                .answer(self.store.list_with_delimiter(Some(prefix)))
                .await?;
            *found = listed.objects;
            return Ok(true);
        }
        let mut objects = match found.last() {
            None => self.store.list(Some(prefix)),
            Some(last) => self.store.list_with_offset(Some(prefix), &last.location),
        };
        while let Some(object) = attempt.answer(objects.try_next()).await? {
            found.push(object);
            if found.len() >= enough {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Lists the folders of packs, several at a time; with `from`, only objects after that one.
    async fn list_folders(
        &self,
        prefix: &Path,
        from: Option<ObjectMeta>,
    ) -> Result<Vec<ObjectMeta>> {
        let folders = (0..=u8::MAX).map(|first| prefix.clone().join(hex::encode([first])));
        let rest: Vec<(Path, Vec<ObjectMeta>)> = folders
            .filter_map(|folder| {
                let Some(from) = &from else {
                    return Some((folder, Vec::new()));
                };
                if from.location.prefix_matches(&folder) {
                    return Some((folder, vec![from.clone()]));
                }
                (folder > from.location).then_some((folder, Vec::new()))
            })
            .collect();
        let lists = stream::iter(rest).map(|(folder, mut found)| async move {
            let known = found.len();
            let list = async |attempt| {
                self.list_below(&folder, &mut found, usize::MAX, attempt)
                    .await
            };
            self.remote.persist(list).await?;
            found.drain(..known);
            Ok(found)
        });
        lists
            .buffer_unordered(self.remote.connections())
            .try_concat()
            .await
    }
}

impl Storage for ObjectStorage {
    fn location(&self) -> String {
        self.location.clone()
    }

    fn connections(&self) -> usize {
        self.remote.connections()
    }

    fn is_far(&self) -> bool {
        true
    }

    fn create(&self) -> Result<()> {
        // Leftovers of an interrupted creation are allowed.
        let harmless = [TEMPORARY, ObjectKind::Key.name()].map(|folder| self.path(folder));
        self.remote.run(async |attempt| {
            let list = self.store.list_with_delimiter(Some(&self.root));
            let found = attempt.answer(list).await?;
            let other = found
                .common_prefixes
                .iter()
                .any(|folder| !harmless.contains(folder));
            if other || !found.objects.is_empty() {
                Err(StorageErrorKind::NotEmpty.into())
            } else {
                Ok(())
            }
        })
    }

    fn put(&self, name: Name, parts: &[&[u8]]) -> Result<()> {
        self.put_in_class(name, parts, None)
    }

    fn put_cold(&self, name: Name, parts: &[&[u8]]) -> Result<()> {
        self.put_in_class(name, parts, self.cold_class.as_ref())
    }

    fn get(&self, name: Name, range: Option<Range<u64>>) -> Result<Vec<u8>> {
        let path = self.object(name);
        self.remote
            .run(async |attempt| match &range {
                Some(range) if range.is_empty() => {
                    let size = self.head(name, attempt).await?.size;
                    if range.start <= size {
                        Ok(Vec::new())
                    } else {
                        Err(StorageErrorKind::PastEnd.into())
                    }
                }
                _ => self.read(&path, range.clone(), attempt).await,
            })
            .map_err(|error| error.about(name))
    }

    fn list(&self, kind: ObjectKind) -> Result<Vec<Listed>> {
        let found = match kind {
            ObjectKind::Config => {
                vec![
                    self.remote
                        .run(async |attempt| self.head(Name::CONFIG, attempt).await)?,
                ]
            }
            _ => {
                let prefix = self.path(kind.name());
                let (mut found, mut all) = (Vec::new(), false);
                let in_folders = kind == ObjectKind::Pack;
                if !(self.is_webdav && in_folders) {
                    let enough = if in_folders {
                        LISTED_IN_ORDER
                    } else {
                        usize::MAX
                    };
                    all = self.remote.run(async |attempt| {
                        self.list_below(&prefix, &mut found, enough, attempt).await
                    })?;
                }
                if !all {
                    let rest = self.list_folders(&prefix, found.last().cloned());
                    found.extend(self.remote.block_on(rest)?);
                }
                found
            }
        };
        let root = self.root.parts().count();
        let listed = found.into_iter().filter_map(|object| {
            let parts: Vec<_> = object.location.parts().skip(root).collect();
            let id = match kind {
                ObjectKind::Config => Name::CONFIG.id,
                _ => parts.last()?.as_ref().parse().ok()?,
            };
            let path: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
            // Other objects are foreign.
            (Name::new(kind, id).path() == path.join("/")).then(|| Listed {
                id,
                len: object.size,
                modified: object.last_modified.into(),
            })
        });
        Ok(listed.collect())
    }

    fn stat(&self, name: Name) -> Result<u64> {
        self.remote
            .run(async |attempt| Ok(self.head(name, attempt).await?.size))
            .map_err(|error| error.about(name))
    }

    fn delete(&self, name: Name) -> Result<()> {
        let path = self.object(name);
        self.remote
            .run(
                async |attempt| match attempt.answer(self.store.delete(&path)).await {
                    Err(failure)
                        if failure.kind() == StorageErrorKind::NotFound && attempt.is_again =>
                    {
                        Ok(())
                    }
                    deleted => deleted,
                },
            )
            .map_err(|error| error.about(name))
    }

    /// Replaces in one request where the service can. Besides, servers over a file system may
    /// remove the folder of a deleted object during an acknowledged upload (versitygw 1.8 does).
    fn replace(&self, name: Name, parts: &[&[u8]]) -> Result<()> {
        if self.is_webdav {
            return replace_in_two_steps(self, name, parts);
        }
        let bytes = Bytes::from(parts.concat());
        let path = self.object(name);
        let put = async |_| match self.lock_of(name) {
            Some((locker, lock)) => locker.replace(&path, &bytes, lock).await,
            None => {
                let put = self.store.put(&path, bytes.clone().into()).await;
                put.map(drop).map_err(explain)
            }
        };
        self.remote.run(put).map_err(|error| error.about(name))
    }

    fn lock(&self) -> Option<Lock> {
        self.locker.as_ref()?.lock
    }

    fn locked_until(&self, name: Name) -> Result<Option<SystemTime>> {
        // What is answered without a request must not count as an answer of the server.
        let Some(locker) = self.locker.as_ref().filter(|locker| !locker.has_none()) else {
            return Ok(None);
        };
        let path = self.object(name);
        let until = self.remote.run(async |_| locker.until(&path).await);
        until.map_err(|error| error.about(name))
    }

    fn extend_lock(&self, name: Name, until: SystemTime) -> Result<()> {
        let Some((locker, lock)) = self.lock_of(name) else {
            return Err(StorageErrorKind::Unsupported.into());
        };
        let path = self.object(name);
        let extended = self
            .remote
            .run(async |_| locker.extend(&path, lock, until).await);
        extended.map_err(|error| error.about(name))
    }
}

impl Files for ObjectStorage {
    fn location(&self) -> String {
        self.location.clone()
    }

    fn connections(&self) -> usize {
        self.remote.connections()
    }

    fn read(&self, path: &str, range: Option<Range<u64>>) -> Result<Vec<u8>> {
        let path = self.path(path);
        self.remote
            .run(async |attempt| self.read(&path, range.clone(), attempt).await)
    }

    fn list(&self, folder: &str) -> Result<Vec<(String, u64)>> {
        let root = self.root.parts().count();
        let below_root = |path: &Path| path.parts().skip(root).collect::<Path>().to_string();
        let (mut found, mut folders) = (Vec::new(), vec![self.path(folder)]);
        while let Some(folder) = folders.pop() {
            let listed = self.remote.run(async |attempt| {
                let list = self.store.list_with_delimiter(Some(&folder));
                attempt.answer(list).await
            });
            let below = match listed {
                Err(failure) if failure.kind() == StorageErrorKind::NotFound => continue,
                listed => listed?,
            };
            let files = below.objects.into_iter();
            found.extend(files.map(|file| (below_root(&file.location), file.size)));
            folders.extend(below.common_prefixes);
        }
        found.sort();
        Ok(found)
    }
}

impl Attempt {
    /// Waits for the answer to a small request.
    async fn answer<T>(self, request: impl Future<Output = object_store::Result<T>>) -> Result<T> {
        match tokio::time::timeout(self.answer_timeout, request).await {
            Ok(done) => done.map_err(explain),
            Err(_) => Err(no_answer()),
        }
    }
}

fn explain(error: object_store::Error) -> StorageError {
    use object_store::Error::{AlreadyExists, NotFound, NotImplemented};
    if let Some(failure) = StorageError::within(&error) {
        return failure.clone();
    }
    let kind = match &error {
        NotFound { .. } => return StorageErrorKind::NotFound.into(),
        AlreadyExists { .. } => return StorageErrorKind::AlreadyExists.into(),
        NotImplemented { .. } => StorageErrorKind::Unsupported,
        _ => StorageErrorKind::Permanent,
    };
    StorageError::new(kind, first_cause(&error))
}

fn first_cause(error: &object_store::Error) -> String {
    causes(error)
        .last()
        .map(ToString::to_string)
        .unwrap_or_default()
}

fn no_answer() -> StorageError {
    StorageErrorKind::Retryable.into()
}
