//! The rates from memory as an SVG file.

use std::path::Path;

use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use tabane_bench::drawing::{Area, COLOURS, FONT, error, legend, on_file, top};

use super::{Line, Shape};

/// Draws `macs.svg` into `folder`, which is made where there is none.
pub fn draw(folder: &Path, lines: &[Line]) -> Result<()> {
    let lines: Vec<&Line> = lines
        .iter()
        .filter(|line| line.shape == Shape::Memory)
        .collect();
    on_file(&folder.join("macs.svg"), |area| draw_bars(area, &lines))
}

/// A group of two bars for each algorithm, the second for the peer.
fn draw_bars(area: &Area, lines: &[&Line]) -> Result<()> {
    let gbit = |bytes_per_s: f64| 8e-9 * bytes_per_s;
    let ours = lines.iter().map(|line| Some(gbit(line.bytes_per_s())));
    let theirs = lines.iter().map(|line| line.peer_bytes_per_s().map(gbit));
    let [ours, theirs]: [Vec<_>; 2] = [ours.collect(), theirs.collect()];
    let rates = ours.iter().chain(&theirs).copied().flatten();
    let mut chart = ChartBuilder::on(area)
        .caption("Hashes and MACs of data in memory, one core", (FONT, 22))
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(130)
        .build_cartesian_2d(0.0..top(rates, 0.1), lines.len() as f64..0.0)
        .map_err(error)?;
    chart
        .configure_mesh()
        .x_desc("Gbit/s (divided by 8: GB/s)")
        .x_label_formatter(&|x| format!("{x:.0}"))
        .disable_y_axis()
        .disable_y_mesh()
        .light_line_style(TRANSPARENT)
        .axis_desc_style((FONT, 17))
        .label_style((FONT, 15))
        .draw()
        .map_err(error)?;
    let style = |horizontal| {
        let font = TextStyle::from((FONT, 12).into_font()).color(&BLACK);
        font.pos(Pos::new(horizontal, VPos::Center))
    };
    let bars = [
        (0.08, "Tabane", &ours),
        (0.50, "Crypto++ or xxHash in C", &theirs),
    ];
    for ((from, name, rates), colour) in bars.into_iter().zip(COLOURS) {
        let places = rates.iter().enumerate();
        let places: Vec<(f64, f64)> = places
            .filter_map(|(i, rate)| Some((i as f64 + from, (*rate)?)))
            .collect();
        let rectangle =
            |&(y, rate): &(f64, f64)| Rectangle::new([(0.0, y), (rate, y + 0.38)], colour.filled());
        chart
            .draw_series(places.iter().map(rectangle))
            .map_err(error)?
            .label(name)
            .legend(move |(x, y)| {
                Rectangle::new([(x + 4, y - 6), (x + 28, y + 6)], colour.filled())
            });
        for (y, rate) in places {
            let (x, y) = chart.backend_coord(&(rate, y + 0.19));
            area.draw_text(&format!("{rate:.1}"), &style(HPos::Left), (x + 5, y))
                .map_err(error)?;
        }
    }
    for (i, line) in lines.iter().enumerate() {
        let (x, y) = chart.backend_coord(&(0.0, i as f64 + 0.5));
        area.draw_text(line.algorithm.name(), &style(HPos::Right), (x - 8, y))
            .map_err(error)?;
    }
    legend(&mut chart, SeriesLabelPosition::UpperRight)
}
