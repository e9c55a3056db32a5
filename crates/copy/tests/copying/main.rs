//! Copies trees and looks at what comes of it.

#![forbid(unsafe_code)]

mod bed;
mod changes;
#[path = "../../../store/tests/common/compare.rs"]
#[allow(dead_code)]
mod compare;
mod killed;
#[path = "../../../store/tests/common/mount.rs"]
#[allow(dead_code)]
mod mount;
mod reread;
#[path = "../../../store/tests/common/tree.rs"]
#[allow(dead_code)]
mod tree;
mod trees;

// What the modules of the store's tests ask for.
use bed::{is_root, not_checked};
