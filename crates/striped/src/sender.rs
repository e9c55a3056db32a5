//! Senders of whole stripes to targets that make the parities among themselves.

use tabane_storage::{Name, Result};

use crate::container::{Geometry, Shape};
use crate::tags::ObjectTags;
use crate::targets::Targets;

/// Puts and rebuilds stripes through the nodes of a cluster.
pub trait StripeSender: Send + Sync {
    /// Puts all parts of a stripe of an object.
    fn put(&self, targets: &Targets, stripe: &NewStripe, object: &[u8]) -> Relayed;

    /// Lets the nodes rebuild the part of a role, while `others` lack their parts too; no byte of
    /// it comes to the client. Returns whether the part is durable now; if not, the client has to
    /// read the other parts and rebuild it.
    fn rebuild(&self, targets: &Targets, placed: &Placed, lost: &Lost) -> bool;
}

/// A stripe that is to be put, and may choose its roles.
pub struct NewStripe<'a> {
    /// The object.
    pub name: Name,
    /// Its geometry.
    pub geometry: Geometry,
    /// What makes the tags of a tagged stripe.
    pub tags: Option<&'a ObjectTags>,
    /// The targets of the stripe's generation.
    pub generation: &'a [usize],
    /// Whether roles can be chosen.
    pub may_turn: bool,
    /// The shape of the stripe, and its targets by role, with the first role at this place of the
    /// generation, or where all stripes have it by default.
    pub placed: &'a (dyn Fn(Option<usize>) -> (Shape, Vec<usize>) + Sync),
}

/// A part that is to be rebuilt.
pub struct Lost<'a> {
    /// Its role.
    pub role: usize,
    /// Other roles whose parts are lost, too.
    pub others: &'a [usize],
    /// Whether nodes rebuild it slowly while clients write.
    pub yields: bool,
}

/// An object's stripe, and where its parts belong.
pub struct Placed<'a> {
    /// The object.
    pub name: Name,
    /// How it is laid out.
    pub shape: Shape,
    /// The targets of the stripe's generation.
    pub generation: &'a [usize],
    /// The same targets, ordered by role.
    pub by_role: &'a [usize],
}

/// What became of a stripe at each of its targets.
pub type Puts = Vec<(usize, Result<()>)>;

/// What became of a stripe that was to go by way of nodes.
pub enum Relayed {
    /// Every node has answered; the first role is at this place.
    Put(Puts, Option<usize>),
    /// A node failed or did not answer: the client has to put each part itself. Parts that are
    /// stored already are right and durable, with the first role at this place.
    Failed(Option<usize>),
    /// Nothing was sent: the client has to put each part itself.
    NotTried,
}
