//! Errors of the code.

use std::fmt;

/// Why a layout, a plan or a run of one is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Fewer than three roles.
    TooFewRoles(usize),
    /// The layout has no role of this number.
    NoSuchRole {
        /// The number given.
        role: usize,
        /// Number of roles.
        roles: usize,
    },
    /// The same role twice.
    RoleTwice(usize),
    /// More roles are lost than the code can rebuild; their number.
    TooManyLost(usize),
    /// These cells cannot be recovered from the others.
    Unrecoverable(Vec<usize>),
    /// The number of buffers differs from the number of cells.
    CellCount {
        /// Buffers given.
        given: usize,
        /// Cells of the stripe.
        expected: usize,
    },
    /// The buffer of this cell differs in length from the other buffers.
    CellLength(usize),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFewRoles(roles) => write!(
                f,
                "{roles} targets are too few: surviving the loss of two takes at least 3"
            ),
            Self::NoSuchRole { role, roles } => write!(
                f,
                "there is no target {role}: {roles} targets are numbered 0 to {}",
                roles - 1
            ),
            Self::RoleTwice(role) => write!(f, "target {role} is named twice"),
            Self::TooManyLost(count) => write!(
                f,
                "{count} lost targets are too many: any two can be rebuilt, no more"
            ),
            Self::Unrecoverable(cells) => {
                write!(
                    f,
                    "{} cells cannot be recovered from the others",
                    cells.len()
                )
            }
            Self::CellCount { given, expected } => {
                write!(f, "{given} buffers given for a stripe of {expected} cells")
            }
            Self::CellLength(cell) => {
                write!(f, "the buffer of cell {cell} is not as long as the others")
            }
        }
    }
}

impl std::error::Error for Error {}
