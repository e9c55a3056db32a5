//! A code that survives the loss of any two of any number of targets, by exclusive or alone.
//!
//! A *stripe* is a table of *cells* of equal length: a column for each target's *role*, some rows. [`Layout`] says which
//! cells hold data and which parity. With n targets, (n − 2)/n of what is stored is data, which is the most that any code can
//! have that survives two losses.
//!
//! ```
//! use tabane_parity::{Layout, encode, repair};
//!
//! let layout = Layout::new(5)?;
//! let mut cells = vec![vec![0; 100]; layout.cells()];
//! for (number, &cell) in layout.data_cells().iter().enumerate() {
//!     cells[cell].fill(number as u8);
//! }
//! encode(&layout, &mut cells)?;
//! let whole = cells.clone();
//! for lost in [1, 2].into_iter().flat_map(|role| layout.cells_of_role(role)) {
//!     cells[lost].fill(0xff);
//! }
//! repair(&layout, &mut cells, &[1, 2])?;
//! assert_eq!(cells, whole);
//! # Ok::<(), tabane_parity::Error>(())
//! ```
//!
//! - [`encode_plan`], [`repair_plan`], [`recover_plan`] and [`update_plan`] say what is computed from what, as data;
//!   [`encode`], [`repair`] and [`update`] do it.
//! - [`schedule`] says how parities arise while data are on their way: which node sends what to which.
//!
//! Nothing here does input or output, or has threads. The code is described in `docs/parity.md`.

#![forbid(unsafe_code)]

mod encode;
mod error;
mod gf2;
mod layout;
mod plan;
mod repair;
pub mod schedule;
mod stripe;

pub use encode::encode;
pub use error::Error;
pub use layout::{Content, Layout};
pub use plan::{Plan, Step, encode_plan, update_plan};
pub use repair::{fewest_reads, recover_plan, repair_plan};
pub use stripe::{Buffer, repair, update};
