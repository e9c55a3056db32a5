//! The tests of nodes once more, with nodes that take their data over libfabric.
#![cfg(feature = "libfabric")]

#[path = "nodes.rs"]
mod nodes;
