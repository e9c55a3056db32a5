//! What clients write together, by how many they are.

use std::path::Path;

use anyhow::Result;
use plotters::prelude::*;

use crate::drawing;

/// Lines, in the order in which they begin.
#[derive(Default)]
pub struct Figure(Vec<(String, Vec<(usize, f64)>)>);

impl Figure {
    /// Adds to the line of a plan what so many clients wrote, in Mbit/s.
    pub fn add(&mut self, plan: &str, clients: usize, mbit_per_s: f64) {
        let point = (clients, mbit_per_s);
        match self.0.iter_mut().find(|(name, _)| name == plan) {
            Some((_, points)) => points.push(point),
            None => self.0.push((plan.to_owned(), vec![point])),
        }
    }

    /// Draws all.
    pub fn draw(&self, file: &Path, nodes: usize) -> Result<()> {
        let points = || self.0.iter().flat_map(|(_, points)| points);
        let most = points().map(|point| point.0).max().unwrap_or(1);
        drawing::on_file(file, |area| {
            let rates = points().map(|point| point.1);
            let mut chart = ChartBuilder::on(area)
                .margin(16)
                .x_label_area_size(44)
                .y_label_area_size(60)
                .build_cartesian_2d(1.0..most as f64, 0.0..drawing::top(rates, 0.1))
                .map_err(drawing::error)?;
            chart
                .configure_mesh()
                .x_desc(format!("clients that write to {nodes} nodes"))
                .y_desc("Mbit/s of data, all together")
                .label_style((drawing::FONT, 15))
                .draw()
                .map_err(drawing::error)?;
            let others = drawing::COLOURS.into_iter().chain([RGBColor(170, 40, 40)]);
            let colours = [drawing::BOUND].into_iter().chain(others);
            for ((name, points), colour) in self.0.iter().zip(colours) {
                let style = colour.stroke_width(2);
                let points = points.iter().map(|&(clients, rate)| (clients as f64, rate));
                chart
                    .draw_series(LineSeries::new(points, style))
                    .map_err(drawing::error)?
                    .label(name)
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 26, y)], style));
            }
            drawing::legend(&mut chart, SeriesLabelPosition::UpperLeft)
        })
    }
}
