//! The provider as OpenSSL sees it: the system's libcrypto, opened at run time, loads it, and the
//! default provider beside it answers the same questions.

mod ciphers;
mod corpus;
mod digests;
mod misuse;
mod offload;
mod pipeline;
mod programs;
mod tls;
mod together;
mod unload;
