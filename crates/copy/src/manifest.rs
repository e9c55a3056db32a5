//! The list of what was copied, which `tabane sum --check` reads.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tabane_engine::{Algorithm, Digest};
use tabane_files::Time;
use tabane_sum::{Accept, Format, Parser, Style, Sum};

use crate::run::lock;

/// A list of files with their hashes: in the end sorted by name and complete, under its name; until then, with what is done
/// so far, beside it with `.partial` behind the name.
pub struct Manifest {
    path: PathBuf,
    algorithm: Algorithm,
    previous: HashMap<Vec<u8>, Previous>,
    growing: Mutex<Growing>,
}

/// What an earlier run wrote of a file.
#[derive(Clone, Copy)]
pub struct Previous {
    /// The hash of its bytes.
    pub digest: Digest,
    /// When nothing that was changed by then was missed.
    pub time: Time,
}

struct Growing {
    partial: BufWriter<File>,
    lines: Vec<(Vec<u8>, Digest)>,
}

impl Manifest {
    /// Reads what earlier runs left, and begins anew.
    pub fn begin(path: &Path, algorithm: Algorithm) -> io::Result<Self> {
        let partial = with_suffix(path, ".partial");
        let mut previous = HashMap::new();
        for path in [path, &partial] {
            match fs::metadata(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                metadata => read(path, algorithm, &metadata?, &mut previous)?,
            }
        }
        // A new file, so that times say what was written when.
        let new = with_suffix(path, ".new");
        let file = File::create(&new)?;
        fs::rename(new, partial)?;
        Ok(Self {
            path: path.to_owned(),
            algorithm,
            previous,
            growing: Mutex::new(Growing {
                partial: BufWriter::with_capacity(64 << 10, file),
                lines: Vec::new(),
            }),
        })
    }

    /// Where it will be.
    pub fn path(&self) -> &PathBuf {
        &self.path
    }

    /// What an earlier run wrote of this file.
    pub fn previous(&self, file: &Path) -> Option<Previous> {
        self.previous.get(file.as_os_str().as_bytes()).copied()
    }

    /// A file is there, under its name.
    pub fn record(&self, file: &Path, digest: Digest) -> io::Result<()> {
        let name = file.as_os_str().as_bytes();
        let mut growing = lock(&self.growing);
        growing.partial.write_all(&self.line(name, digest))?;
        growing.lines.push((name.to_vec(), digest));
        Ok(())
    }

    /// Puts the complete list in its place.
    pub fn finish(&self, sync: bool) -> io::Result<()> {
        let mut growing = lock(&self.growing);
        growing.lines.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        growing.lines.dedup_by(|(a, _), (b, _)| a == b);
        let new = with_suffix(&self.path, ".new");
        let mut file = BufWriter::new(File::create(&new)?);
        for (name, digest) in &growing.lines {
            file.write_all(&self.line(name, *digest))?;
        }
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        if sync {
            file.sync_all()?;
        }
        fs::rename(new, &self.path)?;
        fs::remove_file(with_suffix(&self.path, ".partial"))
    }

    fn line(&self, name: &[u8], digest: Digest) -> Vec<u8> {
        let format = Format {
            style: Style::Tagged(self.algorithm),
            zero: false,
        };
        let mut line = Vec::with_capacity(name.len() + 64);
        let sum = Sum {
            digest,
            parts: None,
        };
        format.write(&sum, name, &mut line);
        line
    }
}

/// Adds what a manifest has. Lines of other algorithms, and what is no line, say nothing.
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
