//! Everything but speed, without a card.

mod bed;
mod card;
mod ciphers;
mod faults;
mod gear;
mod kernels;
mod ptx;
