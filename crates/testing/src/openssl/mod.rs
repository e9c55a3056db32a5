//! OpenSSL's libcrypto, opened at run time, with the provider of Tabane beside the default one: the
//! same operations in both, compared. For the provider's tests and its fuzz target.

pub mod choices;
pub mod ciphers;
pub mod digests;
pub mod libcrypto;
