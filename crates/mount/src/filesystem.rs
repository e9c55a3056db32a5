//! Answers the kernel.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, Notifier, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyXattr, Request,
};
use tabane_storage::ObjectKind;
use tabane_store::entry::{Entry, Kind};
use tabane_store::layout::LayoutEntry;
use tabane_store::segment_cache::SegmentCache;
use tabane_store::{Error, Id, Repository};

use crate::files::Files;
use crate::snapshots::{Lister, Listing, Look};
use crate::trees::{Directory, Trees};
use crate::{Options, attributes};

/// Time for which the kernel may cache entries of snapshots, which never change.
const FOR_GOOD: Duration = Duration::from_secs(24 * 3600);

/// Time for which the kernel may cache directories above snapshots.
const FOR_A_MOMENT: Duration = Duration::from_secs(1);

/// Different errors that are reported.
const ERRORS_MAX: usize = 1000;

/// The length that `statfs` counts in, in bytes.
const STATFS_BLOCK_LEN: u32 = 4096;

const NAME_LEN_MAX: u32 = 255;

/// The file system.
pub struct Snapshots {
    repository: Repository,
    cache: Arc<SegmentCache>,
    lister: Lister,
    trees: Trees,
    files: Files,
    views: Mutex<Views>,
    owner_root: bool,
    stored_len: OnceLock<u64>,
    reported: Mutex<HashSet<String>>,
    report: Box<dyn Fn(&str) + Send + Sync>,
}

/// Inode numbers of the directories and links above the backed-up trees.
#[derive(Default)]
struct Views {
    numbers: HashMap<View, u64>,
    views: HashMap<u64, View>,
}

/// A directory, root or link above the backed-up trees. Paths have no slash at the beginning.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum View {
    /// A directory of this path.
    Directory(String),
    /// The root of a snapshot, in the directory of this path.
    Root(String, Id),
    /// A link in the directory of this path, with its target. A new target gets a new number, since
    /// the kernel caches the target of a number.
    Latest(String, String),
}

/// An entry of a directory, of a snapshot or above.
struct Found {
    attributes: FileAttr,
    /// For how long this holds.
    lasts: Duration,
}

/// Entries of a directory.
enum Contents {
    /// By name.
    View(Vec<(String, Found)>),
    Snapshot(Arc<Directory>),
}

impl Snapshots {
    /// Lists the snapshots for the first time.
    ///
    /// # Errors
    /// When the storage fails.
    pub fn new(
        repository: &Repository,
        cache: Arc<SegmentCache>,
        options: Options,
        report: Box<dyn Fn(&str) + Send + Sync>,
    ) -> tabane_store::Result<Self> {
        let lister = Lister::new(repository, options.filter, options.templates)?;
        let views = Views::default();
        let this = Self {
            repository: repository.clone(),
            trees: Trees::new(Arc::clone(&cache)),
            files: Files::new(Arc::clone(&cache)),
            cache,
            lister,
            views: Mutex::new(views),
            owner_root: options.owner_root,
            stored_len: OnceLock::new(),
            reported: Mutex::default(),
            report,
        };
        this.number(View::Directory(String::new()), || INodeNo::ROOT.0);
        this.tell_of_damaged(&this.look());
        Ok(this)
    }

    /// The slot for the kernel's notifier.
    pub fn notifier(&self) -> Arc<OnceLock<Notifier>> {
        self.files.notifier()
    }

    /// Reports an error; returns what the kernel is told.
    fn failed(&self, error: &Error) -> Errno {
        self.tell(&error.to_string());
        Errno::EIO
    }

    /// Reports what went wrong, once.
    fn tell(&self, text: &str) {
        let mut reported = self.reported.lock().expect("no panic under this lock");
        if reported.len() < ERRORS_MAX && reported.insert(text.to_owned()) {
            (self.report)(text);
        }
    }

    fn tell_of_damaged(&self, listing: &Listing) {
        listing.damaged().for_each(|error| self.tell(error));
    }

    fn look(&self) -> Arc<Listing> {
        let Look {
            listing,
            is_new,
            error,
        } = self.lister.look();
        if is_new {
            self.cache.outdate();
            self.tell_of_damaged(&listing);
        }
        if let Some(error) = error {
            self.failed(&error);
        }
        listing
    }

    fn view(&self, inode: u64) -> Option<View> {
        let views = self.views.lock().expect("no panic under this lock");
        views.views.get(&inode).cloned()
    }

    /// The inode number of a view; `make` makes a number for a new view.
    fn number(&self, view: View, make: impl FnOnce() -> u64) -> u64 {
        let mut views = self.views.lock().expect("no panic under this lock");
        if let Some(&number) = views.numbers.get(&view) {
            return number;
        }
        let number = make();
        views.numbers.insert(view.clone(), number);
        views.views.insert(number, view);
        number
    }

    /// An entry of the directory of views with this path.
    fn view_entry(&self, listing: &Listing, above: &str, name: &str, entry: &LayoutEntry) -> Found {
        let new_number = || self.trees.new_number();
        let join = || {
            if above.is_empty() {
                name.to_owned()
            } else {
                format!("{above}/{name}")
            }
        };
        let inode = match entry {
            LayoutEntry::Directory(_) => self.number(View::Directory(join()), new_number),
            LayoutEntry::Link(target) => {
                let link = View::Latest(above.to_owned(), target.clone());
                self.number(link, new_number)
            }
            LayoutEntry::Snapshot(id) => {
                let above_number = self.number(View::Directory(above.to_owned()), new_number);
                self.number(View::Root(above.to_owned(), *id), || {
                    let snapshot = listing.snapshot(id);
                    let content = snapshot.map(|snapshot| snapshot.root.clone());
                    self.trees
                        .add_root(content.unwrap_or_default(), above_number)
                })
            }
        };
        let attributes = match entry {
            LayoutEntry::Directory(_) => self.directory_attributes(listing, inode),
            LayoutEntry::Link(target) => attributes::of_view(
                inode,
                FileType::Symlink,
                target.len() as u64,
                SystemTime::UNIX_EPOCH,
            ),
            LayoutEntry::Snapshot(id) => self.root_attributes(listing, inode, id),
        };
        Found {
            attributes,
            lasts: FOR_A_MOMENT,
        }
    }

    /// The attributes of a directory above snapshots: it changes with the last of them.
    fn directory_attributes(&self, listing: &Listing, inode: u64) -> FileAttr {
        attributes::of_view(inode, FileType::Directory, 0, listing.latest())
    }

    fn root_attributes(&self, listing: &Listing, inode: u64, id: &Id) -> FileAttr {
        let time = listing
            .snapshot(id)
            .map_or(SystemTime::UNIX_EPOCH, |snapshot| snapshot.time.into());
        attributes::of_view(inode, FileType::Directory, 0, time)
    }

    fn found(&self, directory: &Directory, at: usize) -> Found {
        let entry = &directory.entries[at];
        let links = self.trees.links(directory, at);
        let mut attributes = attributes::of_entry(entry, directory.inode_of(at), links);
        if self.owner_root {
            (attributes.uid, attributes.gid) = (0, 0);
        }
        Found {
            attributes,
            lasts: FOR_GOOD,
        }
    }

    fn contents(&self, inode: u64) -> Result<Contents, Errno> {
        if let Some(View::Directory(path)) = self.view(inode) {
            let listing = self.look();
            let directory = listing.directory(&path).ok_or(Errno::ENOENT)?;
            let entries = directory.iter().map(|(name, entry)| {
                let found = self.view_entry(&listing, &path, name, entry);
                (name.clone(), found)
            });
            return Ok(Contents::View(entries.collect()));
        }
        match self.trees.directory(inode) {
            Ok(Some(directory)) => Ok(Contents::Snapshot(directory)),
            Ok(None) => Err(Errno::ENOTDIR),
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn find(&self, above: u64, name: &OsStr) -> Result<Found, Errno> {
        if let Some(View::Directory(path)) = self.view(above) {
            let listing = self.look();
            let name = name.to_str().ok_or(Errno::ENOENT)?;
            let directory = listing.directory(&path).ok_or(Errno::ENOENT)?;
            let entry = directory.get(name).ok_or(Errno::ENOENT)?;
            return Ok(self.view_entry(&listing, &path, name, entry));
        }
        match self.contents(above)? {
            Contents::Snapshot(directory) => {
                let at = directory.find(name.as_bytes()).ok_or(Errno::ENOENT)?;
                Ok(self.found(&directory, at))
            }
            Contents::View(_) => Err(Errno::ENOENT),
        }
    }

    /// The entry of a snapshot with this number.
    fn entry(&self, inode: u64) -> Result<(Arc<Directory>, usize), Errno> {
        match self.trees.entry(inode) {
            Ok(found) => found.ok_or(Errno::ENOENT),
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn attributes(&self, inode: u64) -> Result<Found, Errno> {
        let listing = match self.view(inode) {
            Some(_) => self.look(),
            None => {
                let (directory, at) = self.entry(inode)?;
                return Ok(self.found(&directory, at));
            }
        };
        let attributes = match self.view(inode) {
            Some(View::Directory(_)) | None => self.directory_attributes(&listing, inode),
            Some(View::Root(_, id)) => self.root_attributes(&listing, inode, &id),
            Some(View::Latest(_, target)) => {
                let len = target.len() as u64;
                attributes::of_view(inode, FileType::Symlink, len, SystemTime::UNIX_EPOCH)
            }
        };
        Ok(Found {
            attributes,
            lasts: FOR_A_MOMENT,
        })
    }

    fn link_target(&self, inode: u64) -> Result<Vec<u8>, Errno> {
        if let Some(View::Latest(_, target)) = self.view(inode) {
            return Ok(target.into_bytes());
        }
        let (directory, at) = self.entry(inode)?;
        match &directory.entries[at].kind {
            Kind::Symlink { target } => Ok(target.clone()),
            _ => Err(Errno::EINVAL),
        }
    }

    fn reader(&self, inode: u64) -> Result<Arc<tabane_store::file_reader::FileReader>, Errno> {
        if let Some(reader) = self.files.kept(inode) {
            return Ok(reader);
        }
        let (directory, at) = self.entry(inode)?;
        self.files.begin(inode, &directory, at).ok_or(Errno::EINVAL)
    }

    /// Does something with an entry's extended attributes; views have none.
    fn with_xattrs(
        &self,
        inode: u64,
        give: impl FnOnce(Option<&Entry>) -> Result<Vec<u8>, Errno>,
    ) -> Result<Vec<u8>, Errno> {
        match self.view(inode) {
            Some(_) => give(None),
            None => {
                let (directory, at) = self.entry(inode)?;
                give(Some(&directory.entries[at]))
            }
        }
    }

    /// Calls `add` with the entries of a directory from the one with number `offset` on, until it
    /// returns true: name, number of the next entry, attributes.
    fn each_entry(
        &self,
        inode: u64,
        offset: u64,
        mut add: impl FnMut(&OsStr, u64, &Found) -> bool,
    ) -> Result<(), Errno> {
        let contents = self.contents(inode)?;
        let above = match &contents {
            Contents::View(_) => self.above_view(inode),
            Contents::Snapshot(_) => self.trees.above(inode),
        };
        for (number, (name, inode)) in [(".", inode), ("..", above)].into_iter().enumerate() {
            let number = number as u64;
            let attributes =
                attributes::of_view(inode, FileType::Directory, 0, SystemTime::UNIX_EPOCH);
            let found = Found {
                attributes,
                lasts: Duration::ZERO,
            };
            if number >= offset && add(OsStr::new(name), number + 1, &found) {
                return Ok(());
            }
        }
        let skipped = offset.saturating_sub(2);
        let mut number = 2 + skipped;
        match contents {
            Contents::View(entries) => {
                for (name, found) in entries.iter().skip(skipped as usize) {
                    number += 1;
                    if add(OsStr::new(name), number, found) {
                        break;
                    }
                }
            }
            Contents::Snapshot(directory) => {
                for at in skipped as usize..directory.entries.len() {
                    number += 1;
                    let name = OsStr::from_bytes(&directory.entries[at].name);
                    if add(name, number, &self.found(&directory, at)) {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    fn above_view(&self, inode: u64) -> u64 {
        match self.view(inode) {
            Some(View::Directory(path)) => {
                let above = path.rsplit_once('/').map_or("", |(above, _)| above);
                let above = View::Directory(above.to_owned());
                self.number(above, || self.trees.new_number())
            }
            _ => INodeNo::ROOT.0,
        }
    }
}

/// Answers a question about extended attributes: how long the answer is, or the answer if there is
/// room for it.
fn reply_bytes(reply: ReplyXattr, room: u32, bytes: Result<Vec<u8>, Errno>) {
    match bytes {
        Err(error) => reply.error(error),
        Ok(bytes) if room == 0 => reply.size(bytes.len() as u32),
        Ok(bytes) if bytes.len() > room as usize => reply.error(Errno::ERANGE),
        Ok(bytes) => reply.data(&bytes),
    }
}

impl Filesystem for Snapshots {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Capabilities that an older kernel lacks are left out.
        for capability in [
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_CACHE_SYMLINKS,
        ] {
            let _ = config.add_capabilities(capability);
        }
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.find(parent.0, name) {
            Ok(found) => reply.entry(&found.lasts, &found.attributes, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn getattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        match self.attributes(inode.0) {
            Ok(found) => reply.attr(&found.lasts, &found.attributes),
            Err(error) => reply.error(error),
        }
    }

    fn readlink(&self, _request: &Request, inode: INodeNo, reply: ReplyData) {
        match self.link_target(inode.0) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _request: &Request, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        // Contents never change, so `open` is needless: the kernel stops asking, and may keep its
        // cache.
        reply.error(Errno::ENOSYS);
    }

    fn read(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        len: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let bytes = self.reader(inode.0).and_then(|reader| {
            let bytes = reader.read_at(offset, len as usize);
            bytes.map_err(|error| self.failed(&error))
        });
        match bytes {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn lseek(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        const SEEK_DATA: i32 = 3;
        const SEEK_HOLE: i32 = 4;
        let found = self.reader(inode.0).and_then(|reader| {
            let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
            let found = match whence {
                SEEK_DATA => reader.data_from(offset),
                SEEK_HOLE => reader.hole_from(offset),
                _ => return Err(Errno::EINVAL),
            };
            found.ok_or(Errno::ENXIO)
        });
        match found {
            Ok(offset) => reply.offset(offset as i64),
            Err(error) => reply.error(error),
        }
    }

    fn opendir(&self, _request: &Request, inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let flags = match self.view(inode.0) {
            Some(View::Directory(_)) => FopenFlags::empty(),
            _ => FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE,
        };
        reply.opened(FileHandle(0), flags);
    }

    fn readdir(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let added = self.each_entry(inode.0, offset, |name, next, found| {
            reply.add(found.attributes.ino, next, found.attributes.kind, name)
        });
        match added {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn readdirplus(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let added = self.each_entry(inode.0, offset, |name, next, found| {
            let attributes = &found.attributes;
            reply.add(
                attributes.ino,
                next,
                name,
                &found.lasts,
                attributes,
                Generation(0),
            )
        });
        match added {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn statfs(&self, _request: &Request, _inode: INodeNo, reply: ReplyStatfs) {
        // The size of the repository, with no free space.
        let stored_len = *self.stored_len.get_or_init(|| {
            let packs = self.repository.list(ObjectKind::Pack).unwrap_or_default();
            packs.iter().map(|(_, len)| len).sum()
        });
        let blocks = stored_len.div_ceil(u64::from(STATFS_BLOCK_LEN));
        reply.statfs(
            blocks,
            0,
            0,
            0,
            0,
            STATFS_BLOCK_LEN,
            NAME_LEN_MAX,
            STATFS_BLOCK_LEN,
        );
    }

    fn getxattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        name: &OsStr,
        room: u32,
        reply: ReplyXattr,
    ) {
        let value = self.with_xattrs(inode.0, |entry| {
            let mut xattrs = entry.into_iter().flat_map(|entry| &entry.xattrs);
            let found = xattrs.find(|xattr| xattr.name == name.as_bytes());
            found.map(|xattr| xattr.value.clone()).ok_or(Errno::ENODATA)
        });
        reply_bytes(reply, room, value);
    }

    fn listxattr(&self, _request: &Request, inode: INodeNo, room: u32, reply: ReplyXattr) {
        let names = self.with_xattrs(inode.0, |entry| {
            let xattrs = entry.into_iter().flat_map(|entry| &entry.xattrs);
            Ok(xattrs
                .flat_map(|xattr| xattr.name.iter().copied().chain([0]))
                .collect())
        });
        reply_bytes(reply, room, names);
    }
}
