//! Versions of a tree: what a day's work changes in it, and a large file that no compression makes
//! smaller.

use std::fs;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tabane_testing::disk;
use tabane_testing::random::Random;

/// One file in so many is changed.
const FILES_PER_CHANGE: usize = 100;
/// Files of this many bytes are always changed.
const ALWAYS_FROM_BYTES: u64 = 256 << 20;
/// So many times are bytes inserted into one of those, and so many bytes each time.
const INSERTIONS: u64 = 100;
const INSERTED_BYTES: usize = 100;

/// Adds a file of `mebibytes` random MiB to the tree.
pub fn add_incompressible(tree: &Path, mebibytes: u64) -> Result<()> {
    let path = tree.join("incompressible");
    let doing = || format!("cannot write {}", path.display());
    let mut random = Random::new(mebibytes);
    let mut file = BufWriter::new(fs::File::create_new(&path).with_context(doing)?);
    for _ in 0..mebibytes {
        file.write_all(&random.noise(1 << 20)).with_context(doing)?;
    }
    file.flush().with_context(doing)
}

/// Puts a line in the middle of every hundredth file, and a hundred lines throughout each very
/// large one. Lines are others for every `seed`.
pub fn change_few(tree: &Path, seed: u64) -> Result<()> {
    let mut files: Vec<(PathBuf, u64)> = Vec::new();
    disk::walk(tree, &mut |path, metadata| {
        if metadata.is_file() {
            files.push((path.to_owned(), metadata.len()));
        }
        Ok(())
    })?;
    files.sort();
    let mut random = Random::new(seed);
    for (index, (path, bytes)) in files.iter().enumerate() {
        let insertions = match *bytes {
            ALWAYS_FROM_BYTES.. => INSERTIONS,
            _ if index % FILES_PER_CHANGE == 0 => 1,
            _ => continue,
        };
        insert(path, insertions, &mut random)
            .with_context(|| format!("cannot change {}", path.display()))?;
    }
    Ok(())
}

/// Inserts random bytes in so many places, evenly far from each other. Not in memory: a process
/// that is started begins with the peak of the one that started it.
fn insert(path: &Path, insertions: u64, random: &mut Random) -> Result<()> {
    let mut old = fs::File::open(path)?;
    let part = old.metadata()?.len() / (insertions + 1);
    let directory = path.parent().context("a file is in a directory")?;
    let mut new = tempfile::NamedTempFile::new_in(directory)?;
    for _ in 0..insertions {
        io::copy(&mut (&old).take(part), &mut new)?;
        new.write_all(&random.noise(INSERTED_BYTES))?;
    }
    io::copy(&mut old, &mut new)?;
    fs::set_permissions(new.path(), old.metadata()?.permissions())?;
    new.persist(path)?;
    Ok(())
}

/// Entries of a tree that have about half of its bytes together.
///
/// # Errors
/// When a directory cannot be read.
pub fn half_of(tree: &Path) -> Result<Vec<PathBuf>> {
    let total = disk::census(tree)?.bytes;
    let (mut chosen, mut bytes, mut directory) = (Vec::new(), 0, tree.to_owned());
    // What would make more than half is divided further.
    for _ in 0..4 {
        let mut entries: Vec<PathBuf> = fs::read_dir(&directory)?
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<_>>()?;
        entries.sort();
        let mut too_large = None;
        for entry in entries {
            let metadata = fs::symlink_metadata(&entry)?;
            let len = if metadata.is_dir() {
                disk::census(&entry)?.bytes
            } else {
                metadata.len()
            };
            if bytes + len <= total / 2 {
                bytes += len;
                chosen.push(entry);
            } else if entry.is_dir() && too_large.is_none() {
                too_large = Some(entry);
            }
        }
        let Some(next) = too_large else { break };
        directory = next;
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hundredth_file_gets_a_line() {
        let tree = tempfile::tempdir().expect("a directory");
        for index in 0..250 {
            fs::write(tree.path().join(format!("{index:03}")), [7; 10]).expect("written");
        }
        change_few(tree.path(), 1).expect("changed");
        let changed = |index: usize| {
            let bytes = fs::read(tree.path().join(format!("{index:03}"))).expect("read");
            assert_eq!(bytes[..5], [7; 5]);
            assert_eq!(bytes[bytes.len() - 5..], [7; 5]);
            bytes.len() == 110
        };
        let which: Vec<usize> = (0..250).filter(|&index| changed(index)).collect();
        assert_eq!(which, [0, 100, 200]);
    }

    #[test]
    fn large_files_are_changed_in_many_places() {
        let tree = tempfile::tempdir().expect("a directory");
        add_incompressible(tree.path(), 1).expect("made");
        let path = tree.path().join("incompressible");
        let old = fs::read(&path).expect("read");
        assert_eq!(old.len(), 1 << 20);
        insert(&path, INSERTIONS, &mut Random::new(2)).expect("changed");
        let new = fs::read(&path).expect("read");
        assert_eq!(new.len(), old.len() + 100 * 100);
        let part = old.len() / 101;
        assert_eq!(new[..part], old[..part]);
        assert_eq!(new[part + 100..][..part], old[part..2 * part]);
        assert_eq!(new[new.len() - part..], old[old.len() - part..]);
    }
}
