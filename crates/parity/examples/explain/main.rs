//! Draws the code for a number of targets, its repairs and its transfers, with what they cost.
//!
//! ```sh
//! cargo run -p tabane-parity --example explain -- -n 7 --lost 2,5
//! cargo run -p tabane-parity --example explain -- --help
//! ```

mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use serde_json::{Value, json};
use tabane_parity::schedule::{Costs, Fault, Kind, Node, Schedule, fewest_transfers};
use tabane_parity::{Content, Layout, Step, encode_plan, fewest_reads, repair_plan, update_plan};

use table::Table;

/// The most targets that are drawn.
const TARGETS_MAX: usize = 64;

/// What is printed, or why the options make no sense.
type Result<T> = std::result::Result<T, String>;

/// Draw the code for a number of targets, and what it costs
#[derive(Parser)]
#[command(
    name = "explain",
    max_term_width = 100,
    after_help = "\
Draws a stripe: which cell holds which data block (letters, or numbers from 0 if there are many), \
and on which diagonal it lies; the parities, P of rows and Q of diagonals; and how these are \
computed. + is exclusive or. With --lost, how the cells of these targets are computed again, and \
from how little. Then what it costs to let the targets' nodes compute the parities while data pass \
through them: transfers between nodes, and what the busiest node receives and sends, by what the \
client sends; with --schedule, every transfer of one of these ways."
)]
struct Options {
    /// How many targets there are, 3 to 64
    #[arg(short = 'n', long, value_name = "N", default_value_t = 5)]
    targets: usize,
    /// Show how these targets (one or two, numbered from 0) are rebuilt
    #[arg(long, value_name = "TARGET,…", value_delimiter = ',')]
    lost: Vec<usize>,
    /// Show every transfer of this schedule: direct, chain, shared or coded
    #[arg(long, value_name = "NAME")]
    schedule: Option<Kind>,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    match explain(&Options::parse()) {
        // A reader that has seen enough is no error.
        Ok(page) => match io::stdout().write_all(page.as_bytes()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                eprintln!("explain: cannot write to standard output: {error}");
                ExitCode::FAILURE
            }
            _ => ExitCode::SUCCESS,
        },
        Err(why) => {
            eprintln!("explain: {why}");
            ExitCode::from(2)
        }
    }
}

/// The page that the options ask for.
fn explain(options: &Options) -> Result<String> {
    if options.targets > TARGETS_MAX {
        return Err(format!(
            "{} targets are more than can be drawn: {TARGETS_MAX} at most",
            options.targets
        ));
    }
    let layout = Layout::new(options.targets).map_err(|error| error.to_string())?;
    let picture = Picture {
        lost: options.lost.clone(),
        layout,
    };
    // Refuses what makes no sense before anything is drawn.
    repair_plan(&picture.layout, &picture.lost).map_err(|error| error.to_string())?;
    let schedules = schedules(&picture.layout);
    if let Some(wanted) = options.schedule
        && !schedules.iter().any(|(kind, _)| *kind == wanted)
    {
        return Err(format!(
            "no {wanted} schedule is known for {} targets",
            options.targets
        ));
    }
    let mut page = Page::default();
    if options.json {
        picture.json(&mut page)?;
    } else {
        picture.text(&mut page)?;
    }
    costs(&picture.layout, &schedules, options.json, &mut page);
    for (_, schedule) in schedules
        .iter()
        .filter(|(kind, _)| Some(*kind) == options.schedule)
    {
        picture.transfers(schedule, options.json, &mut page)?;
    }
    Ok(page.0)
}

/// Lines of text, or of JSON.
#[derive(Default)]
struct Page(String);

impl Page {
    fn line(&mut self, text: impl AsRef<str>) {
        self.0.push_str(text.as_ref());
        self.0.push('\n');
    }

    fn json(&mut self, value: &Value) {
        self.line(value.to_string());
    }

    fn table(&mut self, table: &Table) {
        self.0.push_str(&table.to_string());
    }
}

/// `1 cell`, `16 cells`.
fn count(number: usize, word: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {word}{plural}")
}

/// Every schedule that there is.
fn schedules(layout: &Layout) -> Vec<(Kind, Schedule)> {
    let of_kind = |kind: Kind| Some((kind, kind.schedule(layout)?));
    Kind::ALL.into_iter().filter_map(of_kind).collect()
}

/// A layout, with lost targets.
struct Picture {
    layout: Layout,
    lost: Vec<usize>,
}

impl Picture {
    /// The label of a data block: a letter, or a number if there are more than 26 blocks.
    fn block(&self, block: usize) -> String {
        match u8::try_from(block) {
            Ok(number) if self.layout.data_cells().len() <= 26 => {
                char::from(b'A' + number).to_string()
            }
            _ => block.to_string(),
        }
    }

    /// What a cell holds.
    fn name(&self, cell: usize) -> String {
        match self.layout.content(cell) {
            Content::Data(block) => self.block(block),
            Content::RowParity(row) => format!("P{row}"),
            Content::DiagonalParity(diagonal) => format!("Q{diagonal}"),
        }
    }

    fn names(&self, cells: &[usize]) -> String {
        let names: Vec<String> = cells.iter().map(|&cell| self.name(cell)).collect();
        names.join(" + ")
    }

    /// How many parities change with one block: on average, and at most.
    fn updates(&self) -> (f64, usize) {
        let blocks = self.layout.data_cells().len();
        let changed = |block| update_plan(&self.layout, &[block]).steps.len();
        let changed: Vec<usize> = (0..blocks).map(changed).collect();
        let mean = changed.iter().sum::<usize>() as f64 / blocks as f64;
        (mean, changed.into_iter().max().unwrap_or(0))
    }

    /// The cells read to rebuild, those that are left, and what no plan can do with less than.
    fn reads(&self, lost: &[usize]) -> Result<(usize, usize, usize)> {
        let reads = repair_plan(&self.layout, lost)
            .map_err(|error| error.to_string())?
            .reads()
            .len();
        let left = self.layout.cells() - lost.len() * self.layout.rows();
        Ok((
            reads,
            left,
            fewest_reads(&self.layout, lost).map_err(|error| error.to_string())?,
        ))
    }

    fn text(&self, page: &mut Page) -> Result<()> {
        let layout = &self.layout;
        let (roles, rows, data) = (layout.roles(), layout.rows(), layout.data_cells().len());
        page.line(format!(
            "{roles} targets, any two of which may be lost. A stripe has {} of equal size: {}, \
             {} parities; {:.1}% is data.",
            count(layout.cells(), "cell"),
            count(data, "data block"),
            2 * rows,
            100.0 * data as f64 / layout.cells() as f64,
        ));
        page.line(format!(
            "A/0 is block A on diagonal 0 (row + target, modulo {}); P0 the parity of row 0, \
             Q0 that of diagonal 0.{}",
            layout.prime(),
            if self.lost.is_empty() {
                ""
            } else {
                " [Lost] cells are in brackets."
            },
        ));
        page.line("");
        let headings: Vec<String> = (0..roles).map(|role| format!("target {role}")).collect();
        let headings: Vec<&str> = [""]
            .into_iter()
            .chain(headings.iter().map(String::as_str))
            .collect();
        let mut table = Table::new(&headings);
        for row in 0..rows {
            let cell = |role: usize| {
                let cell = layout.cell(role, row);
                let on = layout
                    .diagonal_of(cell)
                    .map(|diagonal| format!("/{diagonal}"));
                let text = self.name(cell) + &on.unwrap_or_default();
                if self.lost.contains(&role) {
                    format!("[{text}]")
                } else {
                    text
                }
            };
            table.row(
                [format!("row {row}")]
                    .into_iter()
                    .chain((0..roles).map(cell))
                    .collect(),
            );
        }
        page.table(&table);

        let encode = encode_plan(layout);
        page.line("");
        page.line(format!(
            "Encoding takes {:.2} exclusive ors a data block:",
            encode.xors() as f64 / data as f64
        ));
        self.steps(&encode.steps, page);
        let (mean, most) = self.updates();
        page.line(format!(
            "A data block that changes changes {mean:.2} parities on average, {most} at most."
        ));
        page.line("");
        self.repairs(page)
    }

    fn steps(&self, steps: &[Step], page: &mut Page) {
        for step in steps {
            page.line(format!(
                "  {} = {}",
                self.name(step.into),
                self.names(&step.from)
            ));
        }
    }

    fn repairs(&self, page: &mut Page) -> Result<()> {
        let diagonal = self.layout.diagonal_role();
        if self.lost.is_empty() {
            let one: BTreeSet<usize> = (0..diagonal)
                .map(|role| Ok(self.reads(&[role])?.0))
                .collect::<Result<_>>()?;
            let one: Vec<String> = [one.first(), one.last()]
                .into_iter()
                .flatten()
                .map(usize::to_string)
                .collect();
            let (parity, left, _) = self.reads(&[diagonal])?;
            let (two, left_of_two, _) = self.reads(&[0, 1])?;
            let range = if one[0] == one[1] {
                one[0].clone()
            } else {
                one.join(" to ")
            };
            page.line(format!(
                "To rebuild one target takes {range} of the {left} cells that are left \
                 ({parity} for target {diagonal}), two targets {two} of {left_of_two}.",
            ));
            return Ok(());
        }
        let (reads, left, fewest) = self.reads(&self.lost)?;
        let names: Vec<String> = self.lost.iter().map(usize::to_string).collect();
        let bound = if reads == fewest {
            "the fewest possible".to_owned()
        } else {
            format!("a simple bound is {fewest}")
        };
        page.line(format!(
            "To rebuild target{} {} takes {reads} of the {left} cells that are left ({bound}):",
            if names.len() > 1 { "s" } else { "" },
            names.join(" and "),
        ));
        let plan = repair_plan(&self.layout, &self.lost).map_err(|error| error.to_string())?;
        self.steps(&plan.steps, page);
        Ok(())
    }

    fn json(&self, page: &mut Page) -> Result<()> {
        let layout = &self.layout;
        let encode = encode_plan(layout);
        let (mean, most) = self.updates();
        page.json(&json!({
            "message_type": "layout",
            "targets": layout.roles(),
            "prime": layout.prime(),
            "rows": layout.rows(),
            "cells": layout.cells(),
            "data_blocks": layout.data_cells().len(),
            "encode_xors": encode.xors(),
            "update_parities_mean": mean,
            "update_parities_most": most,
        }));
        for cell in 0..layout.cells() {
            let (content, number) = match layout.content(cell) {
                Content::Data(block) => ("data", block),
                Content::RowParity(row) => ("row_parity", row),
                Content::DiagonalParity(diagonal) => ("diagonal_parity", diagonal),
            };
            page.json(&json!({
                "message_type": "cell",
                "cell": cell,
                "target": layout.role_of(cell),
                "row": layout.row_of(cell),
                "content": content,
                "number": number,
                "diagonal": layout.diagonal_of(cell),
                "lost": self.lost.contains(&layout.role_of(cell)),
            }));
        }
        let mut steps = |plan: &str, steps: &[Step]| {
            for step in steps {
                page.json(&json!({
                    "message_type": "step",
                    "plan": plan,
                    "cell": step.into,
                    "of_cells": step.from,
                }));
            }
        };
        steps("encode", &encode.steps);
        if self.lost.is_empty() {
            return Ok(());
        }
        let repair = repair_plan(layout, &self.lost).map_err(|error| error.to_string())?;
        steps("repair", &repair.steps);
        let (reads, left, fewest) = self.reads(&self.lost)?;
        page.json(&json!({
            "message_type": "repair",
            "lost": self.lost,
            "reads": reads,
            "cells_left": left,
            "reads_bound": fewest,
            "xors": repair.xors(),
        }));
        Ok(())
    }

    fn transfers(&self, schedule: &Schedule, json: bool, page: &mut Page) -> Result<()> {
        let wrong = |fault: Fault| fault.to_string();
        schedule.verify(&self.layout).map_err(wrong)?;
        let contents = schedule.contents(&self.layout).map_err(wrong)?;
        let mut table = Table::new(&["#>", "from", "to", "made of", "carries"]);
        for (number, (transfer, blocks)) in schedule.transfers.iter().zip(contents).enumerate() {
            if json {
                let (from, made_of) = match transfer.from {
                    Node::Client => (None, "of_blocks"),
                    Node::Role(role) => (Some(role), "of_transfers"),
                };
                page.json(&json!({
                    "message_type": "transfer",
                    "number": number,
                    "from": from,
                    "to": transfer.to,
                    made_of: transfer.of,
                    "blocks": blocks,
                }));
                continue;
            }
            let blocks: Vec<String> = blocks.into_iter().map(|block| self.block(block)).collect();
            let (from, of) = match transfer.from {
                Node::Client => ("client".to_owned(), String::new()),
                Node::Role(role) => (role.to_string(), numbers(&transfer.of)),
            };
            table.row(vec![
                number.to_string(),
                from,
                transfer.to.to_string(),
                of,
                blocks.join(" + "),
            ]);
        }
        if json {
            for (cell, of) in schedule.stores.iter().enumerate() {
                page.json(&json!({"message_type": "store", "cell": cell, "of_transfers": of}));
            }
            return Ok(());
        }
        page.line("");
        page.table(&table);
        page.line("");
        page.line("What the targets store of them:");
        for (cell, of) in schedule.stores.iter().enumerate() {
            page.line(format!(
                "  {} at {}: {}",
                self.name(cell),
                self.layout.role_of(cell),
                numbers(of)
            ));
        }
        Ok(())
    }
}

/// Numbers of transfers.
fn numbers(of: &[usize]) -> String {
    let numbers: Vec<String> = of.iter().map(|number| format!("#{number}")).collect();
    numbers.join(" + ")
}

/// What the schedules cost.
fn costs(layout: &Layout, schedules: &[(Kind, Schedule)], json: bool, page: &mut Page) {
    let fewest = fewest_transfers(layout);
    let mut table = Table::new(&[
        "schedule",
        "client sends>",
        "goodput>",
        "transfers>",
        "hops>",
        "one stripe in/out>",
        "turns in/out>",
        "rotating in/out>",
    ]);
    for (kind, schedule) in schedules {
        let costs: Costs = schedule.costs(layout);
        if json {
            page.json(&json!({
                "message_type": "schedule",
                "schedule": kind.name(),
                "client_sends": costs.client,
                "goodput": costs.goodput(),
                "transfers": costs.transfers,
                "transfers_bound": fewest,
                "hops": costs.hops,
                "node_xors": costs.xors,
                "busiest_ingress": costs.busiest_ingress(),
                "busiest_egress": costs.busiest_egress(),
                "turning_ingress": costs.turning_ingress(),
                "turning_egress": costs.turning_egress(),
                "rotating_ingress": costs.rotating_ingress(),
                "rotating_egress": costs.rotating_egress(),
            }));
            continue;
        }
        let pair = |ingress: f64, egress: f64| format!("{ingress:.3}/{egress:.3}");
        table.row(vec![
            kind.to_string(),
            costs.client.to_string(),
            format!("{:.3}", costs.goodput()),
            costs.transfers.to_string(),
            costs.hops.to_string(),
            pair(costs.busiest_ingress(), costs.busiest_egress()),
            pair(costs.turning_ingress(), costs.turning_egress()),
            pair(costs.rotating_ingress(), costs.rotating_egress()),
        ]);
    }
    if json {
        return;
    }
    page.line("");
    page.line(format!(
        "Ways to let nodes compute parities. No way takes less than {}; \
         in/out is what the busiest node receives and",
        count(fewest, "transfer"),
    ));
    page.line(
        "sends, 1 being the data: in one stripe; where nodes take turns with all but the last \
         role; where they rotate through all.",
    );
    page.line("");
    page.table(&table);
}
