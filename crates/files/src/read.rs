//! Reading what the kernel knows of a file: its attributes, extended attributes and holes.
//!
//! Everything is done relative to an open directory and without following links, so that a path
//! being changed while it is read can never lead out of the tree.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, SeekFrom, Stat, Statx, StatxFlags};
use rustix::io::Errno;

use crate::entry::{Entry, HardLink, Kind, Time, Xattr};
use crate::flags::Flags;

/// An entry as found on disk, with further data of its inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found<C = ()> {
    /// The entry, without content and without extended attributes.
    pub entry: Entry<C>,
    /// Device of the file system it is on (`st_dev`).
    pub device: u64,
    /// Bytes allocated on disk; less than the size when the file has holes.
    pub allocated: u64,
}

/// Reads the attributes of `name` in `dir`, not following it if it is a link.
///
/// The target of a symbolic link is read too, whatever its length.
pub fn stat<C: Default>(
    dir: BorrowedFd<'_>,
    name: &OsStr,
    with_atime: bool,
) -> io::Result<Found<C>> {
    // Between the two calls a link can become something else; then look again.
    let mut attempts = 3;
    loop {
        let known = Known::at(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let mut found = known.found(name, with_atime)?;
        if let Kind::Symlink { target } = &mut found.entry.kind {
            match rustix::fs::readlinkat(dir, name, Vec::new()) {
                Ok(text) => *target = text.into_bytes(),
                Err(Errno::INVAL) if attempts > 0 => {
                    attempts -= 1;
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
        }
        return Ok(found);
    }
}

/// Reads the attributes of what is open, which the [`Found`] calls `name`.
///
/// The content and the extended attributes are empty, and so is the target of a symbolic link.
/// `hard_link` is set when the file has more than one name and is no directory.
pub fn stat_open<C: Default>(
    fd: BorrowedFd<'_>,
    name: &OsStr,
    with_atime: bool,
) -> io::Result<Found<C>> {
    Known::at(fd, OsStr::new(""), AtFlags::EMPTY_PATH)?.found(name, with_atime)
}

/// What the kernel says of a file in one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) flags: Flags,
    links: u64,
    size: u64,
    blocks: u64,
    device: u64,
    inode: u64,
    major: u32,
    minor: u32,
    accessed: Time,
    modified: Time,
    changed: Time,
}

impl Known {
    /// Asks the kernel. Linux before 4.11 does not know flags this way: there no file has any.
    pub(crate) fn at(dir: BorrowedFd<'_>, name: &OsStr, at: AtFlags) -> rustix::io::Result<Self> {
        match rustix::fs::statx(dir, name, at, StatxFlags::BASIC_STATS) {
            Ok(stat) => Ok(Self::from(&stat)),
            Err(Errno::NOSYS) => Ok(Self::from(&rustix::fs::statat(dir, name, at)?)),
            Err(error) => Err(error),
        }
    }

    fn found<C: Default>(&self, name: &OsStr, with_atime: bool) -> io::Result<Found<C>> {
        let (major, minor) = (self.major, self.minor);
        let (kind, flags) = match FileType::from_raw_mode(self.mode) {
            FileType::RegularFile => (
                Kind::File {
                    size: self.size,
                    content: C::default(),
                },
                self.flags,
            ),
            FileType::Directory => (
                Kind::Directory {
                    content: C::default(),
                },
                self.flags,
            ),
            FileType::Symlink => (Kind::Symlink { target: Vec::new() }, Flags::default()),
            FileType::CharacterDevice => (Kind::CharDevice { major, minor }, Flags::default()),
            FileType::BlockDevice => (Kind::BlockDevice { major, minor }, Flags::default()),
            FileType::Fifo => (Kind::Fifo, Flags::default()),
            FileType::Socket => (Kind::Socket, Flags::default()),
            _ => {
                return Err(io::Error::new(
                    io::ErrorKind::Unsupported,
                    format!("unknown type of file (mode {:#o})", self.mode),
                ));
            }
        };
        let directory = matches!(kind, Kind::Directory { .. });
        Ok(Found {
            entry: Entry {
                name: name.as_bytes().to_vec(),
                mode: self.mode & 0o7777,
                uid: self.uid,
                gid: self.gid,
                mtime: self.modified,
                ctime: self.changed,
                atime: with_atime.then_some(self.accessed),
                inode: self.inode,
                hard_link: (self.links > 1 && !directory).then_some(HardLink {
                    device: self.device,
                    inode: self.inode,
                }),
                xattrs: Vec::new(),
                flags,
                kind,
            },
            device: self.device,
            // Always in units of 512 bytes, whatever the file system's block size.
            allocated: self.blocks.saturating_mul(512),
        })
    }
}

impl From<&Statx> for Known {
    fn from(stat: &Statx) -> Self {
        let time = |stamp: &rustix::fs::StatxTimestamp| time(stamp.tv_sec, stamp.tv_nsec);
        Self {
            mode: stat.stx_mode.into(),
            uid: stat.stx_uid,
            gid: stat.stx_gid,
            // The bits of the flags are the same there.
            flags: Flags::of(stat.stx_attributes.bits()),
            links: stat.stx_nlink.into(),
            size: stat.stx_size,
            blocks: stat.stx_blocks,
            device: rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
            major: stat.stx_rdev_major,
            minor: stat.stx_rdev_minor,
            accessed: time(&stat.stx_atime),
            modified: time(&stat.stx_mtime),
            changed: time(&stat.stx_ctime),
        }
    }
}

impl From<&Stat> for Known {
    fn from(stat: &Stat) -> Self {
        Self {
            mode: stat.st_mode,
            uid: stat.st_uid,
            gid: stat.st_gid,
            flags: Flags::default(),
            links: stat.st_nlink as _,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            blocks: u64::try_from(stat.st_blocks).unwrap_or(0),
            device: stat.st_dev,
            inode: stat.st_ino,
            major: rustix::fs::major(stat.st_rdev),
            minor: rustix::fs::minor(stat.st_rdev),
            accessed: time(stat.st_atime as _, stat.st_atime_nsec as _),
            modified: time(stat.st_mtime as _, stat.st_mtime_nsec as _),
            changed: time(stat.st_ctime as _, stat.st_ctime_nsec as _),
        }
    }
}

fn time(s: i64, ns: u32) -> Time {
    Time { s, ns }
}

/// Opens a regular file for reading, without changing its time of last access where allowed.
///
/// A link put in its place meanwhile is not followed, and a pipe does not block; but the opened
/// file may be a pipe or a device, so check with `fstat` before reading.
pub fn open_file(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let (file, noatime) = match open_quietly(dir, name, flags) {
        // Another process holds a lease (as file servers do): waiting for it needs a blocking
        // open, which is only safe on an inode already known to be a regular file.
        Err(Errno::AGAIN) => return Ok(open_leased(dir, name)?),
        other => other?,
    };
    // The flag has served; some ways of reading would answer "try again" because of it.
    rustix::fs::fcntl_setfl(&file, noatime)?;
    Ok(file)
}

fn open_leased(dir: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let pinned = rustix::fs::openat(dir, name, flags, Mode::empty())?;
    if FileType::from_raw_mode(rustix::fs::fstat(&pinned)?.st_mode) != FileType::RegularFile {
        return Err(Errno::AGAIN);
    }
    let path = format!("/proc/self/fd/{}", pinned.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(open_quietly(rustix::fs::CWD, OsStr::new(&path), flags)?.0)
}

/// Opens a directory for listing, without changing its time of last access where allowed, and
/// only if it still is a directory and no link to one.
pub fn open_directory(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(open_quietly(dir, name, flags)?.0)
}

/// Opens a directory that leads to others and need not be listed: its owner may let others pass and
/// not look.
///
/// # Errors
/// When it is not there, or no directory.
pub fn open_passage(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir, name, flags, Mode::empty())?)
}

/// The names in a directory, sorted.
///
/// # Errors
/// When it cannot be read.
pub fn list(fd: &OwnedFd) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(fd)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Opens with `O_NOATIME`, which only the owner and root may, or else without.
fn open_quietly(
    dir: BorrowedFd<'_>,
    name: &OsStr,
    flags: OFlags,
) -> rustix::io::Result<(OwnedFd, OFlags)> {
    match rustix::fs::openat(dir, name, flags | OFlags::NOATIME, Mode::empty()) {
        Ok(file) => Ok((file, OFlags::NOATIME)),
        Err(Errno::PERM) => {
            let file = rustix::fs::openat(dir, name, flags, Mode::empty())?;
            Ok((file, OFlags::empty()))
        }
        Err(error) => Err(error),
    }
}

/// Reads the extended attributes of an open file or directory, sorted by name.
///
/// POSIX ACLs (`system.posix_acl_*`), capabilities and SELinux labels (`security.*`), and for
/// root `trusted.*`, are among them. A file system without extended attributes has none.
///
/// Like restic and Borg, and unlike GNU tar, this keeps `security.selinux`: it is what a restore
/// onto the same host needs, and restoring leaves it alone where it already is what it was. Left
/// out is what could never be right again elsewhere: `security.evm`, which signs the inode number
/// with a key of that host, and `system.sockprotoname`, which the kernel makes up.
pub fn xattrs(fd: BorrowedFd<'_>) -> io::Result<Vec<Xattr>> {
    Target::Fd(fd).read_all()
}

/// Reads the extended attributes of what cannot be opened: links, devices, pipes, sockets.
///
/// Like [`xattrs`]; a link is not followed. Needs `/proc`.
pub fn xattrs_at(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<Vec<Xattr>> {
    let mut path = format!("/proc/self/fd/{}/", dir.as_raw_fd()).into_bytes();
    path.extend_from_slice(name.as_bytes());
    let path = CString::new(path)?;
    match Target::Path(path).read_all() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // Is it the file that is missing, or /proc?
            rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
            Err(io::Error::other(
                "cannot read extended attributes: /proc is not mounted",
            ))
        }
        other => other,
    }
}

/// Whether an extended attribute belongs into a backup.
fn wanted(name: &[u8]) -> bool {
    !matches!(name, b"security.evm" | b"system.sockprotoname")
}

enum Target<'a> {
    Fd(BorrowedFd<'a>),
    Path(CString),
}

impl Target<'_> {
    fn read_all(&self) -> io::Result<Vec<Xattr>> {
        let mut buffer = [0; 512];
        let grown;
        let names: &[u8] = match self.list(&mut buffer) {
            Ok(0) => return Ok(Vec::new()),
            Ok(len) => &buffer[..len],
            Err(Errno::RANGE) => {
                grown = grow(buffer.len(), |buffer| self.list(buffer))?;
                &grown
            }
            Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut xattrs = Vec::new();
        for name in names.split(|&byte| byte == 0) {
            if name.is_empty() || !wanted(name) {
                continue;
            }
            match grow(0, |buffer| self.get(name, buffer)) {
                Ok(value) => xattrs.push(Xattr {
                    name: name.to_vec(),
                    value,
                }),
                // Removed since it was listed, or listed by a file system that does not have it.
                Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
                Err(error) => {
                    let error = io::Error::from(error);
                    let name = String::from_utf8_lossy(name);
                    return Err(io::Error::new(
                        error.kind(),
                        format!("extended attribute {name}: {error}"),
                    ));
                }
            }
        }
        xattrs.sort_unstable();
        xattrs.dedup_by(|a, b| a.name == b.name);
        Ok(xattrs)
    }

    fn list(&self, buffer: &mut [u8]) -> rustix::io::Result<usize> {
        match self {
            Self::Fd(fd) => rustix::fs::flistxattr(fd, buffer),
            Self::Path(path) => rustix::fs::llistxattr(path, buffer),
        }
    }

    fn get(&self, name: &[u8], buffer: &mut [u8]) -> rustix::io::Result<usize> {
        match self {
            Self::Fd(fd) => rustix::fs::fgetxattr(fd, name, buffer),
            Self::Path(path) => rustix::fs::lgetxattr(path, name, buffer),
        }
    }
}

/// Reads with a buffer that doubles until the data fits.
fn grow(
    at_least: usize,
    mut read: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>,
) -> rustix::io::Result<Vec<u8>> {
    // The kernel limits lists and values to 64 KiB.
    const XATTR_LEN_MAX: usize = 1 << 20;
    let mut buffer = vec![0; (2 * at_least).max(256)];
    loop {
        match read(&mut buffer) {
            Ok(len) => {
                buffer.truncate(len);
                return Ok(buffer);
            }
            Err(Errno::RANGE) if buffer.len() < XATTR_LEN_MAX => buffer.resize(4 * buffer.len(), 0),
            Err(error) => return Err(error),
        }
    }
}

/// The ranges of an open file of `size` bytes that hold data: in order, not touching one another,
/// within the size. The bytes between them read as zeros.
///
/// The kernel is asked only if fewer bytes are allocated than the size; else, or if the file
/// system cannot tell, all of it is data. Moves the file's position.
pub fn data_extents(fd: BorrowedFd<'_>, size: u64, allocated: u64) -> io::Result<Vec<Range<u64>>> {
    let mut extents: Vec<Range<u64>> = Vec::new();
    if size == 0 {
        return Ok(extents);
    }
    if allocated >= size {
        extents.push(0..size);
        return Ok(extents);
    }
    let mut position = 0;
    while position < size {
        let start = match rustix::fs::seek(fd, SeekFrom::Data(position)) {
            Ok(start) => start.max(position),
            // Only a hole from here on, or the file became shorter.
            Err(Errno::NXIO) => break,
            // This file system does not know about holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY) => position,
            Err(error) => return Err(error.into()),
        };
        if start >= size {
            break;
        }
        let end = match rustix::fs::seek(fd, SeekFrom::Hole(start)) {
            // A hole where there was data just now: the file is being changed.
            Ok(end) if end <= start => size,
            Ok(end) => end.min(size),
            Err(Errno::NXIO | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY) => {
                size
            }
            Err(error) => return Err(error.into()),
        };
        match extents.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => extents.push(start..end),
        }
        position = end;
    }
    Ok(extents)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::fd::AsFd;
    use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;
    use std::path::Path;
    use std::process::Command;

    fn open(path: &Path) -> File {
        File::open(path).unwrap()
    }

    fn root() -> bool {
        let root = rustix::process::geteuid().is_root();
        if !root {
            eprintln!("NOT CHECKED: this needs root");
        }
        root
    }

    fn run(program: &str, args: &[&str], path: &Path) -> bool {
        match Command::new(program).args(args).arg(path).status() {
            Ok(status) => {
                assert!(status.success(), "{program} failed");
                true
            }
            Err(error) => {
                eprintln!("NOT CHECKED: cannot run {program}: {error}");
                false
            }
        }
    }

    #[test]
    fn attributes_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, b"hello").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4751)).unwrap();
        let handle = open(dir.path());
        let found: Found = stat(handle.as_fd(), OsStr::new("file"), false).unwrap();
        let meta = fs::metadata(&path).unwrap();
        let entry = &found.entry;
        assert_eq!(entry.name, b"file");
        assert_eq!(entry.mode, 0o4751);
        assert_eq!((entry.uid, entry.gid), (meta.uid(), meta.gid()));
        assert_eq!(
            (entry.mtime.s, entry.mtime.ns.into()),
            (meta.mtime(), meta.mtime_nsec())
        );
        assert_eq!(
            (entry.ctime.s, entry.ctime.ns.into()),
            (meta.ctime(), meta.ctime_nsec())
        );
        assert_eq!(entry.atime, None);
        assert_eq!(entry.inode, meta.ino());
        assert_eq!(entry.hard_link, None);
        assert_eq!(entry.size(), 5);
        assert_eq!(found.device, meta.dev());
        assert_eq!(found.allocated, meta.blocks() * 512);

        fs::hard_link(&path, dir.path().join("other")).unwrap();
        let again: Found = stat(handle.as_fd(), OsStr::new("other"), true).unwrap();
        let link = HardLink {
            device: meta.dev(),
            inode: meta.ino(),
        };
        assert_eq!(again.entry.hard_link, Some(link));
        assert_eq!(again.entry.atime.unwrap().s, meta.atime());

        // An open file gives the same entry.
        let file = open_file(handle.as_fd(), OsStr::new("other")).unwrap();
        let open: Found = stat_open(file.as_fd(), OsStr::new("other"), true).unwrap();
        assert_eq!(open, again);
    }

    #[test]
    fn kinds_and_odd_names() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &[u8]| dir.path().join(OsStr::from_bytes(name));
        let odd: &[u8] = b"\xff\n \x01-\\ \xc3\xa9";
        fs::create_dir(at(odd)).unwrap();
        let long = "x/".repeat(2000);
        symlink(&long, at(b"link")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at(b"fifo"), Mode::RUSR).unwrap();
        let _listener = UnixListener::bind(at(b"socket")).unwrap();
        let handle = open(dir.path());
        let kind = |name: &[u8]| {
            let found: Found = stat(handle.as_fd(), OsStr::from_bytes(name), false).unwrap();
            assert_eq!(found.entry.name, name);
            found.entry.kind
        };
        assert_eq!(kind(odd), Kind::Directory { content: () });
        assert_eq!(
            kind(b"link"),
            Kind::Symlink {
                target: long.into_bytes()
            }
        );
        assert_eq!(kind(b"fifo"), Kind::Fifo);
        assert_eq!(kind(b"socket"), Kind::Socket);
        let null = open(Path::new("/dev"));
        let null: Found = stat(null.as_fd(), OsStr::new("null"), false).unwrap();
        assert_eq!(null.entry.kind, Kind::CharDevice { major: 1, minor: 3 });
        // A directory has several links, but not other names.
        fs::create_dir(at(odd).join("sub")).unwrap();
        let found: Found = stat(handle.as_fd(), OsStr::from_bytes(odd), false).unwrap();
        assert_eq!(found.entry.hard_link, None);
        let missing = stat::<()>(handle.as_fd(), OsStr::new("missing"), false);
        assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn opening_does_not_follow_nor_block() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), b"x").unwrap();
        fs::create_dir(at("dir")).unwrap();
        symlink("file", at("to-file")).unwrap();
        symlink("dir", at("to-dir")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo"), Mode::RUSR).unwrap();
        let handle = open(dir.path());
        let handle = handle.as_fd();
        let file = open_file(handle, OsStr::new("file")).unwrap();
        let flags = rustix::fs::fcntl_getfl(&file).unwrap();
        assert!(flags.contains(OFlags::NOATIME) && !flags.contains(OFlags::NONBLOCK));
        open_directory(handle, OsStr::new("dir")).unwrap();
        // Comes back at once.
        open_file(handle, OsStr::new("fifo")).unwrap();
        let error = open_file(handle, OsStr::new("to-file")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::LOOP.raw_os_error()));
        assert!(open_directory(handle, OsStr::new("to-dir")).is_err());
        assert!(open_directory(handle, OsStr::new("file")).is_err());
        assert!(open_directory(handle, OsStr::new("fifo")).is_err());
    }

    #[test]
    fn a_leased_file_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), b"x").unwrap();
        // Holds a write lease, and gives it up when asked to.
        let script = "import fcntl, signal, sys, time\n\
            f = open(sys.argv[1], 'r+')\n\
            def give(*_):\n    time.sleep(0.05); fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_UNLCK)\n\
            signal.signal(signal.SIGIO, give)\n\
            fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)\n\
            print('leased', flush=True)\n\
            time.sleep(0.3)\n";
        let child = Command::new("python3")
            .args(["-c", script])
            .arg(dir.path().join("file"))
            .stdout(std::process::Stdio::piped())
            .spawn();
        let Ok(mut child) = child else {
            eprintln!("NOT CHECKED: this needs python3");
            return;
        };
        let mut first = [0; 6];
        let output = child.stdout.as_mut().unwrap();
        if io::Read::read_exact(output, &mut first).is_err() {
            eprintln!("NOT CHECKED: no leases here");
            child.wait().unwrap();
            return;
        }
        let handle = open(dir.path());
        let file = File::from(open_file(handle.as_fd(), OsStr::new("file")).unwrap());
        let mut byte = [0];
        file.read_exact_at(&mut byte, 0).unwrap();
        assert_eq!(&byte, b"x");
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn extended_attributes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = File::create(&path).unwrap();
        assert_eq!(xattrs(file.as_fd()).unwrap(), []);
        let big = vec![7; 3000];
        if let Err(error) = xattr::set(&path, "user.z", &big) {
            eprintln!("NOT CHECKED: no extended attributes here: {error}");
            return;
        }
        xattr::set(&path, "user.empty", b"").unwrap();
        let mut expected = vec![(b"user.empty".to_vec(), vec![]), (b"user.z".to_vec(), big)];
        if root() {
            xattr::set(&path, "trusted.t", b"\0\xff").unwrap();
            expected.insert(0, (b"trusted.t".to_vec(), b"\0\xff".to_vec()));
        }
        let read = xattrs(file.as_fd()).unwrap();
        let read: Vec<_> = read.into_iter().map(|x| (x.name, x.value)).collect();
        assert_eq!(read, expected);
        let handle = open(dir.path());
        let at = xattrs_at(handle.as_fd(), OsStr::new("file")).unwrap();
        assert_eq!(at.len(), expected.len());
        let missing = xattrs_at(handle.as_fd(), OsStr::new("missing"));
        assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);

        if run("setfacl", &["-m", "u:12345:rw"], &path) {
            let read = xattrs(file.as_fd()).unwrap();
            assert!(read.iter().any(|x| x.name == b"system.posix_acl_access"));
            assert!(read.is_sorted());
        }
    }

    #[test]
    fn more_names_than_fit_at_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = File::create(&path).unwrap();
        for number in 0..60 {
            if let Err(error) = xattr::set(&path, format!("user.some-name-{number:02}"), b"v") {
                eprintln!("NOT CHECKED: no room for extended attributes here: {error}");
                return;
            }
        }
        let read = xattrs(file.as_fd()).unwrap();
        assert_eq!(read.len(), 60);
        assert!(read.is_sorted());
    }

    #[test]
    fn extended_attributes_of_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("link");
        symlink("/nowhere", &path).unwrap();
        let handle = open(dir.path());
        assert_eq!(xattrs_at(handle.as_fd(), OsStr::new("link")).unwrap(), []);
        if root() {
            xattr::set(&path, "trusted.t", b"v").unwrap();
            let read = xattrs_at(handle.as_fd(), OsStr::new("link")).unwrap();
            assert_eq!(read.len(), 1);
            assert_eq!(read[0].name, b"trusted.t");
        }
    }

    #[test]
    #[allow(clippy::single_range_in_vec_init)]
    fn holes() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::create_new(dir.path().join("sparse")).unwrap();
        let fd = file.as_fd();
        let extents = |size: u64| {
            let allocated = file.metadata().unwrap().blocks() * 512;
            data_extents(fd, size, allocated).unwrap()
        };
        assert_eq!(extents(0), []);
        file.set_len(10 << 20).unwrap();
        if extents(10 << 20) == [0..10 << 20] {
            eprintln!("NOT CHECKED: no holes here");
            return;
        }
        assert_eq!(extents(10 << 20), []);
        file.write_all_at(&[1; 65536], 1 << 20).unwrap();
        file.write_all_at(&[1; 65536], 5 << 20).unwrap();
        file.write_all_at(&[1; 10], (10 << 20) - 10).unwrap();
        let found = extents(10 << 20);
        assert_eq!(found.len(), 3);
        assert_eq!(found[0], 1 << 20..(1 << 20) + 65536);
        assert_eq!(found[1], 5 << 20..(5 << 20) + 65536);
        assert!(found[2].start < (10 << 20) && found[2].end == 10 << 20);
        // Ranges stay within the given length, even if the file has grown or shrunk since.
        assert_eq!(extents((1 << 20) + 100), [1 << 20..(1 << 20) + 100]);
        let longer = extents(11 << 20);
        assert_eq!(longer, found);
        // Nothing is asked when all is allocated.
        assert_eq!(data_extents(fd, 1 << 20, 1 << 20).unwrap(), [0..1 << 20]);
        // A pipe cannot be searched at all, and that is an error.
        let (pipe, _other) = io::pipe().unwrap();
        assert!(data_extents(pipe.as_fd(), 10, 0).is_err());
    }
}
