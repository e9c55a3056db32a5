//! Rings that peers write into, so that bytes go from machine to machine without a copy in between.
//!
//! A receiver has a [`Ring`], memory that is set up once and reused. A sender knows the place of
//! the next *frame* in it, writes the frame there, and announces it by an *immediate*, a number
//! that comes with the bytes. Each consumer of a ring (to store, to relay, to add up) has a
//! [`Tail`] and reads frames where they lie; the writer never overtakes the slowest tail, since it
//! is told by *credit* how far that is. This is the pipeline of Otsuji and Tatebe's *A low-overhead
//! redundant writing method for distributed storage systems* (2013), section 6.
//!
//! What moves the bytes is an [`Endpoint`]: [`Tcp`] always, and with the feature `libfabric` also
//! `Fabric`, over what network cards can do. Nothing here knows what is in a frame.

mod endpoint;
#[cfg(feature = "libfabric")]
mod libfabric;
mod queue;
mod receiver;
mod ring;
mod sender;
/// What `tests/orders` of the models puts others in the place of, to choose the order of threads.
mod sync {
    pub use std::sync::{Condvar, Mutex, MutexGuard};
}
mod tcp;

pub use endpoint::{Endpoint, Queued};
#[cfg(feature = "libfabric")]
pub use libfabric::{Fabric, FabricListener, FabricRequest, providers};
pub use receiver::{Receiver, Tail};
pub use ring::{Ring, Vacancy};
pub use sender::{Flow, Sender};
pub use tcp::Tcp;

/// The divisor of a ring's length that bounds a frame, so that a sender which waits for credit
/// always gets it.
pub const FRAME_SHARE: usize = 4;
