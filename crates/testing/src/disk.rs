//! Trees on disk: counting, warming, touching, copying, removing; and room for them.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use rustix::fs::{Advice, AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use tempfile::TempDir;

/// What a tree holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Regular files, each hard link counted.
    pub files: u64,
    /// Directories, the root included.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Fifos, sockets and devices.
    pub others: u64,
    /// Lengths of the regular files, summed.
    pub bytes: u64,
    /// Blocks allocated to everything, in bytes.
    pub allocated_bytes: u64,
}

impl Census {
    /// The lengths of the regular files in MB (10^6 bytes).
    pub fn megabytes(&self) -> f64 {
        self.bytes as f64 / 1e6
    }
}

/// Calls `visit` for `root` and everything under it, a directory before what is in it.
pub fn walk(root: &Path, visit: &mut dyn FnMut(&Path, &fs::Metadata) -> Result<()>) -> Result<()> {
    let metadata =
        fs::symlink_metadata(root).with_context(|| format!("cannot read {}", root.display()))?;
    visit(root, &metadata)?;
    if !metadata.is_dir() {
        return Ok(());
    }
    let mut pending = vec![root.to_path_buf()];
    while let Some(directory) = pending.pop() {
        let list = fs::read_dir(&directory)
            .with_context(|| format!("cannot list {}", directory.display()))?;
        for entry in list {
            let entry = entry.with_context(|| format!("cannot list {}", directory.display()))?;
            let path = entry.path();
            let metadata = entry
                .metadata()
                .with_context(|| format!("cannot read {}", path.display()))?;
            visit(&path, &metadata)?;
            if metadata.is_dir() {
                pending.push(path);
            }
        }
    }
    Ok(())
}

/// Counts what is under `root`.
pub fn census(root: &Path) -> Result<Census> {
    let mut census = Census::default();
    walk(root, &mut |_, metadata| {
        census.allocated_bytes += metadata.blocks() * 512;
        if metadata.is_file() {
            census.files += 1;
            census.bytes += metadata.len();
        } else if metadata.is_dir() {
            census.directories += 1;
        } else if metadata.is_symlink() {
            census.symlinks += 1;
        } else {
            census.others += 1;
        }
        Ok(())
    })?;
    Ok(census)
}

/// Reads every regular file once, so that its pages are in the cache. Files that cannot be read
/// are left to the tools to report.
pub fn warm(root: &Path) -> Result<()> {
    let mut buffer = vec![0u8; 256 << 10];
    walk(root, &mut |path, metadata| {
        if metadata.is_file()
            && let Ok(mut file) = File::open(path)
        {
            while matches!(file.read(&mut buffer), Ok(count) if count > 0) {}
        }
        Ok(())
    })
}

/// Brings everything to the disk, and the files under `root` out of the cache, as far as the system
/// lets anyone.
pub fn evict(root: &Path) -> Result<()> {
    rustix::fs::sync();
    walk(root, &mut |path, metadata| {
        if metadata.is_file() {
            let file =
                File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
            let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
        }
        Ok(())
    })
}

/// Gives every file that is not a directory the present time as its modification time, the way
/// `find -type f | xargs touch -m` would, so that no tool can know it as unchanged.
pub fn touch_all(root: &Path) -> Result<u64> {
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        },
    };
    let mut touched = 0;
    walk(root, &mut |path, metadata| {
        if !metadata.is_dir() {
            rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)
                .with_context(|| format!("cannot touch {}", path.display()))?;
            touched += 1;
        }
        Ok(())
    })?;
    Ok(touched)
}

/// A new directory in `parent`, which vanishes in the end.
pub fn work_in(parent: &Path) -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix("tabane-")
        .tempdir_in(parent)
        .with_context(|| format!("cannot make a work directory in {}", parent.display()))
}

/// Copies the tree `from` to the new path `to` with every attribute, through `cp -a`.
pub fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    let output = Command::new("cp")
        .args(["-a", "--reflink=auto", "--"])
        .args([from, to])
        .output()
        .context("cannot run cp to make a private copy of the tree")?;
    if !output.status.success() {
        bail!(
            "cannot make a private copy of {}: {}",
            from.display(),
            String::from_utf8_lossy(&output.stderr)
                .lines()
                .next()
                .unwrap_or("cp failed")
        );
    }
    Ok(())
}

/// Removes a file or a tree, directories without write permission included. Nothing there is no
/// error.
pub fn remove_tree(path: &Path) -> Result<()> {
    let gone = |result: io::Result<()>| match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    };
    match gone(fs::remove_dir_all(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => gone(fs::remove_file(path)),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let mut pending = vec![path.to_path_buf()];
            while let Some(directory) = pending.pop() {
                let _ = fs::set_permissions(&directory, fs::Permissions::from_mode(0o700));
                for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                    if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                        pending.push(entry.path());
                    }
                }
            }
            gone(fs::remove_dir_all(path))
        }
        other => other,
    }
    .with_context(|| format!("cannot remove {}", path.display()))
}

/// The lengths of all files under `path`, summed, in MB; 0 where there is nothing.
pub fn size_mb(path: &Path) -> f64 {
    census(path).map_or(0.0, |census| census.megabytes())
}

/// Fills as much memory as `bytes`, and frees it, if `directory` is in memory. A virtual machine
/// may have to ask its host for memory long unused, and the first writer would pay for that.
pub fn claim_memory(directory: &Path, bytes: u64) -> Result<()> {
    const TMPFS: i64 = 0x0102_1994;
    let system = rustix::fs::statfs(directory)
        .with_context(|| format!("cannot ask about {}", directory.display()))?;
    if system.f_type as i64 != TMPFS {
        return Ok(());
    }
    let path = directory.join("memory");
    let filled = (|| -> io::Result<()> {
        let mut file = File::create(&path)?;
        let zeros = vec![0; 1 << 20];
        (0..bytes.div_ceil(1 << 20)).try_for_each(|_| file.write_all(&zeros))
    })();
    fs::remove_file(&path)?;
    filled.with_context(|| format!("cannot fill {}", path.display()))
}

/// Bytes that the file system of `path` still has room for.
pub fn free_bytes(path: &Path) -> Result<u64> {
    let stat = rustix::fs::statvfs(path)
        .with_context(|| format!("cannot ask for the free space at {}", path.display()))?;
    Ok(stat.f_bavail * stat.f_frsize)
}

/// Bytes of memory that can be used without swapping, as the kernel says.
pub fn available_memory_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// A path for people: printable, with other bytes escaped.
pub fn show(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() {
                text.extend(character.escape_default());
            } else {
                text.push(character);
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    #[test]
    fn counts_touches_copies_and_removes() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        fs::create_dir_all(tree.join("a/b")).unwrap();
        fs::write(tree.join("a/file"), b"12345").unwrap();
        std::os::unix::fs::symlink("nowhere", tree.join("a/b/link")).unwrap();
        let old = SystemTime::now() - Duration::from_secs(3600);
        File::options()
            .write(true)
            .open(tree.join("a/file"))
            .unwrap()
            .set_modified(old)
            .unwrap();

        let census = census(&tree).unwrap();
        assert_eq!((census.files, census.directories), (1, 3));
        assert_eq!((census.symlinks, census.bytes), (1, 5));
        warm(&tree).unwrap();

        let copy = dir.path().join("copy");
        copy_tree(&tree, &copy).unwrap();
        assert_eq!(touch_all(&copy).unwrap(), 2);
        let time = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
        assert_eq!(time(&tree.join("a/file")), old);
        assert!(time(&copy.join("a/file")) > old + Duration::from_secs(1800));

        fs::set_permissions(copy.join("a"), fs::Permissions::from_mode(0o500)).unwrap();
        remove_tree(&copy).unwrap();
        assert!(!copy.exists());
        remove_tree(&copy).unwrap();
        remove_tree(&tree.join("a/file")).unwrap();
        assert!(!tree.join("a/file").exists());
    }

    #[test]
    fn shows_any_name() {
        use std::ffi::OsStr;
        let path = Path::new(OsStr::from_bytes(b"a\n\xffb"));
        assert_eq!(show(path), "a\\n\\xffb");
    }
}
