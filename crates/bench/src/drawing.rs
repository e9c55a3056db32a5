//! What all figures have in common.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use plotters::coord::{CoordTranslate, Shift};
use plotters::prelude::*;

const SIZE: (u32, u32) = (860, 520);

/// The face of all text.
pub const FONT: &str = "sans-serif";

/// The colour of what cannot be exceeded.
pub const BOUND: RGBColor = RGBColor(90, 90, 90);

/// Blue for what is proposed, as it comes first; told apart also by those who see no red and green.
pub const COLOURS: [RGBColor; 4] = [
    RGBColor(0, 90, 181),
    RGBColor(220, 110, 0),
    RGBColor(0, 140, 110),
    RGBColor(150, 70, 150),
];

/// Where to draw.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Makes a drawing and writes it down.
pub fn on_file(file: &Path, draw: impl FnOnce(&Area) -> Result<()>) -> Result<()> {
    let area = SVGBackend::new(file, SIZE).into_drawing_area();
    area.fill(&WHITE).map_err(error)?;
    draw(&area)?;
    area.present()
        .map_err(error)
        .with_context(|| format!("cannot write {}", file.display()))
}

/// Its errors borrow the drawing.
pub fn error<E: std::error::Error + Send + Sync>(error: DrawingAreaErrorKind<E>) -> anyhow::Error {
    anyhow!("cannot draw: {error}")
}

/// Says in a corner what is drawn in which colour.
pub fn legend<'a, 'b: 'a, C: CoordTranslate>(
    chart: &mut ChartContext<'a, SVGBackend<'b>, C>,
    position: SeriesLabelPosition,
) -> Result<()> {
    chart
        .configure_series_labels()
        .position(position)
        .margin(12)
        .legend_area_size(36)
        .label_font((FONT, 15))
        .background_style(WHITE.mix(0.9))
        .border_style(RGBColor(200, 200, 200))
        .draw()
        .map_err(error)
}

/// The end of an axis that shows everything, and has room for `more` of that.
pub fn top(values: impl Iterator<Item = f64>, more: f64) -> f64 {
    let most = values.fold(0.0, f64::max);
    if most > 0.0 { (1.0 + more) * most } else { 1.0 }
}

/// Draws lines on axes from 1 and from 0 that have these names, with `room` above the highest. The first line is the one that the others are
/// compared with; there are six colours.
pub fn lines<N: AsRef<str>>(
    file: &Path,
    [x, y]: [&str; 2],
    room: f64,
    lines: &[(N, Vec<(f64, f64)>)],
) -> Result<()> {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let most = points().map(|point| point.0).fold(1.0, f64::max);
    on_file(file, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(16)
            .x_label_area_size(44)
            .y_label_area_size(60)
            .build_cartesian_2d(1.0..most, 0.0..top(points().map(|point| point.1), room))
            .map_err(error)?;
        chart
            .configure_mesh()
            .x_desc(x)
            .y_desc(y)
            .label_style((FONT, 15))
            .draw()
            .map_err(error)?;
        let others = COLOURS.into_iter().chain([RGBColor(170, 40, 40)]);
        let colours = [BOUND].into_iter().chain(others);
        for ((name, points), colour) in lines.iter().zip(colours) {
            let style = colour.stroke_width(2);
            chart
                .draw_series(LineSeries::new(points.iter().copied(), style))
                .map_err(error)?
                .label(name.as_ref())
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 26, y)], style));
        }
        legend(&mut chart, SeriesLabelPosition::UpperLeft)
    })
}
