//! Copies trees and looks at what comes of it.

#![forbid(unsafe_code)]

mod bed;
mod changes;
mod killed;
mod reread;
mod trees;
