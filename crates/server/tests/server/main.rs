//! A server and its clients, in one process.

#![forbid(unsafe_code)]

mod bed;
mod intruder;
mod liar;
mod listening;
mod rules;
