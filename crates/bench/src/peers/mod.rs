//! Other programs and libraries that do what the lanes do, each run as a process of its own.

pub mod ipsec_mb;
pub mod macs;
pub mod openssl;
#[cfg(feature = "libfabric")]
pub mod rma_bw;
