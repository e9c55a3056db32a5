//! The code, its plans and its schedules, compared with an independent solver.

#![forbid(unsafe_code)]

mod bytes;
mod layout;
mod losses;
mod parts;
mod reads;
mod reference;
mod schedules;
