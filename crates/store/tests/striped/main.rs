//! Repositories over several targets: what survives, what is healed, and what is refused.

#[path = "../common/mod.rs"]
mod common;

mod bed;
mod degraded;
mod kills;
mod loss;
mod refusals;
mod server;
mod torn;
