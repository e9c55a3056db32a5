//! Where targets are.

use std::sync::Arc;

use tabane_storage::Storage;

/// What URLs of nodes begin with.
const NODE_SCHEME: &str = "node://";

/// A place that is to hold a target.
#[derive(Clone)]
pub struct Place {
    /// As a person gave it.
    pub url: String,
    /// What is there.
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
