//! The client sends everything.

use super::builder::Builder;
use super::transfer::{Node, Schedule};
use crate::gf2::cell_vectors;
use crate::layout::{Content, Layout};

pub(super) fn schedule(layout: &Layout) -> Schedule {
    let mut builder = Builder::with_data(layout);
    for (cell, vector) in cell_vectors(layout).iter().enumerate() {
        if !matches!(layout.content(cell), Content::Data(_)) {
            let blocks = vector.ones().collect();
            let arrived = builder.send(Node::Client, layout.role_of(cell), blocks);
            builder.schedule.stores[cell] = vec![arrived];
        }
    }
    builder.schedule
}
