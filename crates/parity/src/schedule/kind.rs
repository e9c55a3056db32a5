//! The kinds of schedules, and their constructors.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use super::transfer::Schedule;
use super::{chain, coded, direct, shared};
use crate::Layout;

/// Schedules for fewer roles are kept once they are made.
const KEPT_ROLES: usize = 33;

/// The ways to make a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The client sends all cells.
    Direct,
    /// A running exclusive or goes along each row and each diagonal, as in the paper: 2 transfers a
    /// data block.
    Chain,
    /// Each data block goes to the node of its row parity, which can then stand in for its node
    /// when diagonals are gathered: 1.5 transfers a data block.
    Shared,
    /// Nodes send sums of what they keep and what they have received: the fewest transfers that
    /// there can be, or a few more: from 1.5 a data block (4 roles) to 1.07 (32). Only for 4 to 32
    /// roles.
    Coded,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Direct, Self::Chain, Self::Shared, Self::Coded];

    /// `direct`, `chain`, `shared`, `coded`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Chain => "chain",
            Self::Shared => "shared",
            Self::Coded => "coded",
        }
    }

    /// The schedule of this kind for a layout; only [`Kind::Coded`] may have none. For up to 32
    /// roles it is made once: that can take hundredths of a second, and each stripe needs it.
    pub fn schedule(self, layout: &Layout) -> Option<Schedule> {
        static KEPT: [[OnceLock<Option<Schedule>>; KEPT_ROLES]; Kind::ALL.len()] =
            [const { [const { OnceLock::new() }; KEPT_ROLES] }; Kind::ALL.len()];
        match KEPT[self as usize].get(layout.roles()) {
            Some(kept) => kept.get_or_init(|| self.make(layout)).clone(),
            None => self.make(layout),
        }
    }

    fn make(self, layout: &Layout) -> Option<Schedule> {
        match self {
            Self::Direct => Some(direct::schedule(layout)),
            Self::Chain => Some(chain::schedule(layout)),
            Self::Shared => Some(shared::schedule(layout)),
            Self::Coded => coded::schedule(layout),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let kind = Self::ALL.into_iter().find(|kind| kind.name() == name);
        kind.ok_or_else(|| "there are direct, chain, shared and coded".to_owned())
    }
}
