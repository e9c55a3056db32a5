//! What clients write together, by how many they are.

use std::path::Path;

use anyhow::Result;
use tabane_bench::drawing::{self, Across, Lines};

/// Lines, in the order in which they begin.
#[derive(Default)]
pub struct Figure(Lines<String>);

impl Figure {
    /// Adds to the line of a plan what so many clients wrote, in Mbit/s.
    pub fn add(&mut self, plan: &str, clients: usize, mbit_per_s: f64) {
        let point = (clients as f64, mbit_per_s);
        match self.0.iter_mut().find(|(name, _)| name == plan) {
            Some((_, points)) => points.push(point),
            None => self.0.push((plan.to_owned(), vec![point])),
        }
    }

    /// Draws all.
    pub fn draw(&self, file: &Path, nodes: usize) -> Result<()> {
        let x = format!("clients that write to {nodes} nodes");
        let y = "Mbit/s of data, all together";
        drawing::lines(file, Across::Numbers(&x), y, 0.1, &self.0)
    }
}
