//! Ways into a repository: opening it, finding blocks, reading and writing them, and the rules of removal.

pub mod browse;
pub mod buffers;
pub mod cache;
pub mod client;
pub mod commit;
pub mod deep_stack;
pub mod examine;
pub mod file_reader;
pub mod host;
pub mod index;
pub mod location;
pub mod reach;
pub mod reader;
pub mod removal;
pub mod repository;
pub mod segment_cache;
pub mod tree_ahead;
pub mod writer;
