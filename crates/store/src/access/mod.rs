//! Ways into a repository: opening it, finding blocks, reading and writing them, and the rules of
//! removal.

pub mod browse;
pub mod buffers;
pub mod client;
pub mod deep_stack;
pub(crate) mod early;
pub mod examine;
pub mod file_reader;
pub(crate) mod forgotten;
pub(crate) mod from_copies;
pub(crate) mod index_objects;
pub(crate) mod index_source;
pub mod known_blocks;
pub mod layout;
pub mod lister;
pub(crate) mod listing;
pub mod location;
pub mod memory;
pub(crate) mod nearby;
pub(crate) mod private_file;
pub mod reach;
pub mod reader;
pub mod removal;
pub mod repository;
pub mod segment_cache;
pub mod snapshots;
pub mod tree_ahead;
pub mod uploads;
pub mod writer;
