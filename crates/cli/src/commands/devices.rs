//! `tabane devices`

use clap::Args;
use serde_json::{Map, Value, json};
use tabane_engine::gpu::{self, Error, Unit};

use crate::args::Global;
use crate::exit::{Exit, Result};
use crate::output::{Output, Table};

/// Show what hashes here, and how fast: cores and a graphics card
#[derive(Args)]
#[command(after_help = "\
Rates are measured now, of many messages of 4 KiB in memory: by one core, and by the card, its bus \
included. A card is an NVIDIA one whose driver is installed; that there is none is no error. With \
--gpu=auto it takes the work that it finishes first, with --gpu=only all that it can take, with \
--gpu=off none.

No repository and no password are needed. With --json, prints one object a unit.

Examples:
  tabane devices
  tabane devices --json")]
pub struct Devices {}

impl Devices {
    /// Runs `tabane devices`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let card = gpu::open();
        let bus = card
            .as_ref()
            .ok()
            .and_then(|card| card.bus_bytes_per_s().ok());
        let mut output = Output::new();
        if global.json {
            output.json(&json!({
                "message_type": "cores",
                "count": cores,
                "bytes_per_s_of_one": rates_json(&gpu::core_rates()),
            }))?;
            output.json(&card_json(card, bus))?;
        } else {
            print(&mut output, cores, card, bus)?;
        }
        output.finish()?;
        Ok(Exit::Success)
    }
}

fn rates_json(rates: &[(&str, f64)]) -> Value {
    let rates = rates
        .iter()
        .map(|(name, rate)| ((*name).to_owned(), json!(rate.round())));
    Value::Object(rates.collect::<Map<_, _>>())
}

fn card_json(card: std::result::Result<&Unit, Error>, bus: Option<(f64, f64)>) -> Value {
    match card {
        Ok(card) => json!({
            "message_type": "card",
            "name": card.properties().name,
            "multiprocessors": card.properties().multiprocessors,
            "memory_bytes": card.properties().memory,
            "bytes_per_s": rates_json(&card.rates()),
            "bus_to_card_bytes_per_s": bus.map(|bus| bus.0.round()),
            "bus_from_card_bytes_per_s": bus.map(|bus| bus.1.round()),
        }),
        Err(error) => json!({ "message_type": "card", "missing": error.to_string() }),
    }
}

fn print(
    output: &mut Output,
    cores: usize,
    card: std::result::Result<&Unit, Error>,
    bus: Option<(f64, f64)>,
) -> Result<()> {
    let core_rates = gpu::core_rates();
    let mut headings = vec!["unit".to_owned()];
    headings.extend(core_rates.iter().map(|(name, _)| format!("{name} GB/s>")));
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Table::new(&headings);
    let mut row = |unit: String, rates: &[(&str, f64)]| {
        let rates = rates.iter().map(|(_, rate)| format!("{:.1}", rate / 1e9));
        table.row(std::iter::once(unit).chain(rates).collect());
    };
    row(format!("one core of {cores}"), &core_rates);
    if let Ok(card) = card {
        row(card.properties().name.clone(), &card.rates());
    }
    table.print(output)?;
    match (card, bus) {
        (Ok(_), Some((to, from))) => output.line(format!(
            "The card's bus: {:.1} GB/s to it, {:.1} GB/s from it.",
            to / 1e9,
            from / 1e9
        )),
        (Ok(_), None) => output.line("The card's bus could not be measured."),
        (Err(error), _) => output.line(format!("No graphics card: {error}.")),
    }
}
