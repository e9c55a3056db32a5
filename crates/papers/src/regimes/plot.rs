//! Shares of the stages as stacked bars.

use std::path::Path;

use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use tabane_bench::drawing::{FONT, error, legend, on_file};
use tabane_store::Algorithm;

use super::{Case, Stage};

/// One for each stage; neighbours differ in brightness.
const COLOURS: [RGBColor; Stage::ALL.len()] = [
    RGBColor(170, 170, 170),
    RGBColor(0, 140, 110),
    RGBColor(0, 90, 181),
    RGBColor(150, 200, 240),
    RGBColor(150, 70, 150),
    RGBColor(250, 190, 90),
    RGBColor(200, 80, 0),
    RGBColor(230, 150, 190),
    RGBColor(90, 90, 90),
];

/// Draws the cases of one hash, a bar for each, and the rate of all stages together beside it.
pub fn draw(file: &Path, hash: Algorithm, cases: &[&Case]) -> Result<()> {
    on_file(file, |area| {
        let bars = cases.len() as f64;
        let mut chart = ChartBuilder::on(area)
            .caption(
                format!("Where the CPU time of a backup goes, {hash}"),
                (FONT, 22),
            )
            .margin(16)
            .x_label_area_size(40)
            .y_label_area_size(190)
            .build_cartesian_2d(0.0..142.0, bars..-0.2)
            .map_err(error)?;
        chart
            .configure_mesh()
            .x_desc("percent of the time on one core")
            .x_labels(8)
            .x_label_formatter(&|x| {
                if *x <= 100.0 {
                    format!("{x:.0}")
                } else {
                    String::new()
                }
            })
            .disable_y_axis()
            .disable_y_mesh()
            .light_line_style(TRANSPARENT)
            .axis_desc_style((FONT, 16))
            .label_style((FONT, 14))
            .draw()
            .map_err(error)?;
        for (stage, colour) in Stage::ALL.into_iter().zip(COLOURS) {
            let rectangles = cases.iter().enumerate().map(|(bar, case)| {
                let before = Stage::ALL[..stage as usize].iter();
                let left: f64 = before.map(|&stage| 100.0 * case.share(stage)).sum();
                let right = left + 100.0 * case.share(stage);
                let top = bar as f64 + 0.1;
                Rectangle::new([(left, top), (right, top + 0.8)], colour.filled())
            });
            chart
                .draw_series(rectangles)
                .map_err(error)?
                .label(stage.name())
                .legend(move |(x, y)| {
                    Rectangle::new([(x + 4, y - 6), (x + 28, y + 6)], colour.filled())
                });
        }
        let style = |horizontal| {
            let font = TextStyle::from((FONT, 13).into_font()).color(&BLACK);
            font.pos(Pos::new(horizontal, VPos::Center))
        };
        for (bar, case) in cases.iter().enumerate() {
            let middle = bar as f64 + 0.5;
            let (x, y) = chart.backend_coord(&(0.0, middle));
            let name = format!("{}% known, {}", case.duplicates, case.chunking);
            area.draw_text(&name, &style(HPos::Right), (x - 8, y))
                .map_err(error)?;
            let (x, y) = chart.backend_coord(&(100.0, middle));
            let rate = format!("{:.2} GB/s", 1.0 / case.total());
            area.draw_text(&rate, &style(HPos::Left), (x + 6, y))
                .map_err(error)?;
        }
        legend(&mut chart, SeriesLabelPosition::UpperRight)
    })
}
