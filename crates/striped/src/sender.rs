//! What puts a whole stripe at once, where targets can make its parities among themselves.

use tabane_storage::{Name, Result};

use crate::container::Geometry;
use crate::targets::Targets;

/// Puts and rebuilds stripes in a way of its own, where that is possible.
pub trait StripeSender: Send + Sync {
    /// Puts all parts of a stripe of an object.
    fn put(&self, targets: &Targets, placed: &Placed, object: &[u8]) -> Relayed;

    /// Rebuilds what a role keeps of an object, of which `others` lack their parts, too, without a
    /// byte of it coming here. Says whether the part is durable now; if it is not, it takes
    /// somebody who reads what the other parts are.
    fn rebuild(&self, targets: &Targets, placed: &Placed, role: usize, others: &[usize]) -> bool;
}

/// An object's stripe, and where its parts belong.
pub struct Placed<'a> {
    /// The object.
    pub name: Name,
    /// How it is laid out.
    pub geometry: Geometry,
    /// The targets of the stripe's generation.
    pub generation: &'a [usize],
    /// The same, with that of each role in its place.
    pub by_role: &'a [usize],
}

/// What became of a stripe at each of its targets.
pub type Puts = Vec<(usize, Result<()>)>;

/// What became of a stripe that was to go by way of nodes.
pub enum Relayed {
    /// Every node has answered.
    Put(Puts),
    /// It has to be put on each target by itself, since a node is not there, or does not do what it
    /// should. What there is of it already is right, and durable.
    Failed,
    /// As well, and nothing was sent.
    NotTried,
}
