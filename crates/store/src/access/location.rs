//! Locations of repositories: directories, object stores, target sets, clusters; how each is
//! opened.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use tabane_storage::{RemoteOptions, Storage, StorageError, StorageErrorKind};
use tabane_striped::cluster::{self, Plan};

/// Forms of locations beside those of a single place, for messages.
const FORMS: &str =
    " or, over several of these, striped:FILE, or, over the nodes of a cluster, cluster:FILE";

/// A place for a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A folder or a URL.
    Single(tabane_storage::Location),
    /// A target set, which this file lists.
    Striped(PathBuf),
    /// A cluster, which this file describes.
    Cluster(PathBuf),
}

impl Location {
    /// Parses a location as a person writes it: a folder, `s3://…`, `gs://…`, `az://…`,
    /// `webdav+https://…`, `striped:FILE` or `cluster:FILE`.
    ///
    /// # Errors
    /// A sentence with the mistake and the known forms.
    pub fn parse(given: impl AsRef<OsStr>) -> Result<Self, String> {
        let given = given.as_ref();
        match given.to_str().and_then(|text| text.split_once(':')) {
            Some(("striped", file)) if !file.is_empty() => Ok(Self::Striped(file.into())),
            Some(("cluster", file)) if !file.is_empty() => Ok(Self::Cluster(file.into())),
            _ => tabane_storage::Location::parse(given, FORMS).map(Self::Single),
        }
    }

    /// Opens the storage. A server is contacted at the first operation, the targets of a set at
    /// once. For a folder both arguments are ignored: `open(&Default::default(), Plan::Auto)`.
    /// `plan` says how stripes are sent to the nodes of a cluster.
    ///
    /// # Errors
    /// When the environment lacks credentials of the service, or too many targets are missing.
    pub fn open(
        &self,
        options: &RemoteOptions,
        plan: Plan,
    ) -> tabane_storage::Result<Arc<dyn Storage>> {
        match self {
            Self::Single(place) => place.open(options),
            Self::Striped(_) | Self::Cluster(_) if options.lock.is_some() => {
                let text = "objects of several places cannot be locked together";
                Err(StorageError::new(StorageErrorKind::Unsupported, text))
            }
            Self::Striped(file) => Ok(Arc::new(tabane_striped::set_file::open_file(
                file, options,
            )?)),
            Self::Cluster(file) => Ok(Arc::new(cluster::open_file(file, options, plan)?)),
        }
    }
}
