//! Making files on disk what their [`Entry`]s say.
//!
//! Everything is created closed to others (0600, 0700) and gets its attributes with [`apply`] or
//! [`apply_at`] once its content is there: writing changes times and clears set-id bits and
//! capabilities, and so do entries being made in a directory.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags,
};
use rustix::io::Errno;

use crate::entry::{Entry, Kind, Time};
use crate::flags::{self, Flags};
use crate::read::{Known, xattrs, xattrs_at};

/// An attribute that can fail to be restored.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Attribute {
    /// Every attribute, since the file could not be opened.
    All,
    /// Owner and group.
    Owner,
    /// All extended attributes.
    Xattrs,
    /// One extended attribute, by name.
    Xattr(Vec<u8>),
    /// Permission, set-id and sticky bits.
    Mode,
    /// Times of last change and last access.
    Times,
    /// File flags.
    Flags,
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("attributes"),
            Self::Owner => f.write_str("owner"),
            Self::Xattrs => f.write_str("extended attributes"),
            Self::Xattr(name) => {
                let name = String::from_utf8_lossy(name);
                write!(f, "extended attribute {}", name.escape_debug())
            }
            Self::Mode => f.write_str("permissions"),
            Self::Times => f.write_str("times"),
            Self::Flags => f.write_str("file flags"),
        }
    }
}

/// An attribute that could not be restored, with the system's error.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {error}")]
pub struct AttributeError {
    /// The attribute that was not restored.
    pub what: Attribute,
    /// The system's error.
    #[source]
    pub error: io::Error,
}

/// Creates `name` in `dir` as the link, pipe, socket or device that `entry` is.
///
/// Whatever is not a link is only open to its owner until [`apply_at`]. An error for a regular
/// file and for a directory, which have their own functions.
pub fn create<C>(dir: BorrowedFd<'_>, name: &OsStr, entry: &Entry<C>) -> io::Result<()> {
    let mode = Mode::RUSR | Mode::WUSR;
    let (kind, device) = match &entry.kind {
        Kind::Symlink { target } => {
            return Ok(rustix::fs::symlinkat(target.as_slice(), dir, name)?);
        }
        Kind::Fifo => (FileType::Fifo, 0),
        Kind::Socket => (FileType::Socket, 0),
        Kind::CharDevice { major, minor } => (
            FileType::CharacterDevice,
            rustix::fs::makedev(*major, *minor),
        ),
        Kind::BlockDevice { major, minor } => {
            (FileType::BlockDevice, rustix::fs::makedev(*major, *minor))
        }
        Kind::File { .. } | Kind::Directory { .. } => {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "files and directories are not created this way",
            ));
        }
    };
    Ok(rustix::fs::mknodat(dir, name, kind, mode, device)?)
}

/// Creates a directory, which must not exist yet; open to its owner only.
pub fn create_directory(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    Ok(rustix::fs::mkdirat(dir, name, Mode::RWXU)?)
}

/// Gives the entry `name` of `dir` another name. A link is not followed but linked itself.
pub fn hard_link(
    dir: BorrowedFd<'_>,
    name: &OsStr,
    new_dir: BorrowedFd<'_>,
    new_name: &OsStr,
) -> io::Result<()> {
    Ok(rustix::fs::linkat(
        dir,
        name,
        new_dir,
        new_name,
        AtFlags::empty(),
    )?)
}

/// Gives an open file or directory the attributes of `entry`: owner, extended attributes with
/// ACLs, permissions, times.
///
/// Call it after the content is written, and for a directory after all of its entries are done.
/// Returns the attributes that fail; all others are restored nevertheless.
///
/// Extended attributes which the entry does not have are removed, among them the ACL that a new
/// file inherits from its directory; only those of security modules stay, since the system and
/// not the user sets them.
///
/// File flags are not set: a file that is immutable takes no further name. See [`apply_flags`].
/// An immutable or append-only file that is there already loses its flags.
///
/// Without the right to give files away, the owner silently stays the one who restores (a group
/// one is a member of is restored); then the set-id bits are left out, too, since they would
/// lend the rights of somebody else than intended.
pub fn apply<C>(fd: BorrowedFd<'_>, entry: &Entry<C>) -> Vec<AttributeError> {
    Applying::new(Handle::Open(fd)).run(entry)
}

/// What regular files are that were just made in some directory: their owner and group, and no
/// extended attributes. All files of one process in one directory are alike, until somebody changes
/// the directory.
#[derive(Clone, Copy, Debug)]
pub struct Fresh {
    known: Known,
}

impl Fresh {
    /// What a file is that was just made; `None` if it has extended attributes, or that cannot be
    /// told.
    pub fn of(fd: BorrowedFd<'_>) -> Option<Self> {
        let handle = Handle::Open(fd);
        let is_bare = handle.xattrs().is_ok_and(|xattrs| xattrs.is_empty());
        let known = handle.stat().ok().filter(|_| is_bare)?;
        Some(Self { known })
    }
}

/// As [`apply`], for a regular file that was just made and is like `fresh`, which saves looking.
pub fn apply_to_fresh<C>(
    fd: BorrowedFd<'_>,
    fresh: Fresh,
    entry: &Entry<C>,
) -> Vec<AttributeError> {
    let mut applying = Applying::new(Handle::Open(fd));
    applying.fresh = Some(fresh);
    applying.run(entry)
}

/// Like [`apply`], for what cannot be opened: links, pipes, sockets, devices. Also works for
/// directories and files that the user may not open. Needs `/proc`.
///
/// Does nothing but fail when `name` is not of the entry's kind. Links are not followed.
pub fn apply_at<C>(dir: BorrowedFd<'_>, name: &OsStr, entry: &Entry<C>) -> Vec<AttributeError> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let pinned = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
        Ok(pinned) => pinned,
        Err(error) => return vec![failed(Attribute::All, error)],
    };
    // The path leads to the open inode itself, even to a link: the kernel follows links within
    // /proc/self/fd, and none behind them.
    let path = match CString::new(format!("/proc/self/fd/{}", pinned.as_raw_fd())) {
        Ok(path) => path,
        Err(error) => return vec![failed(Attribute::All, error)],
    };
    Applying::new(Handle::Pinned {
        fd: pinned.as_fd(),
        path: &path,
        dir,
        name,
    })
    .run(entry)
}

/// Gives the file or directory `name` in `dir` the flags of `entry`, if it has any.
///
/// To be called last of all: afterwards an immutable file can neither be renamed nor linked, and
/// nothing can be made in an immutable directory.
pub fn apply_flags<C>(
    dir: BorrowedFd<'_>,
    name: &OsStr,
    entry: &Entry<C>,
) -> Option<AttributeError> {
    if entry.flags.is_empty() {
        return None;
    }
    let error = flags::set_at(dir, name, entry.flags).err()?;
    let error = match error.kind() {
        io::ErrorKind::PermissionDenied => io::Error::new(
            error.kind(),
            format!("{} needs root's right to set it: {error}", entry.flags),
        ),
        _ => error,
    };
    Some(failed(Attribute::Flags, error))
}

fn failed(what: Attribute, error: impl Into<io::Error>) -> AttributeError {
    let error = error.into();
    AttributeError { what, error }
}

/// The attribute that overlaps the mode's group bits, and has to be set after the mode.
const ACCESS_ACL: &[u8] = b"system.posix_acl_access";

/// The mode that gives the file's group the rights which the mode and the ACL give it together:
/// with an ACL, the group's bits of the mode are not the group's rights but a limit to them.
fn mode_without_acl(mode: u32, acl: &[u8]) -> u32 {
    // A version, and entries of tag and rights (two bytes each) and user or group (four), all
    // little-endian; see posix_acl_xattr.h of Linux.
    const GROUP_OBJ: u16 = 0x04;
    let group = acl
        .get(4..)
        .unwrap_or_default()
        .chunks_exact(8)
        .find(|entry| u16::from_le_bytes([entry[0], entry[1]]) == GROUP_OBJ)
        .map_or(0, |entry| u32::from(entry[2]) & 0o7);
    mode & !0o070 | mode & group << 3
}

/// Whether a superfluous attribute of this name is removed.
fn removable(name: &[u8]) -> bool {
    name.starts_with(b"user.")
        || name.starts_with(b"trusted.")
        || name.starts_with(b"system.posix_acl_")
        || name == b"security.capability"
}

fn file_type<C>(kind: &Kind<C>) -> FileType {
    match kind {
        Kind::File { .. } => FileType::RegularFile,
        Kind::Directory { .. } => FileType::Directory,
        Kind::Symlink { .. } => FileType::Symlink,
        Kind::CharDevice { .. } => FileType::CharacterDevice,
        Kind::BlockDevice { .. } => FileType::BlockDevice,
        Kind::Fifo => FileType::Fifo,
        Kind::Socket => FileType::Socket,
    }
}

/// The two ways to get hold of an inode without its name changing its meaning in between.
enum Handle<'a> {
    Open(BorrowedFd<'a>),
    Pinned {
        fd: BorrowedFd<'a>,
        path: &'a CString,
        dir: BorrowedFd<'a>,
        name: &'a OsStr,
    },
}

impl Handle<'_> {
    fn stat(&self) -> rustix::io::Result<Known> {
        match self {
            Self::Open(fd) | Self::Pinned { fd, .. } => {
                Known::at(*fd, OsStr::new(""), AtFlags::EMPTY_PATH)
            }
        }
    }

    fn set_flags(&self, flags: Flags) -> io::Result<()> {
        match self {
            Self::Open(fd) => flags::set(*fd, flags),
            Self::Pinned { fd, .. } => flags::set_pinned(*fd, flags),
        }
    }

    fn chown(&self, uid: Option<u32>, gid: Option<u32>) -> rustix::io::Result<()> {
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        match self {
            Self::Open(fd) => rustix::fs::fchown(fd, uid, gid),
            Self::Pinned { fd, .. } => rustix::fs::chownat(fd, c"", uid, gid, AtFlags::EMPTY_PATH),
        }
    }

    fn chmod(&self, mode: Mode) -> rustix::io::Result<()> {
        match self {
            Self::Open(fd) => rustix::fs::fchmod(fd, mode),
            Self::Pinned { path, .. } => {
                rustix::fs::chmodat(CWD, path.as_c_str(), mode, AtFlags::empty())
            }
        }
    }

    fn xattrs(&self) -> io::Result<BTreeMap<Vec<u8>, Vec<u8>>> {
        let found = match self {
            Self::Open(fd) => xattrs(*fd),
            Self::Pinned { dir, name, .. } => xattrs_at(*dir, name),
        };
        Ok(found?.into_iter().map(|x| (x.name, x.value)).collect())
    }

    fn set_xattr(&self, name: &[u8], value: &[u8]) -> rustix::io::Result<()> {
        match self {
            Self::Open(fd) => rustix::fs::fsetxattr(fd, name, value, XattrFlags::empty()),
            Self::Pinned { path, .. } => {
                rustix::fs::setxattr(path.as_c_str(), name, value, XattrFlags::empty())
            }
        }
    }

    fn remove_xattr(&self, name: &[u8]) -> rustix::io::Result<()> {
        match self {
            Self::Open(fd) => rustix::fs::fremovexattr(fd, name),
            Self::Pinned { path, .. } => rustix::fs::removexattr(path.as_c_str(), name),
        }
    }

    fn set_times(&self, times: &Timestamps) -> rustix::io::Result<()> {
        match self {
            Self::Open(fd) => rustix::fs::futimens(fd, times),
            Self::Pinned { fd, dir, name, .. } => {
                match rustix::fs::utimensat(fd, c"", times, AtFlags::EMPTY_PATH) {
                    // Before Linux 5.8.
                    Err(Errno::INVAL | Errno::BADF) => {
                        rustix::fs::utimensat(dir, *name, times, AtFlags::SYMLINK_NOFOLLOW)
                    }
                    other => other,
                }
            }
        }
    }
}

struct Applying<'a> {
    handle: Handle<'a>,
    /// What it is, if that is known.
    fresh: Option<Fresh>,
    errors: Vec<AttributeError>,
}

impl<'a> Applying<'a> {
    fn new(handle: Handle<'a>) -> Self {
        Self {
            handle,
            fresh: None,
            errors: Vec::new(),
        }
    }

    fn note(&mut self, what: Attribute, result: rustix::io::Result<()>) {
        if let Err(error) = result {
            self.errors.push(failed(what, error));
        }
    }

    /// The order matters:
    ///
    /// 1. Changing the owner clears set-id bits and capabilities, so it comes first.
    /// 2. Setting `user.*` needs the right to write, which the mode may take away; and an ACL
    ///    that does not belong here would take the group's bits of the mode for its mask.
    /// 3. Setting the mode with an access ACL in place would change that ACL's mask, so the ACL is
    ///    set after it. That makes the group's bits of the mode the ACL's mask, as they were.
    ///    Before that, or without support for ACLs, the group gets no more rights than the ACL
    ///    gives it.
    /// 4. Changing times is what everything else does.
    fn run<C>(mut self, entry: &Entry<C>) -> Vec<AttributeError> {
        let found = match self.fresh {
            Some(fresh) => Ok(fresh.known),
            None => self.handle.stat(),
        };
        let stat = match found {
            Ok(stat) => stat,
            Err(error) => return vec![failed(Attribute::All, error)],
        };
        if FileType::from_raw_mode(stat.mode) != file_type(&entry.kind) {
            let error = io::Error::other("it has been replaced by something else");
            return vec![failed(Attribute::All, error)];
        }
        // It would refuse everything else. A user without the right to do so hears of that then.
        if stat.flags.forbid_changes() {
            let _ = self.handle.set_flags(Flags::default());
        }
        let mode = self.owner(entry, &stat);
        let acl = self.xattrs(entry);
        if !matches!(entry.kind, Kind::Symlink { .. }) {
            let mode = acl.map_or(mode, |acl| mode_without_acl(mode, acl));
            let result = self.handle.chmod(Mode::from_raw_mode(mode));
            self.note(Attribute::Mode, result);
            if let Some(value) = acl {
                let result = self.handle.set_xattr(ACCESS_ACL, value);
                self.note(Attribute::Xattr(ACCESS_ACL.to_vec()), result);
            }
        }
        let times = Timestamps {
            last_access: entry.atime.map_or(
                Timespec {
                    tv_sec: 0,
                    tv_nsec: UTIME_OMIT,
                },
                timespec,
            ),
            last_modification: timespec(entry.mtime),
        };
        let result = self.handle.set_times(&times);
        self.note(Attribute::Times, result);
        self.errors
    }

    /// Restores owner and group as far as permitted, and returns the mode that suits the result.
    fn owner<C>(&mut self, entry: &Entry<C>, stat: &Known) -> u32 {
        let mut uid_is_right = stat.uid == entry.uid;
        let mut gid_is_right = stat.gid == entry.gid;
        if !(uid_is_right && gid_is_right) {
            match self.handle.chown(Some(entry.uid), Some(entry.gid)) {
                Ok(()) => (uid_is_right, gid_is_right) = (true, true),
                Err(Errno::PERM) if !rustix::process::geteuid().is_root() => {
                    let group = self.handle.chown(None, Some(entry.gid));
                    gid_is_right |= group.is_ok();
                }
                Err(error) => self.errors.push(failed(Attribute::Owner, error)),
            }
        }
        let directory = matches!(entry.kind, Kind::Directory { .. });
        let mut mode = entry.mode & 0o7777;
        if !uid_is_right {
            mode &= !0o4000;
        }
        // On a directory it only hands down the group.
        if !gid_is_right || !(uid_is_right || directory) {
            mode &= !0o2000;
        }
        mode
    }

    /// Makes the extended attributes those of the entry but for the access ACL, which is returned
    /// if it has to be set, and else is no longer there.
    fn xattrs<'n, C>(&mut self, entry: &'n Entry<C>) -> Option<&'n [u8]> {
        let found = match self.fresh {
            Some(_) => Ok(BTreeMap::new()),
            None => self.handle.xattrs(),
        };
        let present = match found {
            Ok(present) => present,
            Err(error) => {
                self.errors.push(failed(Attribute::Xattrs, error));
                BTreeMap::new()
            }
        };
        for name in present.keys() {
            if removable(name) && !entry.xattrs.iter().any(|xattr| xattr.name == *name) {
                match self.handle.remove_xattr(name) {
                    Err(Errno::NODATA) => {}
                    result => self.note(Attribute::Xattr(name.clone()), result),
                }
            }
        }
        let mut access = None;
        for xattr in &entry.xattrs {
            if xattr.name == ACCESS_ACL {
                access = Some(xattr.value.as_slice());
            } else if present.get(&xattr.name) != Some(&xattr.value) {
                let result = self.handle.set_xattr(&xattr.name, &xattr.value);
                self.note(Attribute::Xattr(xattr.name.clone()), result);
            }
        }
        access
    }
}

fn timespec(time: Time) -> Timespec {
    Timespec {
        tv_sec: time.s as _,
        // Larger numbers are commands.
        tv_nsec: time.ns.min(999_999_999) as _,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Xattr;
    use crate::read::stat;
    use std::fs::{self, File};
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::os::unix::process::CommandExt;
    use std::path::Path;
    use std::process::Command;

    /// Creates an empty regular file, which must not exist yet, for writing; open to its owner
    /// only.
    fn create_file(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        Ok(rustix::fs::openat(dir, name, flags, mode)?)
    }

    /// Whether the file system has no such attribute at all.
    fn is_unsupported(error: &AttributeError) -> bool {
        error.error.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error())
    }

    fn root() -> bool {
        let root = rustix::process::geteuid().is_root();
        if !root {
            eprintln!("NOT CHECKED: this needs root");
        }
        root
    }

    fn open(path: &Path) -> File {
        File::open(path).unwrap()
    }

    fn setfacl(args: &[&str], path: &Path) -> bool {
        match Command::new("setfacl").args(args).arg(path).status() {
            Ok(status) if status.success() => true,
            other => {
                eprintln!("NOT CHECKED: setfacl: {other:?}");
                false
            }
        }
    }

    fn getfacl(path: &Path) -> String {
        let output = Command::new("getfacl")
            .args(["--omit-header", "--numeric", "--absolute-names"])
            .arg(path)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// The whole entry of a file, as a backup would have it.
    fn read(path: &Path) -> Entry {
        let dir = open(path.parent().unwrap());
        let name = path.file_name().unwrap();
        let mut entry = stat(dir.as_fd(), name, true).unwrap().entry;
        entry.xattrs = xattrs_at(dir.as_fd(), name).unwrap();
        entry
    }

    /// What of an entry can be restored.
    fn restorable(mut entry: Entry) -> Entry {
        entry.name.clear();
        entry.ctime = Time::default();
        entry.inode = 0;
        entry
    }

    fn entry(kind: Kind) -> Entry {
        let time = |s, ns| Time { s, ns };
        Entry {
            name: b"name".to_vec(),
            mode: 0o640,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            mtime: time(1_234_567_890, 123_456_789),
            ctime: time(0, 0),
            atime: Some(time(987_654_321, 987_654_321)),
            inode: 0,
            hard_link: None,
            xattrs: Vec::new(),
            flags: Flags::default(),
            kind,
        }
    }

    fn file(size: u64) -> Kind {
        Kind::File { size, content: () }
    }

    fn xattr(name: &[u8], value: &[u8]) -> Xattr {
        Xattr {
            name: name.to_vec(),
            value: value.to_vec(),
        }
    }

    #[track_caller]
    fn fine(errors: Vec<AttributeError>) {
        assert!(errors.is_empty(), "{errors:?}");
    }

    #[test]
    fn a_file_with_everything() {
        if !root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("source");
        fs::write(&source, b"content").unwrap();
        std::os::unix::fs::chown(&source, Some(12345), Some(23456)).unwrap();
        if !setfacl(&["-m", "u:54321:rwx,g:65432:r,m::rx"], &source) {
            return;
        }
        // With set-id bits, and a mask (the group's bits) that is not what the group has.
        let mode = fs::metadata(&source).unwrap().mode();
        fs::set_permissions(&source, fs::Permissions::from_mode(mode | 0o7000)).unwrap();
        xattr::set(&source, "user.comment", b"\xff\0").unwrap();
        xattr::set(&source, "user.empty", b"").unwrap();
        xattr::set(&source, "trusted.secret", b"value").unwrap();
        // cap_net_raw+ep
        let capability = b"\x01\0\0\x02\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
        xattr::set(&source, "security.capability", capability).unwrap();
        let mut entry = read(&source);
        assert_eq!(entry.xattrs.len(), 5, "{:?}", entry.xattrs);
        assert_eq!(entry.mode, 0o7654);
        entry.mtime = Time { s: -5, ns: 1 };
        entry.atime = Some(Time {
            s: 1_700_000_000,
            ns: 999_999_999,
        });

        // A new file, and one which has other things.
        let handle = open(dir.path());
        let new = create_file(handle.as_fd(), OsStr::new("new")).unwrap();
        rustix::io::write(&new, b"content").unwrap();
        fine(apply(new.as_fd(), &entry));
        let old = dir.path().join("old");
        fs::write(&old, b"other c").unwrap();
        xattr::set(&old, "user.other", b"x").unwrap();
        xattr::set(&old, "user.comment", b"other").unwrap();
        assert!(setfacl(&["-m", "u:1:rwx,g:2:rwx"], &old));
        fine(apply(open(&old).as_fd(), &entry));
        for name in ["new", "old"] {
            let path = dir.path().join(name);
            assert_eq!(restorable(read(&path)), restorable(entry.clone()), "{name}");
            assert_eq!(getfacl(&path), getfacl(&source));
            // And once more, with nothing to do.
            fine(apply(open(&path).as_fd(), &entry));
            assert_eq!(restorable(read(&path)), restorable(entry.clone()), "{name}");
        }

        // And back to a plain one.
        let plain = self::entry(file(7));
        fine(apply(open(&old).as_fd(), &plain));
        assert_eq!(restorable(read(&old)), restorable(plain));
    }

    #[test]
    fn an_inherited_acl_does_not_stay() {
        let dir = tempfile::tempdir().unwrap();
        if !setfacl(&["-d", "-m", "u:54321:rwx,g:65432:rwx"], dir.path()) {
            return;
        }
        let handle = open(dir.path());
        let new = create_file(handle.as_fd(), OsStr::new("new")).unwrap();
        let entry = entry(file(0));
        assert!(!xattrs(new.as_fd()).unwrap().is_empty());
        fine(apply(new.as_fd(), &entry));
        let path = dir.path().join("new");
        assert_eq!(restorable(read(&path)), restorable(entry));
        assert_eq!(getfacl(&path), "user::rw-\ngroup::r--\nother::---\n\n");
    }

    #[test]
    fn without_acls_the_group_gets_no_more_than_with() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, b"").unwrap();
        if !setfacl(&["-m", "u:54321:rwx,g::r,m::rwx"], &path) {
            return;
        }
        let entry = read(&path);
        assert_eq!(entry.mode & 0o070, 0o070);
        assert_eq!(mode_without_acl(0o4674, &entry.xattrs[0].value), 0o4644);
        assert_eq!(mode_without_acl(0o4634, &entry.xattrs[0].value), 0o4604);
        assert_eq!(mode_without_acl(0o674, b"what"), 0o604);
    }

    #[test]
    fn a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("source");
        fs::create_dir(&source).unwrap();
        let both = ["-m", "u:54321:rx,d:u:54321:rwx,d:m::rx"];
        let acl = setfacl(&both, &source);
        let mode = fs::metadata(&source).unwrap().mode();
        fs::set_permissions(&source, fs::Permissions::from_mode(mode | 0o3000)).unwrap();
        let mut entry = read(&source);
        assert_eq!(entry.mode & 0o7000, 0o3000);
        assert_eq!(entry.xattrs.len(), if acl { 2 } else { 0 });
        entry.mtime = Time { s: 1, ns: 2 };
        let handle = open(dir.path());
        create_directory(handle.as_fd(), OsStr::new("new")).unwrap();
        let new = dir.path().join("new");
        assert_eq!(fs::metadata(&new).unwrap().mode() & 0o7777, 0o700);
        fine(apply(open(&new).as_fd(), &entry));
        assert_eq!(restorable(read(&new)), restorable(entry));
    }

    #[test]
    fn no_time_of_access() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, b"").unwrap();
        let mut entry = entry(file(0));
        fine(apply(open(&path).as_fd(), &entry));
        let before = read(&path).atime;
        entry.atime = None;
        entry.mtime = Time { s: 7, ns: 8 };
        fine(apply(open(&path).as_fd(), &entry));
        let after = read(&path);
        assert_eq!((after.atime, after.mtime), (before, entry.mtime));
    }

    #[test]
    fn links_pipes_and_devices() {
        let dir = tempfile::tempdir().unwrap();
        let handle = open(dir.path());
        let mut target = b"/nowhere/\xff".to_vec();
        target.extend_from_slice(&[b'x'; 3000]);
        let mut kinds = vec![Kind::Symlink { target }, Kind::Fifo, Kind::Socket];
        let is_root = root();
        if is_root {
            let device = Kind::CharDevice { major: 1, minor: 3 };
            let probe = OsStr::new("probe");
            let result = create(handle.as_fd(), probe, &entry(device.clone()));
            if let Err(error) = result {
                eprintln!("NOT CHECKED: devices cannot be made here: {error}");
            } else {
                let (major, minor) = (259, 70_000);
                kinds.push(device);
                kinds.push(Kind::BlockDevice { major, minor });
            }
        }
        for (number, kind) in kinds.into_iter().enumerate() {
            let link = matches!(kind, Kind::Symlink { .. });
            let mut entry = entry(kind);
            entry.mode = if link { 0o777 } else { 0o751 };
            if is_root {
                (entry.uid, entry.gid) = (12345, 23456);
                entry.xattrs.push(xattr(b"trusted.t", b"v"));
            }
            let name = format!("{number}\n\\");
            let name = OsStr::new(&name);
            create(handle.as_fd(), name, &entry).unwrap();
            fine(apply_at(handle.as_fd(), name, &entry));
            let path = dir.path().join(name);
            let found = restorable(read(&path));
            assert_eq!(found, restorable(entry.clone()));
            if is_root {
                entry.xattrs.clear();
                fine(apply_at(handle.as_fd(), name, &entry));
                assert_eq!(restorable(read(&path)), restorable(entry.clone()));
            }
            // Never over something that exists.
            let again = create(handle.as_fd(), name, &entry).unwrap_err();
            assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        }
    }

    #[test]
    fn attributes_of_a_link_do_not_reach_its_target() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, b"").unwrap();
        symlink("file", dir.path().join("link")).unwrap();
        let before = read(&path);
        let handle = open(dir.path());
        let link = Kind::Symlink {
            target: b"file".to_vec(),
        };
        fine(apply_at(handle.as_fd(), OsStr::new("link"), &entry(link)));
        // A link where a pipe was expected is not touched either.
        let errors = apply_at(handle.as_fd(), OsStr::new("link"), &entry(Kind::Fifo));
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].what, Attribute::All);
        assert_eq!(read(&path), before);
    }

    #[test]
    fn more_names() {
        let dir = tempfile::tempdir().unwrap();
        let handle = open(dir.path());
        let (one, two) = (OsStr::new("one"), OsStr::new("two"));
        create_file(handle.as_fd(), one).unwrap();
        hard_link(handle.as_fd(), one, handle.as_fd(), two).unwrap();
        assert_eq!(
            read(&dir.path().join("one")).hard_link,
            read(&dir.path().join("two")).hard_link
        );
        // Nothing that exists is opened, and no link followed.
        assert!(create_file(handle.as_fd(), two).is_err());
        symlink("three", dir.path().join("link")).unwrap();
        assert!(create_file(handle.as_fd(), OsStr::new("link")).is_err());
        assert!(!dir.path().join("three").exists());
    }

    #[test]
    fn one_failure_does_not_stop_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, b"").unwrap();
        let mut entry = entry(file(0));
        entry.xattrs.push(xattr(b"nonsense.x", b"v"));
        let errors = apply(open(&path).as_fd(), &entry);
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].what, Attribute::Xattr(b"nonsense.x".to_vec()));
        assert!(is_unsupported(&errors[0]));
        assert!(
            errors[0]
                .to_string()
                .starts_with("extended attribute nonsense.x: ")
        );
        entry.xattrs.clear();
        assert_eq!(restorable(read(&path)), restorable(entry));
    }

    const AS_NOBODY: &str = "TABANE_TEST_AS_NOBODY_IN";

    /// Runs itself again as a user without rights.
    #[test]
    fn without_rights() {
        const NOBODY: u32 = 65534;
        if let Some(dir) = std::env::var_os(AS_NOBODY) {
            return without_rights_in(Path::new(&dir));
        }
        if !root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        // Where it is built need not be open to everybody.
        let program = dir.path().join("test");
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        let name = std::thread::current().name().unwrap().to_owned();
        let output = Command::new(program)
            .args([&name, "--exact", "--nocapture"])
            .env(AS_NOBODY, dir.path())
            .current_dir(dir.path())
            .uid(NOBODY)
            .gid(NOBODY)
            .output();
        let output = match output {
            Ok(output) => output,
            Err(error) => {
                eprintln!("NOT CHECKED: cannot run as nobody: {error}");
                return;
            }
        };
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{output:?}");
        assert!(said.contains("1 passed"), "{said}");
    }

    fn without_rights_in(dir: &Path) {
        let handle = open(dir);
        let new = create_file(handle.as_fd(), OsStr::new("new")).unwrap();
        // Set-id bits of somebody else are not taken over; the rest is, with no error.
        let mut theirs = entry(file(0));
        (theirs.uid, theirs.gid, theirs.mode) = (0, 0, 0o7755);
        fine(apply(new.as_fd(), &theirs));
        assert_eq!(read(&dir.join("new")).mode, 0o1755);
        // One's own are, even where the mode then forbids to write.
        let mut own = entry(file(0));
        own.mode = 0o6555;
        own.xattrs.push(xattr(b"user.x", b"v"));
        let new = create_file(handle.as_fd(), OsStr::new("own")).unwrap();
        fine(apply(new.as_fd(), &own));
        assert_eq!(restorable(read(&dir.join("own"))), restorable(own.clone()));
        // The right group with the wrong owner is not enough but for a directory.
        own.uid = 0;
        fine(apply(new.as_fd(), &own));
        assert_eq!(read(&dir.join("own")).mode, 0o555);
        let mut directory = entry(Kind::Directory { content: () });
        (directory.uid, directory.mode) = (0, 0o2755);
        create_directory(handle.as_fd(), OsStr::new("dir")).unwrap();
        fine(apply(open(&dir.join("dir")).as_fd(), &directory));
        assert_eq!(read(&dir.join("dir")).mode, 0o2755);
        let mut link = entry(Kind::Symlink {
            target: b"x".to_vec(),
        });
        (link.uid, link.gid) = (0, 0);
        create(handle.as_fd(), OsStr::new("link"), &link).unwrap();
        fine(apply_at(handle.as_fd(), OsStr::new("link"), &link));
        assert_eq!(read(&dir.join("link")).mtime, link.mtime);
        // What needs rights says so.
        own.xattrs.push(xattr(b"trusted.x", b"v"));
        let errors = apply(new.as_fd(), &own);
        assert!(!errors.is_empty());
        assert!(!is_unsupported(&errors[0]));
    }
}
