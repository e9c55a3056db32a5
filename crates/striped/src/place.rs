//! Places of targets: a URL and a storage.

use std::sync::Arc;

use tabane_storage::Storage;

/// Scheme of URLs of nodes.
const NODE_SCHEME: &str = "node://";

/// A place that holds a target or is to hold one.
#[derive(Clone)]
pub struct Place {
    /// The URL as given by a person.
    pub url: String,
    /// The storage at this URL.
    pub storage: Arc<dyn Storage>,
}

/// The URL by which sets know the node of this name.
pub fn node_url(node: &str) -> String {
    format!("{NODE_SCHEME}{node}")
}

/// Whether a target with this URL is a node of a cluster.
pub fn is_node_url(url: &str) -> bool {
    url.starts_with(NODE_SCHEME)
}
