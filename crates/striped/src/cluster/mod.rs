//! One repository over the nodes of a cluster: [striped storage](crate::StripedStorage) whose
//! targets are nodes, which can make the parities of a stripe among themselves.
//!
//! What is stored is byte for byte what striped storage writes to any other targets, whoever
//! computed it. `docs/cluster.md` is for users, `docs/wire.md` says what goes over the network.

pub mod file;
mod limits;
mod mixer;
mod node;
mod relay;
mod session;
pub mod tls;
pub mod wire;

use std::path::Path;
use std::sync::Arc;

use tabane_storage::{Name, RemoteOptions, Result, StorageErrorKind};

use crate::place::Place;
use crate::striped::StripedStorage;
use file::ClusterFile;
use limits::Limits;
use relay::Relay;

pub use crate::place::node_url;
pub use node::NodeStorage;
pub use relay::Plan;
pub use session::{Rings, STALL_TIMEOUT, data_endpoint};

/// Opens the repository over the cluster that a file describes.
///
/// # Errors
/// [`StorageErrorKind::NotFound`] when there is no such file, or nothing on any node yet; as [`StripedStorage::open`].
pub fn open_file(path: &Path, options: &RemoteOptions, plan: Plan) -> Result<StripedStorage> {
    let limits = Arc::new(Limits::new(options));
    let places = places(path, &limits)?;
    let location = format!("cluster:{}", path.display());
    let opened = StripedStorage::open(location, places.clone(), options.notice.clone());
    match opened {
        Ok(storage) => Ok(storage.with_sender(Box::new(Relay::new(plan, limits)))),
        Err(error) => Err(if places.iter().all(is_blank) {
            StorageErrorKind::NotFound.into()
        } else {
            error
        }),
    }
}

/// Makes the nodes of a cluster targets of one set. What was interrupted goes on.
///
/// # Errors
/// As [`StripedStorage::form`].
pub fn form(path: &Path) -> Result<()> {
    StripedStorage::form(places(path, &Arc::default())?, false)
}

/// The nodes that a file names; nothing is asked yet.
///
/// # Errors
/// When the file cannot be used.
pub fn nodes(path: &Path) -> Result<Vec<Arc<NodeStorage>>> {
    nodes_within(path, &Arc::default())
}

fn nodes_within(path: &Path, limits: &Arc<Limits>) -> Result<Vec<Arc<NodeStorage>>> {
    let file = ClusterFile::read(path)?;
    let config = tls::client(&file.credentials)?;
    let nodes = file.nodes.into_iter();
    Ok(nodes
        .map(|node| NodeStorage::new(node, Arc::clone(&config), Arc::clone(limits)))
        .map(Arc::new)
        .collect())
}

/// The place of a node, as sets know it.
pub fn place(node: Arc<NodeStorage>) -> Place {
    Place {
        url: node_url(node.name()),
        storage: node,
    }
}

fn places(path: &Path, limits: &Arc<Limits>) -> Result<Vec<Place>> {
    let nodes = nodes_within(path, limits)?;
    Ok(nodes.into_iter().map(place).collect())
}

/// Whether a node answers and has nothing.
fn is_blank(place: &Place) -> bool {
    let answer = place.storage.stat(Name::TARGET);
    answer.is_err_and(|error| error.kind() == StorageErrorKind::NotFound)
}
