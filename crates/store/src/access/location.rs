//! Locations of repositories: directories, object stores, target sets, clusters; how each is
//! opened.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use tabane_storage::{RemoteOptions, Storage};
use tabane_striped::cluster::{self, Plan};

/// What a repository can be named by beside the forms of a single place.
const FORMS: &str =
    " or, over several of these, striped:FILE, or, over the nodes of a cluster, cluster:FILE";

/// A place for a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A folder or a URL.
    Single(tabane_storage::Location),
    /// Several places, which this file lists.
    Striped(PathBuf),
    /// The nodes of a cluster, which this file describes.
    Cluster(PathBuf),
}

impl Location {
    /// Reads what a person gave: a folder, `s3://…`, `gs://…`, `az://…`, `webdav+https://…`,
    /// `striped:FILE` or `cluster:FILE`.
    ///
    /// # Errors
    /// One sentence that says what is wrong and what is known.
    pub fn parse(given: impl AsRef<OsStr>) -> Result<Self, String> {
        let given = given.as_ref();
        match given.to_str().and_then(|text| text.split_once(':')) {
            Some(("striped", file)) if !file.is_empty() => Ok(Self::Striped(file.into())),
            Some(("cluster", file)) if !file.is_empty() => Ok(Self::Cluster(file.into())),
            _ => tabane_storage::Location::parse(given, FORMS).map(Self::Single),
        }
    }

    /// The storage at this place. A server is not spoken to before the first operation; the targets
    /// of a set are. For a folder both arguments are ignored: `open(&Default::default(),
    /// Plan::Auto)`. `plan` says how stripes are sent to the nodes of a cluster.
    ///
    /// # Errors
    /// When something that the service needs is missing from the environment, or too many targets
    /// are missing.
    pub fn open(
        &self,
        options: &RemoteOptions,
        plan: Plan,
    ) -> tabane_storage::Result<Arc<dyn Storage>> {
        match self {
            Self::Single(place) => place.open(options),
            Self::Striped(file) => Ok(Arc::new(tabane_striped::set_file::open_file(
                file, options,
            )?)),
            Self::Cluster(file) => Ok(Arc::new(cluster::open_file(file, options, plan)?)),
        }
    }
}
