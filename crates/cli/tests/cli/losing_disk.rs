//! A file system in memory that remembers each change, and can tell what a disk may hold after a
//! power cut: all that was synced, and of the rest anything.
//!
//! It promises less than most file systems do. Syncing a file keeps its bytes, and not its name;
//! syncing a folder keeps the names in it as they were then, and nothing below. Of what was not
//! synced any part may be kept, and later changes without earlier ones: a name without the bytes,
//! the end of a file without what comes before it, the length alone with zeros. Only a change of
//! one folder is never torn. Modes and times are not kept, and a sync never fails.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyStatfs, ReplyWrite,
    Request, Session, TimeOrNow, WriteFlags,
};
use rustix::process::{Pid, Signal, kill_process};
use tabane_testing::random::Random;

/// The kernel asks each time.
const TTL: Duration = Duration::ZERO;

/// The length that `statfs` counts in, in bytes.
const STATFS_BLOCK_LEN: u32 = 4096;

/// Free blocks of `statfs`: nothing is ever full.
const FREE_BLOCKS: u64 = 1 << 24;

const NAME_LEN_MAX: u32 = 255;

/// A mounted file system.
pub struct LosingDisk {
    state: Arc<Mutex<State>>,
    session: BackgroundSession,
}

/// What was done to a disk.
pub struct Recording(Arc<Mutex<State>>);

/// What was done to the disk, in order.
enum Change {
    /// Entries of one folder were set or removed, at once.
    Names(u64, Vec<(OsString, Option<u64>)>),
    /// A file got these bytes at this offset.
    Bytes(u64, u64, Vec<u8>),
    /// A file got this length.
    Length(u64, u64),
    /// All that was done to this file or folder before is kept.
    Synced(u64),
}

struct State {
    nodes: HashMap<u64, Node>,
    next: u64,
    changes: Vec<Change>,
    /// The process that syncs new names in this folder next is killed instead.
    deadly: Option<u64>,
}

struct Node {
    mode: u32,
    modified: SystemTime,
    content: Content,
}

#[derive(Clone)]
enum Content {
    File(Vec<u8>),
    Folder(BTreeMap<OsString, u64>),
}

/// What is left of a change.
enum Left {
    Nothing,
    /// Of bytes so many from the first on; the file is as long as with all, and has zeros where
    /// nothing was before.
    Part(u64),
    All,
}

/// What is kept of what was not synced.
#[derive(Clone, Copy, Debug)]
pub enum Kept {
    /// Nothing.
    Nothing,
    /// Each change by itself, as chance with this seed has it: all, nothing, or some of its bytes.
    Some(u64),
}

impl LosingDisk {
    /// Mounts an empty one on the folder `path`.
    pub fn mount(path: &Path) -> Self {
        let root = Node::new(0o755, Content::Folder(BTreeMap::new()));
        let state = Arc::new(Mutex::new(State {
            nodes: HashMap::from([(INodeNo::ROOT.0, root)]),
            next: INodeNo::ROOT.0 + 1,
            changes: Vec::new(),
            deadly: None,
        }));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("losing-disk".to_owned())];
        let session = Session::new(Served(Arc::clone(&state)), path, &config)
            .and_then(Session::spawn)
            .expect("it can be mounted");
        Self { state, session }
    }

    /// How many changes and syncs there were.
    pub fn changes(&self) -> usize {
        self.state.lock().expect("not poisoned").changes.len()
    }

    /// Kills the process that is the next one to sync the folder at this path of the disk when it
    /// has new names, before it has done so.
    pub fn kill_at_sync(&self, path: &Path) {
        let mut state = self.state.lock().expect("not poisoned");
        let mut names = path.iter();
        let node = names.try_fold(INodeNo::ROOT.0, |folder, name| state.find(folder, name));
        state.deadly = Some(node.expect("it is there"));
    }

    /// Unmounts it.
    pub fn unmount(self) -> Recording {
        self.session.umount_and_join().expect("nobody uses it");
        Recording(self.state)
    }
}

impl Recording {
    /// Writes to the new folder `target` what the disk may hold when power is cut after so many
    /// changes.
    pub fn after_cut(&self, changes: usize, kept: Kept, target: &Path) {
        let state = self.0.lock().expect("not poisoned");
        let mut random = match kept {
            Kept::Nothing => None,
            Kept::Some(seed) => Some(Random::new(seed)),
        };
        let mut lefts = Vec::with_capacity(changes);
        let mut synced = HashSet::new();
        for change in state.changes[..changes].iter().rev() {
            lefts.push(match change {
                Change::Synced(node) => {
                    synced.insert(*node);
                    Left::Nothing
                }
                Change::Names(node, _) | Change::Bytes(node, ..) | Change::Length(node, _)
                    if synced.contains(node) =>
                {
                    Left::All
                }
                Change::Bytes(.., bytes) => some_of(bytes.len() as u64, &mut random),
                Change::Names(..) | Change::Length(..) => some_of(0, &mut random),
            });
        }
        let mut held: HashMap<u64, Content> = HashMap::new();
        for (left, change) in lefts.iter().rev().zip(&state.changes) {
            match (left, change) {
                (Left::Nothing, _) => {}
                (Left::Part(count), Change::Bytes(node, at, bytes)) => {
                    let file = held.entry(*node).or_insert(Content::File(Vec::new()));
                    file.lengthen(*at + bytes.len() as u64);
                    file.write(*at, &bytes[..*count as usize]);
                }
                (_, Change::Names(node, names)) => {
                    let folder = held.entry(*node);
                    let Content::Folder(entries) =
                        folder.or_insert(Content::Folder(BTreeMap::new()))
                    else {
                        panic!("names in a file");
                    };
                    for (name, node) in names {
                        match node {
                            Some(node) => entries.insert(name.clone(), *node),
                            None => entries.remove(name),
                        };
                    }
                }
                (_, Change::Bytes(node, at, bytes)) => {
                    let file = held.entry(*node).or_insert(Content::File(Vec::new()));
                    file.write(*at, bytes);
                }
                (_, Change::Length(node, len)) => {
                    let file = held.entry(*node).or_insert(Content::File(Vec::new()));
                    file.resize(*len);
                }
                (_, Change::Synced(_)) => unreachable!("a sync is nothing that is kept"),
            }
        }
        state.copy_out(INodeNo::ROOT.0, &held, target);
    }
}

/// What chance leaves of a change of so many bytes; nothing without chance.
fn some_of(bytes: u64, random: &mut Option<Random>) -> Left {
    let Some(random) = random else {
        return Left::Nothing;
    };
    match random.below(4) {
        0 if bytes > 0 => Left::Part(random.below(bytes)),
        0 | 1 => Left::All,
        _ => Left::Nothing,
    }
}

impl State {
    /// Writes a folder, with what these files and folders hold.
    fn copy_out(&self, folder: u64, held: &HashMap<u64, Content>, target: &Path) {
        fs::create_dir(target).expect("a new folder");
        let Some(Content::Folder(entries)) = held.get(&folder) else {
            return;
        };
        for (name, node) in entries {
            let target = target.join(name);
            match &self.nodes[node].content {
                Content::Folder(_) => self.copy_out(*node, held, &target),
                Content::File(_) => {
                    let file = fs::File::create_new(&target).expect("a new file");
                    if let Some(Content::File(bytes)) = held.get(node) {
                        file.write_all_at(bytes, 0).expect("written");
                    }
                }
            }
        }
    }

    fn add(&mut self, mode: u32, content: Content) -> u64 {
        let node = self.next;
        self.next += 1;
        self.nodes.insert(node, Node::new(mode, content));
        node
    }

    /// Sets and removes entries of a folder.
    fn rename(&mut self, folder: u64, names: Vec<(OsString, Option<u64>)>) {
        let node = self.nodes.get_mut(&folder).expect("a known folder");
        let Content::Folder(entries) = &mut node.content else {
            panic!("names in a file");
        };
        for (name, node) in &names {
            match node {
                Some(node) => entries.insert(name.clone(), *node),
                None => entries.remove(name),
            };
        }
        node.modified = SystemTime::now();
        self.changes.push(Change::Names(folder, names));
    }

    fn find(&self, folder: u64, name: &OsStr) -> Option<u64> {
        match &self.nodes.get(&folder)?.content {
            Content::Folder(entries) => entries.get(name).copied(),
            Content::File(_) => None,
        }
    }

    fn attributes(&self, node: u64) -> FileAttr {
        let Node {
            mode,
            modified,
            content,
        } = &self.nodes[&node];
        let size = match content {
            Content::File(bytes) => bytes.len() as u64,
            Content::Folder(_) => 0,
        };
        FileAttr {
            ino: INodeNo(node),
            size,
            blocks: size.div_ceil(512),
            atime: *modified,
            mtime: *modified,
            ctime: *modified,
            crtime: *modified,
            kind: content.kind(),
            perm: (*mode & 0o7777) as u16,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: STATFS_BLOCK_LEN,
            flags: 0,
        }
    }
}

impl Node {
    fn new(mode: u32, content: Content) -> Self {
        Self {
            mode,
            modified: SystemTime::now(),
            content,
        }
    }
}

impl Content {
    fn kind(&self) -> FileType {
        match self {
            Content::File(_) => FileType::RegularFile,
            Content::Folder(_) => FileType::Directory,
        }
    }

    fn file(&mut self) -> &mut Vec<u8> {
        match self {
            Content::File(bytes) => bytes,
            Content::Folder(_) => panic!("bytes in a folder"),
        }
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        let end = at + bytes.len() as u64;
        self.lengthen(end);
        self.file()[at as usize..end as usize].copy_from_slice(bytes);
    }

    fn lengthen(&mut self, len: u64) {
        let file = self.file();
        file.resize(file.len().max(len as usize), 0);
    }

    fn resize(&mut self, len: u64) {
        self.file().resize(len as usize, 0);
    }
}

/// Answers the kernel.
struct Served(Arc<Mutex<State>>);

impl Served {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().expect("not poisoned")
    }

    fn make(
        &self,
        folder: INodeNo,
        name: &OsStr,
        mode: u32,
        content: Content,
    ) -> Result<FileAttr, Errno> {
        let mut state = self.state();
        if state.find(folder.0, name).is_some() {
            return Err(Errno::EEXIST);
        }
        let node = state.add(mode, content);
        state.rename(folder.0, vec![(name.to_owned(), Some(node))]);
        Ok(state.attributes(node))
    }

    fn remove(&self, folder: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut state = self.state();
        let Some(node) = state.find(folder.0, name) else {
            return reply.error(Errno::ENOENT);
        };
        if let Content::Folder(entries) = &state.nodes[&node].content
            && !entries.is_empty()
        {
            return reply.error(Errno::ENOTEMPTY);
        }
        state.rename(folder.0, vec![(name.to_owned(), None)]);
        reply.ok();
    }

    fn sync(&self, request: &Request, node: INodeNo, reply: ReplyEmpty) {
        let mut state = self.state();
        let last = state.changes.iter().rev().find_map(|change| match change {
            Change::Names(of, _) if *of == node.0 => Some(true),
            Change::Synced(of) if *of == node.0 => Some(false),
            _ => None,
        });
        if last == Some(true) && state.deadly.take_if(|deadly| *deadly == node.0).is_some() {
            let process = Pid::from_raw(request.pid() as i32).expect("a process");
            kill_process(process, Signal::KILL).expect("it can be killed");
        } else {
            state.changes.push(Change::Synced(node.0));
        }
        reply.ok();
    }
}

impl Filesystem for Served {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let state = self.state();
        match state.find(parent.0, name) {
            Some(node) => reply.entry(&TTL, &state.attributes(node), Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &self.state().attributes(node.0));
    }

    fn setattr(
        &self,
        _: &Request,
        node: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut state = self.state();
        let changed = state.nodes.get_mut(&node.0).expect("a known node");
        changed.mode = mode.unwrap_or(changed.mode);
        if let Some(len) = size {
            changed.content.resize(len);
            state.changes.push(Change::Length(node.0, len));
        }
        reply.attr(&TTL, &state.attributes(node.0));
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        match self.make(parent, name, mode, Content::Folder(BTreeMap::new())) {
            Ok(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.remove(parent, name, reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.remove(parent, name, reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mut state = self.state();
        let Some(node) = state.find(parent.0, name) else {
            return reply.error(Errno::ENOENT);
        };
        let is_taken = state.find(new_parent.0, new_name).is_some();
        if is_taken && flags.contains(RenameFlags::RENAME_NOREPLACE) {
            return reply.error(Errno::EEXIST);
        }
        let (old, new) = ((name.to_owned(), None), (new_name.to_owned(), Some(node)));
        if parent == new_parent {
            state.rename(parent.0, vec![old, new]);
        } else {
            state.rename(new_parent.0, vec![new]);
            state.rename(parent.0, vec![old]);
        }
        reply.ok();
    }

    fn link(
        &self,
        _: &Request,
        node: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        let mut state = self.state();
        if state.find(new_parent.0, new_name).is_some() {
            return reply.error(Errno::EEXIST);
        }
        state.rename(new_parent.0, vec![(new_name.to_owned(), Some(node.0))]);
        reply.entry(&TTL, &state.attributes(node.0), Generation(0));
    }

    fn read(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut state = self.state();
        let node = state.nodes.get_mut(&node.0).expect("a known node");
        let bytes = node.content.file();
        let begin = bytes.len().min(offset as usize);
        let end = bytes.len().min(begin + size as usize);
        reply.data(&bytes[begin..end]);
    }

    fn write(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut state = self.state();
        let written = state.nodes.get_mut(&node.0).expect("a known node");
        written.content.write(offset, data);
        written.modified = SystemTime::now();
        let change = Change::Bytes(node.0, offset, data.to_vec());
        state.changes.push(change);
        reply.written(data.len() as u32);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, request: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.sync(request, node, reply);
    }

    fn fsyncdir(
        &self,
        request: &Request,
        node: INodeNo,
        _: FileHandle,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.sync(request, node, reply);
    }

    fn readdir(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let state = self.state();
        let Content::Folder(entries) = &state.nodes[&node.0].content else {
            return reply.error(Errno::ENOTDIR);
        };
        for (at, (name, node)) in entries.iter().enumerate().skip(offset as usize) {
            let kind = state.nodes[node].content.kind();
            if reply.add(INodeNo(*node), at as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(
            FREE_BLOCKS,
            FREE_BLOCKS,
            FREE_BLOCKS,
            0,
            FREE_BLOCKS,
            STATFS_BLOCK_LEN,
            NAME_LEN_MAX,
            STATFS_BLOCK_LEN,
        );
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let (opened, flags) = (FileHandle(0), FopenFlags::empty());
        match self.make(parent, name, mode, Content::File(Vec::new())) {
            Ok(attributes) => reply.created(&TTL, &attributes, Generation(0), opened, flags),
            Err(error) => reply.error(error),
        }
    }
}
