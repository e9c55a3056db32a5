//! `tabane-bench tree`: reproducible trees of unusual files.
//!
//! The same arguments give the same tree: contents, names and times come from a counter-based
//! generator. Devices, odd owners and privileged attributes need root and are left out, with a
//! note, where they cannot be made.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, makedev};

use crate::random::Random;

/// Files in one directory of `--kind tiny`.
const TINY_FILES: u64 = 200_000;
/// Files of `--kind many`, and how many are in a directory.
const MANY_FILES: u64 = 800_000;
const MANY_IN_DIRECTORY: u64 = 500;
/// Data files of `--kind mixed`.
const MIXED_FILES: u64 = 50_000;
/// Length of the sparse file.
const SPARSE_BYTES: u64 = 10_000_000_000;

/// Build a reproducible test tree.
///
/// tiny: many tiny files in one directory. many: as tiny, 500 in each directory.
/// sparse: a 10 GB file with a few MB of data, and others.
/// names: names that are not UTF-8, long, deep, or confusing; empty files and directories.
/// links: hard-link groups, symlinks, fifos, devices, xattrs, ACLs, odd modes, owners and times.
/// mixed: text, binaries, duplicates and noise of many sizes, with names and links.
#[derive(clap::Args)]
pub struct Args {
    /// The new or empty directory to build the tree in
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// What to build
    #[arg(long, value_enum)]
    kind: Kind,
    /// How many files [default: tiny 200000, many 800000, mixed 50000]
    #[arg(long, value_name = "N")]
    files: Option<u64>,
    /// Length of the largest sparse file [default: 10000000000]
    #[arg(long, value_name = "N")]
    bytes: Option<u64>,
}

/// Kinds of trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// 200,000 tiny files in one directory
    Tiny,
    /// 800,000 tiny files, 500 in each directory
    Many,
    /// A 10 GB sparse file and other files with holes
    Sparse,
    /// Difficult names, depths and empty things
    Names,
    /// Hard links, symlinks, special files and attributes
    Links,
    /// Data of many kinds and sizes, with names and links
    Mixed,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    build(&args.out, args.kind, args.files, args.bytes)?;
    let census = crate::disk::census(&args.out)?;
    println!(
        "{}: {} files, {} directories, {} symlinks, {} others, {:.1} MB ({:.1} MB allocated)",
        args.out.display(),
        census.files,
        census.directories,
        census.symlinks,
        census.others,
        census.megabytes(),
        census.allocated_bytes as f64 / 1e6
    );
    Ok(ExitCode::SUCCESS)
}

/// Builds a tree of `kind` in `out`, which must be new or empty.
pub fn build(out: &Path, kind: Kind, files: Option<u64>, bytes: Option<u64>) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let mut list = fs::read_dir(out).with_context(|| format!("cannot list {}", out.display()))?;
    if list.next().is_some() {
        bail!(
            "{} is not empty; name a new directory, or empty it first",
            out.display()
        );
    }
    let mut builder = Builder::default();
    let sparse_bytes = bytes.unwrap_or(SPARSE_BYTES);
    match kind {
        Kind::Tiny => builder.tiny(out, files.unwrap_or(TINY_FILES))?,
        Kind::Many => builder.many(out, files.unwrap_or(MANY_FILES))?,
        Kind::Sparse => builder.sparse(out, sparse_bytes)?,
        Kind::Names => builder.names(out)?,
        Kind::Links => builder.links(out)?,
        Kind::Mixed => {
            builder.mixed(&out.join("data"), files.unwrap_or(MIXED_FILES))?;
            builder.names(&out.join("names"))?;
            builder.links(&out.join("links"))?;
            builder.sparse(&out.join("sparse"), bytes.unwrap_or(64 << 20))?;
        }
    }
    builder.finish(out)
}

/// Makes files and remembers what has to be done last.
#[derive(Default)]
struct Builder {
    /// Directories with their modes, set when everything is in them.
    directories: Vec<(PathBuf, u32)>,
    /// What could not be made, each once.
    left_out: Vec<String>,
    /// Counts everything made, for distinct times.
    made: u64,
}

impl Builder {
    fn directory(&mut self, path: &Path, mode: u32) -> Result<()> {
        if !path.is_dir() {
            fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))?;
        }
        self.directories.push((path.to_path_buf(), mode));
        Ok(())
    }

    /// A file with the usual mode and a time of its own.
    fn file(&mut self, path: &Path, content: &[u8]) -> Result<()> {
        fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))?;
        self.mode(path, 0o644)?;
        self.stamp(path)
    }

    fn mode(&mut self, path: &Path, mode: u32) -> Result<()> {
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
            .with_context(|| format!("cannot set the mode of {}", path.display()))
    }

    /// A modification time with nanoseconds, another for each file.
    fn stamp(&mut self, path: &Path) -> Result<()> {
        self.made += 1;
        let mut random = Random::new(self.made ^ 0x7469_6d65);
        let seconds = 1_500_000_000 + random.below(100_000_000) as i64;
        self.time(path, seconds, random.below(1_000_000_000) as u32)
    }

    fn time(&mut self, path: &Path, seconds: i64, nanoseconds: u32) -> Result<()> {
        let time = Timespec {
            tv_sec: seconds,
            tv_nsec: nanoseconds.into(),
        };
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)
            .with_context(|| format!("cannot set the time of {}", path.display()))
    }

    fn link(&mut self, target: &OsStr, path: &Path) -> Result<()> {
        symlink(target, path).with_context(|| format!("cannot make {}", path.display()))?;
        self.stamp(path)
    }

    /// Notes something that this user or file system cannot make.
    fn optional(&mut self, what: &str, result: std::io::Result<()>) -> bool {
        if let Err(error) = &result {
            let note = format!("{what} ({error})");
            if !self.left_out.contains(&note) {
                self.left_out.push(note);
            }
        }
        result.is_ok()
    }

    /// Modes and times of directories, the deepest first.
    fn finish(&mut self, out: &Path) -> Result<()> {
        let mut directories = std::mem::take(&mut self.directories);
        directories.push((out.to_path_buf(), 0o755));
        directories.sort_by_key(|(path, _)| std::cmp::Reverse(path.components().count()));
        for (path, mode) in directories {
            self.mode(&path, mode)?;
            self.stamp(&path)?;
        }
        for note in &self.left_out {
            eprintln!("note: left out {note}");
        }
        Ok(())
    }

    fn tiny(&mut self, out: &Path, files: u64) -> Result<()> {
        (0..files).try_for_each(|number| self.tiny_file(out, number))
    }

    fn tiny_file(&mut self, directory: &Path, number: u64) -> Result<()> {
        let mut random = Random::new(number);
        let length = random.below(400) as usize;
        let content = random.text(length);
        self.file(&directory.join(format!("tiny-{number:06}.txt")), &content)
    }

    fn many(&mut self, out: &Path, files: u64) -> Result<()> {
        for first in (0..files).step_by(MANY_IN_DIRECTORY as usize) {
            let number = first / MANY_IN_DIRECTORY;
            let directory = out.join(format!("{}/{number}", number % 100));
            self.directory(&directory, 0o755)?;
            let last = files.min(first + MANY_IN_DIRECTORY);
            (first..last).try_for_each(|number| self.tiny_file(&directory, number))?;
        }
        Ok(())
    }

    fn sparse(&mut self, out: &Path, bytes: u64) -> Result<()> {
        self.directory(out, 0o755)?;
        let mut random = Random::new(bytes);
        let mut sparse =
            |builder: &mut Builder, name: &str, length: u64, islands: &[(u64, usize)]| {
                let path = out.join(name);
                let file = File::create(&path)
                    .with_context(|| format!("cannot write {}", path.display()))?;
                for &(offset, size) in islands {
                    file.write_all_at(&random.noise(size), offset)
                        .with_context(|| format!("cannot write {}", path.display()))?;
                }
                file.set_len(length)
                    .with_context(|| format!("cannot lengthen {}", path.display()))?;
                drop(file);
                builder.stamp(&path)
            };
        let third = bytes / 3;
        let size = (1usize << 20).min(third as usize);
        sparse(
            self,
            "islands.img",
            bytes,
            &[
                (0, 4096.min(size)),
                (third / 4096 * 4096, size),
                (2 * third + 1, 5.min(size)),
            ],
        )?;
        sparse(self, "only-a-hole.img", bytes / 10, &[])?;
        sparse(
            self,
            "data-at-the-end.img",
            bytes / 10 + 1,
            &[(bytes / 10, 1)],
        )?;
        let every: Vec<(u64, usize)> = (0..256).map(|index| (index * 65_536, 4096)).collect();
        sparse(self, "comb.img", 256 * 65_536, &every)?;
        // Zeros that are written: a restored file may have a hole here, and need not.
        self.file(&out.join("zeros.bin"), &vec![0; 1 << 20])
    }

    fn names(&mut self, out: &Path) -> Result<()> {
        self.directory(out, 0o755)?;
        let long = "n".repeat(255);
        let wide = "\u{1f41f}".repeat(63);
        let names: [&[u8]; 30] = [
            b"plain",
            b" leading space",
            b"trailing space ",
            b"-rf",
            b"--help",
            b"...",
            b".hidden",
            b"~",
            b"#hash",
            b"quote'and\"double",
            b"back\\slash",
            b"star*question?[bracket]{brace}",
            b"$HOME",
            b"semi;colon|pipe&and",
            b"percent%20%00",
            b"colon:colon",
            b"new\nline",
            b"tab\tand\rreturn",
            b"bell\x07escape\x1b[31mred",
            b"\x01",
            b"\x7f",
            b"\xff",
            b"\xfe\xff",
            b"latin-1-caf\xe9",
            b"surrogate-\xed\xa0\x80",
            b"overlong-\xc0\xaf",
            b"cut-\xe2\x82",
            "composed-\u{e9}".as_bytes(),
            "decomposed-e\u{301}".as_bytes(),
            "bidi-\u{202e}txt".as_bytes(),
        ];
        for (index, name) in names
            .into_iter()
            .chain([long.as_bytes(), wide.as_bytes()])
            .enumerate()
        {
            let content = Random::new(index as u64).text(index * 7);
            self.file(&out.join(OsStr::from_bytes(name)), &content)?;
        }
        for name in ["Case", "case", "CASE"] {
            self.file(&out.join(name), name.as_bytes())?;
        }
        for name in [&b"dir-\xff\xfe"[..], b"dir with\nnewline", b"dir"] {
            let inner = out.join(OsStr::from_bytes(name));
            self.directory(&inner, 0o755)?;
            self.file(&inner.join(OsStr::from_bytes(b"\xffinner")), b"inner")?;
            self.link(OsStr::from_bytes(b"\xffinner"), &inner.join("link-\u{e9}"))?;
        }
        let empty = out.join("empty");
        self.directory(&empty, 0o755)?;
        for index in 0..20 {
            let directory = empty.join(format!("dir-{index:02}"));
            self.directory(&directory, 0o755)?;
            self.directory(&directory.join("nested"), 0o755)?;
            self.file(&empty.join(format!("file-{index:02}")), b"")?;
        }
        let mut deep = out.join("deep");
        self.directory(&deep, 0o755)?;
        for level in 0..200 {
            deep.push(format!("{level:03}"));
            self.directory(&deep, 0o755)?;
            if level % 10 == 9 {
                self.file(&deep.join("file"), format!("at level {level}").as_bytes())?;
            }
        }
        let mut wide = out.join("long");
        self.directory(&wide, 0o755)?;
        for _ in 0..9 {
            wide.push("d".repeat(250));
            self.directory(&wide, 0o755)?;
        }
        self.file(&wide.join("f".repeat(255)), b"far down")
    }

    fn links(&mut self, out: &Path) -> Result<()> {
        self.directory(out, 0o755)?;
        self.hard_links(&out.join("hard"))?;
        self.symlinks(&out.join("soft"))?;
        self.specials(&out.join("special"))?;
        self.modes(&out.join("modes"))?;
        self.times(&out.join("times"))?;
        self.attributes(&out.join("attributes"))
    }

    fn hard_links(&mut self, out: &Path) -> Result<()> {
        self.directory(out, 0o755)?;
        self.directory(&out.join("elsewhere"), 0o755)?;
        let join = |from: &Path, to: &Path| {
            fs::hard_link(from, to).with_context(|| format!("cannot link {}", to.display()))
        };
        for group in 0..50u64 {
            let mut random = Random::new(group);
            let first = out.join(format!("group-{group:02}-0"));
            let length = random.below(20_000) as usize;
            let content = random.text(length);
            self.file(&first, &content)?;
            for member in 1..=1 + random.below(4) {
                let name = format!("group-{group:02}-{member}");
                let place = if member % 2 == 0 {
                    out.join(name)
                } else {
                    out.join("elsewhere").join(name)
                };
                join(&first, &place)?;
            }
        }
        // Equal in content and time, but not linked.
        for name in ["twin-a", "twin-b"] {
            self.file(&out.join(name), b"twins are not links")?;
            self.time(&out.join(name), 1_600_000_000, 1)?;
        }
        self.file(&out.join("empty-0"), b"")?;
        join(&out.join("empty-0"), &out.join("empty-1"))?;
        self.link(OsStr::new("twin-a"), &out.join("symlink-0"))?;
        let linked = fs::hard_link(out.join("symlink-0"), out.join("symlink-1"));
        self.optional("hard links to symlinks", linked);
        self.special(&out.join("fifo-0"), FileType::Fifo, 0, "fifos")?;
        let linked = fs::hard_link(out.join("fifo-0"), out.join("fifo-1"));
        self.optional("hard links to fifos", linked);
        Ok(())
    }

    fn symlinks(&mut self, out: &Path) -> Result<()> {
        self.directory(out, 0o755)?;
        self.directory(&out.join("directory"), 0o755)?;
        self.file(&out.join("directory/file"), b"target")?;
        let long = "l/".repeat(1500);
        let targets: [(&str, &[u8]); 12] = [
            ("to-file", b"directory/file"),
            ("to-directory", b"directory"),
            ("to-directory-slash", b"directory/"),
            ("dangling", b"does/not/exist"),
            ("absolute", b"/"),
            ("absolute-dangling", b"/does/not/exist"),
            ("up", b"../.."),
            ("loop-a", b"loop-b"),
            ("loop-b", b"loop-a"),
            ("itself", b"itself"),
            ("not-utf-8", b"\xff\xfe\n"),
            ("long", long.as_bytes()),
        ];
        for (name, target) in targets {
            self.link(OsStr::from_bytes(target), &out.join(name))?;
        }
        if rustix::process::geteuid().is_root() {
            let owned = out.join("owned");
            self.link(OsStr::new("directory"), &owned)?;
            let result = std::os::unix::fs::lchown(&owned, Some(12_345), Some(54_321));
            self.optional("owners of symlinks", result);
            self.stamp(&owned)?;
        }
        Ok(())
    }

    fn special(&mut self, path: &Path, kind: FileType, device: u64, what: &str) -> Result<()> {
        let made = rustix::fs::mknodat(CWD, path, kind, Mode::from_raw_mode(0o640), device);
        if self.optional(what, made.map_err(Into::into)) {
            self.mode(path, 0o640)?;
            self.stamp(path)?;
        }
        Ok(())
    }

    fn specials(&mut self, out: &Path) -> Result<()> {
        self.directory(out, 0o755)?;
        self.special(&out.join("fifo"), FileType::Fifo, 0, "fifos")?;
        let devices = [
            ("null", FileType::CharacterDevice, makedev(1, 3)),
            (
                "large-numbers",
                FileType::CharacterDevice,
                makedev(4000, 1_000_000),
            ),
            ("block", FileType::BlockDevice, makedev(7, 250)),
        ];
        for (name, kind, device) in devices {
            self.special(&out.join(name), kind, device, "devices")?;
        }
        Ok(())
    }

    fn modes(&mut self, out: &Path) -> Result<()> {
        self.directory(out, 0o755)?;
        for mode in [
            0o000, 0o001, 0o111, 0o200, 0o222, 0o400, 0o444, 0o600, 0o755, 0o777, 0o1644, 0o2755,
            0o4755, 0o6711, 0o7777,
        ] {
            // What nobody but root may read would be reported, not stored.
            if mode & 0o400 == 0 && !rustix::process::geteuid().is_root() {
                continue;
            }
            let path = out.join(format!("file-{mode:04o}"));
            self.file(&path, format!("mode {mode:o}").as_bytes())?;
            self.mode(&path, mode)?;
        }
        for mode in [0o500, 0o555, 0o700, 0o1777, 0o2755, 0o3770] {
            let path = out.join(format!("directory-{mode:04o}"));
            self.directory(&path, mode)?;
            self.file(&path.join("inside"), b"inside")?;
        }
        if rustix::process::geteuid().is_root() {
            let owners = [
                ("owner", 12_345, 54_321),
                ("owner-large", 4_000_000_000, 3_000_000_000),
            ];
            for (name, user, group) in owners {
                let path = out.join(name);
                self.file(&path, b"somebody else's")?;
                let result = std::os::unix::fs::lchown(&path, Some(user), Some(group));
                self.optional("odd owners", result);
                self.mode(&path, 0o4750)?;
                self.stamp(&path)?;
            }
        }
        Ok(())
    }

    fn times(&mut self, out: &Path) -> Result<()> {
        self.directory(out, 0o755)?;
        let times = [
            ("epoch", 0, 0),
            ("one-nanosecond", 0, 1),
            ("before-the-epoch", -1, 999_999_999),
            ("1902", -2_145_916_800, 5),
            ("2038", 2_147_483_648, 123_456_789),
            ("2107", 4_354_819_199, 999_999_999),
            ("2400", 13_569_465_600, 1),
            ("odd-nanoseconds", 1_700_000_000, 123_456_789),
        ];
        for (name, seconds, nanoseconds) in times {
            let path = out.join(name);
            self.file(&path, name.as_bytes())?;
            self.time(&path, seconds, nanoseconds)?;
            let link = out.join(format!("link-{name}"));
            self.link(OsStr::new(name), &link)?;
            self.time(&link, seconds, nanoseconds)?;
        }
        Ok(())
    }

    fn attributes(&mut self, out: &Path) -> Result<()> {
        self.directory(out, 0o755)?;
        let root = rustix::process::geteuid().is_root();
        let binary: Vec<u8> = (0..=255).collect();
        let mut named: Vec<(&str, &OsStr, Vec<u8>)> = vec![
            ("text", OsStr::new("user.comment"), b"hello".to_vec()),
            ("empty", OsStr::new("user.empty"), Vec::new()),
            ("binary", OsStr::new("user.binary"), binary),
            (
                "large",
                OsStr::new("user.large"),
                Random::new(1).noise(2000),
            ),
            (
                "name",
                OsStr::from_bytes(b"user.\xff\xfe"),
                b"name".to_vec(),
            ),
        ];
        if root {
            named.push(("trusted", OsStr::new("trusted.tabane"), b"root's".to_vec()));
            // cap_net_bind_service, effective: VFS_CAP_REVISION_2.
            let mut capability = 0x0200_0001_u32.to_le_bytes().to_vec();
            for word in [1u32 << 10, 0, 0, 0] {
                capability.extend_from_slice(&word.to_le_bytes());
            }
            named.push(("capability", OsStr::new("security.capability"), capability));
        }
        named.push(("acl", OsStr::new("system.posix_acl_access"), acl(0o4)));
        for (name, attribute, value) in named {
            let path = out.join(name);
            self.file(&path, name.as_bytes())?;
            let set = xattr::set(&path, attribute, &value);
            self.optional(&format!("xattr {}", attribute.to_string_lossy()), set);
        }
        let many = out.join("many");
        self.file(&many, b"many")?;
        for index in 0..10 {
            let set = xattr::set(&many, format!("user.{index}"), &[index; 20]);
            self.optional("xattrs", set);
        }
        let directory = out.join("directory");
        self.directory(&directory, 0o750)?;
        for (attribute, value) in [
            ("user.on-directory", b"yes".to_vec()),
            ("system.posix_acl_default", acl(0o7)),
        ] {
            let set = xattr::set(&directory, attribute, &value);
            self.optional(&format!("xattr {attribute} of a directory"), set);
        }
        self.file(&directory.join("inherits"), b"the default ACL")?;
        if root {
            let link = out.join("link");
            self.link(OsStr::new("text"), &link)?;
            let set = xattr::set(&link, "trusted.on-symlink", b"yes");
            self.optional("xattrs of symlinks", set);
        }
        Ok(())
    }

    fn mixed(&mut self, out: &Path, files: u64) -> Result<()> {
        self.directory(out, 0o755)?;
        for index in 0..files {
            let mut random = Random::new(index);
            let directory = out
                .join(format!("{:02}", index / 2500))
                .join(format!("{:02}", index / 50 % 50));
            if index % 50 == 0 {
                self.directory(&directory, 0o755)?;
                if index % 2500 == 0 {
                    self.directory(&out.join(format!("{:02}", index / 2500)), 0o755)?;
                }
            }
            // Sizes over five decades, few of them large: about 14 KB in the mean.
            let scale =
                6 + random.below(6) + random.below(6) + u64::from(random.below(50) == 0) * 5;
            let length = random.below(1 << scale) as usize;
            let path = directory.join(format!("file-{index:06}"));
            let kind = random.below(10);
            // A tenth are copies of one another.
            let seed = match kind {
                0 => random.below(1 + files / 40),
                _ => index,
            };
            let mut content = Random::new(seed.wrapping_mul(31));
            let bytes = match kind {
                0 => content.text(20_000),
                1 | 2 => content.noise(length),
                3 => {
                    // Like a binary: noise and text in turns, with zeros between.
                    let mut bytes = Vec::with_capacity(length + 4096);
                    while bytes.len() < length {
                        bytes.extend_from_slice(&content.noise(700));
                        bytes.extend_from_slice(&[0; 300]);
                        bytes.extend_from_slice(&content.text(1500));
                    }
                    bytes.truncate(length);
                    bytes
                }
                _ => content.text(length),
            };
            self.file(&path, &bytes)?;
        }
        // One file larger than any chunk.
        let path = out.join("large.bin");
        let file =
            File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut writer = BufWriter::new(file);
        let mut random = Random::new(files);
        for _ in 0..(files / 1000).clamp(1, 64) {
            writer.write_all(&random.noise(512 << 10))?;
            writer.write_all(&random.text(512 << 10))?;
        }
        writer.flush()?;
        drop(writer);
        self.stamp(&path)
    }
}

/// An access control list: the owner, user 1234 with `permissions`, the group, mask and others.
fn acl(permissions: u16) -> Vec<u8> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in [
        (0x01u16, 6u16, u32::MAX),
        (0x02, permissions, 1234),
        (0x04, 4, u32::MAX),
        (0x08, 5, 4321),
        (0x10, 7, u32::MAX),
        (0x20, 0, u32::MAX),
    ] {
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&permissions.to_le_bytes());
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare_trees::{Options, compare};

    #[test]
    fn builds_are_reproducible() {
        let dir = tempfile::tempdir().unwrap();
        for (kind, files) in [(Kind::Tiny, 300), (Kind::Mixed, 120)] {
            let trees = ["a", "b"].map(|name| dir.path().join(format!("{kind:?}-{name}")));
            for tree in &trees {
                build(tree, kind, Some(files), Some(3 << 20)).unwrap();
            }
            let outcome = compare(&trees[0], &trees[1], &Options::default()).unwrap();
            assert_eq!(outcome.differences, Vec::<String>::new());
            assert!(outcome.entries > files);
        }
        for entry in fs::read_dir(dir.path()).unwrap() {
            crate::disk::remove_tree(&entry.unwrap().path()).unwrap();
        }
    }

    #[test]
    fn sparse_files_are_sparse() {
        let dir = tempfile::tempdir().unwrap();
        build(dir.path(), Kind::Sparse, None, Some(1 << 30)).unwrap();
        let census = crate::disk::census(dir.path()).unwrap();
        assert!(census.bytes > 1 << 30);
        assert!(census.allocated_bytes < 16 << 20, "{census:?}");
    }

    #[test]
    fn full_directories_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("mine"), b"precious").unwrap();
        let error = build(dir.path(), Kind::Tiny, Some(1), None).unwrap_err();
        assert!(error.to_string().contains("not empty"));
    }
}
