#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod cluster;
pub mod groups;
pub mod offload;
pub mod removal;
pub mod report;
