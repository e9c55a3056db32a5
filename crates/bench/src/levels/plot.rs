//! Speed against size, a line for each program.

use std::path::Path;

use anyhow::Result;
use plotters::prelude::*;
use tabane_bench::drawing::{COLOURS, FONT, error, legend, on_file, top};
use tabane_bench::tools::Kind;

use super::Point;

const KINDS: [Kind; 4] = [Kind::Tabane, Kind::Restic, Kind::Borg, Kind::Rustic];

/// Draws all points with their settings, those of one program joined in the order of their sizes.
pub fn draw(file: &Path, points: &[Point]) -> Result<()> {
    let sizes = || points.iter().map(|point| point.repository_mb);
    let (least, most) = (sizes().fold(f64::INFINITY, f64::min), top(sizes(), 0.08));
    let fastest = top(points.iter().map(|point| point.mb_per_cpu_s), 0.1);
    on_file(file, |area| {
        let mut chart = ChartBuilder::on(area)
            .caption("First backups at levels of compression", (FONT, 22))
            .margin(16)
            .x_label_area_size(50)
            .y_label_area_size(60)
            .build_cartesian_2d(0.9 * least..most, 0.0..fastest)
            .map_err(error)?;
        chart
            .configure_mesh()
            .x_desc("repository, MB")
            .y_desc("MB of the tree for each second of CPU time")
            .light_line_style(TRANSPARENT)
            .axis_desc_style((FONT, 16))
            .label_style((FONT, 14))
            .draw()
            .map_err(error)?;
        for (kind, colour) in KINDS.into_iter().zip(COLOURS) {
            let mut of_kind: Vec<&Point> =
                points.iter().filter(|point| point.kind == kind).collect();
            of_kind.sort_by(|a, b| a.repository_mb.total_cmp(&b.repository_mb));
            if of_kind.is_empty() {
                continue;
            }
            let place = |point: &&Point| (point.repository_mb, point.mb_per_cpu_s);
            chart
                .draw_series(LineSeries::new(
                    of_kind.iter().map(place),
                    colour.stroke_width(2),
                ))
                .map_err(error)?
                .label(kind.name())
                .legend(move |(x, y)| {
                    PathElement::new([(x + 4, y), (x + 28, y)], colour.stroke_width(3))
                });
            chart
                .draw_series(of_kind.iter().map(|point| {
                    EmptyElement::at(place(point))
                        + Circle::new((0, 0), 4, colour.filled())
                        + Text::new(point.setting.clone(), (6, -16), (FONT, 13).into_font())
                }))
                .map_err(error)?;
        }
        legend(&mut chart, SeriesLabelPosition::LowerRight)
    })
}
