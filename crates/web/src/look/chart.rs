//! Charts over time, as SVG that stretches; their words are HTML beside it, which does not.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use maud::{Markup, html};

/// Width and height of the drawing, in its own units.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 100.0;

/// Points of one series; more are joined.
const POINTS_MAX: usize = 200;

/// A value at a time, with the text that tells of it.
pub struct Point {
    /// When.
    pub time: Timestamp,
    /// How much.
    pub value: f64,
    /// What a pointer on it shows.
    pub title: String,
}

/// Values that belong together.
pub struct Series {
    /// Their name in the legend; empty if there is only one.
    pub name: String,
    /// The values, oldest first.
    pub points: Vec<Point>,
}

/// How values are drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Joined by lines.
    Lines,
    /// A bar each.
    Bars,
}

/// A chart.
pub struct Chart<'a> {
    /// What is drawn.
    pub title: &'a str,
    /// How.
    pub form: Form,
    /// The values; at most six series.
    pub series: Vec<Series>,
    /// Writes a value at the axis.
    pub unit: fn(f64) -> String,
    /// The top of the axis; nothing for a round value above all.
    pub top: Option<f64>,
}

impl Chart<'_> {
    /// Draws it; nothing where there are less than two points.
    pub fn draw(&self) -> Markup {
        let all = || self.series.iter().flat_map(|series| &series.points);
        let times = || all().map(|point| point.time);
        let (Some(first), Some(last)) = (times().min(), times().max()) else {
            return html! {};
        };
        if first == last {
            return html! {};
        }
        let largest = all().map(|point| point.value).fold(0.0, f64::max);
        let top = self.top.unwrap_or_else(|| round_above(largest));
        let span = (last.as_second() - first.as_second()) as f64;
        let x = |time: Timestamp| (time.as_second() - first.as_second()) as f64 / span * WIDTH;
        let y = |value: f64| HEIGHT - value / top * HEIGHT;
        let day = |time: Timestamp| {
            let zoned = time.to_zoned(TimeZone::system());
            zoned.strftime("%Y-%m-%d").to_string()
        };
        html! {
            figure class="chart" {
                figcaption {
                    h3 { (self.title) }
                    @if self.series.len() > 1 {
                        ul class="legend" {
                            @for (number, series) in self.series.iter().enumerate() {
                                li class=(colour(number)) { bdi { (series.name) } }
                            }
                        }
                    }
                }
                div class="plot" {
                    div class="axis" aria-hidden="true" {
                        @for value in [top, top / 2.0, 0.0] {
                            span { (round((self.unit)(value))) }
                        }
                    }
                    svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none"
                        role="img" aria-label=(self.summary(first, last)) {
                        @for height in [0.0, HEIGHT / 2.0, HEIGHT] {
                            line x1="0" x2=(WIDTH) y1=(height) y2=(height) {}
                        }
                        @for (number, series) in self.series.iter().enumerate() {
                            @let points = thin(&series.points);
                            g class=(colour(number)) {
                                @match self.form {
                                    Form::Lines => {
                                        path class="line" d=(line(&points, x, y)) {}
                                        @for point in &points {
                                            path class="mark" d=(format!(
                                                "M{:.1} {:.2}h0", x(point.time), y(point.value)
                                            )) { title { (point.title) } }
                                        }
                                    }
                                    Form::Bars => {
                                        @for point in &points {
                                            path class="rod" d=(format!(
                                                "M{:.1} {HEIGHT}V{:.2}", x(point.time),
                                                y(point.value).min(HEIGHT - 0.4)
                                            )) { title { (point.title) } }
                                        }
                                    }
                                }
                            }
                        }
                    }
                    div class="times" aria-hidden="true" {
                        span { (day(first)) } span { (day(last)) }
                    }
                }
            }
        }
    }

    /// What a person hears who does not see it.
    fn summary(&self, first: Timestamp, last: Timestamp) -> String {
        let day = |time: Timestamp| time.to_zoned(TimeZone::system()).date();
        let mut text = format!("{} from {} to {}", self.title, day(first), day(last));
        for series in &self.series {
            if let (Some(first), Some(last)) = (series.points.first(), series.points.last()) {
                let (first, last) = ((self.unit)(first.value), (self.unit)(last.value));
                text += &format!("; {} {first}, then {last}", series.name);
            }
        }
        text
    }
}

/// A value at the axis without zeros behind the point.
fn round(text: String) -> String {
    text.replacen(".00", "", 1).replacen(".0 ", " ", 1)
}

/// The class that gives a series its colour.
pub fn colour(number: usize) -> &'static str {
    ["one", "two", "three", "four", "five", "six"][number % 6]
}

fn line(points: &[&Point], x: impl Fn(Timestamp) -> f64, y: impl Fn(f64) -> f64) -> String {
    let mut text = String::new();
    for point in points {
        let command = if text.is_empty() { 'M' } else { 'L' };
        text += &format!("{command}{:.1} {:.2}", x(point.time), y(point.value));
    }
    text
}

/// At most [`POINTS_MAX`] of the points: of each run of neighbours the largest.
fn thin(points: &[Point]) -> Vec<&Point> {
    let run = points.len().div_ceil(POINTS_MAX).max(1);
    let largest = |run: &'_ [Point]| -> usize {
        let places = 0..run.len();
        places
            .max_by(|&a, &b| run[a].value.total_cmp(&run[b].value))
            .unwrap_or(0)
    };
    points.chunks(run).map(|run| &run[largest(run)]).collect()
}

/// The least of 1, 2, 4, 8 times a power of 1024 (of bytes, so) that is not below `value`.
fn round_above(value: f64) -> f64 {
    let mut top = 1.0;
    while top < value {
        top *= 2.0;
    }
    top
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(values: &[f64]) -> Vec<Point> {
        let point = |(day, value): (usize, &f64)| Point {
            time: Timestamp::from_second(day as i64 * 86_400).expect("a time"),
            value: *value,
            title: format!("{value}"),
        };
        values.iter().enumerate().map(point).collect()
    }

    #[test]
    fn many_points_are_joined_and_the_largest_stay() {
        let mut values = vec![1.0; 1000];
        values[777] = 9.0;
        let points = points(&values);
        let thinned = thin(&points);
        assert_eq!(thinned.len(), 200);
        assert!(thinned.iter().any(|point| point.value == 9.0));
    }

    #[test]
    fn a_chart_says_what_it_draws() {
        let chart = Chart {
            title: "Size",
            form: Form::Lines,
            series: vec![Series {
                name: "<b>".to_owned(),
                points: points(&[1.0, 3.0]),
            }],
            unit: |value| format!("{value} B"),
            top: None,
        };
        let drawn = chart.draw().into_string();
        assert!(drawn.contains("&lt;b&gt; 1 B, then 3 B"), "{drawn}");
        assert!(drawn.contains("M0.0 75.00L1000.0 25.00"), "{drawn}");
        assert!(!drawn.contains("style="), "the policy forbids it");
    }
}
