//! Repositories over several targets: what survives, what is healed, and what is refused.

#[path = "../common/mod.rs"]
mod common;

mod bed;
mod beyond_repair;
mod degraded;
mod folders;
mod groups;
mod kills;
mod loss;
mod migrate;
mod refusals;
mod server;
mod torn;
