//! Storage in a directory.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, RenameFlags};

use crate::error::{Result, StorageError, StorageErrorKind};
use crate::files;
use crate::hash::random;
use crate::id::Id;
use crate::name::{Name, ObjectKind};
use crate::storage::{Listed, Storage};

/// Folder in which objects are written before they get their names.
const TEMPORARY: &str = "tmp";

/// Random bytes of a temporary name.
const TEMPORARY_NAME_LEN: usize = 16;

/// Objects as files below a directory.
///
/// An object is written to `tmp/`, synced, renamed without replacing, and its directory is synced:
/// so it exists whole or not at all, and is durable once [`Storage::put`] has returned.
pub struct LocalStorage {
    root: PathBuf,
}

impl LocalStorage {
    /// The directory `root`, which need not exist yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    fn path(&self, name: Name) -> PathBuf {
        self.root.join(name.path())
    }

    /// A new temporary path.
    fn temporary(&self) -> PathBuf {
        let name = hex::encode(random::<TEMPORARY_NAME_LEN>());
        self.root.join(TEMPORARY).join(name)
    }

    fn create_temporary(&self, path: &Path) -> io::Result<File> {
        let create = || {
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)
        };
        match create() {
            // A copy of the repository may lack empty folders.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.is_used() => {
                create_directory(&self.root.join(TEMPORARY))?;
                create()
            }
            result => result,
        }
    }

    /// Whether the directory holds a repository or a target of one.
    fn is_used(&self) -> bool {
        [Name::CONFIG, Name::TARGET]
            .iter()
            .any(|name| self.path(*name).exists())
    }

    /// The time of the file system's clock, which may be another machine's.
    fn now(&self) -> io::Result<SystemTime> {
        let probe = self.temporary();
        let modified = self
            .create_temporary(&probe)
            .and_then(|file| file.metadata()?.modified());
        fs::remove_file(&probe)?;
        modified
    }

    /// Makes durable what others have put and may not have synced yet, if they died: whoever has
    /// seen it relies on it. A pack is relied on when an index object names it.
    fn settle(&self, kind: ObjectKind) -> io::Result<()> {
        match sync_directory(&self.root.join(kind.name())) {
            // What nobody can write to, or a file system that does not know how: it is read only.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::InvalidInput
                ) =>
            {
                Ok(())
            }
            result => result,
        }
    }

    /// Begins to write an object, under a temporary name.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn draft(&self, name: Name) -> Result<Draft> {
        let temporary = self.temporary();
        let file = self.create_temporary(&temporary).map_err(about(name))?;
        Ok(Draft {
            file,
            name,
            temporary,
            path: self.path(name),
        })
    }

    fn write(&self, name: Name, parts: &[&[u8]]) -> Result<Draft> {
        let draft = self.draft(name)?;
        for part in parts {
            let written = (&draft.file).write_all(part);
            written.map_err(about(name))?;
        }
        Ok(draft)
    }

    /// Gives drafts their names, whole and durable. Publishing several at once costs less than one
    /// by one: they share commits of the file system's journal, and each directory is synced once.
    ///
    /// Returns one result for each draft; [`StorageErrorKind::AlreadyExists`] if the name is taken.
    pub fn publish(&self, drafts: impl IntoIterator<Item = Draft>) -> Vec<Result<()>> {
        let mut drafts: Vec<_> = drafts.into_iter().map(|draft| (draft, Ok(()))).collect();
        for (draft, result) in &mut drafts {
            *result = draft.file.sync_all();
        }
        let mut folders = Vec::new();
        for (draft, result) in &mut drafts {
            if result.is_ok() {
                *result = rename(&draft.temporary, &draft.path);
                folders.push(
                    draft
                        .path
                        .parent()
                        .expect("an object is below the root")
                        .to_owned(),
                );
            }
        }
        folders.sort();
        folders.dedup();
        let synced = folders.iter().try_for_each(|folder| sync_directory(folder));
        let synced = synced.map_err(StorageError::from);
        let results = drafts.into_iter().map(|(draft, result)| {
            let result = result.map_err(StorageError::from);
            result
                .and_then(|()| synced.clone())
                .map_err(|error| error.about(draft.name))
        });
        results.collect()
    }
}

/// An object that is being written, in any order. Dropping an unpublished draft deletes it.
pub struct Draft {
    name: Name,
    file: File,
    temporary: PathBuf,
    path: PathBuf,
}

impl Draft {
    /// Writes two consecutive pieces without copying them together.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write_at(&self, offset: u64, parts: [&[u8]; 2]) -> Result<()> {
        self.write_all_at(offset, parts).map_err(about(self.name))
    }

    fn write_all_at(&self, offset: u64, parts: [&[u8]; 2]) -> io::Result<()> {
        let slices = parts.map(IoSlice::new);
        let written = rustix::io::pwritev(&self.file, &slices, offset)?;
        let mut at = 0;
        for part in parts {
            // The rest after a short write.
            let done = written.saturating_sub(at).min(part.len());
            self.file
                .write_all_at(&part[done..], offset + (at + done) as u64)?;
            at += part.len();
        }
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Fails after publishing, when the temporary file is gone; else removes it.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// Renames the written and synced `temporary` to its final path.
fn rename(temporary: &Path, path: &Path) -> io::Result<()> {
    let folder = path.parent().expect("an object is below the root");
    match rename_without_replacing(temporary, path) {
        // The folder was removed or lost.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let above = folder.parent().expect("a folder is below the root");
            let target = above.parent().map(|root| root.join(Name::TARGET.path()));
            if !above.exists() && target.is_some_and(|target| target.exists()) {
                // An empty new folder would hide that too many targets have lost theirs.
                return Err(io::Error::new(
                    error.kind(),
                    format!("its folder {} is gone", above.display()),
                ));
            }
            make_directory(folder)?;
            rename_without_replacing(temporary, path)
        }
        // An AlreadyExists here would be taken as "same bytes".
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !path.is_file() => {
            let text = format!("there is something that is no file: {}", path.display());
            Err(io::Error::other(text))
        }
        result => result,
    }
}

impl Storage for LocalStorage {
    fn location(&self) -> String {
        self.root.display().to_string()
    }

    fn create(&self) -> Result<()> {
        make_directory(&self.root).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => StorageError::new(
                StorageErrorKind::AlreadyExists,
                "there is something that is no directory",
            ),
            _ => error.into(),
        })?;
        for entry in fs::read_dir(&self.root)? {
            // Leftovers of an interrupted creation are allowed.
            let name = entry?.file_name();
            let ours = name == TEMPORARY
                || ObjectKind::ALL
                    .iter()
                    .any(|kind| *kind != ObjectKind::Config && name == kind.name());
            if !ours {
                return Err(StorageErrorKind::NotEmpty.into());
            }
        }
        for kind in [ObjectKind::Pack, ObjectKind::Index, ObjectKind::Snapshot] {
            // Refuses to hide a repository without config under a new one.
            if self.list(kind).is_ok_and(|found| !found.is_empty()) {
                return Err(StorageErrorKind::NotEmpty.into());
            }
        }
        self.make_folders()
    }

    fn make_folders(&self) -> Result<()> {
        for kind in ObjectKind::ALL {
            if kind != ObjectKind::Config {
                create_directory(&self.root.join(kind.name()))?;
            }
        }
        create_directory(&self.root.join(TEMPORARY))?;
        let packs = self.root.join(ObjectKind::Pack.name());
        for first in 0..=u8::MAX {
            create_directory(&packs.join(hex::encode([first])))?;
        }
        sync_directory(&packs)?;
        Ok(sync_directory(&self.root)?)
    }

    fn put(&self, name: Name, parts: &[&[u8]]) -> Result<()> {
        let mut published = self.publish([self.write(name, parts)?]);
        published.pop().expect("it has one result for each")
    }

    /// At once: there is always one of the two.
    fn replace(&self, name: Name, parts: &[&[u8]]) -> Result<()> {
        let draft = self.write(name, parts)?;
        if !draft.path.is_file() {
            let mut published = self.publish([draft]);
            return published.pop().expect("it has one result for each");
        }
        let folder = draft.path.parent().expect("an object is below the root");
        let replaced = draft
            .file
            .sync_all()
            .and_then(|()| fs::rename(&draft.temporary, &draft.path))
            .and_then(|()| sync_directory(folder));
        replaced.map_err(about(name))
    }

    fn get(&self, name: Name, range: Option<Range<u64>>) -> Result<Vec<u8>> {
        files::read(&self.path(name), range).map_err(about(name))
    }

    fn list(&self, kind: ObjectKind) -> Result<Vec<Listed>> {
        let mut found = Vec::new();
        match kind {
            ObjectKind::Config => {
                let metadata = fs::metadata(self.path(Name::CONFIG))?;
                found.push(listed(Name::CONFIG.id, &metadata)?);
            }
            ObjectKind::Pack => {
                for folder in fs::read_dir(self.root.join(kind.name()))? {
                    let folder = folder?;
                    if folder.file_type()?.is_dir() {
                        list_folder(&folder.path(), &mut found)?;
                    }
                }
            }
            _ => match list_folder(&self.root.join(kind.name()), &mut found) {
                // The folder is made with the first object of this kind.
                Err(error) if error.kind() == io::ErrorKind::NotFound && kind.is_transient() => {}
                result => {
                    result?;
                    self.settle(kind)?;
                }
            },
        }
        Ok(found)
    }

    fn stat(&self, name: Name) -> Result<u64> {
        let metadata = fs::metadata(self.path(name)).map_err(about(name))?;
        Ok(metadata.len())
    }

    fn delete(&self, name: Name) -> Result<()> {
        let path = self.path(name);
        let folder = path.parent().expect("an object is below the root");
        let deleted = fs::remove_file(&path).and_then(|()| sync_directory(folder));
        deleted.map_err(about(name))
    }

    fn free_bytes(&self) -> Option<u64> {
        let stat = rustix::fs::statvfs(&self.root).ok()?;
        Some(stat.f_bavail * stat.f_frsize)
    }

    fn remove_leftovers(&self, age: Duration) -> Result<u64> {
        let folder = self.root.join(TEMPORARY);
        let now = self.now()?;
        let mut removed = 0;
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let modified = match entry.metadata() {
                Ok(metadata) => metadata.modified()?,
                // The object was published meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error.into()),
            };
            let is_ours = entry.file_name().len() == 2 * TEMPORARY_NAME_LEN;
            if is_ours && now.duration_since(modified).is_ok_and(|old| old >= age) {
                fs::remove_file(entry.path())?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

/// Adds the files whose names are IDs; all others are foreign.
fn list_folder(folder: &Path, found: &mut Vec<Listed>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        match entry.metadata() {
            // An entry that is no file counts as a missing object.
            Ok(metadata) if !metadata.is_file() && !metadata.is_symlink() => {}
            Ok(metadata) => found.push(listed(id, &metadata)?),
            // The object was deleted meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Converts an error of the file system about one object.
fn about(name: Name) -> impl Fn(io::Error) -> StorageError {
    move |error| StorageError::from(error).about(name)
}

fn listed(id: Id, metadata: &fs::Metadata) -> io::Result<Listed> {
    Ok(Listed {
        id,
        len: metadata.len(),
        modified: metadata.modified()?,
    })
}

/// Writes a file whole or not at all, durably, with this mode less the umask; `replace` allows an
/// existing one.
///
/// # Errors
/// [`StorageErrorKind::AlreadyExists`]; when it cannot be written.
pub fn write_whole(path: &Path, bytes: &[u8], mode: u32, replace: bool) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let temporary = path.with_file_name(name);
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    let renamed = if replace {
        fs::rename(&temporary, path)
    } else {
        rename_without_replacing(&temporary, path)
            .inspect_err(|_| drop(fs::remove_file(&temporary)))
    };
    renamed?;
    Ok(sync_name(path)?)
}

/// Renames, unless the new name is taken.
fn rename_without_replacing(from: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some network file systems lack the flag: a link never replaces either.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            fs::hard_link(from, to)?;
            fs::remove_file(from)
        }
        result => Ok(result?),
    }
}

/// Makes a directory and those above it that are missing, for the owner alone. Their names are
/// durable.
///
/// # Errors
/// When it cannot be made, or a directory cannot be synced in which one was made.
pub fn make_directory(path: &Path) -> io::Result<()> {
    let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    create_directory(path)?;
    if missing.is_empty() {
        // Whoever made it may have been killed before this, or does not let us.
        let _ = sync_name(path);
    }
    missing.into_iter().try_for_each(sync_name)
}

/// Makes it durable that a file or directory has the name `path`, whose contents were synced.
///
/// # Errors
/// When the directory that it is in cannot be opened or synced.
pub fn sync_name(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => sync_directory(folder),
        _ => sync_directory(Path::new(".")),
    }
}

/// Creates a directory and its parents, for the owner alone.
fn create_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
