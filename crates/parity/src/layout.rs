//! Which cell of a stripe holds what.

use crate::Error;

/// A stripe over a number of targets: a table with a column for each *role* that a target can have.
///
/// With `n` roles, roles 0 to n − 2 are *row roles* and role n − 1 is the *diagonal role*. `p` is
/// the smallest prime that is at least n − 1 (and at least 3); there are p − 1 rows. Row `r` of
/// role `c` is cell `c · (p − 1) + r`, so that the cells of a role are neighbours.
///
/// - Cell (r, c) of the row roles lies on diagonal (r + c) mod p. Diagonal p − 2 has no parity.
/// - The parity of row r is the exclusive or of the data in that row. It is in column p − 2 − r,
///   which is on the diagonal without parity, or, where there is no such column, in the column with
///   the fewest parities.
/// - The diagonal role holds the exclusive or of each other diagonal, row parities that lie there
///   included.
///
/// Any two columns can be rebuilt from the remaining ones. For five roles this is figure 3 of
/// *Low-overhead redundant writes for distributed storage* (Otsuji, Tatebe, 2013); its equations
/// are those of RDP (Corbett et al., FAST 2004) without the columns that are not needed, and with
/// row parities spread over the row roles.
///
/// ```
/// use tabane_parity::{Content, Layout};
///
/// let layout = Layout::new(5)?;
/// assert_eq!((layout.rows(), layout.data_cells().len()), (4, 12));
/// assert_eq!(layout.content(layout.cell(3, 0)), Content::RowParity(0));
/// # Ok::<(), tabane_parity::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    roles: usize,
    prime: usize,
    /// The column of the parity of each row.
    parity_column: Vec<usize>,
    /// The cells that hold data, in the order of the data.
    data: Vec<usize>,
}

/// The content of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The data block of this number.
    Data(usize),
    /// The parity of this row.
    RowParity(usize),
    /// The parity of this diagonal.
    DiagonalParity(usize),
}

impl Layout {
    /// The layout for `roles` roles.
    ///
    /// # Errors
    ///
    /// [`Error::TooFewRoles`] for fewer than three.
    pub fn new(roles: usize) -> Result<Self, Error> {
        if roles < 3 {
            return Err(Error::TooFewRoles(roles));
        }
        let columns = roles - 1;
        let prime = (columns.max(3)..)
            .find(|&number| is_prime(number))
            .expect("there is always a larger prime");
        let mut parities = vec![0; columns];
        let parity_column: Vec<usize> = (0..prime - 1)
            .map(|row| {
                let fewest = || (0..columns).min_by_key(|&column| parities[column]);
                let column = Some(prime - 2 - row).filter(|&column| column < columns);
                let column = column.or_else(fewest).expect("there are columns");
                parities[column] += 1;
                column
            })
            .collect();
        let mut layout = Self {
            roles,
            prime,
            parity_column,
            data: Vec::new(),
        };
        layout.data = (0..layout.rows())
            .flat_map(|row| (0..columns).map(move |column| (row, column)))
            .filter(|&(row, column)| layout.parity_column[row] != column)
            .map(|(row, column)| layout.cell(column, row))
            .collect();
        Ok(layout)
    }

    /// Number of roles.
    pub fn roles(&self) -> usize {
        self.roles
    }

    /// The prime that the diagonals are counted by.
    pub fn prime(&self) -> usize {
        self.prime
    }

    /// Number of rows: the cells of each role.
    pub fn rows(&self) -> usize {
        self.prime - 1
    }

    /// Number of cells.
    pub fn cells(&self) -> usize {
        self.roles * self.rows()
    }

    /// The cells that hold data, in the order of the data: row by row.
    pub fn data_cells(&self) -> &[usize] {
        &self.data
    }

    /// The number of the cell in this row of this role.
    pub fn cell(&self, role: usize, row: usize) -> usize {
        role * self.rows() + row
    }

    /// The role that holds a cell.
    pub fn role_of(&self, cell: usize) -> usize {
        cell / self.rows()
    }

    /// The row of a cell within its role.
    pub fn row_of(&self, cell: usize) -> usize {
        cell % self.rows()
    }

    /// The cells of a role.
    pub fn cells_of_role(&self, role: usize) -> std::ops::Range<usize> {
        self.cell(role, 0)..self.cell(role + 1, 0)
    }

    /// The role that holds the diagonal parities; the others are row roles.
    pub fn diagonal_role(&self) -> usize {
        self.roles - 1
    }

    /// The content of a cell.
    pub fn content(&self, cell: usize) -> Content {
        let (role, row) = (self.role_of(cell), self.row_of(cell));
        if role == self.diagonal_role() {
            Content::DiagonalParity(if row == self.prime - 2 {
                self.prime - 1
            } else {
                row
            })
        } else if self.parity_column[row] == role {
            Content::RowParity(row)
        } else {
            let of_rows_before = row * (self.roles - 2);
            let behind_parity = usize::from(role > self.parity_column[row]);
            Content::Data(of_rows_before + role - behind_parity)
        }
    }

    /// The cells of the row roles in a row.
    pub fn row(&self, row: usize) -> impl Iterator<Item = usize> {
        (0..self.roles - 1).map(move |role| self.cell(role, row))
    }

    /// The cell with the parity of a row.
    pub fn row_parity(&self, row: usize) -> usize {
        self.cell(self.parity_column[row], row)
    }

    /// The diagonals that have a parity.
    pub fn diagonals(&self) -> impl Iterator<Item = usize> {
        (0..self.prime).filter(|&diagonal| diagonal != self.prime - 2)
    }

    /// The cells of the row roles on a diagonal.
    pub fn diagonal(&self, diagonal: usize) -> impl Iterator<Item = usize> {
        (0..self.rows())
            .map(move |row| (row, (diagonal + self.prime - row) % self.prime))
            .filter(|&(_, column)| column < self.roles - 1)
            .map(|(row, column)| self.cell(column, row))
    }

    /// The diagonal on which a cell of the row roles lies, if that diagonal has a parity.
    pub fn diagonal_of(&self, cell: usize) -> Option<usize> {
        let diagonal = (self.role_of(cell) + self.row_of(cell)) % self.prime;
        (self.role_of(cell) < self.diagonal_role() && diagonal != self.prime - 2)
            .then_some(diagonal)
    }

    /// The cell with the parity of a diagonal that has one.
    pub fn diagonal_parity(&self, diagonal: usize) -> usize {
        self.cell(self.diagonal_role(), diagonal.min(self.prime - 2))
    }

    /// The sets of cells whose exclusive or is zero: of each row, then of each diagonal that has a
    /// parity. All others are sums of these.
    pub fn equations(&self) -> Vec<Vec<usize>> {
        let rows = (0..self.rows()).map(|row| self.row(row).collect());
        let diagonals = self.diagonals().map(|diagonal| {
            let parity = self.diagonal_parity(diagonal);
            self.diagonal(diagonal).chain([parity]).collect()
        });
        rows.chain(diagonals).collect()
    }

    /// Whether these are different roles of this layout, and no more than can be lost.
    pub(crate) fn check_lost(&self, lost: &[usize]) -> Result<(), Error> {
        for (number, &role) in lost.iter().enumerate() {
            if role >= self.roles {
                let roles = self.roles;
                return Err(Error::NoSuchRole { role, roles });
            }
            if lost[..number].contains(&role) {
                return Err(Error::RoleTwice(role));
            }
        }
        match lost.len() {
            0..=2 => Ok(()),
            count => Err(Error::TooManyLost(count)),
        }
    }
}

/// Whether a number is prime that is more than 1.
fn is_prime(number: usize) -> bool {
    (2..)
        .take_while(|divisor| divisor * divisor <= number)
        .all(|divisor| !number.is_multiple_of(divisor))
}
