//! Storage in a folder behind SFTP, for machines without Tabane.

mod packet;
mod session;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::sync::Mutex;

use self::packet::{Attributes, Reply, Request};
use self::session::{Session, refusal};
use crate::error::{Result, StorageError, StorageErrorKind};
use crate::hash::random;
use crate::id::Id;
use crate::limit::Limiter;
use crate::name::{Name, ObjectKind};
use crate::options::RemoteOptions;
use crate::remote::Remote;
use crate::ssh::SshPlace;
use crate::storage::{Listed, OBJECT_LEN_MAX, Storage};

/// Folder in which objects are written before they get their names.
const TEMPORARY: &str = "tmp";

/// Random bytes of a temporary name.
const TEMPORARY_NAME_LEN: usize = 16;

/// Permissions of folders and files, before the server's umask.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Folders that are listed at a time.
const FOLDERS_AT_ONCE: usize = 64;

/// Names in one folder, and packs in all folders: a server may make them up without end.
const NAMES_MAX: usize = 1 << 20;
const PACKS_MAX: usize = 16 << 20;

/// Requests for the next names of a folder that are on their way at a time.
const LISTS_AT_ONCE: usize = 4;

/// Bytes of a write whose rate is limited.
const LIMITED_PIECE_LEN: u64 = 16 << 10;

/// Names of extensions that make writes durable, and rename over an existing file.
const FSYNC: &str = "fsync@openssh.com";
const POSIX_RENAME: &str = "posix-rename@openssh.com";
const HARD_LINK: &str = "hardlink@openssh.com";
const STATVFS: &str = "statvfs@openssh.com";

/// Objects as files below a folder on an SFTP server, laid out as
/// [`LocalStorage`](crate::LocalStorage) does it.
///
/// An object is written to `tmp/` and renamed. With OpenSSH, file and folder are synced, so the
/// object is durable once [`Storage::put`] has returned; without `fsync@openssh.com` that is up to
/// the server. All operations share one connection, and each sends its requests without waiting for
/// answers as far as it can. A connection that breaks is made anew, and the operation retried.
///
/// Methods block: call them from ordinary threads, not from within an asynchronous runtime.
pub struct SftpStorage {
    remote: Remote,
    place: SshPlace,
    /// `None` before the first operation.
    session: Mutex<Option<Arc<Session>>>,
    upload: Option<Limiter>,
    download: Option<Limiter>,
}

impl SftpStorage {
    /// The storage at `place`; `ssh` is started by the first operation.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn connect(place: &SshPlace, options: &RemoteOptions) -> Result<Self> {
        Ok(Self {
            remote: Remote::new(options)?.leisurely(),
            place: place.clone(),
            session: Mutex::new(None),
            upload: options.upload_kib_per_s.map(Limiter::new),
            download: options.download_kib_per_s.map(Limiter::new),
        })
    }

    /// Waits for an operation, with a session that is open at its beginning; `operation` gets
    /// whether it was tried before.
    fn run<T>(&self, operation: impl AsyncFn(&Session, bool) -> Result<T>) -> Result<T> {
        self.remote.run(async |attempt| {
            let session = self.session().await?;
            operation(&session, attempt.is_again).await
        })
    }

    /// As [`SftpStorage::run`], for an operation on one object.
    fn run_on<T>(
        &self,
        name: Name,
        operation: impl AsyncFn(&Session, bool) -> Result<T>,
    ) -> Result<T> {
        self.run(operation).map_err(|error| error.about(name))
    }

    /// The session, made anew if it has ended.
    async fn session(&self) -> Result<Arc<Session>> {
        let mut current = self.session.lock().await;
        if let Some(session) = current.as_ref().filter(|session| session.is_open()) {
            return Ok(Arc::clone(session));
        }
        let session = Arc::new(Session::connect(&self.place).await?);
        *current = Some(Arc::clone(&session));
        Ok(session)
    }

    /// Path of something below the root.
    fn below(&self, path: &str) -> Vec<u8> {
        format!("{}/{path}", self.place.path()).into_bytes()
    }

    fn path(&self, name: Name) -> Vec<u8> {
        self.below(&name.path())
    }

    /// A new temporary path.
    fn temporary(&self) -> Vec<u8> {
        let name = hex::encode(random::<TEMPORARY_NAME_LEN>());
        self.below(&format!("{TEMPORARY}/{name}"))
    }

    async fn make_folder(&self, session: &Session, path: &[u8]) -> Result<()> {
        let mode = FOLDER_MODE;
        let Err(error) = session.act(&Request::MakeDirectory { path, mode }).await else {
            return Ok(());
        };
        // OpenSSH does not say that it exists.
        match session.stat(path).await {
            Ok(found) if found.is_directory() => Ok(()),
            _ => Err(error),
        }
    }

    /// Makes the root and the folders above it.
    async fn make_root(&self, session: &Session) -> Result<()> {
        let root = self.place.path();
        if let Ok(found) = session.stat(root.as_bytes()).await {
            return if found.is_directory() {
                Ok(())
            } else {
                Err(StorageError::new(
                    StorageErrorKind::AlreadyExists,
                    "there is something that is no directory",
                ))
            };
        }
        let ends = root
            .match_indices('/')
            .map(|(at, _)| at)
            .filter(|at| *at > 0);
        for end in ends.chain([root.len()]) {
            self.make_folder(session, &root.as_bytes()[..end]).await?;
        }
        Ok(())
    }

    async fn make_folders(&self, session: &Session) -> Result<()> {
        let kinds = ObjectKind::ALL.into_iter();
        let kinds = kinds.filter(|kind| *kind != ObjectKind::Config);
        for folder in kinds.map(ObjectKind::name).chain([TEMPORARY]) {
            self.make_folder(session, &self.below(folder)).await?;
        }
        let packs = (0..=u8::MAX).map(|first| {
            let folder = format!("{}/{}", ObjectKind::Pack.name(), hex::encode([first]));
            let folder = self.below(&folder);
            async move { self.make_folder(session, &folder).await }
        });
        let made = stream::iter(packs).buffer_unordered(FOLDERS_AT_ONCE);
        made.try_collect::<()>().await?;
        self.sync_folder(session, &self.below(ObjectKind::Pack.name()))
            .await?;
        self.sync_folder(session, self.place.path().as_bytes())
            .await
    }

    /// Makes new and removed names in a folder durable, where the server can.
    async fn sync_folder(&self, session: &Session, path: &[u8]) -> Result<()> {
        if !session.has(FSYNC, "1") {
            return Ok(());
        }
        // OpenSSH opens a directory as a file, if the system does.
        let (flags, mode) = (packet::READ, 0);
        let Ok(handle) = session.open(&Request::Open { path, flags, mode }).await else {
            return Ok(());
        };
        let synced = session.act(&Request::Extended(FSYNC, &[&handle])).await;
        session.close(&handle).await;
        match synced {
            Err(error) if error.kind() == StorageErrorKind::Retryable => Err(error),
            // Elsewhere, handles of directories cannot be synced.
            _ => Ok(()),
        }
    }

    /// Writes a new file, durable where the server can.
    async fn write(&self, session: &Session, path: &[u8], bytes: &[u8]) -> Result<()> {
        let (flags, mode) = (packet::WRITE_NEW, FILE_MODE);
        let handle = match session.open(&Request::Open { path, flags, mode }).await {
            // A copy of the repository may lack empty folders.
            Err(error)
                if error.kind() == StorageErrorKind::NotFound && self.is_used(session).await =>
            {
                self.make_folder(session, &self.below(TEMPORARY)).await?;
                session.open(&Request::Open { path, flags, mode }).await?
            }
            opened => opened?,
        };
        let handle = &handle;
        let piece_len = match &self.upload {
            Some(_) => LIMITED_PIECE_LEN,
            None => session.write_len,
        };
        let mut pending = Vec::new();
        for (number, bytes) in (0..).zip(bytes.chunks(piece_len as usize)) {
            if let Some(limiter) = &self.upload {
                limiter.wait(bytes.len()).await;
            }
            let offset = number * piece_len;
            let write = Request::Write {
                handle,
                offset,
                bytes,
            };
            pending.push(session.send(&write).await?);
        }
        if session.has(FSYNC, "1") {
            pending.push(session.send(&Request::Extended(FSYNC, &[handle])).await?);
        }
        // Some servers write only now.
        pending.push(session.send(&Request::Close(handle)).await?);
        for pending in pending {
            if let Err(error) = pending.done().await {
                return Err(self.or_full(session, error, bytes.len()).await);
            }
        }
        Ok(())
    }

    /// Whether the folder holds a repository or a target of one.
    async fn is_used(&self, session: &Session) -> bool {
        for name in [Name::CONFIG, Name::TARGET] {
            if session.stat(&self.path(name)).await.is_ok() {
                return true;
            }
        }
        false
    }

    /// The error of a write of `len` bytes: OpenSSH does not say that no space is left.
    async fn or_full(&self, session: &Session, error: StorageError, len: usize) -> StorageError {
        if error.kind() != StorageErrorKind::Permanent || !session.has(STATVFS, "2") {
            return error;
        }
        let root = self.place.path().as_bytes();
        match session.ask(&Request::Extended(STATVFS, &[root])).await {
            Ok(Reply::Extended(answer))
                if packet::free_bytes(&answer).is_some_and(|free| free < len as u64) =>
            {
                StorageErrorKind::Full.into()
            }
            _ => error,
        }
    }

    /// Gives a written file its name.
    async fn publish(&self, session: &Session, from: &[u8], name: Name) -> Result<()> {
        let to = &self.path(name);
        let renamed = match self.rename(session, from, to, name).await {
            Err(error) if error.kind() == StorageErrorKind::NotFound => {
                // The folder is made with the first object of its kind, or was lost.
                self.make_folder(session, folder(to)).await?;
                self.rename(session, from, to, name).await
            }
            renamed => renamed,
        };
        if let Err(error) = renamed {
            // OpenSSH does not say that the name is taken.
            return Err(match session.stat(to).await {
                Ok(found) if found.is_file() => StorageErrorKind::AlreadyExists.into(),
                Ok(_) => StorageError::new(
                    StorageErrorKind::Permanent,
                    format!("there is something that is no file: {}", name.path()),
                ),
                Err(_) => error,
            });
        }
        self.sync_folder(session, folder(to)).await
    }

    /// Renames without replacing. Only `config` is not named by its bytes: where a server replaces
    /// all the same, nothing else can change.
    async fn rename(&self, session: &Session, from: &[u8], to: &[u8], name: Name) -> Result<()> {
        if name != Name::CONFIG {
            return session.act(&Request::Rename { from, to }).await;
        }
        if session.has(HARD_LINK, "1") {
            let linked = session
                .act(&Request::Extended(HARD_LINK, &[from, to]))
                .await;
            if linked.is_ok() {
                return session.act(&Request::Remove(from)).await;
            }
        }
        // Not every file system has links.
        match session.stat(to).await {
            Err(error) if error.kind() == StorageErrorKind::NotFound => {
                session.act(&Request::Rename { from, to }).await
            }
            Err(error) => Err(error),
            Ok(_) => Err(StorageErrorKind::AlreadyExists.into()),
        }
    }

    async fn put_new(&self, session: &Session, name: Name, bytes: &[u8]) -> Result<()> {
        let temporary = &self.temporary();
        let written = self.write(session, temporary, bytes).await;
        let published = match written {
            Ok(()) => self.publish(session, temporary, name).await,
            error => error,
        };
        self.or_remove(session, temporary, published).await
    }

    /// Removes a temporary file after a failure; one that stays is a leftover.
    async fn or_remove(&self, session: &Session, path: &[u8], done: Result<()>) -> Result<()> {
        if done.is_err() {
            let _ = session.send(&Request::Remove(path)).await;
        }
        done
    }

    /// Whether an object with these bytes exists, after a try with unknown outcome.
    async fn has(&self, session: &Session, name: Name, bytes: &[u8]) -> Result<bool> {
        match name.kind {
            ObjectKind::Config => Ok(self.read(session, name, None).await? == bytes),
            // The name is the hash of the bytes.
            _ => Ok(session.stat(&self.path(name)).await?.size == Some(bytes.len() as u64)),
        }
    }

    async fn read(
        &self,
        session: &Session,
        name: Name,
        range: Option<Range<u64>>,
    ) -> Result<Vec<u8>> {
        let (path, flags, mode) = (&self.path(name), packet::READ, 0);
        let opened = session.send(&Request::Open { path, flags, mode }).await?;
        let range = match range {
            Some(range) => range,
            None => {
                let found = session.stat(path).await?;
                if !found.is_file() {
                    return Err(StorageErrorKind::Permanent.into());
                }
                let len = found.size.ok_or(StorageErrorKind::Malformed)?;
                if len > OBJECT_LEN_MAX {
                    let text = "it is longer than any object";
                    return Err(StorageError::new(StorageErrorKind::Permanent, text));
                }
                0..len
            }
        };
        let handle = opened.handle().await?;
        let read = self.read_pieces(session, &handle, range).await;
        session.close(&handle).await;
        read
    }

    /// Reads all pieces of a range at once.
    async fn read_pieces(
        &self,
        session: &Session,
        handle: &[u8],
        range: Range<u64>,
    ) -> Result<Vec<u8>> {
        let len = range.end - range.start;
        let mut pending = Vec::new();
        for start in (0..len).step_by(session.read_len as usize) {
            let wanted = session.read_len.min(len - start);
            let (offset, len) = (range.start + start, wanted as u32);
            let sent = session
                .send(&Request::Read {
                    handle,
                    offset,
                    len,
                })
                .await?;
            pending.push((offset, wanted, sent));
        }
        let mut bytes = crate::buffer::with_capacity(len as usize);
        for (mut offset, mut wanted, mut sent) in pending {
            loop {
                let piece = match sent.reply().await? {
                    Reply::Data(piece) if piece.is_empty() || piece.len() as u64 > wanted => {
                        return Err(StorageErrorKind::Malformed.into());
                    }
                    Reply::Data(piece) => piece,
                    Reply::Status(packet::EOF, _) => return Err(StorageErrorKind::PastEnd.into()),
                    reply => return Err(refusal(reply)),
                };
                if let Some(limiter) = &self.download {
                    limiter.wait(piece.len()).await;
                }
                bytes.extend_from_slice(&piece);
                wanted -= piece.len() as u64;
                offset += piece.len() as u64;
                if wanted == 0 {
                    break;
                }
                // A server may send less than it is asked for.
                let len = wanted as u32;
                sent = session
                    .send(&Request::Read {
                        handle,
                        offset,
                        len,
                    })
                    .await?;
            }
        }
        Ok(bytes)
    }

    /// Names in a folder, with attributes.
    async fn list_folder(
        &self,
        session: &Session,
        path: &[u8],
    ) -> Result<Vec<(Vec<u8>, Attributes)>> {
        let handle = session.open(&Request::OpenDirectory(path)).await?;
        let next = Request::ReadDirectory(&handle);
        let ask = || session.send(&next);
        let mut pending = VecDeque::new();
        for _ in 0..LISTS_AT_ONCE {
            pending.push_back(ask().await?);
        }
        let mut found = Vec::new();
        while let Some(next) = pending.pop_front() {
            match next.reply().await? {
                Reply::Names(names) => {
                    found.extend(names);
                    limit(found.len(), NAMES_MAX)?;
                    pending.push_back(ask().await?);
                }
                Reply::Status(packet::EOF, _) => break,
                reply => return Err(refusal(reply)),
            }
        }
        session.close(&handle).await;
        Ok(found)
    }

    /// Lists the files in a folder whose names are IDs; all others are foreign.
    async fn list_objects(&self, session: &Session, path: &[u8]) -> Result<Vec<Listed>> {
        let found = self.list_folder(session, path).await?;
        let objects = found.into_iter().filter_map(|(name, attributes)| {
            let id = std::str::from_utf8(&name).ok()?.parse().ok()?;
            attributes.is_file().then(|| listed(id, attributes))
        });
        objects.collect()
    }

    async fn list_kind(&self, session: &Session, kind: ObjectKind) -> Result<Vec<Listed>> {
        let path = self.below(kind.name());
        match kind {
            ObjectKind::Config => {
                let found = session.stat(&path).await?;
                Ok(vec![listed(Name::CONFIG.id, found)?])
            }
            ObjectKind::Pack => {
                let folders = self.list_folder(session, &path).await?;
                let lists = folders.into_iter().filter(|(name, attributes)| {
                    attributes.is_directory()
                        && ![b".".as_slice(), b".."].contains(&name.as_slice())
                });
                let lists = lists.map(|(name, _)| {
                    let folder = [&path[..], b"/", &name[..]].concat();
                    async move { self.list_objects(session, &folder).await }
                });
                let lists = stream::iter(lists).buffer_unordered(FOLDERS_AT_ONCE);
                let add = async |mut all: Vec<Listed>, some| {
                    all.extend::<Vec<_>>(some);
                    limit(all.len(), PACKS_MAX).map(|()| all)
                };
                lists.try_fold(Vec::new(), add).await
            }
            _ => match self.list_objects(session, &path).await {
                // The folder is made with the first object of this kind.
                Err(error) if error.kind() == StorageErrorKind::NotFound && kind.is_transient() => {
                    Ok(Vec::new())
                }
                listed => listed,
            },
        }
    }

    /// The time of the server's clock.
    async fn now(&self, session: &Session) -> Result<SystemTime> {
        let probe = self.temporary();
        self.write(session, &probe, &[]).await?;
        let found = session.stat(&probe).await;
        session.act(&Request::Remove(&probe)).await?;
        Ok(listed(Name::CONFIG.id, found?)?.modified)
    }
}

impl Storage for SftpStorage {
    fn location(&self) -> String {
        self.place.to_string()
    }

    fn connections(&self) -> usize {
        self.remote.connections()
    }

    fn create(&self) -> Result<()> {
        self.run(async |session, _| {
            self.make_root(session).await?;
            let root = self.place.path().as_bytes();
            // Leftovers of an interrupted creation are allowed.
            let is_ours = |name: &[u8]| {
                let mut kinds = ObjectKind::ALL.into_iter();
                let is_kind =
                    |kind: ObjectKind| kind != ObjectKind::Config && name == kind.name().as_bytes();
                [b".".as_slice(), b"..", TEMPORARY.as_bytes()].contains(&name) || kinds.any(is_kind)
            };
            let found = self.list_folder(session, root).await?;
            if !found.iter().all(|(name, _)| is_ours(name)) {
                return Err(StorageErrorKind::NotEmpty.into());
            }
            // Refuses to hide a repository without config under a new one.
            for kind in [ObjectKind::Pack, ObjectKind::Index, ObjectKind::Snapshot] {
                if self
                    .list_kind(session, kind)
                    .await
                    .is_ok_and(|found| !found.is_empty())
                {
                    return Err(StorageErrorKind::NotEmpty.into());
                }
            }
            self.make_folders(session).await
        })
    }

    fn make_folders(&self) -> Result<()> {
        self.run(async |session, _| self.make_folders(session).await)
    }

    fn put(&self, name: Name, parts: &[&[u8]]) -> Result<()> {
        let bytes = parts.concat();
        self.run_on(name, async |session, again| {
            match self.put_new(session, name, &bytes).await {
                Err(error) if error.kind() == StorageErrorKind::AlreadyExists && again => {
                    if self.has(session, name, &bytes).await? {
                        // An earlier try may not have synced the folder.
                        self.sync_folder(session, folder(&self.path(name))).await
                    } else {
                        Err(error)
                    }
                }
                done => done,
            }
        })
    }

    /// At once where the server has `posix-rename@openssh.com`.
    fn replace(&self, name: Name, parts: &[&[u8]]) -> Result<()> {
        let bytes = parts.concat();
        self.run_on(name, async |session, _| {
            let (temporary, to) = (&self.temporary(), &self.path(name));
            if !session.has(POSIX_RENAME, "1") {
                match session.act(&Request::Remove(to)).await {
                    Err(error) if error.kind() != StorageErrorKind::NotFound => return Err(error),
                    _ => return self.put_new(session, name, &bytes).await,
                }
            }
            self.write(session, temporary, &bytes).await?;
            let rename = Request::Extended(POSIX_RENAME, &[temporary, to]);
            let renamed = match session.act(&rename).await {
                Err(error) if error.kind() == StorageErrorKind::NotFound => {
                    self.make_folder(session, folder(to)).await?;
                    session.act(&rename).await
                }
                renamed => renamed,
            };
            self.or_remove(session, temporary, renamed).await?;
            self.sync_folder(session, folder(to)).await
        })
    }

    fn get(&self, name: Name, range: Option<Range<u64>>) -> Result<Vec<u8>> {
        self.run_on(name, async |session, _| {
            self.read(session, name, range.clone()).await
        })
    }

    fn list(&self, kind: ObjectKind) -> Result<Vec<Listed>> {
        self.run(async |session, _| self.list_kind(session, kind).await)
    }

    fn stat(&self, name: Name) -> Result<u64> {
        self.run_on(name, async |session, _| {
            let found = session.stat(&self.path(name)).await?;
            found.size.ok_or_else(|| StorageErrorKind::Malformed.into())
        })
    }

    fn delete(&self, name: Name) -> Result<()> {
        self.run_on(name, async |session, again| {
            let path = self.path(name);
            match session.act(&Request::Remove(&path)).await {
                Err(error) if error.kind() == StorageErrorKind::NotFound && again => {}
                removed => removed?,
            }
            self.sync_folder(session, folder(&path)).await
        })
    }

    fn remove_leftovers(&self, age: Duration) -> Result<u64> {
        self.run(async |session, _| {
            let now = self.now(session).await?;
            let mut removed = 0;
            let found = self.list_folder(session, &self.below(TEMPORARY)).await?;
            for (name, attributes) in found {
                if name.len() != 2 * TEMPORARY_NAME_LEN || !attributes.is_file() {
                    continue;
                }
                let modified = listed(Name::CONFIG.id, attributes)?.modified;
                if now.duration_since(modified).is_ok_and(|old| old >= age) {
                    let path =
                        self.below(&format!("{TEMPORARY}/{}", String::from_utf8_lossy(&name)));
                    session.act(&Request::Remove(&path)).await?;
                    removed += 1;
                }
            }
            Ok(removed)
        })
    }
}

/// Refuses a listing of too many names.
fn limit(count: usize, max: usize) -> Result<()> {
    if count <= max {
        return Ok(());
    }
    let text = format!("the server lists more than {max} objects, which no repository has");
    Err(StorageError::new(StorageErrorKind::Malformed, text))
}

/// Parses what a server might send, as a greeting and as an answer; returns whether it was one of
/// the two. For tests with arbitrary bytes.
#[doc(hidden)]
pub fn is_message(bytes: &[u8]) -> bool {
    let reply = packet::Reply::parse(&bytes::Bytes::copy_from_slice(bytes));
    let _ = packet::free_bytes(bytes);
    let _ = packet::limits(bytes);
    packet::parse_greeting(bytes).is_some() || reply.is_some()
}

/// The folder of a path.
fn folder(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte == b'/');
    &path[..end.expect("an object is below the root")]
}

fn listed(id: Id, attributes: Attributes) -> Result<Listed> {
    let (Some(len), Some(seconds)) = (attributes.size, attributes.mtime) else {
        let text = "the server tells no lengths and times of files";
        return Err(StorageError::new(StorageErrorKind::Unsupported, text));
    };
    Ok(Listed {
        id,
        len,
        modified: SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.into()),
    })
}
