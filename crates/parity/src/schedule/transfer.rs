//! Transfers of a stripe, as data.

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// Who has the data.
    Client,
    /// Who keeps the cells of this role.
    Role(usize),
}

/// One block on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Who sends it.
    pub from: Node,
    /// The role to which it goes.
    pub to: usize,
    /// What it is the exclusive or of: data blocks, by number, if the client sends it; earlier
    /// transfers that arrived at the sender, by number, if a role does.
    pub of: Vec<usize>,
}

/// All transfers of a stripe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The transfers in an order in which each comes after its inputs; a transfer may begin when
    /// its inputs have arrived.
    pub transfers: Vec<Transfer>,
    /// For each cell the transfers, arrived at its role, whose exclusive or it is.
    pub stores: Vec<Vec<usize>>,
}
