//! The peak model: how fast this processor could run a kernel at best, from what its ports were
//! measured to do.
//!
//! Nothing is assumed about the processor. On start, loops of one class of vector instruction, of
//! each pair of classes and of all of them are timed (`kernels`), each beside a chain of additions
//! of one cycle each, which tells the clock. From that and a kernel's counts of operations follows
//! the least number of cycles (`bound`).
//!
//! Loops are written for x86-64. On other processors there is no model.

mod bound;
mod class;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "loops of chosen instructions are assembler")]
mod kernels;
#[cfg(target_arch = "x86_64")]
mod measure;
mod model;
mod width;
pub mod work;

pub use bound::{Operations, Ports};
pub use class::Class;
#[cfg(target_arch = "x86_64")]
pub use measure::{clock_hz, measure};
pub use model::Model;
pub use width::Width;

/// There are no kernels for this processor.
#[cfg(not(target_arch = "x86_64"))]
pub fn measure() -> Option<Model> {
    None
}

/// Nothing counts cycles here.
#[cfg(not(target_arch = "x86_64"))]
pub fn clock_hz() -> Option<f64> {
    None
}
