//! Everything but speed, without a card.

mod bed;
mod card;
mod ciphers;
mod faults;
mod kernels;
mod ptx;
