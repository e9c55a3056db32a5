//! What was read and computed of stripes of which not all targets are used: to read a range of such
//! a stripe takes sectors all over it, which the next ranges need again.

use std::sync::{Arc, Mutex};

use tabane_storage::Id;
use tabane_storage::sync::lock;

use crate::container::Geometry;
use crate::read::Sectors;

/// Bytes of stripes that are kept at most, or one stripe if that is longer.
const KEPT_BYTES_MAX: u64 = 128 << 20;

/// Sectors of the stripes that were read last.
#[derive(Default)]
pub struct Decoded {
    /// Stripes in the order of their last use, the latest last.
    stripes: Mutex<Vec<Stripe>>,
}

/// An object's ID, the most bytes its sectors take, and its decoded sectors.
type Stripe = (Id, u64, Arc<Mutex<Sectors>>);

impl Decoded {
    /// The kept sectors of an object. A reader holds the lock meanwhile, so that other readers of
    /// the same object wait and then find its sectors decoded.
    pub fn of(&self, object: Id, geometry: &Geometry) -> Arc<Mutex<Sectors>> {
        let mut stripes = lock(&self.stripes);
        let known = stripes.iter().position(|(id, ..)| *id == object);
        let stripe = match known {
            Some(known) => stripes.remove(known),
            None => {
                let bytes = geometry.layout().cells() as u64 * geometry.cell_len();
                (object, bytes, Arc::default())
            }
        };
        let sectors = Arc::clone(&stripe.2);
        stripes.push(stripe);
        let mut kept: u64 = stripes.iter().map(|(_, bytes, _)| bytes).sum();
        while kept > KEPT_BYTES_MAX && stripes.len() > 1 {
            let (_, bytes, _) = stripes.remove(0);
            kept -= bytes;
        }
        sectors
    }

    /// Forgets what is kept of an object.
    pub fn forget(&self, object: Id) {
        lock(&self.stripes).retain(|(id, ..)| *id != object);
    }
}
