//! A recording of a terminal as a drawing: lines appear one after another, with their colours.

use std::fmt::Write;
use std::time::Duration;

/// Columns of the terminal.
pub const COLUMNS: u16 = 88;
/// Width of a column, in pixels.
const COLUMN_PX: f64 = 8.4;
/// Height of a line, in pixels.
const LINE_PX: f64 = 19.0;
/// Space around the text, in pixels.
const MARGIN_PX: f64 = 14.0;
/// How long a person reads a command before it runs.
const COMMAND_PAUSE: Duration = Duration::from_millis(1200);
/// How long a person reads a line of output.
const LINE_PAUSE: Duration = Duration::from_millis(180);

/// A line, and when it appears.
struct Line {
    appears: Duration,
    pieces: Vec<(Style, String)>,
}

/// Colour and weight of a piece of text.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Style {
    /// One of the sixteen colours of a terminal.
    colour: Option<u8>,
    bold: bool,
    faint: bool,
}

/// What happened in a terminal.
#[derive(Default)]
pub struct Recording {
    lines: Vec<Line>,
    clock: Duration,
}

impl Recording {
    /// Takes a command, and what it printed to the terminal in this time.
    pub fn step(&mut self, command: &str, output: &str, took: Duration) {
        for (number, line) in command.trim_end().lines().enumerate() {
            let (style, prompt) = match number {
                0 => (
                    Style {
                        colour: Some(2),
                        bold: true,
                        faint: false,
                    },
                    "$ ",
                ),
                _ => (Style::default(), ""),
            };
            let command = Style {
                bold: true,
                ..Style::default()
            };
            let pieces = vec![(style, prompt.to_owned()), (command, line.to_owned())];
            self.lines.push(Line {
                appears: self.clock,
                pieces,
            });
        }
        self.clock += COMMAND_PAUSE + took;
        for pieces in shown(output) {
            self.lines.push(Line {
                appears: self.clock,
                pieces,
            });
            self.clock += LINE_PAUSE;
        }
        self.clock += COMMAND_PAUSE;
    }

    /// The drawing. Whoever shows no animations sees the end of it.
    pub fn svg(&self, title: &str) -> String {
        let width = f64::from(COLUMNS) * COLUMN_PX + 2.0 * MARGIN_PX;
        let height = self.lines.len() as f64 * LINE_PX + 2.0 * MARGIN_PX;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             role=\"img\">\n<title>{}</title>\n<style>\n\
             text {{ font: 14px ui-monospace, Menlo, Consolas, \"DejaVu Sans Mono\", monospace; \
             fill: #d8dee9; white-space: pre; animation: appear 1ms backwards }}\n\
             @keyframes appear {{ from {{ opacity: 0 }} to {{ opacity: 1 }} }}\n\
             .b {{ font-weight: bold }} .f {{ opacity: .6 }} .c1 {{ fill: #f0717a }} \
             .c2 {{ fill: #a3d977 }} .c3 {{ fill: #ebcb6b }} .c4 {{ fill: #81a1f1 }} \
             .c5 {{ fill: #d39be0 }} .c6 {{ fill: #78cde0 }}\n</style>\n\
             <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1e222a\"/>\n",
            escape(title)
        );
        for (number, line) in self.lines.iter().enumerate() {
            let y = MARGIN_PX + (number as f64 + 0.75) * LINE_PX;
            let delay = line.appears.as_secs_f64();
            let _ = write!(
                svg,
                "<text x=\"{MARGIN_PX}\" y=\"{y:.1}\" style=\"animation-delay:{delay:.2}s\">"
            );
            for (style, text) in &line.pieces {
                match style.classes() {
                    classes if classes.is_empty() => svg += &escape(text),
                    classes => {
                        let text = escape(text);
                        let _ = write!(svg, "<tspan class=\"{classes}\">{text}</tspan>");
                    }
                }
            }
            svg += "</text>\n";
        }
        svg + "</svg>\n"
    }
}

impl Style {
    fn classes(self) -> String {
        let colour = self.colour.map(|colour| format!("c{}", colour % 8));
        let classes = [
            colour,
            self.bold.then(|| "b".to_owned()),
            self.faint.then(|| "f".to_owned()),
        ];
        let classes: Vec<String> = classes.into_iter().flatten().collect();
        classes.join(" ")
    }

    /// Takes a number of a `CSI … m` sequence.
    fn take(&mut self, code: &str) {
        match code.parse::<u8>().unwrap_or(0) {
            0 => *self = Self::default(),
            1 => self.bold = true,
            2 => self.faint = true,
            22 => (self.bold, self.faint) = (false, false),
            code @ 30..=37 => self.colour = Some(code - 30),
            code @ 90..=97 => self.colour = Some(code - 90),
            39 => self.colour = None,
            _ => {}
        }
    }
}

/// The lines that stay on a terminal after this was printed to it: a carriage return writes over a
/// line, and of control sequences those count that colour, that clear a line, and that go up.
fn shown(output: &str) -> Vec<Vec<(Style, String)>> {
    let mut lines: Vec<Vec<(Style, char)>> = vec![Vec::new()];
    let (mut row, mut column, mut style) = (0, 0, Style::default());
    let mut rest = output.chars();
    while let Some(c) = rest.next() {
        match c {
            '\n' => {
                row += 1;
                column = 0;
                if row == lines.len() {
                    lines.push(Vec::new());
                }
            }
            '\r' => column = 0,
            '\x1b' => {
                let mut parameters = String::new();
                let mut last = ' ';
                for c in rest.by_ref().skip_while(|&c| c == '[') {
                    last = c;
                    if c.is_ascii_alphabetic() {
                        break;
                    }
                    parameters.push(c);
                }
                match last {
                    'm' => parameters.split(';').for_each(|code| style.take(code)),
                    'K' => lines[row].clear(),
                    'A' => row = row.saturating_sub(parameters.parse().unwrap_or(1)),
                    _ => {}
                }
            }
            c => {
                let line = &mut lines[row];
                line.resize(line.len().max(column + 1), (Style::default(), ' '));
                line[column] = (style, c);
                column += 1;
            }
        }
    }
    if lines.last().is_some_and(Vec::is_empty) {
        lines.pop();
    }
    let pieces = |line: Vec<(Style, char)>| {
        let mut pieces: Vec<(Style, String)> = Vec::new();
        for (style, c) in line {
            match pieces.last_mut() {
                Some((last, text)) if *last == style => text.push(c),
                _ => pieces.push((style, c.to_string())),
            }
        }
        pieces
    };
    lines.into_iter().map(pieces).collect()
}

fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_over_is_gone_and_colours_stay() {
        let lines = shown("10%\r\x1b[2K\x1b[31mred\x1b[0m <b>\r\nnext\r\n");
        let text = |line: &Vec<(Style, String)>| -> String {
            line.iter().map(|(_, text)| text.as_str()).collect()
        };
        let texts: Vec<String> = lines.iter().map(text).collect();
        assert_eq!(texts, ["red <b>", "next"]);
        assert_eq!(lines[0][0].0.colour, Some(1));
        let mut recording = Recording::default();
        recording.step("echo", "\x1b[31mred\x1b[0m <b>\n", Duration::ZERO);
        let svg = recording.svg("a & b");
        assert!(
            svg.contains("<tspan class=\"c1\">red</tspan> &lt;b&gt;</text>"),
            "{svg}"
        );
    }
}
