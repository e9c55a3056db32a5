#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod error;
mod exclude;
mod expand;
mod include;
mod marker;
mod pattern;
mod scope;

pub use error::PatternError;
pub use exclude::{ExcludeOptions, Excludes};
pub use expand::expand;
pub use include::{IncludeOptions, Includes, Selection};
pub use scope::{Entered, Problem, Scope};
