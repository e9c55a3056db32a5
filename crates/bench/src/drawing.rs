//! What all figures have in common.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use plotters::coord::{CoordTranslate, Shift};
use plotters::prelude::*;

const FIGURE_SIZE_PX: (u32, u32) = (860, 520);

/// The face of all text.
pub const FONT: &str = "sans-serif";

/// The colour of what cannot be exceeded.
pub const BOUND_COLOUR: RGBColor = RGBColor(90, 90, 90);

/// Blue for what is proposed, as it comes first; told apart also by those who see no red and green.
pub const COLOURS: [RGBColor; 4] = [
    RGBColor(0, 90, 181),
    RGBColor(220, 110, 0),
    RGBColor(0, 140, 110),
    RGBColor(150, 70, 150),
];

/// Where to draw.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Makes a drawing and writes it into `file`, whose folder is made where there is none.
pub fn on_file(file: &Path, draw: impl FnOnce(&Area) -> Result<()>) -> Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    let area = SVGBackend::new(file, FIGURE_SIZE_PX).into_drawing_area();
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

/// Numbers beside an axis at most.
const NUMBERS_MAX: usize = 11;

/// What an axis across has, and its name.
#[derive(Clone, Copy)]
pub enum Across<'a> {
    /// Numbers, from 1.
    Numbers(&'a str),
    /// Bytes, each length as far from half of it.
    Lengths(&'a str),
}

/// Lines, each with its name and the points that it goes through.
pub type Lines<N> = Vec<(N, Vec<(f64, f64)>)>;

/// Draws lines above an axis, from 0 on, with `room` above the highest. The first line is the
/// baseline; there are six colours.
pub fn lines<N: AsRef<str>>(
    file: &Path,
    across: Across,
    y: &str,
    room: f64,
    lines: &Lines<N>,
) -> Result<()> {
    let (name, place): (_, fn(f64) -> f64) = match across {
        Across::Numbers(name) => (name, |number| number),
        Across::Lengths(name) => (name, f64::log2),
    };
    let number = |place: &f64| match across {
        Across::Numbers(_) => format!("{place:.0}"),
        Across::Lengths(_) => length(place.exp2()),
    };
    let points = || lines.iter().flat_map(|(_, points)| points);
    let least = points().map(|point| place(point.0)).reduce(f64::min);
    let least = match across {
        Across::Numbers(_) => 1.0,
        Across::Lengths(_) => least.unwrap_or(0.0),
    };
    let most = points().map(|point| place(point.0)).fold(least, f64::max);
    let highest = top(points().map(|point| point.1), room);
    // Between two neighbours there is nothing.
    let numbers = (most - least) as usize + 1;
    on_file(file, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(16)
            .margin_right(28)
            .x_label_area_size(44)
            .y_label_area_size(72)
            .build_cartesian_2d(least..most, 0.0..highest)
            .map_err(error)?;
        chart
            .configure_mesh()
            .x_desc(name)
            .x_labels(numbers.min(NUMBERS_MAX))
            .x_label_formatter(&number)
            .max_light_lines(1)
            .y_desc(y)
            .y_label_formatter(&|value| {
                if highest >= 100.0 {
                    format!("{value:.0}")
                } else {
                    format!("{value:.1}")
                }
            })
            .label_style((FONT, 15))
            .draw()
            .map_err(error)?;
        let others = COLOURS.into_iter().chain([RGBColor(170, 40, 40)]);
        let colours = [BOUND_COLOUR].into_iter().chain(others);
        for ((name, points), colour) in lines.iter().zip(colours) {
            let style = colour.stroke_width(2);
            chart
                .draw_series(LineSeries::new(
                    points.iter().map(|&(x, y)| (place(x), y)),
                    style,
                ))
                .map_err(error)?
                .label(name.as_ref())
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 26, y)], style));
        }
        legend(&mut chart, SeriesLabelPosition::UpperLeft)
    })
}

fn length(bytes: f64) -> String {
    match bytes {
        bytes if bytes >= 1048576.0 => format!("{:.0} MiB", bytes / 1048576.0),
        bytes if bytes >= 1024.0 => format!("{:.0} KiB", bytes / 1024.0),
        bytes => format!("{bytes:.0} B"),
    }
}
