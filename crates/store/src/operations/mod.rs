//! What is done with a repository.

pub mod backup;
pub mod check;
mod cold;
pub mod commit;
pub mod content;
pub mod copy;
pub mod diff;
pub mod dump;
pub mod edit;
pub mod find;
pub mod forget;
pub mod history;
pub mod key_text;
pub mod locks;
mod merge;
mod migrate;
pub mod prune;
pub mod recover;
pub mod repack;
pub mod repair;
pub mod restore;
pub mod rewrite;
pub mod salvage;
pub mod snapshot_writer;
pub mod stats;
mod write_only;
