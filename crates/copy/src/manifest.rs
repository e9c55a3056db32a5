//! The list of copied files, which `tabane sum --check` reads.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tabane_engine::{Algorithm, Digest};
use tabane_files::{Time, beneath, read as files};
use tabane_sum::{Accept, Format, Parser, Style, Sum};

use crate::directory::is_in;
use crate::lock::lock;
use crate::operand::{Source, Target};
use crate::options::Options;

/// A list of files with their hashes: in the end complete and sorted by name; until then, the lines
/// so far are in a file with `.partial` behind the name.
pub(crate) struct Manifest {
    path: PathBuf,
    algorithm: Algorithm,
    /// The base of names, below the directory that takes the copies.
    base: PathBuf,
    previous: HashMap<Vec<u8>, Previous>,
    growing: Mutex<Growing>,
}

/// Suffix of the name while the list grows.
const PARTIAL_SUFFIX: &str = ".partial";

/// Suffix of the name while a list is written at once.
const NEW_SUFFIX: &str = ".new";

/// A file's entry in the manifest of an earlier run.
#[derive(Clone, Copy)]
pub(crate) struct Previous {
    /// The hash of its bytes.
    pub(crate) digest: Digest,
    /// Time before which the digest includes all changes of the file.
    pub(crate) time: Time,
}

struct Growing {
    partial: BufWriter<File>,
    lines: Vec<(Vec<u8>, Digest)>,
}

impl Manifest {
    /// Reads what earlier runs left, and begins anew.
    pub(crate) fn begin(path: &Path, algorithm: Algorithm, target: &Target) -> io::Result<Self> {
        let partial = with_suffix(path, PARTIAL_SUFFIX);
        let mut previous = HashMap::new();
        let new = with_suffix(path, NEW_SUFFIX);
        for path in [path, &partial] {
            if let Some(metadata) = existing(path)? {
                read(path, algorithm, &metadata, &mut previous)?;
            }
        }
        // A new file, so that its times tell when it was written.
        let file = File::create(&new)?;
        fs::rename(new, partial)?;
        Ok(Self {
            path: path.to_owned(),
            algorithm,
            base: target.name.clone().map(PathBuf::from).unwrap_or_default(),
            previous,
            growing: Mutex::new(Growing {
                partial: BufWriter::with_capacity(64 << 10, file),
                lines: Vec::new(),
            }),
        })
    }

    /// The path of the finished manifest.
    pub(crate) fn path(&self) -> &PathBuf {
        &self.path
    }

    /// The entry of an earlier run for `file`, a path below the directory that takes the copies.
    pub(crate) fn previous(&self, file: &Path) -> Option<Previous> {
        self.previous.get(&self.name(file)).copied()
    }

    /// A file is there, under its name: this path below the directory that takes the copies.
    pub(crate) fn record(&self, file: &Path, digest: Digest) -> io::Result<()> {
        let name = self.name(file);
        let mut growing = lock(&self.growing);
        growing.partial.write_all(&self.line(&name, digest))?;
        growing.lines.push((name, digest));
        Ok(())
    }

    /// The name of a file in the list: relative to the target, so that the list can be checked
    /// there, wherever it is mounted, and at a source of the same layout. If the target is a single
    /// file, its name.
    fn name(&self, file: &Path) -> Vec<u8> {
        let below_target = file.strip_prefix(&self.base).ok();
        let name = below_target
            .filter(|rest| !rest.as_os_str().is_empty())
            .unwrap_or(file);
        match name.as_os_str().as_bytes() {
            // A line with the name `-` would mean standard input.
            b"-" => b"./-".to_vec(),
            name => name.to_vec(),
        }
    }

    /// Puts the complete list in its place.
    pub(crate) fn finish(&self, sync: bool) -> io::Result<()> {
        let mut growing = lock(&self.growing);
        growing.lines.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        growing.lines.dedup_by(|(a, _), (b, _)| a == b);
        let new = with_suffix(&self.path, NEW_SUFFIX);
        let mut file = BufWriter::new(File::create(&new)?);
        for (name, digest) in &growing.lines {
            file.write_all(&self.line(name, *digest))?;
        }
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        if sync {
            file.sync_all()?;
        }
        fs::rename(new, &self.path)?;
        if sync {
            let folder = self.path.parent().expect("a file is in a folder");
            let is_here = folder.as_os_str().is_empty();
            File::open(if is_here { Path::new(".") } else { folder })?.sync_all()?;
        }
        fs::remove_file(with_suffix(&self.path, PARTIAL_SUFFIX))
    }

    /// Keeps the partial list for the next run and returns its path; removes it if it has no line.
    pub(crate) fn interrupt(&self) -> io::Result<Option<PathBuf>> {
        let mut growing = lock(&self.growing);
        growing.partial.flush()?;
        let partial = with_suffix(&self.path, PARTIAL_SUFFIX);
        if growing.lines.is_empty() {
            fs::remove_file(partial)?;
            return Ok(None);
        }
        Ok(Some(partial))
    }

    fn line(&self, name: &[u8], digest: Digest) -> Vec<u8> {
        let format = Format::new(Style::Tagged(self.algorithm));
        let mut line = Vec::with_capacity(name.len() + 64);
        let sum = Sum {
            digest,
            parts: None,
        };
        format.write(&sum, name, &mut line);
        line
    }
}

/// Refuses a manifest that would replace another file, or be one of the listed files.
pub(crate) fn check(path: &Path, options: &Options, target: &Target) -> io::Result<()> {
    let refused = |path: &Path, why: &str| {
        let text = format!("{} {why}", path.display());
        Err(io::Error::other(text))
    };
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    let directory = OwnedFd::from(File::open(above.unwrap_or(Path::new(".")))?);
    let sources: Vec<_> = options
        .sources
        .iter()
        .filter_map(|source| Some((source, fs::symlink_metadata(source).ok()?)))
        .collect();
    for own in [
        path.to_owned(),
        with_suffix(path, PARTIAL_SUFFIX),
        with_suffix(path, NEW_SUFFIX),
    ] {
        let Some(metadata) = existing(&own)? else {
            continue;
        };
        // Renaming would take the place of a device, and reading a pipe would never end.
        if !metadata.is_file() {
            return refused(&own, "is not a regular file");
        }
        let identity = |metadata: &fs::Metadata| (metadata.dev(), metadata.ino());
        if sources
            .iter()
            .any(|(_, source)| identity(source) == identity(&metadata))
        {
            return refused(&own, "is to be copied");
        }
        if own != path && !is_of_a_manifest(&fs::read(&own)?) {
            return refused(
                &own,
                "is there, and not of this program: remove or rename it",
            );
        }
    }
    for (source, metadata) in &sources {
        if metadata.is_dir() && is_in(&directory, (metadata.dev(), metadata.ino()))? {
            return refused(
                path,
                &format!("is in {}, which is to be copied", source.display()),
            );
        }
    }
    let Some(above) = below_target(above.unwrap_or(Path::new(".")), target)? else {
        return Ok(());
    };
    for own in [
        path.to_owned(),
        with_suffix(path, PARTIAL_SUFFIX),
        with_suffix(path, NEW_SUFFIX),
    ] {
        let below = above.join(own.file_name().unwrap_or_default());
        if options
            .sources
            .iter()
            .any(|source| becomes(source, target, &below))
        {
            return refused(&own, "is the name of a copy");
        }
    }
    Ok(())
}

/// Path of a directory relative to the target, if it lies below it.
fn below_target(directory: &Path, target: &Target) -> io::Result<Option<PathBuf>> {
    let stat = rustix::fs::fstat(&target.directory)?;
    let directory = fs::canonicalize(directory)?;
    for above in directory.ancestors() {
        let metadata = fs::metadata(above)?;
        if (metadata.dev(), metadata.ino()) == (stat.st_dev, stat.st_ino) {
            return Ok(directory.strip_prefix(above).ok().map(Path::to_owned));
        }
    }
    Ok(None)
}

/// Whether something of this source has this path below the target for its copy.
fn becomes(source: &Path, target: &Target, path: &Path) -> bool {
    let Ok(source) = Source::find(source) else {
        return false;
    };
    let copy_name = target.name.as_ref().unwrap_or(&source.copy_name);
    let rest = if copy_name == "." {
        Ok(path)
    } else {
        path.strip_prefix(copy_name)
    };
    match rest {
        Ok(rest) if rest.as_os_str().is_empty() => true,
        Ok(rest) => files::open_directory(source.directory.as_fd(), &source.name)
            .and_then(|source| beneath::in_directory(&source, rest, beneath::file_type))
            .is_ok_and(|there| there.is_some()),
        Err(_) => false,
    }
}

/// Metadata of the file at a path, if it exists.
fn existing(path: &Path) -> io::Result<Option<fs::Metadata>> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        metadata => metadata.map(Some),
    }
}

/// Whether `text` may be a manifest of this program: only the last line may be cut short, after at
/// least one whole line.
fn is_of_a_manifest(text: &[u8]) -> bool {
    let mut parser = Parser::new(Accept::AnyTagged(Algorithm::Xxh3));
    let whole = text.iter().rposition(|&byte| byte == b'\n');
    match whole {
        Some(last) => text[..last]
            .split(|&byte| byte == b'\n')
            .all(|line| parser.parse(line).is_some()),
        None => text.is_empty(),
    }
}

/// Adds the entries of a manifest; lines of other algorithms and malformed lines are skipped.
fn read(
    path: &Path,
    algorithm: Algorithm,
    metadata: &fs::Metadata,
    previous: &mut HashMap<Vec<u8>, Previous>,
) -> io::Result<()> {
    let text = fs::read(path)?;
    let time = Time {
        s: metadata.mtime(),
        ns: metadata.mtime_nsec() as u32,
    };
    let mut parser = Parser::new(Accept::Only(algorithm));
    // A line that was cut short has no newline.
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        if let Some(line) = line.strip_suffix(b"\n")
            && let Some(line) = parser.parse(line)
        {
            let digest = line.sum.digest;
            previous.insert(line.name, Previous { digest, time });
        }
    }
    Ok(())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}
