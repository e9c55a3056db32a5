//! Columns under headings.

use std::fmt;

/// Columns under headings, as wide as what is in them.
pub struct Table {
    rows: Vec<Vec<String>>,
    /// Which columns are flush right.
    right: Vec<bool>,
}

impl Table {
    /// An empty table; a heading that ends in `>` has its column flush right.
    pub fn new(headings: &[&str]) -> Self {
        let heading = |text: &&str| text.trim_end_matches('>').to_owned();
        Self {
            rows: vec![headings.iter().map(heading).collect()],
            right: headings.iter().map(|text| text.ends_with('>')).collect(),
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.right.len()).map(width).collect();
        for (number, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for ((cell, &width), &right) in row.iter().zip(&widths).zip(&self.right) {
                if right {
                    line.push_str(&format!("{cell:>width$}  "));
                } else {
                    line.push_str(&format!("{cell:<width$}  "));
                }
            }
            writeln!(f, "{}", line.trim_end())?;
            if number == 0 {
                let rule = widths.iter().sum::<usize>() + 2 * (widths.len() - 1);
                writeln!(f, "{}", "-".repeat(rule))?;
            }
        }
        Ok(())
    }
}
