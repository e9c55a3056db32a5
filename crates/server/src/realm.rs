//! Which repositories there are, and in which folders.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};

use tabane_storage::{
    Name, ObjectKind, Result, StorageError, StorageErrorKind, is_repository_name,
};

use crate::repository::Repository;

/// Finds repositories by what requests call them.
pub struct Realm {
    places: Places,
    opened: Mutex<HashMap<PathBuf, Arc<Repository>>>,
}

enum Places {
    /// Folders of this directory, by their names.
    Named(PathBuf),
    /// Folders by their paths, each one of these or below one; any if there are none.
    Paths(Vec<PathBuf>),
}

impl Realm {
    /// The repositories in a directory, by their names.
    pub fn named(directory: &Path) -> Self {
        Self::new(Places::Named(directory.to_owned()))
    }

    /// Repositories by their paths; with `roots`, only those at or below one of them.
    ///
    /// # Errors
    /// When a root is no directory.
    pub fn paths(roots: &[PathBuf]) -> Result<Self> {
        let root = |path: &PathBuf| {
            path.canonicalize().map_err(|error| {
                let text = format!("cannot use {}: {error}", path.display());
                StorageError::new(error.kind().into(), text)
            })
        };
        let roots = roots.iter().map(root).collect::<Result<_>>()?;
        Ok(Self::new(Places::Paths(roots)))
    }

    fn new(places: Places) -> Self {
        Self {
            places,
            opened: Mutex::default(),
        }
    }

    /// The repository of this name. It need not exist.
    ///
    /// # Errors
    /// [`StorageErrorKind::Unauthorized`] for a path out of the roots;
    /// [`StorageErrorKind::Invalid`] for what is no name.
    pub fn find(&self, name: &str) -> Result<Arc<Repository>> {
        let path = match &self.places {
            Places::Named(directory) if is_repository_name(name) => directory.join(name),
            Places::Named(_) => {
                let text = "it is no name of a repository";
                return Err(StorageError::new(StorageErrorKind::Invalid, text));
            }
            Places::Paths(roots) => {
                let path = resolve(Path::new(name))?;
                if !roots.is_empty() && !roots.iter().any(|root| path.starts_with(root)) {
                    let text = format!("this key gives no access to {name}");
                    return Err(StorageError::new(StorageErrorKind::Unauthorized, text));
                }
                path
            }
        };
        let mut opened = self.opened.lock().expect("no panic under this lock");
        if let Some(repository) = opened.get(&path) {
            return Ok(Arc::clone(repository));
        }
        if let Some(outer) = path.ancestors().skip(1).find(|above| is_repository(above)) {
            let text = format!("{name} is within the repository {}", outer.display());
            return Err(StorageError::new(StorageErrorKind::Invalid, text));
        }
        let repository = Arc::new(Repository::new(path.clone()));
        opened.insert(path, Arc::clone(&repository));
        Ok(repository)
    }

    /// The repositories that exist now.
    pub fn all(&self) -> Vec<(String, Arc<Repository>)> {
        let Places::Named(directory) = &self.places else {
            return Vec::new();
        };
        let Ok(entries) = directory.read_dir() else {
            return Vec::new();
        };
        let names = entries.filter_map(|entry| {
            let entry = entry.ok()?;
            let is_folder = entry.file_type().ok()?.is_dir();
            entry.file_name().into_string().ok().filter(|_| is_folder)
        });
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        let found = names.into_iter().filter_map(|name| {
            let repository = self.find(&name).ok()?;
            Some((name, repository))
        });
        found.collect()
    }
}

/// Whether a folder is a repository. Others may have a file of this name, too.
fn is_repository(folder: &Path) -> bool {
    folder.join(Name::CONFIG.path()).is_file() && folder.join(ObjectKind::Pack.name()).is_dir()
}

/// An absolute path without links; what is missing at its end has none.
fn resolve(given: &Path) -> Result<PathBuf> {
    let is_plain = given
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !is_plain || given.as_os_str().is_empty() {
        let text = "it is no path of a folder: it must have no . and no ..";
        return Err(StorageError::new(StorageErrorKind::Invalid, text));
    }
    let path = std::path::absolute(given)?;
    let mut missing = Vec::new();
    let mut there = path.as_path();
    loop {
        match there.canonicalize() {
            Ok(real) => {
                return Ok(missing
                    .iter()
                    .rev()
                    .fold(real, |path, name| path.join(name)));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                // A link that leads nowhere is no missing folder.
                if there.symlink_metadata().is_ok() {
                    return Err(error.into());
                }
                let (Some(above), Some(name)) = (there.parent(), there.file_name()) else {
                    return Err(error.into());
                };
                missing.push(name);
                there = above;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use tabane_storage::Storage;

    use super::*;

    #[test]
    fn paths_stay_within_their_roots() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for folder in ["a", "ab", "a/inner"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        symlink(root.join("ab"), root.join("a/out")).unwrap();
        symlink(root.join("nowhere"), root.join("a/dangling")).unwrap();
        symlink("inner", root.join("a/in")).unwrap();
        let realm = Realm::paths(&[root.join("a")]).unwrap();
        let find = |path: &str| {
            let found = realm.find(root.join(path).to_str().unwrap());
            found.map(|found| found.path().clone())
        };
        assert_eq!(find("a").unwrap(), root.join("a"));
        assert_eq!(find("a/new/deep").unwrap(), root.join("a/new/deep"));
        assert_eq!(find("a/in/x").unwrap(), root.join("a/inner/x"));
        for (path, kind) in [
            ("ab", StorageErrorKind::Unauthorized),
            ("a/out", StorageErrorKind::Unauthorized),
            ("a/out/x", StorageErrorKind::Unauthorized),
            ("", StorageErrorKind::Unauthorized),
            ("a/../ab", StorageErrorKind::Invalid),
            ("a/dangling/x", StorageErrorKind::NotFound),
        ] {
            assert_eq!(find(path).unwrap_err().kind(), kind, "{path}");
        }
        assert_eq!(
            realm.find("").err().unwrap().kind(),
            StorageErrorKind::Invalid
        );
        assert_eq!(
            realm.find("/etc").err().unwrap().kind(),
            StorageErrorKind::Unauthorized
        );
    }

    #[test]
    fn no_repository_is_within_another() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let realm = Realm::paths(std::slice::from_ref(&root)).unwrap();
        let find = |path: &str| realm.find(root.join(path).to_str().unwrap());
        let laptop = find("laptop").unwrap();
        laptop.storage().create().unwrap();
        laptop.storage().put(Name::CONFIG, &[b"x"]).unwrap();
        for inner in ["laptop/inner", "laptop/packs/00/inner"] {
            let refused = find(inner).err().unwrap();
            assert_eq!(refused.kind(), StorageErrorKind::Invalid, "{refused}");
        }
        assert!(find("laptop").is_ok() && find("desk").is_ok());
    }

    #[test]
    fn names_are_folders_of_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let realm = Realm::named(dir.path());
        assert_eq!(
            realm.find("laptop").unwrap().path(),
            &dir.path().join("laptop")
        );
        for name in ["", ".", "..", "a/b", "/etc", ".x", "a\0b", "größe"] {
            assert_eq!(
                realm.find(name).err().unwrap().kind(),
                StorageErrorKind::Invalid
            );
        }
    }
}
