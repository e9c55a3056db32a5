//! The pages, one a file.

pub mod browse;
pub mod compare;
pub mod jobs;
pub mod login;
pub mod overview;
pub mod redundancy;
pub mod restore;
pub mod retention;
pub mod search;
pub mod snapshots;
pub mod versions;
