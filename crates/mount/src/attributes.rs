//! Attributes in the form in which FUSE has them.

use std::time::{Duration, SystemTime};

use fuser::{FileAttr, FileType, INodeNo};
use tabane_store::entry::{Entry, Kind, Piece, Time};

/// Bytes of the blocks that `stat` counts.
const STAT_BLOCK_LEN: u64 = 512;

/// The attributes of an entry.
pub fn of_entry(entry: &Entry, inode: u64, links: u32) -> FileAttr {
    let mtime = system_time(entry.mtime);
    let (size, data) = match &entry.kind {
        Kind::File { size, content } => {
            let holes = content.iter().filter_map(|piece| match piece {
                Piece::Hole { len } => Some(len),
                Piece::Block { .. } => None,
            });
            (*size, size - holes.sum::<u64>())
        }
        Kind::Symlink { target } => (target.len() as u64, 0),
        _ => (0, 0),
    };
    FileAttr {
        ino: INodeNo(inode),
        size,
        blocks: data.div_ceil(STAT_BLOCK_LEN),
        atime: entry.atime.map_or(mtime, system_time),
        mtime,
        ctime: system_time(entry.ctime),
        crtime: mtime,
        kind: file_type(&entry.kind),
        perm: (entry.mode & 0o7777) as u16,
        nlink: links,
        uid: entry.uid,
        gid: entry.gid,
        rdev: match entry.kind {
            Kind::CharDevice { major, minor } | Kind::BlockDevice { major, minor } => {
                device(major, minor)
            }
            _ => 0,
        },
        blksize: 128 << 10,
        flags: 0,
    }
}

/// The attributes of directories above snapshots, and of snapshots' roots, which belong to the
/// mounting user.
pub fn of_view(inode: u64, kind: FileType, size: u64, time: SystemTime) -> FileAttr {
    FileAttr {
        ino: INodeNo(inode),
        size,
        blocks: 0,
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind,
        perm: match kind {
            FileType::Symlink => 0o777,
            _ => 0o555,
        },
        nlink: 1,
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// The kind of file.
pub fn file_type(kind: &Kind) -> FileType {
    match kind {
        Kind::File { .. } => FileType::RegularFile,
        Kind::Directory { .. } => FileType::Directory,
        Kind::Symlink { .. } => FileType::Symlink,
        Kind::CharDevice { .. } => FileType::CharDevice,
        Kind::BlockDevice { .. } => FileType::BlockDevice,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
    }
}

/// The number of a device as the kernel encodes it: 12 bits of major and 20 of minor.
fn device(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | (major & 0xfff) << 8 | (minor & 0xf_ff00) << 12
}

fn system_time(time: Time) -> SystemTime {
    let whole = Duration::from_secs(time.s.unsigned_abs());
    let second = if time.s < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(whole)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(whole)
    };
    second
        .and_then(|second| second.checked_add(Duration::from_nanos(time.ns.into())))
        .unwrap_or(SystemTime::UNIX_EPOCH)
}
