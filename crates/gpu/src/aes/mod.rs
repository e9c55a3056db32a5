//! AES-128 and AES-256 (FIPS 197) of many messages: ECB, CTR and CBC (NIST SP 800-38A).
//!
//! No GCM: its hash is a product of polynomials, for which cards have no instruction, while a
//! processor's core does the whole of GCM at the rate at which a card's bus brings the data.

mod cipher;
mod expand;
pub(crate) mod kernels;
mod tables;

pub use cipher::{Aes, Design, Items, Message, Mode};
