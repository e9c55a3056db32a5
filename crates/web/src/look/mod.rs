//! The parts that pages are made of. `README.md` describes the whole look.

pub mod calendar;
pub mod chart;
pub mod crumbs;
pub mod frame;
pub mod icons;
pub mod words;

pub use crumbs::crumbs;
pub use frame::{Nav, Tab, frame};
pub use words::{ago, bytes, clock, every, name, path_text, sentence, sum, time};
