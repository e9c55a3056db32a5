//! The proof of a schedule: what every transfer carries, as a vector over the data blocks.

use std::fmt;

use super::transfer::{Node, Schedule};
use crate::Layout;
use crate::gf2::{Vector, cell_vectors};

/// What is wrong with a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// This transfer names a role or a data block that the layout does not have.
    Nonsense(usize),
    /// This transfer is made of something that has not arrived at its sender before.
    NotThere(usize),
    /// This cell is made of something that does not arrive at its role.
    NotArrived(usize),
    /// This cell is not what the layout wants it to be.
    WrongCell(usize),
    /// Not one list for each cell.
    CellCount(usize),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nonsense(number) => write!(f, "transfer {number} makes no sense"),
            Self::NotThere(number) => {
                write!(
                    f,
                    "transfer {number} sends what its sender does not have yet"
                )
            }
            Self::NotArrived(cell) => write!(f, "cell {cell} needs what does not arrive there"),
            Self::WrongCell(cell) => write!(f, "cell {cell} gets something else"),
            Self::CellCount(count) => write!(f, "it is for {count} cells"),
        }
    }
}

impl std::error::Error for Fault {}

impl Schedule {
    /// Checks that every sender has what it sends, and that every cell becomes what the layout
    /// says.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong.
    pub fn verify(&self, layout: &Layout) -> Result<(), Fault> {
        if self.stores.len() != layout.cells() {
            return Err(Fault::CellCount(self.stores.len()));
        }
        let carried = self.carried(layout)?;
        for (cell, (of, wanted)) in self.stores.iter().zip(cell_vectors(layout)).enumerate() {
            let role = layout.role_of(cell);
            if !of
                .iter()
                .all(|&number| self.arrived(number, role, carried.len()))
            {
                return Err(Fault::NotArrived(cell));
            }
            if Vector::sum(of.iter().map(|&number| &carried[number])) != wanted {
                return Err(Fault::WrongCell(cell));
            }
        }
        Ok(())
    }

    /// The data blocks whose exclusive or each transfer is.
    ///
    /// # Errors
    ///
    /// If a sender does not have what it sends.
    pub fn contents(&self, layout: &Layout) -> Result<Vec<Vec<usize>>, Fault> {
        let carried = self.carried(layout)?;
        Ok(carried
            .iter()
            .map(|vector| vector.ones().collect())
            .collect())
    }

    fn carried(&self, layout: &Layout) -> Result<Vec<Vector>, Fault> {
        let blocks = layout.data_cells().len();
        let mut carried: Vec<Vector> = Vec::with_capacity(self.transfers.len());
        for (number, transfer) in self.transfers.iter().enumerate() {
            let of = || transfer.of.iter().copied();
            let sum = match transfer.from {
                _ if transfer.to >= layout.roles() => return Err(Fault::Nonsense(number)),
                Node::Client if of().any(|block| block >= blocks) => {
                    return Err(Fault::Nonsense(number));
                }
                Node::Client => Vector::sum(&of().map(Vector::unit).collect::<Vec<_>>()),
                Node::Role(role) if role >= layout.roles() || role == transfer.to => {
                    return Err(Fault::Nonsense(number));
                }
                Node::Role(role) if !of().all(|earlier| self.arrived(earlier, role, number)) => {
                    return Err(Fault::NotThere(number));
                }
                Node::Role(_) => Vector::sum(of().map(|earlier| &carried[earlier])),
            };
            carried.push(sum);
        }
        Ok(carried)
    }

    /// Whether a transfer goes to a role, and is among the first `sent`.
    fn arrived(&self, number: usize, role: usize, sent: usize) -> bool {
        number < sent && self.transfers[number].to == role
    }
}
