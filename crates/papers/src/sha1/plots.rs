//! Figures 5, 6 and 7 as SVG files.

use std::path::Path;

use anyhow::Result;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use tabane_bench::drawing::{Area, BOUND_COLOUR, COLOURS, FONT, error, legend, on_file, top};

use super::report::steps;
use super::{Args, BLOCKS_KIB, Case, Method, Setting, find};

/// A line of a figure.
struct Series {
    name: String,
    points: Vec<(f64, f64)>,
}

/// Draws the figures into `folder`, which is made where there is none.
pub fn draw(folder: &Path, args: &Args, setting: &Setting, cases: &[Case]) -> Result<()> {
    let block = args.block as usize * 1024;
    let all = setting.cpus.all().len();
    let threads = setting.threads();

    let lines = |points: &dyn Fn(Method) -> Vec<(f64, f64)>| -> Vec<Series> {
        let series = |method: Method| Series {
            name: method.name().to_owned(),
            points: points(method),
        };
        setting.methods().into_iter().map(series).collect()
    };
    let rate = |method, threads, block| find(cases, method, threads, block).map(Case::gb_per_s);
    // At the clock of the proposed method, as the fractions of the peak are.
    let bound = |threads| {
        let case = find(cases, Method::Lanes, threads, block)?;
        setting.peak_gb_per_s(threads, case.median(|sample| sample.clock_hz)?)
    };
    let bound_line = |at: &[(usize, f64)]| Series {
        name: "bound by the processor's ports".to_owned(),
        points: at
            .iter()
            .filter_map(|&(threads, x)| Some((x, bound(threads)?)))
            .collect(),
    };

    let file = |name: &str| folder.join(name);
    let at: Vec<_> = threads
        .iter()
        .map(|&threads| (threads, threads as f64))
        .collect();
    on_file(&file("figure5_threads.svg"), |area| {
        let series = lines(&|method| {
            let point = |&threads: &usize| Some((threads as f64, rate(method, threads, block)?));
            threads.iter().filter_map(point).collect()
        });
        let title = format!("SHA-1 of blocks of {} KiB against threads", args.block);
        draw_lines(
            area,
            &title,
            "threads",
            &|x| format!("{x:.0}"),
            &threads,
            &series,
            bound_line(&at),
        )
    })?;
    on_file(&file("figure6_blocks.svg"), |area| {
        let log = |kib: usize| (kib as f64).log2();
        let series = lines(&|method| {
            let point = |&kib: &usize| Some((log(kib), rate(method, all, kib * 1024)?));
            BLOCKS_KIB.iter().filter_map(point).collect()
        });
        let title = format!("SHA-1 with {all} threads against the length of blocks");
        let ends = [BLOCKS_KIB[0], BLOCKS_KIB[BLOCKS_KIB.len() - 1]].map(|kib| (all, log(kib)));
        let ticks: Vec<usize> = (0..BLOCKS_KIB.len()).collect();
        draw_lines(
            area,
            &title,
            "length of a block, KiB",
            &|x| format!("{:.0}", x.exp2()),
            &ticks,
            &series,
            bound_line(&ends),
        )
    })?;
    on_file(&file("figure7_devices.svg"), |area| {
        let mut counts = vec![1, all];
        counts.dedup();
        let bars: Vec<_> = steps()
            .into_iter()
            .map(|method| {
                let rates = counts
                    .iter()
                    .map(|&threads| rate(method, threads, block).unwrap_or_default());
                (method.name(), rates.collect::<Vec<_>>())
            })
            .collect();
        let title = format!("SHA-1 of blocks of {} KiB, device by device", args.block);
        draw_bars(area, &title, &counts, &bars, bound(all))
    })
}

/// Lines over `ticks`, which are numbered as the horizontal axis is, and a dashed one for the
/// bound.
fn draw_lines(
    area: &Area,
    title: &str,
    what: &str,
    label: &dyn Fn(&f64) -> String,
    ticks: &[usize],
    series: &[Series],
    bound: Series,
) -> Result<()> {
    let (first, last) = (ticks[0] as f64, ticks[ticks.len() - 1] as f64);
    let points = series
        .iter()
        .chain([&bound])
        .flat_map(|series| &series.points);
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 22))
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(64)
        .build_cartesian_2d(
            first - 0.15..last + 0.15,
            0.0..top(points.map(|&(_, y)| y), 0.45),
        )
        .map_err(error)?;
    chart
        .configure_mesh()
        .x_desc(what)
        .y_desc("GB/s (times 8: Gbit/s)")
        .x_labels(ticks.len())
        .x_label_formatter(label)
        .y_label_formatter(&|y| format!("{y:.0}"))
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .axis_desc_style((FONT, 17))
        .label_style((FONT, 15))
        .draw()
        .map_err(error)?;
    if !bound.points.is_empty() {
        chart
            .draw_series(DashedLineSeries::new(
                bound.points,
                8,
                5,
                BOUND_COLOUR.stroke_width(2),
            ))
            .map_err(error)?
            .label(bound.name)
            .legend(|(x, y)| {
                DashedPathElement::new([(x, y), (x + 28, y)], 8, 5, BOUND_COLOUR.stroke_width(2))
            });
    }
    for (series, colour) in series.iter().zip(COLOURS) {
        let line =
            LineSeries::new(series.points.iter().copied(), colour.stroke_width(3)).point_size(5);
        chart
            .draw_series(line)
            .map_err(error)?
            .label(&series.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 28, y)], colour.stroke_width(3)));
    }
    legend(&mut chart, SeriesLabelPosition::UpperLeft)
}

/// A group of bars for each name, one bar for each number of threads, and a dashed line for the
/// bound.
fn draw_bars(
    area: &Area,
    title: &str,
    threads: &[usize],
    bars: &[(&str, Vec<f64>)],
    bound: Option<f64>,
) -> Result<()> {
    let rates = bars.iter().flat_map(|(_, rates)| rates.iter().copied());
    let groups = bars.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 22))
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(200)
        .build_cartesian_2d(0.0..top(rates.chain(bound), 0.1), groups..-1.5)
        .map_err(error)?;
    chart
        .configure_mesh()
        .x_desc("GB/s (times 8: Gbit/s)")
        .x_label_formatter(&|x| format!("{x:.0}"))
        .disable_y_axis()
        .disable_y_mesh()
        .light_line_style(TRANSPARENT)
        .axis_desc_style((FONT, 17))
        .label_style((FONT, 15))
        .draw()
        .map_err(error)?;
    let height = 0.8 / threads.len() as f64;
    let place = |group: usize, bar: usize| group as f64 + 0.1 + height * bar as f64;
    for (bar, (&count, colour)) in threads
        .iter()
        .zip([RGBColor(140, 180, 225), COLOURS[0]])
        .enumerate()
    {
        let rectangles = bars.iter().enumerate().map(|(group, (_, rates))| {
            let top = place(group, bar);
            Rectangle::new(
                [(0.0, top), (rates[bar], top + height * 0.92)],
                colour.filled(),
            )
        });
        chart
            .draw_series(rectangles)
            .map_err(error)?
            .label(if count == 1 {
                "1 thread".to_owned()
            } else {
                format!("{count} threads")
            })
            .legend(move |(x, y)| {
                Rectangle::new([(x + 4, y - 6), (x + 28, y + 6)], colour.filled())
            });
    }
    if let Some(bound) = bound {
        let line = [(bound, groups), (bound, 0.0)];
        chart
            .draw_series(DashedLineSeries::new(
                line,
                8,
                5,
                BOUND_COLOUR.stroke_width(2),
            ))
            .map_err(error)?
            .label(format!(
                "bound by the ports, {} threads",
                threads[threads.len() - 1]
            ))
            .legend(|(x, y)| {
                DashedPathElement::new([(x, y), (x + 28, y)], 8, 5, BOUND_COLOUR.stroke_width(2))
            });
    }
    let style = |horizontal| {
        let font = TextStyle::from((FONT, 15).into_font()).color(&BLACK);
        font.pos(Pos::new(horizontal, VPos::Center))
    };
    for (group, (name, rates)) in bars.iter().enumerate() {
        let (x, y) = chart.backend_coord(&(0.0, group as f64 + 0.5));
        area.draw_text(name, &style(HPos::Right), (x - 10, y))
            .map_err(error)?;
        for (bar, rate) in rates.iter().enumerate() {
            let (x, y) = chart.backend_coord(&(*rate, place(group, bar) + height * 0.46));
            area.draw_text(&format!("{rate:.2}"), &style(HPos::Left), (x + 6, y))
                .map_err(error)?;
        }
    }
    legend(&mut chart, SeriesLabelPosition::UpperRight)
}
