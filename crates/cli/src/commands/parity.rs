//! `tabane parity`

use std::collections::BTreeSet;

use clap::{Args, Subcommand};
use serde_json::json;
use tabane_parity::schedule::{Costs, Fault, Kind, Node, Schedule, fewest_transfers};
use tabane_parity::{
    Content, Error, Layout, Step, encode_plan, fewest_reads, repair_plan, update_plan,
};

use crate::args::Global;
use crate::exit::{Exit, Failure, Result};
use crate::format;
use crate::output::{Output, Table};

/// The most targets that are drawn.
const MOST_TARGETS: usize = 64;

/// Show how data are spread over targets so that any two may be lost
#[derive(Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  tabane parity explain -n 7
  tabane help parity explain")]
pub struct Parity {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Draw the code for a number of targets, and what it costs
    Explain(Explain),
}

#[derive(Args)]
#[command(after_help = "\
Draws a stripe: which cell holds which data block (letters, or numbers from 0 if there are many), and on which diagonal it \
lies; the parities, P of rows and Q of diagonals; and how these are computed. + is exclusive or. With --lost, how the \
cells of these targets are computed again, and from how little. Then what it costs to let the targets' nodes compute the \
parities while data pass through them: transfers between nodes, and what the busiest node receives and sends, by what \
the client sends; with --schedule, every transfer of one of these ways.

Nothing is read or written, and no repository is needed.

Examples:
  tabane parity explain -n 5
  tabane parity explain -n 7 --lost 2,5
  tabane parity explain -n 5 --schedule coded
  tabane parity explain -n 9 --json")]
struct Explain {
    /// How many targets there are, 3 to 64
    #[arg(short = 'n', long, value_name = "N", default_value_t = 5)]
    targets: usize,
    /// Show how these targets (one or two, numbered from 0) are rebuilt
    #[arg(long, value_name = "TARGET,…", value_delimiter = ',')]
    lost: Vec<usize>,
    /// Show every transfer of this schedule: direct, chain, shared or coded
    #[arg(long, value_name = "NAME")]
    schedule: Option<Kind>,
}

impl Parity {
    /// Does it.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let Action::Explain(explain) = self.action;
        explain.run(global)
    }
}

impl Explain {
    fn run(self, global: &Global) -> Result<Exit> {
        if self.targets > MOST_TARGETS {
            let text = format!(
                "{} targets are more than can be drawn: {MOST_TARGETS} at most",
                self.targets
            );
            return Err(Failure::Usage(text));
        }
        let layout = Layout::new(self.targets).map_err(usage)?;
        let picture = Picture {
            lost: self.lost,
            layout,
        };
        // Refuses what makes no sense before anything is printed.
        repair_plan(&picture.layout, &picture.lost).map_err(usage)?;
        let schedules = schedules(&picture.layout);
        if let Some(wanted) = self.schedule
            && !schedules.iter().any(|(kind, _)| *kind == wanted)
        {
            let text = format!("no {wanted} schedule is known for {} targets", self.targets);
            return Err(Failure::Usage(text));
        }
        let mut output = Output::new();
        if global.json {
            picture.json(&mut output)?;
        } else {
            picture.text(&mut output)?;
        }
        costs(&picture.layout, &schedules, global.json, &mut output)?;
        for (_, schedule) in schedules
            .iter()
            .filter(|(kind, _)| Some(*kind) == self.schedule)
        {
            picture.transfers(schedule, global.json, &mut output)?;
        }
        output.finish()?;
        Ok(Exit::Success)
    }
}

fn usage(error: Error) -> Failure {
    Failure::Usage(error.to_string())
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
    /// A data block: a letter, or a number where there are more.
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
            .map_err(usage)?
            .reads()
            .len();
        let left = self.layout.cells() - lost.len() * self.layout.rows();
        Ok((
            reads,
            left,
            fewest_reads(&self.layout, lost).map_err(usage)?,
        ))
    }

    fn text(&self, output: &mut Output) -> Result<()> {
        let layout = &self.layout;
        let (roles, rows, data) = (layout.roles(), layout.rows(), layout.data_cells().len());
        output.line(format!(
            "{roles} targets, any two of which may be lost. A stripe has {} of equal size: {}, {} parities; {:.1}% is data.",
            format::count(layout.cells() as u64, "cell"),
            format::count(data as u64, "data block"),
            2 * rows,
            100.0 * data as f64 / layout.cells() as f64,
        ))?;
        output.line(format!(
            "A/0 is block A on diagonal 0 (row + target, modulo {}); P0 the parity of row 0, Q0 that of diagonal 0.{}",
            layout.prime(),
            if self.lost.is_empty() { "" } else { " [Lost] cells are in brackets." },
        ))?;
        output.line("")?;
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
                match self.lost.contains(&role) {
                    true => format!("[{text}]"),
                    false => text,
                }
            };
            table.row(
                [format!("row {row}")]
                    .into_iter()
                    .chain((0..roles).map(cell))
                    .collect(),
            );
        }
        table.print(output)?;

        let encode = encode_plan(layout);
        output.line("")?;
        output.line(format!(
            "Encoding takes {:.2} exclusive ors a data block:",
            encode.xors() as f64 / data as f64
        ))?;
        self.steps(&encode.steps, output)?;
        let (mean, most) = self.updates();
        output.line(format!(
            "A data block that changes changes {mean:.2} parities on average, {most} at most."
        ))?;
        output.line("")?;
        self.repairs(output)
    }

    fn steps(&self, steps: &[Step], output: &mut Output) -> Result<()> {
        for step in steps {
            output.line(format!(
                "  {} = {}",
                self.name(step.into),
                self.names(&step.from)
            ))?;
        }
        Ok(())
    }

    fn repairs(&self, output: &mut Output) -> Result<()> {
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
            return output.line(format!(
                "To rebuild one target takes {range} of the {left} cells that are left ({parity} for target {diagonal}), \
                 two targets {two} of {left_of_two}.",
            ));
        }
        let (reads, left, fewest) = self.reads(&self.lost)?;
        let names: Vec<String> = self.lost.iter().map(usize::to_string).collect();
        let bound = match reads == fewest {
            true => "the fewest possible".to_owned(),
            false => format!("a simple bound is {fewest}"),
        };
        output.line(format!(
            "To rebuild target{} {} takes {reads} of the {left} cells that are left ({bound}):",
            if names.len() > 1 { "s" } else { "" },
            names.join(" and "),
        ))?;
        let plan = repair_plan(&self.layout, &self.lost).map_err(usage)?;
        self.steps(&plan.steps, output)
    }

    fn json(&self, output: &mut Output) -> Result<()> {
        let layout = &self.layout;
        let encode = encode_plan(layout);
        let (mean, most) = self.updates();
        output.json(&json!({
            "message_type": "layout",
            "targets": layout.roles(),
            "prime": layout.prime(),
            "rows": layout.rows(),
            "cells": layout.cells(),
            "data_blocks": layout.data_cells().len(),
            "encode_xors": encode.xors(),
            "update_parities_mean": mean,
            "update_parities_most": most,
        }))?;
        for cell in 0..layout.cells() {
            let (content, number) = match layout.content(cell) {
                Content::Data(block) => ("data", block),
                Content::RowParity(row) => ("row_parity", row),
                Content::DiagonalParity(diagonal) => ("diagonal_parity", diagonal),
            };
            output.json(&json!({
                "message_type": "cell",
                "cell": cell,
                "target": layout.role_of(cell),
                "row": layout.row_of(cell),
                "content": content,
                "number": number,
                "diagonal": layout.diagonal_of(cell),
                "lost": self.lost.contains(&layout.role_of(cell)),
            }))?;
        }
        let mut steps = |plan: &str, steps: &[Step]| {
            steps.iter().try_for_each(|step| {
                let line = json!({"message_type": "step", "plan": plan, "cell": step.into, "of_cells": step.from});
                output.json(&line)
            })
        };
        steps("encode", &encode.steps)?;
        if self.lost.is_empty() {
            return Ok(());
        }
        let repair = repair_plan(layout, &self.lost).map_err(usage)?;
        steps("repair", &repair.steps)?;
        let (reads, left, fewest) = self.reads(&self.lost)?;
        output.json(&json!({
            "message_type": "repair",
            "lost": self.lost,
            "reads": reads,
            "cells_left": left,
            "reads_bound": fewest,
            "xors": repair.xors(),
        }))
    }

    fn transfers(&self, schedule: &Schedule, json: bool, output: &mut Output) -> Result<()> {
        let wrong = |fault: Fault| Failure::Other(fault.to_string());
        schedule.verify(&self.layout).map_err(wrong)?;
        let contents = schedule.contents(&self.layout).map_err(wrong)?;
        let mut table = Table::new(&["#>", "from", "to", "made of", "carries"]);
        for (number, (transfer, blocks)) in schedule.transfers.iter().zip(contents).enumerate() {
            if json {
                let (from, made_of) = match transfer.from {
                    Node::Client => (None, "of_blocks"),
                    Node::Role(role) => (Some(role), "of_transfers"),
                };
                output.json(&json!({
                    "message_type": "transfer",
                    "number": number,
                    "from": from,
                    "to": transfer.to,
                    made_of: transfer.of,
                    "blocks": blocks,
                }))?;
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
                output.json(&json!({"message_type": "store", "cell": cell, "of_transfers": of}))?;
            }
            return Ok(());
        }
        output.line("")?;
        table.print(output)?;
        output.line("")?;
        output.line("What the targets store of them:")?;
        for (cell, of) in schedule.stores.iter().enumerate() {
            output.line(format!(
                "  {} at {}: {}",
                self.name(cell),
                self.layout.role_of(cell),
                numbers(of)
            ))?;
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
fn costs(
    layout: &Layout,
    schedules: &[(Kind, Schedule)],
    json: bool,
    output: &mut Output,
) -> Result<()> {
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
            output.json(&json!({
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
            }))?;
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
        return Ok(());
    }
    output.line("")?;
    output.line(format!(
        "Ways to let nodes compute parities. No way takes less than {}; in/out is what the busiest node receives and",
        format::count(fewest as u64, "transfer"),
    ))?;
    output.line(
        "sends, 1 being the data: in one stripe; where nodes take turns with all but the last role; where they rotate through all.",
    )?;
    output.line("")?;
    table.print(output)
}
