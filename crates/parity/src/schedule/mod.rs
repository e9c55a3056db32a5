//! Transfers by which a stripe reaches its nodes: what the client sends, what nodes send to one
//! another, and how each cell arises from what arrived.
//!
//! When the client computes the parities it has to send them, which takes n/(n − 2) times what the
//! data alone would. Nodes can do that for it while data pass through them, so that every data
//! block enters the network once, at the node that keeps it. This is the idea of Otsuji and
//! Tatebe's paper (see [`Layout`](crate::Layout)); the [`Kind`]s differ in how often nodes send.

mod builder;
mod chain;
mod coded;
mod costs;
mod direct;
mod kind;
mod part;
mod rebuild;
mod shared;
mod transfer;
mod verify;

pub use coded::by_factors;
pub use costs::{Costs, fewest_transfers};
pub use kind::Kind;
pub use part::{Arrived, Part, Received, Sectors, Sent};
pub use rebuild::rebuild;
pub use transfer::{Node, Schedule, Transfer};
pub use verify::Fault;
