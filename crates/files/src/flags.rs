//! File flags, as `chattr` sets them.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{IFlags, Mode, OFlags};
use serde::{Deserialize, Serialize};

/// Flags of a file or directory that are kept: immutable, append-only, nodump. The bits are those
/// of Linux's `FS_IOC_GETFLAGS`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Flags(u8);

impl Flags {
    /// Nothing of the file can be changed (`chattr +i`).
    pub const IMMUTABLE: Self = Self(0x10);
    /// The file can only grow (`chattr +a`).
    pub const APPEND: Self = Self(0x20);
    /// Backups by `dump` leave the file out (`chattr +d`).
    pub const NODUMP: Self = Self(0x40);

    const ALL: u8 = Self::IMMUTABLE.0 | Self::APPEND.0 | Self::NODUMP.0;

    /// The flags with these bits; nothing if one of the bits is no flag.
    pub fn from_bits(bits: u8) -> Option<Self> {
        (bits & !Self::ALL == 0).then_some(Self(bits))
    }

    /// The flags that are kept, of all that a file has.
    pub(crate) fn of(bits: u64) -> Self {
        Self((bits & u64::from(Self::ALL)) as u8)
    }

    /// One bit for each flag.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of these are there.
    pub fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Whether a file that has them refuses changes.
    pub fn forbid_changes(self) -> bool {
        self.contains(Self::IMMUTABLE) || self.contains(Self::APPEND)
    }
}

impl std::ops::BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Names with commas between them, as `immutable,nodump`.
impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::IMMUTABLE, "immutable"),
            (Self::APPEND, "append"),
            (Self::NODUMP, "nodump"),
        ];
        let mut separator = "";
        for (_, name) in names.iter().filter(|(flag, _)| self.contains(*flag)) {
            write!(f, "{separator}{name}")?;
            separator = ",";
        }
        Ok(())
    }
}

/// Gives an open file or directory these flags, and takes away those of the others that are kept.
/// Flags that are not kept (compression, no copy on write, …) stay as they are.
///
/// # Errors
/// When the file system has no flags, or the user lacks the right to set them.
pub fn set(fd: BorrowedFd<'_>, flags: Flags) -> io::Result<()> {
    let present = rustix::fs::ioctl_getflags(fd)?;
    let kept = IFlags::from_bits_retain(Flags::ALL.into());
    let wanted = (present - kept) | IFlags::from_bits_retain(flags.bits().into());
    if wanted != present {
        rustix::fs::ioctl_setflags(fd, wanted)?;
    }
    Ok(())
}

/// As [`set`], for the file or directory `name` in `dir`. Links are not followed.
///
/// # Errors
/// As [`set`], and when it cannot be opened or is something else.
pub fn set_at(dir: BorrowedFd<'_>, name: &OsStr, flags: Flags) -> io::Result<()> {
    // What is no file or directory may wait for somebody, or act on being opened.
    let kind = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let pinned = rustix::fs::openat(dir, name, kind, Mode::empty())?;
    set_pinned(pinned.as_fd(), flags)
}

/// As [`set`], for what is open as a place alone (`O_PATH`). Needs `/proc`.
pub(crate) fn set_pinned(pinned: BorrowedFd<'_>, flags: Flags) -> io::Result<()> {
    use rustix::fs::FileType;
    use std::os::fd::AsRawFd;
    match FileType::from_raw_mode(rustix::fs::fstat(pinned)?.st_mode) {
        FileType::RegularFile | FileType::Directory => {}
        _ => return Err(io::Error::other("it has been replaced by something else")),
    }
    let path = format!("/proc/self/fd/{}", pinned.as_raw_fd());
    let open = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::open(path, open, Mode::empty())?;
    set(file.as_fd(), flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_names_and_no_other_bits() {
        for bits in 0..=u8::MAX {
            assert_eq!(Flags::from_bits(bits).is_some(), bits & 0x8f == 0, "{bits}");
        }
        let all = Flags::IMMUTABLE | Flags::APPEND | Flags::NODUMP;
        assert_eq!(all.to_string(), "immutable,append,nodump");
        assert_eq!(Flags::NODUMP.to_string(), "nodump");
        assert_eq!(Flags::default().to_string(), "");
        assert!(all.forbid_changes() && !Flags::NODUMP.forbid_changes());
    }
}
