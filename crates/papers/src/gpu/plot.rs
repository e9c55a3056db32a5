//! Which unit wins at which length.

use std::path::Path;

use anyhow::Result;
use plotters::prelude::*;
use tabane_bench::drawing::{COLOURS, FONT, error, legend, on_file};

use super::{Line, Subject, Unit};

/// Draws a file for each subject into `folder`, which is made where there is none.
pub fn draw(folder: &Path, lines: &[Line]) -> Result<()> {
    for subject in Subject::ALL {
        let lines: Vec<&Line> = lines
            .iter()
            .filter(|line| line.subject == subject)
            .collect();
        let name = subject.to_string().to_lowercase();
        draw_subject(&folder.join(format!("gpu-{name}.svg")), subject, &lines)?;
    }
    Ok(())
}

fn draw_subject(file: &Path, subject: Subject, lines: &[&Line]) -> Result<()> {
    // One core is beside all of them what one expects.
    let units = [
        Unit::CardResident,
        Unit::CardFromHost,
        Unit::LanesAllCores,
        Unit::OpenSslAllCores,
    ];
    let rates: Vec<f64> = lines
        .iter()
        .flat_map(|line| units.map(|unit| line.rate(unit)))
        .flatten()
        .collect();
    let (Some(first), Some(last)) = (lines.first(), lines.last()) else {
        return Ok(());
    };
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min) / 2e9;
    let most = rates.iter().copied().fold(0.0, f64::max) * 2e-9;
    on_file(file, |area| {
        let mut chart = ChartBuilder::on(area)
            .caption(format!("{subject}: which unit wins"), (FONT, 22))
            .margin(16)
            .x_label_area_size(48)
            .y_label_area_size(64)
            .build_cartesian_2d(
                (first.len as f64..last.len as f64).log_scale(),
                (least..most).log_scale(),
            )
            .map_err(error)?;
        chart
            .configure_mesh()
            .x_desc(match subject {
                Subject::Hash(_) => "bytes a message",
                Subject::Aes(_) | Subject::Cuts => "bytes in all",
            })
            .y_desc("GB/s")
            .x_label_formatter(&|x| format!("{x:.0}"))
            .axis_desc_style((FONT, 16))
            .label_style((FONT, 14))
            .draw()
            .map_err(error)?;
        for (unit, colour) in units.into_iter().zip(COLOURS) {
            let points: Vec<(f64, f64)> = lines
                .iter()
                .filter_map(|line| Some((line.len as f64, line.rate(unit)? / 1e9)))
                .collect();
            if points.is_empty() {
                continue;
            }
            chart
                .draw_series(LineSeries::new(points, colour.stroke_width(2)))
                .map_err(error)?
                .label(unit.name())
                .legend(move |(x, y)| {
                    PathElement::new([(x + 4, y), (x + 28, y)], colour.stroke_width(2))
                });
        }
        legend(&mut chart, SeriesLabelPosition::LowerRight)
    })
}
