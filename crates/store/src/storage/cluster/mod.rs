//! One repository over the nodes of a cluster: [striped storage](super::striped) whose targets are nodes, which can make the
//! parities of a stripe among themselves.
//!
//! What is stored is byte for byte what striped storage writes to any other targets, whoever computed it. `docs/cluster.md` is for
//! users, `docs/wire.md` says what goes over the network.

pub mod file;
mod limits;
mod mixer;
mod node;
mod relay;
mod session;
pub mod tls;
pub mod wire;

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::striped::{Place, StripedStorage};
use super::{Name, RemoteOptions};
use file::ClusterFile;
use limits::Limits;

pub use node::NodeStorage;
pub use relay::{Placed, Plan, Puts, Relay, Relayed};
pub use session::{Rings, STALL, data_endpoint};

pub(crate) use super::striped::container::xxh128;

/// Opens the repository over the cluster that a file describes.
///
/// # Errors
/// [`io::ErrorKind::NotFound`] when there is no such file, or nothing on any node yet; as [`StripedStorage::open`].
pub fn open_file(path: &Path, options: &RemoteOptions) -> io::Result<StripedStorage> {
    let limits = Arc::new(Limits::new(options));
    let places = places(path, &limits)?;
    let location = format!("cluster:{}", path.display());
    let opened = StripedStorage::open(location, places.clone(), options.notice.clone());
    match opened {
        Ok(storage) => Ok(storage.with_relay(Relay::new(options.plan, limits))),
        Err(error) => Err(match places.iter().all(is_blank) {
            true => io::ErrorKind::NotFound.into(),
            false => error,
        }),
    }
}

/// Makes the nodes of a cluster targets of one set. What was interrupted goes on.
///
/// # Errors
/// As [`StripedStorage::form`].
pub fn form(path: &Path) -> io::Result<()> {
    StripedStorage::form(places(path, &Arc::default())?, false)
}

/// The nodes that a file names; nothing is asked yet.
///
/// # Errors
/// When the file cannot be used.
pub fn nodes(path: &Path) -> io::Result<Vec<Arc<NodeStorage>>> {
    nodes_within(path, &Arc::default())
}

fn nodes_within(path: &Path, limits: &Arc<Limits>) -> io::Result<Vec<Arc<NodeStorage>>> {
    let file = ClusterFile::read(path)?;
    let config = tls::client(&file.credentials)?;
    let nodes = file.nodes.into_iter();
    Ok(nodes
        .map(|node| NodeStorage::new(node, Arc::clone(&config), Arc::clone(limits)))
        .map(Arc::new)
        .collect())
}

/// What URLs of nodes begin with.
const SCHEME: &str = "node://";

/// By which URL sets know the node of this name.
pub fn url(node: &str) -> String {
    format!("{SCHEME}{node}")
}

/// Whether that is the URL of a node.
pub(super) fn is_url(url: &str) -> bool {
    url.starts_with(SCHEME)
}

/// The place of a node, as sets know it.
pub fn place(node: Arc<NodeStorage>) -> Place {
    Place {
        url: url(node.name()),
        storage: node,
    }
}

fn places(path: &Path, limits: &Arc<Limits>) -> io::Result<Vec<Place>> {
    let nodes = nodes_within(path, limits)?;
    Ok(nodes.into_iter().map(place).collect())
}

/// Whether a node answers and has nothing.
fn is_blank(place: &Place) -> bool {
    let answer = place.storage.stat(Name::TARGET);
    answer.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}
