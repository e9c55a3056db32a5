//! Bars beside each other, drawn from a table of a Markdown page.

use std::fmt::Write;
use std::path::Path;

/// Colours of the programs, ours first.
const COLOURS: [&str; 6] = [
    "#2f6fdf", "#9aa5b1", "#c2b280", "#b58db6", "#8fb996", "#d99a6c",
];
/// Width of the names of rows, of a bar at most, and of all, in pixels.
const NAMES_PX: f64 = 190.0;
const BAR_PX: f64 = 420.0;
const WIDTH_PX: f64 = 720.0;
/// Height of a bar, in pixels.
const HEIGHT_PX: f64 = 13.0;

/// The table under this heading of a page: names of columns, then rows. The first of a row is its
/// name; cells that are no number are left out.
pub struct Table {
    /// Names of the columns but the first.
    pub columns: Vec<String>,
    /// Names of the rows, with a value for each column.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
}

/// The first table behind `mark` in a page.
///
/// # Panics
///
/// If there is none.
pub fn table(page: &str, mark: &str) -> Table {
    let at = page.find(mark).unwrap_or_else(|| panic!("no {mark:?}"));
    let lines = page[at..].lines().skip_while(|line| !line.starts_with('|'));
    let cells = |line: &str| -> Vec<String> {
        let inner = line.trim().trim_matches('|').split('|');
        inner
            .map(|cell| cell.trim().trim_matches('`').to_owned())
            .collect()
    };
    let mut lines = lines.take_while(|line| line.starts_with('|')).map(cells);
    let columns = lines
        .next()
        .expect("a heading")
        .into_iter()
        .skip(1)
        .collect();
    let row = |cells: Vec<String>| {
        let values = cells.iter().skip(1);
        let values = values.map(|cell| cell.trim_matches('*').parse().ok());
        (cells[0].clone(), values.collect())
    };
    let rows = lines.skip(1).map(row).collect();
    Table { columns, rows }
}

/// README's bars: whole backups by Tabane and its peers, from the page of results.
pub fn peers() -> String {
    let page = super::read(Path::new("docs/results.md"));
    let table = table(&page, "one run of all four");
    let title = "3.8 GB in 162,693 files, two cores, in memory: seconds (less is better)";
    bars(&table, 6, title, "s")
}

/// Draws the first `rows` rows of a table: for each a group of bars, one a column, as long as the
/// value is of the greatest of its row.
pub fn bars(table: &Table, rows: usize, title: &str, unit: &str) -> String {
    let group = HEIGHT_PX * table.columns.len() as f64 + 16.0;
    let shown = &table.rows[..rows.min(table.rows.len())];
    let height = 34.0 + group * shown.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH_PX} {height}\" \
         role=\"img\">\n<title>{title}</title>\n<style>text {{ font: 12px system-ui, sans-serif; \
         fill: #24292f }} .t {{ font-weight: bold; font-size: 14px }}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text class=\"t\" x=\"8\" y=\"20\">{title}</text>\n"
    );
    for (number, (name, values)) in shown.iter().enumerate() {
        let top = 34.0 + group * number as f64;
        let greatest = values.iter().flatten().fold(0.0_f64, |a, &b| a.max(b));
        let middle = top + HEIGHT_PX * (table.columns.len() as f64 / 2.0 + 0.3);
        let _ = writeln!(svg, "<text x=\"8\" y=\"{middle:.1}\">{name}</text>");
        for (column, value) in values.iter().enumerate() {
            let Some(value) = value else { continue };
            let y = top + HEIGHT_PX * column as f64;
            let length = BAR_PX * value / greatest;
            let (height, colour) = (HEIGHT_PX - 2.0, COLOURS[column % COLOURS.len()]);
            let (x, base) = (NAMES_PX + length + 5.0, y + HEIGHT_PX - 3.0);
            let _ = writeln!(
                svg,
                "<rect x=\"{NAMES_PX}\" y=\"{y:.1}\" width=\"{length:.1}\" height=\"{height}\" \
                 fill=\"{colour}\"/><text x=\"{x:.1}\" y=\"{base:.1}\">{value} {unit} {}</text>",
                table.columns[column]
            );
        }
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_the_lengths_of_a_table() {
        let page = "x\n## Here\n\n| a | us | them |\n|---|---|---|\n| one | 1 | **2** |\n| two | – \
        | 3 |\n";
        let table = table(page, "## Here");
        assert_eq!(table.columns, ["us", "them"]);
        assert_eq!(
            table.rows[0],
            ("one".to_owned(), vec![Some(1.0), Some(2.0)])
        );
        assert_eq!(table.rows[1].1, [None, Some(3.0)]);
        let svg = bars(&table, 1, "Seconds", "s");
        assert!(
            svg.contains("width=\"210.0\"") && svg.contains("width=\"420.0\""),
            "{svg}"
        );
        assert!(!svg.contains("two"));
    }
}
