//! What measurements need: timings, processors and their bounds, data, figures, and peers.

#![deny(unsafe_code)]

pub mod arguments;
pub mod cpus;
pub mod data;
pub mod drawing;
pub mod measure;
pub mod memory;
pub mod peak;
pub mod peers;
pub mod rounds;
pub mod timing;
pub mod tools;
