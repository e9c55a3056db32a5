//! Shows where the cells of a stripe are, for people.

use tabane_parity::Layout;
use tabane_storage::{Name, ObjectKind, Result};

use crate::striped::StripedStorage;

/// Where the cells of an object are.
#[derive(Clone, Debug)]
pub struct StripeView {
    /// The object.
    pub name: Name,
    /// Bytes of a cell.
    pub cell_len: u64,
    /// What each cell holds.
    pub layout: Layout,
    /// The part of each role of the layout.
    pub parts: Vec<StripePart>,
}

/// The cells of one role.
#[derive(Clone, Debug)]
pub struct StripePart {
    /// URL of the target that holds them or should.
    pub url: String,
    /// Whether they are there.
    pub state: PartState,
}

/// Whether a part is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartState {
    /// It is listed with the right length.
    There,
    /// The target answers and does not have it, or has one of a wrong length.
    Lacking,
    /// The target is not in use.
    Away,
}

impl StripedStorage {
    /// The largest stripe of all groups, as an example; `None` if there is no stripe.
    ///
    /// # Errors
    /// When too few targets answer.
    pub fn example_stripe(&self) -> Result<Option<StripeView>> {
        let found = self.holdings(&[ObjectKind::Pack])?;
        let groups = self.description.groups();
        let largest = found
            .iter()
            .filter(|(_, holding)| groups.contains(&holding.generation()))
            .filter(|(_, holding)| !self.is_fragment(holding))
            .max_by_key(|(name, holding)| (holding.container_len, name.id));
        let Some((name, holding)) = largest else {
            return Ok(None);
        };
        // No header is readable where more than two targets are lost.
        let Ok(shape) = self.shape_of(*name, holding) else {
            return Ok(None);
        };
        let by_role = self.targets_by_role(name.id, &shape).unwrap_or_default();
        let part = |&number: &usize| StripePart {
            url: self.targets.all()[number].url.clone(),
            state: match (self.targets.is_up(number), holding.holders.contains(number)) {
                (false, _) => PartState::Away,
                (true, true) => PartState::There,
                (true, false) => PartState::Lacking,
            },
        };
        Ok(Some(StripeView {
            name: *name,
            cell_len: shape.geometry.cell_len(),
            parts: by_role.iter().map(part).collect(),
            layout: shape.geometry.layout(),
        }))
    }
}
