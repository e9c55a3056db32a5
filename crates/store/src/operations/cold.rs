//! Packs that a restore reads, and whether they can be read now.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use tabane_patterns::{IncludeOptions, Includes, Selection};
use tabane_storage::sync::try_each;
use tabane_storage::{Id, Name, ObjectKind, StorageErrorKind};

use crate::access::browse::Browser;
use crate::access::repository::Repository;
use tabane_format::entry::{self, Entry, Kind};
use tabane_format::{Error, Result};

/// Packs with contents of files.
#[derive(Clone, Debug, Default)]
pub struct Needed {
    /// Each with its length in bytes, sorted by ID.
    pub packs: Vec<(Id, u64)>,
}

impl Repository {
    /// The packs that a restore of what is chosen of `top`, an entry at the path `at`, reads.
    ///
    /// # Errors
    /// When the storage fails; a directory that is missing or damaged.
    pub fn packs_of(
        &self,
        browser: &mut Browser,
        at: &Path,
        top: &Entry,
        includes: &IncludeOptions,
    ) -> Result<Needed> {
        let includes = Includes::new(includes).map_err(Error::pattern)?;
        let mut packs = BTreeSet::new();
        let mut directories = vec![(at.to_owned(), includes.select_directory(at), top.clone())];
        while let Some((path, selection, entry)) = directories.pop() {
            if let Kind::File { .. } = entry.kind {
                for (block, _) in entry::blocks(&entry) {
                    let index = browser.index();
                    let place = index.find(&block)?.ok_or(Error::MissingBlock(block))?;
                    packs.insert(index.pack_of(place)?.id);
                }
                continue;
            }
            let Some(content) = entry.directory() else {
                continue;
            };
            for below in browser.directory(content)? {
                let path = path.join(entry_name(&below));
                let is_directory = below.directory().is_some();
                let chosen = includes.select(&path, is_directory, selection);
                if chosen != Selection::Skip {
                    directories.push((path, chosen, below));
                }
            }
        }
        let lens: HashMap<Id, u64> = self.list(ObjectKind::Pack)?.into_iter().collect();
        let len = |pack: Id| (pack, lens.get(&pack).copied().unwrap_or(0));
        Ok(Needed {
            packs: packs.into_iter().map(len).collect(),
        })
    }

    /// Those of these packs that must be brought back from an archive before they can be read.
    ///
    /// # Errors
    /// When the storage fails.
    pub fn cold_packs(&self, packs: &[(Id, u64)]) -> Result<Vec<(Id, u64)>> {
        let cold = try_each(packs, self.storage().connections(), |&(pack, len)| {
            let name = Name::new(ObjectKind::Pack, pack);
            match self.storage().get(name, Some(0..1)) {
                Ok(_) => Ok(None),
                Err(error) if error.kind() == StorageErrorKind::Cold => Ok(Some((pack, len))),
                Err(error) => Err(Error::storage("read", name)(error)),
            }
        })?;
        Ok(cold.into_iter().flatten().collect())
    }

    /// The path of a pack below the place of the repository.
    pub fn path_of_pack(&self, pack: Id) -> String {
        Name::new(ObjectKind::Pack, pack).path()
    }
}

fn entry_name(entry: &Entry) -> &std::ffi::OsStr {
    use std::os::unix::ffi::OsStrExt;
    std::ffi::OsStr::from_bytes(&entry.name)
}
