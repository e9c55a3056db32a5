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
